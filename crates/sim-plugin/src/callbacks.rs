//! What QEMU calls, and the one node that these calls are about.
//!
//! QEMU calls on the thread of the emulated processor. There is one: a second one ends the
//! simulation before it runs an instruction. So the node is borrowed by one callback at a time.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_uint, c_void};
use std::ptr::null_mut;

use mica_sim::memory::DataAccess;

use crate::node::{BlockFacts, SimulatedNode};
use crate::qemu::{
    LOADS_AND_STORES, NO_REGISTERS, PluginId, TranslatedBlock, qemu_plugin_insn_size,
    qemu_plugin_insn_symbol, qemu_plugin_insn_vaddr, qemu_plugin_mem_is_store,
    qemu_plugin_mem_size_shift, qemu_plugin_register_atexit_cb, qemu_plugin_register_vcpu_init_cb,
    qemu_plugin_register_vcpu_insn_exec_cb, qemu_plugin_register_vcpu_mem_cb,
    qemu_plugin_register_vcpu_syscall_cb, qemu_plugin_register_vcpu_syscall_ret_cb,
    qemu_plugin_register_vcpu_tb_exec_cb, qemu_plugin_register_vcpu_tb_trans_cb,
    qemu_plugin_tb_get_insn, qemu_plugin_tb_n_insns,
};
use crate::system_calls::SystemCall;

/// The node of this process.
struct TheNode(UnsafeCell<Option<SimulatedNode>>);

// SAFETY: only `node` reaches the cell; its callers are callbacks on the thread of the one
// processor, and `register`, before there is a processor.
unsafe impl Sync for TheNode {}

static NODE: TheNode = TheNode(UnsafeCell::new(None));

/// The node.
///
/// # Safety
/// The caller is a callback on the thread of the one processor, calls this once, and does not call
/// back into QEMU's translator while it holds the reference.
#[inline(always)]
unsafe fn node() -> &'static mut SimulatedNode {
    // SAFETY: no other reference exists (this function's contract); `register` has set it.
    unsafe { (*NODE.0.get()).as_mut().unwrap_unchecked() }
}

/// Registers all callbacks.
///
/// # Safety
/// Called once, from `qemu_plugin_install`, with QEMU's name for the plugin.
pub unsafe fn register(id: PluginId, node: SimulatedNode) {
    // SAFETY: no processor runs yet, so no callback; QEMU's functions are called with its name for
    // this plugin and functions that stay.
    unsafe {
        *NODE.0.get() = Some(node);
        qemu_plugin_register_vcpu_init_cb(id, on_processor);
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu_plugin_register_vcpu_syscall_cb(id, on_system_call);
        qemu_plugin_register_vcpu_syscall_ret_cb(id, on_system_call_return);
        qemu_plugin_register_atexit_cb(id, on_exit, null_mut());
    }
}

/// The first processor is the program's main thread.
unsafe extern "C" fn on_processor(_id: PluginId, processor: c_uint) {
    if processor > 0 {
        // SAFETY: called on the thread of the first processor, which starts the second one.
        unsafe { node() }.refuse_thread();
    }
}

/// # Safety
/// Called by QEMU with a block that is being translated.
unsafe extern "C" fn on_translation(_id: PluginId, block: *mut TranslatedBlock) {
    // SAFETY: called on the processor's thread; the reference ends before QEMU is called.
    let (line, functions) = unsafe {
        let node = node();
        (node.instruction_line(), node.region_functions())
    };
    // SAFETY: the block is valid during this call, the indexes are below its number of
    // instructions, and the words that are registered are numbers or point to memory that is never
    // freed.
    unsafe {
        let count = qemu_plugin_tb_n_insns(block);
        let mut lines: Vec<u64> = Vec::new();
        for index in 0..count {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            let start = qemu_plugin_insn_vaddr(instruction);
            let end = start + qemu_plugin_insn_size(instruction) as u64 - 1;
            for touched in [start & !(line - 1), end & !(line - 1)] {
                if lines.last() != Some(&touched) {
                    lines.push(touched);
                }
            }
            qemu_plugin_register_vcpu_mem_cb(
                instruction,
                on_access,
                NO_REGISTERS,
                LOADS_AND_STORES,
                null_mut(),
            );
            if functions.is_empty() {
                continue;
            }
            let symbol = qemu_plugin_insn_symbol(instruction);
            if !symbol.is_null() {
                // `symbol` names the function that the instruction is in: its entry is the
                // instruction at the function's address, the first one seen under that name.
                let name = CStr::from_ptr(symbol).to_string_lossy();
                if let Some(number) = functions.iter().position(|f| *f == name)
                    && node().is_entry(number, start)
                {
                    qemu_plugin_register_vcpu_insn_exec_cb(
                        instruction,
                        on_function,
                        NO_REGISTERS,
                        number as *mut c_void,
                    );
                }
            }
        }
        let word: *mut BlockFacts = Box::into_raw(Box::new(node().block(count as u64, &lines)));
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, NO_REGISTERS, word.cast());
    }
}

/// # Safety
/// Called by QEMU before a block runs, with the word registered for it.
unsafe extern "C" fn on_block(_processor: c_uint, word: *mut c_void) {
    // SAFETY: the word is the block's facts, which live for ever, since QEMU may run the block at
    // any later time; only this function uses them, and there is one processor.
    let facts: &mut BlockFacts = unsafe { &mut *word.cast::<BlockFacts>() };
    // SAFETY: called on the processor's thread.
    unsafe { node() }.run_block(facts);
}

/// # Safety
/// Called by QEMU after an access.
unsafe extern "C" fn on_access(
    _processor: c_uint,
    description: u32,
    address: u64,
    _word: *mut c_void,
) {
    // SAFETY: called on the processor's thread; the reference ends in this statement.
    let known = unsafe { (*DESCRIPTIONS.0.get()).get(description as usize) };
    match known {
        // SAFETY: called on the processor's thread.
        Some(Some(access)) => unsafe { node() }.access(*access, address),
        // SAFETY: the description is QEMU's, of this access.
        _ => unsafe { describe(description, address) },
    }
}

/// What QEMU's descriptions of accesses mean, by their number, as far as they were met: to ask QEMU
/// at each access took a quarter of the time of a simulation.
struct Descriptions(UnsafeCell<[Option<DataAccess>; 1 << 18]>);

// SAFETY: only `on_access` and `describe` reach it, on the thread of the one processor.
unsafe impl Sync for Descriptions {}

static DESCRIPTIONS: Descriptions = Descriptions(UnsafeCell::new([None; 1 << 18]));

/// As [`on_access`]: asks QEMU what the description means, and keeps the answer.
///
/// # Safety
/// The description is QEMU's, of the access that it calls back for, on the processor's thread.
#[cold]
#[inline(never)]
unsafe fn describe(description: u32, address: u64) {
    // SAFETY: this function's contract.
    let (is_store, size) = unsafe {
        (qemu_plugin_mem_is_store(description), 1 << qemu_plugin_mem_size_shift(description))
    };
    let access = if is_store { DataAccess::store(size) } else { DataAccess::load(size) };
    // SAFETY: this function's contract; no other reference exists.
    if let Some(known) = unsafe { (*DESCRIPTIONS.0.get()).get_mut(description as usize) } {
        *known = Some(access);
    }
    // SAFETY: called on the processor's thread.
    unsafe { node() }.access(access, address);
}

/// # Safety
/// Called by QEMU at the entry of a function of the region, with its number.
unsafe extern "C" fn on_function(_processor: c_uint, word: *mut c_void) {
    // SAFETY: called on the processor's thread.
    unsafe { node() }.enter_function(word as usize);
}

/// # Safety
/// Called by QEMU before a system call.
#[allow(clippy::too_many_arguments)] // QEMU's interface
unsafe extern "C" fn on_system_call(
    _id: PluginId,
    _processor: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _g: u64,
    _h: u64,
) {
    // SAFETY: called on the processor's thread.
    unsafe { node() }.begin_system_call(SystemCall::new(number, [a, b, c, d, e, f]));
}

/// # Safety
/// Called by QEMU after a system call.
unsafe extern "C" fn on_system_call_return(
    _id: PluginId,
    _processor: c_uint,
    _number: i64,
    result: i64,
) {
    // SAFETY: called on the processor's thread.
    unsafe { node() }.end_system_call(result);
}

/// # Safety
/// Called by QEMU when the program ends.
unsafe extern "C" fn on_exit(_id: PluginId, _word: *mut c_void) {
    // SAFETY: the program has ended, so no other callback runs.
    unsafe { node() }.end();
}
