//! Memory registration, and a cache of registrations.
//!
//! If a provider pins memory (FI_MR_ALLOCATED), a registration that outlives its use is dangerous:
//! the memory may be unmapped and mapped again, and the hardware continues to use the old pages.
//! libfabric's own providers have caches for such memory, with monitors of the address space, so in
//! that case each use is registered and closed again.
//!
//! If registration only assigns a key to addresses (tcp, sockets), nothing is pinned: the provider
//! resolves the addresses at each use. In that case registrations are kept, up to a limit, and the
//! least recently used one is closed first. A use within a registered range shares its
//! registration.
//!
//! In both cases a registration in use is shared: its memory stays mapped as long as it is in use.
//!
//! The memory of a window has a registration [of its own](RegistrationCache::register_own), which
//! is closed with its use: its key must not name the memory for longer than the window lives, and
//! no message may hand out the key, which allows writes.

use crate::transport::NetError;

/// Registers memory.
pub(super) trait Registrar {
    /// A registration.
    type Handle: Copy;
    fn register(&self, address: usize, len: usize, access: u64) -> Result<Self::Handle, NetError>;
    fn close(&self, handle: Self::Handle);
}

/// Which uses a registration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// All that lie in it; it is kept for later ones.
    Cached,
    /// One, with which it is closed.
    OneUse,
}

#[derive(Debug)]
struct RegistrationEntry<H> {
    id: u64,
    start: usize,
    len: usize,
    access: u64,
    users: u32,
    sharing: Sharing,
    /// Clock value of the last use.
    used: u64,
    handle: H,
}

/// A use of a registration; it must be [released](RegistrationCache::release).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RegistrationUse<H> {
    pub id: u64,
    pub handle: H,
    /// First byte of the registered range.
    pub start: usize,
}

#[derive(Debug)]
pub(super) struct RegistrationCache<H> {
    entries: Vec<RegistrationEntry<H>>,
    /// Maximum number of idle registrations.
    limit: usize,
    clock: u64,
}

impl<H: Copy> RegistrationCache<H> {
    /// Keeps at most `limit` idle registrations.
    pub fn new(limit: usize) -> RegistrationCache<H> {
        RegistrationCache { entries: Vec::new(), limit, clock: 0 }
    }

    /// A registration of `len` bytes at `start` that allows `access`.
    ///
    /// # Errors
    /// If the registrar fails.
    pub fn acquire(
        &mut self,
        registrar: &impl Registrar<Handle = H>,
        start: usize,
        len: usize,
        access: u64,
    ) -> Result<RegistrationUse<H>, NetError> {
        self.clock += 1;
        let clock = self.clock;
        let covers = |e: &&mut RegistrationEntry<H>| {
            e.sharing == Sharing::Cached
                && e.access & access == access
                && e.start <= start
                && len <= e.len.saturating_sub(start - e.start)
        };
        if let Some(entry) = self.entries.iter_mut().find(covers) {
            entry.users += 1;
            entry.used = clock;
            return Ok(entry.lend());
        }
        self.add(registrar, (start, len, access), Sharing::Cached)
    }

    /// A registration that no other use shares, and that is closed with this use.
    ///
    /// # Errors
    /// If the registrar fails.
    pub fn register_own(
        &mut self,
        registrar: &impl Registrar<Handle = H>,
        start: usize,
        len: usize,
        access: u64,
    ) -> Result<RegistrationUse<H>, NetError> {
        self.clock += 1;
        self.add(registrar, (start, len, access), Sharing::OneUse)
    }

    fn add(
        &mut self,
        registrar: &impl Registrar<Handle = H>,
        (start, len, access): (usize, usize, u64),
        sharing: Sharing,
    ) -> Result<RegistrationUse<H>, NetError> {
        let entry = RegistrationEntry {
            id: self.clock,
            start,
            len,
            access,
            users: 1,
            sharing,
            used: self.clock,
            handle: registrar.register(start, len, access)?,
        };
        let lent = entry.lend();
        self.entries.push(entry);
        Ok(lent)
    }

    /// Ends a use.
    pub fn release(&mut self, registrar: &impl Registrar<Handle = H>, id: u64) {
        let Some(at) = self.entries.iter().position(|e| e.id == id) else {
            return;
        };
        if self.entries[at].sharing == Sharing::OneUse {
            return registrar.close(self.entries.swap_remove(at).handle);
        }
        let entry = &mut self.entries[at];
        entry.users = entry.users.saturating_sub(1);
        let idle = self.entries.iter().filter(|e| e.users == 0).count();
        if idle > self.limit {
            let idle = self.entries.iter().enumerate().filter(|(_, e)| e.users == 0);
            if let Some((at, _)) = idle.min_by_key(|(_, e)| e.used) {
                registrar.close(self.entries.swap_remove(at).handle);
            }
        }
    }

    /// Closes all registrations, in use or not.
    pub fn clear(&mut self, registrar: &impl Registrar<Handle = H>) {
        for entry in self.entries.drain(..) {
            registrar.close(entry.handle);
        }
    }
}

impl<H: Copy> RegistrationEntry<H> {
    fn lend(&self) -> RegistrationUse<H> {
        RegistrationUse { id: self.id, handle: self.handle, start: self.start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A registrar that hands out numbers and records which are registered.
    #[derive(Default)]
    struct Clerk {
        registered: RefCell<Vec<u32>>,
        next: RefCell<u32>,
    }

    impl Registrar for Clerk {
        type Handle = u32;

        fn register(&self, _: usize, len: usize, _: u64) -> Result<u32, NetError> {
            if len == 13 {
                return Err(NetError::Memory(mica_memory::OutOfMemory { bytes: len }));
            }
            *self.next.borrow_mut() += 1;
            let handle = *self.next.borrow();
            self.registered.borrow_mut().push(handle);
            Ok(handle)
        }

        fn close(&self, handle: u32) {
            let mut registered = self.registered.borrow_mut();
            let at = registered.iter().position(|&h| h == handle).expect("closed once");
            registered.remove(at);
        }
    }

    #[test]
    fn ranges_within_a_registration_share_it() {
        let (clerk, mut cache) = (Clerk::default(), RegistrationCache::new(4));
        let whole = cache.acquire(&clerk, 1000, 100, 3).unwrap();
        let part = cache.acquire(&clerk, 1050, 50, 1).unwrap();
        assert_eq!((part.handle, part.start), (whole.handle, 1000));
        for (start, len, access) in [(1050, 51, 1), (999, 2, 1), (1000, 100, 4), (5000, 1, 1)] {
            let other = cache.acquire(&clerk, start, len, access).unwrap();
            assert_ne!(other.handle, whole.handle, "{start} {len} {access}");
        }
        cache.clear(&clerk);
        assert!(clerk.registered.borrow().is_empty());
    }

    #[test]
    fn evicts_lru_but_never_in_use() {
        let (clerk, mut cache) = (Clerk::default(), RegistrationCache::new(2));
        let uses: Vec<_> = (0..5).map(|i| cache.acquire(&clerk, i * 100, 10, 1).unwrap()).collect();
        assert_eq!(*clerk.registered.borrow(), [1, 2, 3, 4, 5]);
        for one in [&uses[3], &uses[0], &uses[1]] {
            cache.release(&clerk, one.id);
        }
        // 4, 1 and 2 are idle, and 1 is the least recently used.
        assert_eq!(*clerk.registered.borrow(), [2, 3, 4, 5]);
        let again = cache.acquire(&clerk, 100, 10, 1).unwrap();
        assert_eq!(again.handle, 2);
        cache.release(&clerk, uses[2].id);
        cache.release(&clerk, uses[4].id);
        assert_eq!(*clerk.registered.borrow(), [2, 4, 5]);
    }

    #[test]
    fn nothing_outlives_its_users_where_nothing_is_kept() {
        let (clerk, mut cache) = (Clerk::default(), RegistrationCache::new(0));
        let one = cache.acquire(&clerk, 0, 100, 1).unwrap();
        let two = cache.acquire(&clerk, 10, 10, 1).unwrap();
        assert_eq!(one.handle, two.handle);
        cache.release(&clerk, one.id);
        assert_eq!(*clerk.registered.borrow(), [1]);
        cache.release(&clerk, two.id);
        assert!(clerk.registered.borrow().is_empty());
    }

    #[test]
    fn a_registration_of_its_own_is_not_shared_and_ends_with_its_use() {
        let (clerk, mut cache) = (Clerk::default(), RegistrationCache::new(4));
        let shared = cache.acquire(&clerk, 1000, 100, 3).unwrap();
        let own = cache.register_own(&clerk, 1000, 100, 3).unwrap();
        assert_ne!(own.handle, shared.handle);
        cache.release(&clerk, shared.id);
        let message = cache.acquire(&clerk, 1000, 100, 1).unwrap();
        assert_eq!(message.handle, shared.handle, "never the window's");
        cache.release(&clerk, own.id);
        assert_eq!(*clerk.registered.borrow(), [shared.handle]);
    }

    #[test]
    fn a_refusal_leaves_nothing() {
        let (clerk, mut cache) = (Clerk::default(), RegistrationCache::new(2));
        assert!(cache.acquire(&clerk, 0, 13, 1).is_err());
        assert!(cache.entries.is_empty());
    }
}
