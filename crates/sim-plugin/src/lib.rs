//! `libmica_sim_plugin.so`: a simulated node inside QEMU's user-mode emulator (leon-2009 3.1).
//!
//! `mica sim` starts each node's process as `qemu-x86_64 -plugin libmica_sim_plugin.so,port=FD,
//! adapter=FD PROGRAM`. QEMU tells the plugin of every block of instructions that runs and of every
//! access to memory; the plugin keeps the node's clock by them ([`node`]), with the caches and the
//! memory of `mica_sim::memory` and the adapter of `mica_sim::adapter`, and speaks to the simulator
//! once a quantum (`mica_sim::port`).
//!
//! - `qemu`: the emulator's interface.
//! - `callbacks`: what QEMU calls. All unsafe code that concerns QEMU is here and in `qemu`.
//! - `node`: the node's clock and how it goes on.
//! - `memory_file`: the program's memory, as adapter and system calls reach it; `host`: with the
//!   time that the adapter's transfers take.
//! - `system_calls`: calls whose results are the simulator's: time, and random bytes.
//! - `region`: the part of the program that is simulated in detail.
//! - `summary`: the counts, by name. `quit`: how the emulator is ended.
//!
//! A simulated node has one processor: a program that starts a second thread is refused. A child
//! after `fork` runs on, emulated but not simulated. Nodes are x86-64 (system calls are known by
//! its numbers); elsewhere this crate is empty.
#![cfg(target_arch = "x86_64")]

mod callbacks;
mod host;
mod memory_file;
mod node;
mod qemu;
mod quit;
mod region;
mod summary;
mod system_calls;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::RawFd;

use qemu::PluginId;

/// Version of QEMU's interface that this plugin was written for; QEMU reads it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = 1;

/// QEMU calls this when it has loaded the plugin. Arguments: `port=FD` and `adapter=FD`. Blocks
/// until the simulator has said what to simulate. Returns 0, or 1 after a line on stderr.
///
/// # Safety
/// QEMU's contract: `argv` has `argc` strings, and the callbacks that are registered here may be
/// called from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let arguments = (0..argc as usize).map(|i| {
        // SAFETY: QEMU passes `argc` valid strings.
        unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy()
    });
    let (mut port, mut adapter) = (None, None);
    for argument in arguments {
        match argument.split_once('=') {
            Some(("port", fd)) => port = fd.parse::<RawFd>().ok(),
            Some(("adapter", fd)) => adapter = fd.parse::<RawFd>().ok(),
            _ => {}
        }
    }
    let (Some(port), Some(adapter)) = (port, adapter) else {
        eprintln!("mica sim: the plugin needs port=FD and adapter=FD; start it by `mica sim run`");
        return 1;
    };
    match node::SimulatedNode::start(port, adapter) {
        Ok(node) => {
            // SAFETY: QEMU's contract of this function.
            unsafe { callbacks::register(id, node) };
            0
        }
        Err(error) => {
            eprintln!("mica sim: {error}");
            1
        }
    }
}
