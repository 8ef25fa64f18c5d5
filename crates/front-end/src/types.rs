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

// `mica_abi::poly` and the exports take MPI_Aint and MPI_Count as the same eight bytes.
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

/// The words of [`MPI_Status::MPI_internal`]: the number of received (packed) bytes, low half
/// first, and whether the operation was cancelled. All zero is the empty status.
pub mod status_word {
    /// Low half of the number of bytes.
    pub const LOW: usize = 0;
    /// High half of the number of bytes.
    pub const HIGH: usize = 1;
    /// Whether the operation was cancelled.
    pub const CANCELLED: usize = 2;
}

impl MPI_Status {
    /// Number of bytes received.
    #[inline]
    pub fn bytes(&self) -> u64 {
        u64::from(self.MPI_internal[status_word::LOW] as u32)
            | u64::from(self.MPI_internal[status_word::HIGH] as u32) << 32
    }

    /// Sets the number of bytes received.
    #[inline]
    pub fn set_bytes(&mut self, bytes: u64) {
        self.MPI_internal[status_word::LOW] = bytes as c_int;
        self.MPI_internal[status_word::HIGH] = (bytes >> 32) as c_int;
    }

    /// Whether the operation was cancelled.
    #[inline]
    pub fn cancelled(&self) -> bool {
        self.MPI_internal[status_word::CANCELLED] != 0
    }

    /// Marks the operation as cancelled, or not.
    #[inline]
    pub fn set_cancelled(&mut self, cancelled: bool) {
        self.MPI_internal[status_word::CANCELLED] = cancelled.into();
    }
}

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

        impl From<$name> for u32 {
            #[inline]
            fn from(handle: $name) -> u32 {
                handle.raw()
            }
        }

        impl From<u32> for $name {
            #[inline]
            fn from(raw: u32) -> $name {
                $name::from_raw(raw)
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
    fn a_status_keeps_large_counts_apart_from_the_flag() {
        let mut status = MPI_Status::default();
        assert_eq!((status.bytes(), status.cancelled()), (0, false));
        for bytes in [1, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            status.set_bytes(bytes);
            assert_eq!((status.bytes(), status.cancelled()), (bytes, false));
        }
        status.set_cancelled(true);
        assert_eq!((status.bytes(), status.cancelled()), (u64::MAX, true));
    }

    #[test]
    fn handles_round_trip_and_wild_pointers_become_no_handle() {
        for raw in [0, 0x101, 0x8000_0001, u32::MAX] {
            assert_eq!(MPI_Comm::from_raw(raw).raw(), raw);
        }
        assert_eq!(MPI_Comm(0x1_0000_0101).raw(), 0);
        assert_eq!(MPI_Comm(usize::MAX).raw(), 0);
    }
}
