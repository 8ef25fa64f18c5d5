//! A starter: `mpiexec` on a host of the job, which starts the agents of a group of hosts, its own
//! among them, as the controller starts those of other hosts ([`crate::remote::order`] says why).
//!
//! It has no connection to the controller but that of the remote shell which started it. On
//! standard input it reads what to do. A host that refuses is described on standard error, and
//! named on standard output by a [`refused_line`]; a starter below inherits both.
//! Whether a host that fails has been heard of before, the controller knows.
//!
//! It ends with the last of its shells. If its standard output is read no more, the
//! controller has gone or has given up, and it ends at once: the kernel then kills the remote
//! shells and the agents that have not reached the controller (`PR_SET_PDEATHSIG`). Those that have
//! look after themselves.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;

use mica_node::process::{reap_orphans, signal};

use crate::error::{LaunchError, doing};
use crate::event_loop::owner::take_signals;
use crate::event_loop::poll_set::{PollSet, PollSource, Polled};
use crate::remote::order::{StartOrder, refused_line};
use crate::remote::shell::{RemoteShell, ShellOutput};
use crate::report::{INTERNAL, say};
use crate::signals::SignalRules;

/// Maximum bytes of an order: some 200 for each host, of which there can be a million.
const ORDER_MAX: u64 = 512 << 20;

/// Why a starter cannot do its work. The remote shell carries this message to the controller.
#[derive(Debug, thiserror::Error)]
enum StarterError {
    #[error("no order came on standard input")]
    NoOrder,
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// Runs a starter and returns its exit status: 0 if no remote shell failed.
pub fn run() -> u8 {
    match try_run() {
        Ok(status) => status,
        Err(error) => {
            say(format_args!("mpiexec --starter: {error}\n"));
            INTERNAL
        }
    }
}

fn try_run() -> Result<u8, StarterError> {
    let order = read_order().ok_or(StarterError::NoOrder)?;
    let (signals, rules) = (take_signals()?, SignalRules::default());
    let mut poll = PollSet::new().map_err(doing("cannot make an epoll instance"))?;
    poll.add(PollSource::Signals, signals.as_fd());
    poll.add_end_of(PollSource::Uplink, io::stdout().as_fd());
    let mut starts = ShellStarts { order: &order, shells: Vec::new(), has_refused: false };
    starts.begin(&mut poll);
    while starts.shells.iter().any(|shell| !shell.has_ended()) {
        for source in poll.wait(&Polled::default(), None).map_err(doing("poll"))? {
            match source {
                PollSource::Shell(shell) => starts.update(shell as usize, &mut poll)?,
                PollSource::ShellOutput(pipe) => starts.update(pipe as usize / 2, &mut poll)?,
                PollSource::Uplink => return Ok(INTERNAL),
                _ => {}
            }
        }
        while let Some(number) = signals.next() {
            match number {
                signal::SIGCHLD => starts.reap_orphans(),
                _ if rules.ends(number) => return Ok(INTERNAL),
                _ => {}
            }
        }
    }
    Ok(if starts.has_refused { INTERNAL } else { 0 })
}

fn read_order() -> Option<StartOrder> {
    let mut line = Vec::new();
    let mut input = io::stdin().lock().take(ORDER_MAX);
    input.read_until(b'\n', &mut line).ok()?;
    StartOrder::from_line(&line)
}

/// The remote shells of a starter.
struct ShellStarts<'a> {
    order: &'a StartOrder,
    shells: Vec<RemoteShell>,
    has_refused: bool,
}

impl ShellStarts<'_> {
    /// Starts all of them: there are at most as many as the fan-out, and one for this host.
    fn begin(&mut self, poll: &mut PollSet) {
        for start in self.order.commands() {
            let output = if start.is_starter { ShellOutput::Inherited } else { ShellOutput::Kept };
            let nodes = start.nodes.clone();
            let program = start.command[0].to_string_lossy().into_owned();
            match RemoteShell::start(self.shells.len() as u32, start, output) {
                Ok(shell) => {
                    shell.watch(poll);
                    self.shells.push(shell);
                }
                Err(error) => {
                    self.refuse(&nodes, &format!("mpiexec:   cannot run {program:?}: {error}\n"));
                }
            }
        }
    }

    /// Reads what a shell says, and reports one that has failed.
    fn update(&mut self, number: usize, poll: &mut PollSet) -> Result<(), LaunchError> {
        let shell = &mut self.shells[number];
        let had_ended = shell.has_ended();
        shell.update(poll).map_err(doing("cannot look at a remote shell"))?;
        if !had_ended && shell.has_failed() {
            let (nodes, text) = (shell.nodes.clone(), shell.describe());
            self.refuse(&nodes, &text);
        }
        Ok(())
    }

    fn refuse(&mut self, nodes: &[usize], text: &str) {
        self.has_refused = true;
        let named = self.order.nodes.iter().filter(|node| nodes.contains(&(node.number as usize)));
        let hosts: Vec<&str> = named.map(|node| node.host.as_str()).collect();
        say(format_args!("mpiexec: {}:\n{text}", hosts.join(", ")));
        // The controller looks when it reads this line. If it is not read, poll reports that.
        let _ = io::stdout().write_all(refused_line(nodes).as_bytes());
    }

    fn reap_orphans(&self) {
        let is_shell = |pid| self.shells.iter().any(|s| !s.has_ended() && s.pid() == pid);
        reap_orphans(&is_shell);
    }
}
