//! The ranks of a window that share memory with this one.

use mica_protocol::Engine;

use mica_collective::members::Members;
use mica_objects::error::Result;

/// The ranks of a window that share memory with this one, this one included. The shared locks and
/// counts name them by their number here, in the order of ranks. Two more numbers, the
/// [proxies](Self::proxies), stand at each target for the origins that share none.
#[derive(Debug)]
pub(crate) struct NodePeers {
    /// This rank's number.
    pub me: u32,
    /// Job-wide ranks, by number.
    pub job_ranks: Vec<u32>,
    /// Ranks in the window, by number.
    pub window_ranks: Vec<usize>,
    /// False if this rank's windows cannot lie in the job segment.
    pub is_shared: bool,
}

impl NodePeers {
    /// Those of a window on `comm`. `must_share`: the program loads and stores their memory.
    // flag: the call passes `is_shared()` of what is to be made.
    pub fn of(engine: &Engine, members: &Members, must_share: bool) -> NodePeers {
        let me = members.rank();
        let is_shared = engine.shares_windows_with(members.peer(me));
        let may_share = is_shared && (must_share || !engine.is_loopback());
        let shares = |&rank: &usize| {
            rank == me || may_share && engine.shares_windows_with(members.peer(rank))
        };
        let window_ranks: Vec<usize> = (0..members.size()).filter(shares).collect();
        let number = window_ranks.binary_search(&me);
        NodePeers {
            me: number.expect("this rank is among them") as u32,
            job_ranks: window_ranks.iter().map(|&rank| members.peer(rank)).collect(),
            window_ranks,
            is_shared,
        }
    }

    /// Whether this rank reaches all memory of the others, wherever it lies. Blocks until all are
    /// ready to be reached.
    ///
    /// # Errors
    /// When one of them is lost.
    pub fn reach_all(&self, engine: &Engine, members: &Members) -> Result<bool> {
        engine.common_abilities(members.context(), &self.job_ranks)?;
        let me = self.job_ranks[self.me as usize];
        let mut others = self.job_ranks.iter().filter(|&&rank| rank != me);
        Ok(others.all(|&rank| engine.peer_access().reaches_all_of(rank)))
    }

    /// How many numbers the shared locks and counts have.
    pub fn numbers(&self) -> u32 {
        self.job_ranks.len() as u32 + 2
    }

    /// The numbers that stand at a target for the origins that share no memory with it, when they
    /// take its lock shared and exclusive.
    pub fn proxies(&self) -> [u32; 2] {
        let first = self.job_ranks.len() as u32;
        [first, first + 1]
    }

    /// The number of a rank of the window, if it is a node peer.
    pub fn number(&self, window_rank: usize) -> Option<u32> {
        let found = self.window_ranks.binary_search(&window_rank);
        found.ok().map(|number| number as u32)
    }

    /// What wakes the rank with a number, if that is no proxy.
    #[inline(always)]
    pub fn waker<'a>(&'a self, engine: &'a Engine) -> impl Fn(u32) + 'a {
        |number| engine.wake(self.job_ranks[number as usize])
    }

    /// Wakes the rank with this number, of those that wait for the lock of the target with number
    /// `target`.
    pub fn wake(&self, engine: &Engine, number: u32, target: u32) {
        // A proxy is the target itself.
        let rank = self.job_ranks.get(number as usize);
        engine.wake(*rank.unwrap_or(&self.job_ranks[target as usize]));
    }
}
