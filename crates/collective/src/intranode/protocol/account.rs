//! The account of transfers (`MICA_TRANSFER_ACCOUNT`): for each collective, the bytes that this
//! rank read from and wrote to each other rank's memory. `mica links run` routes them over the
//! machine's links.
//!
//! It adds up where [`record`](super::slot::record) writes a line for each step: one record for
//! each operation, in memory. A copy is compared with the same one of the last operation, and an
//! operation without a difference is that record once more. A collective by messages has a record
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
//! `MPI_Pcontrol(0)` stops the account in the rank that calls it, `MPI_Pcontrol(1)` goes on.
//!
//! What is counted on the shared area is what `record` records, so the fast path is off meanwhile.
//! The buffer is written when it is full and when MPI ends; a program that is killed loses what is
//! in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use mica_node::tunables::TRANSFER_ACCOUNT;

use crate::label::CallLabel;
use mica_objects::sync::lock;

/// Bytes; some hundred records of 32 ranks between two system calls.
const BUFFER_BYTES: usize = 1 << 18;

static PREFIX: OnceLock<Option<&'static str>> = OnceLock::new();

/// Whether the program has stopped it. Relaxed: a rank calls in order what is to be counted and
/// what is not.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

static ACCOUNT: Mutex<AccountFile> =
    Mutex::new(AccountFile { file: None, buffer: Vec::new(), records: 0, last: None });

/// This rank's file, which is created with the first write, and what is not yet in it.
struct AccountFile {
    file: Option<File>,
    buffer: Vec<u8>,
    /// Records so far.
    records: u64,
    /// The record that may still be repeated.
    last: Option<MovedRecord>,
}

/// What is written of an operation, or of equal ones in a row.
#[derive(Debug)]
struct MovedRecord {
    /// From 1 on, in the order of the file.
    number: u64,
    /// Size, label, part, steps.
    head: [u64; 4],
    repeats: u64,
    /// By rank in the job, the bytes loaded and stored; ranks without any are not written.
    moved: Vec<(u32, [u64; 2])>,
}

/// Which part of a call an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPart {
    /// All of it.
    Whole,
    /// What the ranks of one node do in a collective that spans nodes.
    Step,
}

/// What the operations of a node group move, by operation slot. In one block: where ranks share a
/// core, each page that a rank touches is looked up anew whenever it runs.
#[derive(Debug)]
pub struct GroupSums {
    members: usize,
    slots: Box<[SlotSums]>,
    /// For each slot, room for [`MIN_COPIES`] copies or more.
    copies: Box<[AtomicU64]>,
    /// Bytes loaded and stored by slot and member, of the copies for which there was no room.
    rest: Box<[[AtomicU64; 2]]>,
}

/// Copies of an operation that a slot has room for, if it has fewer than four for each member.
const MIN_COPIES: usize = 64;

/// The operation in one slot, whose copies are compared with those of the slot's last one as they
/// come: in a loop of the same call nothing is written and nothing has to be added up.
#[derive(Debug, Default)]
struct SlotSums {
    /// Copies of this operation so far.
    copies: AtomicUsize,
    /// Copies of the last one.
    last_copies: AtomicUsize,
    /// Whether a copy was another one than the last operation's.
    differs: AtomicBool,
    /// Number of the record that has the last one; 0: none.
    record: AtomicU64,
}

/// Those of the operation in one slot.
#[derive(Debug, Clone, Copy)]
pub struct Sums<'a> {
    slot: &'a SlotSums,
    copies: &'a [AtomicU64],
    rest: &'a [[AtomicU64; 2]],
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
        let room = MIN_COPIES.max(4 * members);
        GroupSums {
            members,
            slots: (0..slots).map(|_| SlotSums::default()).collect(),
            copies: (0..slots * room).map(|_| AtomicU64::new(0)).collect(),
            rest: (0..slots * members).map(|_| Default::default()).collect(),
        }
    }

    /// Those of the operation in slot `at`.
    #[inline]
    pub fn slot(&self, at: usize) -> Sums<'_> {
        let room = self.copies.len() / self.slots.len();
        Sums {
            slot: &self.slots[at],
            copies: &self.copies[at * room..][..room],
            rest: &self.rest[at * self.members..][..self.members],
        }
    }
}

/// A copy as one word: the member, the access, and the bytes in the lower 43 bits.
mod copy {
    use super::Access;

    const ACCESS: u32 = 43;
    const MEMBER: u32 = 44;

    pub fn to_word(member: usize, access: Access, bytes: usize) -> u64 {
        debug_assert!(bytes >> ACCESS == 0 && member >> (u64::BITS - MEMBER) == 0);
        (member as u64) << MEMBER | (access as u64) << ACCESS | bytes as u64
    }

    /// Member, access as a number, bytes.
    pub fn from_word(word: u64) -> (usize, usize, u64) {
        let access = word >> ACCESS & 1;
        ((word >> MEMBER) as usize, access as usize, word & !(u64::MAX << ACCESS))
    }
}

/// Only the thread that advances the operation reads and writes these words, so each access is
/// relaxed and an addition in two steps loses nothing.
impl Sums<'_> {
    /// The operation has moved this many bytes more from or to the memory of `member`.
    #[inline]
    pub fn add(&self, member: usize, access: Access, bytes: usize) {
        let at = self.slot.copies.load(Ordering::Relaxed);
        self.slot.copies.store(at + 1, Ordering::Relaxed);
        let Some(last) = self.copies.get(at) else {
            return self.add_rest(member, access, bytes);
        };
        let copy = copy::to_word(member, access, bytes);
        if last.load(Ordering::Relaxed) != copy {
            last.store(copy, Ordering::Relaxed);
            self.slot.differs.store(true, Ordering::Relaxed);
        }
    }

    #[cold]
    fn add_rest(&self, member: usize, access: Access, bytes: usize) {
        let sum = &self.rest[member][access as usize];
        let so_far = sum.load(Ordering::Relaxed);
        sum.store(so_far.wrapping_add(bytes as u64), Ordering::Relaxed);
        self.slot.differs.store(true, Ordering::Relaxed);
    }

    /// The number of the record that has the last operation of this slot, if this one has moved
    /// the same.
    fn record_of_last(&self) -> Option<u64> {
        let SlotSums { copies, last_copies, differs, record } = self.slot;
        let is_same = copies.load(Ordering::Relaxed) == last_copies.load(Ordering::Relaxed)
            && !differs.load(Ordering::Relaxed);
        is_same.then(|| record.load(Ordering::Relaxed))
    }

    /// Bytes loaded and stored, by member.
    fn moved(&self) -> Vec<[u64; 2]> {
        let values = |sums: &[AtomicU64; 2]| sums.each_ref().map(|s| s.load(Ordering::Relaxed));
        let mut moved: Vec<[u64; 2]> = self.rest.iter().map(values).collect();
        let copies = self.slot.copies.load(Ordering::Relaxed);
        for word in self.copies.iter().take(copies) {
            let (member, access, bytes) = copy::from_word(word.load(Ordering::Relaxed));
            moved[member][access] += bytes;
        }
        moved
    }

    /// The operation has ended and is in this record.
    fn end(&self, record: u64) {
        let SlotSums { copies, last_copies, differs, record: last_record } = self.slot;
        let ended = copies.swap(0, Ordering::Relaxed);
        last_copies.store(ended, Ordering::Relaxed);
        differs.store(false, Ordering::Relaxed);
        last_record.store(record, Ordering::Relaxed);
        if ended > self.copies.len() {
            for sum in self.rest.iter().flatten() {
                sum.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Whether there is an account.
pub fn is_on() -> bool {
    prefix().is_some()
}

/// Whether operations that begin now are counted.
pub fn is_counting() -> bool {
    is_on() && !IS_STOPPED.load(Ordering::Relaxed)
}

/// `MPI_Pcontrol`: 0 stops, 1 goes on, other levels change nothing.
pub fn control(level: i32) {
    if matches!(level, 0 | 1) {
        IS_STOPPED.store(level == 0, Ordering::Relaxed);
    }
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
    if let Some(last) = &mut account.last
        && sums.record_of_last() == Some(last.number)
        && last.head == head
    {
        last.repeats += 1;
        return sums.end(last.number);
    }
    let moved = members.iter().copied().zip(sums.moved()).collect();
    sums.end(account.append(members[me], head, moved));
}

/// Adds a record of a collective by messages of the rank `me` of the job.
pub fn append_messages(me: u32, sent: &SentMessages) {
    let head = [
        sent.size as u64,
        u64::from(sent.label.number()),
        CallPart::Whole as u64,
        sent.steps as u64,
    ];
    let moved = sent.bytes.iter().map(|(&rank, &bytes)| (rank, [0, bytes]));
    lock(&ACCOUNT).append(me, head, moved.collect());
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
    /// Counts the last record once more if it is the same, else begins one. Returns its number.
    fn append(&mut self, me: u32, head: [u64; 4], moved: Vec<(u32, [u64; 2])>) -> u64 {
        if self.file.is_none() {
            let path = format!("{}.{me}", prefix().unwrap_or_default());
            // The program goes on without an account where it cannot be written; who reads the
            // files sees that one is missing.
            let Ok(file) = File::create(path) else {
                return 0;
            };
            self.file = Some(file);
            self.buffer.extend_from_slice(first_line().as_bytes());
        }
        let number = self.append_record(head, moved);
        if self.buffer.len() >= BUFFER_BYTES {
            self.write();
        }
        number
    }

    fn append_record(&mut self, head: [u64; 4], moved: Vec<(u32, [u64; 2])>) -> u64 {
        match &mut self.last {
            Some(last) if last.head == head && last.moved == moved => last.repeats += 1,
            _ => {
                self.take_last();
                self.records += 1;
                self.last = Some(MovedRecord { number: self.records, head, repeats: 1, moved });
            }
        }
        self.records
    }

    /// Moves the last record to the buffer.
    fn take_last(&mut self) {
        let Some(last) = self.last.take() else {
            return;
        };
        let moved = last.moved.into_iter().filter(|&(_, sums)| sums != [0, 0]);
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

    /// Ends the operation as [`append`] does, without a file.
    fn append(account: &mut AccountFile, sums: Sums<'_>) -> Vec<[u64; 2]> {
        let moved = sums.moved();
        let by_rank = (0..).zip(moved.iter().copied()).collect();
        sums.end(account.append_record([4, 7, 0, 0], by_rank));
        moved
    }

    fn empty() -> AccountFile {
        AccountFile { file: None, buffer: Vec::new(), records: 0, last: None }
    }

    #[test]
    fn sums_keep_loads_and_stores_of_each_member_apart() {
        let (all, mut account) = (GroupSums::new(3, 2), empty());
        let (sums, other) = (all.slot(1), all.slot(0));
        sums.add(2, Access::Load, 5);
        sums.add(2, Access::Load, 6);
        sums.add(0, Access::Store, 7);
        other.add(1, Access::Store, 1);
        assert_eq!(append(&mut account, sums), [[0, 7], [0, 0], [11, 0]]);
        assert_eq!(append(&mut account, other), [[0, 0], [0, 1], [0, 0]]);
        assert_eq!(sums.moved(), [[0, 0]; 3]);
    }

    #[test]
    fn finds_the_record_of_the_last_operation_only_if_all_copies_are_the_same() {
        let (all, mut account) = (GroupSums::new(2, 1), empty());
        let sums = all.slot(0);
        let many = MIN_COPIES + 3;
        // Copies of 8 bytes, the last of other bytes, and which record the operation before has.
        for (copies, last, same) in [
            (2, 8, None),
            (2, 8, Some(1)),
            (3, 8, None),
            (2, 8, None),
            (2, 9, None),
            (2, 9, Some(4)),
            (0, 0, None),
            (many, 8, None),
            (many, 8, None),
            (2, 9, None),
        ] {
            for at in 1..=copies {
                sums.add(1, Access::Load, if at == copies { last } else { 8 });
            }
            assert_eq!(sums.record_of_last(), same, "{copies} copies, the last of {last}");
            let bytes = (8 * copies + last).saturating_sub(8) as u64;
            assert_eq!(append(&mut account, sums), [[0, 0], [bytes, 0]]);
        }
        assert_eq!(account.records, 7, "two operations repeat one, and the second of `many`");
    }

    #[test]
    fn equal_records_in_a_row_are_one() {
        let mut account = empty();
        for loaded in [64, 64, 64, 0, 64] {
            account.append_record([4, 7, 0, 0], vec![(0, [0, 0]), (1, [loaded, 0])]);
        }
        account.take_last();
        let words: Vec<u64> =
            (account.buffer.as_chunks().0.iter()).map(|&word| u64::from_le_bytes(word)).collect();
        let expected: [&[u64]; 3] =
            [&[4, 7, 0, 0, 3, 1, 1, 64, 0], &[4, 7, 0, 0, 1, 0], &[4, 7, 0, 0, 1, 1, 1, 64, 0]];
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
