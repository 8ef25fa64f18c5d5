//! Joins the job that the environment names and says who and where this process is, once it has
//! seen that all ranks of its node really share memory. For looking at a launcher by hand:
//!
//!     mpiexec -n 4 target/debug/examples/whoami [abort|vanish|exchange BYTES]

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mica_bootstrap::{Joined, exchange, join};

fn main() -> Result<(), Box<dyn Error>> {
    let Joined { segment, rank, size, nodes, manager, .. } = join()?;
    segment.claim(rank)?;
    // Every rank leaves its rank in a mark of its own, and reads those of the others.
    let word = |rank: u32| -> &AtomicU32 { &segment.marks(rank)[0] };
    word(rank).store(rank + 1000, Ordering::Release);
    let patience = Instant::now() + Duration::from_secs(30);
    for &other in segment.members() {
        while word(other).load(Ordering::Acquire) != other + 1000 {
            if Instant::now() > patience {
                return Err(format!("rank {rank} does not see what rank {other} wrote").into());
            }
            thread::yield_now();
        }
    }
    println!(
        "rank {rank} of {size} on node {} ({}), members {:?}, {} cores, place {:?}, by {} {}, \
        appnum {}, universe {:?}, one machine: {}",
        nodes.of[rank as usize],
        nodes.names[nodes.of[rank as usize] as usize],
        segment.members(),
        segment.available_cores(),
        segment.place(rank).package,
        manager.as_ref().map_or("no manager", |m| m.name()),
        manager.as_ref().map_or("", |m| &m.identity().job_id),
        segment.appnum(rank),
        manager.as_ref().and_then(|m| m.identity().universe_size),
        nodes.all_on_one_machine,
    );
    let Some(mut manager) = manager else {
        segment.block(rank).finalize();
        return Ok(());
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["exchange", bytes] => {
            let bytes: usize = bytes.parse()?;
            let mine = |rank: u32| vec![rank as u8; bytes + rank as usize];
            let all = exchange(manager.as_mut(), "many", &mine(rank))?;
            if !all.into_iter().eq((0..size).map(mine)) {
                return Err(format!("rank {rank} got other bytes than were sent").into());
            }
            println!("rank {rank} exchanged {bytes} bytes");
        }
        ["abort"] if rank + 1 == size => {
            manager.abort(7, "whoami was asked to")?;
            std::process::exit(7);
        }
        ["vanish"] if rank + 1 == size => std::process::abort(),
        ["abort" | "vanish"] => {
            // Waits for a fence to which a rank never comes, and some launchers let it pass; then
            // to be ended.
            let fence = manager.fence();
            thread::sleep(Duration::from_secs(40));
            return Err(format!("rank {rank} was left alone; the fence said {fence:?}").into());
        }
        _ => {}
    }
    segment.block(rank).finalize();
    manager.finalize()?;
    Ok(())
}
