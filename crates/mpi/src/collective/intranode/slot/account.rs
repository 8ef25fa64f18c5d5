//! The account of transfers (`MICA_TRANSFER_ACCOUNT`): for each operation of a node group, the bytes
//! that this rank read from and wrote to each member's memory. `mica links run` routes them over
//! the machine's links.
//!
//! It adds up where [`record`](super::record) writes a line for each step: two additions for each
//! copy, and one record for each operation, in memory. Each rank has a file of its own,
//! `PREFIX.RANK`: the line `mica-transfer-account 1 MPI_Barrier MPI_Ibarrier ...` with the names of
//! all labels in the order of their numbers, from 1 on, then records of little-endian u64:
//!
//! ```text
//! size, operation, label, members, then for each of `members`: rank in the job, bytes loaded, bytes stored
//! ```
//!
//! A record is of one operation of a group of `size` ranks, in the order in which this rank ended
//! them. What is counted is what `record` records, so the fast path is off meanwhile. The buffer is
//! written when it is full and when MPI ends; a program that is killed loses what is in it.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use mica_node::tunables::TRANSFER_ACCOUNT;

use super::OperationSlot;
use crate::collective::label::CallLabel;
use crate::sync::lock;

/// Bytes; some hundred records of 32 ranks between two system calls.
const BUFFER_BYTES: usize = 1 << 18;

static PREFIX: OnceLock<Option<&'static str>> = OnceLock::new();

static ACCOUNT: Mutex<AccountFile> = Mutex::new(AccountFile {
    file: None,
    buffer: Vec::new(),
});

/// This rank's file, which is created with the first write, and what is not yet in it.
struct AccountFile {
    file: Option<File>,
    buffer: Vec<u8>,
}

/// Bytes loaded and stored, by member of the group.
#[derive(Debug)]
pub struct Sums(Box<[[AtomicU64; 2]]>);

/// Which of the two sums of a member.
#[derive(Debug, Clone, Copy)]
pub enum Access {
    /// Bytes that were read from its memory.
    Load,
    /// Bytes that were written to it.
    Store,
}

impl Sums {
    /// Nothing has been moved yet.
    pub fn new(members: usize) -> Sums {
        Sums((0..members).map(|_| Default::default()).collect())
    }

    /// Only the thread that advances the operation adds, so a plain addition loses nothing.
    pub fn add(&self, member: usize, access: Access, bytes: usize) {
        let sum = &self.0[member][access as usize];
        let so_far = sum.load(Ordering::Relaxed);
        sum.store(so_far.wrapping_add(bytes as u64), Ordering::Relaxed);
    }

    /// Members whose memory was used, with the bytes loaded and stored.
    fn used(&self) -> impl Iterator<Item = (usize, [u64; 2])> {
        let values = |sums: &[AtomicU64; 2]| sums.each_ref().map(|s| s.load(Ordering::Relaxed));
        let all = self.0.iter().map(values).enumerate();
        all.filter(|(_, [loaded, stored])| loaded | stored != 0)
    }
}

/// Whether there is an account.
pub fn is_on() -> bool {
    prefix().is_some()
}

fn prefix() -> Option<&'static str> {
    *PREFIX.get_or_init(|| {
        let text = TRANSFER_ACCOUNT.text();
        (text != "off").then(|| &*text.leak())
    })
}

/// Adds a record of an operation that has ended.
pub fn append(slot: &OperationSlot<'_>, label: CallLabel, sums: &Sums) {
    let mut account = lock(&ACCOUNT);
    if account.file.is_none() {
        let path = format!("{}.{}", prefix().unwrap_or_default(), slot.rank(slot.me()));
        // The program goes on without an account where it cannot be written; who reads the files
        // sees that one is missing.
        let Ok(file) = File::create(path) else {
            return;
        };
        account.file = Some(file);
        account.buffer.extend_from_slice(first_line().as_bytes());
    }
    let used = sums.used().count() as u64;
    let head = [
        slot.size() as u64,
        slot.number,
        u64::from(label.number()),
        used,
    ];
    let entries = sums
        .used()
        .flat_map(|(member, [loaded, stored])| [u64::from(slot.rank(member)), loaded, stored]);
    for word in head.into_iter().chain(entries) {
        account.buffer.extend_from_slice(&word.to_le_bytes());
    }
    if account.buffer.len() >= BUFFER_BYTES {
        account.write();
    }
}

/// Writes what is left, at the end of MPI.
pub fn flush() {
    if is_on() {
        lock(&ACCOUNT).write();
    }
}

impl AccountFile {
    fn write(&mut self) {
        if let Some(file) = &mut self.file {
            let _ = file.write_all(&self.buffer);
        }
        self.buffer.clear();
    }
}

fn first_line() -> String {
    let mut line = "mica-transfer-account 1".to_owned();
    let names = (1..=u8::MAX).map_while(|number| CallLabel::from_number(number).name());
    for name in names {
        line.push(' ');
        line += &name;
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_loads_and_stores_of_each_member_apart() {
        let sums = Sums::new(3);
        sums.add(2, Access::Load, 5);
        sums.add(2, Access::Load, 6);
        sums.add(0, Access::Store, 7);
        let used: Vec<_> = sums.used().collect();
        assert_eq!(used, [(0, [0, 7]), (2, [11, 0])]);
    }

    #[test]
    fn first_line_names_every_label_by_its_number() {
        let line = first_line();
        let names: Vec<&str> = line.trim_end().split(' ').skip(2).collect();
        assert_eq!(names.len(), 66, "22 functions in three forms");
        for (index, name) in names.iter().enumerate() {
            let label = CallLabel::from_number(index as u8 + 1);
            assert_eq!(label.name().as_deref(), Some(*name));
        }
    }
}
