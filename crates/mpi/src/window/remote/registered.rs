//! Registered memory: puts and gets by RMA (jiang-2004, chapter 3), where the network has it.
//!
//! | window | registered | its key |
//! |---|---|---|
//! | create, allocate | when it is made | in the last exchange of that call |
//! | dynamic | at each attach | asked for by each long operation: memory may be detached and attached again at the same address, and a refused key would end the connection |
//!
//! Keys are random (`mica_channel::net`), and revoked by free and detach.
//!
//! A put or get is complete when its bytes are at the target, and flush, unlock, fence and complete
//! wait for that before they send their own request. So an operation after them, by whichever path,
//! finds the bytes. Puts and gets of one epoch have no order among themselves or with accumulates
//! (MPI 5.0, 12.7), hence RMA may overtake requests and the other way round. Accumulates never go by
//! RMA: an adapter's atomic operations do not exclude the processor's.

use std::sync::{Arc, Mutex};

use mica_channel::RemoteRegion;
use mica_channel::memory::{Region, Shape, View};
use mica_node::counters::AccessClass;
use mica_policy::select::OutgoingMessage;
use mica_policy::{OneSidedPath, RmaUse, TargetRegistration, one_sided_path};
use mica_protocol::{EngineState, RmaDirection, RmaId, RmaTransfer};

use super::message::{ANSWER_HEAD, RemoteRequest, RequestKind, answer, set_error};
use super::operation::{AnswerData, ExpectedAnswer, RemoteOperation};
use super::side::RemoteSide;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::sync::lock;

/// The memory of a window's ranks as the network reaches it.
#[derive(Debug)]
pub(in crate::window) struct RegisteredMemory {
    /// By rank in the window.
    pub targets: Box<[TargetKey]>,
    pub rma: RmaUse,
    pub own: Mutex<OwnRegistrations>,
}

/// How a target's registration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::window) enum TargetKey {
    /// Not registered, or not reached by RMA.
    None,
    /// The window's memory, from its first byte on.
    Window(RemoteRegion),
    /// The target says where attached memory is registered.
    OnRequest,
}

/// What this rank has registered.
#[derive(Debug, Default)]
pub(in crate::window) struct OwnRegistrations {
    window: Option<RemoteRegion>,
    attached: Vec<AttachedRegistration>,
}

#[derive(Debug)]
struct AttachedRegistration {
    address: usize,
    bytes: usize,
    region: RemoteRegion,
}

/// A put or get of attached memory whose key is asked for.
#[derive(Debug)]
pub(super) struct DeferredTransfer {
    side: Arc<RemoteSide>,
    direction: RmaDirection,
    target: usize,
    address: u64,
    shape: Shape,
    view: View,
}

/// How a deferred transfer goes on.
#[derive(Debug)]
pub(super) enum BegunTransfer {
    Rma(RmaId),
    /// The memory is not registered: by requests, with these answers.
    Requests(Vec<ExpectedAnswer>),
}

/// Words of the answer that names a registration: whether there is one, key, address.
const NAME_WORDS: usize = 3;

impl TargetKey {
    fn registration(self) -> TargetRegistration {
        match self {
            TargetKey::None => TargetRegistration::None,
            TargetKey::Window(_) => TargetRegistration::Known,
            TargetKey::OnRequest => TargetRegistration::OnRequest,
        }
    }
}

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
        if let TargetKey::Window(memory) = key {
            self.traffic.count(AccessClass::Rma, shape.len());
            let transfer = RmaTransfer {
                direction,
                peer: self.comm.peer(target),
                remote: RemoteRegion {
                    address: memory.address.wrapping_add(address),
                    ..memory
                },
                shape: shape.clone(),
                view: view.clone(),
            };
            let id = process::engine()?.enter(|state| state.start_rma(transfer));
            let operation = RemoteOperation::of_transfer(target, what, id);
            return Ok(Some(self.keep_pending(operation)));
        }
        let (low, bytes) = shape.span();
        let request = RemoteRequest {
            address,
            runs: vec![(low as i64, bytes as u64)],
            ..RemoteRequest::plain(RequestKind::NameRegistration, None)
        };
        let deferred = AnswerData::Registration(Box::new(DeferredTransfer {
            side: Arc::clone(self),
            direction,
            target,
            address,
            shape: shape.clone(),
            view: view.clone(),
        }));
        let expected = self.ask_for(target, request, None, NAME_WORDS * 8, deferred)?;
        let operation = RemoteOperation::new(target, what, vec![expected]);
        Ok(Some(self.keep_pending(operation)))
    }
}

impl DeferredTransfer {
    /// Goes on with what the target has answered: `name` are the words of its answer. Inside the
    /// engine, without a lock of this module.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn begin(self, state: &mut EngineState, name: &Region) -> Result<BegunTransfer> {
        let mut words = [[0; 8]; NAME_WORDS];
        name.read_bytes(words.as_flattened_mut());
        let [is_registered, key, address] = words.map(u64::from_ne_bytes);
        let DeferredTransfer {
            side,
            direction,
            target,
            shape,
            view,
            ..
        } = self;
        if is_registered != 0 {
            side.traffic.count(AccessClass::Rma, shape.len());
            let transfer = RmaTransfer {
                direction,
                peer: side.comm.peer(target),
                remote: RemoteRegion { key, address },
                shape,
                view,
            };
            return Ok(BegunTransfer::Rma(state.start_rma(transfer)));
        }
        let expected = match direction {
            RmaDirection::Put => {
                side.put_by_requests(self.address, &shape, &view, |message, length| {
                    side.tell_inside(state, target, message, length)
                })?;
                Vec::new()
            }
            RmaDirection::Get => {
                side.get_by_requests(self.address, &shape, &view, |request, bytes, data| {
                    side.ask_inside(state, target, request, None, bytes, data)
                })?
            }
        };
        Ok(BegunTransfer::Requests(expected))
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
                lock(&self.registered.own)
                    .attached
                    .push(AttachedRegistration {
                        address,
                        bytes,
                        region,
                    });
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
            let mut own = lock(&self.registered.own);
            let found = own.attached.iter().position(|a| a.address == address);
            if let Some(at) = found {
                state.unregister_memory(own.attached.swap_remove(at).region);
            }
        });
        Ok(())
    }

    /// Revokes all that this rank has registered for the window.
    pub(super) fn unregister_all(&self, state: &mut EngineState) {
        let own = std::mem::take(&mut *lock(&self.registered.own));
        let attached = own.attached.into_iter().map(|attached| attached.region);
        for region in own.window.into_iter().chain(attached) {
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

impl OwnRegistrations {
    /// The registration of the window's memory, if it has one.
    pub fn of_window(window: Option<RemoteRegion>) -> OwnRegistrations {
        OwnRegistrations {
            window,
            attached: Vec::new(),
        }
    }

    /// How peers name `address`, of attached memory that holds the `bytes` bytes that begin `low`
    /// after it.
    fn name(&self, address: usize, low: isize, bytes: usize) -> Option<RemoteRegion> {
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
}

/// The error of a transfer that failed.
#[cold]
pub(super) fn failed(target: usize, fault: mica_protocol::Fault) -> Error {
    match fault {
        mica_protocol::Fault::Channel { detail } => {
            let detail = format!("RMA on the memory of rank {target} has failed: {detail}");
            Error::other(c::ERR_OTHER, detail)
        }
        fault => fault.into(),
    }
}
