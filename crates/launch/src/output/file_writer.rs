//! Files that get output of ranks through this process, written by threads: regular files share
//! one, a named pipe has its own, since it may have no reader.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::output::writer_thread::{OutputSink, WriteItem, WriteReports, WriterThread};

/// A file for output, as far as it can be opened without waiting.
pub enum OpenedFile {
    /// An open file.
    File(File),
    /// A named pipe: to open it takes until it has a reader.
    NamedPipe,
}

struct OutputFile {
    name: PathBuf,
    sink: Arc<OutputSink>,
    /// The thread of a named pipe.
    thread: Option<WriterThread>,
    is_named_pipe: bool,
    /// An error has been reported.
    failed: bool,
}

/// The files that this process writes, by number.
pub struct FileWriter {
    files: Vec<OutputFile>,
    numbers: HashMap<PathBuf, u32>,
    /// The thread of files that are no named pipes.
    thread: Option<WriterThread>,
    reports: WriteReports,
}

impl FileWriter {
    /// Without files yet.
    pub fn new() -> io::Result<FileWriter> {
        Ok(FileWriter {
            files: Vec::new(),
            numbers: HashMap::new(),
            thread: None,
            reports: WriteReports::new()?,
        })
    }

    /// The number of a file, which is `opened` if it is new.
    pub fn add(&mut self, name: &Path, opened: OpenedFile) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let path = name.to_owned();
        let is_named_pipe = matches!(opened, OpenedFile::NamedPipe);
        let sink = match opened {
            OpenedFile::File(file) => OutputSink::new(move || file.try_clone()),
            OpenedFile::NamedPipe => {
                OutputSink::new(move || OpenOptions::new().append(true).open(&path))
            }
        };
        let number = self.files.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.files.push(OutputFile {
            name: name.to_owned(),
            sink: Arc::new(sink),
            thread: None,
            is_named_pipe,
            failed: false,
        });
        number
    }

    /// Gives a text of the stream with number `source` to the thread of a file.
    pub fn write(&mut self, number: u32, text: Vec<u8>, source: u32) {
        let file = &mut self.files[number as usize];
        let item =
            WriteItem { sink: Arc::clone(&file.sink), channel: number, text, source: Some(source) };
        let thread = match file.is_named_pipe {
            true => &mut file.thread,
            false => &mut self.thread,
        };
        WriterThread::give(thread, &mut self.reports, item);
    }

    /// What was written since the last call, as streams and bytes, and the first error of each
    /// file, in words.
    pub fn written(&mut self) -> (Vec<(usize, u32)>, Vec<String>) {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        while let Some(report) = self.reports.next() {
            all.extend(report.source.map(|source| (source, report.bytes)));
            let file = &mut self.files[report.channel as usize];
            if let Some(error) = report.error
                && !std::mem::replace(&mut file.failed, true)
            {
                let name = file.name.display();
                problems.push(format!("mpiexec: cannot write to {name}: {error}\n"));
            }
        }
        (all, problems)
    }

    /// Whether all is written.
    pub fn is_idle(&self) -> bool {
        self.reports.is_idle()
    }
}

impl AsFd for FileWriter {
    /// Readable when a thread has reported.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::process::wait_readable;

    fn wait_until_idle(files: &mut FileWriter) -> (u32, Vec<String>) {
        let (mut bytes, mut problems) = (0, Vec::new());
        while !files.is_idle() {
            wait_readable(&[files.as_fd()], None).unwrap();
            let (written, failed) = files.written();
            bytes += written.iter().map(|(_, bytes)| bytes).sum::<u32>();
            problems.extend(failed);
        }
        (bytes, problems)
    }

    #[test]
    fn the_first_error_of_a_file_is_reported_and_its_bytes_are_given_back() {
        let mut files = FileWriter::new().unwrap();
        let full = Path::new("/dev/full");
        let file = OpenOptions::new().append(true).open(full).unwrap();
        let number = files.add(full, OpenedFile::File(file));
        assert_eq!(files.add(full, OpenedFile::NamedPipe), number, "known");
        files.write(number, b"lost".to_vec(), 0);
        files.write(number, b"too".to_vec(), 0);
        let (bytes, problems) = wait_until_idle(&mut files);
        assert_eq!(bytes, 7);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("cannot write to /dev/full: No space"));
    }
}
