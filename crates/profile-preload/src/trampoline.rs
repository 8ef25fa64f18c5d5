//! How a wrapper learns where it was called from.
//!
//! Rust has no `__builtin_return_address`. So the exported symbol is a naked function that stores
//! the return address in a thread-local word and jumps to the wrapper, with the stack and all
//! argument registers as they were; the wrapper reads the word before anything else. The word is
//! initial-exec: the library is loaded at the start of the process, where static TLS has room.

use std::arch::{asm, global_asm};

global_asm!(
    ".section .tbss.mica_profile_caller,\"awT\",@nobits",
    ".hidden mica_profile_caller",
    ".globl mica_profile_caller",
    ".type mica_profile_caller, @object",
    ".size mica_profile_caller, 8",
    ".p2align 3",
    "mica_profile_caller:",
    ".zero 8",
    ".text",
);

/// The body of a naked function: keeps the return address and jumps.
#[cfg(target_arch = "x86_64")]
macro_rules! keep_caller_and_jump {
    ($inner:ident) => {
        std::arch::naked_asm!(
            "mov rax, qword ptr [rip + mica_profile_caller@GOTTPOFF]",
            "mov r11, qword ptr [rsp]",
            "mov qword ptr fs:[rax], r11",
            "jmp {inner}",
            inner = sym $inner,
        )
    };
}

/// The body of a naked function: keeps the return address and jumps.
#[cfg(target_arch = "aarch64")]
macro_rules! keep_caller_and_jump {
    ($inner:ident) => {
        std::arch::naked_asm!(
            "mrs x16, tpidr_el0",
            "adrp x17, :gottprel:mica_profile_caller",
            "ldr x17, [x17, #:gottprel_lo12:mica_profile_caller]",
            "str x30, [x16, x17]",
            "b {inner}",
            inner = sym $inner,
        )
    };
}

/// The return address of the exported function that this thread entered last.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn caller() -> usize {
    let address: usize;
    // SAFETY: reads this thread's word.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + mica_profile_caller@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) address,
            options(nostack, preserves_flags, readonly),
        );
    }
    address
}

/// The return address of the exported function that this thread entered last.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub fn caller() -> usize {
    let address: usize;
    // SAFETY: reads this thread's word.
    unsafe {
        asm!(
            "mrs {1}, tpidr_el0",
            "adrp {0}, :gottprel:mica_profile_caller",
            "ldr {0}, [{0}, #:gottprel_lo12:mica_profile_caller]",
            "ldr {0}, [{1}, {0}]",
            out(reg) address,
            out(reg) _,
            options(nostack, preserves_flags, readonly),
        );
    }
    address
}

/// Defines `MPI_X` and the wrapper that it jumps to: times the library's function and records what
/// it moved. What stands after `before` runs before the call, where a handle is still valid.
macro_rules! wrap {
    // Several that differ in nothing but their names and numbers.
    ($id:literal $mpi:ident; $($more:literal $name:ident);+ ($($params:tt)*) $($rest:tt)*) => {
        $crate::trampoline::wrap! { $id $mpi ($($params)*) $($rest)* }
        $crate::trampoline::wrap! { $($more $name);+ ($($params)*) $($rest)* }
    };
    (
        $id:literal $mpi:ident, $large_id:literal $large:ident;
        $($more:literal $name:ident, $more_large:literal $large_name:ident);+
        ($($params:tt)*) $($rest:tt)*
    ) => {
        $crate::trampoline::wrap! { $id $mpi, $large_id $large ($($params)*) $($rest)* }
        $crate::trampoline::wrap! {
            $($more $name, $more_large $large_name);+ ($($params)*) $($rest)*
        }
    };
    // `Int` is `int` in the first and `MPI_Count` in the second, `Displ` is `int` and `MPI_Aint`,
    // `Offset` is `MPI_Aint` and `MPI_Count`.
    (
        $id:literal $mpi:ident, $large_id:literal $large:ident($($p:ident: $t:ty),* $(,)?)
        $($rest:tt)*
    ) => {
        const _: () = {
            #[allow(dead_code)]
            type Int = std::ffi::c_int;
            #[allow(dead_code)]
            type Displ = std::ffi::c_int;
            #[allow(dead_code)]
            type Offset = $crate::types::MPI_Aint;
            $crate::trampoline::wrap! { $id $mpi($($p: $t),*) $($rest)* }
        };
        const _: () = {
            #[allow(dead_code)]
            type Int = $crate::types::MPI_Count;
            #[allow(dead_code)]
            type Displ = $crate::types::MPI_Aint;
            #[allow(dead_code)]
            type Offset = $crate::types::MPI_Count;
            $crate::trampoline::wrap! { $large_id $large($($p: $t),*) $($rest)* }
        };
    };
    (
        $id:literal $mpi:ident($($p:ident: $t:ty),* $(,)?) $(before { $before:expr })?
        => $traffic:expr
    ) => {
        const _: () = {
            /// Keeps the caller's address.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            unsafe extern "C" fn $mpi($($p: $t),*) -> std::ffi::c_int {
                $crate::trampoline::keep_caller_and_jump!(wrapper)
            }

            #[allow(clippy::too_many_arguments)]
            unsafe extern "C" fn wrapper($($p: $t),*) -> std::ffi::c_int {
                let call = $crate::record::TimedCall::enter($id);
                // SAFETY: the library's function of this name has this type; the caller keeps the
                // conditions of the MPI call. `traffic` reads arguments of a call that succeeded.
                unsafe {
                    $(if call.is_some() { $before; })?
                    let function: unsafe extern "C" fn($($t),*) -> std::ffi::c_int =
                        std::mem::transmute($crate::resolve::function($id));
                    let result = function($($p),*);
                    if let Some(call) = call {
                        call.leave(result, || $traffic);
                    }
                    result
                }
            }
        };
    };
}

/// As [`wrap!`], for the blocking, the non-blocking and the persistent form of a collective call,
/// each for `int` and for `MPI_Count`; what they move is after `=>`: root, flow, data.
macro_rules! wrap_collective {
    (
        ($($p:ident: $t:ty),*) on $comm:ident:
        $id:literal $mpi:ident $id_c:literal $mpi_c:ident
        $iid:literal $impi:ident $iid_c:literal $impi_c:ident
        $pid:literal $pmpi:ident $pid_c:literal $pmpi_c:ident
        => $root:expr, $flow:ident, $data:expr
    ) => {
        $crate::trampoline::wrap! {
            $id $mpi, $id_c $mpi_c($($p: $t),*)
            => $crate::trampoline::wrap_collective!(@moved $comm, $root, $flow, Blocking, $data)
        }
        $crate::trampoline::wrap! {
            $iid $impi, $iid_c $impi_c($($p: $t,)* request: *mut $crate::types::MPI_Request)
            => $crate::trampoline::wrap_collective!(@moved $comm, $root, $flow, Started, $data)
        }
        $crate::trampoline::wrap! {
            $pid $pmpi, $pid_c $pmpi_c(
                $($p: $t,)* info: $crate::types::MPI_Info, request: *mut $crate::types::MPI_Request
            )
            => $crate::trampoline::wrap_collective!(
                @moved $comm, $root, $flow, Persistent(request), $data
            )
        }
    };
    (@moved $comm:expr, $root:expr, $flow:ident, $start:ident $(($request:expr))?, $data:expr) => {
        $crate::traffic::CallTraffic::Collective($crate::traffic::CollectiveTraffic {
            comm: $comm,
            root: $root,
            flow: $crate::traffic::Flow::$flow,
            start: $crate::traffic::DataStart::$start$(($request))?,
            data: $data,
        })
    };
}

pub(crate) use {keep_caller_and_jump, wrap, wrap_collective};
