//! Reads of several places of a file at once, by io_uring where the kernel allows it (Linux 5.6; a
//! container's filter or `kernel.io_uring_disabled` may refuse): reads that must wait for a device
//! wait together.
//!
//! A process has one ring, made when it is first needed and kept. All reads of a call are complete
//! when it returns, so that the kernel writes to their memory meanwhile alone; one thread at a time
//! uses the ring. Where there is none, or another thread has it, or the program has closed its
//! descriptor, the result is `None`, and the caller reads one place after another.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

use super::file::FilePiece;

/// Reads that one call takes at most.
pub const READS_MAX: usize = 64;

/// How long is waited for reads that are under way when the ring cannot be asked any more.
const PAUSE: Duration = Duration::from_micros(100);

/// A read of consecutive bytes.
#[derive(Clone, Copy, Debug)]
pub struct FileRead<'a> {
    /// First byte of the file.
    pub offset: u64,
    /// Where they go.
    pub piece: FilePiece<'a>,
}

impl<'a> FileRead<'a> {
    /// Its piece as a list.
    pub fn pieces(&self) -> &[FilePiece<'a>] {
        std::slice::from_ref(&self.piece)
    }
}

/// The ring of this process.
enum RingState {
    Untried,
    /// With the process that made it: a child after `fork` has no ring.
    Made(Box<IoUring>, u32),
    Refused,
}

static RING: Mutex<RingState> = Mutex::new(RingState::Untried);

/// A read as the kernel takes it.
struct KernelRead {
    offset: u64,
    address: *mut u8,
    len: u32,
}

/// Reads all of them, [`READS_MAX`] at most; each has a result as that of
/// [`file::read`](super::file::read). `None`, and nothing has been read: there is no ring, or a
/// piece lies in several places of memory. Blocks.
pub fn read_together(file: &File, reads: &[FileRead<'_>]) -> Option<Vec<io::Result<usize>>> {
    let reads: Vec<KernelRead> = reads.iter().map(KernelRead::of).collect::<Option<_>>()?;
    let mut state = RING.try_lock().ok()?;
    let (results, is_usable) = state.ring()?.carry_out(file, &reads);
    if !is_usable {
        *state = RingState::Refused;
    }
    Some(results)
}

impl KernelRead {
    fn of(read: &FileRead<'_>) -> Option<KernelRead> {
        let run = read.piece.view.runs(read.piece.position).next()?;
        let is_whole = run.len >= read.piece.len;
        Some(KernelRead {
            offset: read.offset,
            address: std::ptr::with_exposed_provenance_mut(run.address),
            len: u32::try_from(read.piece.len).ok().filter(|_| is_whole)?,
        })
    }
}

/// The ring, as a call uses it.
struct Ring<'a>(&'a mut IoUring);

impl RingState {
    fn ring(&mut self) -> Option<Ring<'_>> {
        if let RingState::Untried = self {
            *self = match IoUring::new(READS_MAX as u32) {
                Ok(ring) => RingState::Made(Box::new(ring), std::process::id()),
                Err(_) => RingState::Refused,
            };
        }
        match self {
            RingState::Made(ring, process) if *process == std::process::id() => Some(Ring(ring)),
            _ => None,
        }
    }
}

impl Ring<'_> {
    /// The results, and whether the ring can be used again. A read that was not begun is
    /// `Interrupted`.
    fn carry_out(self, file: &File, reads: &[KernelRead]) -> (Vec<io::Result<usize>>, bool) {
        let ring = self.0;
        let mut results: Vec<io::Result<usize>> = Vec::with_capacity(reads.len());
        results.resize_with(reads.len(), || Err(io::ErrorKind::Interrupted.into()));
        let mut queued = 0;
        for (number, read) in reads.iter().enumerate() {
            let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), read.address, read.len);
            let entry = entry.offset(read.offset).build().user_data(number as u64);
            // SAFETY: the piece's view promises that its bytes are writable as long as it lives,
            // and the caller holds it; the read is complete, or was never begun and goes with the
            // ring, when this function returns.
            queued += usize::from(unsafe { ring.submission().push(&entry) }.is_ok());
        }
        let mut completed = 0;
        let mut is_usable = queued == reads.len();
        loop {
            for completion in ring.completion() {
                completed += 1;
                let result = completion.result();
                results[completion.user_data() as usize] = match usize::try_from(result) {
                    Ok(bytes) => Ok(bytes),
                    Err(_) => Err(io::Error::from_raw_os_error(-result)),
                };
            }
            let begun = queued - ring.submission().len();
            if completed == queued || (!is_usable && completed == begun) {
                return (results, is_usable);
            }
            if !is_usable {
                std::thread::sleep(PAUSE);
                continue;
            }
            match ring.submit_and_wait(queued - completed) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => is_usable = false,
                _ => {}
            }
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use mica_memory::{Block, Shape};

    use super::*;

    #[test]
    fn places_are_read_together() {
        let name = std::env::temp_dir().join(format!("mica-uring-{}", std::process::id()));
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        std::fs::write(&name, &bytes).unwrap();
        let file = File::open(&name).unwrap();
        std::fs::remove_file(name).unwrap();
        let region = Block::allocate(READS_MAX * 1000).unwrap();
        let view = region.clone().view(Shape::Contiguous { bytes: READS_MAX * 1000 });
        // From the end to the beginning; the first is beyond the end, the second is cut by it.
        let offset = |number: usize| 100_900 - 1500 * number as u64;
        let read = |number: usize| FileRead {
            offset: offset(number),
            piece: FilePiece { view: &view, position: 1000 * number, len: 1000 },
        };
        let reads: Vec<FileRead<'_>> = (0..READS_MAX).map(read).collect();
        for _ in 0..3 {
            let Some(results) = read_together(&file, &reads) else {
                println!("skipped: the kernel refuses io_uring");
                return;
            };
            let got: Vec<usize> = results.into_iter().map(|result| result.unwrap()).collect();
            assert_eq!(got[..3], [0, 600, 1000]);
            for (number, &bytes_read) in got.iter().enumerate() {
                let mut found = vec![0; bytes_read];
                region.offset(1000 * number as isize).read_bytes(&mut found);
                let at = offset(number).min(100_000) as usize;
                assert_eq!(found, bytes[at..at + bytes_read], "read {number}");
            }
        }
        let directory = File::open("/").unwrap();
        let refused = read_together(&directory, &reads[..2]).expect("the ring is there");
        assert!(refused.iter().all(|result| result.is_err()));
    }
}
