//! The back end XPMEM: the kernel module of that name maps one process's pages in another.
//!
//! Each rank makes one segment of its whole address space and publishes its number in its block. Peers get a permit
//! for it once, and attach parts as messages name them. An attachment is by address: the module follows the owner's page tables
//! (an mmu notifier empties the attachment where the owner unmaps or moves pages, and the next touch looks them up anew), so
//! an attachment stays good for whatever the owner has there, and is kept. A touch where the owner has nothing is a SIGBUS; a
//! message's buffer is there by MPI's rules, and nothing else is touched. This is what Open MPI and MPICH rely on when they keep
//! attachments without watching the owner's `munmap`.

mod device;

pub use device::{Device, Module};

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::window::Mapping;
use super::{Exposure, Window};

/// Attachments are aligned to this, so that neighbouring buffers share one.
const GRAIN: usize = 4 << 20;

/// Attachments kept for a peer; beyond, the oldest is forgotten.
const KEPT: usize = 64;

/// A permit for a peer's segment.
#[derive(Debug)]
struct Permit {
    device: Arc<dyn Device>,
    number: i64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.device.release(self.number);
    }
}

#[derive(Debug)]
struct Attachment {
    permit: Arc<Permit>,
    base: usize,
    /// Addresses in the peer.
    remote: Range<usize>,
}

impl Mapping for Attachment {
    fn addresses(&self) -> Range<usize> {
        self.base..self.base + self.remote.len()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.permit.device.detach(self.base);
    }
}

#[derive(Debug)]
struct Peer {
    permit: Arc<Permit>,
    attachments: Vec<Arc<Attachment>>,
}

/// This rank's end.
#[derive(Debug)]
pub(super) struct Xpmem {
    device: Arc<dyn Device>,
    segment: i64,
    /// `None`: the module refused a permit.
    peers: HashMap<u32, Option<Peer>>,
    attached: u64,
}

impl Xpmem {
    pub fn new(device: Arc<dyn Device>) -> std::io::Result<Xpmem> {
        let segment = device.make()?;
        Ok(Xpmem {
            device,
            segment,
            peers: HashMap::new(),
            attached: 0,
        })
    }

    /// Number of this process's segment, for peers.
    pub fn segment(&self) -> i64 {
        self.segment
    }

    /// Attachments made so far.
    pub fn attached(&self) -> u64 {
        self.attached
    }

    pub fn window(
        &mut self,
        peer: u32,
        segment: Option<i64>,
        exposure: &Exposure,
        len: usize,
    ) -> Option<Window> {
        let device = &self.device;
        let peer = self
            .peers
            .entry(peer)
            .or_insert_with(|| {
                let number = device.get(segment?).ok()?;
                Some(Peer {
                    permit: Arc::new(Permit {
                        device: Arc::clone(device),
                        number,
                    }),
                    attachments: Vec::new(),
                })
            })
            .as_mut()?;
        let first = usize::try_from(exposure.place).ok()?;
        let last = first.checked_add(len)?;
        let known = peer
            .attachments
            .iter()
            .find(|a| a.remote.start <= first && last <= a.remote.end);
        let mapping = match known {
            Some(known) => Arc::clone(known),
            None => {
                self.attached += 1;
                peer.attach(first..last)?
            }
        };
        Some(Window {
            origin: mapping.base + (first - mapping.remote.start),
            reachable: 0..len,
            mapping,
        })
    }
}

impl Peer {
    fn attach(&mut self, wanted: Range<usize>) -> Option<Arc<Attachment>> {
        let start = wanted.start / GRAIN * GRAIN;
        let end = wanted.end.checked_next_multiple_of(GRAIN)?;
        let device = Arc::clone(&self.permit.device);
        let base = device
            .attach(self.permit.number, start as u64, end - start)
            .ok()?;
        let attachment = Arc::new(Attachment {
            permit: Arc::clone(&self.permit),
            base,
            remote: start..end,
        });
        // Parts of the new one are of no use any more.
        self.attachments
            .retain(|a| !(start <= a.remote.start && a.remote.end <= end));
        if self.attachments.len() >= KEPT {
            self.attachments.remove(0);
        }
        self.attachments.push(Arc::clone(&attachment));
        Some(attachment)
    }
}
