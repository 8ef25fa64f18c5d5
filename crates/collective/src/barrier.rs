//! Barrier by messages: dissemination.

use mica_algorithms::barrier;
use mica_memory::View;

use super::bind::{WholeMessage, bind};
use super::place::RankPlace;
use super::schedule::Schedule;

/// The schedule of a barrier.
pub fn build(me: RankPlace) -> Schedule {
    let schedule = bind(WholeMessage(View::empty()), |out| barrier::dissemination(me, out));
    schedule.expect("no memory is bound")
}
