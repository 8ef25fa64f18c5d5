//! The state of the inspections by which a lost peer is found.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Time between two inspections.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// Inspections without progress before a peer is probed.
pub(super) const QUIET_INSPECTIONS: u32 = 3;

/// Largest number of inspections between two probes; the interval doubles each time.
pub(super) const RARE: u32 = 320;

/// A connection attempt under way.
#[derive(Debug)]
pub(super) struct Probe {
    pub peer: u32,
    pub socket: OwnedFd,
}

/// The state of the inspections.
#[derive(Debug)]
pub(super) struct PeerInspection {
    pub next: Instant,
    pub peers: Vec<Quiet>,
    pub probes: Vec<Probe>,
}

/// How long a peer has made no progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quiet {
    /// Progress counter at the last inspection.
    pub motion: u32,
    pub inspections: u32,
    /// Number of inspections after which the peer is probed.
    pub ask_at: u32,
}

impl PeerInspection {
    pub fn new(peers: usize) -> PeerInspection {
        let quiet = Quiet { motion: 0, inspections: 0, ask_at: QUIET_INSPECTIONS };
        PeerInspection {
            next: Instant::now() + PERIOD,
            peers: vec![quiet; peers],
            probes: Vec::new(),
        }
    }
}
