//! Communicators (MPI 5.0, chapter 7): a group of processes and a context that keeps their messages
//! apart from others'.
//!
//! A context is a number that is unique in the job; its bit 0 separates collective traffic from the
//! user's. The process that becomes rank 0 of a new communicator makes the number from its own job
//! rank and a counter, so the only agreement needed is to send it to the other members (module
//! `create`).
//!
//! Every message takes the path from a handle to a communicator: [`with`] caches the last
//! communicator of each thread and takes neither a lock nor a reference.

mod attributes;
mod counts;
mod create;
mod free;
mod from_group;
mod inter;
mod lookup;
mod object;
mod observe;
mod route;
mod split_type;

pub use attributes::AttributeValue;
pub(crate) use counts::CommCounts;
pub(crate) use inter::RemoteLeader;
pub(crate) use lookup::forget_cached;
pub use lookup::with;
pub use object::Comm;
pub(crate) use observe::SentObserver;
pub use route::Route;
pub use split_type::hardware_resources;
