//! libfabric's objects of one rank, and the calls on them: a fabric, a domain, an address vector,
//! one completion queue, one endpoint.
//!
//! Calls return libfabric's values unchanged: 0 or a count, or a negative error; `-FI_EAGAIN` means
//! that there is no room now. Only one thread at a time uses these objects (FI_THREAD_DOMAIN).

use std::ffi::{CStr, c_void};
use std::os::fd::RawFd;
use std::ptr;

use super::bindings as fi;
use super::keys::RandomKeys;
use super::library::{FabricInfo, Libfabric};
use super::queue_events::QueueEvents;
use crate::transport::NetError;

/// Calls a function of an object's operations table.
macro_rules! call {
    ($object:expr, $table:ident, $entry:ident $(, $argument:expr)*) => {
        match (*(*$object).$table).$entry {
            Some(entry) => entry($object $(, $argument)*) as isize,
            None => -fi::FI_ENOSYS,
        }
    };
}

/// Space that the library may write beyond an error entry, in bytes: later versions have more
/// fields than the bindings know.
const ROOM: usize = 64;

/// Keys tried for a registration: a provider with short keys may have one in use already.
const KEY_TRIES: u32 = 100;

/// Where the library writes an error entry.
#[repr(C)]
struct ErrorEntry {
    entry: fi::fi_cq_err_entry,
    room: [u8; ROOM],
}

/// A failed operation.
#[derive(Debug)]
pub(super) struct OperationFailure {
    /// The operation's context; null if the provider does not report it.
    pub context: *mut c_void,
    /// libfabric's error number, positive.
    pub code: isize,
    /// The error text of the library and of the provider.
    pub words: String,
}

/// The libfabric objects of one rank. They are closed on drop.
#[derive(Debug)]
pub(super) struct Endpoint {
    ep: *mut fi::fid_ep,
    cq: *mut fi::fid_cq,
    av: *mut fi::fid_av,
    domain: *mut fi::fid_domain,
    fabric: *mut fi::fid_fabric,
    /// Events of the completion queue; `None` if the provider has no descriptor.
    events: Option<QueueEvents>,
    /// For registrations, where the provider lets us choose keys.
    keys: RandomKeys,
    pub info: FabricInfo,
    pub library: Libfabric,
    pub provider: String,
}

// SAFETY: the objects are not bound to a thread, and only one thread at a time uses them because
// `Endpoint` is not `Sync`.
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// Opens all objects for `info`; at most `completions` operations are under way at once.
    ///
    /// # Errors
    /// The call that failed.
    pub fn open(
        library: Libfabric,
        info: FabricInfo,
        completions: usize,
    ) -> Result<Endpoint, NetError> {
        let provider = info.provider();
        let fabric = library.open_fabric(&info)?;
        let mut this = Endpoint {
            ep: ptr::null_mut(),
            cq: ptr::null_mut(),
            av: ptr::null_mut(),
            domain: ptr::null_mut(),
            fabric,
            events: None,
            keys: RandomKeys::new(info.key_bytes()),
            info,
            library,
            provider,
        };
        // From here on, an error drops `this`, which closes the objects that are already open.
        let none = ptr::null_mut::<c_void>();
        let raw = this.info.raw();
        // SAFETY: the objects come from the calls before, the attributes are numbers and pointers,
        // which may be zero, and outlive the calls, and each result has a place of its type.
        unsafe {
            let code = call!(this.fabric, ops, domain, raw, &raw mut this.domain, none);
            this.check("fi_domain", code)?;
            let mut av = fi::fi_av_attr { type_: fi::FI_AV_TABLE, ..std::mem::zeroed() };
            let code = call!(this.domain, ops, av_open, &raw mut av, &raw mut this.av, none);
            this.check("fi_av_open", code)?;
            this.open_queue(completions)?;
            let code = call!(this.domain, ops, endpoint, raw, &raw mut this.ep, none);
            this.check("fi_endpoint", code)?;
            for (object, flags) in [
                (&raw mut (*this.cq).fid, fi::FI_TRANSMIT | fi::FI_RECV),
                (&raw mut (*this.av).fid, 0),
            ] {
                let ep = &raw mut (*this.ep).fid;
                let code = call!(ep, ops, bind, object, flags);
                this.check("fi_ep_bind", code)?;
            }
            let ep = &raw mut (*this.ep).fid;
            let code = call!(ep, ops, control, fi::FI_ENABLE as i32, none);
            this.check("fi_enable", code)?;
        }
        Ok(this)
    }

    /// Opens the completion queue, with a descriptor to wait for if the provider supports it.
    fn open_queue(&mut self, completions: usize) -> Result<(), NetError> {
        let mut attributes = fi::fi_cq_attr {
            size: completions,
            format: fi::FI_CQ_FORMAT_MSG,
            wait_obj: fi::FI_WAIT_FD,
            // SAFETY: numbers and pointers, which may be zero.
            ..unsafe { std::mem::zeroed() }
        };
        let none = ptr::null_mut::<c_void>();
        // SAFETY: as in `open`.
        unsafe {
            let at = &raw mut self.cq;
            let mut code = call!(self.domain, ops, cq_open, &raw mut attributes, at, none);
            if code == 0 {
                let mut descriptor: RawFd = -1;
                let cq = &raw mut (*self.cq).fid;
                let to = (&raw mut descriptor).cast();
                let code = call!(cq, ops, control, fi::FI_GETWAIT as i32, to);
                if code == 0 && descriptor >= 0 {
                    self.events = Some(QueueEvents::of(descriptor));
                }
            } else {
                attributes.wait_obj = fi::FI_WAIT_NONE;
                let at = &raw mut self.cq;
                code = call!(self.domain, ops, cq_open, &raw mut attributes, at, none);
            }
            self.check("fi_cq_open", code)
        }
    }

    fn check(&self, call: &'static str, code: isize) -> Result<(), NetError> {
        if code < 0 {
            return Err(self.error(call, code));
        }
        Ok(())
    }

    /// The error of a call that returned `code`.
    #[cold]
    pub fn error(&self, call: &'static str, code: isize) -> NetError {
        self.library.error(call, &self.provider, code)
    }

    /// The endpoint's address, to be sent to peers.
    ///
    /// # Errors
    /// If the provider does not report it.
    pub fn name(&self) -> Result<Vec<u8>, NetError> {
        let mut name = vec![0u8; 256];
        let mut len = name.len();
        // SAFETY: `name` has `len` bytes.
        let code = unsafe {
            match (*(*self.ep).cm).getname {
                Some(getname) => {
                    let ep = &raw mut (*self.ep).fid;
                    getname(ep, name.as_mut_ptr().cast(), &raw mut len) as isize
                }
                None => -fi::FI_ENOSYS,
            }
        };
        self.check("fi_getname", code)?;
        name.truncate(len);
        Ok(name)
    }

    /// Inserts a peer's address in the address vector; returns the provider's number for it.
    ///
    /// # Errors
    /// If it is not a valid address.
    pub fn insert(&self, address: &[u8]) -> Result<u64, NetError> {
        let mut number = fi::FI_ADDR_NOTAVAIL;
        let from = address.as_ptr().cast();
        let none = ptr::null_mut::<c_void>();
        // SAFETY: the caller has checked that `address` has the length of the provider's addresses.
        let code = unsafe { call!(self.av, ops, insert, from, 1, &raw mut number, 0, none) };
        match code {
            1 if number != fi::FI_ADDR_NOTAVAIL => Ok(number),
            code if code < 0 => Err(self.error("fi_av_insert", code)),
            _ => Err(self.error("fi_av_insert", -fi::FI_EINVAL)),
        }
    }

    /// Reads completions; returns their number or an error.
    #[inline]
    pub fn read_completions(&self, to: &mut [fi::fi_cq_msg_entry]) -> isize {
        // SAFETY: `to` has room for `to.len()` entries of the queue's format.
        unsafe { call!(self.cq, ops, read, to.as_mut_ptr().cast(), to.len()) }
    }

    /// The failed operation at the head of the queue, if there is one.
    #[cold]
    pub fn read_failure(&self) -> Option<OperationFailure> {
        // SAFETY: numbers and pointers, which may be zero. The provider keeps the error data itself
        // if no buffer is given.
        let mut place: ErrorEntry = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for an entry, and more behind it; the entry is valid if the call
        // succeeds, and its data until the next call.
        unsafe {
            let at = (&raw mut place).cast::<fi::fi_cq_err_entry>();
            if call!(self.cq, ops, readerr, at, 0) < 1 {
                return None;
            }
            let e = &place.entry;
            let mut words = self.library.describe(e.err);
            if let Some(strerror) = (*(*self.cq).ops).strerror
                && e.prov_errno != 0
            {
                let mut text = [0; 128];
                let said =
                    strerror(self.cq, e.prov_errno, e.err_data, text.as_mut_ptr(), text.len());
                if !said.is_null() {
                    let said = CStr::from_ptr(said).to_string_lossy();
                    if !said.is_empty() && *said != *words {
                        words += &format!(" ({said})");
                    }
                }
            }
            Some(OperationFailure { context: e.op_context, code: e.err as isize, words })
        }
    }

    /// The descriptor to wait for, if the provider has one: it becomes readable when the completion
    /// queue may have got an entry.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.events.as_ref().map(QueueEvents::descriptor)
    }

    /// False if the queue has, or may have, an entry: then the caller must poll it, and not wait
    /// for the descriptor.
    pub fn may_wait(&self) -> bool {
        if self.events.as_ref().is_some_and(QueueEvents::take) {
            return false;
        }
        // SAFETY: the object belongs to this fabric.
        unsafe {
            let mut objects = [&raw mut (*self.cq).fid];
            call!(self.fabric, ops, trywait, objects.as_mut_ptr(), 1) == 0
        }
    }

    /// Sends without a completion; the caller may reuse the bytes when this returns.
    #[inline]
    pub fn inject(&self, bytes: &[u8], to: u64) -> isize {
        // SAFETY: the provider has read the bytes when the call returns.
        unsafe { call!(self.ep, msg, inject, bytes.as_ptr().cast(), bytes.len(), to) }
    }

    /// # Safety
    /// 1. `len` bytes at `from` stay readable, and unchanged, until the operation has completed;
    /// 2. `description` is that of their registration if the provider requires one;
    /// 3. `context` points to a `fi_context2` that nothing else touches until then.
    #[inline]
    pub unsafe fn send(
        &self,
        from: *const c_void,
        len: usize,
        description: *mut c_void,
        to: u64,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the caller's promises.
        unsafe { call!(self.ep, msg, send, from, len, description, to, context) }
    }

    /// # Safety
    /// See [`send`](Self::send); the bytes are writable, and nothing else touches them.
    #[inline]
    pub unsafe fn receive(
        &self,
        to: *mut c_void,
        len: usize,
        description: *mut c_void,
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the caller's promises.
        unsafe {
            let from = fi::FI_ADDR_UNSPEC;
            call!(self.ep, msg, recv, to, len, description, from, context)
        }
    }

    /// # Safety
    /// See [`receive`](Self::receive).
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    pub unsafe fn read(
        &self,
        to: *mut c_void,
        len: usize,
        description: *mut c_void,
        peer: u64,
        (address, key): (u64, u64),
        context: *mut c_void,
    ) -> isize {
        // SAFETY: the caller's promises.
        unsafe { call!(self.ep, rma, read, to, len, description, peer, address, key, context) }
    }

    /// Writes to a peer's memory; completes when the bytes have arrived there.
    ///
    /// # Safety
    /// See [`send`](Self::send).
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    pub unsafe fn write(
        &self,
        from: *mut c_void,
        len: usize,
        mut description: *mut c_void,
        peer: u64,
        (address, key): (u64, u64),
        context: *mut c_void,
    ) -> isize {
        let local = libc::iovec { iov_base: from, iov_len: len };
        let remote = fi::fi_rma_iov { addr: address, len, key };
        let message = fi::fi_msg_rma {
            msg_iov: &raw const local,
            desc: &raw mut description,
            iov_count: 1,
            addr: peer,
            rma_iov: &raw const remote,
            rma_iov_count: 1,
            context,
            data: 0,
        };
        let flags = fi::FI_COMPLETION | fi::FI_DELIVERY_COMPLETE;
        // SAFETY: the caller's promises; the lists are read before the call returns.
        unsafe { call!(self.ep, rma, writemsg, &raw const message, flags) }
    }

    /// Registers memory, under a random key unless the provider chooses it.
    ///
    /// # Safety
    /// The bytes are mapped, with the rights that `access` needs, until the registration is closed.
    ///
    /// # Errors
    /// If the provider refuses.
    pub unsafe fn register(
        &self,
        address: usize,
        len: usize,
        access: u64,
    ) -> Result<*mut fi::fid_mr, NetError> {
        let mut mr = ptr::null_mut();
        let mut tries = KEY_TRIES;
        // SAFETY: the caller's promise; the domain is open.
        unsafe {
            let domain = &raw mut (*self.domain).fid;
            let from = ptr::with_exposed_provenance::<c_void>(address);
            let reg = (*(*self.domain).mr).reg;
            let reg = reg.ok_or_else(|| self.error("fi_mr_reg", -fi::FI_ENOSYS))?;
            loop {
                let none = ptr::null_mut();
                let key = self.keys.draw().map_err(|_| self.no_random())?;
                let code = reg(domain, from, len, access, 0, key, 0, &raw mut mr, none) as isize;
                tries -= 1;
                if code != -fi::FI_ENOKEY || tries == 0 {
                    self.check("fi_mr_reg", code)?;
                    break;
                }
            }
            if self.info.mr_mode() & fi::FI_MR_ENDPOINT != 0 {
                let object = &raw mut (*mr).fid;
                let ep = &raw mut (*self.ep).fid;
                let mut code = call!(object, ops, bind, ep, 0);
                if code == 0 {
                    code = call!(object, ops, control, fi::FI_ENABLE as i32, ptr::null_mut());
                }
                if let Err(error) = self.check("fi_mr_bind", code) {
                    close(object);
                    return Err(error);
                }
            }
        }
        Ok(mr)
    }

    /// A random number of 64 bits.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn random(&self) -> Result<u64, NetError> {
        let bytes = mica_node::handover::nonce().map_err(|_| self.no_random())?;
        Ok(u128::from_ne_bytes(bytes) as u64)
    }

    #[cold]
    fn no_random(&self) -> NetError {
        self.error("getrandom", -(libc::EIO as isize))
    }

    /// Closes a registration.
    ///
    /// # Safety
    /// It is one of this endpoint's, and is not used afterwards.
    pub unsafe fn unregister(&self, mr: *mut fi::fid_mr) {
        // SAFETY: the caller's promise.
        unsafe { close(&raw mut (*mr).fid) };
    }

    /// Closes the endpoint, which ends all operations: afterwards nothing touches their memory. No
    /// other call may follow. False if the provider refuses; it may then still use that memory.
    pub fn close_endpoint(&mut self) -> bool {
        if self.ep.is_null() {
            return true;
        }
        // SAFETY: it is open, and not used afterwards.
        let closed = unsafe { close(&raw mut (*self.ep).fid) };
        if closed {
            self.ep = ptr::null_mut();
        }
        closed
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if !self.close_endpoint() {
            // The objects that it depends on cannot be closed either.
            return;
        }
        // SAFETY: dependents are closed first; each object is null or open, and not used
        // afterwards.
        unsafe {
            if !self.av.is_null() {
                close(&raw mut (*self.av).fid);
            }
            if !self.cq.is_null() {
                close(&raw mut (*self.cq).fid);
            }
            if !self.domain.is_null() {
                close(&raw mut (*self.domain).fid);
            }
            if !self.fabric.is_null() {
                close(&raw mut (*self.fabric).fid);
            }
        }
    }
}

/// # Safety
/// `object` is open, and is not used afterwards if this returns true.
unsafe fn close(object: *mut fi::fid) -> bool {
    // SAFETY: the caller's promise.
    unsafe { call!(object, ops, close) == 0 }
}
