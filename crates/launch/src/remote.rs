//! The commands that start agents on hosts, and the output of these commands.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mica_node::process::{ChildProcess, ChildSetup, Exit, signal, wait_readable};

use crate::auth::JobKey;
use crate::options::{Agent, AgentLauncher};
use crate::output::Pipe;
use crate::placement::{JobNodes, is_this_machine};
use crate::poll_set::{PollSet, Source};
use crate::rank_end::signal_name;

/// A command that starts an agent, or, with Slurm, all of them.
#[derive(Debug, PartialEq)]
pub struct AgentCommand {
    /// The nodes whose agents it starts.
    pub nodes: Vec<usize>,
    /// The node whose secret it gets; `None`: one for all of them, since srun gives all the same
    /// input.
    pub secret_of: Option<u32>,
    /// The command.
    pub command: Vec<OsString>,
}

/// ssh must not prompt: there may be no user to answer.
const SSH: [&str; 4] = ["ssh", "-x", "-o", "BatchMode=yes"];

/// The commands for a job's nodes: the remote shell with `extra` arguments. `agent` is the agent's
/// command line for a node.
pub fn commands(
    nodes: &JobNodes,
    shell: Option<&[String]>,
    extra: &[String],
    program: &Path,
    agent: &dyn Fn(Option<u32>) -> Agent,
) -> Vec<AgentCommand> {
    let agent = |node| {
        let arguments = agent(node).arguments().into_iter().map(OsString::from);
        std::iter::once(program.as_os_str().to_owned())
            .chain(arguments)
            .collect::<Vec<_>>()
    };
    let words = |default: &[&str]| -> Vec<OsString> {
        match shell {
            Some(words) => words.iter().map(OsString::from).collect(),
            None => default.iter().map(OsString::from).collect(),
        }
    };
    if nodes.launcher == AgentLauncher::Srun {
        let mut command = words(&["srun"]);
        let count = nodes.nodes.len();
        let names: Vec<&str> = nodes.nodes.iter().map(|node| node.host.as_str()).collect();
        // One agent per host, with all of the host's processors; it binds the ranks itself.
        command.extend([
            format!("--nodes={count}").into(),
            format!("--ntasks={count}").into(),
            "--ntasks-per-node=1".into(),
            format!("--nodelist={}", names.join(",")).into(),
            "--mpi=none".into(),
            "--cpu-bind=none".into(),
            "--overlap".into(),
            // Each agent reads the secret, whatever SLURM_STDINMODE says.
            "--input=all".into(),
        ]);
        command.extend(extra.iter().map(OsString::from));
        command.extend(agent(None));
        let nodes = (0..count).collect();
        return vec![AgentCommand {
            nodes,
            secret_of: None,
            command,
        }];
    }
    let start = |(index, node): (usize, &crate::placement::NodeRanks)| {
        let agent = agent(Some(index as u32));
        let forked = nodes.launcher == AgentLauncher::Fork || is_this_machine(&node.host);
        if shell.is_none() && forked {
            return AgentCommand {
                nodes: vec![index],
                secret_of: Some(index as u32),
                command: agent,
            };
        }
        let mut command = words(&SSH);
        let is_ssh = Path::new(&command[0])
            .file_name()
            .is_some_and(|name| name == "ssh");
        command.extend(extra.iter().map(OsString::from));
        command.push(OsString::from(&node.host));
        match is_ssh {
            // ssh joins all words into one line, and a shell on the host splits it again.
            true => command.push(quoted(&agent)),
            false => command.extend(agent),
        }
        AgentCommand {
            nodes: vec![index],
            secret_of: Some(index as u32),
            command,
        }
    };
    nodes.nodes.iter().enumerate().map(start).collect()
}

/// A command as one line for a shell.
fn quoted(words: &[OsString]) -> OsString {
    let mut line = OsString::from("exec");
    for word in words {
        line.push(" '");
        let mut parts = word.to_string_lossy().into_owned();
        parts = parts.replace('\'', r"'\''");
        line.push(parts);
        line.push("'");
    }
    line
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
    said: Vec<u8>,
    exit: Option<Exit>,
}

/// Bytes of a remote shell's output that are kept.
const SAID_MAX: usize = 8192;

impl RemoteShell {
    /// Starts the remote shell with this number and gives it the secret of its node.
    pub fn start(number: u32, start: AgentCommand, key: &JobKey) -> io::Result<RemoteShell> {
        let mut command = Command::new(&start.command[0]);
        command
            .args(&start.command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = ChildProcess::spawn(&mut command, ChildSetup::default())?;
        if let Some(mut stdin) = process.stdin.take() {
            // If the shell has exited already, its exit status shows that. The pipe has room for a
            // line.
            let _ =
                stdin.write_all(format!("{}\n", key.secret(start.secret_of).to_hex()).as_bytes());
        }
        let pipes = [
            process.stderr.take().map(|pipe| Box::new(pipe) as _),
            process.stdout.take().map(|pipe| Box::new(pipe) as _),
        ];
        let own = start.command.iter().position(|word| word == "--agent");
        let shown = &start.command[..own.map_or(start.command.len() - 1, |at| at - 1)];
        let mut name = crate::plan::command_line(shown);
        if name.is_empty() {
            name = "mpiexec --agent".to_owned();
        }
        Ok(RemoteShell {
            nodes: start.nodes,
            number,
            name,
            process,
            pipes,
            said: Vec::new(),
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
                let source = Source::ShellOutput(2 * self.number + which as u32);
                poll.add(source, pipe.as_fd());
            }
        }
        poll.add(Source::Shell(self.number), self.process.as_fd());
    }

    /// Reads its output, and checks whether it has ended. What is closed is no source any more.
    pub fn look(&mut self, poll: &mut PollSet) -> io::Result<()> {
        for which in 0..self.pipes.len() {
            if let Some(pipe) = &mut self.pipes[which]
                && !read_available(pipe.as_mut(), &mut self.said)
            {
                let source = Source::ShellOutput(2 * self.number + which as u32);
                poll.remove(source, pipe.as_fd());
                self.pipes[which] = None;
            }
        }
        if self.exit.is_none() {
            self.exit = self.process.try_wait()?;
            if self.exit.is_some() {
                poll.remove(Source::Shell(self.number), self.process.as_fd());
            }
        }
        Ok(())
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
        self.look(poll)
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
        let said = String::from_utf8_lossy(&self.said);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        text.push_str(if lines.is_empty() {
            " and said nothing.\n"
        } else {
            " and said:\n"
        });
        for line in lines {
            text.push_str(&format!("mpiexec:     {}\n", line.trim_end()));
        }
        text
    }
}

/// Reads what a pipe holds, and keeps the end of it all. Returns whether more can come.
fn read_available(pipe: &mut dyn Pipe, said: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        let ready = wait_readable(&[pipe.as_fd()], Some(Duration::ZERO));
        if !ready.is_ok_and(|ready| ready[0]) {
            return true;
        }
        match pipe.read(&mut buffer) {
            Ok(read) if read > 0 => said.extend_from_slice(&buffer[..read]),
            _ => return false,
        }
        let excess = said.len().saturating_sub(SAID_MAX);
        said.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::NodeRanks;

    fn lines(launcher: AgentLauncher, hosts: &[&str], shell: Option<&str>) -> Vec<String> {
        lines_with(launcher, hosts, shell, &[])
    }

    fn lines_with(
        launcher: AgentLauncher,
        hosts: &[&str],
        shell: Option<&str>,
        extra: &[String],
    ) -> Vec<String> {
        let node = |host: &&str| NodeRanks {
            host: host.to_string(),
            members: vec![0],
        };
        let nodes = JobNodes {
            launcher,
            nodes: hosts.iter().map(node).collect(),
        };
        let shell: Option<Vec<String>> =
            shell.map(|words| words.split(' ').map(str::to_owned).collect());
        let agent = |node| Agent {
            addresses: vec!["10.0.0.1:5".parse().unwrap()],
            node,
        };
        let starts = commands(
            &nodes,
            shell.as_deref(),
            extra,
            Path::new("/a b/it's"),
            &agent,
        );
        let line = |start: AgentCommand| crate::plan::command_line(&start.command);
        starts.into_iter().map(line).collect()
    }

    #[test]
    fn ssh_gets_one_quoted_line() {
        let wanted = r"ssh -x -o BatchMode=yes h exec '/a b/it'\''s' '--agent' '10.0.0.1:5' '0'";
        assert_eq!(lines(AgentLauncher::Ssh, &["h"], None), [wanted]);
        let own = lines(AgentLauncher::Ssh, &["h"], Some("/usr/bin/ssh -p 2222"));
        assert!(
            own[0].starts_with("/usr/bin/ssh -p 2222 h exec '/a b"),
            "{own:?}"
        );
        let mixed = lines(AgentLauncher::Ssh, &["h", "localhost"], None);
        assert_eq!(
            mixed[1], "/a b/it's --agent 10.0.0.1:5 1",
            "this machine needs no ssh"
        );
    }

    #[test]
    fn more_arguments_come_before_the_host() {
        let extra = ["-p".to_owned(), "2222".to_owned()];
        let ssh = lines_with(AgentLauncher::Ssh, &["h"], None, &extra);
        assert!(
            ssh[0].starts_with("ssh -x -o BatchMode=yes -p 2222 h exec"),
            "{ssh:?}"
        );
        let srun = lines_with(AgentLauncher::Srun, &["h"], None, &extra);
        assert!(
            srun[0].contains("--overlap --input=all -p 2222 /a b"),
            "{srun:?}"
        );
    }

    #[test]
    fn other_shells_get_words() {
        let words = lines(AgentLauncher::Ssh, &["n1", "n2"], Some("ip netns exec"));
        assert_eq!(words[1], "ip netns exec n2 /a b/it's --agent 10.0.0.1:5 1");
        let forked = lines(AgentLauncher::Fork, &["n1"], None);
        assert_eq!(forked, ["/a b/it's --agent 10.0.0.1:5 0"]);
    }

    #[test]
    fn slurm_starts_all_at_once() {
        let words = lines(AgentLauncher::Srun, &["n1", "n2"], None);
        assert_eq!(
            words,
            [
                "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=n1,n2 --mpi=none \
              --cpu-bind=none --overlap --input=all /a b/it's --agent 10.0.0.1:5 slurm"
            ]
        );
    }
}
