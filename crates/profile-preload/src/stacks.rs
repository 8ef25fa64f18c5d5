//! Stacks of call sites: which calls led to a call of MPI, as deep as `MICA_PROFILE_STACK` says
//! (`mica profile --stack N`). Calls through a wrapper of the program so are told apart by the
//! wrapper's callers.
//!
//! A walk by the unwind tables costs a microsecond or more, so it is done once per stack. It finds
//! where on the stack each return address lies. A later call by the same function, from the same
//! address and with the stack as deep, comes from the same stack if these words have not changed:
//! that is what [`StackCache`] looks at, some loads per call. Where the walk cannot tell where a
//! return address lies (on AArch64 it is wherever the function put it), every call is walked.
//!
//! The site of a stack is [`STACK`] with its number; its return addresses are sites of their own.
//! Without the variable nothing here is called but [`depth`].

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, OnceLock};

use mica_node::unwind;

use crate::facts;
use crate::sites;

/// The bit of a site that is a stack. No address of a program has it.
pub const STACK: u64 = 1 << 62;

/// The deepest stack that is kept.
const DEEPEST: usize = 16;

/// Stacks that a thread remembers.
const REMEMBERED: usize = 256;

/// Frames of this library above the program's.
const OWN_FRAMES: usize = 16;

/// Return addresses that make a site: 1 without the variable.
pub fn depth() -> usize {
    static DEPTH: OnceLock<usize> = OnceLock::new();
    *DEPTH.get_or_init(|| {
        let text = std::env::var("MICA_PROFILE_STACK").ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(1).clamp(1, DEEPEST)
    })
}

/// A call as far as its own frame shows it: what is different for other stacks, as a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallFrame {
    /// Number of the function.
    pub id: u16,
    /// Where it returns to.
    pub caller: usize,
    /// Where its frame lies.
    pub frame: usize,
}

/// A stack that was walked.
struct WalkedStack {
    call: CallFrame,
    /// Where the return addresses of the callers lie, and which they are.
    words: Vec<(usize, usize)>,
    site: u64,
}

/// The stacks that a thread has walked last.
#[derive(Default)]
pub struct StackCache(Vec<Option<WalkedStack>>);

impl StackCache {
    /// The site of a call of this thread that has not returned yet.
    pub fn site(&mut self, call: CallFrame) -> u64 {
        if self.0.is_empty() {
            self.0.resize_with(REMEMBERED, || None);
        }
        let mixed =
            (call.caller ^ call.frame >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
        let slot = &mut self.0[mixed >> 32 & (REMEMBERED - 1)];
        if let Some(walked) = slot
            && walked.call == call
            && walked.words.iter().all(|&(at, address)| word_at(at) == address)
        {
            return walked.site;
        }
        let frames = walk(call.caller);
        let addresses: Vec<u64> = frames.iter().map(|frame| frame.address as u64).collect();
        let site = number(addresses);
        let words = frames.iter().skip(1).map(|frame| Some((frame.word?, frame.address)));
        *slot = words.collect::<Option<_>>().map(|words| WalkedStack { call, words, site });
        site
    }
}

/// A word of this thread's stack.
fn word_at(at: usize) -> usize {
    // SAFETY: an aligned word that held a return address of a caller of this thread's present call,
    // with the stack as deep as now, so above the present frame.
    unsafe { std::ptr::with_exposed_provenance::<usize>(at).read_volatile() }
}

/// A return address on the stack.
struct ReturnFrame {
    address: usize,
    /// Where it lies, if that is known.
    word: Option<usize>,
}

/// The return addresses from `caller` on; it alone if the walk does not find it.
fn walk(caller: usize) -> Vec<ReturnFrame> {
    let depth = depth();
    let mut own = 0;
    let mut frames = Vec::new();
    unwind::walk(|frame| {
        let address = frame.return_address();
        if address == 0 {
            return ControlFlow::Break(());
        }
        if frames.is_empty() && address != caller {
            own += 1;
            return go_on_if(own < OWN_FRAMES);
        }
        // The stack of the frame begins after the address that was pushed to return to it.
        let word = frame.frame_address().wrapping_sub(size_of::<usize>());
        let is_there = cfg!(target_arch = "x86_64") && word_at(word) == address;
        frames.push(ReturnFrame { address, word: is_there.then_some(word) });
        go_on_if(frames.len() < depth)
    });
    if frames.is_empty() { vec![ReturnFrame { address: caller, word: None }] } else { frames }
}

fn go_on_if(more: bool) -> ControlFlow<()> {
    if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// The sites of stacks by their return addresses.
static KNOWN: Mutex<Option<HashMap<Vec<u64>, u64>>> = Mutex::new(None);

/// The site of a stack; the same for all threads.
#[cold]
fn number(addresses: Vec<u64>) -> u64 {
    let mut known = KNOWN.lock().expect("no panic while locked");
    let known = known.get_or_insert_default();
    let next = known.len() as u64;
    *known.entry(addresses).or_insert_with_key(|addresses| {
        for &address in addresses {
            sites::discover(address as usize);
        }
        let site = STACK | next;
        let names: Vec<String> = addresses.iter().map(u64::to_string).collect();
        facts::append(&format!("stack\t{site}\t{}", names.join(",")));
        site
    })
}

/// Where the frame of the function lies into which this is compiled: the stack pointer.
#[inline(always)]
pub fn frame() -> usize {
    let frame: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mov {0}, rsp", out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mov {0}, sp", out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A walk from here finds the callers, and the words where their addresses lie.
    #[inline(never)]
    fn walked() -> (usize, Vec<ReturnFrame>) {
        assert_eq!(walk(0)[0].address, 0, "nobody returns there");
        // The first frame that is not this library's walk: found by its number from the top.
        let mut addresses = Vec::new();
        unwind::walk(|frame| {
            addresses.push(frame.return_address());
            ControlFlow::Continue(())
        });
        let caller = addresses[1];
        (caller, walk(caller))
    }

    #[test]
    fn a_stack_begins_at_the_caller_and_is_known_by_its_words() {
        let (caller, frames) = walked();
        assert_eq!(frames[0].address, caller);
        assert_eq!(frames.len(), depth());
        let addresses = vec![caller as u64, 77];
        let site = number(addresses.clone());
        assert_eq!((site & STACK, number(addresses.clone())), (STACK, site));
        assert_ne!(number(vec![caller as u64, 78]), site);
    }
}
