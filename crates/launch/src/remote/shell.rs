//! A running remote shell, and what is read of it.
//!
//! A shell is awaited until all its agents have connected, and ends when they do, or before: with a
//! status other than zero it has failed, and those of its agents that have not connected will not.
//! A [`starter`](crate::remote::starter) names hosts that refused on its standard output, long
//! before it ends. What a shell says otherwise is kept, the last [`KEPT_MAX`] bytes, and quoted if
//! it fails. Secrets go through its standard input, never through its command.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use mica_node::process::{ChildProcess, ChildSetup, Exit, signal, wait_readable};

use crate::event_loop::poll_set::{PollSet, PollSource};
use crate::options::values::shell_words::command_line;
use crate::options::{AGENT, STARTER};
use crate::output::stream::Pipe;
use crate::remote::order::{AgentCommand, refused_nodes};
use crate::signals::signal_name;

/// What becomes of a remote shell's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellOutput {
    /// It is read and kept, to be quoted.
    Kept,
    /// It goes where this process's output goes.
    Inherited,
}

/// A running remote shell.
pub struct RemoteShell {
    /// The nodes whose agents it started.
    pub nodes: Vec<usize>,
    number: u32,
    name: String,
    process: ChildProcess,
    /// Its standard error and standard output, as long as they are open.
    pipes: [Option<Box<dyn Pipe>>; 2],
    /// The last bytes of its output.
    kept: Vec<u8>,
    /// Of a starter: the beginning of a line on its standard output.
    line: Vec<u8>,
    is_starter: bool,
    /// How many of its agents have not connected.
    awaited: usize,
    /// The nodes that the starter named as refusing.
    refused: BTreeSet<usize>,
    output: ShellOutput,
    exit: Option<Exit>,
}

/// Bytes of a remote shell's output that are kept.
const KEPT_MAX: usize = 8192;
/// Bytes that an empty pipe takes at least.
const PIPE_ROOM: usize = 4096;
/// The place of standard output among the pipes.
const STDOUT: usize = 1;

impl RemoteShell {
    /// Starts the remote shell with this number and gives it its input.
    pub fn start(number: u32, start: AgentCommand, output: ShellOutput) -> io::Result<RemoteShell> {
        let pipe = || match output {
            ShellOutput::Kept => Stdio::piped(),
            ShellOutput::Inherited => Stdio::inherit(),
        };
        let mut command = Command::new(&start.command[0]);
        command.args(&start.command[1..]).stdin(Stdio::piped()).stdout(pipe()).stderr(pipe());
        let mut process = ChildProcess::spawn(&mut command, ChildSetup::default())?;
        if let Some(stdin) = process.stdin.take() {
            give_input(stdin, start.input + "\n")?;
        }
        let pipes = [
            process.stderr.take().map(|pipe| Box::new(pipe) as _),
            process.stdout.take().map(|pipe| Box::new(pipe) as _),
        ];
        let own = start.command.iter().position(|word| word == AGENT || word == STARTER);
        let shown = &start.command[..own.map_or(start.command.len() - 1, |at| at - 1)];
        let mut name = command_line(shown);
        if name.is_empty() {
            let role = if start.is_starter { STARTER } else { AGENT };
            name = format!("mpiexec {role}");
        }
        Ok(RemoteShell {
            awaited: start.nodes.len(),
            nodes: start.nodes,
            number,
            name,
            process,
            pipes,
            kept: Vec::new(),
            line: Vec::new(),
            is_starter: start.is_starter,
            refused: BTreeSet::new(),
            output,
            exit: None,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Adds its sources: its output and its exit.
    pub fn watch(&self, poll: &mut PollSet) {
        for (which, pipe) in self.pipes.iter().enumerate() {
            if let Some(pipe) = pipe {
                poll.add(PollSource::ShellOutput(2 * self.number + which as u32), pipe.as_fd());
            }
        }
        poll.add(PollSource::Shell(self.number), self.process.as_fd());
    }

    /// Reads its output, and checks whether it has ended. What is closed is no source any more.
    pub fn update(&mut self, poll: &mut PollSet) -> io::Result<()> {
        for which in 0..self.pipes.len() {
            // Standard output of a starter is for this process.
            let is_report = self.is_starter && which == STDOUT;
            let into = if is_report { &mut self.line } else { &mut self.kept };
            if let Some(pipe) = &mut self.pipes[which]
                && !read_available(pipe.as_mut(), into)
            {
                poll.remove(PollSource::ShellOutput(2 * self.number + which as u32), pipe.as_fd());
                self.pipes[which] = None;
            }
        }
        self.take_refusals();
        if self.exit.is_none() {
            self.exit = self.process.try_wait()?;
            if self.exit.is_some() {
                poll.remove(PollSource::Shell(self.number), self.process.as_fd());
            }
        }
        Ok(())
    }

    /// Takes the lines out of a starter's standard output. Others than its own are a login
    /// script's.
    fn take_refusals(&mut self) {
        let end = self.line.iter().rposition(|&byte| byte == b'\n');
        let lines: Vec<u8> = self.line.drain(..end.map_or(0, |at| at + 1)).collect();
        for line in String::from_utf8_lossy(&lines).lines() {
            match refused_nodes(line) {
                Some(nodes) => self.refused.extend(nodes),
                None => self.kept.extend_from_slice(format!("{line}\n").as_bytes()),
            }
        }
    }

    /// Those of its nodes whose agents cannot be started any more by this shell: all if it has
    /// failed, else those that its starter named.
    pub fn refused(&self) -> Vec<usize> {
        match self.has_failed() {
            true => self.nodes.clone(),
            false => {
                self.nodes.iter().copied().filter(|node| self.refused.contains(node)).collect()
            }
        }
    }

    /// Whether it runs a starter.
    pub fn is_starter(&self) -> bool {
        self.is_starter
    }

    /// One of its agents has connected. Returns whether that was the last.
    pub fn on_agent_connected(&mut self) -> bool {
        self.awaited -= 1;
        self.awaited == 0
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.exit.is_some()
    }

    /// Whether it has ended with a status other than 0.
    pub fn has_failed(&self) -> bool {
        self.exit.is_some_and(|exit| exit != Exit::Code(0))
    }

    /// Waits at most this time for its end, then reads its output and status.
    pub fn wait(&mut self, time: Duration, poll: &mut PollSet) -> io::Result<()> {
        if self.exit.is_none() {
            wait_readable(&[self.process.as_fd()], Some(time))?;
        }
        self.update(poll)
    }

    /// Kills it, with what it started.
    pub fn kill(&self) {
        if self.exit.is_none() {
            // One that runs as another user is reported by name after the others have ended.
            let _ = self.process.signal_group(signal::SIGKILL);
        }
    }

    /// How it ended: `exited with code 255`.
    pub fn ended(&self) -> Option<String> {
        self.exit.map(|exit| match exit {
            Exit::Code(code) => format!("exited with code {code}"),
            Exit::Signal { number, .. } => {
                format!("was killed by signal {number} ({})", signal_name(number))
            }
        })
    }

    /// Its name, how it ended, and its output, in lines that begin with `mpiexec: `.
    pub fn describe(&self) -> String {
        let ended = self.ended().unwrap_or_else(|| "still runs".to_owned());
        let mut text = format!("mpiexec:   `{}` {ended}", self.name);
        if self.output == ShellOutput::Inherited {
            return text + ".\n";
        }
        let said = String::from_utf8_lossy(&self.kept);
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        text.push_str(if lines.is_empty() { " and said nothing.\n" } else { " and said:\n" });
        for line in lines {
            let line = line.strip_prefix("mpiexec: ").unwrap_or(line);
            text.push_str(&format!("mpiexec:     {}\n", line.trim_end()));
        }
        text
    }
}

/// Writes to a shell's standard input. If the shell has exited already, its exit status shows that.
fn give_input(mut stdin: ChildStdin, line: String) -> io::Result<()> {
    if line.len() <= PIPE_ROOM {
        let _ = stdin.write_all(line.as_bytes());
        return Ok(());
    }
    // ssh reads its input once it has connected. A shell that is killed ends the thread.
    let write = move || drop(stdin.write_all(line.as_bytes()));
    std::thread::Builder::new().name("shell-input".to_owned()).spawn(write).map(drop)
}

/// Reads what a pipe holds, and keeps the end of it all. Returns whether more can come.
fn read_available(pipe: &mut dyn Pipe, kept: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        let ready = wait_readable(&[pipe.as_fd()], Some(Duration::ZERO));
        if !ready.is_ok_and(|ready| ready[0]) {
            return true;
        }
        match pipe.read(&mut buffer) {
            Ok(read) if read > 0 => kept.extend_from_slice(&buffer[..read]),
            _ => return false,
        }
        let excess = kept.len().saturating_sub(KEPT_MAX);
        kept.drain(..excess);
    }
}
