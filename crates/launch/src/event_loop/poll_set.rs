//! What the launcher's loop waits for: the descriptors of all its sources in one epoll instance.
//!
//! A source that lives for a while (a rank's process, a pipe, an agent's connection) is
//! [added](PollSet::add) once and removed once, so that waiting costs nothing for those that have
//! nothing to report: a job of 10,000 ranks does not go through a list of 10,000 descriptors for
//! each event. What is of interest for one wait alone (room in a connection that has something
//! unsent, callers of a port, standard input) is [`Polled`] with that wait; so is a regular file on
//! standard input, which epoll refuses and poll(2) reports as readable.
//!
//! Events are level-triggered: a source that is not served is reported again.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use mica_node::process::wait_ready;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// A source of events. Sources that are ready at the same time are served in this order: what a
/// rank wrote comes before the report of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PollSource {
    /// The threads that write this process's output.
    Writer,
    /// The threads that write files of ranks.
    FileWriter,
    /// Output of a rank, by the number of the stream.
    Stream(u32),
    /// The connection of a rank, by its number on the node, to its process manager.
    PmiClient(u32),
    /// Processes that ask for descriptors which they did not inherit.
    Requests,
    /// Tools that attach to the job.
    Attach,
    /// The process of a rank, by its number on the node.
    Rank(u32),
    /// A rank's input pipe.
    RankInput,
    /// Standard input.
    Input,
    /// The port where agents connect, and its callers.
    Listener,
    /// The connection of a node's agent.
    Agent(u32),
    /// The process of a remote shell.
    Shell(u32),
    /// Output of a remote shell: twice its number for one pipe, and one more for the other.
    ShellOutput(u32),
    /// The connection to the controller.
    Uplink,
    /// Signals to this process.
    Signals,
}

/// The sources of a [`PollSet::wait`] that are not in the set.
#[derive(Default)]
pub struct Polled<'a> {
    reads: Vec<(PollSource, BorrowedFd<'a>)>,
    writes: Vec<(PollSource, BorrowedFd<'a>)>,
}

impl<'a> Polled<'a> {
    /// Waits until the descriptor is readable.
    pub fn read(&mut self, source: PollSource, fd: BorrowedFd<'a>) {
        self.reads.push((source, fd));
    }

    /// Waits until the descriptor is writable.
    pub fn write(&mut self, source: PollSource, fd: BorrowedFd<'a>) {
        self.writes.push((source, fd));
    }
}

/// The sources that live longer than one wait.
pub struct PollSet {
    epoll: OwnedFd,
    /// By the number that the kernel reports.
    sources: HashMap<u64, PollSource>,
    numbers: HashMap<PollSource, u64>,
    next: u64,
    /// Why a source could not be added; reported by the next wait.
    problem: Option<io::Error>,
}

impl PollSet {
    /// An empty set.
    pub fn new() -> io::Result<PollSet> {
        Ok(PollSet {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            sources: HashMap::new(),
            numbers: HashMap::new(),
            next: 0,
            problem: None,
        })
    }

    /// Adds a source that is ready when its descriptor is readable or its other end closed. Does
    /// nothing if it is in the set already. If the system refuses, the next wait fails.
    pub fn add(&mut self, source: PollSource, fd: BorrowedFd<'_>) {
        self.add_for(source, fd, EventFlags::IN);
    }

    /// Adds a source that is ready when its other end is closed, and not before: an output that
    /// no process reads any more. Does nothing where that cannot be found out (a file).
    pub fn add_end_of(&mut self, source: PollSource, fd: BorrowedFd<'_>) {
        let before = self.problem.is_none();
        self.add_for(source, fd, EventFlags::empty());
        if before {
            self.problem = None;
        }
    }

    fn add_for(&mut self, source: PollSource, fd: BorrowedFd<'_>, events: EventFlags) {
        if self.numbers.contains_key(&source) {
            return;
        }
        let number = self.next;
        match epoll::add(&self.epoll, fd, EventData::new_u64(number), events) {
            Ok(()) => {
                self.next += 1;
                self.sources.insert(number, source);
                self.numbers.insert(source, number);
            }
            Err(error) => drop(self.problem.get_or_insert(error.into())),
        }
    }

    /// Removes a source, if it is in the set. To be called before its descriptor is closed.
    pub fn remove(&mut self, source: PollSource, fd: BorrowedFd<'_>) {
        if let Some(number) = self.numbers.remove(&source) {
            self.sources.remove(&number);
            // An error means that it is not in the set any more.
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    /// Forgets a source whose descriptor was closed, which has removed it from the set.
    pub fn forget(&mut self, source: PollSource) {
        if let Some(number) = self.numbers.remove(&source) {
            self.sources.remove(&number);
        }
    }

    /// Waits until a source is ready, or until the timeout. Returns those that are, in the order
    /// in which they are to be served, each once.
    pub fn wait(
        &mut self,
        polled: &Polled<'_>,
        timeout: Option<Duration>,
    ) -> io::Result<Vec<PollSource>> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let others = || polled.reads.iter().chain(&polled.writes);
        let reads: Vec<BorrowedFd<'_>> = std::iter::once(self.epoll.as_fd())
            .chain(polled.reads.iter().map(|(_, fd)| *fd))
            .collect();
        let writes: Vec<BorrowedFd<'_>> = polled.writes.iter().map(|(_, fd)| *fd).collect();
        let ready = wait_ready(&reads, &writes, timeout)?;
        let mut sources: Vec<PollSource> = others()
            .zip(&ready[1..])
            .filter(|(_, ready)| **ready)
            .map(|((source, _), _)| *source)
            .collect();
        if ready[0] {
            sources.extend(self.ready()?);
        }
        sources.sort_unstable();
        sources.dedup();
        Ok(sources)
    }

    /// Those of the set that are ready now.
    fn ready(&self) -> io::Result<Vec<PollSource>> {
        let mut events = Vec::with_capacity(self.sources.len().max(1));
        let at_once = Timespec::default();
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let known = events.iter().filter_map(|event: &epoll::Event| {
            let number = event.data.u64();
            self.sources.get(&number).copied()
        });
        Ok(known.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn ready_sources_come_in_the_order_of_service() {
        let mut set = PollSet::new().unwrap();
        let mut pipes: Vec<_> = (0..3).map(|_| io::pipe().unwrap()).collect();
        set.add(PollSource::Rank(0), pipes[0].0.as_fd());
        set.add(PollSource::Stream(7), pipes[1].0.as_fd());
        assert_eq!(set.wait(&Polled::default(), AT_ONCE).unwrap(), []);
        for (_, write) in &mut pipes {
            write.write_all(b"x").unwrap();
        }
        let mut polled = Polled::default();
        polled.read(PollSource::Signals, pipes[2].0.as_fd());
        polled.read(PollSource::Input, pipes[2].0.as_fd());
        let ready = set.wait(&polled, None).unwrap();
        let wanted =
            [PollSource::Stream(7), PollSource::Rank(0), PollSource::Input, PollSource::Signals];
        assert_eq!(ready, wanted);
    }

    #[test]
    fn a_source_is_reported_until_it_is_served_or_removed() {
        let mut set = PollSet::new().unwrap();
        let (mut read, mut write) = io::pipe().unwrap();
        set.add(PollSource::Stream(0), read.as_fd());
        write.write_all(b"x").unwrap();
        for _ in 0..2 {
            assert_eq!(set.wait(&Polled::default(), AT_ONCE).unwrap(), [PollSource::Stream(0)]);
        }
        read.read_exact(&mut [0]).unwrap();
        assert_eq!(set.wait(&Polled::default(), AT_ONCE).unwrap(), []);
        // A closed end is reported of a source in the set alone.
        drop(write);
        set.remove(PollSource::Stream(0), read.as_fd());
        assert_eq!(set.wait(&Polled::default(), AT_ONCE).unwrap(), []);
        set.add(PollSource::Stream(0), read.as_fd());
        assert_eq!(set.wait(&Polled::default(), AT_ONCE).unwrap(), [PollSource::Stream(0)]);
    }

    #[test]
    fn files_and_room_to_write_are_polled_for_one_wait() {
        let mut set = PollSet::new().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let (_read, write) = io::pipe().unwrap();
        let mut polled = Polled::default();
        polled.read(PollSource::Input, file.as_fd());
        polled.write(PollSource::Agent(3), write.as_fd());
        assert_eq!(set.wait(&polled, None).unwrap(), [PollSource::Input, PollSource::Agent(3)]);
    }

    #[test]
    fn what_cannot_be_added_fails_the_wait() {
        let mut set = PollSet::new().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        set.add(PollSource::Input, file.as_fd());
        assert!(set.wait(&Polled::default(), AT_ONCE).is_err());
    }
}
