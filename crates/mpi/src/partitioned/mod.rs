//! Partitioned communication (MPI 5.0, chapter 4).
//!
//! `MPI_Psend_init` opens a channel: a context of its own, in which partition `i` travels as an
//! ordinary message with tag `i` as soon as it is ready. The sender announces the channel, and how
//! the message is divided, to the receiver in a small message on the communicator's collective
//! plane; `meeting` matches the two ends.
//!
//! The receiver posts one receive for each of the sender's partitions, straight into its buffer
//! where the division allows, through a copy otherwise. One of its own partitions has arrived when
//! all of the sender's partitions that share bytes with it have.

mod meeting;
mod partitions;
mod receive;
mod send;

pub use receive::{parrived, precv_init};
pub use send::{pready, psend_init};
