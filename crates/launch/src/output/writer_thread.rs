//! Threads that write texts to files which may not take them for a long time (a terminal that is
//! held, a pipe whose reader does not read, a file server that hangs), so that the event loop does
//! not wait.
//!
//! The event loop gives texts ([`TextWriter::write`]) and takes reports
//! ([`TextWriter::next_report`]); a thread writes what is in its queue, in order, and reports each
//! text through a pipe that the loop polls. A report is at most `PIPE_BUF` bytes, so that those of
//! several threads are not mixed. A text is pending from `write` to its report, whatever becomes
//! of it: an error is reported as one, with the bytes, so that what waits for room goes on.
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
    fn write_all(&self, mut text: &[u8]) -> io::Result<()> {
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
struct WriteItem {
    sink: Arc<OutputSink>,
    file: u32,
    text: Vec<u8>,
    source: Option<u32>,
}

impl WriteItem {
    fn write(self, report: &PipeWriter) {
        let written = self.sink.write_all(&self.text);
        send(report, &self, &written);
    }
}

/// What became of a text.
pub struct WriteReport {
    /// The number of its file.
    pub file: u32,
    /// Its source.
    pub source: Option<usize>,
    /// Its length.
    pub bytes: u32,
    /// Why it was not written.
    pub error: Option<io::Error>,
}

/// Files by number, and the threads that write them.
pub struct TextWriter {
    /// Each file, and the number of its thread.
    files: Vec<(Arc<OutputSink>, usize)>,
    /// Those that have been given a text.
    threads: Vec<Option<WriterThread>>,
    reports: PipeReader,
    /// What threads report to.
    report: PipeWriter,
    /// Texts that were accepted and not yet reported.
    pending: usize,
}

/// Bytes of a report: source (from 1; 0: none), bytes, error number (0: none), file.
const REPORT: usize = 16;

impl TextWriter {
    /// Without files yet.
    pub fn new() -> io::Result<TextWriter> {
        let (reports, report) = io::pipe()?;
        set_nonblocking(reports.as_fd())?;
        Ok(TextWriter { files: Vec::new(), threads: Vec::new(), reports, report, pending: 0 })
    }

    /// Adds a file for the thread with this number, and returns the file's number.
    pub fn add(&mut self, sink: OutputSink, thread: usize) -> u32 {
        self.threads.resize_with(self.threads.len().max(thread + 1), || None);
        self.files.push((Arc::new(sink), thread));
        self.files.len() as u32 - 1
    }

    /// Gives a text to the thread of a file, which is started if it does not run. If it cannot be
    /// started, the text is written at once: blocking is better than losing it.
    pub fn write(&mut self, file: u32, text: Vec<u8>, source: Option<u32>) {
        let (sink, thread) = &self.files[file as usize];
        let item = WriteItem { sink: Arc::clone(sink), file, text, source };
        self.pending += 1;
        let place = &mut self.threads[*thread];
        if place.is_none() {
            *place = self.report.try_clone().and_then(WriterThread::start).ok();
        }
        let refused = match place {
            Some(thread) => thread.items.send(item).err().map(|refused| refused.0),
            None => Some(item),
        };
        if let Some(item) = refused {
            item.write(&self.report);
        }
    }

    /// The next report, if there is one.
    pub fn next_report(&mut self) -> Option<WriteReport> {
        let mut report = [0; REPORT];
        // Reports are written whole: a pipe does not split writes of at most PIPE_BUF bytes.
        let Ok(REPORT) = self.reports.read(&mut report) else { return None };
        self.pending = self.pending.saturating_sub(1);
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| report[at + i]));
        let error = word(8);
        Some(WriteReport {
            source: word(0).checked_sub(1).map(|source| source as usize),
            bytes: word(4),
            error: (error != 0).then(|| io::Error::from_raw_os_error(error as i32)),
            file: word(12),
        })
    }

    /// Whether every text that was accepted is reported.
    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// Ends the threads after they have written all; waits for that only if nothing is pending.
    pub fn finish(self) {
        let is_idle = self.is_idle();
        for WriterThread { items, thread } in self.threads.into_iter().flatten() {
            drop(items);
            if is_idle {
                let _ = thread.join();
            }
        }
    }
}

impl AsFd for TextWriter {
    /// Readable when a thread has reported.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }
}

/// A thread and its queue.
struct WriterThread {
    items: Sender<WriteItem>,
    thread: JoinHandle<()>,
}

impl WriterThread {
    fn start(report: PipeWriter) -> io::Result<WriterThread> {
        let (items, queue): (_, Receiver<WriteItem>) = channel();
        let run = move || queue.into_iter().for_each(|item| item.write(&report));
        let thread = std::thread::Builder::new().spawn(run)?;
        Ok(WriterThread { items, thread })
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
        item.file,
    ];
    let mut message = [0; REPORT];
    for (to, word) in message.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    // An error is harmless: the event loop stops reading reports when the job is over.
    let _ = report.write_all(&message);
}
