//! Locations of the suite, the installation of Mica, and the working folders.

use std::env;
use std::path::{Path, PathBuf};

use crate::explain::prefix;

/// The folders of one run.
pub struct Places {
    /// Holds `suite.toml` and `src/`.
    pub suite: PathBuf,
    /// Compiled programs, and files of runs.
    pub work: PathBuf,
    /// The peers, each in a folder of that name.
    pub peers: PathBuf,
    /// The folder for results.
    pub results: PathBuf,
    /// The source tree, if the command runs in one.
    pub tree: Option<PathBuf>,
}

impl Places {
    /// Finds the folders. In a source tree all are in it; otherwise the installed suite is used,
    /// and output goes to the user's cache.
    pub fn find(suite: Option<&Path>, peers: Option<&Path>) -> Result<Places, String> {
        let here = env::current_dir().map_err(|error| format!("the current folder: {error}"))?;
        let tree = here.ancestors().find(|folder| is_source_tree(folder));
        let installed = prefix().map(|prefix| prefix.join("share/mica/bench"));
        let shipped = tree.map(|tree| tree.join("bench")).or(installed);
        let suite = match suite {
            Some(folder) => here.join(folder),
            None => shipped.ok_or("this command's own path is not known: give --suite DIR")?,
        };
        if !suite.join("suite.toml").is_file() {
            let suite = suite.display();
            return Err(format!("no suite.toml in {suite}: give --suite DIR"));
        }
        let target = match tree {
            Some(tree) => tree.join("target"),
            None => cache()?,
        };
        Ok(Places {
            work: target.join("bench"),
            peers: peers.map_or_else(|| target.join("peers"), |folder| here.join(folder)),
            results: tree
                .map_or_else(|| here.join("mica-bench"), |tree| tree.join("bench/results")),
            tree: tree.map(Path::to_owned),
            suite,
        })
    }
}

fn is_source_tree(folder: &Path) -> bool {
    folder.join("bench/suite.toml").is_file() && folder.join("crates/mica").is_dir()
}

/// `$XDG_CACHE_HOME/mica`.
fn cache() -> Result<PathBuf, String> {
    let base = match env::var_os("XDG_CACHE_HOME") {
        Some(folder) if Path::new(&folder).is_absolute() => PathBuf::from(folder),
        _ => match env::var_os("HOME") {
            Some(home) => PathBuf::from(home).join(".cache"),
            None => return Err("neither XDG_CACHE_HOME nor HOME is set".to_owned()),
        },
    };
    Ok(base.join("mica"))
}
