//! The table of options: names, values, help, and effect. One file per subject, in the order of the
//! help.

use super::parser::Spec;

mod environment;
mod general;
mod hosts;
mod output;
mod places;
mod program;

/// The table.
pub const OPTIONS: &[&[Spec]] = &[
    program::PROGRAM,
    environment::ENVIRONMENT,
    places::PLACES,
    output::OUTPUT,
    hosts::HOSTS,
    general::GENERAL,
];

/// Every option.
pub fn options() -> impl Iterator<Item = &'static Spec> {
    OPTIONS.iter().copied().flatten()
}
