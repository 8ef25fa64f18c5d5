//! Handles. Those of predefined objects differ; any other has the bits that the library gave it,
//! which are no predefined handle of MPICH's ABI for the same kind of object.

use std::ffi::c_int;

use crate::generated::constants as c;
use crate::word::WordKind;

/// Predefined handles of the standard ABI are below.
const PREDEFINED: usize = 0x1000;

/// A handle that is none in MPICH's ABI, as the standard ABI sees it: the same number, unless it
/// would name a predefined object.
#[inline(always)]
fn unknown(handle: u32) -> usize {
    let handle = handle as usize;
    if handle < PREDEFINED { handle | 1 << 32 } else { handle }
}

macro_rules! handles {
    ($($name:ident $pairs:ident $what:literal;)*) => {$(
        #[doc = $what]
        #[derive(Debug)]
        pub enum $name {}

        impl WordKind for $name {
            type Own = c_int;
            type Standard = usize;

            const NONE: usize = usize::MAX;

            #[inline(always)]
            fn to_standard(handle: c_int) -> usize {
                let handle = handle as u32;
                match c::$pairs.iter().find(|pair| pair.0 == handle) {
                    Some(pair) => pair.1 as usize,
                    None => unknown(handle),
                }
            }

            #[inline(always)]
            fn to_mpich(handle: usize) -> c_int {
                if handle >= PREDEFINED {
                    return handle as c_int;
                }
                let found = c::$pairs.iter().find(|pair| pair.1 as usize == handle);
                found.map_or(handle as c_int, |pair| pair.0 as c_int)
            }
        }
    )*};
}

handles! {
    Comm COMM "A communicator.";
    Errhandler ERRHANDLER "An error handler.";
    Group GROUP "A group.";
    Info INFO "An info object.";
    Message MESSAGE "A matched message.";
    Op OP "A reduction operator.";
    Request REQUEST "A request.";
    Session SESSION "A session.";
    Win WIN "A window.";
}

/// A datatype: there are many predefined ones, so they are found by an index.
#[derive(Debug)]
pub enum MpichDatatype {}

/// MPICH numbers its datatypes in the lowest byte; pairs of types (`MPI_FLOAT_INT`) have the
/// highest bit.
const fn place(mpich: u32) -> usize {
    (mpich & 0xff | mpich >> 31 << 8) as usize
}

/// The standard ABI's predefined datatypes start here.
const FIRST: usize = 0x200;

const TO_STANDARD: [(u32, u32); 512] = {
    let mut table = [(u32::MAX, 0); 512];
    let mut i = 0;
    while i < c::DATATYPE.len() {
        table[place(c::DATATYPE[i].0)] = c::DATATYPE[i];
        i += 1;
    }
    table
};

const TO_MPICH: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = c::DATATYPE.len();
    // Of two names for one type the first counts.
    while i > 0 {
        i -= 1;
        table[c::DATATYPE[i].1 as usize - FIRST] = c::DATATYPE[i].0;
    }
    table
};

static STANDARD_DATATYPES: [(u32, u32); 512] = TO_STANDARD;
static MPICH_DATATYPES: [u32; 256] = TO_MPICH;

impl WordKind for MpichDatatype {
    type Own = c_int;
    type Standard = usize;

    const NONE: usize = usize::MAX;

    #[inline(always)]
    fn to_standard(handle: c_int) -> usize {
        let handle = handle as u32;
        match STANDARD_DATATYPES[place(handle)] {
            (mpich, standard) if mpich == handle => standard as usize,
            _ => unknown(handle),
        }
    }

    #[inline(always)]
    fn to_mpich(handle: usize) -> c_int {
        match MPICH_DATATYPES.get(handle.wrapping_sub(FIRST)) {
            Some(&known) if known != 0 => known as c_int,
            _ => handle as c_int,
        }
    }
}

/// A file. In MPICH's ABI its handle is a pointer, and null is no file.
#[derive(Debug)]
pub enum MpichFile {}

impl WordKind for MpichFile {
    type Own = usize;
    type Standard = usize;

    const NONE: usize = usize::MAX;

    #[inline(always)]
    fn to_standard(handle: usize) -> usize {
        match handle {
            0 => c::FILE_NULL,
            handle if handle < PREDEFINED => handle | 1 << 32,
            handle => handle,
        }
    }

    #[inline(always)]
    fn to_mpich(handle: usize) -> usize {
        if handle == c::FILE_NULL { 0 } else { handle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datatypes_round_trip_and_are_found_by_their_place() {
        for &(mpich, standard) in c::DATATYPE {
            assert_eq!(MpichDatatype::to_standard(mpich as c_int), standard as usize, "{mpich:#x}");
            let back = MpichDatatype::to_mpich(standard as usize) as u32;
            assert_eq!(MpichDatatype::to_standard(back as c_int), standard as usize, "{mpich:#x}");
        }
        assert!(c::DATATYPE.len() > 60);
    }

    #[test]
    fn handles_of_the_programs_objects_keep_their_bits() {
        for handle in [0x4100_0000_u32, 0x41ff_fffd, 0x4300_0007, 0x4500_0001] {
            assert_eq!(Comm::to_standard(handle as c_int), handle as usize);
            assert_eq!(Comm::to_mpich(handle as usize) as u32, handle);
            assert_eq!(MpichDatatype::to_standard(handle as c_int), handle as usize);
            assert_eq!(MpichDatatype::to_mpich(handle as usize) as u32, handle);
        }
    }

    #[test]
    fn what_is_no_handle_names_nothing_in_the_standard_abi() {
        // MPI_COMM_WORLD and MPI_INT of the standard ABI.
        assert!(Comm::to_standard(257) > u32::MAX as usize);
        assert!(MpichDatatype::to_standard(521) > u32::MAX as usize);
        assert_eq!(Comm::to_standard(0x7777_7777), 0x7777_7777);
    }
}
