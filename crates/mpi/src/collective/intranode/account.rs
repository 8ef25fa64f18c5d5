//! The account of transfers (`MICA_TRANSFER_ACCOUNT`): for each collective, the bytes that this
//! rank read from and wrote to each other rank's memory. `mica links run` routes them over the
//! machine's links.
//!
//! It adds up where [`record`](super::slot::record) writes a line for each step: two additions for
//! each copy, and one record for each operation, in memory. A collective by messages has a record
//! too: what this rank sends counts as written to the receivers' memory, whichever rank copies it,
//! so each byte is in one rank's account. Each rank has a file of its own, `PREFIX.RANK`: the line
//! `mica-transfer-account 2 MPI_Barrier MPI_Ibarrier ...` with the names of all labels in the order
//! of their numbers, from 1 on, then records of little-endian u64:
//!
//! ```text
//! size, label, part, steps, repeats, members,
//! then for each of `members`: rank in the job, bytes loaded, bytes stored
//! ```
//!
//! `size` ranks took part. `part` is 0 for a whole call, and 1 for a step of one that spans nodes:
//! an operation of a node's ranks, with a record of its own. The call's record has the messages,
//! and says that it had `steps` of them. A record stands for `repeats` equal ones in a row, as the
//! same call in a loop makes them. Records are in the order in which this rank ended the
//! operations; non-blocking collectives by messages have theirs when they start.
//!
//! What is counted on the shared area is what `record` records, so the fast path is off meanwhile.
//! The buffer is written when it is full and when MPI ends; a program that is killed loses what is
//! in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use mica_node::tunables::TRANSFER_ACCOUNT;

use crate::collective::label::CallLabel;
use crate::sync::lock;

/// Bytes; some hundred records of 32 ranks between two system calls.
const BUFFER_BYTES: usize = 1 << 18;

static PREFIX: OnceLock<Option<&'static str>> = OnceLock::new();

static ACCOUNT: Mutex<AccountFile> = Mutex::new(AccountFile {
    file: None,
    buffer: Vec::new(),
    last: None,
});

/// This rank's file, which is created with the first write, and what is not yet in it.
struct AccountFile {
    file: Option<File>,
    buffer: Vec<u8>,
    /// The record that may still be repeated.
    last: Option<Record>,
}

/// What is written of an operation, or of equal ones in a row.
#[derive(Debug)]
struct Record {
    /// Size, label, part, steps.
    head: [u64; 4],
    /// The node group; `None`: messages.
    group: Option<u64>,
    repeats: u64,
    /// Ranks in the job.
    ranks: Vec<u32>,
    /// The bytes loaded and stored; ranks without any are not written.
    moved: Vec<[u64; 2]>,
}

/// Which part of a call an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPart {
    /// All of it.
    Whole,
    /// What the ranks of one node do in a collective that spans nodes.
    Step,
}

/// Bytes loaded and stored, by member: a row.
type Row = [[AtomicU64; 2]];

/// What the operations of a node group move: a row for each of its operation slots, and one for the
/// last operation that has ended. In one block: where ranks share a core, each page that a rank
/// touches is looked up anew whenever it runs.
#[derive(Debug)]
pub struct GroupSums {
    /// A number of its own.
    group: u64,
    members: usize,
    rows: Box<Row>,
}

/// Those of the operation in one slot.
#[derive(Debug, Clone, Copy)]
pub struct Sums<'a> {
    all: &'a GroupSums,
    row: &'a Row,
}

/// What this rank sends in a collective by messages.
#[derive(Debug, Clone, Default)]
pub struct SentMessages {
    /// Ranks of the communicator.
    pub size: usize,
    /// The function that was called.
    pub label: CallLabel,
    /// Operations on the shared area that are part of it.
    pub steps: usize,
    /// Bytes by rank in the job.
    pub bytes: BTreeMap<u32, u64>,
}

/// Which of the two sums of a member.
#[derive(Debug, Clone, Copy)]
pub enum Access {
    /// Bytes that were read from its memory.
    Load,
    /// Bytes that were written to it.
    Store,
}

impl GroupSums {
    /// For a node group with these members and operation slots. Nothing has been moved yet.
    pub fn new(members: usize, slots: usize) -> GroupSums {
        static NEXT_GROUP: AtomicU64 = AtomicU64::new(0);
        GroupSums {
            // Relaxed: only the number matters.
            group: NEXT_GROUP.fetch_add(1, Ordering::Relaxed),
            members,
            rows: (0..members * (slots + 1))
                .map(|_| Default::default())
                .collect(),
        }
    }

    /// Those of the operation in slot `at`.
    pub fn slot(&self, at: usize) -> Sums<'_> {
        Sums {
            all: self,
            row: &self.rows[at * self.members..][..self.members],
        }
    }

    /// Those of the last operation that has ended.
    fn last(&self) -> &Row {
        &self.rows[self.rows.len() - self.members..]
    }
}

impl Sums<'_> {
    /// Only the thread that advances the operation adds, so a plain addition loses nothing.
    #[inline]
    pub fn add(&self, member: usize, access: Access, bytes: usize) {
        let sum = &self.row[member][access as usize];
        let so_far = sum.load(Ordering::Relaxed);
        sum.store(so_far.wrapping_add(bytes as u64), Ordering::Relaxed);
    }

    fn values(&self) -> impl Iterator<Item = [u64; 2]> {
        values(self.row)
    }

    /// Whether the last operation that has ended moved the same.
    fn are_last(&self) -> bool {
        self.values().eq(values(self.all.last()))
    }

    /// The operation has ended, and the next one of the slot begins with nothing.
    fn end(&self) {
        for (sums, last) in self.row.iter().zip(self.all.last()) {
            for (sum, last) in sums.iter().zip(last) {
                last.store(sum.load(Ordering::Relaxed), Ordering::Relaxed);
                sum.store(0, Ordering::Relaxed);
            }
        }
    }
}

fn values(row: &Row) -> impl Iterator<Item = [u64; 2]> {
    let values = |sums: &[AtomicU64; 2]| sums.each_ref().map(|s| s.load(Ordering::Relaxed));
    row.iter().map(values)
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

/// Adds a record of an operation that has ended, a part of a call of the function that `label`
/// names, of a group with these `members` (ranks in the job), this rank's number `me` among them.
pub fn append(members: &[u32], me: usize, label: CallLabel, part: CallPart, sums: Sums<'_>) {
    let (size, label) = (members.len() as u64, u64::from(label.number()));
    let head = [size, label, part as u64, 0];
    let mut account = lock(&ACCOUNT);
    let is_last =
        |last: &Record| last.group == Some(sums.all.group) && last.head == head && sums.are_last();
    account.append(members[me], is_last, || Record {
        head,
        group: Some(sums.all.group),
        repeats: 1,
        ranks: members.to_vec(),
        moved: sums.values().collect(),
    });
    sums.end();
}

/// Adds a record of a collective by messages of the rank `me` of the job.
pub fn append_messages(me: u32, sent: &SentMessages) {
    let head = [
        sent.size as u64,
        u64::from(sent.label.number()),
        CallPart::Whole as u64,
        sent.steps as u64,
    ];
    let moved = || sent.bytes.values().map(|&bytes| [0, bytes]);
    let is_last = |last: &Record| {
        let is_same = last.group.is_none() && last.head == head;
        is_same && last.ranks.iter().eq(sent.bytes.keys()) && last.moved.iter().copied().eq(moved())
    };
    lock(&ACCOUNT).append(me, is_last, || Record {
        head,
        group: None,
        repeats: 1,
        ranks: sent.bytes.keys().copied().collect(),
        moved: moved().collect(),
    });
}

/// Writes what is left, at the end of MPI.
pub fn flush() {
    if is_on() {
        let mut account = lock(&ACCOUNT);
        account.take_last();
        account.write();
    }
}

impl AccountFile {
    /// Counts the last record once more if it is the same, else adds what `make` returns.
    fn append(
        &mut self,
        me: u32,
        is_last: impl FnOnce(&Record) -> bool,
        make: impl FnOnce() -> Record,
    ) {
        if self.repeat_last(is_last) {
            return;
        }
        if self.file.is_none() {
            let path = format!("{}.{me}", prefix().unwrap_or_default());
            // The program goes on without an account where it cannot be written; who reads the
            // files sees that one is missing.
            let Ok(file) = File::create(path) else {
                return;
            };
            self.file = Some(file);
            self.buffer.extend_from_slice(first_line().as_bytes());
        }
        self.take_last();
        self.last = Some(make());
        if self.buffer.len() >= BUFFER_BYTES {
            self.write();
        }
    }

    fn repeat_last(&mut self, is_last: impl FnOnce(&Record) -> bool) -> bool {
        match &mut self.last {
            Some(last) if is_last(last) => {
                last.repeats += 1;
                true
            }
            _ => false,
        }
    }

    /// Moves the last record to the buffer.
    fn take_last(&mut self) {
        let Some(last) = self.last.take() else {
            return;
        };
        let moved = last.ranks.into_iter().zip(last.moved);
        let moved = moved.filter(|&(_, sums)| sums != [0, 0]);
        let counts = [last.repeats, moved.clone().count() as u64];
        let moved = moved.flat_map(|(rank, [loaded, stored])| [u64::from(rank), loaded, stored]);
        let words = last.head.into_iter().chain(counts).chain(moved);
        self.buffer.extend(words.flat_map(u64::to_le_bytes));
    }

    fn write(&mut self) {
        if let Some(file) = &mut self.file {
            let _ = file.write_all(&self.buffer);
        }
        self.buffer.clear();
    }
}

fn first_line() -> String {
    let mut line = "mica-transfer-account 2".to_owned();
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
        let all = GroupSums::new(3, 2);
        let (sums, other) = (all.slot(1), all.slot(0));
        sums.add(2, Access::Load, 5);
        sums.add(2, Access::Load, 6);
        sums.add(0, Access::Store, 7);
        let moved = [[0, 7], [0, 0], [11, 0]];
        assert!(sums.values().eq(moved) && other.values().eq([[0, 0]; 3]));
        assert!(!sums.are_last());
        sums.end();
        assert!(sums.values().eq([[0, 0]; 3]) && values(all.last()).eq(moved));
        other.add(0, Access::Store, 7);
        other.add(2, Access::Load, 11);
        assert!(other.are_last());
        assert_ne!(all.group, GroupSums::new(3, 1).group);
    }

    #[test]
    fn equal_records_in_a_row_are_one() {
        let mut account = AccountFile {
            file: None,
            buffer: Vec::new(),
            last: None,
        };
        for loaded in [64, 64, 64, 0, 64] {
            let moved = [[0, 0], [loaded, 0]];
            if !account.repeat_last(|last| last.moved == moved) {
                account.take_last();
                account.last = Some(Record {
                    head: [4, 7, 0, 0],
                    group: None,
                    repeats: 1,
                    ranks: vec![0, 1],
                    moved: moved.to_vec(),
                });
            }
        }
        account.take_last();
        let words: Vec<u64> = (account.buffer.as_chunks().0.iter())
            .map(|&word| u64::from_le_bytes(word))
            .collect();
        let expected: [&[u64]; 3] = [
            &[4, 7, 0, 0, 3, 1, 1, 64, 0],
            &[4, 7, 0, 0, 1, 0],
            &[4, 7, 0, 0, 1, 1, 1, 64, 0],
        ];
        assert_eq!(words, expected.concat());
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
