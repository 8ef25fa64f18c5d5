//! The back end XPMEM: the kernel module of that name maps one process's pages in another.
//!
//! Each rank makes one segment of its whole address space and publishes its number in its block.
//! Peers get a permit for it once, and attach parts as messages name them. An attachment is by
//! address: the module follows the owner's page tables (an mmu notifier empties the attachment
//! where the owner unmaps or moves pages, and the next access looks them up again), so an
//! attachment stays valid for whatever the owner has mapped there, and is kept. An access where the
//! owner has nothing mapped raises SIGBUS; MPI's rules keep a message's buffer mapped, and nothing
//! else is accessed. This is what Open MPI and MPICH rely on when they keep attachments without
//! watching the owner's `munmap`.

mod device;

pub use device::{Device, Module};

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::{Exposure, MappedWindow};
use mica_memory::Block;

/// Attachments are aligned to this, so that neighbouring buffers share one.
const GRAIN: usize = 4 << 20;

/// Attachments kept for a peer; beyond that, the oldest is dropped.
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

/// A part of a peer's memory, attached.
#[derive(Debug, Clone)]
struct Attachment {
    /// Addresses in the peer.
    remote: Range<usize>,
    mapping: Arc<Block>,
}

/// Detaches what is attached at `base`.
#[derive(Debug)]
struct Detach {
    permit: Arc<Permit>,
    base: usize,
}

impl Drop for Detach {
    fn drop(&mut self) {
        self.permit.device.detach(self.base);
    }
}

#[derive(Debug)]
struct XpmemPeer {
    permit: Arc<Permit>,
    attachments: Vec<Attachment>,
}

/// This rank's side of XPMEM: its own segment and its attachments of peers' memory.
#[derive(Debug)]
pub(super) struct Xpmem {
    device: Arc<dyn Device>,
    segment: i64,
    /// `None`: the module refused a permit.
    peers: HashMap<u32, Option<XpmemPeer>>,
    attached: u64,
}

impl Xpmem {
    pub fn new(device: Arc<dyn Device>) -> std::io::Result<Xpmem> {
        let segment = device.make()?;
        Ok(Xpmem { device, segment, peers: HashMap::new(), attached: 0 })
    }

    /// Number of this process's segment, for peers.
    pub fn segment(&self) -> i64 {
        self.segment
    }

    /// Attachments made so far.
    pub fn attached(&self) -> u64 {
        self.attached
    }

    /// Forgets the attachments to `peer`.
    pub fn forget(&mut self, peer: u32) {
        self.peers.remove(&peer);
    }

    pub fn window(
        &mut self,
        peer: u32,
        segment: Option<i64>,
        exposure: &Exposure,
        len: usize,
    ) -> Option<MappedWindow> {
        let device = &self.device;
        let peer = self
            .peers
            .entry(peer)
            .or_insert_with(|| {
                let number = device.get(segment?).ok()?;
                Some(XpmemPeer {
                    permit: Arc::new(Permit { device: Arc::clone(device), number }),
                    attachments: Vec::new(),
                })
            })
            .as_mut()?;
        let first = usize::try_from(exposure.place).ok()?;
        let last = first.checked_add(len)?;
        let known =
            peer.attachments.iter().find(|a| a.remote.start <= first && last <= a.remote.end);
        let attachment = match known {
            Some(known) => known.clone(),
            None => {
                self.attached += 1;
                peer.attach(first..last)?
            }
        };
        Some(MappedWindow {
            origin: attachment.mapping.addresses().start + (first - attachment.remote.start),
            reachable: 0..len,
            mapping: attachment.mapping,
        })
    }
}

impl XpmemPeer {
    fn attach(&mut self, wanted: Range<usize>) -> Option<Attachment> {
        let start = wanted.start / GRAIN * GRAIN;
        let end = wanted.end.checked_next_multiple_of(GRAIN)?;
        let device = Arc::clone(&self.permit.device);
        let base = device.attach(self.permit.number, start as u64, end - start).ok()?;
        let detach = Detach { permit: Arc::clone(&self.permit), base };
        // SAFETY: 1. the device's promise; 2. what a window reaches of it is a buffer that the peer
        // has exposed: the window's contract.
        let mapping = unsafe { Block::mapped(base..base + (end - start), detach) };
        let attachment = Attachment { remote: start..end, mapping };
        // Attachments that are part of the new one are no longer needed.
        self.attachments.retain(|a| !(start <= a.remote.start && a.remote.end <= end));
        if self.attachments.len() >= KEPT {
            self.attachments.remove(0);
        }
        self.attachments.push(attachment.clone());
        Some(attachment)
    }
}
