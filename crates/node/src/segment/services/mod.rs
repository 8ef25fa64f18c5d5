//! The services of a job: names under which processes publish their ports (MPI 5.0, 11.9.4).
//!
//! | who | writes |
//! |---|---|
//! | a rank that publishes | takes a free entry (`BUSY`), fills it, then `SET` (Release) |
//! | a rank that takes it back | `SET` to `BUSY` (Acquire), then `FREE` |
//!
//! A reader copies an entry and looks at its state and number again: an entry that has changed
//! meanwhile is read once more. Two ranks that publish one name at once both look again afterwards,
//! and the one with the later entry gives way.

pub(super) mod table;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::{JobSegment, SegmentError};
use table::{BUSY, FREE, SERVICES_TABLE_BYTES, SET, ServiceEntry};

pub use table::{SERVICE_BYTES, SERVICES};

/// Why a service is not published.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Another has this name.
    #[error("a service of this name is published")]
    Taken,
    /// The two names are too long.
    #[error("the names of the service and of its port have {SERVICE_BYTES} bytes at most")]
    TooLong,
    /// All entries are taken.
    #[error("a job has {SERVICES} services at most")]
    Full,
    /// No memory for the table.
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

impl ServiceEntry {
    /// The names of the service and of its port, and who has published it.
    fn read(&self) -> Option<(Vec<u8>, Vec<u8>, u32)> {
        loop {
            // SYNC service: pairs with the Release store in `publish`.
            let number = self.use_number.load(Ordering::Acquire);
            if self.state.load(Ordering::Acquire) != SET {
                return None;
            }
            let load = |word: &AtomicU32| word.load(Ordering::Relaxed);
            let name = load(&self.name_bytes) as usize;
            let end = (name + load(&self.port_bytes) as usize).min(SERVICE_BYTES);
            let words = self.text.iter().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
            let mut text: Vec<u8> = words.flatten().collect();
            let owner = load(&self.owner);
            // The words are read before the number is read again.
            fence(Ordering::Acquire);
            if self.use_number.load(Ordering::Relaxed) == number {
                text.truncate(end);
                let port = text.split_off(name.min(end));
                return Some((text, port, owner));
            }
        }
    }
}

impl JobSegment {
    fn services(&self) -> &[ServiceEntry] {
        if !self.services_are_there() {
            return &[];
        }
        // SAFETY: in the mapping, page-aligned, and allocated before the table of worlds said so;
        // zeros are free entries, which are only accessed through their atomics.
        unsafe { std::slice::from_raw_parts(self.at(self.geometry.services()).cast(), SERVICES) }
    }

    /// Publishes a port of rank `me` under a name.
    ///
    /// # Errors
    /// When a service has the name, or there is no room.
    pub fn publish_service(&self, me: u32, name: &str, port: &str) -> Result<(), ServiceError> {
        let text = [name.as_bytes(), port.as_bytes()].concat();
        if text.len() > SERVICE_BYTES {
            return Err(ServiceError::TooLong);
        }
        if !self.services_are_there() {
            self.allocate(self.geometry.services(), SERVICES_TABLE_BYTES)?;
            self.announce_services();
        }
        if self.service(name).is_some() {
            return Err(ServiceError::Taken);
        }
        let take = |entry: &&ServiceEntry| {
            // Acquire: what the last holder wrote there comes before.
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            entry.state.compare_exchange(FREE, BUSY, acquire, relaxed).is_ok()
        };
        let entries = self.services();
        let at = entries.iter().position(|entry| take(&entry)).ok_or(ServiceError::Full)?;
        let entry = &entries[at];
        // A reader that has seen the former number sees this one after any of the words below.
        entry.use_number.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        entry.owner.store(me, Ordering::Relaxed);
        entry.name_bytes.store(name.len() as u32, Ordering::Relaxed);
        entry.port_bytes.store(port.len() as u32, Ordering::Relaxed);
        for (word, bytes) in entry.text.iter().zip(text.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        }
        // SYNC service
        entry.state.store(SET, Ordering::Release);
        // Of two ranks that publish a name at once, at least one finds both here.
        fence(Ordering::SeqCst);
        let mut earlier = entries[..at].iter().filter_map(ServiceEntry::read);
        if earlier.any(|(known, _, _)| known == name.as_bytes()) {
            entry.state.store(FREE, Ordering::Release);
            return Err(ServiceError::Taken);
        }
        Ok(())
    }

    /// The port of a service.
    pub fn service(&self, name: &str) -> Option<String> {
        let mut all = self.services().iter().filter_map(ServiceEntry::read);
        let (_, port, _) = all.find(|(known, _, _)| known == name.as_bytes())?;
        Some(String::from_utf8_lossy(&port).into_owned())
    }

    /// Takes back a service of rank `me`. False if it has published none of this name and port.
    pub fn unpublish_service(&self, me: u32, name: &str, port: &str) -> bool {
        self.free_services(|known, of, owner| {
            owner == me && known == name.as_bytes() && of == port.as_bytes()
        })
    }

    /// Takes back all services of a rank that has ended.
    pub(super) fn forget_services_of(&self, rank: u32) {
        self.free_services(|_, _, owner| owner == rank);
    }

    fn free_services(&self, is_it: impl Fn(&[u8], &[u8], u32) -> bool) -> bool {
        let mut found = false;
        for entry in self.services() {
            if entry.read().is_some_and(|(name, port, owner)| is_it(&name, &port, owner)) {
                entry.state.store(BUSY, Ordering::Relaxed);
                // Release: pairs with the Acquire of the next that takes it.
                entry.state.store(FREE, Ordering::Release);
                found = true;
            }
        }
        found
    }
}
