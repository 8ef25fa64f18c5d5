//! Sends, receives and probes.

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
