//! A contiguous copy of a section.
//!
//! Where MPI writes into the copy, a snapshot tells what it wrote: [`CopiedSection::finish`] writes
//! that alone into the section. That needs the section's contents in the copy even where MPI
//! reads none of them: what MPI leaves as it was is what the section has.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::copy_nonoverlapping;

use super::geometry::{Digit, SectionBytes};
use crate::abi::constants as c;
use crate::descriptor::ArraySection;

/// Sixteen bytes at an address that suits every basic datatype.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug)]
struct Chunk([MaybeUninit<u8>; 16]);

/// A contiguous copy of all elements of a section, in array element order.
#[derive(Debug)]
pub struct CopiedSection {
    section: *mut u8,
    /// Bytes of an element.
    element: usize,
    bytes: SectionBytes,
    copy: Vec<Chunk>,
    /// Where the copy is; it stays there.
    address: *mut u8,
    /// What the section had when it was copied; empty where MPI does not write.
    snapshot: Vec<Chunk>,
}

// SAFETY: nothing of it belongs to a thread. The section may be accessed by the thread that
// completes an operation, as by MPI itself.
unsafe impl Send for CopiedSection {}

/// What MPI does with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionAccess {
    /// It reads.
    Reads,
    /// It writes, and may read.
    Updates,
}

/// A copy of a section, for MPI.
///
/// # Errors
/// `MPI_ERR_NO_MEM`, and `MPI_ERR_BUFFER` for an array of assumed size, of which the end is
/// unknown.
///
/// # Safety
/// The section's memory is readable, and writable if MPI writes, until the copy is dropped.
pub unsafe fn copied(
    section: &ArraySection,
    access: SectionAccess,
) -> Result<CopiedSection, c_int> {
    if section.dimensions.iter().any(|dimension| dimension.extent < 0) {
        return Err(c::ERR_BUFFER);
    }
    let bytes = SectionBytes::new(section)?;
    let len = usize::try_from(bytes.total()).map_err(|_| c::ERR_BUFFER)?;
    let mut copy = chunks(len)?;
    let mut copied = CopiedSection {
        section: section.address.cast(),
        element: section.element,
        bytes,
        address: copy.as_mut_ptr().cast(),
        copy,
        snapshot: chunks(if access == SectionAccess::Updates { len } else { 0 })?,
    };
    copied.refresh();
    Ok(copied)
}

fn chunks(bytes: usize) -> Result<Vec<Chunk>, c_int> {
    let len = bytes.div_ceil(size_of::<Chunk>());
    let mut chunks = Vec::new();
    chunks.try_reserve_exact(len).map_err(|_| c::ERR_NO_MEM)?;
    // SAFETY: as many are reserved, and a chunk need not be initialized.
    unsafe { chunks.set_len(len) };
    Ok(chunks)
}

impl CopiedSection {
    /// Where the copy is.
    pub fn address(&self) -> *mut c_void {
        self.address.cast()
    }

    /// Copies what the section has now, for an operation that starts.
    pub fn refresh(&mut self) {
        let (section, copy) = (self.section, self.address);
        let run = self.bytes.run();
        for_each_row(&self.bytes, |row, first, at| {
            // SAFETY: the section's memory is readable, and the copy has room for its bytes.
            unsafe { gather(run, row, section.wrapping_offset(first), copy.add(at)) }
        });
        if !self.snapshot.is_empty() {
            self.snapshot.copy_from_slice(&self.copy);
        }
    }

    /// Copies what the section has now in a part of the virtual buffer.
    pub fn refresh_part(&mut self, part: Range<i64>) {
        let (section, copy) = (self.section, self.address);
        for_each_run(&self.bytes, part, |from, at, len| {
            let from = section.wrapping_offset(from);
            // SAFETY: the section's memory is readable, and the copy has room for its bytes.
            unsafe { copy_nonoverlapping(from, copy.add(at), len) }
        });
    }

    /// Writes into the section what MPI has written into a part of the copy, for good: what the
    /// program makes of it from now on stays.
    pub fn finish_part(&mut self, part: Range<i64>) {
        if self.snapshot.is_empty() {
            return;
        }
        let new = self.address.cast_const();
        let old: *mut u8 = self.snapshot.as_mut_ptr().cast();
        for_each_run(&self.bytes, part, |to, at, len| {
            let to = self.section.wrapping_offset(to);
            // SAFETY: the section's memory is writable, and both copies have all its bytes.
            unsafe {
                let versions = Versions { new: new.add(at), old: old.add(at) };
                (0..len).for_each(|i| versions.write_change::<1>(i, to.add(i)));
                copy_nonoverlapping(new.add(at), old.add(at), len);
            }
        });
    }

    /// Writes into the section what MPI has written into the copy.
    pub fn finish(&mut self) {
        if self.snapshot.is_empty() {
            return;
        }
        let (new, old): (_, *const u8) = (self.address.cast_const(), self.snapshot.as_ptr().cast());
        let sizes = (self.bytes.run(), self.element);
        for_each_row(&self.bytes, |row, first, at| {
            let to = self.section.wrapping_offset(first);
            // SAFETY: the section's memory is writable, and both copies have all its bytes.
            unsafe {
                scatter_changes(sizes, row, to, Versions { new: new.add(at), old: old.add(at) })
            }
        });
    }
}

/// Calls `visit` for each row: runs at equal distances (a digit), the displacement of the first
/// one, and its position in the virtual buffer.
fn for_each_row(bytes: &SectionBytes, mut visit: impl FnMut(Digit, isize, usize)) {
    if bytes.total() == 0 {
        return;
    }
    let digits = bytes.digits();
    let row = digits.get(1).copied().unwrap_or(Digit { size: bytes.run(), stride: 0, extent: 1 });
    let step = row.size * row.extent;
    for position in (0..bytes.total()).step_by(step as usize) {
        visit(row, bytes.displacement(position) as isize, position as usize);
    }
}

/// Calls `visit` for each contiguous run of a part of the virtual buffer, as far as there is one:
/// its displacement, its position, its bytes.
fn for_each_run(
    bytes: &SectionBytes,
    part: Range<i64>,
    mut visit: impl FnMut(isize, usize, usize),
) {
    let (mut position, end) = (part.start.max(0), part.end.min(bytes.total()));
    while position < end {
        let len = (bytes.run() - position % bytes.run()).min(end - position);
        visit(bytes.displacement(position) as isize, position as usize, len as usize);
        position += len;
    }
}

/// Copies the runs of a row from the section.
///
/// # Safety
/// The row's runs, the first of which is at `from`, are readable; `to` is writable for them.
unsafe fn gather(run: i64, row: Digit, from: *const u8, to: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe {
        match run {
            1 => gather_runs(1, row, from, to),
            4 => gather_runs(4, row, from, to),
            8 => gather_runs(8, row, from, to),
            16 => gather_runs(16, row, from, to),
            _ => gather_runs(run as usize, row, from, to),
        }
    }
}

/// # Safety
/// As for [`gather`].
#[inline(always)]
unsafe fn gather_runs(run: usize, row: Digit, from: *const u8, to: *mut u8) {
    for i in 0..row.extent as usize {
        let place = from.wrapping_offset(i as isize * row.stride as isize);
        // SAFETY: as the caller promises.
        unsafe { copy_nonoverlapping(place, to.add(i * run), run) };
    }
}

/// The same bytes of the copy and of the snapshot.
#[derive(Clone, Copy, Debug)]
struct Versions {
    new: *const u8,
    old: *const u8,
}

/// Writes what has changed into the runs of a row. What is written at once divides the section's
/// `element`: four bytes, the parts of most numbers, or single bytes.
///
/// # Safety
/// The row's runs, the first of which is at `to`, are writable; both versions have their bytes.
unsafe fn scatter_changes(
    (run, element): (i64, usize),
    row: Digit,
    to: *mut u8,
    versions: Versions,
) {
    let run = run as usize;
    // SAFETY: as the caller promises.
    unsafe {
        match run {
            4 if element == 4 => scatter_runs::<4>(4, row, to, versions),
            8 if element == 8 => scatter_runs::<4>(8, row, to, versions),
            16 if element == 16 => scatter_runs::<4>(16, row, to, versions),
            _ if element.is_multiple_of(4) => scatter_runs::<4>(run, row, to, versions),
            _ => scatter_runs::<1>(run, row, to, versions),
        }
    }
}

/// # Safety
/// As for [`scatter_changes`]; `run` is a multiple of `UNIT`.
#[inline(always)]
unsafe fn scatter_runs<const UNIT: usize>(run: usize, row: Digit, to: *mut u8, versions: Versions) {
    for i in 0..row.extent as usize {
        let place = to.wrapping_offset(i as isize * row.stride as isize);
        let mut at = 0;
        // SAFETY: as the caller promises; `at` stays within the run.
        unsafe {
            while at + 8 <= run {
                if versions.differ::<8>(i * run + at) {
                    for part in (at..at + 8).step_by(UNIT) {
                        versions.write_change::<UNIT>(i * run + part, place.add(part));
                    }
                }
                at += 8;
            }
            while at < run {
                versions.write_change::<UNIT>(i * run + at, place.add(at));
                at += UNIT;
            }
        }
    }
}

impl Versions {
    /// Whether `N` bytes have changed.
    ///
    /// # Safety
    /// Both versions have them.
    #[inline(always)]
    unsafe fn differ<const N: usize>(self, at: usize) -> bool {
        let (new, old): (*const [u8; N], *const [u8; N]) = (self.new.cast(), self.old.cast());
        // SAFETY: as the caller promises.
        unsafe { new.byte_add(at).read() != old.byte_add(at).read() }
    }

    /// Writes `N` bytes, if they have changed.
    ///
    /// # Safety
    /// Both versions have them, and `to` is writable for them.
    #[inline(always)]
    unsafe fn write_change<const N: usize>(self, at: usize, to: *mut u8) {
        // SAFETY: as the caller promises.
        unsafe {
            if self.differ::<N>(at) {
                copy_nonoverlapping(self.new.add(at), to, N);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::SectionDimension;

    #[test]
    fn writes_only_the_bytes_that_have_changed() {
        let mut array: [u16; 12] = std::array::from_fn(|i| i as u16);
        let dimensions = [SectionDimension { lower_bound: 1, extent: 4, stride: -6 }];
        let address = (&raw mut array[10]).cast();
        let section = ArraySection { address, element: 2, dimensions: &dimensions };
        // SAFETY: the section is part of the array.
        let mut copied = unsafe { copied(&section, SectionAccess::Updates) }.unwrap();
        let copy: *mut u16 = copied.address().cast();
        // SAFETY: the copy has four elements.
        unsafe {
            assert_eq!([0, 1, 2, 3].map(|i| copy.add(i).read()), [10, 7, 4, 1]);
            copy.add(2).write(0x1234);
        }
        array[7] = 77; // another operation's
        copied.finish();
        assert_eq!(array, [0, 1, 2, 3, 0x1234, 5, 6, 77, 8, 9, 10, 11]);
    }
}
