//! Where a replay gets its profile and its cluster from.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use mica_sim::loggp::Parameters;
use mica_sim::machine::SimulatedMachine;
use mica_sim::replay::ReplayCluster;

use crate::loggp::read_fit;
use crate::origin::ResultOrigin;

/// The network, and the ranks of a node.
#[derive(Args)]
pub struct ClusterOptions {
    /// LogGP parameters between nodes: the loggp.json of `mica loggp`. With --machine only the
    /// overheads, which a machine's file does not have, are taken from it.
    #[arg(long, value_name = "FILE")]
    loggp: Option<PathBuf>,
    /// The network of this machine: a name of a shipped one, or a TOML file.
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Another value for a key of the machine, such as network.latency_ns=500.
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "machine")]
    set: Vec<String>,
    /// Consecutive ranks that share a node.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: u32,
    /// LogGP parameters within a node, from `mica loggp`; the default is those between nodes.
    #[arg(long, value_name = "FILE")]
    node_loggp: Option<PathBuf>,
}

impl ClusterOptions {
    /// Where a prediction comes from.
    pub fn origin(&self) -> ResultOrigin {
        match (&self.machine, &self.loggp) {
            (Some(machine), _) => ResultOrigin::simulated(machine),
            (None, Some(file)) => {
                let network = format!("the LogGP parameters of {}", file.display());
                ResultOrigin::simulated(&network)
            }
            (None, None) => ResultOrigin::without_messages(),
        }
    }

    /// The cluster, and what to say of it.
    pub fn cluster(&self) -> Result<(ReplayCluster, Vec<String>), Box<dyn Error>> {
        let mut notes = Vec::new();
        let measured = self.loggp.as_deref().map(read_fit).transpose()?;
        let measured = measured.map(|fit| fit.parameters);
        let mut cluster = match (&self.machine, measured) {
            (Some(name), overheads) => {
                let machine = SimulatedMachine::with(name, &self.set)?;
                if overheads.is_none() {
                    notes.push(
                        "Without --loggp the library's own instructions take no time: overheads \
                         are those of the machine's file."
                            .to_owned(),
                    );
                }
                ReplayCluster::of_machine(&machine, &of_the_processor(overheads))
            }
            (None, Some(parameters)) => ReplayCluster::of(parameters),
            (None, None) => {
                return Err("which network? --loggp FILE (written by mica loggp) or --machine \
                            MACHINE"
                    .into());
            }
        };
        cluster.ranks_per_node = self.ranks_per_node;
        cluster.node = match &self.node_loggp {
            Some(file) => read_fit(file)?.parameters,
            None => cluster.network,
        };
        Ok((cluster, notes))
    }
}

/// The overheads alone.
fn of_the_processor(measured: Option<Parameters>) -> Parameters {
    let measured = measured.unwrap_or_default();
    Parameters {
        send_overhead: measured.send_overhead,
        receive_overhead: measured.receive_overhead,
        ..Parameters::default()
    }
}
