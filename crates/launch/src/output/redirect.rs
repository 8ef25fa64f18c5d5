//! Where the output of ranks goes: labelled, to files, to nowhere, or unchanged to mpiexec's own.
//!
//! The rules come from the command line ([`OutputRules`]) and are sent with a node's part of the
//! job. When a rank is started, [`Redirect::of_rank`] makes a [`StreamOutlet`] from them for each
//! of its two streams. A file that gets exactly what a rank prints is given to the rank itself;
//! everything else passes through a pipe and [`crate::output::stream`], and so does what goes to a
//! named pipe, which can only be opened when it has a reader.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use mica_node::handover::FileIdentity;
use rustix::fs::fstat;

use crate::options::values::output_rules::{OutputRules, StreamRules};
use crate::options::values::pattern::PatternRank;
use crate::output::file_writer::{FileWriter, OpenedFile};
use crate::output::stream::{LineLabel, Pipe, RankStream, StreamFile};
use crate::output::{OutputTarget, output_file, own, own_file};

/// Where one stream of a rank goes.
pub enum StreamOutlet {
    /// To mpiexec's own output, unchanged.
    Inherit(OutputTarget),
    /// To a file, written by the rank itself.
    File(File),
    /// Nowhere.
    Null,
    /// Through a pipe.
    Pipe(PipeOutlet),
}

/// How the bytes from a pipe are processed.
pub struct PipeOutlet {
    label: Option<LineLabel>,
    file: Option<StreamFile>,
    target: OutputTarget,
}

impl StreamOutlet {
    /// The descriptor that the rank's process gets.
    pub fn stdio(&self) -> io::Result<Stdio> {
        Ok(match self {
            StreamOutlet::Inherit(target) => own(*target)?.into(),
            StreamOutlet::File(file) => file.try_clone()?.into(),
            StreamOutlet::Null => Stdio::null(),
            StreamOutlet::Pipe(_) => Stdio::piped(),
        })
    }

    /// The file that the rank's process gets; `None` for a pipe and `/dev/null`.
    pub fn file(&self) -> io::Result<Option<FileIdentity>> {
        let file = match self {
            StreamOutlet::Inherit(target) => own_file(*target)?,
            StreamOutlet::File(file) => fstat(file)?,
            StreamOutlet::Null | StreamOutlet::Pipe(_) => return Ok(None),
        };
        Ok(output_file(&file))
    }

    /// Whether it is a pipe without a file.
    pub fn is_bare_pipe(&self) -> bool {
        matches!(self, StreamOutlet::Pipe(pipe) if pipe.file.is_none())
    }
}

impl PipeOutlet {
    /// The stream with number `id` that reads a rank's pipe.
    pub fn stream(self, id: u32, pipe: impl Pipe + 'static) -> RankStream {
        RankStream::new(id, self.label, pipe, self.target, self.file)
    }
}

/// The files of the ranks of a node.
#[derive(Default)]
pub struct Redirect {
    files: HashMap<PathBuf, File>,
}

impl Redirect {
    /// The outlets of a rank: standard output and standard error. `pipes`: for each of mpiexec's
    /// two outputs, whether what goes there passes through a pipe. File names are relative to
    /// `directory`. Those that this process writes are added to `writer`.
    ///
    /// # Errors
    /// When a file cannot be opened; the error names it.
    pub fn of_rank(
        &mut self,
        rules: &OutputRules,
        rank: &PatternRank,
        pipes: [bool; 2],
        directory: &Path,
        writer: &mut FileWriter,
    ) -> io::Result<[StreamOutlet; 2]> {
        if !rules.only.contains(rank.rank) {
            return Ok([StreamOutlet::Null, StreamOutlet::Null]);
        }
        let err_rules = if rules.merge { &rules.out } else { &rules.err };
        let err_target = if rules.merge { OutputTarget::Out } else { OutputTarget::Err };
        let mut outlet = |stream: &StreamRules, target| -> io::Result<StreamOutlet> {
            let label = stream.label.clone().map(|pattern| LineLabel::new(pattern, rank.clone()));
            let name = stream.file.as_ref();
            let name = name.map(|name| directory.join(name.fill(rank)));
            let file = if let Some(name) = name { Some((self.open(&name)?, name)) } else { None };
            Ok(match file {
                Some((OpenedFile::File(file), _)) if label.is_none() && !rules.copy => {
                    StreamOutlet::File(file)
                }
                None if label.is_none() && !pipes[target as usize] => StreamOutlet::Inherit(target),
                file => StreamOutlet::Pipe(PipeOutlet {
                    label,
                    file: file.map(|(opened, name)| StreamFile {
                        number: writer.add(&name, opened),
                        copy: rules.copy,
                    }),
                    target,
                }),
            })
        };
        Ok([outlet(&rules.out, OutputTarget::Out)?, outlet(err_rules, err_target)?])
    }

    /// Opens a file for a stream. The first open on this node truncates it; all writes append.
    fn open(&mut self, path: &Path) -> io::Result<OpenedFile> {
        let named = |error: io::Error| {
            let text = format!("cannot write the output of ranks to {}: {error}", path.display());
            io::Error::new(error.kind(), text)
        };
        if let Some(file) = self.files.get(path) {
            return Ok(OpenedFile::File(file.try_clone().map_err(named)?));
        }
        if fs::metadata(path).is_ok_and(|data| data.file_type().is_fifo()) {
            return Ok(OpenedFile::NamedPipe);
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(named)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(named)?;
        // A file that is not a regular one (/dev/null, a pipe) cannot be truncated, and need not
        // be.
        if file.metadata().is_ok_and(|data| data.is_file()) {
            file.set_len(0).map_err(named)?;
        }
        self.files.insert(path.to_owned(), file.try_clone().map_err(named)?);
        Ok(OpenedFile::File(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_as_open_mpi_names_them() {
        let rank = PatternRank { rank: 2, size: 12, node: 0, host: "h".to_owned() };
        let names = |text: &str, read: fn(&mut OutputRules, &str) -> Option<()>| {
            let mut rules = OutputRules::default();
            read(&mut rules, text)?;
            let name = |rules: &StreamRules| rules.file.as_ref().map(|file| file.fill(&rank));
            Some((name(&rules.out)?, name(&rules.err)?, rules.copy))
        };
        let wanted = |out: &str, err: &str, copy| Some((out.to_owned(), err.to_owned(), copy));
        let directory = OutputRules::read_directory;
        assert_eq!(names("d", directory), wanted("d/1/rank.02/stdout", "d/1/rank.02/stderr", true));
        assert_eq!(
            names("100%:nocopy,nojobid", directory),
            wanted("100%/rank.02/stdout", "100%/rank.02/stderr", false)
        );
        assert_eq!(names("d:what", directory), None);
        assert_eq!(names(":nocopy", directory), None);
        let words = OutputRules::read_words;
        assert_eq!(names("file=f", words), wanted("f.02.out", "f.02.err", false));
        assert_eq!(
            names("tag,dir=d", words),
            wanted("d/1/rank.02/stdout", "d/1/rank.02/stderr", false)
        );
        for bad in ["", "tag=1", "file=", "xml"] {
            assert!(OutputRules::default().read_words(bad).is_none(), "{bad}");
        }
    }
}
