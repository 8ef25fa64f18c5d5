//! Standard input on its way to the ranks that receive it.
//!
//! Each rank receives all of it, as fast as the rank reads. What the slowest has not taken yet is
//! kept, up to [`HELD_MAX`] bytes: as long as it fits, a rank that reads late does not delay the
//! others.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;

/// Bytes kept for ranks that read more slowly than others.
const HELD_MAX: u64 = 64 << 20;

/// The input pipe of a rank, and its position.
struct InputReader {
    pipe: ChildStdin,
    /// Bytes that the rank has taken.
    taken: u64,
}

/// Input for the ranks of a node.
#[derive(Default)]
pub struct Input {
    readers: Vec<InputReader>,
    /// Bytes that the slowest rank has not taken.
    pending: Vec<u8>,
    /// Bytes that all ranks have taken.
    start: u64,
    /// Bytes reported as taken.
    reported: u64,
    /// The input ends after the pending bytes.
    ends: bool,
}

impl Input {
    /// Adds a rank that receives the input.
    pub fn add(&mut self, pipe: ChildStdin) {
        self.readers.push(InputReader { pipe, taken: 0 });
    }

    fn end_of_pending(&self) -> u64 {
        self.start + self.pending.len() as u64
    }

    /// Whether a rank can take more than has come until now, and there is room to keep it.
    pub fn wants_more(&self) -> bool {
        !self.ends && self.credit() == self.end_of_pending()
    }

    /// The position up to which bytes count as taken: that of the fastest rank, unless too much is
    /// kept for the slowest.
    fn credit(&self) -> u64 {
        let fastest = self.readers.iter().map(|reader| reader.taken).max();
        fastest.unwrap_or(self.start).min(self.start + HELD_MAX)
    }

    /// The descriptors to wait for until more can be written.
    pub fn unsent(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let end = self.end_of_pending();
        let behind = self.readers.iter().filter(move |reader| reader.taken < end);
        behind.map(|reader| reader.pipe.as_fd())
    }

    /// Adds bytes for the ranks.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Marks the end of the input.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Writes as much as the pipes take without blocking. Returns how many more bytes count as
    /// taken, and whether a rank still reads and there can be more for it.
    pub fn write(&mut self) -> (usize, bool) {
        let (start, end) = (self.start, self.end_of_pending());
        let pending = &self.pending;
        let ends = self.ends;
        self.readers.retain_mut(|reader| {
            while reader.taken < end {
                let rest = &pending[(reader.taken - start) as usize..];
                match reader.pipe.write(rest) {
                    Ok(written) => reader.taken += written as u64,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return false,
                }
            }
            // Dropping the pipe of a rank that has everything gives it the end of file.
            !ends
        });
        let slowest = self.readers.iter().map(|reader| reader.taken).min().unwrap_or(end);
        self.pending.drain(..(slowest - start) as usize);
        self.start = slowest;
        let credit = self.credit().max(self.reported);
        let more = credit - self.reported;
        self.reported = credit;
        (more as usize, !self.readers.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::process::set_nonblocking;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    /// Adds the input pipe of a process that stops reading until its output is read.
    fn reader(input: &mut Input) -> Child {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pipe = child.stdin.take().unwrap();
        set_nonblocking(pipe.as_fd()).unwrap();
        input.add(pipe);
        child
    }

    /// Reads all that the process passes on.
    fn drain(child: Child) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut child = child;
            let mut all = Vec::new();
            child.stdout.take().unwrap().read_to_end(&mut all).unwrap();
            child.wait().unwrap();
            all
        })
    }

    #[test]
    fn a_slow_reader_keeps_no_fast_one_waiting() {
        let mut input = Input::default();
        let slow = reader(&mut input);
        let fast = drain(reader(&mut input));
        let text: Vec<u8> = (0..1 << 20).map(|i| i as u8).collect();
        let mut taken = 0;
        for piece in text.chunks(4096) {
            input.push(piece);
            while !input.wants_more() {
                taken += input.write().0;
                std::thread::yield_now();
            }
        }
        assert_eq!(taken, text.len(), "the fast one has all");
        assert!(!input.pending.is_empty(), "some is kept for the slow one");
        input.end();
        let slow = drain(slow);
        while input.write().1 {
            std::thread::yield_now();
        }
        assert_eq!(fast.join().unwrap(), text);
        assert_eq!(slow.join().unwrap(), text);
        assert!(input.pending.is_empty());
    }

    #[test]
    fn a_reader_that_has_gone_is_forgotten() {
        let mut input = Input::default();
        let mut gone = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        input.add(gone.stdin.take().unwrap());
        gone.wait().unwrap();
        input.push(b"text");
        assert_eq!(input.write(), (4, false));
    }
}
