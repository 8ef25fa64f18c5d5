//! The types of the standard ABI as far as wrappers pass them on, and the constants that they
//! compare with (MPI 5.0, chapter 20). A handle is a pointer in C, here the same bits as a number.

#![allow(non_camel_case_types, missing_docs)]

use std::ffi::c_int;

pub type MPI_Aint = isize;
pub type MPI_Offset = i64;
pub type MPI_Count = i64;
pub type MPI_Comm = usize;
pub type MPI_Datatype = usize;
pub type MPI_Errhandler = usize;
pub type MPI_File = usize;
pub type MPI_Group = usize;
pub type MPI_Info = usize;
pub type MPI_Message = usize;
pub type MPI_Op = usize;
pub type MPI_Request = usize;
pub type MPI_Session = usize;
pub type MPI_Win = usize;
/// Only passed on by address.
pub type MPI_Status = [c_int; 8];

pub const SUCCESS: c_int = 0;
pub const COMM_NULL: MPI_Comm = 0x100;
pub const COMM_WORLD: MPI_Comm = 0x101;
pub const BYTE: MPI_Datatype = 0x247;
pub const WIN_NULL: MPI_Win = 0x110;
pub const IN_PLACE: usize = 1;
pub const ROOT: c_int = -4;
pub const CART: c_int = 211;
pub const GRAPH: c_int = 212;
pub const DIST_GRAPH: c_int = 213;
pub const MAX_LIBRARY_VERSION_STRING: usize = 8192;
pub const MAX_PROCESSOR_NAME: usize = 256;
