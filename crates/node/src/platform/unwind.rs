//! The stack walk of the compilers' run-time libraries (the Itanium C++ ABI, "Exception Handling",
//! level 1; the standard library uses it as well), by the unwind tables that the ABIs of all
//! supported platforms require in every object, with or without debug information. glibc's
//! `backtrace` always walks the whole stack, which is deep in a Python program.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// A frame of this thread's stack that is being visited.
#[derive(Debug)]
pub struct StackFrame<'a> {
    context: *mut c_void,
    visit: PhantomData<&'a ()>,
}

impl StackFrame<'_> {
    /// The address to which the function that this one called returns; 0 at the end of some stacks.
    pub fn return_address(&self) -> usize {
        // SAFETY: the frame is being visited.
        unsafe { address(self.context) }
    }

    /// Where the frame begins: the stack pointer before the function was called.
    pub fn frame_address(&self) -> usize {
        // SAFETY: as above.
        unsafe { frame_address(self.context) }
    }
}

/// Continue the walk.
const NO_REASON: c_int = 0;
/// Stop the walk.
const NORMAL_STOP: c_int = 4;

unsafe extern "C" {
    #[link_name = "_Unwind_Backtrace"]
    fn backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    #[link_name = "_Unwind_GetIP"]
    fn address(frame: *mut c_void) -> usize;
    #[link_name = "_Unwind_GetCFA"]
    fn frame_address(frame: *mut c_void) -> usize;
}

/// Visits this thread's frames, the caller's first, until `visit` breaks or the stack ends. A panic
/// in `visit` aborts.
#[inline(always)]
pub fn walk<V: FnMut(&StackFrame<'_>) -> ControlFlow<()>>(mut visit: V) {
    // SAFETY: `visit_frame` casts its argument back, uses it only during the call and does not
    // unwind.
    unsafe { backtrace(visit_frame::<V>, (&raw mut visit).cast()) };
}

extern "C" fn visit_frame<V: FnMut(&StackFrame<'_>) -> ControlFlow<()>>(
    context: *mut c_void,
    visit: *mut c_void,
) -> c_int {
    // SAFETY: the pointer given to `backtrace`; no other code uses it until that returns.
    let visit = unsafe { &mut *visit.cast::<V>() };
    match visit(&StackFrame { context, visit: PhantomData }) {
        ControlFlow::Continue(()) => NO_REASON,
        ControlFlow::Break(()) => NORMAL_STOP,
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_outwards_until_it_is_stopped() {
        let mut frames = Vec::new();
        walk(|frame| {
            frames.push((frame.return_address(), frame.frame_address()));
            if frames.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert_eq!(frames.len(), 3);
        assert!(frames.iter().all(|frame| frame.0 != 0));
        assert!(frames.is_sorted_by_key(|frame| frame.1), "stacks grow downwards: {frames:?}");
    }
}
