//! Buffers of our own that the library sends from and receives into, and the contexts of operations
//! under way.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;

use super::bindings as fi;
use super::endpoint::Endpoint;
use super::error::NetError;
use crate::memory::{Block, Region};

/// What an operation was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationPurpose {
    /// A receive into this buffer.
    Receive(u32),
    /// A send from this buffer.
    Send(u32),
    /// A part of a one-sided operation.
    Part(u32),
}

/// An operation's context: room that the provider may use while the operation is under way, and
/// what it was for.
#[derive(Debug)]
#[repr(C)]
struct OperationContext {
    room: UnsafeCell<fi::fi_context2>,
    work: OperationPurpose,
}

/// The contexts of as many operations. They never move.
#[derive(Debug)]
pub(super) struct OperationContexts(Box<[OperationContext]>);

// SAFETY: the rooms are touched by the library alone.
unsafe impl Send for OperationContexts {}

impl OperationContexts {
    pub fn new(count: u32, work: impl Fn(u32) -> OperationPurpose) -> OperationContexts {
        let context = |i| OperationContext {
            room: UnsafeCell::default(),
            work: work(i),
        };
        OperationContexts((0..count).map(context).collect())
    }

    /// The context of operation `index`.
    pub fn at(&self, index: u32) -> *mut c_void {
        ptr::from_ref(&self.0[index as usize]).cast_mut().cast()
    }

    /// What the operation with this context was for.
    ///
    /// # Safety
    /// `context` is null or came from [`at`](Self::at), of contexts that are still there.
    pub unsafe fn work(context: *mut c_void) -> Option<OperationPurpose> {
        // SAFETY: the caller's promise; `work` is never changed.
        unsafe { context.cast::<OperationContext>().as_ref() }.map(|c| c.work)
    }
}

/// Buffers to send from, of one size: so many, and as many again whenever [`grow`](Self::grow) is
/// called.
#[derive(Debug)]
pub(super) struct SendPools {
    list: Vec<RegisteredBuffers>,
    each: u32,
    bytes: usize,
}

impl SendPools {
    /// # Errors
    /// As of [`RegisteredBuffers::new`].
    pub fn new(endpoint: &Endpoint, each: u32, bytes: usize) -> Result<SendPools, NetError> {
        let mut pools = SendPools {
            list: Vec::new(),
            each,
            bytes,
        };
        pools.grow(endpoint)?;
        Ok(pools)
    }

    /// Adds a pool.
    ///
    /// # Errors
    /// As of [`RegisteredBuffers::new`].
    pub fn grow(&mut self, endpoint: &Endpoint) -> Result<(), NetError> {
        let first = self.list.len() as u32 * self.each;
        let key = 16 + self.list.len() as u64;
        let work = |i| OperationPurpose::Send(first + i);
        let pool = RegisteredBuffers::new(endpoint, self.each, self.bytes, key, work)?;
        self.list.push(pool);
        Ok(())
    }

    /// The pool of buffer `index`, and its index there.
    #[inline]
    pub fn of(&self, index: u32) -> (&RegisteredBuffers, u32) {
        (&self.list[(index / self.each) as usize], index % self.each)
    }

    /// Buffer `index`, to be filled.
    ///
    /// # Safety
    /// As of [`RegisteredBuffers::to_fill`].
    #[expect(
        clippy::mut_from_ref,
        reason = "each buffer is its own memory, and the caller vouches for it"
    )]
    pub unsafe fn to_fill(&self, index: u32) -> &mut [u8] {
        let (pool, index) = self.of(index);
        // SAFETY: the caller's promise.
        unsafe { pool.to_fill(index) }
    }

    /// Gives the registrations back.
    pub fn close(&mut self, endpoint: &Endpoint) {
        self.list.iter_mut().for_each(|pool| pool.close(endpoint));
    }

    /// Never frees the memory.
    pub fn abandon(&self) {
        self.list.iter().for_each(RegisteredBuffers::abandon);
    }
}

/// Access to all kinds of our own buffers.
const ACCESS: u64 = fi::FI_SEND | fi::FI_RECV | fi::FI_READ | fi::FI_WRITE;

/// So many buffers of one size, registered where the provider asks for it.
#[derive(Debug)]
pub(super) struct RegisteredBuffers {
    region: Region,
    stride: usize,
    pub contexts: OperationContexts,
    mr: *mut fi::fid_mr,
    description: *mut c_void,
}

// SAFETY: as of the endpoint, whose registration this is.
unsafe impl Send for RegisteredBuffers {}

impl RegisteredBuffers {
    /// `count` buffers of `bytes` bytes each. A registration, if the provider needs one, gets
    /// `key`.
    ///
    /// # Errors
    /// When there is no memory, or the provider refuses it.
    pub fn new(
        endpoint: &Endpoint,
        count: u32,
        bytes: usize,
        key: u64,
        work: impl Fn(u32) -> OperationPurpose,
    ) -> Result<RegisteredBuffers, NetError> {
        let stride = bytes.next_multiple_of(64);
        let region = Block::allocate(stride * count as usize)?;
        let mut buffers = RegisteredBuffers {
            region,
            stride,
            contexts: OperationContexts::new(count, work),
            mr: ptr::null_mut(),
            description: ptr::null_mut(),
        };
        if endpoint.info.mr_mode() & fi::FI_MR_LOCAL != 0 {
            let (address, len) = (buffers.region.address(), stride * count as usize);
            // SAFETY: our own memory, which is freed after the registration is closed, by `close`.
            unsafe {
                buffers.mr = endpoint.register(address, len, ACCESS, key)?;
                buffers.description = (*buffers.mr).mem_desc;
            }
        }
        Ok(buffers)
    }

    /// Bytes that a buffer has room for.
    pub fn bytes(&self) -> usize {
        self.stride
    }

    /// Its registration, for the library.
    pub fn description(&self) -> *mut c_void {
        self.description
    }

    /// The first byte of buffer `index`.
    pub fn start(&self, index: u32) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.region.address() + index as usize * self.stride)
    }

    /// The first `len` bytes of buffer `index`.
    ///
    /// # Safety
    /// No operation on it is under way, and nobody writes to it while the slice is used.
    pub unsafe fn filled(&self, index: u32, len: usize) -> &[u8] {
        assert!(
            len <= self.stride,
            "{len} bytes in a buffer of {}",
            self.stride
        );
        // SAFETY: inside the block, which is initialised; the caller's promise.
        unsafe { std::slice::from_raw_parts(self.start(index), len) }
    }

    /// Buffer `index`, to be filled.
    ///
    /// # Safety
    /// As of [`filled`](Self::filled), and nobody reads it.
    #[expect(
        clippy::mut_from_ref,
        reason = "each buffer is its own memory, and the caller vouches for it"
    )]
    pub unsafe fn to_fill(&self, index: u32) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start(index), self.stride) }
    }

    /// Gives the registration back.
    pub fn close(&mut self, endpoint: &Endpoint) {
        if !self.mr.is_null() {
            // SAFETY: this endpoint's, and not used after.
            unsafe { endpoint.unregister(self.mr) };
            self.mr = ptr::null_mut();
        }
    }

    /// Never frees the memory: the library may go on to use it.
    pub fn abandon(&self) {
        std::mem::forget(self.region.clone());
    }
}
