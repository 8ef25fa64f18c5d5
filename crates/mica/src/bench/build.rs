//! Compiles the programs, each with each library's own mpicc, unless they are up to date.
//!
//! The name of a compiled program contains a hash of all its inputs. So a changed source, header,
//! wrapper or flag gives a new file, and nothing else does.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::contestant::Contestant;
use super::execute::{BenchCommand, Executor, tail};

const FLAGS: [&str; 3] = ["-std=gnu11", "-O2", "-pthread"];

/// Prints the library's version without a launcher.
const VERSION: &str = "#include <mpi.h>\n#include <stdio.h>\n\
    int main(void) { char v[MPI_MAX_LIBRARY_VERSION_STRING]; int n; \
    MPI_Get_library_version(v, &n); puts(v); return 0; }\n";

/// Compiles programs into `work`.
pub struct Builder<'a> {
    pub work: &'a Path,
    pub sources: &'a Path,
}

impl Builder<'_> {
    /// The first line of the library's version string.
    pub fn version(
        &self,
        executor: &mut Executor,
        contestant: &Contestant,
    ) -> Result<String, String> {
        let source = written(executor.scratch(), "version.c", VERSION)?;
        let program = self.compile(executor, Some(contestant), source, &[])?;
        let done = executor.run(&BenchCommand {
            command: &[program.display().to_string()],
            env: &contestant.environment(),
            cpus: None,
            limit: Duration::from_secs(60),
        });
        if let Some(complaint) = done.end.complaint() {
            return Err(format!("its version: {complaint}\n{}", tail(&done, 5)));
        }
        let line = done.stdout.lines().next().unwrap_or_default();
        Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// A file of the suite, compiled by the library's mpicc; without MPI if there is no library.
    pub fn compile(
        &self,
        executor: &mut Executor,
        contestant: Option<&Contestant>,
        source: impl AsRef<Path>,
        flags: &[String],
    ) -> Result<PathBuf, String> {
        let source = &self.sources.join(source);
        let (compiler, name, env) = match contestant {
            // Variants of Mica share its programs.
            Some(c) if c.is_mica() => (c.mpicc(), "mica", c.environment()),
            Some(c) => (c.mpicc(), c.name.as_str(), c.environment()),
            None => (PathBuf::from("cc"), "floor", BTreeMap::new()),
        };
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let hash = self.hash(&compiler, source, flags)?;
        let folder = self.work.join(name);
        let out = folder.join(format!("{stem}-{hash:016x}"));
        if out.exists() {
            return Ok(out);
        }
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // Compiled to another name first: a partial file is not used as the program later.
        let new = folder.join(format!("{stem}.{}.new", std::process::id()));
        let mut command = vec![compiler.display().to_string()];
        command.extend(FLAGS.map(str::to_owned));
        command.extend(["-I".to_owned(), self.sources.display().to_string()]);
        command.extend(["-o".to_owned(), new.display().to_string()]);
        command.push(source.display().to_string());
        command.extend(flags.iter().cloned());
        command.push("-lm".to_owned());
        executor.succeed(&command, &env, Duration::from_secs(120), 12)?;
        fs::rename(&new, &out).map_err(|error| format!("{}: {error}", out.display()))?;
        Ok(out)
    }

    fn hash(&self, compiler: &Path, source: &Path, flags: &[String]) -> Result<u64, String> {
        let mut hasher = DefaultHasher::new();
        (compiler, FLAGS, flags).hash(&mut hasher);
        let read =
            |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        read(source)?.hash(&mut hasher);
        let entries = fs::read_dir(self.sources);
        let mut headers: Vec<PathBuf> = entries
            .map_err(|error| format!("{}: {error}", self.sources.display()))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == "h"))
            .collect();
        // The library is represented by its wrapper and its header, wherever that is. An update of
        // a peer changes either.
        headers.sort();
        let prefix = compiler.parent().and_then(Path::parent);
        let library =
            [compiler.to_owned()].into_iter().chain(prefix.map(|p| p.join("include/mpi.h")));
        for path in headers.into_iter().chain(library.filter(|path| path.is_file())) {
            read(&path)?.hash(&mut hasher);
        }
        Ok(hasher.finish())
    }
}

fn written(folder: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
