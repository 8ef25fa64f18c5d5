//! Point-to-point messages within what an engine does by packets: sends, receives, probes and
//! cancels, and the choice of a message's path.
//!
//! | file | what it has |
//! |---|---|
//! | `select` | the choice of the path; thresholds by peer |
//! | `operation`, `operation_table` | a send, a receive; their tables and keys |
//! | `sends`, `send` | what this rank's sends own; their protocol |
//! | `receives`, `queues`, `receive` | the same of its receives |
//! | `cancel`, `watched` | `MPI_Cancel` of sends; completions of one among many |
//! | `holds`, `skew`, `flow_control` | what a receiver asks of senders that are ahead of it |
//!
//! Long messages leave this room with their RTS for [`rendezvous`](crate::rendezvous).

pub(crate) mod cancel;
pub(crate) mod flow_control;
pub(crate) mod holds;
pub(crate) mod operation;
pub(crate) mod operation_table;
pub(crate) mod queues;
pub(crate) mod receive;
pub(crate) mod receives;
pub(crate) mod select;
pub(crate) mod send;
pub(crate) mod sends;
pub(crate) mod skew;
pub(crate) mod watched;
