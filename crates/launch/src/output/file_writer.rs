//! Files that get output of ranks through this process, written by threads: regular files share
//! one, a named pipe has its own, since it may have no reader.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use crate::output::writer_thread::{OutputSink, TextWriter};

/// A file for output, as far as it can be opened without waiting.
pub enum OpenedFile {
    /// An open file.
    File(File),
    /// A named pipe: to open it takes until it has a reader.
    NamedPipe,
}

/// The files that this process writes, by number.
pub struct FileWriter {
    writer: TextWriter,
    /// The name of each, and whether an error has been reported.
    files: Vec<(PathBuf, bool)>,
}

/// The thread of files that are no named pipes.
const SHARED_THREAD: usize = 0;

impl FileWriter {
    /// Without files yet.
    pub fn new() -> io::Result<FileWriter> {
        Ok(FileWriter { writer: TextWriter::new()?, files: Vec::new() })
    }

    /// The number of a file, which is `opened` if it is new.
    pub fn add(&mut self, name: &Path, opened: OpenedFile) -> u32 {
        if let Some(known) = self.files.iter().position(|(known, _)| known == name) {
            return known as u32;
        }
        self.files.push((name.to_owned(), false));
        let path = name.to_owned();
        match opened {
            OpenedFile::File(file) => {
                self.writer.add(OutputSink::new(move || file.try_clone()), SHARED_THREAD)
            }
            OpenedFile::NamedPipe => {
                let open = move || OpenOptions::new().append(true).open(&path);
                self.writer.add(OutputSink::new(open), self.files.len())
            }
        }
    }

    /// Gives a text of the stream with number `source` to the thread of a file.
    pub fn write(&mut self, number: u32, text: Vec<u8>, source: u32) {
        self.writer.write(number, text, Some(source));
    }

    /// What was written since the last call, as streams and bytes, and the first error of each
    /// file, in words.
    pub fn written(&mut self) -> (Vec<(usize, u32)>, Vec<String>) {
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        while let Some(report) = self.writer.next_report() {
            all.extend(report.source.map(|source| (source, report.bytes)));
            let (name, has_failed) = &mut self.files[report.file as usize];
            if let Some(error) = report.error
                && !std::mem::replace(has_failed, true)
            {
                let name = name.display();
                problems.push(format!("mpiexec: cannot write to {name}: {error}\n"));
            }
        }
        (all, problems)
    }

    /// Whether all is written.
    pub fn is_idle(&self) -> bool {
        self.writer.is_idle()
    }
}

impl AsFd for FileWriter {
    /// Readable when a thread has reported.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
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
