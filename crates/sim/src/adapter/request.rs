//! Commands and events as values, and their bytes in the rings (`mica_node::adapter`).

use std::mem::offset_of;

use mica_node::adapter::{ANY_SOURCE, ANY_TAG, Command, CommandKind, Event, OperationStatus};

/// Bytes of a command that the adapter reads.
pub const REQUEST_BYTES: usize = 64;

/// A command, decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdapterRequest {
    /// What is asked for; `None` for a code that no operation has.
    pub operation: Option<CommandKind>,
    /// Rank of the receiver, or of the sender to receive from, or [`ANY_SOURCE`].
    pub peer: u32,
    /// Context of the communicator.
    pub context: u64,
    /// Tag.
    pub tag: i32,
    /// 0 or [`ANY_TAG`].
    pub flags: u32,
    /// Address of the buffer.
    pub address: u64,
    /// Bytes of the buffer.
    pub length: u64,
    /// The process's name for the operation.
    pub token: u64,
    /// Token of another operation, for `Cancel` and `ReceiveExtracted`.
    pub target: u64,
}

impl AdapterRequest {
    /// Reads a command's bytes.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> AdapterRequest {
        let word = |at: usize| u32::from_le_bytes(part(bytes, at));
        let long = |at: usize| u64::from_le_bytes(part(bytes, at));
        AdapterRequest {
            operation: CommandKind::from_code(word(offset_of!(Command, operation))),
            peer: word(offset_of!(Command, peer)),
            context: long(offset_of!(Command, context)),
            tag: word(offset_of!(Command, tag)).cast_signed(),
            flags: word(offset_of!(Command, flags)),
            address: long(offset_of!(Command, address)),
            length: long(offset_of!(Command, length)),
            token: long(offset_of!(Command, token)),
            target: long(offset_of!(Command, target)),
        }
    }

    /// Which messages it is about, for receives and probes.
    pub(super) fn pattern(&self) -> MessagePattern {
        MessagePattern {
            source: (self.peer != ANY_SOURCE).then_some(self.peer),
            tag: (self.flags & ANY_TAG == 0).then_some(self.tag),
        }
    }
}

/// Which messages of a context match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessagePattern {
    /// The source, or any.
    pub source: Option<u32>,
    /// The tag, or any.
    pub tag: Option<i32>,
}

impl MessagePattern {
    /// Whether a message from `source` with `tag` matches.
    pub fn matches(&self, source: u32, tag: i32) -> bool {
        self.source.is_none_or(|wanted| wanted == source)
            && self.tag.is_none_or(|wanted| wanted == tag)
    }
}

/// The completion of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestCompletion {
    /// The operation's token.
    pub token: u64,
    /// How it has completed.
    pub status: OperationStatus,
    /// Rank of the message's sender.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// Bytes of the message, also if the buffer is shorter.
    pub length: u64,
}

impl RequestCompletion {
    /// Of an operation that moved no message.
    pub(super) fn bare(token: u64, status: OperationStatus) -> RequestCompletion {
        RequestCompletion { token, status, source: 0, tag: 0, length: 0 }
    }

    /// The bytes of the event with this number, from 0.
    pub(super) fn encode(&self, number: u64) -> [u8; size_of::<Event>()] {
        let mut event = [0; size_of::<Event>()];
        let mut put = |at: usize, bytes: &[u8]| event[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(Event, sequence), &(number + 1).to_le_bytes());
        put(offset_of!(Event, token), &self.token.to_le_bytes());
        put(offset_of!(Event, status), &(self.status as u32).to_le_bytes());
        put(offset_of!(Event, source), &self.source.to_le_bytes());
        put(offset_of!(Event, tag), &self.tag.to_le_bytes());
        put(offset_of!(Event, length), &self.length.to_le_bytes());
        event
    }

    /// The number and the completion in an event's bytes; `None` for a place that has none.
    pub fn decode(event: &[u8; size_of::<Event>()]) -> Option<(u64, RequestCompletion)> {
        let word = |at: usize| u32::from_le_bytes(part(event, at));
        let long = |at: usize| u64::from_le_bytes(part(event, at));
        let number = long(offset_of!(Event, sequence)).checked_sub(1)?;
        let completion = RequestCompletion {
            token: long(offset_of!(Event, token)),
            status: OperationStatus::from_code(word(offset_of!(Event, status)))?,
            source: word(offset_of!(Event, source)),
            tag: word(offset_of!(Event, tag)).cast_signed(),
            length: long(offset_of!(Event, length)),
        };
        Some((number, completion))
    }
}

/// `N` bytes from `at` on.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_survive_their_event() {
        let completion = RequestCompletion {
            token: u64::MAX - 1,
            status: OperationStatus::Truncated,
            source: 7,
            tag: -3,
            length: 1 << 40,
        };
        let event = completion.encode(41);
        assert_eq!(RequestCompletion::decode(&event), Some((41, completion)));
        assert_eq!(RequestCompletion::decode(&[0; size_of::<Event>()]), None);
    }

    #[test]
    fn commands_are_read_by_their_layout() {
        let mut bytes = [0; REQUEST_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(offset_of!(Command, operation), &3_u32.to_le_bytes());
        put(offset_of!(Command, peer), &ANY_SOURCE.to_le_bytes());
        put(offset_of!(Command, context), &9_u64.to_le_bytes());
        put(offset_of!(Command, tag), &(-5_i32).to_le_bytes());
        put(offset_of!(Command, address), &0x1234_5678_9abc_u64.to_le_bytes());
        put(offset_of!(Command, length), &77_u64.to_le_bytes());
        put(offset_of!(Command, token), &11_u64.to_le_bytes());
        put(offset_of!(Command, target), &12_u64.to_le_bytes());
        let request = AdapterRequest::decode(&bytes);
        let wanted = AdapterRequest {
            operation: Some(CommandKind::Receive),
            peer: ANY_SOURCE,
            context: 9,
            tag: -5,
            flags: 0,
            address: 0x1234_5678_9abc,
            length: 77,
            token: 11,
            target: 12,
        };
        assert_eq!(request, wanted);
        let (source, tag) = (None, Some(-5));
        assert_eq!(request.pattern(), MessagePattern { source, tag });
    }
}
