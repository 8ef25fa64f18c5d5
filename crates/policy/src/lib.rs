//! Every decision about how a message goes, as pure functions (DESIGN.md, section 4; chai-2009,
//! chapters 6 and 7).
//!
//! - [`costs`]: what each [`MessagePath`] costs, for each level of the machine: the shipped
//!   figures;
//! - [`select`](mod@select): from a message, its situation and the costs to a way, with the numbers
//!   that speak for it;
//! - [`network`]: the way of a message to another node;
//! - [`collective`]: the algorithm of a collective among the ranks of one node;
//! - [`thresholds`]: the same decision, solved for the message's length, for the hot path;
//! - [`hold`]: the receiver that keeps too much of what has no receive;
//! - [`skew`]: the receiver that lags behind, noticed at its unexpected queue;
//! - [`poll`]: which channel is looked at in which round;
//! - [`yielding`]: when a thread whose tests find nothing yields its core;
//! - [`tuning`]: the file with the costs of one machine, written by `mica tune`.
//!
//! Nothing here moves a byte or knows a channel: the protocol, `mica info --explain`, `mica tune`
//! and a simulator share these functions. `docs/design/selection.md` says how they fit together.

#![forbid(unsafe_code)]

pub mod collective;
pub mod costs;
pub mod hold;
pub mod network;
pub mod poll;
pub mod select;
pub mod skew;
pub mod thresholds;
pub mod tuning;
pub mod yielding;

pub use costs::{CostSpan, MessagePath, MessagePaths, PathCost, PathCosts};
pub use hold::HoldPolicy;
pub use network::{NetworkLimits, NetworkPath, network_way};
pub use poll::{PollPolicy, PollSchedule};
pub use select::{EagerLimits, OutgoingMessage, PathDecision, Situation, choose, select};
pub use skew::{SkewChange, SkewMonitor, SkewPolicy};
pub use thresholds::Thresholds;
pub use yielding::PollYield;
