//! Files (MPI 5.0, chapter 14; docs/design/files.md).
//!
//! | room | what |
//! |---|---|
//! | [`file`](mod@file) | the file and its handle; the calls on it |
//! | [`exchange`] | collective accesses by two phases |
//! | [`operation`] | accesses of several steps: by the caller, or while the program computes |
//! | [`shared_file`] | what accesses need of an open file |
//! | [`access`] | one process's access: runs, blocks |
//! | [`pieces`] | which bytes of a part of the file are a rank's |
//! | [`guard`] | who may write which bytes now |
//! | [`view`], [`representation`] | what a process sees, and how data is represented |
//! | [`storage`] | where the bytes are |
//! | [`hints`], [`amode`], [`failure`] | what the program may say, and what the system says |
//!
//! Each room uses those below it.
#![forbid(unsafe_code)]

mod access;
mod amode;
mod exchange;
mod failure;
mod file;
mod guard;
mod hints;
mod operation;
mod pieces;
mod representation;
mod shared_file;
mod storage;
mod view;

pub use file::{AccessPosition, Coordination, File, SplitCall, delete};
pub use mica_policy::files::AccessDirection;
pub use operation::FileOperation;
pub use representation::{
    Conversion, ConversionCall, FileElements, RegisteredRepresentation, register,
};
