//! The `mica` command: what the library finds on this machine and its settings (`info`), what
//! hinders it here (`doctor`), the cost of its paths here (`tune`), its speed beside other MPIs
//! (`bench`), where a program's communication time goes (`profile`), where its ranks had better run
//! (`place`), which links between chips make a collective slow (`links`), the LogGP parameters of a
//! channel (`loggp`), what the ranks of a running job do (`top`), how it would run on another
//! cluster (`sim`), its version (`version`), and for shells its manual pages (`man`) and completion
//! (`completion`).

#![forbid(unsafe_code)]

mod bench;
mod channels;
mod command_line;
mod compiled;
mod doctor;
mod explain;
mod info;
mod links;
mod loggp;
mod network;
mod packaged;
mod place;
mod profile;
mod settings;
mod sim;
mod table;
mod terminal;
mod top;
mod tune;
mod version;

use std::process::ExitCode;

use mica_report::{draw, origin, scratch};

fn main() -> ExitCode {
    command_line::main()
}
