//! The net channel over loopback: with libfabric's tcp provider, and others of its software
//! providers where they are there.

mod faults;
mod kit;
mod messages;
mod remote;
mod waiting;
