//! Places in memory: in the caller's memory, which the caller keeps alive, and in the library's
//! blocks, which are reference-counted.

use std::alloc::{Layout as Allocation, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::fmt::Debug;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::bytes::{copy_of_any_length, copy_small};

/// Blocks start on a cache line.
const LINE: usize = 64;

/// Memory that regions keep alive: heap memory, aligned to a cache line, or memory that somebody
/// else has mapped, together with what keeps the mapping.
#[derive(Debug)]
pub struct Block {
    memory: Memory,
    /// Address of the first byte handed out.
    start: usize,
    bytes: usize,
}

#[derive(Debug)]
enum Memory {
    Heap {
        base: NonNull<u8>,
        allocation: Allocation,
    },
    /// May be unmapped when this is dropped.
    Mapped(#[expect(dead_code)] Box<dyn Debug + Send + Sync>),
}

// SAFETY: a block owns its memory alone, or a share in what keeps it mapped, and holds nothing
// bound to a thread.
unsafe impl Send for Block {}
// SAFETY: `Block` itself reads and writes nothing through a shared reference; accesses go through
// regions, whose users order them as the operations of one message do.
unsafe impl Sync for Block {}
/// A block's fields never change until they are dropped: a panic cannot leave it half changed.
impl std::panic::RefUnwindSafe for Block {}

/// Memory for a temporary buffer could not be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {bytes} bytes of memory for a temporary buffer")]
pub struct OutOfMemory {
    /// The requested size in bytes.
    pub bytes: usize,
}

/// An address in a piece of memory whose bounds no access leaves, and what keeps that memory alive
/// if it is the library's. The address itself may lie outside the bounds: the origin of a datatype
/// whose bytes lie elsewhere, or an intermediate result of address arithmetic.
#[derive(Clone, Debug)]
pub struct Region {
    address: usize,
    /// The memory: `bytes` bytes from `low` on.
    low: usize,
    bytes: usize,
    owner: Option<Arc<Block>>,
}

/// Where absent memory begins: in the half of all addresses that no program has.
const ABSENT: usize = 1 << (usize::BITS - 1);

/// Whether an address, which may lie beside the bounds that it belongs to, is one of absent memory.
/// A program's addresses have 57 bits at most.
pub(super) fn is_absent(address: usize) -> bool {
    address >= ABSENT / 2
}

impl Block {
    /// Allocates `bytes` bytes and returns the region of its first byte; the block lives as long as
    /// any region or view made from it. The content is initialised but unspecified.
    pub fn allocate(bytes: usize) -> Result<Region, OutOfMemory> {
        let failed = OutOfMemory { bytes };
        // Alignment 16 and a manual round-up let large blocks come from the kernel as untouched
        // zero pages; a request for alignment 64 would be cleared by hand.
        let allocation = bytes
            .checked_add(LINE)
            .and_then(|padded| Allocation::from_size_align(padded, 16).ok())
            .ok_or(failed)?;
        // SAFETY: the size is at least `LINE`, so not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(allocation) }).ok_or(failed)?;
        let start = base.as_ptr().expose_provenance().next_multiple_of(LINE);
        let block = Block { memory: Memory::Heap { base, allocation }, start, bytes };
        Ok(Arc::new(block).region_at(start))
    }

    /// The heap's memory that a block of `bytes` bytes takes: with what it is aligned by, what the
    /// block and its count of references are, and what malloc adds to each of the two.
    pub const fn heap_bytes(bytes: usize) -> usize {
        const WORD: usize = size_of::<usize>();
        const GRAIN: usize = 2 * WORD;
        let of_block = size_of::<Block>() + 2 * WORD;
        let content = bytes.saturating_add(LINE + WORD + GRAIN - 1) / GRAIN * GRAIN;
        content + (of_block + WORD).next_multiple_of(GRAIN)
    }

    /// Memory at `addresses` that `mapping` keeps mapped until it is dropped.
    ///
    /// # Safety
    /// As long as `mapping` lives:
    /// 1. `addresses` are mapped, readable and writable, and part of no object that Rust knows;
    /// 2. the contract of [`Region::user`] holds for every region made from the block.
    pub unsafe fn mapped(
        addresses: Range<usize>,
        mapping: impl Debug + Send + Sync + 'static,
    ) -> Arc<Block> {
        Arc::new(Block {
            memory: Memory::Mapped(Box::new(mapping)),
            start: addresses.start,
            bytes: addresses.len(),
        })
    }

    /// The region of this block at `address`.
    #[inline]
    pub fn region_at(self: &Arc<Block>, address: usize) -> Region {
        Region { address, low: self.start, bytes: self.bytes, owner: Some(Arc::clone(self)) }
    }

    /// The `bytes` bytes at `address`, with these as the bounds although the block is longer: a
    /// cell, or the data of a line.
    ///
    /// # Safety
    /// They lie in the block.
    #[inline(always)]
    pub unsafe fn piece_at(self: &Arc<Block>, address: usize, bytes: usize) -> RegionRef<'_> {
        debug_assert!(self.addresses().contains(&address));
        RegionRef { address, low: address, bytes, owner: Some(self) }
    }

    /// The addresses of its bytes.
    pub fn addresses(&self) -> Range<usize> {
        self.start..self.start + self.bytes
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the block holds no byte.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Memory::Heap { base, allocation } = self.memory {
            // SAFETY: `base` came from `alloc_zeroed` with this allocation, and no region of it is
            // left.
            unsafe { dealloc(base.as_ptr(), allocation) }
        }
    }
}

impl Region {
    /// The caller's memory at `ptr`, which may be null (`MPI_BOTTOM`, or a buffer of no bytes);
    /// `bounds`, relative to it, are the bytes that an operation may access. No access through this
    /// region, or one derived from it, leaves them.
    ///
    /// # Safety
    /// 1. Of the bytes within `bounds`, those that the operation covers (the elements that its
    ///    counts and datatypes name, and not the gaps between them, which a program may have
    ///    unmapped) lie in live memory of this process from the operation's start until it
    ///    completes, and are readable;
    /// 2. they are writable if the operation receives, unpacks or reduces into them;
    /// 3. until then no other code writes the bytes that the operation reads, nor accesses those
    ///    that it writes, and buffers which the operation reads do not overlap those it writes,
    ///    except where it says that they may.
    #[inline]
    pub unsafe fn user(ptr: *const c_void, bounds: Range<isize>) -> Region {
        let address = ptr.expose_provenance();
        Region {
            address,
            low: address.wrapping_add_signed(bounds.start),
            bytes: match bounds.is_empty() {
                true => 0,
                // The bounds may span more than half of the address space.
                false => bounds.end.wrapping_sub(bounds.start) as usize,
            },
            owner: None,
        }
    }

    /// A place without bytes, for operations that touch none.
    #[inline]
    pub const fn null() -> Region {
        Region { address: 0, low: 0, bytes: 0, owner: None }
    }

    /// `bytes` bytes that there is no memory for, so that an operation can be described that is not
    /// carried out. No process has memory at their addresses: an access ends the process.
    pub const fn absent(bytes: usize) -> Region {
        Region { address: ABSENT, low: ABSENT, bytes, owner: None }
    }

    /// Whether it is a part of [absent](Self::absent) memory.
    pub fn is_absent(&self) -> bool {
        is_absent(self.address)
    }

    /// The region at `address` of the `bytes` bytes from `low` on, which lie within the bounds of
    /// another that had this owner.
    #[inline]
    pub(super) fn within(
        (low, bytes): (usize, usize),
        address: usize,
        owner: Option<Arc<Block>>,
    ) -> Region {
        Region { address, low, bytes, owner }
    }

    /// The address, and what keeps its memory alive.
    #[inline]
    pub(super) fn into_parts(self) -> (usize, Option<Arc<Block>>) {
        (self.address, self.owner)
    }

    /// Length of the memory within the bounds.
    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of the region's origin.
    #[inline]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Whether the bounds of both have a byte in common: otherwise no view of one shares a byte
    /// with a view of the other.
    #[inline]
    pub fn may_share(&self, other: &Region) -> bool {
        other.low.wrapping_sub(self.low) < self.bytes
            || self.low.wrapping_sub(other.low) < other.bytes
    }

    /// The place `offset` bytes from here.
    #[inline(always)]
    pub fn at(&self, offset: usize) -> RegionRef<'_> {
        RegionRef {
            address: self.address.wrapping_add(offset),
            low: self.low,
            bytes: self.bytes,
            owner: self.owner.as_ref(),
        }
    }

    /// The `bytes` bytes from `offset` on, with these as the bounds; `None` if they leave those of
    /// this region.
    #[inline(always)]
    pub fn piece(&self, offset: usize, bytes: usize) -> Option<RegionRef<'_>> {
        let address = self.address.wrapping_add(offset);
        is_within((self.low, self.bytes), address, bytes).then_some(RegionRef {
            address,
            low: address,
            bytes,
            owner: self.owner.as_ref(),
        })
    }

    /// The place `bytes` further on (or back).
    #[inline]
    pub fn offset(&self, bytes: isize) -> Region {
        Region {
            address: self.address.wrapping_add_signed(bytes),
            low: self.low,
            bytes: self.bytes,
            owner: self.owner.clone(),
        }
    }

    /// Copies the bytes from here on into `to`.
    pub fn read_bytes(&self, to: &mut [u8]) {
        self.at(0).read_bytes(to);
    }

    /// Copies `from` to the bytes from here on.
    pub fn write_bytes(&self, from: &[u8]) {
        self.at(0).write_bytes(from);
    }

    /// Panics unless the `bytes` bytes that start `offset` from the address lie within the bounds.
    #[inline(always)]
    pub(super) fn check(&self, offset: isize, bytes: usize) {
        let first = self.address.wrapping_add_signed(offset);
        check_bounds((self.low, self.bytes), first, bytes);
    }

    #[inline]
    pub(super) fn ptr(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.address)
    }
}

/// Panics unless the `bytes` bytes from `first` on lie within the `len` bytes from `low` on.
#[inline(always)]
fn check_bounds((low, len): (usize, usize), first: usize, bytes: usize) {
    if !is_within((low, len), first, bytes) && bytes > 0 {
        reject((low, len), first, bytes);
    }
}

/// Whether the `bytes` bytes from `first` on lie within the `len` bytes from `low` on.
#[inline(always)]
fn is_within((low, len): (usize, usize), first: usize, bytes: usize) -> bool {
    let before = first.wrapping_sub(low);
    bytes <= len && before <= len - bytes
}

#[cold]
#[inline(never)]
fn reject((low, len): (usize, usize), first: usize, bytes: usize) -> ! {
    panic!("{bytes} bytes at {first:#x} reach outside the {len} bytes at {low:#x}")
}

/// A place in a region, or a piece of a block, that borrows its owner. Unlike a [`Region`], it
/// counts no reference: between stores to cache lines that other processors hold, a locked
/// instruction waits for all of them.
#[derive(Clone, Copy, Debug)]
pub struct RegionRef<'a> {
    address: usize,
    low: usize,
    bytes: usize,
    owner: Option<&'a Arc<Block>>,
}

impl<'a> RegionRef<'a> {
    /// A region of its own here, with the same bounds: counts a reference.
    #[inline]
    pub fn to_region(self) -> Region {
        Region {
            address: self.address,
            low: self.low,
            bytes: self.bytes,
            owner: self.owner.cloned(),
        }
    }

    /// Address of the place.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.address
    }

    /// The place `offset` bytes from here.
    #[inline(always)]
    pub fn at(self, offset: usize) -> RegionRef<'a> {
        RegionRef { address: self.address.wrapping_add(offset), ..self }
    }

    #[inline(always)]
    pub(super) fn checked(self, bytes: usize) -> *mut u8 {
        check_bounds((self.low, self.bytes), self.address, bytes);
        ptr::with_exposed_provenance_mut(self.address)
    }

    /// Copies the bytes from here on into `to`.
    #[inline(always)]
    pub fn read_bytes(self, to: &mut [u8]) {
        let from = self.checked(to.len());
        // SAFETY: the check covers `to.len()` bytes here; `to` is exclusive, so disjoint.
        unsafe { copy_small(from, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `from` to the bytes from here on.
    #[inline(always)]
    pub fn write_bytes(self, from: &[u8]) {
        let to = self.checked(from.len());
        // SAFETY: as in `read_bytes`; by the caller's promise no other code accesses the bytes
        // written.
        unsafe { copy_small(from.as_ptr(), to, from.len()) }
    }

    /// Copies `bytes` bytes from here to another place; the two may overlap. The checks are
    /// inlined: two places would go to a function through memory.
    #[inline(always)]
    pub fn copy_to(self, to: RegionRef<'_>, bytes: usize) {
        let (from, to) = (self.checked(bytes), to.checked(bytes));
        // SAFETY: both were checked to hold `bytes` bytes.
        unsafe { copy_of_any_length(from, to, bytes) }
    }

    /// As [`combine`], with `bytes` bytes from here as the input.
    #[inline(always)]
    pub fn combine_into<R>(
        self,
        inout: RegionRef<'_>,
        bytes: usize,
        f: impl FnOnce(&[u8], &mut [u8]) -> R,
    ) -> R {
        let (input, inout) = (self.checked(bytes), inout.checked(bytes));
        if bytes == 0 {
            return f(&[], &mut []);
        }
        // SAFETY: both regions were checked to hold `bytes` initialised bytes. The mutable slice is
        // the only access to its bytes: by the caller's promise no other code accesses them, and
        // the input is copied if it overlaps them.
        unsafe {
            let given = std::slice::from_raw_parts(input, bytes);
            if input.addr().abs_diff(inout.addr()) < bytes {
                let copy = given.to_vec();
                f(&copy, std::slice::from_raw_parts_mut(inout, bytes))
            } else {
                f(given, std::slice::from_raw_parts_mut(inout, bytes))
            }
        }
    }
}

/// Copies `bytes` bytes from one region to another; they may overlap.
#[inline]
pub fn copy_bytes(from: &Region, to: &Region, bytes: usize) {
    from.at(0).copy_to(to.at(0), bytes);
}

/// Sets `bytes` bytes of a region to `value`.
pub fn fill(region: &Region, value: u8, bytes: usize) {
    region.check(0, bytes);
    if bytes > 0 {
        // SAFETY: the region was checked to hold `bytes` writable bytes.
        unsafe { ptr::write_bytes(region.ptr(), value, bytes) }
    }
}

/// Calls `f` with `bytes` bytes of `input` and, to be changed, of `inout`: the core of a local
/// reduction. Where the two overlap, `f` sees a copy of the input.
pub fn combine<R>(
    input: &Region,
    inout: &Region,
    bytes: usize,
    f: impl FnOnce(&[u8], &mut [u8]) -> R,
) -> R {
    input.at(0).combine_into(inout.at(0), bytes, f)
}

#[cfg(test)]
mod tests;
