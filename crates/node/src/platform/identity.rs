//! Which machine this is: its name, the running kernel, and what distinguishes kinds of machines as
//! far as the costs of communication are concerned (processor, cores, caches, kernel).
//!
//! Read from /proc and /sys instead of hwloc, so that the library and its tools get the same text
//! for the same machine.

use std::fs;
use std::io::Read;
use std::path::Path;

/// The machine's description. What cannot be read is an empty string.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// The processor's model, as the kernel reports it.
    pub processor: String,
    /// The processors that are online, as the kernel lists them (`0-47`).
    pub processors: String,
    /// The caches of the first processor, innermost first
    /// (`32K Data, 1024K Unified, 32768K Unified`).
    pub caches: String,
    /// The kernel's release.
    pub kernel: String,
}

impl Identity {
    /// Describes the machine that this process runs on.
    pub fn read() -> Identity {
        identity_below(Path::new("/"))
    }
}

/// The name of this machine, or "localhost" if the system does not say.
pub fn host_name() -> String {
    // SAFETY: utsname is plain data for which all zeros is a value.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` is valid for writes.
    let known = unsafe { libc::uname(&mut names) } == 0;
    let bytes = names.nodename.iter().map(|&c| c as u8);
    let name: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    match String::from_utf8(name) {
        Ok(name) if known && !name.is_empty() => name,
        _ => "localhost".to_owned(),
    }
}

/// Names the running kernel: processes with equal names share a clock, and cores. Empty if the
/// system does not say.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn identity_below(root: &Path) -> Identity {
    let line = |path: &str| {
        let text = fs::read_to_string(root.join(path)).unwrap_or_default();
        text.trim().to_owned()
    };
    let caches: Vec<String> = (0..16)
        .map(|index| format!("sys/devices/system/cpu/cpu0/cache/index{index}"))
        .map(|cache| (line(&format!("{cache}/type")), line(&format!("{cache}/size"))))
        .take_while(|(kind, _)| !kind.is_empty())
        .filter(|(kind, _)| kind != "Instruction")
        .map(|(kind, size)| format!("{size} {kind}"))
        .collect();
    Identity {
        processor: processor(&first_page(&root.join("proc/cpuinfo"))),
        processors: line("sys/devices/system/cpu/online"),
        caches: caches.join(", "),
        kernel: line("proc/sys/kernel/osrelease"),
    }
}

/// The first page of a file: reading all of /proc/cpuinfo takes milliseconds on a large machine.
fn first_page(path: &Path) -> String {
    let mut page = vec![0; 4096];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut page));
    page.truncate(read.unwrap_or(0));
    String::from_utf8_lossy(&page).into_owned()
}

/// The model in the text of /proc/cpuinfo: its name, or the numbers that identify it where there is
/// no name (Arm).
fn processor(cpuinfo: &str) -> String {
    let fields = || cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let named = |name: &str| {
        let found = fields().find(|(field, _)| field.trim() == name);
        found.map(|(_, value)| value.trim().to_owned())
    };
    named("model name").unwrap_or_else(|| {
        let parts = ["CPU implementer", "CPU part", "CPU variant"];
        parts.iter().filter_map(|part| named(part)).collect::<Vec<_>>().join(" ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_both_kinds() {
        let x86 = "processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9B14\nstepping\t: 1\n";
        assert_eq!(processor(x86), "AMD EPYC 9B14");
        let arm =
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd40\n";
        assert_eq!(processor(arm), "0x41 0xd40 0x1");
        assert_eq!(processor("nothing of use"), "");
    }

    #[test]
    fn this_machine_is_the_same_twice() {
        let identity = Identity::read();
        assert_eq!(identity, Identity::read());
        assert!(!identity.kernel.is_empty());
    }

    #[test]
    fn undescribed_machine_has_an_empty_identity() {
        let nowhere = Path::new("/proc/self/fdinfo/none");
        assert_eq!(identity_below(nowhere), Identity::default());
    }
}
