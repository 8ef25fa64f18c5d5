//! Where the parts of a buffer lie, for other ranks that copy from or to them.

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_memory::{Block, Region, RegionRef, View};

use super::exposed::{
    AddressAccess, BufferAccess, BufferDivision, ExposedBuffer, ExposureChoice, describe_parts,
    division, span_of, words_to_send,
};
use crate::intranode::cells::parts::{Parts, RootBuffer};
use crate::intranode::protocol::slot::OperationSlot;
use mica_objects::error::Result;

/// A stretch of memory that holds the parts of a buffer, each contiguous.
#[derive(Debug)]
pub struct PartsSpan {
    /// Address and length in bytes; `None` if the parts do not make up one stretch without gaps.
    place: Option<(usize, usize)>,
    starts: PartStarts,
    /// The memory that the parts were packed to.
    staged: Option<Region>,
}

/// Where the parts of a span begin, relative to its first byte.
#[derive(Debug, PartialEq, Eq)]
enum PartStarts {
    /// Each part begins this many bytes after the previous one.
    Every(usize),
    /// The start of each part.
    Each(Vec<u64>),
}

impl PartsSpan {
    /// The span of a root's buffer; packed only if `choice` says so, which a buffer to be written
    /// must not be.
    ///
    /// # Errors
    /// As for [`of`](Self::of).
    pub fn of_root(
        buffer: RootBuffer<'_>,
        ranks: usize,
        choice: ExposureChoice,
    ) -> Result<PartsSpan> {
        let whole = match buffer {
            RootBuffer::Whole(view) => view.as_contiguous().map(|place| (place, 0)),
            RootBuffer::Parts(parts) => parts.stretch()?.map(|place| (place, parts.longest())),
        };
        match (whole, buffer) {
            (Some((place, every)), _) => {
                Ok(PartsSpan { place: Some(place), starts: PartStarts::Every(every), staged: None })
            }
            (None, RootBuffer::Whole(view)) => PartsSpan::of(std::slice::from_ref(view), choice),
            (None, RootBuffer::Parts(parts)) => PartsSpan::of(&parts.views(ranks)?, choice),
        }
    }

    /// Bytes that [`tell`](Self::announce) writes.
    pub const ANNOUNCED_BYTES: usize = size_of::<u64>();

    /// The span of `parts`. If they are not contiguous each, or do not lie side by side, they are
    /// packed if `choice` says so: others may then read them, but not write them. (The gaps do not
    /// belong to this operation: another thread may use them.)
    ///
    /// # Errors
    /// When there is no memory for packing.
    pub fn of(parts: &[View], choice: ExposureChoice) -> Result<PartsSpan> {
        let total: usize = parts.iter().map(View::len).sum();
        if let Some(span) = PartsSpan::in_place(parts, total) {
            return Ok(span);
        }
        if choice != ExposureChoice::Packed {
            return Ok(PartsSpan { place: None, starts: PartStarts::Every(0), staged: None });
        }
        let staged = Block::allocate(total)?;
        let mut starts = Vec::with_capacity(parts.len());
        let mut at = 0;
        for part in parts {
            part.pack_to(0, &staged.offset(at as isize), part.len());
            starts.push(at as u64);
            at += part.len();
        }
        Ok(PartsSpan {
            place: Some((staged.address(), total)),
            starts: PartStarts::Each(starts),
            staged: Some(staged),
        })
    }

    fn in_place(parts: &[View], total: usize) -> Option<PartsSpan> {
        let places: Vec<(usize, usize)> = parts
            .iter()
            .map(|part| match part.is_empty() {
                true => Some((usize::MAX, 0)),
                false => part.as_contiguous(),
            })
            .collect::<Option<_>>()?;
        let first = places.iter().map(|&(at, _)| at).min()?;
        let last =
            places.iter().filter(|&&(_, bytes)| bytes > 0).map(|&(at, bytes)| at + bytes).max();
        let Some(last) = last else {
            return Some(PartsSpan {
                place: Some((0, 0)),
                starts: PartStarts::Every(0),
                staged: None,
            });
        };
        // The parts may overlap (allowed for reading), so the lengths alone would not reveal a gap.
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
        Some(PartsSpan {
            place: Some((first, last - first)),
            starts: PartStarts::Each(places.iter().map(|place| start(place) as u64).collect()),
            staged: None,
        })
    }

    /// Its length in bytes; 0 if there is no such stretch.
    pub fn bytes(&self) -> usize {
        self.place.map_or(0, |(_, bytes)| bytes)
    }

    /// Offers it to others, for as long as the offer and the span live.
    pub fn offer(&self, slot: &OperationSlot<'_>, by_address: AddressAccess) -> ExposedBuffer {
        debug_assert!(self.staged.is_none() || self.place.is_some());
        match self.place {
            None => ExposedBuffer::NONE,
            Some((_, 0)) => ExposedBuffer::EMPTY,
            Some(place) if self.staged.is_some() => {
                ExposedBuffer::of_staged(slot, place, by_address)
            }
            Some((address, bytes)) => ExposedBuffer::of(slot, address, bytes, by_address),
        }
    }

    /// Writes the start of `member`'s part to `to`.
    pub fn announce(&self, member: usize, to: RegionRef<'_>) {
        let start = match &self.starts {
            PartStarts::Every(bytes) => (member * bytes) as u64,
            PartStarts::Each(starts) => starts[member],
        };
        to.write_bytes(&start.to_ne_bytes());
    }

    /// Reads what [`tell`](Self::announce) wrote.
    pub fn announced(from: RegionRef<'_>) -> usize {
        let mut bytes = [0; PartsSpan::ANNOUNCED_BYTES];
        from.read_bytes(&mut bytes);
        u64::from_ne_bytes(bytes) as usize
    }
}

/// The parts of a buffer of which each other rank reads its own part.
#[derive(Debug)]
pub enum ExposedParts {
    /// No rank can access them.
    None,
    /// They lie one after the other in this many bytes, all of equal length.
    Even(ExposedBuffer, usize),
    /// They lie side by side, or were packed to do so.
    Stretch(PartsSpan, ExposedBuffer),
    /// There are gaps, but each part can be accessed by loads; with the lengths in bytes.
    Each(Vec<(ExposedBuffer, usize)>),
}

/// A part that a member has offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExposedPart {
    /// The words that open it, or the stretch that it lies in.
    pub words: [u64; 2],
    /// Its offset in what is opened.
    pub at: usize,
    /// Bytes of what is opened.
    pub bytes: usize,
}

/// Bytes that announce a part with an offer of its own: words and length.
const ANNOUNCED_BYTES_EACH: usize = 3 * size_of::<u64>();

impl ExposedParts {
    /// Offers `parts` as `choice` says, for as long as this lives. To be
    /// [announced](Self::announce).
    ///
    /// # Errors
    /// When there is no memory for packing.
    pub fn of(
        slot: &OperationSlot<'_>,
        parts: &Parts,
        choice: ExposureChoice,
        by_address: AddressAccess,
    ) -> Result<ExposedParts> {
        if choice == ExposureChoice::Nothing && parts.total() > 0 {
            return Ok(ExposedParts::None);
        }
        if let Some((address, bytes)) = parts.stretch()? {
            let offer = match bytes {
                0 => ExposedBuffer::EMPTY,
                _ => ExposedBuffer::of(slot, address, bytes, by_address),
            };
            return Ok(ExposedParts::Even(offer, bytes));
        }
        if slot.size() * PartsSpan::ANNOUNCED_BYTES > slot.group().cell_bytes() {
            return Ok(ExposedParts::None);
        }
        let views = parts.views(slot.size())?;
        let span = match PartsSpan::in_place(&views, parts.total()) {
            Some(span) => span,
            None => match ExposedParts::each(slot, &views) {
                Some(each) => return Ok(each),
                None if choice == ExposureChoice::Packed => PartsSpan::of(&views, choice)?,
                None => return Ok(ExposedParts::None),
            },
        };
        let offer = span.offer(slot, by_address);
        Ok(ExposedParts::Stretch(span, offer))
    }

    /// Offers each part by itself; `None` if one cannot be accessed by loads.
    fn each(slot: &OperationSlot<'_>, parts: &[View]) -> Option<ExposedParts> {
        if parts.len() * ANNOUNCED_BYTES_EACH > slot.group().cell_bytes() {
            return None;
        }
        let offer = |part: &View| match part.as_contiguous() {
            _ if part.is_empty() => Some((ExposedBuffer::EMPTY, 0)),
            Some((address, bytes)) => {
                Some((ExposedBuffer::of(slot, address, bytes, AddressAccess::Refused), bytes))
            }
            None => None,
        };
        let offers: Vec<_> = parts.iter().map(offer).collect::<Option<_>>()?;
        let are_windows = offers.iter().all(|(o, _)| o.access() == BufferAccess::Window);
        are_windows.then_some(ExposedParts::Each(offers))
    }

    /// Puts the descriptions where the others read them; the next stamp publishes them.
    pub fn announce(&self, slot: &OperationSlot<'_>) {
        let others = || crate::intranode::cells::after(slot.group());
        match self {
            ExposedParts::None => {
                describe_parts(slot, BufferDivision::Announced, &ExposedBuffer::NONE, 0)
            }
            ExposedParts::Even(offer, bytes) => {
                describe_parts(slot, BufferDivision::Even, offer, *bytes);
            }
            ExposedParts::Stretch(span, offer) => {
                describe_parts(slot, BufferDivision::Announced, offer, span.bytes());
                others().for_each(|member| {
                    span.announce(
                        member,
                        place(slot, slot.me(), member, PartsSpan::ANNOUNCED_BYTES),
                    );
                });
            }
            ExposedParts::Each(offers) => {
                // All are windows.
                describe_parts(slot, BufferDivision::Each, &ExposedBuffer::EMPTY, 0);
                others().for_each(|member| {
                    let (offer, bytes) = &offers[member];
                    let [a, b] = offer.words();
                    let words = [a, b, *bytes as u64].map(u64::to_ne_bytes);
                    place(slot, slot.me(), member, ANNOUNCED_BYTES_EACH)
                        .write_bytes(words.as_flattened());
                });
            }
        }
    }
}

impl ExposedPart {
    /// This rank's part among those that `member` has announced.
    pub fn of(slot: &OperationSlot<'_>, member: usize) -> ExposedPart {
        let stretch = |at: usize| ExposedPart {
            words: words_to_send(slot, member),
            at,
            bytes: span_of(slot, member),
        };
        match division(slot, member) {
            BufferDivision::Announced => {
                return stretch(PartsSpan::announced(place(
                    slot,
                    member,
                    slot.me(),
                    PartsSpan::ANNOUNCED_BYTES,
                )));
            }
            BufferDivision::Even => {
                return stretch(span_of(slot, member) / slot.size() * slot.me());
            }
            BufferDivision::Each => {}
        }
        let mut announced = [0; ANNOUNCED_BYTES_EACH];
        place(slot, member, slot.me(), ANNOUNCED_BYTES_EACH).read_bytes(&mut announced);
        let (words, _) = announced.as_chunks();
        let word = |i: usize| u64::from_ne_bytes(words[i]);
        ExposedPart { words: [word(0), word(1)], at: 0, bytes: word(2) as usize }
    }
}

/// Where `teller` puts `bytes` bytes for `member`.
fn place<'a>(
    slot: &'a OperationSlot<'_>,
    teller: usize,
    member: usize,
    bytes: usize,
) -> RegionRef<'a> {
    slot.half(teller, 0).at(member * bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_memory::Shape;

    fn parts(region: &Region, places: &[(usize, usize)]) -> Vec<View> {
        places
            .iter()
            .map(|&(at, bytes)| region.offset(at as isize).view(Shape::Contiguous { bytes }))
            .collect()
    }

    #[test]
    fn parts_side_by_side_are_one_stretch() {
        let region = Block::allocate(100).unwrap();
        let span = PartsSpan::of(
            &parts(&region, &[(30, 10), (10, 20), (50, 0), (40, 5)]),
            ExposureChoice::InPlace,
        )
        .unwrap();
        assert_eq!(span.place, Some((region.address() + 10, 35)));
        assert_eq!(span.starts, PartStarts::Each(vec![20, 0, 0, 30]));
        assert!(span.staged.is_none());
    }

    #[test]
    fn parts_with_gaps_are_packed_or_refused() {
        let region = Block::allocate(100).unwrap();
        region.write_bytes(&(0..100).collect::<Vec<u8>>());
        let gaps = parts(&region, &[(60, 2), (10, 3)]);
        assert_eq!(PartsSpan::of(&gaps, ExposureChoice::InPlace).unwrap().place, None);
        let span = PartsSpan::of(&gaps, ExposureChoice::Packed).unwrap();
        assert_eq!(span.starts, PartStarts::Each(vec![0, 2]));
        let mut bytes = [0; 5];
        span.staged.unwrap().read_bytes(&mut bytes);
        assert_eq!(bytes, [60, 61, 10, 11, 12]);
    }

    #[test]
    fn parts_that_overlap_cover_what_they_cover() {
        let region = Block::allocate(100).unwrap();
        let span =
            PartsSpan::of(&parts(&region, &[(0, 10), (5, 10), (5, 2)]), ExposureChoice::InPlace)
                .unwrap();
        assert_eq!(span.bytes(), 15);
        let span =
            PartsSpan::of(&parts(&region, &[(0, 10), (5, 2), (11, 2)]), ExposureChoice::InPlace)
                .unwrap();
        assert_eq!(span.place, None);
        assert_eq!(PartsSpan::of(&[], ExposureChoice::InPlace).unwrap().bytes(), 0);
    }

    #[test]
    fn what_is_told_is_heard() {
        let region = Block::allocate(100).unwrap();
        let span =
            PartsSpan::of(&parts(&region, &[(8, 8), (0, 8)]), ExposureChoice::InPlace).unwrap();
        let (a, b) = (Block::allocate(8).unwrap(), Block::allocate(8).unwrap());
        span.announce(0, a.at(0));
        span.announce(1, b.at(0));
        assert_eq!((PartsSpan::announced(a.at(0)), PartsSpan::announced(b.at(0))), (8, 0));
    }
}
