//! A message in memory: its bytes in order, read and written at any position.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use super::bytes::{copy_any, copy_small};
use super::layout::copy::{CopyDirection, Pack, Unpack};
use super::layout::elements::elements;
use super::layout::{TypeLayout, TypeLayoutError};
use super::region::{Block, Region, is_absent};

/// Order and extent of a message's bytes relative to a region's address.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `bytes` bytes from the address on.
    Contiguous {
        /// Length in bytes.
        bytes: usize,
    },
    /// `count` elements of a layout, one extent apart.
    Typed {
        /// One element.
        layout: Arc<TypeLayout>,
        /// Number of elements.
        count: usize,
    },
}

impl Shape {
    /// `count` elements of `layout`; contiguous if they are, starting at the origin. Fails if the
    /// elements reach further than an address can.
    pub fn of(layout: &Arc<TypeLayout>, count: usize) -> Result<Shape, TypeLayoutError> {
        let bytes = layout.packed(count)?;
        match layout.dense_at(count) {
            Some(0) => Ok(Shape::Contiguous { bytes }),
            _ => Ok(Shape::Typed { layout: Arc::clone(layout), count }),
        }
    }

    /// Number of bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Shape::Contiguous { bytes } => *bytes,
            Shape::Typed { layout, count } => {
                layout.packed(*count).expect("a shape's size fits a length")
            }
        }
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the byte at `position` lies, relative to the address, and how many bytes of the
    /// message lie side by side from there on; `None` at the message's end. Adjacent runs are not
    /// merged.
    pub fn seek(&self, position: usize) -> Option<(isize, usize)> {
        let left = self.len().checked_sub(position).filter(|&left| left > 0)?;
        Some(match self {
            Shape::Contiguous { .. } => (position as isize, left),
            Shape::Typed { layout, .. } => {
                let (at, len) = layout.seek(position as u64);
                (at as isize, left.min(len as usize))
            }
        })
    }

    /// Where the first byte lies, relative to the address, if the bytes lie in memory in message
    /// order without gaps.
    #[inline]
    pub fn dense_at(&self) -> Option<isize> {
        match self {
            Shape::Contiguous { .. } => Some(0),
            Shape::Typed { layout, count } => layout.dense_at(*count).map(|at| at as isize),
        }
    }

    /// An upper bound of the number of stretches that the bytes lie in.
    pub fn run_count_hint(&self) -> usize {
        match self {
            _ if self.is_empty() => 0,
            Shape::Contiguous { .. } => 1,
            Shape::Typed { layout, count } => match layout.dense_at(*count) {
                Some(_) => 1,
                None => (layout.blocks() as usize).saturating_mul(*count),
            },
        }
    }

    /// Where the lowest byte lies, relative to the address, and how many bytes there are from it to
    /// the highest, gaps included.
    #[inline(always)]
    pub fn span(&self) -> (isize, usize) {
        match self {
            Shape::Contiguous { bytes } => (0, *bytes),
            Shape::Typed { layout, count } => {
                let (low, high) = layout.true_span(*count).expect("a shape's span fits an address");
                (low as isize, (high - low) as usize)
            }
        }
    }
}

/// The bytes of a message in memory: a shape at an address. Its shape is its bounds.
#[derive(Clone, Debug)]
pub struct View {
    address: usize,
    /// Keeps the memory alive if it is the library's.
    owner: Option<Arc<Block>>,
    shape: Shape,
    len: usize,
}

/// Consecutive bytes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRun {
    /// Address of the first byte.
    pub address: usize,
    /// Number of bytes, not 0.
    pub len: usize,
}

impl Region {
    /// The message of this shape here. The region's bounds must hold the whole shape. Anything else
    /// is an internal error, and it panics.
    #[inline]
    pub fn view(self, shape: Shape) -> View {
        View::new(self, shape)
    }
}

impl View {
    #[inline(always)]
    pub(super) fn new(region: Region, shape: Shape) -> View {
        let (low, bytes) = shape.span();
        region.check(low, bytes);
        let (address, owner) = region.into_parts();
        View { address, owner, len: shape.len(), shape }
    }

    /// A message of no bytes.
    pub fn empty() -> View {
        Region::null().view(Shape::Contiguous { bytes: 0 })
    }

    /// The message of this shape in the caller's memory at `ptr`, which may be null.
    ///
    /// # Safety
    /// As for [`Region::user`], for the bytes of the shape.
    #[inline(always)]
    pub unsafe fn user(ptr: *const c_void, shape: Shape) -> View {
        View { address: ptr.expose_provenance(), owner: None, len: shape.len(), shape }
    }

    #[inline(always)]
    fn ptr(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// Number of bytes of the message.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it lies in [absent](Region::absent) memory.
    pub fn is_absent(&self) -> bool {
        is_absent(self.address)
    }

    /// The memory that the message lies in, gaps included, at the address that its shape starts
    /// from.
    #[inline]
    pub fn region(&self) -> Region {
        Region::within(self.span(), self.address, self.owner.clone())
    }

    /// The first `bytes` bytes of a message that lies in one piece.
    ///
    /// # Panics
    /// If it does not, or has fewer.
    pub fn start(&self, bytes: usize) -> View {
        let (address, len) = self.as_contiguous().expect("a message in one piece");
        assert!(bytes <= len, "{bytes} bytes of a message of {len}");
        View { address, owner: self.owner.clone(), shape: Shape::Contiguous { bytes }, len: bytes }
    }

    /// The message of these of its bytes.
    ///
    /// # Errors
    /// Where they lie in pieces, and there is no memory for a description of them.
    ///
    /// # Panics
    /// If it does not have them.
    pub fn part(&self, range: Range<usize>) -> Result<View, TypeLayoutError> {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        let bytes = range.len();
        let owner = self.owner.clone();
        if let Some((address, _)) = self.as_contiguous() {
            let address = address.wrapping_add(range.start);
            return Ok(View { address, owner, shape: Shape::Contiguous { bytes }, len: bytes });
        }
        if range == (0..self.len) {
            return Ok(self.clone());
        }
        let mut left = bytes;
        let runs = self.runs(range.start).map_while(|run| {
            let len = run.len.min(left);
            left -= len;
            (len > 0).then_some((len as u64, run.address.wrapping_sub(self.address) as i64))
        });
        let layout = Arc::new(TypeLayout::basic(1, 1)?.hindexed(runs)?);
        Ok(View { address: self.address, owner, shape: Shape::of(&layout, 1)?, len: bytes })
    }

    /// The order of its bytes.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Address and length, if the bytes lie in memory in message order without gaps.
    #[inline]
    pub fn as_contiguous(&self) -> Option<(usize, usize)> {
        match &self.shape {
            Shape::Contiguous { bytes } => Some((self.address, *bytes)),
            Shape::Typed { layout, count } => {
                let at = layout.dense_at(*count)?;
                Some((self.address.wrapping_add_signed(at as isize), self.len))
            }
        }
    }

    /// Where the lowest byte lies, and how many bytes there are from it to the highest, gaps
    /// included.
    pub fn span(&self) -> (usize, usize) {
        let (low, bytes) = self.shape.span();
        (self.address.wrapping_add_signed(low), bytes)
    }

    /// Whether the message, gaps between its bytes included, overlaps `addresses` of `block`. Only
    /// a message in the same block can: by the region's promise others do not.
    #[inline]
    pub fn meets(&self, block: &Arc<Block>, addresses: Range<usize>) -> bool {
        let owner = self.owner.as_ref();
        owner.is_some_and(|owner| Arc::ptr_eq(owner, block)) && {
            let (lowest, bytes) = self.span();
            lowest < addresses.end && addresses.start < lowest + bytes
        }
    }

    /// Copies the message's bytes from `position` on into `to`; returns how many: as many as `to`
    /// holds, or fewer at the message's end.
    #[inline(always)]
    pub fn pack(&self, position: usize, to: &mut [u8]) -> usize {
        // SAFETY: `to` is writable for its length and, being exclusive, disjoint from the message.
        unsafe { self.pack_into(position, to.as_mut_ptr(), to.len()) }
    }

    /// Copies `from` to the message's bytes from `position` on; returns how many: as many as `from`
    /// holds, or fewer at the message's end.
    #[inline(always)]
    pub fn unpack(&self, position: usize, from: &[u8]) -> usize {
        // SAFETY: `from` is readable for its length; by the region's promise no other code accesses
        // the message's bytes.
        unsafe { self.unpack_from(position, from.as_ptr(), from.len()) }
    }

    /// Copies `len` bytes of the message from `position` on to `to`, in message order; returns how
    /// many, fewer only at the message's end. The two do not overlap.
    #[inline]
    pub fn pack_to(&self, position: usize, to: &Region, len: usize) -> usize {
        to.check(0, len);
        // SAFETY: the region was checked to hold `len` bytes; that they are not the message's is
        // the regions' promise.
        unsafe { self.pack_into(position, to.ptr(), len) }
    }

    /// Copies `len` bytes at `from` to the message's bytes from `position` on; returns how many,
    /// fewer only at the message's end. The two do not overlap.
    #[inline]
    pub fn unpack_at(&self, position: usize, from: &Region, len: usize) -> usize {
        from.check(0, len);
        // SAFETY: as in `pack_to`.
        unsafe { self.unpack_from(position, from.ptr(), len) }
    }

    /// [`pack`](Self::pack) to a raw address.
    ///
    /// # Safety
    /// 1. `to` is writable for `len` bytes;
    /// 2. these bytes do not overlap the message's.
    #[inline(always)]
    pub unsafe fn pack_into(&self, position: usize, to: *mut u8, len: usize) -> usize {
        let n = len.min(self.len.saturating_sub(position));
        // SAFETY: `position + n` lies within the message, whose bytes the region promises;
        // obligations 1 and 2.
        unsafe {
            if let Shape::Contiguous { .. } = self.shape {
                copy_small(self.ptr().wrapping_add(position), to, n);
            } else {
                self.typed::<Pack>(position, to, n);
            }
        }
        n
    }

    /// [`unpack`](Self::unpack) from a raw address.
    ///
    /// # Safety
    /// 1. `from` is readable for `len` bytes;
    /// 2. these bytes do not overlap the message's.
    #[inline(always)]
    pub unsafe fn unpack_from(&self, position: usize, from: *const u8, len: usize) -> usize {
        let n = len.min(self.len.saturating_sub(position));
        // SAFETY: as in `pack_into`; `typed::<Unpack>` only reads from its packed side.
        unsafe {
            if let Shape::Contiguous { .. } = self.shape {
                copy_small(from, self.ptr().wrapping_add(position), n);
            } else {
                self.typed::<Unpack>(position, from.cast_mut(), n);
            }
        }
        n
    }

    /// Copies `n` bytes at `position` of a typed message, to `packed` or from it.
    ///
    /// # Safety
    /// 1. `position + n <= self.len()`;
    /// 2. `packed` is writable (`Pack`) or readable (`Unpack`) for `n` bytes, which do not overlap
    ///    the message's.
    #[inline(never)]
    unsafe fn typed<D: CopyDirection>(&self, position: usize, packed: *mut u8, n: usize) {
        if let Shape::Typed { layout, count } = &self.shape
            && n > 0
        {
            // SAFETY: obligations 1 and 2; the region promises the memory side.
            unsafe {
                elements::<D>(layout, *count, self.ptr(), position, packed, n);
            }
        }
    }

    /// The message's bytes from `position` on as stretches of memory, in order; adjacent stretches
    /// are merged.
    pub fn runs(&self, position: usize) -> ByteRuns<'_> {
        ByteRuns { view: self, position }
    }

    /// At most `limit` runs from `position` on.
    pub fn iovecs(&self, position: usize, limit: usize) -> Vec<ByteRun> {
        let mut runs = Vec::with_capacity(limit.min(self.run_count_hint()));
        runs.extend(self.runs(position).take(limit));
        runs
    }

    /// An upper bound of the number of runs of the message.
    pub fn run_count_hint(&self) -> usize {
        self.shape.run_count_hint()
    }

    /// Copies the bytes of `from` to this message, as many as both have; returns how many. Two
    /// contiguous messages may overlap.
    pub fn copy_from(&self, from: &View) -> usize {
        let n = self.len.min(from.len);
        if n == 0 {
            return 0;
        }
        match (self.as_contiguous(), from.as_contiguous()) {
            (Some((to, _)), Some((source, _))) => {
                let to = std::ptr::with_exposed_provenance_mut::<u8>(to);
                let source = std::ptr::with_exposed_provenance::<u8>(source);
                // SAFETY: both views promise at least `n` bytes, which may overlap.
                unsafe { copy_any(source, to, n) };
                n
            }
            // SAFETY: the contiguous side has at least `n` bytes, disjoint from the other's by the
            // region's promise.
            (Some((to, _)), None) => unsafe {
                from.pack_into(0, std::ptr::with_exposed_provenance_mut(to), n)
            },
            // SAFETY: as above.
            (None, Some((source, _))) => unsafe {
                self.unpack_from(0, std::ptr::with_exposed_provenance(source), n)
            },
            (None, None) => self.copy_scattered(from, n),
        }
    }

    /// `copy_from` where neither side is contiguous: along the runs of the side with the longer
    /// ones, or, where both are finely scattered, through a buffer that stays in the first-level
    /// cache.
    fn copy_scattered(&self, from: &View, n: usize) -> usize {
        const LONG: usize = 512;
        const BOUNCE: usize = 8192;
        let mut done = 0;
        if from.len / from.run_count_hint().max(1) >= LONG {
            for run in from.runs(0) {
                let source = std::ptr::with_exposed_provenance(run.address);
                // SAFETY: the run's bytes are promised by `from`, and disjoint from this message's
                // by the region's promise.
                done += unsafe { self.unpack_from(done, source, run.len) };
                if done == n {
                    break;
                }
            }
        } else if self.len / self.run_count_hint().max(1) >= LONG {
            for run in self.runs(0) {
                let to = std::ptr::with_exposed_provenance_mut(run.address);
                // SAFETY: as above, with the sides exchanged.
                done += unsafe { from.pack_into(done, to, run.len) };
                if done == n {
                    break;
                }
            }
        } else {
            let mut bounce = [0u8; BOUNCE];
            while done < n {
                let chunk = from.pack(done, &mut bounce[..BOUNCE.min(n - done)]);
                done += self.unpack(done, &bounce[..chunk]);
            }
        }
        done
    }
}

/// The runs of a view from a position on; see [`View::runs`].
#[derive(Clone, Debug)]
pub struct ByteRuns<'a> {
    view: &'a View,
    position: usize,
}

impl ByteRuns<'_> {
    /// Position in the message where the next run starts.
    pub fn position(&self) -> usize {
        self.position
    }

    fn seek(&self) -> Option<ByteRun> {
        let (at, len) = self.view.shape.seek(self.position)?;
        Some(ByteRun { address: self.view.address.wrapping_add_signed(at), len })
    }
}

impl Iterator for ByteRuns<'_> {
    type Item = ByteRun;

    fn next(&mut self) -> Option<ByteRun> {
        let mut run = match self.view.as_contiguous() {
            Some((address, len)) => {
                let left = len.checked_sub(self.position).filter(|&left| left > 0)?;
                ByteRun { address: address.wrapping_add(self.position), len: left }
            }
            None => self.seek()?,
        };
        self.position += run.len;
        while let Some(next) = self.seek()
            && next.address == run.address.wrapping_add(run.len)
        {
            run.len += next.len;
            self.position += next.len;
        }
        Some(run)
    }
}
