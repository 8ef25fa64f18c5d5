//! Partitions that travel ahead of the message that they belong to.
//!
//! The sender finds out which, in a reaction of the engine that runs in each progress iteration
//! while messages of several partitions are incomplete: those that were ready in two scans, some
//! failed polls apart, so that a program whose threads mark one partition after the other while
//! another thread waits in MPI does not send each by itself. A rank that sleeps has polled more
//! often before ([`mica_protocol::MIN_POLLS_BEFORE_PARKING`]).
//!
//! The receiver looks for the pieces of a partition when it is asked for it, and takes in all that
//! is left when the message of no bytes comes: pieces were sent before it.

use mica_memory::{Block, Shape, View};
use mica_protocol::{EngineState, Fault, MatchPattern, RecvId};

use super::partitions::{ChannelAnnouncement, Partitions};

/// Progress iterations between two scans of what is ready.
const SCAN_EVERY: u32 = 32;

const _: () = assert!(3 * SCAN_EVERY < mica_protocol::MIN_POLLS_BEFORE_PARKING);

/// What a sender knows of the pieces of a message: its partitions by bits.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct SentPieces {
    /// Those that were ready at the last scan.
    seen: u64,
    pub sent: u64,
}

impl SentPieces {
    /// The partitions that are to go now, at a scan that finds these `ready`.
    pub fn due(&mut self, ready: u64) -> u64 {
        let is_as_before = ready == self.seen;
        self.seen = ready;
        if is_as_before { ready & !self.sent } else { 0 }
    }
}

/// When a sender scans.
#[derive(Debug, Default)]
pub(super) struct ScanClock(u32);

impl ScanClock {
    /// To be called in each progress iteration. Whether it is time for a scan.
    pub fn is_due(&mut self) -> bool {
        self.0 = self.0.wrapping_add(1);
        self.0.is_multiple_of(SCAN_EVERY)
    }
}

/// The numbers of the bits in a word, from the lowest.
pub(super) fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

/// The pieces of a message that a receiver knows of.
#[derive(Debug, Default)]
pub(super) struct ReceivedPieces {
    /// Under way: the sender's partition, and where it arrives, if not in the user's buffer.
    receives: Vec<(usize, RecvId, Option<View>)>,
    /// The partitions of the message that have come, or are under way, by bits.
    known: u64,
    come: u64,
    /// No whole message comes.
    pub alone: bool,
}

impl ReceivedPieces {
    /// Looks for a piece that may have been sent: `bit` of its message.
    pub fn look_for(
        &mut self,
        state: &mut EngineState,
        channel: (&ChannelAnnouncement, Option<u32>),
        buffer: &Partitions,
        partition: usize,
        bit: usize,
    ) -> Result<(), Fault> {
        let (sender, source) = channel;
        let tag = Some(ChannelAnnouncement::piece_tag(partition));
        let pattern = MatchPattern { context: sender.context, source, tag };
        if self.known & 1 << bit != 0 || state.probe(&pattern).is_none() {
            return Ok(());
        }
        let bytes = sender.each as usize;
        let (view, copied) = match buffer.stretch(partition * bytes, bytes) {
            Some(view) => (view, false),
            None => (Block::allocate(bytes)?.view(Shape::Contiguous { bytes }), true),
        };
        self.known |= 1 << bit;
        let id = state.receive(pattern, &view)?;
        self.receives.push((partition, id, copied.then_some(view)));
        Ok(())
    }

    /// Takes in those that have come; `first` is the message's first partition.
    pub fn take(&mut self, state: &mut EngineState, buffer: &Partitions, first: usize) {
        let come = &mut self.come;
        self.receives.retain(|(partition, id, copy)| {
            if state.take_received(*id).is_none() {
                return true;
            }
            if let Some(copy) = copy {
                buffer.unpack(partition * copy.len(), copy);
            }
            *come |= 1 << (partition - first);
            false
        });
    }

    /// Whether the partition with this bit has come.
    pub fn has(&self, bit: usize) -> bool {
        self.come & 1 << bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_been_ready_for_two_scans_is_due_once() {
        let mut pieces = SentPieces::default();
        assert_eq!(pieces.due(0b100), 0);
        assert_eq!(pieces.due(0b101), 0, "it grows");
        assert_eq!(pieces.due(0b101), 0b101);
        pieces.sent = 0b101;
        assert_eq!(pieces.due(0b101), 0);
        assert_eq!(pieces.due(0b111), 0);
        assert_eq!(pieces.due(0b111), 0b010);
    }

    #[test]
    fn bits_are_numbered_from_the_lowest() {
        assert_eq!(bits(1 | 1 << 5 | 1 << 63).collect::<Vec<_>>(), [0, 5, 63]);
        assert_eq!(bits(0).count(), 0);
    }

    #[test]
    fn scans_are_some_iterations_apart() {
        let mut clock = ScanClock::default();
        assert_eq!((0..10 * SCAN_EVERY).filter(|_| clock.is_due()).count(), 10);
    }
}
