//! Registered memory: puts and gets by RMA (jiang-2004, chapter 3), where the network has it.
//!
//! | window | registered | its key |
//! |---|---|---|
//! | create, allocate | when it is made | in the last exchange of that call |
//! | dynamic | at each attach | asked for by each long operation |
//!
//! Memory of a dynamic window may be detached and attached again at the same address, and a key
//! that is refused would end the connection, so none is kept. Keys are random
//! (`mica_channel::net`), and revoked by free and detach.
//!
//! A put or get is complete when its bytes are at the target, and flush, unlock, fence and complete
//! wait for that before they send their own request. So an operation after them, by whichever path,
//! finds the bytes. Puts and gets of one epoch have no order among themselves or with accumulates
//! (MPI 5.0, 12.7). Still programs rely on it that a get finds what they have put or accumulated
//! at the same place before (ARMCI-MPI's default, and so Global Arrays), so gets do not overtake
//! requests without an answer: a short one is a request itself, and RMA of a long one begins when
//! the target says that it has carried them out. Puts may overtake them. Accumulates never go
//! by RMA: an adapter's atomic operations do not exclude the processor's.

use std::sync::Arc;

use mica_channel::RemoteRegion;
use mica_memory::{Region, Shape, View};
use mica_node::counters::AccessClass;
use mica_policy::select::OutgoingMessage;
use mica_policy::{OneSidedPath, one_sided_path};
use mica_protocol::{EngineState, RmaDirection, RmaId, RmaTransfer};

use super::keys::TargetKey;
use super::message::{ANSWER_HEAD, DATA_MAX, RemoteRequest, RequestKind, answer, set_error};
use super::operation::{AnswerData, BegunTransfer, DeferredTransfer, RemoteOperation};
use super::side::RemoteSide;
use mica_objects::constants as c;
use mica_objects::error::Result;
use mica_objects::process;
use mica_objects::sync::lock;

/// A put or get of attached memory whose key is asked for.
#[derive(Debug)]
struct KeyedTransfer {
    side: Arc<RemoteSide>,
    direction: RmaDirection,
    target: usize,
    address: u64,
    shape: Shape,
    view: View,
}

/// A get that shall not overtake the requests before it.
#[derive(Debug)]
struct OrderedGet {
    side: Arc<RemoteSide>,
    transfer: RmaTransfer,
}

/// Words of the answer that names a registration: whether there is one, key, address.
const NAME_WORDS: usize = 3;

/// The origin's side.
impl RemoteSide {
    /// Starts to copy between `view` and the bytes of `shape` at `address` of `target` by RMA.
    /// `None`: it goes by requests.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub(super) fn transfer(
        self: &Arc<Self>,
        direction: RmaDirection,
        target: usize,
        address: u64,
        shape: &Shape,
        view: &View,
    ) -> Result<Option<Arc<RemoteOperation>>> {
        let key = self.registered.targets[target];
        let message = OutgoingMessage {
            pieces: shape.run_count_hint(),
            ..OutgoingMessage::contiguous(shape.len())
        };
        let path = one_sided_path(&message, key.registration(), self.registered.rma);
        if path == OneSidedPath::Messages {
            return Ok(None);
        }
        let what = match direction {
            RmaDirection::Put => "a put",
            RmaDirection::Get => "a get",
        };
        let is_ordered = direction == RmaDirection::Get && self.has_unanswered(target);
        if is_ordered && shape.len() <= DATA_MAX {
            return Ok(None);
        }
        if let TargetKey::Window(memory) = key {
            let transfer = RmaTransfer {
                direction,
                peer: self.members.peer(target),
                remote: RemoteRegion { address: memory.address.wrapping_add(address), ..memory },
                shape: shape.clone(),
                view: view.clone(),
            };
            if is_ordered {
                let flush = RemoteRequest::plain(RequestKind::Flush, None);
                let side = Arc::clone(self);
                let deferred = AnswerData::Transfer(Box::new(OrderedGet { side, transfer }));
                let expected = self.ask_for(target, flush, None, 0, deferred)?;
                return Ok(Some(self.begin(target, what, vec![expected])));
            }
            let id = process::engine()?.enter(|state| self.start_transfer(state, transfer));
            let operation = RemoteOperation::of_transfer(target, what, id);
            return Ok(Some(self.keep_pending(operation)));
        }
        let (low, bytes) = shape.span();
        let request = RemoteRequest {
            address,
            runs: vec![(low as i64, bytes as u64)],
            ..RemoteRequest::plain(RequestKind::NameRegistration, None)
        };
        let deferred = AnswerData::Transfer(Box::new(KeyedTransfer {
            side: Arc::clone(self),
            direction,
            target,
            address,
            shape: shape.clone(),
            view: view.clone(),
        }));
        let expected = self.ask_for(target, request, None, NAME_WORDS * 8, deferred)?;
        Ok(Some(self.begin(target, what, vec![expected])))
    }

    /// Starts a transfer, and counts it.
    fn start_transfer(&self, state: &mut EngineState, transfer: RmaTransfer) -> RmaId {
        self.counters.count_operation(AccessClass::Rma, transfer.shape.len());
        state.start_rma(transfer)
    }
}

impl DeferredTransfer for KeyedTransfer {
    fn begin(self: Box<Self>, state: &mut EngineState, name: &Region) -> Result<BegunTransfer> {
        let mut words = [[0; 8]; NAME_WORDS];
        name.read_bytes(words.as_flattened_mut());
        let [is_registered, key, named] = words.map(u64::from_ne_bytes);
        let KeyedTransfer { side, direction, target, address, shape, view } = *self;
        if is_registered != 0 {
            let transfer = RmaTransfer {
                direction,
                peer: side.members.peer(target),
                remote: RemoteRegion { key, address: named },
                shape,
                view,
            };
            return Ok(BegunTransfer::Rma(side.start_transfer(state, transfer)));
        }
        let expected = match direction {
            RmaDirection::Put => {
                side.put_by_requests(address, &shape, &view, |message, length| {
                    side.tell_inside(state, target, message, length)
                })?;
                Vec::new()
            }
            RmaDirection::Get => {
                side.get_by_requests(address, &shape, &view, |request, bytes, data| {
                    side.ask_inside(state, target, request, None, bytes, data)
                })?
            }
        };
        Ok(BegunTransfer::Requests(expected))
    }
}

impl DeferredTransfer for OrderedGet {
    fn begin(self: Box<Self>, state: &mut EngineState, _: &Region) -> Result<BegunTransfer> {
        Ok(BegunTransfer::Rma(self.side.start_transfer(state, self.transfer)))
    }
}

/// The target's side.
impl RemoteSide {
    /// Registers memory that was attached, if origins ask for it. Where that fails, they send
    /// requests.
    ///
    /// # Errors
    /// When MPI is not in use.
    pub fn register_attached(&self, address: usize, bytes: usize) -> Result<()> {
        if bytes == 0 || !self.registered.targets.contains(&TargetKey::OnRequest) {
            return Ok(());
        }
        process::engine()?.enter(|state| {
            if let Some(region) = state.register_memory(address, bytes) {
                lock(&self.registered.own).add(address, bytes, region);
            }
        });
        Ok(())
    }

    /// Revokes the registration of memory that is being detached.
    ///
    /// # Errors
    /// When MPI is not in use.
    pub fn unregister_attached(&self, address: usize) -> Result<()> {
        process::engine()?.enter(|state| {
            if let Some(region) = lock(&self.registered.own).remove(address) {
                state.unregister_memory(region);
            }
        });
        Ok(())
    }

    /// Revokes all that this rank has registered for the window.
    pub(super) fn unregister_all(&self, state: &mut EngineState) {
        let own = std::mem::take(&mut *lock(&self.registered.own));
        for region in own.all() {
            state.unregister_memory(region);
        }
    }

    /// Answers where the memory that the request names is registered.
    pub(super) fn serve_name(
        &self,
        state: &mut EngineState,
        origin: usize,
        request: &RemoteRequest,
    ) -> Result<()> {
        let (message, length) = answer(c::SUCCESS, NAME_WORDS * 8)?;
        let (low, bytes) = match request.runs[..] {
            [(low, bytes)] => (low as isize, bytes as usize),
            _ => (0, 0),
        };
        let error = self.on_own_memory(request, low, bytes, |_| Ok(()));
        if error == c::SUCCESS {
            let name = lock(&self.registered.own).name(request.address as usize, low, bytes);
            let words = match name {
                None => [0; NAME_WORDS],
                Some(region) => [1, region.key, region.address],
            };
            let words = words.map(u64::to_ne_bytes);
            let data = message.offset(ANSWER_HEAD as isize);
            data.write_bytes(words.as_flattened());
        } else {
            set_error(&message, error);
        }
        self.reply(state, origin, request.answer, message, length)
    }
}
