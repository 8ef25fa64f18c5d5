//! How a partitioned message is divided: its buffer on each side, and what the sender announces.

use std::ops::Range;

use mica_memory::{Region, Shape, View};

use super::marks::PartitionMarks;
use crate::constants as c;
use crate::datatype::{self, Datatype};
use crate::error::{Error, Result};

/// A buffer of partitions, one after another.
#[derive(Debug)]
pub(super) struct Partitions {
    pub number: usize,
    /// All partitions.
    pub whole: View,
    /// One partition: its shape, its length in bytes, and the distance between two in memory.
    shape: Shape,
    pub each: usize,
    stride: isize,
}

impl Partitions {
    pub fn new(region: Region, number: i32, count: i64, datatype: u32) -> Result<Partitions> {
        let Ok(partitions) = usize::try_from(number) else {
            let reason = "a number of partitions is not negative";
            return Err(Error::argument(c::ERR_ARG, "partitions", number, reason));
        };
        let one = datatype::shape_of(datatype, region.address(), count)?;
        let too_much = || {
            let reason = format!("{number} partitions of {count} elements are too much");
            Error::argument(c::ERR_COUNT, "count", count, reason)
        };
        let total = count.checked_mul(number.into()).ok_or_else(too_much)?;
        let extent = Datatype::resolve(datatype)?.extent();
        let stride = extent.checked_mul(count).ok_or_else(too_much)?;
        Ok(Partitions {
            number: partitions,
            whole: {
                let shape = datatype::shape_of(datatype, region.address(), total)?;
                region.view(shape)
            },
            each: one.len(),
            shape: one,
            stride: stride as isize,
        })
    }

    pub fn view(&self, partition: usize) -> View {
        let offset = self.stride * partition as isize;
        self.whole.region().offset(offset).view(self.shape.clone())
    }

    /// The memory of the `bytes` bytes from `position` on, if it has a shape.
    pub fn stretch(&self, position: usize, bytes: usize) -> Option<View> {
        if position.checked_add(bytes)? > self.whole.len() {
            return None;
        }
        if let Some((address, _)) = self.whole.as_contiguous() {
            let region = self.whole.region();
            let first = address.wrapping_sub(region.address()) as isize;
            let place = region.offset(first + position as isize);
            return Some(place.view(Shape::Contiguous { bytes }));
        }
        let aligned = bytes > 0 && bytes == self.each && position.is_multiple_of(bytes);
        aligned.then(|| self.view(position / bytes))
    }

    /// Copies bytes that came elsewhere to where they belong.
    pub fn unpack(&self, position: usize, copy: &View) {
        let mut bytes = vec![0; copy.len()];
        copy.pack(0, &mut bytes);
        self.whole.unpack(position, &bytes);
    }

    /// Checks an argument that names a partition.
    pub fn check(&self, partition: i32, argument: &'static str) -> Result<usize> {
        let valid = usize::try_from(partition).ok().filter(|&p| p < self.number);
        valid.ok_or_else(|| {
            let reason = format!("the request has {} partitions", self.number);
            Error::argument(c::ERR_ARG, argument, partition, reason)
        })
    }
}

/// The messages that a sender's partitions travel in.
#[derive(Debug)]
pub(super) struct Messages {
    /// Partitions in each of them but the last, which may have fewer: a power of two.
    pub together: usize,
    pub number: usize,
    /// The shape of a message, and of the last one.
    shape: Shape,
    last: Shape,
    /// Distance in memory between two of them.
    stride: isize,
}

impl Messages {
    /// The messages of `buffer`, whose partitions are `count` elements of `datatype`. At most
    /// `together_max` bytes are in one that has more than one partition.
    pub fn new(
        buffer: &Partitions,
        count: i64,
        datatype: u32,
        together_max: usize,
    ) -> Result<Messages> {
        // Partitions of no bytes are not told from messages that have gone in pieces.
        let fit = together_max.checked_div(buffer.each).unwrap_or(1);
        let together = 1 << fit.clamp(1, PartitionMarks::MOST).ilog2();
        let number = buffer.number.div_ceil(together);
        let address = buffer.whole.region().address();
        // No more elements than the whole buffer has.
        let shape = |partitions: usize| {
            datatype::shape_of(datatype, address, count * partitions.min(buffer.number) as i64)
        };
        let in_last = buffer.number - number.saturating_sub(1) * together;
        Ok(Messages {
            together,
            number,
            shape: shape(together)?,
            last: shape(in_last)?,
            stride: buffer.stride * together as isize,
        })
    }

    /// The partitions of message `index`, from the first up to the end.
    pub fn partitions_of(&self, buffer: &Partitions, index: usize) -> (usize, usize) {
        let first = index * self.together;
        (first, (first + self.together).min(buffer.number))
    }

    /// Message `index` of the partitions in `buffer`.
    pub fn view(&self, buffer: &Partitions, index: usize) -> View {
        let shape = if index + 1 == self.number { &self.last } else { &self.shape };
        buffer.whole.region().offset(self.stride * index as isize).view(shape.clone())
    }
}

/// What the sender announces to the receiver of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChannelAnnouncement {
    pub context: u64,
    pub partitions: u64,
    /// Bytes of a partition.
    pub each: u64,
    /// Partitions in each message but the last, which may have fewer.
    pub together: u64,
}

impl ChannelAnnouncement {
    /// Of `MPI_PROC_NULL`, which sends nothing.
    pub const NOTHING: ChannelAnnouncement =
        ChannelAnnouncement { context: 0, partitions: 0, each: 0, together: 1 };

    pub fn bytes(&self) -> u64 {
        self.partitions * self.each
    }

    pub fn messages(&self) -> usize {
        self.partitions.div_ceil(self.together) as usize
    }

    /// Where the bytes of message `index` begin, and how many they are.
    pub fn bytes_of(&self, index: usize) -> (usize, usize) {
        let ((first, end), each) = (self.partitions_of(index), self.each as usize);
        (first * each, (end - first) * each)
    }

    /// The tag of a partition that travels by itself, ahead of its message: messages have tags from
    /// 0 on.
    pub fn piece_tag(partition: usize) -> i32 {
        !(partition as i32)
    }

    /// The sender's partitions that one of the receiver's `of` partitions shares bytes with.
    pub fn under(&self, partition: usize, of: usize) -> Range<usize> {
        let sent = self.partitions as usize;
        partition * sent / of..((partition + 1) * sent).div_ceil(of)
    }

    /// The sender's partitions in message `index`, from the first up to the end.
    pub fn partitions_of(&self, index: usize) -> (usize, usize) {
        let first = index as u64 * self.together;
        (first as usize, (first + self.together).min(self.partitions) as usize)
    }
}

/// A message about channels, from a sender to a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelMessage {
    /// There is a channel.
    Announced(ChannelAnnouncement),
    /// The request of a channel that was announced was freed before it was started.
    Withdrawn { context: u64 },
}

impl ChannelMessage {
    pub const BYTES: usize = 32;

    /// In place of the number of partitions, of which there are fewer.
    const WITHDRAWN: u64 = u64::MAX;

    pub fn to_bytes(self) -> [u8; ChannelMessage::BYTES] {
        let words = match self {
            ChannelMessage::Announced(a) => [a.context, a.partitions, a.each, a.together],
            ChannelMessage::Withdrawn { context } => [context, ChannelMessage::WITHDRAWN, 0, 0],
        };
        let mut bytes = [0; ChannelMessage::BYTES];
        let (places, _) = bytes.as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8; ChannelMessage::BYTES]) -> ChannelMessage {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_ne_bytes(words[i]);
        let (context, partitions, each, together) = (word(0), word(1), word(2), word(3));
        match partitions {
            ChannelMessage::WITHDRAWN => ChannelMessage::Withdrawn { context },
            _ => {
                let announcement = ChannelAnnouncement { context, partitions, each, together };
                ChannelMessage::Announced(announcement)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_travel_as_bytes() {
        let announcement = ChannelAnnouncement {
            context: u64::MAX - 1,
            partitions: 7,
            each: 1 << 40,
            together: 2,
        };
        let withdrawn = ChannelMessage::Withdrawn { context: 9 };
        for message in [ChannelMessage::Announced(announcement), withdrawn] {
            assert_eq!(ChannelMessage::from_bytes(&message.to_bytes()), message);
        }
    }
}
