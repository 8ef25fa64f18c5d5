//! Joining the job: by the launcher's environment, or alone.

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use crate::Engine;
use crate::attendant::Attendant;
use crate::engine::{GLANCES, GLANCES_SHARED};
use crate::offloading::Offload;
use crate::progress::Polling;
use crate::rendezvous::Splits;
use crate::select::Selection;
use crate::skew::Skew;
use crate::state::State;
use mica_bootstrap::BootstrapError;
use mica_channel::ChannelError;
use mica_channel::direct::{Direct, Options};
use mica_channel::offload::{self, EngineCapabilities, NoDevice};
use mica_channel::shm::Shm;
use mica_node::lock::ThreadLock;
use mica_node::park::{self, Fencing};
use mica_node::segment::{JobSegment, PREFIX_VARIABLE, SegmentError};
use mica_node::topology::level_between;
use mica_node::tunables::{self, BadValue};
use mica_policy::{PollPolicy, SkewPolicy};

/// Why a process cannot join its job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The job cannot be met.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// A tunable's value is wrong.
    #[error(transparent)]
    BadTunable(#[from] BadValue),
    /// The tuning file cannot be used.
    #[error(transparent)]
    Tuning(#[from] mica_policy::tuning::TuningError),
    /// The copy engine that was asked for is not there.
    #[error("MICA_COPY_ENGINE: {0}")]
    CopyEngine(#[from] NoDevice),
    /// The job segment cannot be joined.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The basic design's FIFOs cannot get their memory.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

impl Engine {
    /// Joins the job that the environment names, or makes a job of this process alone.
    ///
    /// # Errors
    /// When the process was started by a launcher that this version does not speak, when the environment is wrong, or
    /// when the job's memory cannot be had.
    pub fn start() -> Result<Engine, StartError> {
        tunables::check_all()?;
        let joined = mica_bootstrap::join()?;
        let mut engine = Engine::join(joined.segment, joined.rank, joined.launched)?;
        engine.manager = Mutex::new(joined.manager);
        Ok(engine)
    }

    fn join(segment: JobSegment, rank: u32, launched: bool) -> Result<Engine, StartError> {
        segment.claim(rank)?;
        // For the life of the process: rings and cells are borrowed from it until the very end.
        let segment: &'static JobSegment = Box::leak(Box::new(segment));
        let fencing = segment.fencing();
        // A sender that is not reached by the others' membarriers fences itself.
        let registered = fencing == Fencing::Sender || park::membarrier_register();
        let wake_fencing = if registered { fencing } else { Fencing::Sender };
        let shm = Shm::new(segment, rank, wake_fencing)?;
        let (costs, _) = mica_policy::tuning::in_force(
            std::env::var_os(PREFIX_VARIABLE).as_deref().map(Path::new),
        )?;
        let here = segment.place(rank);
        let peers = (0..segment.ranks()).map(|peer| {
            let level = level_between(&here, &segment.place(peer));
            (level, shm.fifo_payload_max(peer))
        });
        let selection = Selection::new(costs, peers, segment.is_oversubscribed())?;
        let poll_policy = PollPolicy::from_environment()?;
        let polling = shm.is_mixed().then(|| Box::new(Polling::new(poll_policy)));
        // A glance at one peer's ring or FIFO would go past the schedule.
        let shares_core = segment.is_oversubscribed();
        let glances = match (polling.is_some(), shares_core) {
            (true, _) => 0,
            (false, true) => GLANCES_SHARED,
            (false, false) => GLANCES,
        };
        let (spin, yields) = if segment.is_oversubscribed() {
            (
                tunables::SPIN_SHARED.number()?,
                tunables::YIELDS_SHARED.number()?,
            )
        } else {
            (tunables::SPIN.number()?, tunables::YIELDS.number()?)
        };
        let times = |n: u64| n.min(1 << 30) as u32;
        let direct = Direct::new(segment, rank, &Options::in_force()?);
        let ranks = segment.ranks() as usize;
        let mut state = State::new(
            rank,
            ranks,
            shm,
            direct,
            Splits::new(segment, rank),
            selection,
            Skew::new(SkewPolicy::from_environment()?, ranks),
        );
        state.polling = polling;
        state.offload = copy_engine(segment, rank, wake_fencing)?;
        let offloads = state.offload.is_some();
        let attended = offloads && tunables::COPY_ENGINE.choice()?.ends_with("thread");
        state.attention = attended.then_some(0);
        Ok(Engine {
            state: ThreadLock::new(state),
            segment,
            rank,
            launched,
            manager: Mutex::new(None),
            spin: times(spin),
            glances: glances.min(times(spin).max(GLANCES_SHARED)),
            shares_core,
            yields: times(yields),
            crowd: (
                times(tunables::SPIN_SHARED.number()?),
                times(tunables::YIELDS_SHARED.number()?),
            ),
            waiters: AtomicU32::new(0),
            fencing,
            offloads,
            attendant: attended.then(Attendant::default),
        })
    }
}

/// The copy engine that was asked for; `None` if that is this rank's own core.
fn copy_engine(
    segment: &'static JobSegment,
    rank: u32,
    fencing: Fencing,
) -> Result<Option<Offload>, StartError> {
    let request = tunables::COPY_ENGINE.choice()?;
    let notify = Arc::new(move || segment.block(rank).parking.0.wake(fencing));
    let engine = offload::open(request, segment, Some(notify))?;
    let own_manner = EngineCapabilities::SELF_DRIVEN | EngineCapabilities::HARDWARE;
    let min = tunables::OFFLOAD_MIN.number()? as usize;
    Ok(engine
        .capabilities()
        .intersects(own_manner)
        .then(|| Offload::new(engine, min)))
}
