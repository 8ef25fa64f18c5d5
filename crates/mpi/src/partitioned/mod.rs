//! Partitioned communication (MPI 5.0, chapter 4).
//!
//! `MPI_Psend_init` opens a channel: a context of its own, in which message `i` travels as an
//! ordinary one with tag `i`. Long partitions are messages of their own, sent as soon as they are
//! ready; short ones travel together with their neighbours, as soon as all of these are ready
//! (4.2.1 leaves that open), since a message costs many times what marking a partition does. The
//! sender announces the channel, and how its data is divided, to the receiver in a small message on
//! the communicator's collective plane; `meeting` matches the two ends.
//!
//! The receiver posts one receive for each of the messages, straight into its buffer where the
//! division allows, through a copy otherwise. One of its own partitions has arrived when all of the
//! messages that share bytes with it have.
//!
//! A program may wait for a partition before it marks others, so none may wait for its neighbours
//! for ever. When the sender's process has waited in MPI for a while and a message has become no
//! more ready, its partitions that are ready travel as pieces, with tags of their own, and when all
//! have, a message of no bytes takes the place of the whole (`pieces`).
//!
//! Each end keeps a bit for each of its partitions (`marks`), so that `MPI_Pready` is one atomic
//! operation unless it completes a message, and `MPI_Parrived` of what has arrived is one load.

mod marks;
mod meeting;
mod partitions;
mod pieces;
mod receive;
mod send;

pub use receive::{has_arrived, parrived, precv_init};
pub use send::{pready, pready_early, psend_init};
