//! What has moved which way: plain counters of one rank.

/// The ways a message can take, as they are counted by its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To this rank itself.
    Own,
    /// In a ring slot.
    Inline,
    /// In a ring's arena.
    Ring,
    /// Through cells.
    Cells,
    /// Copied once, by the kernel.
    Direct,
    /// Copied once, by load and store in memory that both ranks have mapped.
    Mapped,
    /// Over the network.
    Net,
}

/// Number of [`Way`]s.
pub const WAYS: usize = mica_node::segment::TRAFFIC_WAYS;

/// Messages and bytes sent each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages and bytes, by [`Way`].
    pub sent: [(u64, u64); WAYS],
}

impl Traffic {
    /// Counts a message.
    #[inline(always)]
    pub fn count(&mut self, way: Way, bytes: usize) {
        let (messages, total) = &mut self.sent[way as usize];
        *messages += 1;
        *total += bytes as u64;
    }
}
