//! The processes of the simulator, which is an MPI job on Mica: `mpiexec -n R mica sim run ...`.
//!
//! Without a launcher there is one process and no MPI. The library's own crate serves here as it
//! serves `mpi.h`: the simulator is a Rust program, and needs what any MPI program needs.

use std::error::Error;

use mica_memory::{Block, Shape, View};
use mica_mpi::comm::Comm;
use mica_mpi::constants::THREAD_MULTIPLE;
use mica_mpi::pt2pt::{self, Mode};
use mica_mpi::{init, process, world};

use super::cluster_error::ClusterError;

/// Tag of all messages between host ranks.
const TAG: i32 = 1;

/// This process among those of the simulator.
#[derive(Debug)]
pub struct HostRanks {
    world: Option<Comm>,
    rank: u32,
    size: u32,
}

impl HostRanks {
    /// Does `work` as one of the simulator's processes: joins their job before, which blocks until
    /// all have, and leaves it after. If `work` fails while there are others, which would wait for
    /// this one, ends all of them.
    ///
    /// # Errors
    /// When MPI cannot start or end, and those of `work`.
    pub fn with<R>(
        work: impl FnOnce(&mut HostRanks) -> Result<R, Box<dyn Error>>,
    ) -> Result<R, Box<dyn Error>> {
        let mut hosts = HostRanks::join()?;
        let outcome = work(&mut hosts);
        match &outcome {
            Err(error) if hosts.size() > 1 => hosts.abort(&**error),
            _ => hosts.leave()?,
        }
        outcome
    }

    fn join() -> Result<HostRanks, Box<dyn Error>> {
        if mica_bootstrap::announced().size == Some(1) {
            return Ok(HostRanks { world: None, rank: 0, size: 1 });
        }
        init::init(THREAD_MULTIPLE, None).map_err(text)?;
        let world = world::world().map_err(text)?;
        Ok(HostRanks { rank: world.rank() as u32, size: world.size() as u32, world: Some(world) })
    }

    /// This process's rank among the host ranks.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of host ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The host rank that simulates a node.
    pub fn host_of(&self, node: u32) -> u32 {
        node % self.size
    }

    /// Sends `messages[r]` to each host rank r, and returns what each has sent to this one; its own
    /// comes back as it is. Blocks.
    ///
    /// # Errors
    /// Those of MPI.
    pub fn exchange(&self, mut messages: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
        let Some(world) = &self.world else { return Ok(messages) };
        let others = (1..self.size).map(|by| (self.rank + by) % self.size);
        let mut sends = Vec::new();
        for to in others.clone() {
            let view = view_of(&messages[to as usize])?;
            let send = pt2pt::isend_on(world, Mode::Standard, &view, to as i32, TAG);
            sends.push((send.map_err(text)?, view));
        }
        for from in others {
            let (message, status) = pt2pt::mprobe(world, from as i32, TAG).map_err(text)?;
            let mut bytes = vec![0; status.bytes as usize];
            let view = view_of(&bytes)?;
            let received = pt2pt::imrecv(message, &view).map_err(text)?;
            received.wait().map_err(text)?;
            view.pack(0, &mut bytes);
            messages[from as usize] = bytes;
        }
        for (send, _) in &sends {
            send.wait().map_err(text)?;
        }
        Ok(messages)
    }

    /// Ends this process's part in the job.
    fn leave(&mut self) -> Result<(), Box<dyn Error>> {
        self.world.take().map_or(Ok(()), |_| init::finalize().map_err(text))
    }

    /// Ends all processes of the job after a line on stderr.
    fn abort(&self, error: &(dyn Error + 'static)) -> ! {
        eprintln!("mica sim: {error}");
        let code = i32::from(ClusterError::exit_code_of(error));
        match process::engine() {
            Ok(engine) => engine.abort(code),
            Err(_) => std::process::exit(code),
        }
    }
}

/// A copy of the bytes in memory that messages can be sent from and received into.
fn view_of(bytes: &[u8]) -> Result<View, Box<dyn Error>> {
    let region = Block::allocate(bytes.len())?;
    region.write_bytes(bytes);
    Ok(region.view(Shape::Contiguous { bytes: bytes.len() }))
}

fn text(error: mica_mpi::Error) -> Box<dyn Error> {
    error.to_string().into()
}
