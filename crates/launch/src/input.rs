//! Standard input on its way to the ranks that get it.
//!
//! Each rank gets all of it, as fast as it reads. What the slowest has not taken yet is kept, up
//! to [`HELD_MAX`] bytes: as long as it fits, a rank that reads late keeps none of the others
//! waiting.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;

/// Bytes kept for ranks that read more slowly than others.
const HELD_MAX: u64 = 64 << 20;

/// A rank's end, and how far it is.
struct InputReader {
    pipe: ChildStdin,
    /// Bytes that it has taken.
    taken: u64,
}

/// Input for the ranks of a node.
#[derive(Default)]
pub struct Input {
    readers: Vec<InputReader>,
    /// What the slowest has not taken.
    pending: Vec<u8>,
    /// Bytes that all have taken.
    start: u64,
    /// What was said of bytes taken.
    reported: u64,
    /// Nothing comes after what is pending.
    ends: bool,
}

impl Input {
    /// One more rank gets it.
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

    /// Up to where bytes count as taken: where the fastest rank is, unless too much is kept for
    /// the slowest.
    fn credit(&self) -> u64 {
        let fastest = self.readers.iter().map(|reader| reader.taken).max();
        fastest.unwrap_or(self.start).min(self.start + HELD_MAX)
    }

    /// What to wait for until more can be written.
    pub fn unsent(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let end = self.end_of_pending();
        let behind = self.readers.iter().filter(move |reader| reader.taken < end);
        behind.map(|reader| reader.pipe.as_fd())
    }

    /// More bytes for the ranks.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Writes as much as the pipes take without waiting. Answers how many bytes more count as
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
            // One that has all closes: its rank reads the end.
            !ends
        });
        let slowest = self.readers.iter().map(|reader| reader.taken).min();
        let slowest = slowest.unwrap_or(end);
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

    /// A process that reads nothing until it is told to, and the input to it.
    fn reader(input: &mut Input) -> Child {
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
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
