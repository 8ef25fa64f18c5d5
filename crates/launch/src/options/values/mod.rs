//! What the texts of options mean.

pub mod binding;
pub mod inherit;
pub mod output_rules;
pub mod pattern;
pub mod rank_set;
pub mod shell_words;
pub mod tool;
