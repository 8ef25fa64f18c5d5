//! Messages as algorithms through cells copy them: views of any datatype, and bytes without gaps,
//! which the fast path has.

use mica_memory::{RegionRef, View};

use super::parts::Parts;
use mica_objects::error::Result;

/// A message in a rank's own memory.
pub trait Message {
    /// Its length.
    fn bytes(&self) -> usize;

    /// Copies `bytes` bytes from byte `at` on to shared memory, or as many as there are.
    fn pack(&self, at: usize, to: RegionRef<'_>, bytes: usize);

    /// Copies `bytes` bytes from shared memory to the message from byte `at` on, or as many as fit.
    fn unpack(&self, at: usize, from: RegionRef<'_>, bytes: usize);

    /// Copies another message of this rank.
    fn copy_from(&self, other: &Self);
}

/// A buffer of this rank that has a part for each member.
pub trait MessageParts {
    /// One of them.
    type Part: Message;

    /// Bytes of the part for `member`.
    fn bytes_of(&self, member: usize) -> usize;

    /// The part for `member`.
    ///
    /// # Errors
    /// When it extends past the largest address.
    fn part(&self, member: usize) -> Result<Self::Part>;
}

impl Message for View {
    #[inline]
    fn bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn pack(&self, at: usize, to: RegionRef<'_>, bytes: usize) {
        self.pack_to(at, &to.to_region(), bytes);
    }

    #[inline]
    fn unpack(&self, at: usize, from: RegionRef<'_>, bytes: usize) {
        self.unpack_at(at, &from.to_region(), bytes);
    }

    #[inline]
    fn copy_from(&self, other: &View) {
        View::copy_from(self, other);
    }
}

impl MessageParts for Parts {
    type Part = View;

    #[inline]
    fn bytes_of(&self, member: usize) -> usize {
        self.len(member)
    }

    #[inline]
    fn part(&self, member: usize) -> Result<View> {
        self.view(member)
    }
}

/// A message without gaps.
#[derive(Debug, Clone, Copy)]
pub struct Dense<'a> {
    /// Where it starts.
    pub at: RegionRef<'a>,
    /// Its length.
    pub bytes: usize,
}

impl Message for Dense<'_> {
    #[inline(always)]
    fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline(always)]
    fn pack(&self, at: usize, to: RegionRef<'_>, bytes: usize) {
        self.at.at(at).copy_to(to, bytes);
    }

    #[inline(always)]
    fn unpack(&self, at: usize, from: RegionRef<'_>, bytes: usize) {
        from.copy_to(self.at.at(at), bytes);
    }

    #[inline(always)]
    fn copy_from(&self, other: &Self) {
        other.at.copy_to(self.at, self.bytes);
    }
}

/// Parts without gaps, of equal length, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct DenseParts<'a> {
    /// Where the first starts.
    pub at: RegionRef<'a>,
    /// The length of one.
    pub bytes: usize,
}

impl<'a> MessageParts for DenseParts<'a> {
    type Part = Dense<'a>;

    #[inline(always)]
    fn bytes_of(&self, _: usize) -> usize {
        self.bytes
    }

    #[inline(always)]
    fn part(&self, member: usize) -> Result<Dense<'a>> {
        Ok(Dense { at: self.at.at(member * self.bytes), bytes: self.bytes })
    }
}
