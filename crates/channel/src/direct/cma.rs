//! `process_vm_readv` and `process_vm_writev`: vectors on both sides, partial results, limits.

use std::ops::Range;

use super::refusal::CopyRefusal;
use mica_memory::View;
use mica_node::segment::RankBlock;

/// Which way a rank copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerCopy {
    /// From a peer's buffer.
    Load,
    /// To a peer's buffer.
    Store,
}

/// One piece of a sender's message, as the sender lists it for its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct RemoteRun {
    /// Address in the sender's memory.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Pieces a call takes on each side (UIO_MAXIOV).
const VECTOR: usize = 1024;

/// Bytes asked for in one call: well below the kernel's 2 GiB - 4 KiB, so that long copies can be
/// interrupted.
const CHUNK: usize = 1 << 30;

fn transfer(
    direction: PeerCopy,
    pid: u32,
    local: &[libc::iovec],
    remote: &[libc::iovec],
) -> Result<usize, CopyRefusal> {
    let call = match direction {
        PeerCopy::Load => libc::process_vm_readv,
        PeerCopy::Store => libc::process_vm_writev,
    };
    loop {
        // SAFETY: the local pieces are readable, and writable for a read (they come from a view or
        // an exclusive slice); the kernel checks the remote ones.
        let n = unsafe {
            call(
                pid as libc::pid_t,
                local.as_ptr(),
                local.len() as libc::c_ulong,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        if n > 0 {
            return Ok(n as usize);
        }
        let errno = if n == 0 {
            libc::EFAULT
        } else {
            std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
        };
        if errno != libc::EINTR {
            return Err(CopyRefusal::Kernel { errno });
        }
    }
}

fn readv(pid: u32, local: &[libc::iovec], remote: &[libc::iovec]) -> Result<usize, CopyRefusal> {
    transfer(PeerCopy::Load, pid, local, remote)
}

fn piece(address: u64, len: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: len }
}

/// Reads the word that the rank of `block` has published.
#[cold]
pub fn probe(block: &RankBlock) -> Result<(), CopyRefusal> {
    let Some((address, value)) = block.probe() else {
        return Err(CopyRefusal::SwitchedOff);
    };
    let mut word = [0u8; 8];
    read_exact(block.pid(), address, &mut word)?;
    if u64::from_ne_bytes(word) == value { Ok(()) } else { Err(CopyRefusal::WrongProcess) }
}

/// Fills `to` from `address` of process `pid`.
pub fn read_exact(pid: u32, address: u64, to: &mut [u8]) -> Result<(), CopyRefusal> {
    let mut done = 0;
    while done < to.len() {
        let rest = &mut to[done..];
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        done += readv(pid, &[local], &[piece(address + done as u64, rest.len())])?;
    }
    Ok(())
}

/// The local pieces of a call: those of `view` from `position` on, at most `limit` bytes.
fn local_pieces(view: &View, position: usize, limit: usize, to: &mut Vec<libc::iovec>) {
    to.clear();
    let mut left = limit.min(CHUNK);
    for run in view.runs(position).take(VECTOR) {
        let len = run.len.min(left);
        to.push(libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(run.address),
            iov_len: len,
        });
        left -= len;
        if left == 0 {
            break;
        }
    }
}

/// Copies the bytes of a contiguous message, whose first byte is at `address` of process `pid`:
/// those of `range`, from or to the same places of `view`.
pub fn contiguous(
    direction: PeerCopy,
    pid: u32,
    address: u64,
    view: &View,
    range: Range<usize>,
) -> Result<(), CopyRefusal> {
    let mut local = Vec::new();
    let Range { start: mut at, end } = range;
    while at < end {
        local_pieces(view, at, end - at, &mut local);
        let remote = piece(address.wrapping_add(at as u64), (end - at).min(CHUNK));
        at += transfer(direction, pid, &local, &[remote])?;
    }
    Ok(())
}

/// Copies the first `len` bytes of the pieces that the `count` entries at `table` of process `pid`
/// list to `view`.
pub fn pull_runs(
    pid: u32,
    table: u64,
    count: u64,
    view: &View,
    len: usize,
) -> Result<(), CopyRefusal> {
    let entry = size_of::<RemoteRun>();
    let mut bytes = vec![0u8; VECTOR.min(count as usize) * entry];
    let mut local = Vec::new();
    let mut remote: Vec<libc::iovec> = Vec::new();
    let (mut done, mut next) = (0, 0u64);
    while done < len {
        if remote.is_empty() {
            let n = VECTOR.min((count - next) as usize);
            if n == 0 {
                // The list is shorter than the message, which a correct sender never produces.
                return Err(CopyRefusal::WrongProcess);
            }
            read_exact(pid, table + next * entry as u64, &mut bytes[..n * entry])?;
            next += n as u64;
            remote.extend(bytes[..n * entry].chunks_exact(entry).map(|e| {
                let word =
                    |at: usize| u64::from_ne_bytes(e[at..at + 8].try_into().expect("8 bytes"));
                piece(word(0), word(8) as usize)
            }));
        }
        local_pieces(view, done, len - done, &mut local);
        let n = readv(pid, &local, &remote)?;
        done += n;
        advance(&mut remote, n);
    }
    Ok(())
}

/// Drops the first `bytes` bytes of a list of pieces.
fn advance(pieces: &mut Vec<libc::iovec>, mut bytes: usize) {
    let mut whole = 0;
    for piece in pieces.iter_mut() {
        if bytes < piece.iov_len {
            piece.iov_base = piece.iov_base.wrapping_byte_add(bytes);
            piece.iov_len -= bytes;
            break;
        }
        bytes -= piece.iov_len;
        whole += 1;
    }
    pieces.drain(..whole);
}

/// Where the Yama module restricts ptrace to ancestors, lets `launcher` and all its descendants
/// read this process.
pub fn allow_readers(launcher: u32) {
    // SAFETY: prctl with integers only. Without Yama it fails with EINVAL, and no permission is
    // needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(launcher), 0, 0, 0) };
}
