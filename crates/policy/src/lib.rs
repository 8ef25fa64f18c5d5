//! All decisions about the path of a message, as pure functions (docs/design/house.md, section 4;
//! chai-2009, chapters 6 and 7).
//!
//! - [`costs`]: the cost of each [`MessagePath`], for each level of the machine: the shipped
//!   figures;
//! - [`select`](mod@select): the path of a message, from its situation and the costs, with the
//!   estimates behind the choice;
//! - [`network`]: the path of a message to another node;
//! - [`one_sided`]: the path of a put or get on a target of another node;
//! - [`collective`]: the algorithm of a collective among the ranks of one node;
//! - [`files`]: the way of an access to a file;
//! - [`thresholds`]: the same decision, solved for the message's length, for the hot path;
//! - [`hold`]: flow control if a receiver keeps too many unexpected messages;
//! - [`skew`]: detects a receiver that lags behind, by its unexpected queue;
//! - [`poll`]: which channel is polled in which progress iteration;
//! - [`yielding`]: when a thread whose tests fail yields its core;
//! - [`mapping`]: which rank runs where, from the traffic between ranks and the machine;
//! - [`tuning`]: the file with the costs of one machine, written by `mica tune`.
//!
//! Nothing here moves a byte or depends on a channel: the protocol, `mica info --explain`,
//! `mica tune` and a simulator share these functions. `docs/design/selection.md` explains how they
//! fit together.

#![forbid(unsafe_code)]

pub mod collective;
pub mod costs;
pub mod files;
pub mod hold;
pub mod mapping;
pub mod network;
pub mod one_sided;
pub mod poll;
pub mod select;
pub mod skew;
pub mod thresholds;
pub mod tuning;
pub mod yielding;

pub use costs::{CostSpan, MessagePath, MessagePaths, PathCost, PathCosts};
pub use hold::HoldPolicy;
pub use network::{NetworkLimits, NetworkPath, network_path};
pub use one_sided::{OneSidedPath, RmaUse, TargetRegistration, one_sided_path};
pub use poll::{PollPolicy, PollSchedule};
pub use select::{EagerLimits, OutgoingMessage, PathDecision, Situation, choose, select};
pub use skew::{SkewChange, SkewMonitor, SkewPolicy};
pub use thresholds::Thresholds;
pub use yielding::PollYield;
