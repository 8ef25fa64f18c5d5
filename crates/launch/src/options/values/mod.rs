//! What the texts of options mean: each file is the value of some options, as it is parsed and as
//! it is sent to other hosts.

pub mod binding;
pub mod completion_shell;
pub mod inherit;
pub mod output_rules;
pub mod pattern;
pub mod rank_set;
pub mod shell_words;
pub mod tool;
