//! A node's process: `qemu-x86_64` with the plugin, and the simulator's end of its port.

use std::error::Error;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use mica_node::adapter::{ADAPTER_VARIABLE, AdapterMemory};
use mica_node::segment::PREFIX_VARIABLE;
use mica_node::tunables;
use mica_sim::port::{ClockReport, NodePort, NodeSetup, TimeGrant};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use super::program;
use crate::explain::prefix;

/// Name of the emulator.
const EMULATOR: &str = "qemu-x86_64";

/// Folders of libraries that the loader looks into before a program's RUNPATH.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// How a node's process is started.
#[derive(Debug)]
pub struct NodeCommand {
    emulator: PathBuf,
    plugin: PathBuf,
    /// The installation, which the library reads its tuning file from.
    prefix: PathBuf,
    program: PathBuf,
    arguments: Vec<String>,
    /// Where the program's standard output goes, if not to the simulator's.
    output: Option<File>,
}

impl NodeCommand {
    /// The process for this program and its arguments.
    ///
    /// # Errors
    /// When the emulator, the plugin or the program is missing, or the program is of a kind that
    /// cannot be simulated.
    pub fn new(program: &[String]) -> Result<NodeCommand, Box<dyn Error>> {
        let emulator = program::in_path(EMULATOR)
            .ok_or("qemu-x86_64 is not in PATH; install QEMU's user-mode emulator (qemu-user)")?;
        let prefix = prefix().ok_or("cannot find the installation of this command")?;
        let plugin = prefix.join("lib/libmica_sim_plugin.so");
        if !plugin.is_file() {
            return Err(format!("{}: missing from this installation", plugin.display()).into());
        }
        Ok(NodeCommand {
            emulator,
            plugin,
            program: program::find(&program[0], &prefix.join("lib"))?,
            prefix,
            arguments: program[1..].to_vec(),
            output: None,
        })
    }

    /// The same with the standard output of all nodes' programs in a file, which is emptied.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn with_output(self, file: &Path) -> io::Result<NodeCommand> {
        // Nodes write at the file's end, wherever others have written.
        File::create(file)?;
        let output = File::options().append(true).open(file)?;
        Ok(NodeCommand { output: Some(output), ..self })
    }

    /// Starts the process of the node with this setup.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(&self, setup: &NodeSetup) -> io::Result<NodeProcess> {
        let (ours, theirs) = UnixStream::pair()?;
        let (device, _) = AdapterMemory::create(setup.rank, setup.size)?;
        let port = inherited(theirs, PORT)?;
        let adapter = inherited(device, ADAPTER)?;
        let (port_fd, adapter_fd) = (port.as_raw_fd(), adapter.as_raw_fd());
        let mut command = Command::new(&self.emulator);
        command
            .args(["-cpu", "max", "-seed", &setup.seed.to_string(), "-plugin"])
            .arg(format!("{},port={port_fd},adapter={adapter_fd}", self.plugin.display()))
            .arg(&self.program)
            .args(&self.arguments);
        for (name, _) in std::env::vars_os() {
            if is_of_a_job(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command.env(PREFIX_VARIABLE, &self.prefix);
        // The library of this installation alone knows the adapter. The program may have been
        // linked with another one of the same ABI, which its RUNPATH names.
        let mut folders = vec![self.prefix.join("lib")];
        folders.extend(std::env::var_os(LIBRARY_PATH).iter().flat_map(std::env::split_paths));
        command.env(LIBRARY_PATH, std::env::join_paths(folders).map_err(io::Error::other)?);
        command.env(ADAPTER_VARIABLE, adapter_fd.to_string());
        if let Some(output) = &self.output {
            command.stdout(output.try_clone()?);
        }
        let child = command.spawn()?;
        let mut port = NodePort::new(ours);
        port.send(setup)?;
        Ok(NodeProcess { child, port })
    }
}

/// Numbers from which the descriptors of a node's process are counted: a program sees them, so they
/// are the same in every run.
const PORT: i32 = 500;
const ADAPTER: i32 = 600;

/// A duplicate from number `least` on that a process inherits.
fn inherited(descriptor: impl AsFd, least: i32) -> io::Result<OwnedFd> {
    let duplicate = fcntl_dupfd_cloexec(descriptor, least)?;
    fcntl_setfd(&duplicate, FdFlags::empty())?;
    Ok(duplicate)
}

/// Whether a variable says how the simulator itself was started. Its nodes do not see it: they
/// belong to another job, and their environment, whose length moves their stacks, is the same
/// however they are started.
fn is_of_a_job(name: &str) -> bool {
    let of_launchers =
        ["PMI_", "PMIX_", "OMPI_", "PRTE_", "HYDI_", "HYDRA_", "SLURM_", "MPI_LOCAL"];
    let is_tunable = || {
        let mut variables = tunables::all().iter().flat_map(|tunable| tunable.variables());
        variables.any(|variable| variable == name)
    };
    name == "_"
        || name.starts_with("MICA_") && !is_tunable()
        || of_launchers.iter().any(|prefix| name.starts_with(prefix))
}

/// A node's process; killed when it is dropped.
#[derive(Debug)]
pub struct NodeProcess {
    child: Child,
    port: NodePort<UnixStream>,
}

impl NodeProcess {
    /// Lets the node go on.
    pub fn grant(&mut self, grant: &TimeGrant) -> io::Result<()> {
        self.port.send(grant)
    }

    /// Waits for the node's report.
    pub fn report(&mut self) -> io::Result<ClockReport> {
        self.port.receive()
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // An error means that it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
