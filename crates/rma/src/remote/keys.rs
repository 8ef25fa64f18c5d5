//! What is registered of a window's memory, here and at its targets
//! ([`registered`](super::registered) uses it).

use std::sync::Mutex;

use mica_channel::RemoteRegion;
use mica_policy::{RmaUse, TargetRegistration};

/// The memory of a window's ranks as the network reaches it.
#[derive(Debug)]
pub(crate) struct RegisteredMemory {
    /// By rank in the window.
    pub targets: Box<[TargetKey]>,
    pub rma: RmaUse,
    pub own: Mutex<OwnRegistrations>,
}

/// How a target's registration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetKey {
    /// Not registered, or not reached by RMA.
    None,
    /// The window's memory, from its first byte on.
    Window(RemoteRegion),
    /// The target says where attached memory is registered.
    OnRequest,
}

/// What this rank has registered.
#[derive(Debug, Default)]
pub(crate) struct OwnRegistrations {
    window: Option<RemoteRegion>,
    attached: Vec<AttachedRegistration>,
}

#[derive(Debug)]
struct AttachedRegistration {
    address: usize,
    bytes: usize,
    region: RemoteRegion,
}

impl TargetKey {
    pub fn registration(self) -> TargetRegistration {
        match self {
            TargetKey::None => TargetRegistration::None,
            TargetKey::Window(_) => TargetRegistration::Known,
            TargetKey::OnRequest => TargetRegistration::OnRequest,
        }
    }
}

impl OwnRegistrations {
    /// The registration of the window's memory, if it has one.
    pub fn of_window(window: Option<RemoteRegion>) -> OwnRegistrations {
        OwnRegistrations { window, attached: Vec::new() }
    }

    /// How peers name `address`, of attached memory that holds the `bytes` bytes that begin `low`
    /// after it.
    pub fn name(&self, address: usize, low: isize, bytes: usize) -> Option<RemoteRegion> {
        let first = address.wrapping_add_signed(low);
        let holds = |a: &&AttachedRegistration| {
            let before = first.wrapping_sub(a.address);
            before <= a.bytes && bytes <= a.bytes - before
        };
        let found = self.attached.iter().find(holds)?;
        let skipped = address.wrapping_sub(found.address) as u64;
        Some(RemoteRegion {
            key: found.region.key,
            address: found.region.address.wrapping_add(skipped),
        })
    }

    /// Adds memory that was attached.
    pub fn add(&mut self, address: usize, bytes: usize, region: RemoteRegion) {
        self.attached.push(AttachedRegistration { address, bytes, region });
    }

    /// Removes the memory that was attached at `address`.
    pub fn remove(&mut self, address: usize) -> Option<RemoteRegion> {
        let at = self.attached.iter().position(|a| a.address == address)?;
        Some(self.attached.swap_remove(at).region)
    }

    /// Everything.
    pub fn all(self) -> impl Iterator<Item = RemoteRegion> {
        let attached = self.attached.into_iter().map(|attached| attached.region);
        self.window.into_iter().chain(attached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_memory_is_named_if_it_holds_all_bytes() {
        let mut own = OwnRegistrations::of_window(None);
        let region = RemoteRegion { key: 7, address: 100 };
        own.add(0x5000, 64, region);
        let named = |own: &OwnRegistrations, address, low, bytes| {
            own.name(address, low, bytes).map(|region| region.address)
        };
        assert_eq!(named(&own, 0x5000, 0, 64), Some(100));
        assert_eq!(named(&own, 0x5010, 0, 48), Some(116));
        // The address may lie outside, as long as all bytes lie inside.
        assert_eq!(named(&own, 0x4ff8, 8, 8), Some(92));
        assert_eq!(named(&own, 0x5010, 0, 49), None);
        assert_eq!(named(&own, 0x4fff, 0, 2), None);
        assert_eq!(own.remove(0x5010), None);
        assert_eq!(own.remove(0x5000), Some(region));
        assert_eq!(named(&own, 0x5000, 0, 1), None);
    }
}
