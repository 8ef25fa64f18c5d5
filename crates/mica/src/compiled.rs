//! A program of the suite of `mica bench`, compiled for one use and run under a launcher.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::explain::prefix;
use crate::scratch::ScratchFolder;

/// The compiled program. Its directory is removed with the value.
pub struct CompiledProgram {
    folder: ScratchFolder,
    /// The executable.
    pub file: PathBuf,
}

/// An installed MPI library, by the directory that has its `bin`.
pub struct MpiPrefix(PathBuf);

impl MpiPrefix {
    /// The one given, or the one that this command belongs to.
    pub fn of(given: Option<&Path>) -> Result<MpiPrefix, String> {
        match given {
            Some(prefix) => Ok(MpiPrefix(prefix.to_owned())),
            None => prefix()
                .map(MpiPrefix)
                .ok_or_else(|| "cannot find the installation of this command".to_owned()),
        }
    }

    /// A command of it.
    pub fn command(&self, name: &str) -> PathBuf {
        self.0.join("bin").join(name)
    }
}

impl CompiledProgram {
    /// Compiles `bench/src/NAME.c` of this installation.
    pub fn new(name: &str, compiler: &Path) -> Result<CompiledProgram, String> {
        let installed = prefix().ok_or("cannot find the installation of this command")?;
        let source = installed.join(format!("share/mica/bench/src/{name}.c"));
        if !source.is_file() {
            return Err(format!("{} is not installed", source.display()));
        }
        let folder = ScratchFolder::new(name)?;
        let program = CompiledProgram { file: folder.path().join(name), folder };
        let mut compile = Command::new(compiler);
        compile.args(["-std=gnu11", "-O2", "-o"]);
        compile.arg(&program.file).arg(&source).arg("-lm");
        output_of(compile)?;
        Ok(program)
    }

    /// Its directory, which may hold what it writes.
    pub fn directory(&self) -> &Path {
        self.folder.path()
    }
}

/// What the command prints on its standard output.
///
/// # Errors
/// If it cannot be started or fails: its name, its status and the end of what it said.
pub fn output_of(mut command: Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.trim_end();
    Err(match said.is_empty() {
        true => format!("{name}: {}", done.status),
        false => format!("{name}: {}: {said}", done.status),
    })
}

/// A command of these words.
pub fn command_of(words: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}
