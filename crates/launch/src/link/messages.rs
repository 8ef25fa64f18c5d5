//! The messages between controller and agents.
//!
//! ```text
//! agent                                  controller
//!   Hello (who, where)          ->
//!                               <-       Plan (once all agents are there)
//!   Output, Ended, HangReport   <->      Input, InputEnd, End, Kill, Signal, ReportHang
//!   InputTaken, InputClosed     <->      OutputWritten, OutputClosed
//!   BarrierIn (entries)         ->
//!                               <-       BarrierOut (all entries, once all agents have come)
//!   Done (after the last rank)  ->
//!                               <-       JobOver, or the connection ends
//! ```
//!
//! Each side sends [heartbeats](crate::link::connection) besides. Flow is limited by credit: an
//! agent has at most a window of output that is not reported as `OutputWritten`, the controller a
//! window of input that is not `InputTaken`. An order of the controller may come at any time after
//! `Plan`, also one that its agent does not need any more (`Kill` after `Done`), which does
//! nothing.
//!
//! What comes is authenticated but may be wrong all the same: a decoded plan is checked
//! ([`NodeJob::is_sound`]), and ranks that are not the node's are ignored. Both sides are of one
//! version: the first bytes of the handshake name it.

use serde::{Deserialize, Serialize};

use crate::output::OutputTarget;
use crate::placement::node_job::NodeJob;
use crate::report::late::LateArrivals;
use crate::report::rank_end::{NodeReport, RankEnd};
use crate::report::traffic::CounterValues;

/// Keys and values that ranks publish for others.
pub type KvsEntries = Vec<(String, String)>;

/// What an agent's host is to the ranks of others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// [`mica_bootstrap::endpoint_record::format`].
    pub format: [u8; 8],
    /// [`mica_bootstrap::endpoint_record::machine`].
    pub network: String,
}

impl Surroundings {
    /// Those of this process.
    pub fn own() -> Surroundings {
        Surroundings {
            format: mica_bootstrap::endpoint_record::format(),
            network: mica_bootstrap::endpoint_record::machine(),
        }
    }
}

/// From an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum AgentMessage {
    /// The first message.
    Hello {
        /// The node's number, as given on the command line.
        node: Option<u32>,
        /// The host's name in Slurm.
        slurm: Option<String>,
        /// Identifies the machine.
        machine: String,
        /// What the ranks of a job must have in common, and what they reach over loopback.
        surroundings: Surroundings,
    },
    /// A heartbeat.
    Heartbeat,
    /// Output of a rank, in order.
    Output(OutputTarget, Vec<u8>),
    /// Text for the user's standard error, such as the plan.
    Say(String),
    /// Ranks have taken this many bytes of standard input.
    InputTaken(u32),
    /// No rank here reads standard input any more.
    InputClosed,
    /// Ranks that have ended, found in the same iteration.
    Ended(Vec<RankEnd>),
    /// What the ranks are waiting for.
    HangReport(NodeReport),
    /// The ranks could not be started, or the agent cannot go on.
    Failed {
        /// The exit status that this shall give.
        status: u8,
        /// What happened.
        text: String,
    },
    /// This rank has called MPI_Init. Sent once, for one of the node's ranks.
    MpiInitialized(u32),
    /// All ranks here are in a barrier; what they have put since the last one.
    BarrierIn(KvsEntries),
    /// All ranks have ended, all output is sent.
    Done {
        /// The values of their counters, if asked for.
        counters: Vec<CounterValues>,
        /// What they counted of late arrivals, if asked for.
        late: Option<LateArrivals>,
    },
}

/// To an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ControllerMessage {
    /// What to do.
    Plan(Box<NodeJob>),
    /// A heartbeat.
    Heartbeat,
    /// This many bytes of output were written.
    OutputWritten(u32),
    /// The reader of this output has gone.
    OutputClosed(OutputTarget),
    /// Standard input.
    Input(Vec<u8>),
    /// The end of standard input.
    InputEnd,
    /// Ask the ranks to end with this signal, and kill them after the grace period.
    End(i32),
    /// Kill the ranks.
    Kill,
    /// Pass on a signal.
    Signal(i32),
    /// Report what ranks wait for.
    ReportHang,
    /// All ranks of the job are in the barrier; what they have put.
    BarrierOut(KvsEntries),
    /// The job is over.
    JobOver,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::rank_end::Cause;
    use mica_node::counters::COUNTERS;
    use proptest::prelude::*;

    #[test]
    fn a_plan_survives_the_wire() {
        let plan = ControllerMessage::Plan(Box::new(NodeJob::example()));
        let bytes = postcard::to_stdvec(&plan).unwrap();
        assert_eq!(postcard::from_bytes::<ControllerMessage>(&bytes).unwrap(), plan);
    }

    fn agent_messages() -> impl Strategy<Value = AgentMessage> {
        let text = "[ -~\n]{0,40}";
        prop_oneof![
            (any::<Option<u32>>(), proptest::option::of(text), text).prop_map(
                |(node, slurm, machine)| AgentMessage::Hello {
                    node,
                    slurm,
                    machine,
                    surroundings: Surroundings::own(),
                }
            ),
            any::<Vec<u8>>().prop_map(|bytes| AgentMessage::Output(OutputTarget::Err, bytes)),
            any::<u32>().prop_map(AgentMessage::InputTaken),
            (any::<u32>(), any::<i32>()).prop_map(|(rank, code)| {
                let cause = Some(Cause::Aborted { code });
                AgentMessage::Ended(vec![RankEnd { rank, pid: 1, cause, without_init: false }])
            }),
            proptest::collection::vec((any::<u32>(), text), 0..4).prop_map(|lines| {
                let (ended, needs) = (lines.clone(), vec![(3, vec![1, 2])]);
                AgentMessage::HangReport(NodeReport { lines, ended, needs })
            }),
            proptest::collection::vec((text, text), 0..4).prop_map(AgentMessage::BarrierIn),
            proptest::option::of(Just(LateArrivals::default())).prop_map(|late| {
                AgentMessage::Done { counters: vec![CounterValues([3; COUNTERS])], late }
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(message in agent_messages()) {
            let bytes = postcard::to_stdvec(&message).unwrap();
            prop_assert_eq!(postcard::from_bytes::<AgentMessage>(&bytes).unwrap(), message);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = postcard::from_bytes::<AgentMessage>(&bytes);
            if let Ok(ControllerMessage::Plan(job)) = postcard::from_bytes(&bytes) {
                let _ = job.is_sound();
            }
        }
    }
}
