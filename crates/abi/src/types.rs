//! C types of the MPI 5.0 standard ABI (MPI 5.0, chapter 20), as `include/mpi.h` declares them.
//!
//! A handle in C is an opaque pointer. Here its value is the library's 32-bit handle,
//! zero-extended: the predefined handles are the ABI's own constants, so conversion is a cast and
//! never a table.

#![allow(non_camel_case_types, non_snake_case)] // the names are C's

use std::ffi::c_int;

/// An address, a displacement in bytes.
pub type MPI_Aint = isize;
/// A count of anything.
pub type MPI_Count = i64;
/// A position in a file.
pub type MPI_Offset = i64;
/// `MPI_T_cb_safety`: how careful a callback of the tools interface must be (a C enumeration).
pub type MPI_T_cb_safety = c_int;
/// `MPI_T_source_order`: whether a source delivers events in order (a C enumeration).
pub type MPI_T_source_order = c_int;

// `crate::poly` and the exports take MPI_Aint and MPI_Count as the same eight bytes.
const _: () = assert!(size_of::<MPI_Aint>() == size_of::<MPI_Count>());

/// The result of a receive or probe. The words after `MPI_ERROR` belong to the library.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MPI_Status {
    /// Rank of the sender.
    pub MPI_SOURCE: c_int,
    /// Tag of the message.
    pub MPI_TAG: c_int,
    /// Error code; written only by calls that complete several requests.
    pub MPI_ERROR: c_int,
    /// The library's own words (byte count, cancelled flag).
    pub MPI_internal: [c_int; 5],
}

const _: () = assert!(size_of::<MPI_Status>() == 32 && align_of::<MPI_Status>() == 4);

macro_rules! handles {
    ($($name:ident: $object:literal,)*) => {$(
        #[doc = concat!("Handle of ", $object, ".")]
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub usize);

        impl $name {
            /// The internal handle; 0, which is no handle, when the value cannot be one.
            #[inline]
            pub const fn raw(self) -> u32 {
                if self.0 > u32::MAX as usize { 0 } else { self.0 as u32 }
            }

            /// The C handle of an internal one.
            #[inline]
            pub const fn from_raw(raw: u32) -> Self {
                Self(raw as usize)
            }
        }

        const _: () = assert!(size_of::<$name>() == 8);
    )*};
}

handles! {
    MPI_Comm: "a communicator",
    MPI_Datatype: "a datatype",
    MPI_Errhandler: "an error handler",
    MPI_File: "a file",
    MPI_Group: "a group",
    MPI_Info: "an info object",
    MPI_Message: "a matched message",
    MPI_Op: "a reduction operator",
    MPI_Request: "a request",
    MPI_Session: "a session",
    MPI_Win: "a window",
    MPI_T_cvar_handle: "a control variable",
    MPI_T_enum: "an enumeration of the tools interface",
    MPI_T_event_instance: "an event",
    MPI_T_event_registration: "a registered event callback",
    MPI_T_pvar_handle: "a performance variable",
    MPI_T_pvar_session: "a session of performance variables",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_round_trip_and_wild_pointers_become_no_handle() {
        for raw in [0, 0x101, 0x8000_0001, u32::MAX] {
            assert_eq!(MPI_Comm::from_raw(raw).raw(), raw);
        }
        assert_eq!(MPI_Comm(0x1_0000_0101).raw(), 0);
        assert_eq!(MPI_Comm(usize::MAX).raw(), 0);
    }
}
