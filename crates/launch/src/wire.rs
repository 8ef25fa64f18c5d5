//! What head and agents say to each other, and a node's part of a job as the head gives it to an agent.
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
use std::time::Duration;

use mica_node::process::host_name;
use mica_node::topology::{BindTo, MapBy};
use serde::{Deserialize, Serialize};

use crate::late::Late;
use crate::options::{Options, Section};
use crate::output::is_one_file;
use crate::report::Cause;
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
    pub sections: Vec<Section>,
    /// What all ranks get in their environment, the sections' own after it.
    pub environment: Vec<(OsString, OsString)>,
    /// The directory of programs that say none; `None` for that of this process.
    pub directory: Option<OsString>,
    /// Label lines of output.
    pub label: bool,
    /// Standard output and standard error lead to the same file, and stay one stream.
    pub one_stream: bool,
    /// Say what is started.
    pub verbose: bool,
    /// Time between asking ranks to end and killing them.
    pub grace: Duration,
    /// Binding.
    #[serde(with = "bind_word")]
    pub bind: Option<BindTo>,
    /// The order in which ranks take cores.
    #[serde(with = "MapWord")]
    pub map: MapBy,
    /// All ranks of the job on this machine: several virtual nodes share its cores.
    pub machine_ranks: u32,
    /// The first of them that is here.
    pub machine_first: u32,
    /// Standard input goes to this node's first rank (which then is rank 0).
    pub takes_input: bool,
    /// Report what the ranks sent when they have ended.
    pub traffic: bool,
    /// Report what they counted of late arrivals.
    pub late: bool,
    /// Ranks need a process manager to meet (PMI).
    pub pmi: bool,
    /// What tells this job from others that ranks may have on the same hosts.
    pub name: String,
    /// The interface that ranks shall use: its name, or "" for the one by which the head is reached.
    pub interface: Option<String>,
    /// The head is lost when it is silent for so long.
    pub host_timeout: Duration,
}

impl NodeJob {
    /// The whole job on this node.
    pub fn all_here(options: &Options) -> NodeJob {
        let ranks = options.ranks();
        NodeJob::part(options, (0..ranks as u32).collect())
    }

    /// The part of these ranks. What the head alone knows is left as for a job on one node.
    pub fn part(options: &Options, members: Vec<u32>) -> NodeJob {
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
            environment: options.environment.clone(),
            directory: None,
            label: options.label,
            one_stream: is_one_file(),
            verbose: options.verbose,
            grace: options.grace,
            bind: options.bind,
            map: options.map,
            machine_ranks: members.len() as u32,
            machine_first: 0,
            takes_input: members.first() == Some(&0),
            traffic: false,
            late: false,
            // Over a network, even on one node, ranks have addresses to tell each other.
            pmi: options.sets(NET, "loopback"),
            name: format!("kvs_{}_{}", host_name(), std::process::id()),
            interface: None,
            host_timeout: options.host_timeout,
            members,
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
            && self.machine_first as usize + self.members.len() <= self.machine_ranks as usize
    }
}

/// Where output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
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
    Output(Target, Vec<u8>),
    /// What the plan looks like here.
    Say(String),
    /// The rank has taken so many bytes of standard input.
    InputTaken(u32),
    /// It does not read any more.
    InputClosed,
    /// Ranks that have ended, found at the same time.
    Ended(Vec<RankEnd>),
    /// What the ranks that run are waiting for, a line each.
    Hang(Vec<(u32, String)>),
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
        late: Option<Late>,
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

#[derive(Serialize, Deserialize)]
#[serde(remote = "MapBy")]
enum MapWord {
    Core,
    Package,
    Numa,
    SharedCache,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "BindTo")]
enum BindWord {
    Core,
    None,
}

/// [`BindWord`] in an option.
mod bind_word {
    use super::{BindTo, BindWord};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Word(#[serde(with = "BindWord")] BindTo);

    pub fn serialize<S: Serializer>(bind: &Option<BindTo>, to: S) -> Result<S::Ok, S::Error> {
        bind.map(Word).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BindTo>, D::Error> {
        Ok(Option::deserialize(from)?.map(|Word(bind)| bind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Request, parse};
    use proptest::prelude::*;

    fn job() -> NodeJob {
        let line = "-n 2 --bind-to none --map-by l3 -x A=1 -env B 2 a b : -n 3 -wdir / c";
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match parse(&words).unwrap() {
            Request::Run(options) => NodeJob::part(&options, vec![1, 4]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_part_knows_its_programs() {
        let job = job();
        assert_eq!((job.size, &job.section_of[..]), (5, &[0, 1][..]));
        assert_eq!(job.sections[1].command, ["c"]);
        assert!(!job.takes_input && job.is_sound());
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
            any::<Vec<u8>>().prop_map(|bytes| Up::Output(Target::Err, bytes)),
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
            proptest::collection::vec((any::<u32>(), text), 0..4).prop_map(Up::Hang),
            proptest::collection::vec((text, text), 0..4).prop_map(Up::BarrierIn),
            proptest::option::of(Just(Late::default())).prop_map(|late| Up::Done {
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
