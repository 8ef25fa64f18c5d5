//! A file as a process sees it (MPI 5.0, 14.3): the bytes that its filetype, tiled from the
//! displacement on, shows of the file, in order. This is the *stream* of the view; positions in it
//! count bytes as the file has them.
//!
//! Nothing is flattened: the filetype's [`TypeLayout`] maps a position to a place in the file by
//! arithmetic, so that a view costs what the description of its filetype does, however many blocks
//! that has. Where the layout is ascending, as the standard wants it, the map can be inverted by
//! binary search ([`FileView::position_before`]).

use std::ops::Range;
use std::sync::Arc;

use mica_memory::TypeLayout;
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::error::{Error, Result};

use crate::representation::Representation;

/// A view of a file.
#[derive(Clone, Debug)]
pub struct FileView {
    displacement: u64,
    etype: Datatype,
    filetype: Datatype,
    representation: Representation,
    /// Bytes of an etype in the file.
    etype_bytes: u64,
    /// The filetype in the file.
    layout: Arc<TypeLayout>,
    /// Whether the stream goes through the file from the first byte to the last.
    is_ascending: bool,
}

/// Consecutive bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRun {
    /// Where they begin in the file.
    pub offset: u64,
    /// How many.
    pub len: u64,
    /// The position of the first in the stream.
    pub position: u64,
}

impl FileRun {
    /// One past the last byte in the file.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

impl FileView {
    /// The view of a file that has just been opened: all of its bytes.
    pub fn of_bytes() -> FileView {
        let byte = Datatype::predefined(c::BYTE).expect("MPI_BYTE is a datatype");
        let native = Representation::Native;
        FileView::new(0, &byte, &byte, native).expect("a view of bytes is right")
    }

    /// The view that `MPI_File_set_view` describes.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a negative displacement or one of the filetype's, or an etype of which the
    /// filetype is not made; `MPI_ERR_TYPE` for a datatype that is not committed.
    pub fn new(
        displacement: i64,
        etype: &Datatype,
        filetype: &Datatype,
        representation: Representation,
    ) -> Result<FileView> {
        let displacement = u64::try_from(displacement).map_err(|_| {
            Error::argument(c::ERR_ARG, "disp", displacement, "a displacement is not negative")
        })?;
        for (datatype, argument) in [(etype, "etype"), (filetype, "filetype")] {
            if !datatype.committed() {
                let reason = "this datatype has not been committed; call MPI_Type_commit first";
                return Err(Error::argument(c::ERR_TYPE, argument, datatype.label(), reason));
            }
        }
        let in_file = representation.in_file(filetype)?;
        let etype_bytes = representation.in_file(etype)?.size() as u64;
        let layout = Arc::clone(in_file.layout());
        let refused = |argument, of: &Datatype, reason: String| {
            Err(Error::argument(c::ERR_ARG, argument, of.label(), reason))
        };
        if etype_bytes == 0 {
            return refused("etype", etype, "an etype has bytes".to_owned());
        }
        if layout.size() % etype_bytes != 0 {
            let bytes = layout.size();
            let reason = format!("its {bytes} bytes are no multiple of the etype's {etype_bytes}");
            return refused("filetype", filetype, reason);
        }
        if layout.size() > 0 && (layout.true_lb() < 0 || layout.extent() < 0) {
            let reason = "displacements in a file are not negative".to_owned();
            return refused("filetype", filetype, reason);
        }
        if !layout.never_steps_back() {
            let reason = "displacements in a filetype do not decrease".to_owned();
            return refused("filetype", filetype, reason);
        }
        Ok(FileView {
            displacement,
            etype: etype.clone(),
            filetype: filetype.clone(),
            representation,
            etype_bytes,
            is_ascending: layout.is_ascending(),
            layout,
        })
    }

    /// The displacement in bytes.
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// The unit of access.
    pub fn etype(&self) -> &Datatype {
        &self.etype
    }

    /// What the process sees of the file.
    pub fn filetype(&self) -> &Datatype {
        &self.filetype
    }

    /// How data is represented in the file.
    pub fn representation(&self) -> &Representation {
        &self.representation
    }

    /// Bytes of an etype in the file.
    pub fn etype_bytes(&self) -> u64 {
        self.etype_bytes
    }

    /// Whether the stream goes through the file from the first byte to the last, none twice.
    pub fn is_ascending(&self) -> bool {
        self.is_ascending
    }

    /// Whether the stream is a piece of the file.
    pub fn is_dense(&self) -> bool {
        self.layout.size() > 0 && self.layout.dense_at(2).is_some()
    }

    /// The stretch of the stream that `bytes` bytes from an offset on, in etypes, are.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for a negative offset; `MPI_ERR_IO` for bytes that are no whole etypes, or lie
    /// beyond 2^63.
    pub fn stream(&self, offset: i64, bytes: u64) -> Result<Range<u64>> {
        let start = u64::try_from(offset).map_err(|_| {
            Error::argument(c::ERR_ARG, "offset", offset, "an offset is not negative")
        })?;
        let far = || Error::other(c::ERR_IO, "the access reaches beyond byte 2^63 of the file");
        if !bytes.is_multiple_of(self.etype_bytes) {
            let unit = self.etype_bytes;
            let detail = format!("{bytes} bytes are no whole etypes of {unit} bytes");
            return Err(Error::other(c::ERR_IO, detail));
        }
        let start = start.checked_mul(self.etype_bytes).ok_or_else(far)?;
        let end = start.checked_add(bytes).filter(|&end| end < 1 << 63).ok_or_else(far)?;
        if self.layout.size() == 0 {
            return match bytes {
                0 => Ok(start..end),
                _ => Err(Error::other(c::ERR_IO, "the view's filetype shows no byte of the file")),
            };
        }
        let last = self.layout.displacement_of(end).ok_or_else(far)?;
        let reached = last.checked_add(self.layout.true_ub()).ok_or_else(far)?;
        (self.displacement as i64).checked_add(reached).ok_or_else(far)?;
        Ok(start..end)
    }

    /// Where the byte at a position of the stream lies in the file.
    ///
    /// # Errors
    /// `MPI_ERR_IO` beyond 2^63.
    pub fn offset_of(&self, position: u64) -> Result<u64> {
        let far = || Error::other(c::ERR_IO, "the position lies beyond byte 2^63 of the file");
        if self.layout.size() == 0 {
            return Ok(self.displacement);
        }
        let at = self.layout.displacement_of(position).ok_or_else(far)?;
        self.displacement.checked_add(at as u64).filter(|&at| at < 1 << 63).ok_or_else(far)
    }

    /// Groups of equal runs that a stretch of the stream, which [`stream`](Self::stream) has
    /// returned, lies in, in its order. Their number is that of the loops in the filetype's
    /// description, not that of the runs.
    pub fn groups(&self, stream: Range<u64>) -> FileGroups<'_> {
        FileGroups { view: self, next: stream.start, end: stream.end }
    }

    /// The runs that such a stretch lies in; adjacent ones are merged.
    pub fn runs(&self, stream: Range<u64>) -> FileRuns<'_> {
        FileRuns { groups: self.groups(stream), group: None, next: None }
    }

    /// The part of a stretch of the stream that lies in this range of the file.
    pub fn within(&self, stream: &Range<u64>, range: &Range<u64>) -> Range<u64> {
        let clip = |at: u64| at.clamp(stream.start, stream.end);
        let start = clip(self.position_before(range.start));
        start..clip(self.position_before(range.end)).max(start)
    }

    /// How many bytes of the stream lie before `offset` of the file; of a view that is not
    /// ascending, those of the whole filetypes that begin before it.
    pub fn position_before(&self, offset: u64) -> u64 {
        let (size, extent) = (self.layout.size(), self.layout.extent());
        let first = self.displacement as i64 + self.layout.true_lb();
        let Some(beyond) = offset.checked_sub(first as u64).filter(|_| size > 0) else {
            return 0;
        };
        if extent == 0 {
            return 0;
        }
        // Whole filetypes before the one that begins last before the offset.
        let tile = beyond / extent as u64;
        if !self.is_ascending {
            return (tile + u64::from(!beyond.is_multiple_of(extent as u64))) * size;
        }
        let lies_before = |position: &u64| {
            let at = self.offset_of(tile * size + position);
            at.is_ok_and(|at| at < offset)
        };
        let (mut low, mut high) = (0, size);
        while low < high {
            let middle = low + (high - low) / 2;
            match lies_before(&middle) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        tile * size + low
    }
}

/// Runs of equal length at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileGroup {
    /// The first of them.
    pub first: FileRun,
    /// From the beginning of one to that of the next.
    pub stride: u64,
    /// How many.
    pub count: u64,
}

/// The groups of a stretch of a stream; see [`FileView::groups`].
#[derive(Clone, Debug)]
pub struct FileGroups<'a> {
    view: &'a FileView,
    next: u64,
    end: u64,
}

impl Iterator for FileGroups<'_> {
    type Item = FileGroup;

    fn next(&mut self) -> Option<FileGroup> {
        let left = self.end.checked_sub(self.next).filter(|&left| left > 0)?;
        let group = self.view.layout.group_at(self.next)?;
        let (len, count) = match self.view.is_dense() {
            true => (left, 1),
            false => (group.len.min(left), group.count.min((left / group.len).max(1))),
        };
        let offset = self.view.displacement + group.at as u64;
        let first = FileRun { offset, len, position: self.next };
        self.next += len * count;
        // A step back makes a group of one run; only filetypes that are not ascending have them.
        Some(FileGroup { first, stride: group.stride.max(0) as u64, count })
    }
}

/// The runs of a stretch of a stream; see [`FileView::runs`].
#[derive(Clone, Debug)]
pub struct FileRuns<'a> {
    groups: FileGroups<'a>,
    /// What is left of a group.
    group: Option<FileGroup>,
    /// A run that has been taken from the groups.
    next: Option<FileRun>,
}

impl FileRuns<'_> {
    fn piece(&mut self) -> Option<FileRun> {
        let mut group = self.group.take().or_else(|| self.groups.next())?;
        let run = group.first;
        if group.count > 1 {
            group.first.offset += group.stride;
            group.first.position += run.len;
            group.count -= 1;
            self.group = Some(group);
        }
        Some(run)
    }
}

impl Iterator for FileRuns<'_> {
    type Item = FileRun;

    fn next(&mut self) -> Option<FileRun> {
        let mut run = self.next.take().or_else(|| self.piece())?;
        loop {
            match self.piece() {
                Some(more) if more.offset == run.end() => run.len += more.len,
                more => {
                    self.next = more;
                    return Some(run);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(displacement: i64, filetype: &Datatype) -> FileView {
        let int = Datatype::resolve(c::INT).unwrap();
        filetype.commit();
        FileView::new(displacement, &int, filetype, Representation::Native).unwrap()
    }

    fn int() -> Datatype {
        Datatype::resolve(c::INT).unwrap()
    }

    #[test]
    fn runs_follow_the_filetype_and_adjacent_ones_merge() {
        // 2 of 3 ints, the last next to the following tile's first.
        let filetype = Datatype::indexed(&[1, 1], &[0, 2], &int()).unwrap();
        let view = view(100, &filetype);
        let stream = view.stream(1, 12).unwrap();
        assert_eq!(stream, 4..16);
        let runs: Vec<_> = view.runs(stream).map(|run| (run.offset, run.len)).collect();
        assert_eq!(runs, [(108, 8), (120, 4)]);
        assert_eq!(view.offset_of(8).unwrap(), 112);
    }

    #[test]
    fn positions_are_found_by_offset() {
        let filetype = Datatype::vector(3, 2, 5, &int()).unwrap();
        let view = view(8, &Datatype::resized(&filetype, 0, 64).unwrap());
        let bytes: Vec<u64> = view.runs(0..72).flat_map(|run| run.offset..run.end()).collect();
        for offset in 0..220 {
            let expected = bytes.iter().filter(|&&at| at < offset).count() as u64;
            let found = view.position_before(offset).min(72);
            assert_eq!(found, expected.min(72), "byte {offset}");
        }
    }

    #[test]
    fn a_billion_blocks_cost_nothing() {
        let filetype = Datatype::vector(1_000_000_000, 1, 2, &int()).unwrap();
        let view = view(0, &filetype);
        let last = view.stream(999_999_999, 4).unwrap();
        let runs: Vec<_> = view.runs(last).collect();
        assert_eq!(runs[0].offset, 8 * 999_999_999);
        assert_eq!(view.position_before(8 * 500_000_000), 4 * 500_000_000);
    }

    #[test]
    fn refuses_what_is_no_view() {
        let (int, byte) = (int(), Datatype::resolve(c::BYTE).unwrap());
        let native = || Representation::Native;
        let three = Datatype::contiguous(3, &byte).unwrap();
        three.commit();
        let class = |view: Result<FileView>| view.map(drop).unwrap_err().code();
        assert_eq!(class(FileView::new(-1, &int, &int, native())), c::ERR_ARG);
        assert_eq!(class(FileView::new(0, &int, &three, native())), c::ERR_ARG);
        let backwards = Datatype::hindexed(&[1], &[-4], &int).unwrap();
        assert_eq!(class(FileView::new(0, &int, &backwards, native())), c::ERR_TYPE);
        backwards.commit();
        assert_eq!(class(FileView::new(0, &int, &backwards, native())), c::ERR_ARG);
        let steps_back = Datatype::hindexed(&[1, 1], &[8, 0], &int).unwrap();
        steps_back.commit();
        assert_eq!(class(FileView::new(0, &int, &steps_back, native())), c::ERR_ARG);
        let view = FileView::of_bytes();
        assert_eq!(view.stream(-1, 4).unwrap_err().code(), c::ERR_ARG);
        assert_eq!(view.stream(i64::MAX, 4).unwrap_err().code(), c::ERR_IO);
    }
}
