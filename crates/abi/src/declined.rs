//! Names of the functions that do what a leaf declines ([`export`](crate::export)).
//!
//! `MPI_X` jumps to such a function, so that it is not on the stack any more when a hang report or
//! the count of late arrivals looks for the call that the program has made ([`late`](crate::late)).
//! To call instead of to jump would cost the leaf a frame. So each such function leaves its address
//! and the name of its `MPI_X` in a section of the library, which costs no instruction:
//!
//! ```text
//! each, aligned to 4:  i32 from here to the function
//!                      the name, with a zero
//! ```
//!
//! The linker gives the section's bounds by its name, and may not drop it (`R`: `SHF_GNU_RETAIN`).

/// Notes that the function which this is in does what the leaf of `$mpi` declines.
#[macro_export]
macro_rules! note_declined {
    ($mpi:ident $function:ident) => {
        // SAFETY: no instruction: data in another section.
        unsafe {
            std::arch::asm!(
                ".pushsection mica_declined,\"aR\",@progbits",
                ".p2align 2",
                "2:",
                ".long {function} - 2b",
                concat!(".asciz \"", stringify!($mpi), "\""),
                ".p2align 2",
                ".popsection",
                function = sym $function,
                options(nomem, nostack, preserves_flags),
            )
        }
    };
}

// The bounds are no business of other objects.
std::arch::global_asm!(".hidden __start_mica_declined", ".hidden __stop_mica_declined");

unsafe extern "C" {
    #[link_name = "__start_mica_declined"]
    static START: u8;
    #[link_name = "__stop_mica_declined"]
    static STOP: u8;
}

/// The section exists, also in a program without exported functions.
pub fn anchor() {
    crate::note_declined!(none anchor);
}

/// The function of MPI whose declined calls the function with this address does. The address is in
/// one of these functions: the one that begins last before it counts.
pub fn name_of(address: u64) -> Option<&'static str> {
    let before = entries().filter(|(function, _)| *function <= address);
    before.max_by_key(|(function, _)| *function).map(|(_, name)| name)
}

/// The functions' addresses and names.
fn entries() -> impl Iterator<Item = (u64, &'static str)> {
    let (start, stop) = (&raw const START, &raw const STOP);
    // SAFETY: the linker puts the symbols at the bounds of one section, which is read-only.
    let mut rest = unsafe { std::slice::from_raw_parts(start, stop.addr() - start.addr()) };
    std::iter::from_fn(move || {
        let here = rest.as_ptr().addr() as u64;
        let (distance, after) = rest.split_first_chunk::<4>()?;
        let end = after.iter().position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(&after[..end]).ok()?;
        rest = rest.get((4 + end + 1).next_multiple_of(4)..).unwrap_or_default();
        Some((here.wrapping_add_signed(i32::from_ne_bytes(*distance).into()), name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    extern "C" fn declined() -> u64 {
        crate::note_declined!(MPI_Nothing declined);
        7
    }

    #[test]
    fn names_what_notes_itself() {
        assert_eq!(declined(), 7);
        anchor();
        let own = declined as *const () as u64;
        assert_eq!(name_of(own), Some("MPI_Nothing"));
        assert_eq!(name_of(own + 1), Some("MPI_Nothing"));
        assert!(entries().any(|entry| entry == (anchor as *const () as u64, "none")));
        assert_eq!(name_of(0), None);
    }
}
