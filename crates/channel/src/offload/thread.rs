//! `thread` (MCNI of chai-2009, 5.1.3): a helper thread copies, and the rank that waits helps.

use super::helper::{Helper, Worker};
use super::inline::ByCaller;
use super::job::OffloadJob;
use super::setup::OffloadSetup;
use super::{Cookie, CopyEngine, CopyJob, Driver, EngineCapabilities};
use std::sync::Arc;

/// The engine that copies with a helper thread.
#[derive(Debug)]
pub struct ThreadEngine {
    setup: OffloadSetup,
    helper: Helper,
}

impl ThreadEngine {
    /// An engine whose thread starts with the first job.
    pub fn new(setup: OffloadSetup) -> ThreadEngine {
        let helper = Helper::new(&setup.segment, setup.helpers);
        ThreadEngine { setup, helper }
    }
}

impl CopyEngine for ThreadEngine {
    fn name(&self) -> &'static str {
        "thread"
    }

    fn capabilities(&self) -> EngineCapabilities {
        EngineCapabilities::SELF_DRIVEN
    }

    fn start(&mut self, job: CopyJob) -> Cookie {
        self.helper.claim();
        let job = OffloadJob::new(job, self.setup.notify.clone());
        if job.has_unclaimed() && self.helper.give(&job, || ByCpu) {
            Cookie::new(job, Arc::new(ByHelper))
        } else {
            Cookie::new(job, Arc::new(ByCaller))
        }
    }

    fn close(&mut self) {
        self.helper.renew();
    }
}

/// The helper's worker: copies with the CPU.
struct ByCpu;

impl Worker for ByCpu {
    fn take_chunks(&mut self, job: &Arc<OffloadJob>) {
        while job.copy_chunk() {}
    }

    fn finish(&mut self) {}
}

/// A job in the helper's queue: the owner only polls, or helps to copy.
#[derive(Debug)]
pub(super) struct ByHelper;

impl Driver for ByHelper {
    fn poll(&self, _job: &Arc<OffloadJob>) {}

    fn assist(&self, job: &Arc<OffloadJob>) -> bool {
        job.copy_chunk()
    }

    fn is_self_driven(&self, _job: &OffloadJob) -> bool {
        true
    }
}
