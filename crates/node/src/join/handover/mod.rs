//! How processes of one node find each other before they share a segment: abstract Unix sockets,
//! over which a descriptor is handed over (SCM_RIGHTS) between processes of the same user
//! (SO_PEERCRED).
//!
//! An abstract name is in no file system: nothing is left behind, and it ends with the last
//! descriptor. Any process that knows it may connect, so the name contains a [`nonce`] that only
//! the job's processes learn, and both sides check the other's credentials with the kernel. The
//! sockets keep message boundaries (SOCK_SEQPACKET). Every call has a deadline.

mod connection;
mod identity;
mod option;
mod wait;

pub use connection::{Credentials, HandoverConnection, HandoverListener, credentials};
pub(crate) use identity::identity_of;
pub use identity::{FileIdentity, identity, nonce, own_uid};
pub(crate) use option::option;
pub use wait::wait_readable;
pub(crate) use wait::{check, wait};
