//! The table of services as it lies in the segment.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Services that a job can have at a time.
pub const SERVICES: usize = 64;

/// Bytes of a service's name and its port's name together.
pub const SERVICE_BYTES: usize = 8 * WORDS;

pub(super) const WORDS: usize = 60;

pub(super) const FREE: u32 = 0;
pub(super) const SET: u32 = 1;

#[repr(C, align(64))]
pub(super) struct ServiceEntry {
    pub state: AtomicU32,
    /// Counts the uses of the entry.
    pub use_number: AtomicU32,
    /// The rank that has published it.
    pub owner: AtomicU32,
    pub name_bytes: AtomicU32,
    pub port_bytes: AtomicU32,
    pub text: [AtomicU64; WORDS],
}

pub(in crate::segment) const SERVICES_TABLE_BYTES: usize = SERVICES * size_of::<ServiceEntry>();

const _: () = assert!(SERVICES_TABLE_BYTES.is_multiple_of(4096));
