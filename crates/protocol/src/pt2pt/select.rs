//! The choice of the path in this job: `mica_policy`'s function with this job's costs and tunables,
//! and the state of each peer (docs/design/house.md, section 4; chai-2009, chapter 6).
//!
//! The sender chooses between the eager paths and an RTS by thresholds that are derived from that
//! function at the start of the job ([`Selection::plan`]). The receiver of an RTS, which knows both
//! buffers, calls the function itself ([`Selection::choose`]).

use mica_channel::shm::{INLINE, PAYLOAD_MAX};
use mica_memory::View;
use mica_node::topology::Level;
use mica_node::tunables::{self, BadValue};
use mica_policy::select::CoreUse;
use mica_policy::{
    EagerLimits, MessagePath, MessagePaths, OutgoingMessage, PathCosts, Situation, Thresholds,
};

/// When a send is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendCompletion {
    /// When its buffer may be used again.
    Local,
    /// When the receive has started as well (`MPI_Ssend`).
    Matched,
}

/// How a message leaves its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendPlan {
    /// With the header, in one slot.
    Inline,
    /// In the ring's arena.
    Ring,
    /// Through cells, at once.
    Cells,
    /// After an RTS.
    Rendezvous,
}

/// What determines the path of messages to and from one peer.
#[derive(Debug, Clone, Copy)]
struct PeerSelection {
    thresholds: Thresholds,
    /// Minimum length in bytes of a buffer that is worth an RTS if peers can map it.
    mapped_min: usize,
    level: Level,
    /// The peer has announced that it lags behind.
    skewed: bool,
}

/// Index of a peer's selection in [`Selection::classes`]: the even one of a pair, or the skewed
/// one after it.
type PeerClass = u8;

/// What decides about this rank's messages.
#[derive(Debug)]
pub struct Selection {
    costs: PathCosts,
    /// What `MICA_PATH` allows.
    allowed: MessagePaths,
    limits: EagerLimits,
    oversubscribed: bool,
    /// `MICA_DIRECT_MIN`, if it is set: it overrides the costs.
    direct_min: Option<usize>,
    /// The kinds of peers so far. There are as many as levels, and twice as many with FIFOs.
    kinds: Vec<PeerKind>,
    /// The selections for peers of each kind, two for each: for peers that keep up and for those
    /// that lag behind.
    classes: Vec<PeerSelection>,
    /// By peer; a byte each, since every message asks.
    class_of: Vec<PeerClass>,
    /// By peer, for the counters: every message asks.
    level_of: Vec<Level>,
}

/// What the thresholds of a peer depend on: its level and, if all data goes in packets (in the
/// basic design of shared memory, chai-2009, 3.1.1, and by a transport), the largest payload of a
/// packet. A message up to this length is eager, unless `MICA_EAGER_MAX` is less.
pub(crate) type PeerKind = (Level, Option<usize>);

/// What the receiver of an RTS knows about the two buffers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BufferFacts {
    /// Bytes to be copied.
    pub len: usize,
    /// Number of their contiguous pieces, on the side that has more.
    pub pieces: usize,
    /// This rank can load from all of the sender's buffer, which is contiguous.
    pub sender_mapped: bool,
    /// The sender can store to all of this rank's buffer, which is contiguous.
    pub receiver_mapped: bool,
    /// The kernel can copy from the sender's buffer.
    pub readable: bool,
    /// Both buffers are contiguous, and the sender has a cooperative copy for them.
    pub can_cooperate: bool,
    /// A copy engine is available, and may copy this message.
    pub offload: bool,
}

impl Selection {
    /// For a rank with peers of these kinds.
    ///
    /// # Errors
    /// When a tunable's value is invalid.
    pub fn new(
        costs: PathCosts,
        peers: impl Iterator<Item = PeerKind>,
        cores: CoreUse,
    ) -> Result<Selection, BadValue> {
        let allowed = MessagePaths::forced(tunables::PATH.choice()?).unwrap_or(MessagePaths::ALL);
        let limits = EagerLimits { inline: INLINE, ring: PAYLOAD_MAX, ..EagerLimits::default() };
        let mut selection = Selection {
            costs,
            allowed,
            limits,
            oversubscribed: cores == CoreUse::Shared,
            direct_min: tunables::DIRECT_MIN.threshold()?,
            kinds: Vec::new(),
            classes: Vec::new(),
            class_of: Vec::new(),
            level_of: Vec::new(),
        };
        for (peer, kind) in (0..).zip(peers) {
            selection.set_kind(peer, kind)?;
        }
        Ok(selection)
    }

    /// Sets the kind of `peer`, which may be new.
    ///
    /// # Errors
    /// When a tunable's value is invalid.
    pub(crate) fn set_kind(&mut self, peer: u32, kind: PeerKind) -> Result<(), BadValue> {
        let class = match self.kinds.iter().position(|&known| known == kind) {
            Some(known) => known,
            None => self.add_kind(kind)?,
        };
        let peers = self.class_of.len().max(peer as usize + 1);
        self.class_of.resize(peers, 0);
        self.class_of[peer as usize] = 2 * class as PeerClass;
        self.level_of.resize(peers, Level::Network);
        self.level_of[peer as usize] = kind.0;
        Ok(())
    }

    /// How far `peer` is.
    #[inline(always)]
    pub fn level(&self, peer: u32) -> Level {
        let level = self.level_of.get(peer as usize);
        level.copied().unwrap_or(Level::Network)
    }

    /// Adds a kind, and returns its index.
    fn add_kind(&mut self, kind: PeerKind) -> Result<usize, BadValue> {
        let (level, packet_payload_max) = kind;
        let kernel = MessagePaths::NONE.with(MessagePath::Pull).with(MessagePath::Cooperate);
        let mapped =
            MessagePaths::NONE.with(MessagePath::Mapped).with(MessagePath::MappedCooperate);
        // Shorter buffers are not migrated.
        let movable = tunables::MAPPED_MIN.number()? as usize;
        let mut thresholds = self.derive(level, kernel)?;
        if let Some(fits) = packet_payload_max {
            all_in_packets(&mut thresholds, fits)?;
        }
        let mapped_min = match level {
            Level::Network => usize::MAX,
            _ => (self.derive(level, mapped)?.eager_max).saturating_add(1).max(movable),
        };
        let even = PeerSelection { thresholds, mapped_min, level, skewed: false };
        let skewed = PeerSelection { skewed: true, ..even };
        self.kinds.push(kind);
        self.classes.extend([even, skewed]);
        Ok(self.kinds.len() - 1)
    }

    /// The thresholds for peers at `level` that shared memory and `paths` reach.
    fn derive(&self, level: Level, paths: MessagePaths) -> Result<Thresholds, BadValue> {
        let available = MessagePaths::SHARED_MEMORY.union(paths).intersection(self.allowed);
        let situation = Situation {
            limits: self.limits,
            oversubscribed: self.oversubscribed,
            ..Situation::waiting(level, available)
        };
        Thresholds::derive(&self.costs, &situation).in_force(PAYLOAD_MAX)
    }

    /// How a message of `len` bytes is sent to `peer`; `sync` if its sender must know that it is
    /// matched.
    #[inline(always)]
    pub fn plan(&self, peer: u32, len: usize, completion: SendCompletion) -> SendPlan {
        if len <= INLINE && completion == SendCompletion::Local {
            return SendPlan::Inline;
        }
        let connection = self.peer(peer);
        let thresholds = &connection.thresholds;
        if len <= thresholds.ring_max {
            SendPlan::Ring
        } else if len <= thresholds.eager(connection.skewed) && completion == SendCompletion::Local
        {
            SendPlan::Cells
        } else {
            SendPlan::Rendezvous
        }
    }

    /// Whether to send an RTS to `peer` for a message that could go through cells, if its buffer
    /// can be mapped.
    #[inline]
    pub fn is_worth_mapping(&self, peer: u32, len: usize) -> bool {
        let connection = self.peer(peer);
        len >= connection.mapped_min && !connection.skewed
    }

    /// Maximum length of a message of this rank to itself that is buffered.
    pub fn eager_to_self(&self, me: u32) -> usize {
        self.peer(me).thresholds.eager_max
    }

    /// Longest message that counts as short: in a slot or in the ring.
    pub fn ring_max(&self, peer: u32) -> usize {
        self.peer(peer).thresholds.ring_max
    }

    /// Whether the pieces of a message to `peer` are to be listed for the kernel's copy.
    pub fn is_worth_listing(&self, peer: u32, view: &View) -> bool {
        let t = &self.peer(peer).thresholds;
        let len = view.len();
        len >= t.direct_min && len / view.run_count_hint().max(1) >= t.direct_run_min
    }

    /// Whether a message of this length gets a cooperative copy, for the answers of both sides and
    /// for copying by both.
    pub fn gets_cooperative_copy(&self, len: usize) -> bool {
        len >= COOPERATIVE_MIN
    }

    /// Whether both sides of a message may copy at the same time.
    pub fn may_cooperate(&self) -> bool {
        !self.oversubscribed
    }

    /// The path of a message that `peer` has announced and this rank has matched.
    pub(crate) fn choose(&self, peer: u32, buffers: &BufferFacts) -> MessagePath {
        let connection = self.peer(peer);
        let mut available = MessagePaths::NONE.with(MessagePath::Streamed);
        let mut offer = |path, is: bool| {
            if is {
                available = available.with(path);
            }
        };
        let mapped = buffers.sender_mapped || buffers.receiver_mapped;
        let run = buffers.len / buffers.pieces.max(1);
        offer(MessagePath::Mapped, mapped);
        offer(
            MessagePath::MappedCooperate,
            buffers.sender_mapped && buffers.receiver_mapped && buffers.can_cooperate,
        );
        let readable = buffers.readable
            && (buffers.pieces <= 1 || run >= connection.thresholds.direct_run_min);
        offer(MessagePath::Pull, readable);
        offer(MessagePath::Cooperate, readable && buffers.can_cooperate);
        offer(MessagePath::Offload, buffers.offload && (mapped || readable));
        available = available.intersection(self.allowed);
        if let Some(min) = self.direct_min {
            if buffers.len < min {
                return MessagePath::Streamed;
            }
            let direct = available.without(MessagePaths::NONE.with(MessagePath::Streamed));
            if !direct.is_empty() {
                available = direct;
            }
        }
        let message = OutgoingMessage {
            pieces: buffers.pieces.max(1),
            ..OutgoingMessage::contiguous(buffers.len)
        };
        let situation = Situation {
            limits: self.limits,
            oversubscribed: self.oversubscribed,
            overlap: buffers.offload,
            ..Situation::waiting(connection.level, available)
        };
        mica_policy::choose(&message, &situation, &self.costs)
    }

    /// `peer` has announced whether it lags behind.
    pub(crate) fn set_skewed(&mut self, peer: u32, skewed: bool) {
        let class = &mut self.class_of[peer as usize];
        *class = *class & !1 | PeerClass::from(skewed);
    }

    #[inline(always)]
    fn peer(&self, peer: u32) -> &PeerSelection {
        &self.classes[self.class_of[peer as usize] as usize]
    }
}

/// For a peer to which all data goes in packets of at most `fits` bytes: one threshold for all.
fn all_in_packets(thresholds: &mut Thresholds, fits: usize) -> Result<(), BadValue> {
    let eager = match tunables::EAGER_MAX.threshold()? {
        Some(_) => thresholds.eager_max.min(fits),
        None => fits,
    };
    thresholds.ring_max = eager;
    thresholds.eager_max = eager;
    thresholds.eager_max_skewed = eager;
    Ok(())
}

/// Minimum length in bytes of a message that gets a cooperative copy: below, cells are faster for
/// any buffers.
const COOPERATIVE_MIN: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use SendCompletion::{Local, Matched};

    const SAME_CACHE: u32 = 0;
    const OTHER_NODE: u32 = 1;

    fn selection() -> Selection {
        let levels = [(Level::SharedCache, None), (Level::Node, None)].into_iter();
        Selection::new(PathCosts::default(), levels, CoreUse::Own).expect("defaults fit")
    }

    fn readable(len: usize) -> BufferFacts {
        BufferFacts { len, pieces: 1, readable: true, ..BufferFacts::default() }
    }

    #[test]
    fn plan_depends_on_level_of_peer() {
        let s = selection();
        assert_eq!(s.plan(SAME_CACHE, INLINE, Local), SendPlan::Inline);
        assert_eq!(s.plan(SAME_CACHE, INLINE, Matched), SendPlan::Ring);
        assert_eq!(s.plan(SAME_CACHE, INLINE + 1, Local), SendPlan::Ring);
        assert_eq!(s.plan(SAME_CACHE, 32 << 10, Local), SendPlan::Cells);
        assert_eq!(s.plan(SAME_CACHE, 32 << 10, Matched), SendPlan::Rendezvous);
        assert_eq!(s.plan(SAME_CACHE, 1 << 20, Local), SendPlan::Rendezvous);
        // The farther the peer, the shorter the messages that are worth an RTS (chai-2009, 6.3.1).
        assert_eq!(s.plan(OTHER_NODE, 32 << 10, Local), SendPlan::Rendezvous);
    }

    #[test]
    fn fifo_messages_never_use_cells() {
        let levels = [(Level::Node, Some(100_000))].into_iter();
        let s = Selection::new(PathCosts::default(), levels, CoreUse::Own).expect("fits");
        for (len, completion, expected) in [
            (INLINE, Local, SendPlan::Inline),
            (INLINE + 1, Local, SendPlan::Ring),
            (100_000, Local, SendPlan::Ring),
            (100_000, Matched, SendPlan::Ring),
            (100_001, Local, SendPlan::Rendezvous),
        ] {
            assert_eq!(s.plan(0, len, completion), expected, "{len} {completion:?}");
        }
    }

    #[test]
    fn skewed_peer_gets_medium_messages_eagerly() {
        let mut s = selection();
        assert_eq!(s.plan(OTHER_NODE, 32 << 10, Local), SendPlan::Rendezvous);
        s.set_skewed(OTHER_NODE, true);
        assert_eq!(s.plan(OTHER_NODE, 32 << 10, Local), SendPlan::Cells);
        assert!(!s.is_worth_mapping(OTHER_NODE, 64 << 10));
        s.set_skewed(OTHER_NODE, false);
        assert_eq!(s.plan(OTHER_NODE, 32 << 10, Local), SendPlan::Rendezvous);
        assert!(s.is_worth_mapping(OTHER_NODE, 64 << 10));
    }

    #[test]
    fn prefers_mapped_buffers_to_kernel_copies() {
        let s = selection();
        let mut b = readable(1 << 20);
        b.sender_mapped = true;
        assert_eq!(s.choose(SAME_CACHE, &b), MessagePath::Mapped);
        b.receiver_mapped = true;
        b.can_cooperate = true;
        assert_eq!(s.choose(SAME_CACHE, &b), MessagePath::MappedCooperate);
        b.sender_mapped = false;
        assert_eq!(s.choose(SAME_CACHE, &b), MessagePath::Mapped, "the sender pushes");
    }

    #[test]
    fn streams_unreachable_buffers() {
        let s = selection();
        let mut b = readable(1 << 20);
        b.readable = false;
        for peer in [SAME_CACHE, OTHER_NODE] {
            assert_eq!(s.choose(peer, &b), MessagePath::Streamed);
        }
        assert_eq!(s.choose(OTHER_NODE, &readable(1 << 20)), MessagePath::Pull);
        b = readable(1 << 20);
        b.can_cooperate = true;
        assert_eq!(s.choose(OTHER_NODE, &b), MessagePath::Cooperate);
    }

    #[test]
    fn peers_may_join_later() {
        let mut s = selection();
        let classes = s.classes.len();
        s.set_kind(5, (Level::SharedCache, None)).expect("fits");
        assert_eq!(s.plan(5, 32 << 10, Local), SendPlan::Cells);
        assert_eq!(s.classes.len(), classes, "a kind that was known");
        s.set_kind(6, (Level::Network, Some(9000))).expect("fits");
        assert_eq!(s.plan(6, 9000, Local), SendPlan::Ring);
        assert_eq!(s.classes.len(), classes + 2);
        s.set_kind(6, (Level::SharedCache, None)).expect("fits");
        assert_eq!(s.plan(6, 9000, Local), s.plan(5, 9000, Local), "another holder of the number");
        assert_eq!(s.plan(OTHER_NODE, 32 << 10, Local), SendPlan::Rendezvous);
    }

    #[test]
    fn oversubscribed_ranks_do_not_cooperate() {
        let levels = [(Level::Node, None); 2].into_iter();
        let s =
            Selection::new(PathCosts::default(), levels, CoreUse::Shared).expect("defaults fit");
        let mut b = readable(1 << 20);
        b.can_cooperate = true;
        assert_eq!(s.choose(OTHER_NODE, &b), MessagePath::Pull);
        assert!(!s.may_cooperate());
    }
}
