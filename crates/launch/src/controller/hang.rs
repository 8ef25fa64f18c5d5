//! The hang report of a job on several nodes: the agents are asked, and report for their ranks.

use super::*;

/// Time for agents to answer.
const REPORT_TIME: Duration = Duration::from_secs(5);

impl AgentPool<'_> {
    /// Asks all agents to report what their ranks wait for.
    pub(super) fn ask_for_report(&mut self, job: &mut JobLoop<'_>, then: AfterReport) {
        let awaited = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_running()).collect();
        let before = self.report.as_ref().map(|report| report.then);
        self.report = Some(PendingReport {
            all: NodeReport::default(),
            awaited,
            then: if before == Some(AfterReport::End) { AfterReport::End } else { then },
        });
        job.deadlines.set(Deadline::AgentAnswers, Instant::now() + REPORT_TIME);
        self.send_to_running(&ControllerMessage::ReportHang);
        self.finish_report(job);
    }

    pub(super) fn on_hang_answer(
        &mut self,
        job: &mut JobLoop<'_>,
        node: usize,
        answer: NodeReport,
    ) {
        if let Some(report) = &mut self.report {
            report.all.lines.extend(answer.lines);
            report.all.ended.extend(answer.ended);
            report.all.needs.extend(answer.needs);
            report.awaited.remove(&node);
        }
        self.finish_report(job);
    }

    /// The time for answers is over.
    pub(super) fn on_answers_due(&mut self, job: &mut JobLoop<'_>) {
        if let Some(report) = &mut self.report {
            report.awaited.clear();
        }
        self.finish_report(job);
    }

    /// Prints the report if all agents have answered, or their time is over.
    fn finish_report(&mut self, job: &mut JobLoop<'_>) {
        let Some(mut report) = self.report.take_if(|report| report.awaited.is_empty()) else {
            return;
        };
        job.deadlines.clear(Deadline::AgentAnswers);
        let all = &mut report.all;
        // An agent whose ranks have all ended is not asked any more.
        let is_over = |node: &&AgentNode| matches!(node.state, AgentState::Over(_));
        let ranks = self.nodes.iter().filter(is_over).flat_map(|node| &node.members);
        all.ended.extend(ranks.map(|&rank| (rank, "exited with code 0".to_owned())));
        all.lines.sort_by_key(|(rank, _)| *rank);
        job.owner.say(hang_report(self.alive.len() as u32, all));
        for node in self.missing(&(0..self.nodes.len()).collect::<Vec<_>>()) {
            let name = self.names(&[node]);
            job.owner.say(format_args!("mpiexec:   {name}: its agent has not connected yet\n"));
        }
        if report.then == AfterReport::End && !job.is_ending() {
            job.end(self, Ending::TimedOut, signal::SIGTERM);
        }
    }
}
