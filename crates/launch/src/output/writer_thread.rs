//! Threads that write texts to files which may not take them for a long time (a terminal that is
//! held, a pipe whose reader does not read, a file server that hangs), so that the event loop does
//! not wait.
//!
//! The event loop gives texts ([`WriterThread::give`]) and takes reports ([`WriteReports::next`]);
//! a thread writes what is in its queue, in order, and reports each text through a pipe that the
//! loop polls. A report is at most `PIPE_BUF` bytes, so that those of several threads are not
//! mixed. A text is pending from `give` to its report, whatever becomes of it: an error is
//! reported as one, with the bytes, so that what waits for room goes on.
//!
//! What is in the queues is bounded by the loop: it stops reading a rank's output while too much
//! of it is not reported as written ([`WINDOW`](crate::output::stream::WINDOW)). A thread is
//! started by its first text, after signals were blocked (it inherits the mask), and is not waited
//! for unless it is idle.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use mica_node::process::{set_nonblocking, wait_ready};

/// A file that is opened by the thread that first writes to it: to open a named pipe takes until it
/// has a reader.
pub struct OutputSink {
    file: OnceLock<File>,
    open: Box<dyn Fn() -> io::Result<File> + Send + Sync>,
}

impl OutputSink {
    /// A file that `open` opens.
    pub fn new(open: impl Fn() -> io::Result<File> + Send + Sync + 'static) -> OutputSink {
        OutputSink { file: OnceLock::new(), open: Box::new(open) }
    }

    /// Writes all bytes, even if another process has made the file non-blocking.
    pub fn write_all(&self, mut text: &[u8]) -> io::Result<()> {
        let mut file = match self.file.get() {
            Some(file) => file,
            None => {
                let opened = (self.open)()?;
                self.file.get_or_init(|| opened)
            }
        };
        while !text.is_empty() {
            match file.write(text) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => text = &text[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait_ready(&[], &[file.as_fd()], None)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A text to write.
pub struct WriteItem {
    /// Where to.
    pub sink: Arc<OutputSink>,
    /// A number for the sink, which the report repeats.
    pub channel: u32,
    /// The text.
    pub text: Vec<u8>,
    /// The source to inform, if one is.
    pub source: Option<u32>,
}

impl WriteItem {
    fn write(self, report: &PipeWriter) {
        let written = self.sink.write_all(&self.text);
        send(report, &self, &written);
    }
}

/// What became of a text.
pub struct WriteReport {
    /// The number of its sink.
    pub channel: u32,
    /// Its source.
    pub source: Option<usize>,
    /// Its length.
    pub bytes: u32,
    /// Why it was not written.
    pub error: Option<io::Error>,
}

/// The reports of all threads of an owner.
pub struct WriteReports {
    read: PipeReader,
    write: PipeWriter,
    /// Texts that were accepted and not yet reported.
    pending: usize,
}

/// Bytes of a report: source (from 1; 0: none), bytes, error number (0: none), channel.
const REPORT: usize = 16;

impl WriteReports {
    /// No reports yet.
    pub fn new() -> io::Result<WriteReports> {
        let (read, write) = io::pipe()?;
        set_nonblocking(read.as_fd())?;
        Ok(WriteReports { read, write, pending: 0 })
    }

    /// The next report, if there is one.
    pub fn next(&mut self) -> Option<WriteReport> {
        let mut report = [0; REPORT];
        // Reports are written whole: a pipe does not split writes of at most PIPE_BUF bytes.
        let Ok(REPORT) = self.read.read(&mut report) else {
            return None;
        };
        self.pending = self.pending.saturating_sub(1);
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| report[at + i]));
        let error = word(8);
        Some(WriteReport {
            source: word(0).checked_sub(1).map(|source| source as usize),
            bytes: word(4),
            error: (error != 0).then(|| io::Error::from_raw_os_error(error as i32)),
            channel: word(12),
        })
    }

    /// Whether every text that was accepted is reported.
    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }
}

impl AsFd for WriteReports {
    /// Readable when a thread has reported.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

/// A thread and its queue.
pub struct WriterThread {
    items: Sender<WriteItem>,
    thread: JoinHandle<()>,
}

impl WriterThread {
    /// Gives an item to the thread in `place`, which is started if there is none. If none can be
    /// started, the text is written at once: blocking is better than losing it.
    pub fn give(place: &mut Option<WriterThread>, reports: &mut WriteReports, item: WriteItem) {
        reports.pending += 1;
        if place.is_none() {
            let report = reports.write.try_clone();
            *place = report.and_then(WriterThread::start).ok();
        }
        let refused = match place {
            Some(thread) => thread.items.send(item).err().map(|refused| refused.0),
            None => Some(item),
        };
        if let Some(item) = refused {
            item.write(&reports.write);
        }
    }

    fn start(report: PipeWriter) -> io::Result<WriterThread> {
        let (items, queue): (_, Receiver<WriteItem>) = channel();
        let run = move || queue.into_iter().for_each(|item| item.write(&report));
        let thread = std::thread::Builder::new().spawn(run)?;
        Ok(WriterThread { items, thread })
    }

    /// Ends the thread after it has written all, and waits for that end if it `is_idle`.
    pub fn finish(self, is_idle: bool) {
        drop(self.items);
        if is_idle {
            let _ = self.thread.join();
        }
    }
}

fn send(mut report: &PipeWriter, item: &WriteItem, written: &io::Result<()>) {
    const EIO: i32 = 5; // for errors that have no number
    let error = written.as_ref().err();
    let error = error.map_or(0, |error| error.raw_os_error().unwrap_or(EIO));
    let words = [
        item.source.map_or(0, |source| source + 1),
        item.text.len() as u32,
        error as u32,
        item.channel,
    ];
    let mut message = [0; REPORT];
    for (to, word) in message.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    // An error is harmless: the event loop stops reading reports when the job is over.
    let _ = report.write_all(&message);
}
