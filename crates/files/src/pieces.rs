//! Which bytes of a window are a rank's: a list of groups of equal pieces at equal distances, so
//! that the pieces of a vector or an array take a few words, whatever their number.
//!
//! A list travels in a message of one length, [`HEADER`]; what it does not hold follows in a second
//! one.

use std::ops::Range;

use mica_memory::{Block, OutOfMemory, Region, Shape, TypeLayout, TypeLayoutError, View};

use crate::view::FileView;

/// Bytes of the first message: small enough to be sent at once.
pub const HEADER: usize = 16 + HEADER_GROUPS * PieceGroup::BYTES;
/// Groups in the first message.
const HEADER_GROUPS: usize = 15;

/// Pieces of one length at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceGroup {
    /// Where the first begins in the window.
    pub offset: u32,
    /// Bytes of each.
    pub len: u32,
    /// From the beginning of one to that of the next.
    pub stride: u32,
    /// How many.
    pub count: u32,
}

impl PieceGroup {
    const BYTES: usize = 16;

    fn to_bytes(self) -> [u8; PieceGroup::BYTES] {
        let words = [self.offset, self.len, self.stride, self.count].map(u32::to_ne_bytes);
        let mut bytes = [0; PieceGroup::BYTES];
        bytes.copy_from_slice(words.as_flattened());
        bytes
    }

    fn from_bytes(bytes: &[u8; PieceGroup::BYTES]) -> PieceGroup {
        let (words, _) = bytes.as_chunks();
        let word = |at: usize| u32::from_ne_bytes(words[at]);
        PieceGroup { offset: word(0), len: word(1), stride: word(2), count: word(3) }
    }

    /// Its pieces: offset and length.
    pub fn pieces(self) -> impl Iterator<Item = (u64, u64)> {
        let PieceGroup { offset, len, stride, count } = self;
        (0..u64::from(count)).map(move |i| (u64::from(offset) + i * u64::from(stride), len.into()))
    }
}

/// The pieces of one rank in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PieceList {
    /// Groups, in the order of the file.
    pub groups: Vec<PieceGroup>,
    /// Bytes of all pieces.
    pub bytes: u64,
}

impl PieceList {
    /// Those of a stretch of an ascending view's stream, which lies in the window.
    pub fn of(view: &FileView, stream: Range<u64>, window: &Range<u64>) -> PieceList {
        let mut list = PieceList { bytes: stream.end - stream.start, groups: Vec::new() };
        for group in view.groups(stream) {
            let (offset, len) = (group.first.offset - window.start, group.first.len as u32);
            list.push(PieceGroup {
                offset: offset as u32,
                len,
                stride: group.stride as u32,
                count: group.count as u32,
            });
        }
        list
    }

    /// Adds a group behind the others; it becomes part of the last one, if it continues that.
    fn push(&mut self, group: PieceGroup) {
        match self.groups.last_mut() {
            Some(last) if last.len == group.len => {
                let distance = group.offset - (last.offset + (last.count - 1) * last.stride);
                let continues = last.count == 1 || last.stride == distance;
                if continues && (group.count == 1 || group.stride == distance) {
                    (last.stride, last.count) = (distance, last.count + group.count);
                    return;
                }
                self.groups.push(group);
            }
            _ => self.groups.push(group),
        }
    }

    /// The message that begins it, and the one that ends it, if there is one.
    pub fn messages(&self) -> Result<(View, Option<View>), OutOfMemory> {
        let head = Block::allocate(HEADER)?;
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&(self.groups.len() as u64).to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_ne_bytes());
        let first = self.groups.len().min(HEADER_GROUPS);
        for (group, place) in self.groups.iter().zip(bytes[16..].as_chunks_mut().0) {
            *place = group.to_bytes();
        }
        head.write_bytes(&bytes);
        let head = head.view(Shape::Contiguous { bytes: HEADER });
        if first == self.groups.len() {
            return Ok((head, None));
        }
        let (region, view) = rest(self.groups.len() - first)?;
        let rest: Vec<u8> = self.groups[first..].iter().flat_map(|g| g.to_bytes()).collect();
        region.write_bytes(&rest);
        Ok((head, Some(view)))
    }
}

/// Memory for `groups` groups, as a message.
fn rest(groups: usize) -> Result<(Region, View), OutOfMemory> {
    let bytes = groups * PieceGroup::BYTES;
    let region = Block::allocate(bytes)?;
    let view = region.clone().view(Shape::Contiguous { bytes });
    Ok((region, view))
}

/// A list that is being received.
#[derive(Debug)]
pub struct ReceivedList {
    head: Region,
    rest: Option<(Region, usize)>,
}

impl ReceivedList {
    /// One that has not arrived, and where its beginning goes: to [`HEADER`] bytes. Until then it
    /// is empty.
    pub fn in_memory(head: Region) -> (ReceivedList, View) {
        mica_memory::fill(&head, 0, HEADER);
        let view = head.clone().view(Shape::Contiguous { bytes: HEADER });
        (ReceivedList { head, rest: None }, view)
    }

    fn words(&self) -> (usize, u64) {
        let mut words = [0; 16];
        self.head.read_bytes(&mut words);
        let (words, _) = words.as_chunks();
        (u64::from_ne_bytes(words[0]) as usize, u64::from_ne_bytes(words[1]))
    }

    /// Where its end goes, if there is one, when its beginning has arrived.
    pub fn expect_rest(&mut self) -> Result<Option<View>, OutOfMemory> {
        let Some(groups) = self.words().0.checked_sub(HEADER_GROUPS).filter(|&n| n > 0) else {
            return Ok(None);
        };
        let (region, view) = rest(groups)?;
        self.rest = Some((region, groups));
        Ok(Some(view))
    }

    /// The list, when all of it has arrived; one piece of as many bytes, where there was no memory
    /// for its end.
    pub fn list(&self) -> PieceList {
        let (groups, bytes) = self.words();
        if groups > HEADER_GROUPS && self.rest.is_none() {
            let whole = PieceGroup { offset: 0, len: bytes as u32, stride: 0, count: 1 };
            return PieceList { groups: vec![whole], bytes };
        }
        let mut head = [0; HEADER];
        self.head.read_bytes(&mut head);
        let first = head[16..].as_chunks().0.iter().take(groups.min(HEADER_GROUPS));
        let mut list = PieceList { groups: first.map(PieceGroup::from_bytes).collect(), bytes };
        if let Some((region, groups)) = &self.rest {
            list.groups.extend((0..*groups).map(|number| {
                let mut group = [0; PieceGroup::BYTES];
                region.offset((number * PieceGroup::BYTES) as isize).read_bytes(&mut group);
                PieceGroup::from_bytes(&group)
            }));
        }
        list
    }
}

/// The bytes of a list in a window's memory, as a message.
///
/// # Errors
/// When there is no memory for its description.
pub fn in_window(list: &PieceList, window: &Region) -> Result<View, TypeLayoutError> {
    let byte = TypeLayout::basic(1, 1)?;
    let layouts: Vec<TypeLayout> = list
        .groups
        .iter()
        .map(|group| byte.hvector(group.count.into(), group.len.into(), group.stride.into()))
        .collect::<Result<_, _>>()?;
    let placed = list.groups.iter().zip(&layouts);
    let whole = TypeLayout::structure(placed.map(|(g, layout)| (1, g.offset.into(), layout)))?;
    Ok(window.clone().view(Shape::of(&std::sync::Arc::new(whole), 1)?))
}

/// The bytes of all lists as intervals of the window, in order, overlaps and adjacent ones merged.
pub fn covered(lists: &[PieceList]) -> Vec<Range<u64>> {
    let mut pieces: Vec<(u64, u64)> =
        lists.iter().flat_map(|list| &list.groups).flat_map(|group| group.pieces()).collect();
    // Stable: each rank's pieces are in order already, and are merged.
    pieces.sort();
    let mut covered: Vec<Range<u64>> = Vec::new();
    for (offset, len) in pieces {
        match covered.last_mut() {
            Some(last) if offset <= last.end => last.end = last.end.max(offset + len),
            _ => covered.push(offset..offset + len),
        }
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::representation::Representation;
    use mica_objects::constants as c;
    use mica_objects::datatype::Datatype;

    fn view(filetype: &Datatype) -> FileView {
        let byte = Datatype::resolve(c::BYTE).unwrap();
        filetype.commit();
        FileView::new(0, &byte, filetype, Representation::Native).unwrap()
    }

    #[test]
    fn regular_pieces_are_one_group() {
        let byte = Datatype::resolve(c::BYTE).unwrap();
        let vector = Datatype::vector(1000, 3, 7, &byte).unwrap();
        let list = PieceList::of(&view(&vector), 0..3000, &(0..8192));
        assert_eq!(list.groups, [PieceGroup { offset: 0, len: 3, stride: 7, count: 1000 }]);
        // Single blocks at equal distances are found out.
        let places: Vec<i64> = (0..1000).map(|i| 7 * i).collect();
        let indexed = Datatype::indexed_block(3, &places, &byte).unwrap();
        assert_eq!(PieceList::of(&view(&indexed), 0..3000, &(0..8192)), list);
        assert_eq!(list.bytes, 3000);
        assert_eq!(covered(&[list]).len(), 1000);
    }

    #[test]
    fn long_lists_travel_in_two_messages() {
        let byte = Datatype::resolve(c::BYTE).unwrap();
        for pieces in [0, 1, 15, 16, 100] {
            let lengths: Vec<i64> = (0..pieces).map(|i| 1 + i % 3).collect();
            let places: Vec<i64> = (0..pieces).map(|i| i * i + 4 * i).collect();
            let irregular = Datatype::indexed(&lengths, &places, &byte).unwrap();
            let bytes = irregular.size() as u64;
            let list = match bytes {
                0 => PieceList::default(),
                _ => PieceList::of(&view(&irregular), 0..bytes, &(0..1 << 20)),
            };
            let (head, rest) = list.messages().unwrap();
            let (mut received, place) = ReceivedList::in_memory(Block::allocate(HEADER).unwrap());
            place.copy_from(&head);
            let rest_place = received.expect_rest().unwrap();
            assert_eq!(rest.is_some(), rest_place.is_some());
            if let (Some(rest), Some(place)) = (rest, rest_place) {
                place.copy_from(&rest);
            }
            assert_eq!(received.list(), list, "{pieces} pieces");
            let window = Block::allocate(1 << 20).unwrap();
            assert_eq!(in_window(&list, &window).unwrap().len() as u64, bytes);
        }
    }

    #[test]
    fn intervals_are_merged_across_ranks() {
        let group = |offset, len, stride, count| PieceList {
            groups: vec![PieceGroup { offset, len, stride, count }],
            bytes: u64::from(len * count),
        };
        let lists = [group(0, 4, 8, 4), group(4, 4, 8, 4), group(40, 2, 2, 1), group(41, 4, 4, 1)];
        assert_eq!(covered(&lists), [0..32, 40..45]);
    }
}
