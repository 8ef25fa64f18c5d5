//! Processes of a simulated node, without emulation: the registers of the adapter are a file
//! without a model behind it. Shows that a process joins by them alone, what it stores to them, and
//! how it refuses what is no adapter.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use mica_node::adapter::{ADAPTER_VARIABLE, COMMANDS_OFFSET, CommandKind, DEVICE_BYTES, MAGIC};
use mica_tests::{Install, Job, target};

/// The memory of an adapter in a file.
struct Device(PathBuf);

impl Device {
    fn new(name: &str, magic: u64, rank: u32, size: u32) -> Device {
        let path = target().join(format!("adapter-{name}-{}", std::process::id()));
        let mut file = File::create(&path).expect("target is writable");
        file.set_len(DEVICE_BYTES as u64).expect("room");
        let mut head = magic.to_le_bytes().to_vec();
        head.extend(rank.to_le_bytes());
        head.extend(size.to_le_bytes());
        file.write_all(&head).expect("room");
        Device(path)
    }

    /// The `N` bytes at `offset`.
    fn at<const N: usize>(&self, offset: usize) -> [u8; N] {
        let bytes = fs::read(&self.0).expect("the file is there");
        bytes[offset..offset + N].try_into().expect("N bytes")
    }

    fn register(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.at(offset))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const DOORBELL: usize = 64;
const HINT: usize = 192;
const MARKER: usize = 256;

/// The program with descriptor 9 on `file`.
fn program(file: &Path, action: &str) -> Job {
    Job::new("/bin/sh")
        .args(["-c", r#"exec 9<>"$1"; shift; exec "$@""#, "sh"])
        .args([file.as_os_str()])
        .args([Install::find().program("tools/adapter_registers").as_os_str()])
        .args([action])
        .env(ADAPTER_VARIABLE, "9")
}

#[test]
fn joins_and_ends_by_the_registers_alone() {
    let device = Device::new("joins", MAGIC, 0, 1);
    let out = program(&device.0, "finalize").run().expect_success();
    assert_eq!(out.stdout, "rank 0 of 1 on sim0, time runs\n");
    assert_eq!(out.stderr, "");
    assert_eq!(device.register(MARKER), 5);
}

#[test]
fn a_receive_is_a_command_and_abort_is_the_end_of_the_process() {
    let device = Device::new("aborts", MAGIC, 2, 5);
    let out = program(&device.0, "abort").run().expect_code(9);
    assert_eq!(out.stdout, "rank 2 of 5 on sim2, time runs\n");
    let place = device.register(DOORBELL) as usize;
    let command = COMMANDS_OFFSET + place * 128;
    let word = |at: usize| u32::from_le_bytes(device.at(command + at));
    assert_eq!(word(0), CommandKind::Receive as u32);
    assert_eq!((word(4), word(16), word(20)), (0, 77, 0), "source, tag, flags");
    assert_eq!(device.register(command + 32), 4, "bytes of the buffer");
    assert_eq!(device.register(HINT), device.register(command + 40), "its token");
}

#[test]
fn refuses_what_is_no_adapter_in_one_line() {
    let device = Device::new("magic", 1, 0, 1);
    let no_rank = Device::new("rank", MAGIC, 3, 3);
    let named = |value: &str| {
        let program = Install::find().program("tools/adapter_registers");
        Job::new(program).args(["finalize"]).env(ADAPTER_VARIABLE, value)
    };
    for (job, reason) in [
        (named("four"), "MICA_SIM_ADAPTER=four: expected the number of a descriptor"),
        (named("-1"), "MICA_SIM_ADAPTER=-1: expected the number of a descriptor"),
        (named("77"), "MICA_SIM_ADAPTER=77: this descriptor is no memory of an adapter"),
        (program(Path::new("/dev/null"), "finalize"), "this descriptor has 0 bytes"),
        (program(&device.0, "finalize"), "the adapter's first register is 0x1"),
        (program(&no_rank.0, "finalize"), "the adapter says rank 3 of 3"),
    ] {
        let out = job.run().expect_failure().says(reason);
        let lines = out.stderr.lines().filter(|line| line.contains(ADAPTER_VARIABLE));
        assert_eq!(lines.count(), 1, "{}", out.report());
    }
}
