//! A collective as a schedule: what one rank does, in rounds.
//!
//! An algorithm produces, for its rank, rounds of communication followed by local work. The same
//! description serves a blocking call (run to the end) and non-blocking and persistent ones
//! (advanced from any MPI call).

use super::absent::{absent_region, absent_view};
use super::intranode::call::NodeCall;
use super::label::CallLabel;
use mica_memory::{Region, View};
use mica_objects::op::Op;

/// One message of a round. Ranks are those of the communicator (for the group of the collective).
#[derive(Debug, Clone)]
pub enum RoundTransfer {
    /// Send `view` to rank `to`.
    Send {
        /// Destination rank.
        to: usize,
        /// What to send.
        view: View,
    },
    /// Receive from rank `from` into `view`.
    Receive {
        /// Source rank.
        from: usize,
        /// Where to put it.
        view: View,
    },
}

/// Local work at the end of a round, done in the order given.
#[derive(Debug, Clone)]
pub enum RoundWork {
    /// Copy the bytes of one view to another; the type signatures match.
    Copy {
        /// Source.
        from: View,
        /// Destination.
        to: View,
    },
    /// `inout = input (op) inout`, element by element.
    Reduce {
        /// The operator.
        op: Op,
        /// Left operand.
        input: Region,
        /// Right operand and result.
        inout: Region,
        /// Number of elements.
        count: usize,
        /// Their datatype.
        datatype: mica_objects::datatype::Datatype,
    },
}

/// All transfers of a round are in flight together. When all have completed, the call follows, if
/// there is one, and then local work.
#[derive(Debug, Clone, Default)]
pub struct Round {
    /// Messages of the round.
    pub transfers: Vec<RoundTransfer>,
    /// A collective on the shared area of this node's ranks.
    pub call: Option<NodeCall>,
    /// Local work after the transfers and the call.
    pub local: Vec<RoundWork>,
}

/// What one rank does in a collective.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    /// The rounds, in order.
    pub rounds: Vec<Round>,
    /// The function that the program called.
    pub label: CallLabel,
    /// The root that it named, within one group of ranks.
    pub root: Option<usize>,
}

impl Round {
    /// Adds a message to rank `to`.
    pub fn send(&mut self, to: usize, view: View) -> &mut Round {
        self.transfers.push(RoundTransfer::Send { to, view });
        self
    }

    /// Adds a message from rank `from`.
    pub fn receive(&mut self, from: usize, view: View) -> &mut Round {
        self.transfers.push(RoundTransfer::Receive { from, view });
        self
    }

    /// The messages alone, without bytes: what is due is not received, and nothing is sent.
    pub(super) fn without_bytes(&self) -> Round {
        let emptied = |transfer: &RoundTransfer| match *transfer {
            RoundTransfer::Send { to, .. } => RoundTransfer::Send { to, view: View::empty() },
            RoundTransfer::Receive { from, .. } => {
                RoundTransfer::Receive { from, view: View::empty() }
            }
        };
        let transfers = self.transfers.iter().map(emptied).collect();
        Round { transfers, ..Round::default() }
    }

    /// Adds a copy to the local work.
    pub fn copy(&mut self, from: View, to: View) -> &mut Round {
        self.local.push(RoundWork::Copy { from, to });
        self
    }
}

impl Schedule {
    /// Bytes that it has no memory for.
    pub(super) fn absent_bytes(&self) -> Option<usize> {
        self.rounds.iter().find_map(|round| {
            let transfers = round.transfers.iter().map(|transfer| match transfer {
                RoundTransfer::Send { view, .. } | RoundTransfer::Receive { view, .. } => view,
            });
            let copies = round.local.iter().flat_map(|work| match work {
                RoundWork::Copy { from, to } => [Some(from), Some(to)],
                RoundWork::Reduce { .. } => [None, None],
            });
            let views = transfers.chain(copies.flatten());
            let reduced = round.local.iter().flat_map(|work| match work {
                RoundWork::Copy { .. } => [None, None],
                RoundWork::Reduce { input, inout, .. } => [Some(input), Some(inout)],
            });
            let called = || round.call.as_ref().and_then(|call| call.absent_bytes());
            let in_view = absent_view(views);
            in_view.or_else(|| absent_region(reduced.flatten())).or_else(called)
        })
    }
}

impl Schedule {
    /// A schedule without rounds: nothing to do.
    pub fn new() -> Schedule {
        Schedule::default()
    }

    /// The same schedule, of a collective with this root.
    pub fn rooted(self, root: Option<usize>) -> Schedule {
        Schedule { root, ..self }
    }

    /// Starts another round. An empty last round is reused, so that an algorithm may start rounds
    /// freely.
    pub fn round(&mut self) -> &mut Round {
        if self
            .rounds
            .last()
            .is_none_or(|r| !r.transfers.is_empty() || r.call.is_some() || !r.local.is_empty())
        {
            self.rounds.push(Round::default());
        }
        self.rounds.last_mut().expect("a round was just made sure of")
    }

    /// Appends a collective on the shared area of this node's ranks.
    pub(super) fn call(&mut self, call: NodeCall) {
        let is_free = |round: &Round| {
            round.transfers.is_empty() && round.call.is_none() && round.local.is_empty()
        };
        if !self.rounds.last().is_some_and(is_free) {
            self.rounds.push(Round::default());
        }
        self.last().call = Some(call);
    }

    /// Names the function that the program called.
    pub(super) fn set_label(&mut self, label: CallLabel) {
        self.label = label;
        for call in self.rounds.iter_mut().filter_map(|r| r.call.as_mut()) {
            call.set_label(label);
        }
    }

    /// Appends a rank's part in a collective of some ranks only: rank `i` of `part` is rank
    /// `ranks[i]` here.
    pub fn join(&mut self, part: Schedule, ranks: &[usize]) {
        for mut round in part.rounds {
            for transfer in &mut round.transfers {
                let (RoundTransfer::Send { to: peer, .. }
                | RoundTransfer::Receive { from: peer, .. }) = transfer;
                *peer = ranks[*peer];
            }
            if round.transfers.is_empty() && round.call.is_none() && !self.rounds.is_empty() {
                self.last().local.append(&mut round.local);
            } else {
                self.rounds.push(round);
            }
        }
    }

    /// The last round, to add local work to it; a first round if there is none.
    pub fn last(&mut self) -> &mut Round {
        if self.rounds.is_empty() {
            self.rounds.push(Round::default());
        }
        self.rounds.last_mut().expect("a round was just made sure of")
    }
}
