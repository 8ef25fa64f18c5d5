//! Registered buffers of the channel, from which libfabric sends and into which it receives, and
//! the contexts of operations under way.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr;

use super::bindings as fi;
use super::endpoint::Endpoint;
use crate::transport::NetError;
use mica_memory::{Block, Region};

/// The purpose of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationPurpose {
    /// A receive into this buffer.
    Receive(u32),
    /// A send from this buffer.
    Send(u32),
    /// One part of a one-sided operation.
    Part(u32),
}

/// The context of an operation: space that the provider may use while the operation is under way,
/// and the purpose of the operation.
#[derive(Debug)]
#[repr(C)]
struct OperationContext {
    room: UnsafeCell<fi::fi_context2>,
    work: OperationPurpose,
}

/// The contexts of a fixed number of operations. They never move.
#[derive(Debug)]
pub(super) struct OperationContexts(Box<[OperationContext]>);

// SAFETY: only the library touches the space in the contexts.
unsafe impl Send for OperationContexts {}

impl OperationContexts {
    pub fn new(count: u32, work: impl Fn(u32) -> OperationPurpose) -> OperationContexts {
        let room = fi::fi_context2 { internal: [ptr::null_mut(); 8] };
        let context = |i| OperationContext { room: UnsafeCell::new(room), work: work(i) };
        OperationContexts((0..count).map(context).collect())
    }

    /// The context of operation `index`.
    pub fn at(&self, index: u32) -> *mut c_void {
        ptr::from_ref(&self.0[index as usize]).cast_mut().cast()
    }

    /// The purpose of the operation with this context.
    ///
    /// # Safety
    /// `context` is null or came from [`at`](Self::at), of contexts that still exist.
    pub unsafe fn work(context: *mut c_void) -> Option<OperationPurpose> {
        // SAFETY: the caller's promise; `work` never changes.
        unsafe { context.cast::<OperationContext>().as_ref() }.map(|c| c.work)
    }
}

/// Send buffers of one size, in pools of `each` buffers. [`grow`](Self::grow) adds a pool.
#[derive(Debug)]
pub(super) struct SendPools {
    list: Vec<RegisteredBuffers>,
    each: u32,
    bytes: usize,
}

impl SendPools {
    /// # Errors
    /// Those of [`RegisteredBuffers::new`].
    pub fn new(endpoint: &Endpoint, each: u32, bytes: usize) -> Result<SendPools, NetError> {
        let mut pools = SendPools { list: Vec::new(), each, bytes };
        pools.grow(endpoint)?;
        Ok(pools)
    }

    /// Adds a pool.
    ///
    /// # Errors
    /// Those of [`RegisteredBuffers::new`].
    pub fn grow(&mut self, endpoint: &Endpoint) -> Result<(), NetError> {
        let first = self.list.len() as u32 * self.each;
        let work = |i| OperationPurpose::Send(first + i);
        let pool = RegisteredBuffers::new(endpoint, self.each, self.bytes, work)?;
        self.list.push(pool);
        Ok(())
    }

    /// The pool of buffer `index`, and the buffer's index in that pool.
    #[inline]
    pub fn of(&self, index: u32) -> (&RegisteredBuffers, u32) {
        (&self.list[(index / self.each) as usize], index % self.each)
    }

    /// Buffer `index`, for the caller to fill.
    ///
    /// # Safety
    /// See [`RegisteredBuffers::to_fill`].
    #[expect(
        clippy::mut_from_ref,
        reason = "each buffer is its own memory, and the caller vouches for it"
    )]
    pub unsafe fn to_fill(&self, index: u32) -> &mut [u8] {
        let (pool, index) = self.of(index);
        // SAFETY: the caller's promise.
        unsafe { pool.to_fill(index) }
    }

    /// Closes the registrations.
    pub fn close(&mut self, endpoint: &Endpoint) {
        self.list.iter_mut().for_each(|pool| pool.close(endpoint));
    }

    /// Leaks the memory: it is never freed.
    pub fn abandon(&self) {
        self.list.iter().for_each(RegisteredBuffers::abandon);
    }
}

/// Access rights of the channel's own buffers.
const ACCESS: u64 = fi::FI_SEND | fi::FI_RECV | fi::FI_READ | fi::FI_WRITE;

/// Buffers of one size, registered if the provider requires it.
#[derive(Debug)]
pub(super) struct RegisteredBuffers {
    region: Region,
    stride: usize,
    pub contexts: OperationContexts,
    mr: *mut fi::fid_mr,
    description: *mut c_void,
}

// SAFETY: as for the endpoint, which owns this registration.
unsafe impl Send for RegisteredBuffers {}

impl RegisteredBuffers {
    /// `count` buffers of `bytes` bytes each, registered if the provider needs it.
    ///
    /// # Errors
    /// If memory runs out, or the provider refuses the registration.
    pub fn new(
        endpoint: &Endpoint,
        count: u32,
        bytes: usize,
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
            // SAFETY: this is our own memory; it is freed after `close` has closed the
            // registration.
            unsafe {
                buffers.mr = endpoint.register(address, len, ACCESS)?;
                buffers.description = (*buffers.mr).mem_desc;
            }
        }
        Ok(buffers)
    }

    /// Size of a buffer in bytes.
    pub fn bytes(&self) -> usize {
        self.stride
    }

    /// The descriptor of the registration, for libfabric calls.
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
    /// No operation on it is under way, and nothing writes to it while the slice is in use.
    pub unsafe fn filled(&self, index: u32, len: usize) -> &[u8] {
        assert!(len <= self.stride, "{len} bytes in a buffer of {}", self.stride);
        // SAFETY: the range is inside the block, which is initialised; the rest is the caller's
        // promise.
        unsafe { std::slice::from_raw_parts(self.start(index), len) }
    }

    /// Buffer `index`, for the caller to fill.
    ///
    /// # Safety
    /// See [`filled`](Self::filled); in addition, nothing reads the buffer.
    #[expect(
        clippy::mut_from_ref,
        reason = "each buffer is its own memory, and the caller vouches for it"
    )]
    pub unsafe fn to_fill(&self, index: u32) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start(index), self.stride) }
    }

    /// Closes the registration.
    pub fn close(&mut self, endpoint: &Endpoint) {
        if !self.mr.is_null() {
            // SAFETY: it belongs to this endpoint and is not used afterwards.
            unsafe { endpoint.unregister(self.mr) };
            self.mr = ptr::null_mut();
        }
    }

    /// Leaks the memory, because the library may still use it.
    pub fn abandon(&self) {
        std::mem::forget(self.region.clone());
    }
}
