//! The window as an object, and what makes and frees it.

pub(crate) mod attach;
pub(crate) mod choice;
pub(crate) mod counts;
pub(crate) mod create;
pub(crate) mod object;
pub(crate) mod properties;
pub(crate) mod registration;
