//! The last exchange of a window's creation: who reaches others by messages, and the memory that is
//! registered with the network for their puts and gets ([`remote`](crate::remote)).

use std::sync::Mutex;

use mica_channel::RemoteRegion;
use mica_policy::RmaUse;
use mica_protocol::EngineState;

use super::choice::WindowAccess;
use super::create::{Announcement, Creation, OwnMemory};
use crate::memory::target::WindowTarget;
use crate::remote::{OwnRegistrations, RegisteredMemory, TargetKey};

/// Bits of the first word of the last exchange: this rank reaches another by messages; it has
/// registered its memory, by the key and address in the other words; peers may ask for the keys of
/// what it attaches.
const BY_MESSAGES: u64 = 1;
const REGISTERED: u64 = 2;
const NAMES_REGISTRATIONS: u64 = 4;

impl Creation<'_> {
    /// What this rank announces in the last exchange: whether it reaches one of `targets` by
    /// messages, and the registration of its memory, if peers reach it over the network.
    pub fn needs(&self, targets: &[WindowTarget], own: &OwnMemory) -> Announcement {
        let choices = &self.choices;
        let is_remote = targets.iter().any(WindowTarget::is_remote);
        let is_asked = choices.sends_accumulates() || choices.locking.by_thread;
        let mut needs = Announcement::default();
        needs.words[0] = u64::from(is_remote || is_asked) * BY_MESSAGES;
        if !is_remote || choices.access == WindowAccess::Messages {
            return needs;
        }
        let (address, bytes) = (own.region.address(), self.sizes.bytes[self.members.rank()]);
        self.engine.enter(|state| {
            let mut peers = (0..self.members.size()).map(|rank| self.members.peer(rank));
            if !peers.any(|peer| state.reaches_memory_of(peer)) {
                return;
            }
            if own.attachments.is_some() {
                needs.words[0] |= NAMES_REGISTRATIONS;
            } else if bytes > 0
                && let Some(region) = state.register_memory(address, bytes)
            {
                needs.words = [needs.words[0] | REGISTERED, region.key, region.address];
            }
        });
        needs
    }

    /// Revokes what [`needs`](Self::needs) has registered.
    pub fn unregister(&self, needs: Announcement) {
        if let Some(region) = needs.region() {
            self.engine.enter(|state| state.unregister_memory(region));
        }
    }

    /// The memory of all ranks as they have announced it, of those that RMA reaches.
    pub fn registered(&self, needs: &[Announcement]) -> RegisteredMemory {
        let key_of = |state: &mut EngineState, rank: usize| {
            let need = needs[rank];
            match need.region() {
                _ if !state.reaches_memory_of(self.members.peer(rank)) => TargetKey::None,
                Some(region) => TargetKey::Window(region),
                None if need.words[0] & NAMES_REGISTRATIONS != 0 => TargetKey::OnRequest,
                None => TargetKey::None,
            }
        };
        let keys = |state: &mut EngineState| {
            let keys = (0..self.members.size()).map(|rank| key_of(state, rank));
            keys.collect()
        };
        RegisteredMemory {
            targets: self.engine.enter(keys),
            rma: match self.choices.access {
                WindowAccess::Rma => RmaUse::Always,
                _ => RmaUse::Auto,
            },
            own: Mutex::new(OwnRegistrations::of_window(needs[self.members.rank()].region())),
        }
    }
}

impl Announcement {
    /// Whether the rank reaches another by messages.
    pub fn needs_messages(&self) -> bool {
        self.words[0] & BY_MESSAGES != 0
    }

    /// The rank's registered memory, in the last exchange.
    fn region(&self) -> Option<RemoteRegion> {
        let [flags, key, address] = self.words;
        (flags & REGISTERED != 0).then_some(RemoteRegion { key, address })
    }
}
