//! Where the parts of a buffer lie, for others who copy from or to them.

use mica_channel::memory::{Block, Region, View};

use super::offers::Offer;
use super::team::Turn;
use crate::error::Result;

/// A stretch of memory that holds the parts of a buffer, each in one piece.
#[derive(Debug)]
pub struct Span {
    /// Its first byte and its length; `None` where the parts do not make up one stretch without gaps.
    place: Option<(usize, usize)>,
    /// Where each part begins, from the first byte on.
    starts: Vec<u64>,
    /// What the parts were packed to.
    staged: Option<Region>,
}

impl Span {
    /// Bytes that [`tell`](Self::tell) writes.
    pub const TOLD: usize = size_of::<u64>();

    /// The span of `parts`. Where they are not in one piece each, or do not lie side by side, they are packed if that is `allowed`: so
    /// others may read, but not write them. (What lies in gaps is not this operation's: another thread may use it.)
    ///
    /// # Errors
    /// When memory for packing cannot be had.
    pub fn of(parts: &[View], allowed: bool) -> Result<Span> {
        let total: usize = parts.iter().map(View::len).sum();
        if let Some(span) = Span::in_place(parts, total) {
            return Ok(span);
        }
        if !allowed {
            return Ok(Span {
                place: None,
                starts: Vec::new(),
                staged: None,
            });
        }
        let staged = Block::allocate(total)?;
        let mut starts = Vec::with_capacity(parts.len());
        let mut at = 0;
        for part in parts {
            part.pack_to(0, &staged.offset(at as isize), part.len());
            starts.push(at as u64);
            at += part.len();
        }
        Ok(Span {
            place: Some((staged.address(), total)),
            starts,
            staged: Some(staged),
        })
    }

    fn in_place(parts: &[View], total: usize) -> Option<Span> {
        let places: Vec<(usize, usize)> = parts
            .iter()
            .map(|part| match part.is_empty() {
                true => Some((usize::MAX, 0)),
                false => part.as_contiguous(),
            })
            .collect::<Option<_>>()?;
        let first = places.iter().map(|&(at, _)| at).min()?;
        let last = places
            .iter()
            .filter(|&&(_, bytes)| bytes > 0)
            .map(|&(at, bytes)| at + bytes)
            .max();
        let Some(last) = last else {
            return Some(Span {
                place: Some((0, 0)),
                starts: vec![0; parts.len()],
                staged: None,
            });
        };
        // Parts that overlap could hide a gap: parts that are read may.
        let mut in_order = places.clone();
        in_order.sort_unstable();
        let mut end = first;
        for &(at, bytes) in in_order.iter().filter(|&&(_, bytes)| bytes > 0) {
            if at > end {
                return None;
            }
            end = end.max(at + bytes);
        }
        debug_assert!(end == last && total >= last - first);
        let start = |&(at, bytes): &(usize, usize)| if bytes == 0 { 0 } else { at - first };
        Some(Span {
            place: Some((first, last - first)),
            starts: places.iter().map(|place| start(place) as u64).collect(),
            staged: None,
        })
    }

    /// Its length; 0 if there is none.
    pub fn bytes(&self) -> usize {
        self.place.map_or(0, |(_, bytes)| bytes)
    }

    /// Offers it to others, for as long as the offer and the span live.
    pub fn offer(&self, turn: &Turn<'_>, by_address: bool) -> Offer {
        debug_assert!(self.staged.is_none() || self.place.is_some());
        match self.place {
            None => Offer::NONE,
            Some((_, 0)) => Offer::EMPTY,
            Some((address, bytes)) => Offer::of(turn, address, bytes, by_address),
        }
    }

    /// Writes where the part of `member` begins to `to`.
    pub fn tell(&self, member: usize, to: &Region) {
        let start = self.starts.get(member).copied().unwrap_or(0);
        to.write_bytes(&start.to_ne_bytes());
    }

    /// What was told.
    pub fn told(from: &Region) -> usize {
        let mut bytes = [0; Span::TOLD];
        from.read_bytes(&mut bytes);
        u64::from_ne_bytes(bytes) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_channel::memory::Shape;

    fn parts(region: &Region, places: &[(usize, usize)]) -> Vec<View> {
        places
            .iter()
            .map(|&(at, bytes)| region.offset(at as isize).view(Shape::Contiguous { bytes }))
            .collect()
    }

    #[test]
    fn parts_side_by_side_are_one_stretch() {
        let region = Block::allocate(100).unwrap();
        let span = Span::of(
            &parts(&region, &[(30, 10), (10, 20), (50, 0), (40, 5)]),
            false,
        )
        .unwrap();
        assert_eq!(span.place, Some((region.address() + 10, 35)));
        assert_eq!(span.starts, [20, 0, 0, 30]);
        assert!(span.staged.is_none());
    }

    #[test]
    fn parts_with_gaps_are_packed_or_refused() {
        let region = Block::allocate(100).unwrap();
        region.write_bytes(&(0..100).collect::<Vec<u8>>());
        let gaps = parts(&region, &[(60, 2), (10, 3)]);
        assert_eq!(Span::of(&gaps, false).unwrap().place, None);
        let span = Span::of(&gaps, true).unwrap();
        assert_eq!(span.starts, [0, 2]);
        let mut bytes = [0; 5];
        span.staged.unwrap().read_bytes(&mut bytes);
        assert_eq!(bytes, [60, 61, 10, 11, 12]);
    }

    #[test]
    fn parts_that_overlap_cover_what_they_cover() {
        let region = Block::allocate(100).unwrap();
        let span = Span::of(&parts(&region, &[(0, 10), (5, 10), (5, 2)]), false).unwrap();
        assert_eq!(span.bytes(), 15);
        let span = Span::of(&parts(&region, &[(0, 10), (5, 2), (11, 2)]), false).unwrap();
        assert_eq!(span.place, None);
        assert_eq!(Span::of(&[], false).unwrap().bytes(), 0);
    }

    #[test]
    fn what_is_told_is_heard() {
        let region = Block::allocate(100).unwrap();
        let span = Span::of(&parts(&region, &[(8, 8), (0, 8)]), false).unwrap();
        let (a, b) = (Block::allocate(8).unwrap(), Block::allocate(8).unwrap());
        span.tell(0, &a);
        span.tell(1, &b);
        assert_eq!((Span::told(&a), Span::told(&b)), (8, 0));
    }
}
