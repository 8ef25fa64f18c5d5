//! What head and agents say to each other, and a node's part of a job as the head gives it to an
//! agent.
//!
//! ```text
//! agent                                  head
//!   Hello (who, where)          ->
//!                               <-       Plan (once all agents are there)
//!   Output, Ended, Hang, ...    <->      Input, End, Signal, Report, ...
//!   BarrierIn (puts)            ->
//!                               <-       BarrierOut (all puts, once all agents have come)
//!   Done (after the last rank)  ->
//!                               <-       Bye, or the connection ends
//! ```

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::Duration;

use mica_node::handover::nonce;
use mica_node::process::host_name;
use serde::{Deserialize, Serialize};

use crate::binding::Binding;
use crate::environment::Inherit;
use crate::late::LateArrivals;
use crate::options::{JobOptions, ProgramSection};
use crate::output::is_one_file;
use crate::pattern::PatternRank;
use crate::plan::{Grant, Widths};
use crate::rank_set::RankSet;
use crate::redirect::OutputRules;
use crate::report::Cause;
use crate::tool::Tool;
use crate::traffic::Sent;

/// What makes ranks use the network among themselves.
const NET: &str = "MICA_NET";

/// A node's part of a job: all that it takes to run its ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeJob {
    /// The name of this host in the job.
    pub host: String,
    /// Ranks on all nodes.
    pub size: u32,
    /// The ranks on this node, rising.
    pub members: Vec<u32>,
    /// Number in `sections` of each of them.
    pub section_of: Vec<u32>,
    /// The programs of the job.
    pub sections: Vec<ProgramSection>,
    /// What all ranks get in their environment, the sections' own after it.
    pub environment: Vec<(OsString, OsString)>,
    /// The head's own environment, for those that inherit it.
    pub inherited: Vec<(OsString, OsString)>,
    /// What ranks get of the launcher's environment, unless their section says otherwise.
    pub inherit: Inherit,
    /// The directory of programs that say none; `None` for that of this process.
    pub directory: Option<OsString>,
    /// Labels and files for output.
    pub output: OutputRules,
    /// The ranks that get standard input.
    pub input: RankSet,
    /// Commands that ranks' programs are started under.
    pub tools: Vec<Tool>,
    /// Standard output and standard error lead to the same file, and stay one stream.
    pub one_stream: bool,
    /// Say what is started.
    pub verbose: bool,
    /// Time between asking ranks to end and killing them.
    pub grace: Duration,
    /// Say what each rank is bound to.
    pub report_bindings: bool,
    /// Where ranks run.
    pub binding: Binding,
    /// Cores of each rank, by section.
    pub widths: Widths,
    /// What the head allows of this machine's processors; `None`: this process finds out.
    pub grant: Option<Grant>,
    /// Number of this node in the job.
    pub node: u32,
    /// All ranks of the job on this machine: several virtual nodes share its cores.
    pub machine_ranks: u32,
    /// The first of them that is here.
    pub machine_first: u32,
    /// Report what the ranks sent when they have ended.
    pub traffic: bool,
    /// Report what they counted of late arrivals.
    pub late: bool,
    /// Ranks need a process manager to meet (PMI).
    pub pmi: bool,
    /// What tells this job from others that ranks may have on the same hosts.
    pub name: String,
    /// The interface that ranks shall use: its name, or "" for the one by which the head is
    /// reached.
    pub interface: Option<String>,
    /// The head is lost when it is silent for so long.
    pub host_timeout: Duration,
}

impl NodeJob {
    /// The whole job on this node.
    pub fn all_here(options: &JobOptions) -> NodeJob {
        let ranks = options.ranks();
        NodeJob::part(options, (0..ranks as u32).collect())
    }

    /// The part of these ranks. What the head alone knows is left as for a job on one node.
    pub fn part(options: &JobOptions, members: Vec<u32>) -> NodeJob {
        let sections = options.sections.iter().zip(0..);
        let section_of: Vec<u32> = sections
            .flat_map(|(section, number)| std::iter::repeat_n(number, section.ranks))
            .collect();
        NodeJob {
            host: host_name(),
            size: section_of.len() as u32,
            section_of: members
                .iter()
                .map(|&rank| section_of[rank as usize])
                .collect(),
            sections: options.sections.clone(),
            environment: environment(options),
            inherited: Vec::new(),
            inherit: options.inherit.clone(),
            directory: None,
            output: options.output.clone(),
            input: options.input.clone(),
            tools: options.tools.clone(),
            one_stream: is_one_file(),
            verbose: options.verbose,
            grace: options.grace,
            report_bindings: options.report_bindings,
            binding: options.binding.clone(),
            widths: Widths::of(options),
            grant: None,
            node: 0,
            machine_ranks: members.len() as u32,
            machine_first: 0,
            traffic: false,
            late: false,
            // Over a network, even on one node, ranks have addresses to tell each other.
            pmi: options.sets(NET, "loopback"),
            name: job_name().to_owned(),
            interface: None,
            host_timeout: options.host_timeout,
            members,
        }
    }

    /// Whether a rank gets standard input.
    pub fn takes_input(&self, rank: u32) -> bool {
        self.input.contains(rank)
    }

    /// Whom output patterns are filled in for.
    pub fn pattern_rank(&self, rank: u32) -> PatternRank {
        PatternRank {
            rank,
            size: self.size,
            node: self.node,
            host: self.host.clone(),
        }
    }

    /// Whether the parts fit together, so that no index into them can fail.
    pub fn is_sound(&self) -> bool {
        let sections = self.sections.len() as u32;
        self.members.len() == self.section_of.len()
            && !self.members.is_empty()
            && self.members.is_sorted_by(|a, b| a < b)
            && self.members.iter().all(|&rank| rank < self.size)
            && self.section_of.iter().all(|&number| number < sections)
            && self.sections.iter().all(|s| !s.command.is_empty())
            && self.widths.are_for(self.sections.len())
            && self.machine_first as usize + self.members.len() <= self.machine_ranks as usize
    }
}

/// The environment that the command line gives to all ranks, and what follows from its other
/// options.
fn environment(options: &JobOptions) -> Vec<(OsString, OsString)> {
    let mut all = Vec::new();
    if let Some((low, high)) = options.ports {
        // libfabric's; what the user sets comes after it.
        let names = [
            ("FI_TCP_PORT_LOW_RANGE", low),
            ("FI_TCP_PORT_HIGH_RANGE", high),
        ];
        let unset = names
            .into_iter()
            .filter(|(name, _)| std::env::var_os(name).is_none());
        all.extend(unset.map(|(name, port)| (name.into(), port.to_string().into())));
    }
    all.extend(options.environment.iter().cloned());
    all
}

/// The name of this mpiexec's job. Other libraries name what their ranks share after it (MPICH a
/// file in /dev/shm, which a killed job leaves behind), so host and process are not enough:
/// containers may share that folder and count processes anew.
fn job_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let nonce = nonce().map_or(0, |bytes| u64::from_le_bytes(first_half(bytes)));
        format!("kvs_{}_{}_{nonce:016x}", host_name(), std::process::id())
    })
}

fn first_half(bytes: [u8; 16]) -> [u8; 8] {
    std::array::from_fn(|at| bytes[at])
}

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputTarget {
    /// The launcher's standard output.
    Out,
    /// The launcher's standard error.
    Err,
}

/// A rank that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RankEnd {
    /// The rank.
    pub rank: u32,
    /// Its process.
    pub pid: u32,
    /// Why it counts as failed, if it does.
    pub cause: Option<Cause>,
    /// It exited with 0 and never called MPI_Init: right, unless other ranks do.
    pub without_init: bool,
}

/// What a node says in a hang report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Of each rank that runs: what it waits for, in lines that end.
    pub lines: Vec<(u32, String)>,
    /// Of each rank that has ended: how.
    pub ended: Vec<(u32, String)>,
}

/// Keys and values that ranks put where others can get them.
pub type Puts = Vec<(String, String)>;

/// From an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Up {
    /// The first message.
    Hello {
        /// The node's number, as the command line said.
        node: Option<u32>,
        /// The host's name in Slurm.
        slurm: Option<String>,
        /// What tells machines apart.
        machine: String,
    },
    /// A sign of life.
    Beat,
    /// Output of a rank, in order.
    Output(OutputTarget, Vec<u8>),
    /// What the plan looks like here.
    Say(String),
    /// The rank has taken so many bytes of standard input.
    InputTaken(u32),
    /// It does not read any more.
    InputClosed,
    /// Ranks that have ended, found at the same time.
    Ended(Vec<RankEnd>),
    /// What the ranks are waiting for.
    Hang(NodeReport),
    /// The ranks could not be started, or the agent cannot go on.
    Failed {
        /// The exit status that this shall give.
        status: u8,
        /// What happened.
        text: String,
    },
    /// This rank has called MPI_Init. Said once, of one of the node's ranks.
    InWorld(u32),
    /// All ranks here are in a barrier; what they put since the last.
    BarrierIn(Puts),
    /// All ranks have ended, all output is sent.
    Done {
        /// What they sent, if asked for.
        sent: Vec<Sent>,
        /// What they counted of late arrivals, if asked for.
        late: Option<LateArrivals>,
    },
}

/// To an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Down {
    /// What to do.
    Plan(Box<NodeJob>),
    /// A sign of life.
    Beat,
    /// So many bytes of output were written.
    Written(u32),
    /// Nobody reads this output any more.
    Closed(OutputTarget),
    /// Standard input.
    Input(Vec<u8>),
    /// Its end.
    InputEnd,
    /// Ask the ranks to end with this signal, and kill them after the grace.
    End(i32),
    /// Kill the ranks.
    Kill,
    /// Pass on a signal.
    Signal(i32),
    /// Say what ranks wait for.
    Report,
    /// The head will be silent: it is being stopped.
    Pause,
    /// It is back.
    Resume,
    /// All ranks of the job are in the barrier; what they put.
    BarrierOut(Puts),
    /// The job is over.
    Bye,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{CommandRequest, parse};
    use proptest::prelude::*;

    fn job() -> NodeJob {
        let line = "-n 2 --bind-to user:0+2,1 --map-by l3 -x A=1 -genvlist P,Q -l -s 1 -env B 2 a b : -n 3 -wdir / -envnone c";
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match parse(&words).unwrap() {
            CommandRequest::Run(options) => NodeJob::part(&options, vec![1, 4]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_part_knows_its_programs() {
        let job = job();
        assert_eq!((job.size, &job.section_of[..]), (5, &[0, 1][..]));
        assert_eq!(job.sections[1].command, ["c"]);
        assert!(job.takes_input(1) && !job.takes_input(4) && job.is_sound());
    }

    #[test]
    fn a_plan_survives_the_wire() {
        let plan = Down::Plan(Box::new(job()));
        let bytes = postcard::to_stdvec(&plan).unwrap();
        assert_eq!(postcard::from_bytes::<Down>(&bytes).unwrap(), plan);
    }

    fn ups() -> impl Strategy<Value = Up> {
        let text = "[ -~\n]{0,40}";
        prop_oneof![
            (any::<Option<u32>>(), proptest::option::of(text), text).prop_map(
                |(node, slurm, machine)| Up::Hello {
                    node,
                    slurm,
                    machine
                }
            ),
            any::<Vec<u8>>().prop_map(|bytes| Up::Output(OutputTarget::Err, bytes)),
            any::<u32>().prop_map(Up::InputTaken),
            (any::<u32>(), any::<i32>()).prop_map(|(rank, code)| {
                let cause = Some(Cause::Aborted { code });
                Up::Ended(vec![RankEnd {
                    rank,
                    pid: 1,
                    cause,
                    without_init: false,
                }])
            }),
            proptest::collection::vec((any::<u32>(), text), 0..4).prop_map(|lines| {
                let ended = lines.clone();
                Up::Hang(NodeReport { lines, ended })
            }),
            proptest::collection::vec((text, text), 0..4).prop_map(Up::BarrierIn),
            proptest::option::of(Just(LateArrivals::default())).prop_map(|late| Up::Done {
                sent: vec![Default::default()],
                late
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(message in ups()) {
            let bytes = postcard::to_stdvec(&message).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Up>(&bytes).unwrap(), message);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = postcard::from_bytes::<Up>(&bytes);
            if let Ok(Down::Plan(job)) = postcard::from_bytes(&bytes) {
                let _ = job.is_sound();
            }
        }
    }
}
