//! Copies by layouts, and the net channel over loopback.

mod layout_copy;
mod net;
