//! Engines of hardware that few machines have: tested against a model of the device.

pub(super) mod dsa;
