//! `inline`: no background engine. The rank copies a chunk at each poll, so that a long copy is
//! spread over its calls and other messages make progress in between.

use super::job::OffloadJob;
use super::{Cookie, CopyEngine, CopyJob, Driver, EngineCapabilities};
use std::sync::Arc;

/// The engine that copies during its caller's calls.
#[derive(Debug, Default)]
pub struct InlineEngine;

/// The polling rank copies. Also drives the jobs that other engines leave to the CPU.
#[derive(Debug)]
pub(super) struct ByCaller;

impl InlineEngine {
    /// A new engine; it has no state.
    pub fn new() -> InlineEngine {
        InlineEngine
    }
}

impl CopyEngine for InlineEngine {
    fn name(&self) -> &'static str {
        "inline"
    }

    fn capabilities(&self) -> EngineCapabilities {
        EngineCapabilities::empty()
    }

    fn start(&mut self, job: CopyJob) -> Cookie {
        start_inline(job)
    }
}

/// Starts a job that its caller drives. Copies nothing before the first poll.
pub(super) fn start_inline(job: CopyJob) -> Cookie {
    Cookie::new(OffloadJob::new(job, None), Arc::new(ByCaller))
}

impl Driver for ByCaller {
    fn poll(&self, job: &Arc<OffloadJob>) {
        job.copy_chunk();
    }

    fn assist(&self, job: &Arc<OffloadJob>) -> bool {
        job.copy_chunk()
    }

    fn is_self_driven(&self, _job: &OffloadJob) -> bool {
        false
    }
}
