//! The services of a job: names under which processes publish their ports (MPI 5.0, 11.9.4).
//!
//! | who | writes |
//! |---|---|
//! | a rank | the lock, with its number; then entries; then the lock again |
//! | a rank that publishes | in a free entry: `use_number`, the texts, then `SET` (Release) |
//! | a rank that takes it back | `FREE` |
//!
//! A rank that has died with the lock loses it to the next one that wants it. A reader takes no
//! lock: it copies an entry and looks at its number again; an entry that has changed meanwhile is
//! read once more.

pub(super) mod table;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::{JobSegment, SegmentError};
use table::{FREE, SERVICES_TABLE_BYTES, SET, ServiceEntry};

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
        let _lock = ServiceLock::take(self, me);
        if self.service(name).is_some() {
            return Err(ServiceError::Taken);
        }
        let is_free = |entry: &&ServiceEntry| entry.state.load(Ordering::Relaxed) != SET;
        let entry = self.services().iter().find(is_free).ok_or(ServiceError::Full)?;
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
        let _lock = ServiceLock::take(self, me);
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
                // Relaxed: the lock orders it, or that the rank has ended.
                entry.state.store(FREE, Ordering::Relaxed);
                found = true;
            }
        }
        found
    }
}

/// Excludes other ranks that publish, or take back.
struct ServiceLock<'a>(&'a AtomicU32);

/// Attempts to take the lock before it is looked whether its holder lives.
const ATTEMPTS: u32 = 1000;

impl<'a> ServiceLock<'a> {
    fn take(segment: &'a JobSegment, me: u32) -> ServiceLock<'a> {
        let lock = segment.service_lock();
        let mut attempts = 0;
        let mut of = 0;
        // SYNC service-lock: pairs with the Release in `drop`; what the last holder wrote is seen.
        while let Err(holder) =
            lock.compare_exchange(of, me + 1, Ordering::Acquire, Ordering::Relaxed)
        {
            attempts += 1;
            // The number of a rank that has died is that of no other as long as the job lives.
            let is_dead = attempts % ATTEMPTS == 0 && holder != 0 && segment.is_gone(holder - 1);
            of = if is_dead { holder } else { 0 };
            std::thread::yield_now();
        }
        ServiceLock(lock)
    }
}

impl Drop for ServiceLock<'_> {
    fn drop(&mut self) {
        // SYNC service-lock
        self.0.store(0, Ordering::Release);
    }
}
