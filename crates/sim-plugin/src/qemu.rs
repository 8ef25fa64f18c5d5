//! QEMU's plugin interface, version 1 (QEMU 4.2 to 8.x; Debian 12 has 7.2): the functions and types
//! that this plugin uses, declared from the interface's documentation.
//!
//! They are resolved when QEMU loads the plugin. All callbacks run on the thread of the emulated
//! processor that they are about.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Name of the plugin towards QEMU, which passes it back.
pub type PluginId = u64;

/// A block of translated instructions, valid during its translation.
#[repr(C)]
pub struct TranslatedBlock {
    _opaque: [u8; 0],
}

/// An instruction, valid during its translation.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

/// A callback may read no registers: the cheapest kind.
pub const NO_REGISTERS: c_int = 0;
/// Call back for loads and stores. (Version 7.2 calls those who ask for one of them alone at wrong
/// accesses: "stores" gets loads as well.)
pub const LOADS_AND_STORES: c_int = 3;

/// When a block is translated.
pub type OnTranslation = unsafe extern "C" fn(PluginId, *mut TranslatedBlock);
/// When a processor, which is a thread of the program, starts.
pub type OnProcessor = unsafe extern "C" fn(PluginId, c_uint);
/// Before a block or an instruction runs: processor, the registration's word.
pub type OnExecution = unsafe extern "C" fn(c_uint, *mut c_void);
/// After an access: processor, description, address, the registration's word.
pub type OnAccess = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Before a system call: processor, number, arguments.
pub type OnSystemCall =
    unsafe extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
/// After a system call: processor, number, result.
pub type OnSystemCallReturn = unsafe extern "C" fn(PluginId, c_uint, i64, i64);
/// When the program ends.
pub type OnExit = unsafe extern "C" fn(PluginId, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, callback: OnTranslation);
    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, callback: OnProcessor);
    pub fn qemu_plugin_tb_n_insns(block: *const TranslatedBlock) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const TranslatedBlock, index: usize)
    -> *mut Instruction;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_symbol(instruction: *const Instruction) -> *const c_char;
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut TranslatedBlock,
        callback: OnExecution,
        flags: c_int,
        word: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: OnExecution,
        flags: c_int,
        word: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: OnAccess,
        flags: c_int,
        accesses: c_int,
        word: *mut c_void,
    );
    pub fn qemu_plugin_mem_is_store(description: u32) -> bool;
    pub fn qemu_plugin_mem_size_shift(description: u32) -> c_uint;
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, callback: OnSystemCall);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: PluginId, callback: OnSystemCallReturn);
    pub fn qemu_plugin_register_atexit_cb(id: PluginId, callback: OnExit, word: *mut c_void);
}
