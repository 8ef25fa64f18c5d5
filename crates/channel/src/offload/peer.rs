//! Memory of a peer process, accessed by cross memory attach: `process_vm_readv` and
//! `process_vm_writev`.
//!
//! The kernel checks every address, so this needs no promise about the peer's memory: an invalid
//! address is reported as an error number. Whether the kernel allows the access at all, and whether
//! a process ID means the same process on both sides, is determined once for each peer by the
//! direct channel's probe; jobs should be created only for peers that passed it.

use mica_memory::ByteRun;

/// Maximum number of pieces per call on each side (UIO_MAXIOV).
const VECTOR: usize = 1024;

/// Byte runs in a peer's memory: a message as its owner sees it, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerMemory {
    pid: u32,
    runs: Vec<ByteRun>,
    /// Position in the message of each run's first byte.
    starts: Vec<usize>,
    len: usize,
}

/// Direction of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerCopyDirection {
    FromPeer,
    ToPeer,
}

impl PeerMemory {
    /// `bytes` bytes at `address` of process `pid`.
    pub fn contiguous(pid: u32, address: u64, bytes: usize) -> PeerMemory {
        let run = ByteRun { address: address as usize, len: bytes };
        PeerMemory::scattered(pid, vec![run])
    }

    /// The runs of process `pid`, in the order of the message.
    pub fn scattered(pid: u32, runs: Vec<ByteRun>) -> PeerMemory {
        let mut len = 0usize;
        let starts = runs
            .iter()
            .map(|run| {
                let start = len;
                len = len.saturating_add(run.len);
                start
            })
            .collect();
        PeerMemory { pid, runs, starts, len }
    }

    /// The runs listed in the `count` entries at `table` of process `pid`, each an address and a
    /// length of 64 bits. Reads the list, which blocks while the kernel copies it.
    ///
    /// # Errors
    /// The error number of `process_vm_readv`.
    pub fn listed(pid: u32, table: u64, count: u64) -> Result<PeerMemory, i32> {
        let bytes = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(16))
            .ok_or(libc::EINVAL)?;
        let mut list = Vec::new();
        list.try_reserve_exact(bytes).map_err(|_| libc::ENOMEM)?;
        list.resize(bytes, 0u8);
        let to = ByteRun { address: list.as_mut_ptr().expose_provenance(), len: bytes };
        let peer = PeerMemory::contiguous(pid, table, bytes);
        peer.transfer(PeerCopyDirection::FromPeer, 0, std::iter::once(to), bytes)?;
        let word = |entry: &[u8], at: usize| {
            u64::from_ne_bytes(entry[at..at + 8].try_into().expect("8 bytes")) as usize
        };
        let runs = list
            .chunks_exact(16)
            .map(|entry| ByteRun { address: word(entry, 0), len: word(entry, 8) });
        Ok(PeerMemory::scattered(pid, runs.collect()))
    }

    /// Length of the message in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Process that the memory belongs to.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The runs from `position` on.
    fn runs(&self, position: usize) -> impl Iterator<Item = ByteRun> + '_ {
        // The last run that starts at or before the position contains it; empty runs are skipped.
        let first = self.starts.partition_point(|&start| start <= position);
        let first = first.saturating_sub(1);
        self.runs[first..].iter().enumerate().filter_map(move |(i, run)| {
            let skip = if i == 0 { position.saturating_sub(self.starts[first]) } else { 0 };
            let len = run.len.checked_sub(skip).filter(|&len| len > 0)?;
            Some(ByteRun { address: run.address.wrapping_add(skip), len })
        })
    }

    /// Copies the `bytes` bytes of the message from `position` on between the peer and the runs
    /// `own` of this process, which must be readable, or writable if the bytes come from the peer.
    ///
    /// # Errors
    /// The error number of the call; some of the bytes may have been copied.
    pub(super) fn transfer(
        &self,
        direction: PeerCopyDirection,
        position: usize,
        own: impl Iterator<Item = ByteRun>,
        bytes: usize,
    ) -> Result<(), i32> {
        let (mut own, mut peer) =
            (Pieces::new(own, bytes), Pieces::new(self.runs(position), bytes));
        let mut left = bytes;
        while left > 0 {
            own.fill();
            peer.fill();
            if own.vector.is_empty() || peer.vector.is_empty() {
                // One side lists fewer bytes than the job has; a correct peer does not cause this.
                return Err(libc::EINVAL);
            }
            let moved = self.call(direction, &own.vector, &peer.vector)?;
            own.advance(moved);
            peer.advance(moved);
            left -= moved.min(left);
        }
        Ok(())
    }

    /// One call; returns the number of bytes that it copied, never 0.
    fn call(
        &self,
        direction: PeerCopyDirection,
        own: &[libc::iovec],
        peer: &[libc::iovec],
    ) -> Result<usize, i32> {
        let pid = self.pid as libc::pid_t;
        let (own_count, peer_count) = (own.len() as libc::c_ulong, peer.len() as libc::c_ulong);
        loop {
            // SAFETY: our own pieces are readable, or writable if the bytes come from the peer
            // (they come from a job's view or an exclusive buffer); the kernel checks the peer's.
            let n = unsafe {
                match direction {
                    PeerCopyDirection::FromPeer => libc::process_vm_readv(
                        pid,
                        own.as_ptr(),
                        own_count,
                        peer.as_ptr(),
                        peer_count,
                        0,
                    ),
                    PeerCopyDirection::ToPeer => libc::process_vm_writev(
                        pid,
                        own.as_ptr(),
                        own_count,
                        peer.as_ptr(),
                        peer_count,
                        0,
                    ),
                }
            };
            match n {
                0 => return Err(libc::EFAULT),
                1.. => return Ok(n as usize),
                _ => {
                    let error = std::io::Error::last_os_error();
                    match error.raw_os_error().unwrap_or(libc::EIO) {
                        libc::EINTR => {}
                        errno => return Err(errno),
                    }
                }
            }
        }
    }
}

/// One side of a call: the next pieces, refilled from the remaining runs.
struct Pieces<I> {
    runs: I,
    /// Bytes that are not in `vector` yet.
    left: usize,
    vector: Vec<libc::iovec>,
}

impl<I: Iterator<Item = ByteRun>> Pieces<I> {
    fn new(runs: I, bytes: usize) -> Pieces<I> {
        Pieces { runs, left: bytes, vector: Vec::new() }
    }

    fn fill(&mut self) {
        while self.vector.len() < VECTOR
            && self.left > 0
            && let Some(run) = self.runs.next()
        {
            let len = run.len.min(self.left);
            self.left -= len;
            self.vector.push(libc::iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(run.address),
                iov_len: len,
            });
        }
    }

    /// Drops the first `bytes` bytes.
    fn advance(&mut self, mut bytes: usize) {
        let mut whole = 0;
        for piece in &mut self.vector {
            if bytes < piece.iov_len {
                piece.iov_base = piece.iov_base.wrapping_byte_add(bytes);
                piece.iov_len -= bytes;
                break;
            }
            bytes -= piece.iov_len;
            whole += 1;
        }
        self.vector.drain(..whole);
    }
}
