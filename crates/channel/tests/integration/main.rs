//! The net channel over loopback.

mod net;
