//! `dsa` and `dsa+thread` (SCI and MCI of chai-2009, 5.1): the Intel Data Streaming Accelerator,
//! the successor of I/OAT, through a work queue for user programs.
//!
//! ```text
//!   CopyJob --chunks--> Feeder: slots --descriptors--> Portal (Hardware, or software for tests)
//!                          ^                              |
//!                          +------ completion records <---+
//! ```
//!
//! The device works on this process's own addresses (shared virtual memory; the kernel enables user
//! queues only with it). It reaches a peer's memory only through a window mapped here: only the CPU
//! can use cross memory attach. With `dsa` the rank feeds and polls the device whenever it polls a
//! job; with `dsa+thread` the helper thread does.

mod descriptor;
mod error;
mod feeder;
mod hardware;
mod portal;
mod presence;
mod queues;
#[cfg(test)]
pub(in crate::offload) mod software;

pub use error::NoDevice;
pub use feeder::DsaReport;
pub use queues::{QueueInfo, QueueMode, find_queues};

use crate::offload::helper::{Helper, Worker};
use crate::offload::inline::{ByCaller, start_inline};
use crate::offload::job::OffloadJob;
use crate::offload::setup::OffloadSetup;
use crate::offload::thread::ByHelper;
use crate::offload::{Cookie, CopyEngine, CopyJob, Driver, EngineCapabilities, fork};
use feeder::Feeder;
use portal::Portal;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open device, shared by an engine and its cookies.
#[derive(Debug)]
pub(in crate::offload) struct Device(Mutex<Feeder>);

impl Device {
    pub(in crate::offload) fn new(portal: Box<dyn Portal>) -> Device {
        Device(Mutex::new(Feeder::new(portal)))
    }

    /// From now on, the CPU copies stretches shorter than `bytes`.
    #[cfg(test)]
    pub(in crate::offload) fn set_shortest(&self, bytes: usize) {
        self.feeder().set_shortest(bytes);
    }

    fn feeder(&self) -> MutexGuard<'_, Feeder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the first queue of this machine that can be opened.
///
/// # Errors
/// Why the last one could not be opened, or that there is none.
pub(in crate::offload) fn open_device() -> Result<Device, NoDevice> {
    let mut why = NoDevice::NoQueue { directory: queues::SYSFS };
    for queue in find_queues() {
        match hardware::Hardware::open(&queue) {
            Ok(hardware) => return Ok(Device::new(Box::new(hardware))),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// A device, and the fork generation of the process that opened it.
#[derive(Debug)]
struct DeviceHolder {
    device: Option<Arc<Device>>,
    generation: u32,
}

impl DeviceHolder {
    fn new(device: Device) -> DeviceHolder {
        DeviceHolder { device: Some(Arc::new(device)), generation: fork::generation() }
    }

    /// The device. A forked child cannot use its parent's device: the portal is not mapped there,
    /// and the queue works on the parent's memory. The child opens its own, or has none.
    fn device(&mut self) -> Option<&Arc<Device>> {
        if self.generation != fork::generation() {
            // Its lock may be held by a thread that does not exist in this process.
            std::mem::forget(self.device.take());
            self.device = open_device().ok().map(Arc::new);
            self.generation = fork::generation();
        }
        self.device.as_ref()
    }

    fn report(&self) -> DsaReport {
        match &self.device {
            Some(device) if self.generation == fork::generation() => device.feeder().report(),
            _ => DsaReport::default(),
        }
    }
}

impl Drop for DeviceHolder {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            std::mem::forget(self.device.take());
        }
    }
}

/// SCI: the device copies, and the rank feeds it.
#[derive(Debug)]
pub struct DsaEngine {
    holder: DeviceHolder,
}

impl DsaEngine {
    pub(in crate::offload) fn with_device(device: Device) -> DsaEngine {
        DsaEngine { holder: DeviceHolder::new(device) }
    }

    /// What the device has done so far.
    pub fn report(&self) -> DsaReport {
        self.holder.report()
    }
}

impl CopyEngine for DsaEngine {
    fn name(&self) -> &'static str {
        "dsa"
    }

    fn capabilities(&self) -> EngineCapabilities {
        EngineCapabilities::HARDWARE
    }

    fn start(&mut self, job: CopyJob) -> Cookie {
        match self.holder.device() {
            Some(device) if job.is_own_memory() => {
                let (device, job) = (Arc::clone(device), OffloadJob::new(job, None));
                device.feeder().advance(Some(&job));
                Cookie::new(job, device)
            }
            _ => start_inline(job),
        }
    }
}

impl Driver for Device {
    fn poll(&self, job: &Arc<OffloadJob>) {
        self.feeder().advance(Some(job));
    }

    fn assist(&self, job: &Arc<OffloadJob>) -> bool {
        // If the device has no room, the CPU helps. Otherwise the only thing to do is to poll
        // again: no other thread does, so the caller must not sleep.
        let moved = self.feeder().advance(Some(job));
        pause_unless(moved || job.copy_chunk());
        true
    }

    fn is_self_driven(&self, _job: &OffloadJob) -> bool {
        false
    }
}

/// MCI: the device copies, and the helper thread feeds it.
#[derive(Debug)]
pub struct DsaThreadEngine {
    setup: OffloadSetup,
    holder: DeviceHolder,
    helper: Helper,
}

impl DsaThreadEngine {
    pub(in crate::offload) fn with_device(device: Device, setup: OffloadSetup) -> DsaThreadEngine {
        DsaThreadEngine {
            holder: DeviceHolder::new(device),
            helper: Helper::new(&setup.segment, setup.helpers),
            setup,
        }
    }
}

impl CopyEngine for DsaThreadEngine {
    fn name(&self) -> &'static str {
        "dsa+thread"
    }

    fn capabilities(&self) -> EngineCapabilities {
        EngineCapabilities::SELF_DRIVEN | EngineCapabilities::HARDWARE
    }

    fn start(&mut self, job: CopyJob) -> Cookie {
        self.helper.claim();
        let job = OffloadJob::new(job, self.setup.notify.clone());
        let device = self.holder.device().cloned();
        if job.has_unclaimed() && self.helper.give(&job, || ByDevice { device }) {
            return Cookie::new(job, Arc::new(ByHelper));
        }
        match self.holder.device() {
            Some(device) if job.plan.is_own_memory() => Cookie::new(job, Arc::clone(device) as _),
            _ => Cookie::new(job, Arc::new(ByCaller)),
        }
    }

    fn close(&mut self) {
        self.helper.renew();
    }
}

/// The helper's worker: the device copies what it reaches, the CPU the rest.
struct ByDevice {
    device: Option<Arc<Device>>,
}

impl Worker for ByDevice {
    fn take_chunks(&mut self, job: &Arc<OffloadJob>) {
        let device = self.device.as_ref().filter(|_| job.plan.is_own_memory());
        while job.has_unclaimed() {
            match device {
                Some(device) => pause_unless(device.feeder().advance(Some(job))),
                None => drop(job.copy_chunk()),
            }
            // Meanwhile the descriptors of earlier jobs complete.
            if let (None, Some(device)) = (device, &self.device) {
                device.feeder().advance(None);
            }
        }
    }

    fn finish(&mut self) {
        let Some(device) = &self.device else { return };
        loop {
            let mut feeder = device.feeder();
            if feeder.is_idle() {
                return;
            }
            let moved = feeder.advance(None);
            drop(feeder);
            pause_unless(moved);
        }
    }
}

/// Pauses for a short time if there was nothing to do.
fn pause_unless(moved: bool) {
    if !moved {
        for _ in 0..50 {
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }
}
