//! What tools that attach to the job get of the ranks of this node.

use std::time::SystemTime;

use mica_node::attach::{JobDescription, VERSION};
use mica_node::segment::layout;

use super::*;
use crate::placement::plan::command_line;

impl RankProcesses<'_> {
    /// Serves tools that attach to the job.
    pub fn serve_attach(&mut self) {
        let Some(mut listener) = self.attach.take() else {
            return;
        };
        let describe = || JobDescription {
            version: VERSION.to_owned(),
            layout: layout(),
            name: self.job.name.clone(),
            host: self.job.host.clone(),
            command: self.command_lines(),
            job_size: self.job.size,
            nodes: self.job.network.placement.nodes.len() as u32,
            started_ms: self.started_ms,
            pids: self.ranks.iter().map(|rank| rank.process.pid()).collect(),
        };
        // After an error the service ends: descriptors may have run out, and the loop would never
        // sleep with it.
        let served = listener.serve(self.segment.as_fd(), &describe);
        self.attach = served.is_ok().then_some(listener);
    }

    /// The command lines of the job's programs.
    fn command_lines(&self) -> String {
        let sections = self.job.programs.sections.iter();
        let lines = sections.map(|section| command_line(&section.command));
        lines.collect::<Vec<_>>().join(" : ")
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_millis() as u64
}
