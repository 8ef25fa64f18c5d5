//! Output of ranks, as it comes or line by line, each line labelled with the rank.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::redirect::{Label, OutputFile};
pub use crate::wire::Target;

/// A pipe from one rank.
pub struct Stream {
    pipe: Box<dyn Pipe>,
    /// `None`: bytes are passed on as they come.
    lines: Option<Labelled>,
    target: Target,
    /// What takes it instead of the target, or besides.
    file: Option<OutputFile>,
}

/// The read end of a pipe.
pub trait Pipe: Read + AsFd {}
impl<T: Read + AsFd> Pipe for T {}

impl Stream {
    /// Reads `pipe` for `target`, with this rank's label if there is one.
    pub fn new(label: Option<Label>, pipe: impl Pipe + 'static, target: Target) -> Stream {
        Stream {
            pipe: Box::new(pipe),
            lines: label.map(Labelled::new),
            target,
            file: None,
        }
    }

    /// The same with a file.
    pub fn into_file(self, file: Option<OutputFile>) -> Stream {
        Stream { file, ..self }
    }

    /// The descriptor to wait for.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Moves what is there to `sink`; to be called when the pipe is readable. Answers whether more can come.
    pub fn pump(&mut self, sink: &mut dyn FnMut(Target, Vec<u8>)) -> bool {
        let mut buffer = [0; 65536];
        let read = match self.pipe.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(_) => 0,
        };
        let text = match (&mut self.lines, read) {
            (None, _) => buffer[..read].to_vec(),
            (Some(lines), 0) => lines.finish(),
            (Some(lines), _) => lines.push(&buffer[..read]),
        };
        if let Some(file) = &mut self.file {
            file.write(&text);
            if !file.copy {
                return read > 0;
            }
        }
        if !text.is_empty() {
            sink(self.target, text);
        }
        read > 0
    }
}

/// Writes to this process's own output. A reader that has gone (`| head`) must not end the job: the text is dropped.
pub fn print(target: Target, text: &[u8]) {
    let _ = match target {
        Target::Out => {
            let mut out = io::stdout().lock();
            out.write_all(text).and_then(|()| out.flush())
        }
        Target::Err => io::stderr().write_all(text),
    };
}

/// Cuts text into lines and puts the label before each.
struct Labelled {
    label: Label,
    partial: Vec<u8>,
}

impl Labelled {
    /// A line without end is passed on in parts of this size, so that memory stays bounded.
    const LONGEST_LINE: usize = 1 << 20;

    fn new(label: Label) -> Labelled {
        Labelled {
            label,
            partial: Vec::new(),
        }
    }

    /// The complete lines after adding `bytes`.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes.len() + 64);
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.partial.len() >= Self::LONGEST_LINE {
                self.emit(&mut text);
            }
        }
        text
    }

    /// What is left when the rank has closed its output.
    fn finish(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        if !self.partial.is_empty() {
            self.emit(&mut text);
        }
        text
    }

    fn emit(&mut self, text: &mut Vec<u8>) {
        self.label.begin(text);
        text.append(&mut self.partial);
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(rank: u32) -> Labelled {
        let pattern = crate::pattern::Pattern::parse("[%r] ").unwrap();
        let rank = crate::pattern::PatternRank {
            rank,
            size: 4,
            node: 0,
            host: String::new(),
        };
        Labelled::new(Label::new(pattern, rank))
    }

    #[test]
    fn lines_are_labelled_when_complete() {
        let mut lines = labelled(3);
        assert_eq!(lines.push(b"one\ntw"), b"[3] one\n");
        assert_eq!(lines.push(b"o"), b"");
        assert_eq!(lines.push(b"\n\nthree"), b"[3] two\n[3] \n");
        assert_eq!(lines.finish(), b"[3] three\n");
        assert_eq!(lines.finish(), b"");
    }

    #[test]
    fn a_line_without_end_does_not_fill_memory() {
        let mut lines = labelled(0);
        let piece = vec![b'x'; 65536];
        let out: usize = (0..64).map(|_| lines.push(&piece).len()).sum();
        assert!(out >= 3 << 20);
        assert!(lines.partial.len() < Labelled::LONGEST_LINE + 65536);
    }
}
