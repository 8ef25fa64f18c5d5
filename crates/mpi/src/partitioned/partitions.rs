//! How a partitioned message is divided: its buffer on each side, and what the sender announces.

use mica_channel::memory::{Region, Shape, View};

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

    /// Checks an argument that names a partition.
    pub fn check(&self, partition: i32, argument: &'static str) -> Result<usize> {
        let valid = usize::try_from(partition).ok().filter(|&p| p < self.number);
        valid.ok_or_else(|| {
            let reason = format!("the request has {} partitions", self.number);
            Error::argument(c::ERR_ARG, argument, partition, reason)
        })
    }
}

/// What the sender announces to the receiver of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChannelAnnouncement {
    pub context: u64,
    pub partitions: u64,
    /// Bytes of a partition.
    pub each: u64,
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
    pub const BYTES: usize = 24;

    /// In place of the number of partitions, of which there are fewer.
    const WITHDRAWN: u64 = u64::MAX;

    pub fn to_bytes(self) -> [u8; ChannelMessage::BYTES] {
        let (context, partitions, each) = match self {
            ChannelMessage::Announced(ChannelAnnouncement { context, partitions, each }) => {
                (context, partitions, each)
            }
            ChannelMessage::Withdrawn { context } => (context, ChannelMessage::WITHDRAWN, 0),
        };
        let mut bytes = [0; ChannelMessage::BYTES];
        let (words, _) = bytes.as_chunks_mut::<8>();
        words[0] = context.to_ne_bytes();
        words[1] = partitions.to_ne_bytes();
        words[2] = each.to_ne_bytes();
        bytes
    }

    pub fn from_bytes(bytes: &[u8; ChannelMessage::BYTES]) -> ChannelMessage {
        let (words, _) = bytes.as_chunks::<8>();
        let [context, partitions, each] = [0, 1, 2].map(|i| u64::from_ne_bytes(words[i]));
        match partitions {
            ChannelMessage::WITHDRAWN => ChannelMessage::Withdrawn { context },
            _ => ChannelMessage::Announced(ChannelAnnouncement { context, partitions, each }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_travel_as_bytes() {
        let announcement =
            ChannelAnnouncement { context: u64::MAX - 1, partitions: 7, each: 1 << 40 };
        let withdrawn = ChannelMessage::Withdrawn { context: 9 };
        for message in [ChannelMessage::Announced(announcement), withdrawn] {
            assert_eq!(ChannelMessage::from_bytes(&message.to_bytes()), message);
        }
    }
}
