//! An agent: `mpiexec` on a host of the job, which runs that host's ranks for the controller.
//!
//! ```text
//! read the secret -> connect -> handshake -> Hello -> wait for the plan -> run the ranks -> Done
//! ```
//!
//! The remote shell starts it with the controller's addresses on its command line and its node's
//! secret on its standard input, of which it reads one line and no more: what follows is not its
//! own. The keeper is started before anything else is open, since it is a copy of this process.
//! Until the handshake is done, the agent dies with the remote shell; from then on the end of the
//! connection ends it, and leaves it time to clean up ([`outlive_parent`]).
//!
//! What goes wrong before the plan is an [`AgentError`] on standard error, which the remote shell
//! carries to the controller, and an exit status. Later it is a message to the controller
//! (`AgentMessage::Failed`). If the controller disappears, the event loop kills the ranks
//! ([`crate::event_loop`]). The controller drops callers when it has too many, so all its addresses
//! are tried [`ROUNDS`] times.

use std::io::{self, BufRead, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use mica_node::identity::boot_id;
use mica_node::process::{Keeper, Signals, outlive_parent, wait_ready};

use crate::error::doing;
use crate::event_loop::owner::{Uplink, heartbeat_to_controller, take_signals};
use crate::link::auth::Secret;
use crate::link::messages::{AgentMessage, ControllerMessage, Surroundings};
use crate::link::{Connection, HEARTBEAT_INTERVAL};
use crate::local::supervisor;
use crate::options::Agent;
use crate::placement::node_job::NodeJob;
use crate::report::rank_end::signal_status;
use crate::report::{INTERNAL, say};
use crate::signals::{SignalRules, signal_name};

/// Why an agent cannot begin. The remote shell carries this message to the controller.
#[derive(Debug, thiserror::Error)]
enum AgentError {
    #[error("no secret came on standard input")]
    NoSecret,
    #[error("cannot reach mpiexec: {0}")]
    Unreachable(String),
    #[error(transparent)]
    Launch(#[from] crate::error::LaunchError),
    #[error("{0}")]
    Lost(#[from] crate::link::LinkLost),
    #[error("mpiexec sent a plan that is not sound")]
    Unsound,
    #[error("got {}", signal_name(*.0))]
    Signal(i32),
}

/// Time for the controller's part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for a connection to one address.
const CONNECT: Duration = Duration::from_secs(3);
/// Number of times that all addresses are tried.
const ROUNDS: u32 = 5;
/// The controller may be silent for this long while it waits for other hosts.
const BEFORE_THE_PLAN: Duration = Duration::from_secs(60);

/// Runs an agent and returns its exit status, which matters only if the agent cannot begin.
pub fn run(agent: &Agent) -> u8 {
    match try_run(agent) {
        Ok(status) => status,
        Err(error) => {
            say(format_args!("mpiexec --agent: {error}\n"));
            if let AgentError::Signal(number) = error { signal_status(number) } else { INTERNAL }
        }
    }
}

fn try_run(agent: &Agent) -> Result<u8, AgentError> {
    let secret = read_secret(agent.node).ok_or(AgentError::NoSecret)?;
    // Before anything else is open: the keeper is a copy of this process.
    let keeper = Keeper::start().map_err(doing("cannot start the keeper process"))?;
    let signals = take_signals()?;
    let mut link = connect(agent, &secret)?;
    // From now on the end of the connection ends the agent, and leaves it time to clean up.
    outlive_parent().map_err(doing("cannot outlive the remote shell"))?;
    let address = link.local_address().map(|address| address.to_string());
    link.send(&AgentMessage::Hello {
        node: agent.node.or_else(|| number("SLURM_NODEID")),
        slurm: std::env::var("SLURMD_NODENAME").ok(),
        machine: boot_id(),
        surroundings: Surroundings::own(),
    });
    let (node, orders) = wait_for_plan(&mut link, &signals)?;
    if !node.is_sound() {
        return Err(AgentError::Unsound);
    }
    let uplink = Uplink::new(link, orders, node.head_timeout);
    Ok(supervisor::run_part(uplink, &node, keeper, signals, address)?)
}

/// Reads the secret of this node's agent from one line of standard input, and no more than it.
fn read_secret(node: Option<u32>) -> Option<Secret> {
    let mut line = Vec::new();
    let mut input = io::stdin().lock().take(256);
    input.read_until(b'\n', &mut line).ok()?;
    Secret::from_hex(node, std::str::from_utf8(&line).ok()?)
}

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Tries the controller's addresses, several times: the controller drops connections when it has
/// too many.
fn connect(agent: &Agent, secret: &Secret) -> Result<Connection, AgentError> {
    let mut problems = Vec::new();
    for round in 1..=ROUNDS {
        problems.clear();
        for address in &agent.addresses {
            let stream = TcpStream::connect_timeout(address, CONNECT);
            match stream.and_then(|stream| handshake(stream, secret)) {
                Ok(link) => return Ok(link),
                Err(error) => problems.push(format!("{address}: {error}")),
            }
        }
        // The controller says nothing when it has room again.
        if round < ROUNDS {
            std::thread::sleep(HEARTBEAT_INTERVAL / 5 * round);
        }
    }
    Err(AgentError::Unreachable(problems.join("; ")))
}

fn handshake(stream: TcpStream, secret: &Secret) -> io::Result<Connection> {
    stream.set_read_timeout(Some(HANDSHAKE))?;
    stream.set_write_timeout(Some(HANDSHAKE))?;
    Connection::authenticate(stream, secret)
}

/// Waits until the controller has heard from all hosts. Returns the plan, and orders that came with
/// it.
fn wait_for_plan(
    link: &mut Connection,
    signals: &Signals,
) -> Result<(NodeJob, Vec<ControllerMessage>), AgentError> {
    let mut orders = Vec::new();
    loop {
        let fds = [signals.as_fd(), link.as_fd()];
        let writes = if link.has_unsent() { &fds[1..] } else { &[] };
        wait_ready(&fds, writes, Some(HEARTBEAT_INTERVAL)).map_err(doing("poll"))?;
        while let Some(number) = signals.next() {
            if SignalRules::default().ends(number) {
                return Err(AgentError::Signal(number));
            }
        }
        link.flush();
        let received = link.receive(&mut orders);
        let mut all = orders.drain(..);
        while let Some(order) = all.next() {
            if let ControllerMessage::Plan(node) = order {
                return Ok((*node, all.collect()));
            }
        }
        drop(all);
        received?;
        heartbeat_to_controller(link, BEFORE_THE_PLAN, BEFORE_THE_PLAN)?;
    }
}
