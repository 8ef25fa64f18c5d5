//! PMI-1 over PMI_FD.

pub mod message;
