//! Operations on a peer's memory: reads of long messages, and the operations of windows
//! (jiang-2004, 2.2; MPI 5.0, 12).
//!
//! An operation is carried out in parts, of which a fixed number is under way at a time; the parts
//! of one operation, and several operations, run concurrently. An operation is accepted when its
//! first part is posted; later polls post the others.

use std::ffi::c_void;

use super::Net;
use super::bindings as fi;
use super::endpoint::{Endpoint, OperationFailure};
use super::messages::is_loss;
use super::registration::{Registrar, RegistrationUse};
use crate::transport::{NetError, ReadableRegion, Transport};
use crate::{Capabilities, ChannelError, RemoteMemory, RemoteRegion};
use mica_memory::View;

use super::operations::*;

/// What stands for no bytes: nothing is registered.
pub(super) const NO_BYTES: ReadableRegion =
    ReadableRegion::new(RemoteRegion { key: 0, address: 0 }, None);

/// A registrar that uses the endpoint.
pub(super) struct Register<'a>(pub &'a Endpoint);

impl Registrar for Register<'_> {
    type Handle = *mut fi::fid_mr;

    fn register(&self, address: usize, len: usize, access: u64) -> Result<Self::Handle, NetError> {
        // SAFETY: the code that exposes memory or starts an operation on it promises that it is
        // mapped. Registrations are kept longer only if they pin nothing and just assign a key to
        // addresses.
        unsafe { self.0.register(address, len, access) }
    }

    fn close(&self, handle: Self::Handle) {
        // SAFETY: the handle came from `register`; the cache closes it once.
        unsafe { self.0.unregister(handle) };
    }
}

impl Net {
    /// Lets peers read and write this process's `len` bytes at `address`, by a key of their own,
    /// until [`conceal`](crate::transport::Transport::conceal).
    pub(super) fn open_memory(
        &mut self,
        address: usize,
        len: usize,
    ) -> Result<ReadableRegion, NetError> {
        self.need(Capabilities::READ, "remote memory access")?;
        if len == 0 {
            return Ok(NO_BYTES);
        }
        let register = Register(&self.endpoint);
        let used = self.registrations.register_own(&register, address, len, OPEN)?;
        Ok(self.named(&used, address))
    }

    /// Memory from `address` on as peers name it, within a registration that is in use.
    pub(super) fn named(
        &self,
        used: &RegistrationUse<*mut fi::fid_mr>,
        address: usize,
    ) -> ReadableRegion {
        let by_address = self.endpoint.info.mr_mode() & fi::FI_MR_VIRT_ADDR != 0;
        let named = if by_address { address } else { address - used.start };
        let region = RemoteRegion {
            // SAFETY: the registration is in use, so it is open.
            key: unsafe { (*used.handle).key },
            address: named as u64,
        };
        ReadableRegion::new(region, Some(used.id))
    }

    pub(super) fn acquire(
        &mut self,
        address: usize,
        len: usize,
        access: u64,
    ) -> Result<RegistrationUse<*mut fi::fid_mr>, NetError> {
        let register = Register(&self.endpoint);
        self.registrations.acquire(&register, address, len, access)
    }

    pub(super) fn release(&mut self, id: u64) {
        let register = Register(&self.endpoint);
        self.registrations.release(&register, id);
    }

    pub(super) fn need(&self, flag: Capabilities, operation: &'static str) -> Result<(), NetError> {
        if self.capabilities.contains(flag) {
            return Ok(());
        }
        Err(NetError::Unsupported { operation, provider: self.endpoint.provider.clone() })
    }

    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    pub(super) fn start_copy(
        &mut self,
        action: RmaAction,
        peer: u32,
        remote: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.need(Capabilities::READ, "remote memory access")?;
        self.contact(peer)?;
        let local = match view.as_contiguous() {
            Some((address, bytes)) if len <= bytes => address,
            found => {
                let why = match found {
                    Some((_, bytes)) => format!("{len} bytes of a buffer of {bytes}"),
                    None => "the buffer does not lie in one piece".to_owned(),
                };
                let operation = action.name();
                return Err(NetError::Argument { operation, why }.into());
            }
        };
        if len == 0 {
            self.remote.end(token, Ok(()));
            return Ok(true);
        }
        if !self.has_room_for_part(peer) {
            return Ok(false);
        }
        let registration = if self.endpoint.info.mr_mode() & fi::FI_MR_LOCAL != 0 {
            Some(self.acquire(local, len, LOCAL)?)
        } else {
            None
        };
        self.start(PostedTransfer {
            action,
            token,
            peer,
            remote,
            view: Some(view.clone()),
            local,
            len,
            registration,
            posted: 0,
            under_way: 0,
            result: Ok(()),
        })
    }

    /// Whether an operation on `peer` can be started now.
    pub(super) fn has_room_for_part(&self, peer: u32) -> bool {
        !self.remote.free_parts.is_empty() && !self.peers.is_stuck(peer, self.polls)
    }

    /// Starts an operation; the caller has checked that a part is free. False if the provider has
    /// no room for the first part.
    pub(super) fn start(&mut self, transfer: PostedTransfer) -> Result<bool, ChannelError> {
        let (peer, action) = (transfer.peer, transfer.action);
        let at = self.remote.add(transfer);
        let code = self.post_part(at);
        if code != 0 {
            let transfer = self.remote.transfers[at].take();
            self.remote.free_transfers.push(at);
            if let Some(used) = transfer.and_then(|t| t.registration) {
                self.release(used.id);
            }
            return self.not_sent(peer, code, action.name());
        }
        self.peers.clear_stuck(peer);
        if self.remote.transfers[at].as_ref().is_some_and(|t| t.posted < t.len) {
            self.remote.unposted.push_back(at);
            self.post_parts();
        }
        Ok(true)
    }

    /// Posts the next part of an operation; the caller has checked that a part is free.
    fn post_part(&mut self, at: usize) -> isize {
        let Some(part) = self.remote.free_parts.pop() else {
            return -fi::FI_EAGAIN;
        };
        let transfer = self.remote.transfers[at].as_ref().expect("under way");
        let len = (transfer.len - transfer.posted).min(self.remote.part_max);
        let Some(peer) = self.peers.get(transfer.peer) else {
            self.remote.free_parts.push(part);
            return -(libc::EHOSTUNREACH as isize);
        };
        let remote =
            (transfer.remote.address.wrapping_add(transfer.posted as u64), transfer.remote.key);
        let local = std::ptr::with_exposed_provenance_mut::<c_void>(transfer.local);
        let local = local.wrapping_byte_add(transfer.posted);
        // SAFETY: the registration is open.
        let description = transfer
            .registration
            .map_or(std::ptr::null_mut(), |used| unsafe { (*used.handle).mem_desc });
        let context = self.remote.contexts.at(part);
        let (endpoint, number) = (&self.endpoint, peer.number);
        // SAFETY: 1. the caller promises that the view's bytes stay valid until the operation's
        // completion is reported, and the view keeps one of our own blocks alive; 2. the
        // registration is in use until the completion; 3. the part's own context.
        let code = unsafe {
            match transfer.action {
                RmaAction::Get => endpoint.read(local, len, description, number, remote, context),
                RmaAction::Put => endpoint.write(local, len, description, number, remote, context),
            }
        };
        if code != 0 {
            self.remote.free_parts.push(part);
            return code;
        }
        self.remote.of_part[part as usize] = at;
        let transfer = self.remote.transfers[at].as_mut().expect("under way");
        transfer.posted += len;
        transfer.under_way += 1;
        0
    }

    /// Posts further parts of the incomplete operations, as many as the provider accepts.
    #[cold]
    pub(super) fn post_parts(&mut self) {
        for _ in 0..self.remote.unposted.len() {
            let Some(at) = self.remote.unposted.pop_front() else {
                return;
            };
            let Some(transfer) = &self.remote.transfers[at] else {
                continue;
            };
            if transfer.posted >= transfer.len {
                continue;
            }
            let (peer, action) = (transfer.peer, transfer.action);
            match self.post_part(at) {
                0 => self.remote.unposted.push_front(at),
                code if code == -fi::FI_EAGAIN => self.remote.unposted.push_back(at),
                code => {
                    let error = match self.not_sent(peer, code, action.name()) {
                        Err(ChannelError::Net(error)) => error,
                        _ => self.endpoint.error("fi_read", code),
                    };
                    self.stop(at, error);
                }
            }
        }
    }

    /// Posts no more parts of this operation, because it has failed.
    fn stop(&mut self, at: usize, error: NetError) {
        let Some(transfer) = &mut self.remote.transfers[at] else {
            return;
        };
        transfer.posted = transfer.len;
        if transfer.result.is_ok() {
            transfer.result = Err(error);
        }
        if transfer.under_way == 0 {
            self.finish(at);
        }
    }

    /// Completes everything under way with a lost peer with `error`. Parts that the provider has
    /// not completed stay in use.
    pub(super) fn give_up_on(&mut self, peer: u32, error: &NetError) {
        for at in 0..self.remote.transfers.len() {
            if let Some(transfer) = &mut self.remote.transfers[at]
                && transfer.peer == peer
            {
                transfer.result = Err(error.clone());
                for of_part in &mut self.remote.of_part {
                    if *of_part == at {
                        *of_part = usize::MAX;
                    }
                }
                self.finish(at);
            }
        }
    }

    /// A part has completed.
    pub(super) fn complete_part(&mut self, part: u32, result: Result<(), OperationFailure>) {
        let at = self.remote.of_part[part as usize];
        self.remote.of_part[part as usize] = usize::MAX;
        self.remote.free_parts.push(part);
        let Some(Some(transfer)) = self.remote.transfers.get_mut(at) else {
            return;
        };
        transfer.under_way -= 1;
        self.peers.moves(transfer.peer);
        if let Err(failure) = result {
            let (peer, action) = (transfer.peer, transfer.action);
            let detail = format!("{} failed: {}", action.name(), failure.words);
            let error = if is_loss(failure.code) {
                self.lose(peer, detail)
            } else {
                NetError::Call {
                    call: action.name(),
                    provider: format!("{} (rank {peer})", self.endpoint.provider),
                    why: failure.words,
                    code: failure.code as i32,
                }
            };
            return self.stop(at, error);
        }
        if transfer.under_way == 0 && transfer.posted >= transfer.len {
            self.finish(at);
        }
    }

    fn finish(&mut self, at: usize) {
        let Some(transfer) = self.remote.transfers[at].take() else {
            return;
        };
        self.remote.free_transfers.push(at);
        if let Some(used) = transfer.registration {
            self.release(used.id);
        }
        self.remote.end(transfer.token, transfer.result);
    }
}

/// The operations of windows (MPI 5.0, 12).
impl RemoteMemory for Net {
    fn register(&mut self, address: usize, len: usize) -> Result<RemoteRegion, ChannelError> {
        let exposed = self.open_memory(address, len)?;
        let region = RemoteRegion::from(&exposed);
        self.remote.registered.push(exposed);
        Ok(region)
    }

    fn unregister(&mut self, region: RemoteRegion) {
        let found = |e: &ReadableRegion| RemoteRegion::from(e) == region;
        if let Some(at) = self.remote.registered.iter().position(found) {
            let exposed = self.remote.registered.swap_remove(at);
            self.conceal(exposed);
        }
    }

    fn put(
        &mut self,
        peer: u32,
        to: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_copy(RmaAction::Put, peer, to, view, len, token)
    }

    fn get(
        &mut self,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_copy(RmaAction::Get, peer, from, view, len, token)
    }
}
