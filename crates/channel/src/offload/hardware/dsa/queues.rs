//! Finds the work queues that user programs may use: those that `accel-config` has set up, as
//! listed in sysfs (Documentation/ABI/stable/sysfs-driver-dma-idxd).

use std::fs;
use std::path::{Path, PathBuf};

/// Who may submit to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueueMode {
    /// Many processes, each by ENQCMD, which reports a full queue.
    Shared,
    /// One process at a time, by MOVDIR64B; the process itself must count the descriptors in the
    /// queue.
    Dedicated,
}

/// An enabled work queue for user programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueInfo {
    /// Name, such as `wq0.1`.
    pub name: String,
    /// The character device.
    pub device: PathBuf,
    /// Directory of its attributes.
    pub attributes: PathBuf,
    /// Who may submit.
    pub mode: QueueMode,
    /// Entries.
    pub size: usize,
    /// Longest transfer of one descriptor, in bytes.
    pub max_transfer: usize,
}

/// Where the kernel lists the queues.
pub(super) const SYSFS: &str = "/sys/bus/dsa/devices";
/// Where their character devices are.
pub(super) const DEVICES: &str = "/dev/dsa";

/// Every enabled user queue of this machine, shared ones first. Empty if there is no DSA or no
/// queue is set up.
pub fn find_queues() -> Vec<QueueInfo> {
    find_in(Path::new(SYSFS), Path::new(DEVICES))
}

/// [`find_queues`] in other directories.
pub(super) fn find_in(sysfs: &Path, devices: &Path) -> Vec<QueueInfo> {
    let Ok(entries) = fs::read_dir(sysfs) else {
        return Vec::new();
    };
    let mut queues: Vec<QueueInfo> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            queue(name, &entry.path(), devices)
        })
        .collect();
    queues.sort_by(|a, b| (a.mode, &a.name).cmp(&(b.mode, &b.name)));
    queues
}

/// The queue with these attributes, if user programs may use it.
fn queue(name: String, attributes: &Path, devices: &Path) -> Option<QueueInfo> {
    // The directory also lists devices, groups and engines.
    name.strip_prefix("wq")?.split_once('.')?;
    let text = |file: &str| {
        let text = fs::read_to_string(attributes.join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    if text("type")? != "user" || text("state")? != "enabled" {
        return None;
    }
    let mode = match text("mode")?.as_str() {
        "shared" => QueueMode::Shared,
        "dedicated" => QueueMode::Dedicated,
        _ => return None,
    };
    let number = |file: &str| text(file)?.parse::<usize>().ok().filter(|&n| n > 0);
    let size = number("size")?;
    // The kernel maps the limited portal, through which a shared queue accepts at most `threshold`
    // entries.
    let entries = match mode {
        QueueMode::Shared => number("threshold").map_or(size, |threshold| threshold.min(size)),
        QueueMode::Dedicated => size,
    };
    Some(QueueInfo {
        device: devices.join(&name),
        attributes: attributes.to_owned(),
        mode,
        size: entries,
        max_transfer: number("max_transfer_size")?,
        name,
    })
}

/// Whether the queue is enabled right now.
pub(super) fn is_enabled(attributes: &Path) -> bool {
    fs::read_to_string(attributes.join("state")).is_ok_and(|state| state.trim() == "enabled")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that is removed with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            let path = std::env::temp_dir().join(format!("mica-dsa-{}", std::process::id()));
            fs::create_dir_all(&path).expect("scratch directory");
            Scratch(path)
        }

        fn queue(&self, name: &str, attributes: &[(&str, &str)]) {
            let directory = self.0.join(name);
            fs::create_dir_all(&directory).expect("queue");
            for (file, text) in attributes {
                fs::write(directory.join(file), format!("{text}\n")).expect("attribute");
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn enabled_user_queues_are_found() {
        let scratch = Scratch::new();
        let user = |mode, state, size| {
            [
                ("type", "user"),
                ("mode", mode),
                ("state", state),
                ("size", size),
                ("max_transfer_size", "2097152"),
            ]
        };
        scratch.queue("wq0.0", &user("dedicated", "enabled", "16"));
        scratch.queue("wq0.1", &user("shared", "enabled", "64"));
        scratch.queue("wq0.1", &[("threshold", "48")]);
        scratch.queue("wq0.2", &user("shared", "disabled", "64"));
        scratch.queue("wq1.0", &user("shared", "enabled", "0"));
        scratch.queue("wq1.1", &user("shared", "enabled", "8"));
        scratch.queue("wq1.1", &[("type", "kernel")]);
        scratch.queue("dsa0", &user("shared", "enabled", "8"));
        scratch.queue("wq1.2", &[("type", "user")]);
        let found = find_in(&scratch.0, Path::new("/dev/dsa"));
        let names: Vec<&str> = found.iter().map(|q| q.name.as_str()).collect();
        assert_eq!(names, ["wq0.1", "wq0.0"]);
        assert_eq!(found[0].device, Path::new("/dev/dsa/wq0.1"));
        assert_eq!((found[0].mode, found[0].size), (QueueMode::Shared, 48));
        assert_eq!((found[1].mode, found[1].size), (QueueMode::Dedicated, 16));
        assert_eq!(found[1].max_transfer, 2 << 20);
        assert!(is_enabled(&found[0].attributes));
        assert!(!is_enabled(&scratch.0.join("wq0.2")) && !is_enabled(&scratch.0.join("none")));
        assert!(find_in(&scratch.0.join("none"), Path::new("/dev/dsa")).is_empty());
    }
}
