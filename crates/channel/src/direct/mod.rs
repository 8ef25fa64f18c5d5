//! The direct channel: the receiver reads the sender's memory with one copy (chai-2009, chapters 4 and 6.1).
//!
//! What LiMIC did with a kernel module, `process_vm_readv` (cross memory attach, CMA) does on any Linux. The kernel may
//! refuse it (Yama, seccomp, user namespaces, different users), so each peer is probed once, by reading a word whose value
//! it has published; a refusal is remembered and the protocol takes another way.

mod cma;

#[cfg(test)]
mod tests;

use crate::memory::View;
use crate::{Capabilities, Channel, Cost};
use mica_node::segment::JobSegment;
use mica_node::topology::Level;

pub use cma::RemoteRun;

/// Why direct copy from a peer does not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It was switched off by `MICA_DIRECT=off`.
    #[error("switched off by MICA_DIRECT=off")]
    SwitchedOff,
    /// The kernel refused the call.
    #[error("process_vm_readv: {}", std::io::Error::from_raw_os_error(*.errno))]
    Kernel {
        /// The error number.
        errno: i32,
    },
    /// The call read something, but not the peer's memory (process numbers of another namespace).
    #[error("process_vm_readv reached another process")]
    WrongProcess,
}

/// Where a sender's message lies in its own address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// In one piece at this address.
    Contiguous {
        /// The address.
        address: u64,
    },
    /// In `count` pieces, listed in an array of [`RemoteRun`]s at `table`.
    Runs {
        /// Address of the array in the sender's memory.
        table: u64,
        /// Its length.
        count: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Peer {
    Unknown,
    Usable,
    Refused(Refusal),
}

/// One rank's direct channel.
#[derive(Debug)]
pub struct Direct {
    segment: &'static JobSegment,
    peers: Vec<Peer>,
}

/// The word that peers read to find out whether they can.
static PROBE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Channel for Direct {
    fn name(&self) -> &'static str {
        "direct"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PULL | Capabilities::SCATTERED
    }

    fn cost(&self, _level: Level) -> Cost {
        Cost {
            start_ns: 800.0,
            byte_ns: 0.09,
            copies: 1,
        }
    }
}

impl Direct {
    /// The direct channel of rank `me`, off if `enabled` is false. Publishes this rank's probe word, and allows the
    /// launcher and its descendants, which the other ranks are, to read this process where Yama asks for it.
    pub fn new(segment: &'static JobSegment, me: u32, enabled: bool) -> Direct {
        let start = if enabled {
            Peer::Unknown
        } else {
            Peer::Refused(Refusal::SwitchedOff)
        };
        if enabled {
            let value = mica_node::segment::monotonic_ns() ^ u64::from(std::process::id()) << 32;
            PROBE.store(value, std::sync::atomic::Ordering::Relaxed);
            segment
                .block(me)
                .publish_probe((&raw const PROBE).addr() as u64, value);
            cma::allow_readers(segment.launcher_pid());
        }
        Direct {
            segment,
            peers: vec![start; segment.ranks() as usize],
        }
    }

    /// Whether `peer`'s memory can be read; probes it the first time.
    #[inline]
    pub fn is_usable(&mut self, peer: u32) -> bool {
        if self.peers[peer as usize] == Peer::Unknown {
            self.peers[peer as usize] = match self.probe(peer) {
                Ok(()) => Peer::Usable,
                Err(why) => Peer::Refused(why),
            };
        }
        self.peers[peer as usize] == Peer::Usable
    }

    /// Why `peer`'s memory cannot be read, if that was found out.
    pub fn refusal(&self, peer: u32) -> Option<&Refusal> {
        match &self.peers[peer as usize] {
            Peer::Refused(why) => Some(why),
            _ => None,
        }
    }

    #[cold]
    fn probe(&self, peer: u32) -> Result<(), Refusal> {
        let block = self.segment.block(peer);
        let Some((address, value)) = block.probe() else {
            return Err(Refusal::SwitchedOff);
        };
        let mut word = [0u8; 8];
        cma::read_exact(block.pid(), address, &mut word)?;
        if u64::from_ne_bytes(word) == value {
            Ok(())
        } else {
            Err(Refusal::WrongProcess)
        }
    }

    /// Copies the first `len` bytes of `peer`'s message at `remote` to `view`. Blocks while the kernel copies.
    ///
    /// # Errors
    /// When the kernel refuses; part of the bytes may have been copied by then. The peer counts as refused from then on
    /// if the refusal was one of permission.
    ///
    /// # Panics
    /// If `view` is shorter than `len`.
    pub fn pull(
        &mut self,
        peer: u32,
        remote: Remote,
        view: &View,
        len: usize,
    ) -> Result<(), Refusal> {
        assert!(
            len <= view.len(),
            "{len} bytes do not fit a view of {}",
            view.len()
        );
        let pid = self.segment.block(peer).pid();
        let result = match remote {
            Remote::Contiguous { address } => cma::pull_contiguous(pid, address, view, len),
            Remote::Runs { table, count } => cma::pull_runs(pid, table, count, view, len),
        };
        if let Err(Refusal::Kernel {
            errno: libc::EPERM | libc::ENOSYS,
        }) = &result
        {
            self.peers[peer as usize] = Peer::Refused(result.clone().expect_err("is an error"));
        }
        result
    }
}
