//! The target's side: carries requests out, whenever the target makes progress.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mica_memory::{Block, Region, Shape};
use mica_node::window::{LockMode, WindowLock};
use mica_protocol::{EngineState, MatchPattern, Reaction};

use super::lock_queue::LockRequest;
use super::message::{
    ANSWER_HEAD, REQUEST_MAX, REQUEST_TAG, RemoteRequest, RequestKind, answer, set_error,
};
use super::side::{RemoteSide, ServerState};
use crate::memory::element::{ElementUpdate, compare_element};
use crate::memory::place::TargetPlace;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::process;
use mica_objects::sync::lock;

impl RemoteSide {
    /// Starts the server.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub(super) fn serve_from_now_on(self: Arc<Self>, state: &mut EngineState) -> Result<()> {
        let message = Block::allocate(REQUEST_MAX)?;
        self.await_request(state, &mut lock(&self.server), message)?;
        state.begin_service();
        state.add_reaction(self);
        Ok(())
    }

    /// Posts the receive of the next request, into `message`.
    fn await_request(
        &self,
        state: &mut EngineState,
        server: &mut ServerState,
        message: Region,
    ) -> Result<()> {
        let view = message.clone().view(Shape::Contiguous { bytes: REQUEST_MAX });
        let pattern =
            MatchPattern { context: self.members.context(), source: None, tag: Some(REQUEST_TAG) };
        server.receive = Some((state.receive(pattern, &view)?, message));
        Ok(())
    }

    /// Carries out the requests that have come.
    fn serve(&self, state: &mut EngineState) -> Result<()> {
        loop {
            let mut server = lock(&self.server);
            let Some((receive, message)) = server.receive.take() else {
                return Ok(());
            };
            let Some(done) = state.take_received(receive) else {
                server.receive = Some((receive, message));
                return Ok(());
            };
            let origin = self.members.rank_of(done.envelope.source);
            let request = RemoteRequest::read(&message, done.sent);
            // Without memory for another message, the next request comes into this one later.
            let next = Block::allocate(REQUEST_MAX).ok();
            let reused = next.is_none().then(|| message.clone());
            let posted = next.map(|next| self.await_request(state, &mut server, next));
            drop(server);
            let served = match (origin, request) {
                (Some(origin), Some(request)) => {
                    self.carry_out(state, origin, &request, &message, done.sent)
                }
                _ => Ok(()),
            };
            if let Some(message) = reused {
                self.await_request(state, &mut lock(&self.server), message)?;
            }
            posted.unwrap_or(Ok(())).and(served)?;
        }
    }

    /// Carries a request out. If there is no memory for it, its origin learns that at least.
    fn carry_out(
        &self,
        state: &mut EngineState,
        origin: usize,
        request: &RemoteRequest,
        message: &Region,
        bytes: usize,
    ) -> Result<()> {
        let done = self.try_to_carry_out(state, origin, request, message, bytes);
        match done {
            Err(Error::OutOfMemory { .. }) => {
                let answer = self.answers.no_memory.clone();
                self.reply(state, origin, request.answer, answer, ANSWER_HEAD)
            }
            done => done,
        }
    }

    fn try_to_carry_out(
        &self,
        state: &mut EngineState,
        origin: usize,
        request: &RemoteRequest,
        message: &Region,
        bytes: usize,
    ) -> Result<()> {
        let data = message.offset(request.head_bytes() as isize);
        let data_bytes = bytes - request.head_bytes();
        match request.kind {
            RequestKind::Put => {
                let error = self.serve_put(request, &data, data_bytes);
                self.keep(origin, error);
                Ok(())
            }
            RequestKind::Get => self.serve_get(state, origin, request),
            RequestKind::Accumulate => {
                self.serve_accumulate(state, origin, request, &data, data_bytes)
            }
            RequestKind::CompareAndSwap => {
                self.serve_compare_and_swap(state, origin, request, &data)
            }
            RequestKind::LockShared => self.lock_for(state, origin, request, LockMode::Shared),
            RequestKind::LockExclusive => {
                self.lock_for(state, origin, request, LockMode::Exclusive)
            }
            RequestKind::Unlock => {
                self.unlock_for(state, origin)?;
                self.acknowledge(state, origin, request.answer)
            }
            RequestKind::NameRegistration => self.serve_name(state, origin, request),
            RequestKind::Flush => self.acknowledge(state, origin, request.answer),
            RequestKind::Post => {
                self.note_post(origin);
                state.note_completion();
                Ok(())
            }
            RequestKind::Complete => {
                self.note_completion(origin);
                state.note_completion();
                Ok(())
            }
        }
    }

    /// Remembers an error for the next answer to `origin`.
    fn keep(&self, origin: usize, error: i32) {
        if error != c::SUCCESS {
            lock(&self.server).errors[origin] = error;
        }
    }

    /// Answers with the error that was kept for `origin`.
    fn acknowledge(&self, state: &mut EngineState, origin: usize, tag: Option<i32>) -> Result<()> {
        let error = std::mem::replace(&mut lock(&self.server).errors[origin], c::SUCCESS);
        let message = match error {
            c::SUCCESS => self.answers.success.clone(),
            _ => answer(error, 0).map_or(self.answers.no_memory.clone(), |(message, _)| message),
        };
        self.reply(state, origin, tag, message, ANSWER_HEAD)
    }

    pub(super) fn reply(
        &self,
        state: &mut EngineState,
        origin: usize,
        tag: Option<i32>,
        message: Region,
        bytes: usize,
    ) -> Result<()> {
        match tag {
            Some(tag) => self.send(state, origin, tag, message, bytes),
            None => Ok(()),
        }
    }

    /// Calls `f` with the `bytes` bytes of this rank's memory that begin `at` after the request's
    /// address. Returns the error for the origin: `MPI_ERR_RMA_RANGE` if they are not all in the
    /// window, or not there any more, else that of `f`.
    pub(super) fn on_own_memory(
        &self,
        request: &RemoteRequest,
        at: isize,
        bytes: usize,
        f: impl FnOnce(TargetPlace<'_>) -> Result<()>,
    ) -> i32 {
        match self.own.reach_bytes(request.address, at, bytes, f) {
            Ok(Some(())) => c::SUCCESS,
            Ok(None) => c::ERR_RMA_RANGE,
            Err(Error::Unreachable { .. }) => c::ERR_RMA_RANGE,
            Err(error) => error.code(),
        }
    }

    fn serve_put(&self, request: &RemoteRequest, data: &Region, bytes: usize) -> i32 {
        let mut from = 0;
        for &(at, n) in &request.runs {
            let n = (n as usize).min(bytes - from);
            let input = data.offset(from as isize).view(Shape::Contiguous { bytes: n });
            let error =
                self.on_own_memory(request, at as isize, n, |place| place.store(&input, 0, n));
            if error != c::SUCCESS {
                return error;
            }
            from += n;
        }
        c::SUCCESS
    }

    fn serve_get(
        &self,
        state: &mut EngineState,
        origin: usize,
        request: &RemoteRequest,
    ) -> Result<()> {
        let bytes = request.runs.iter().map(|&(_, n)| n as usize).sum();
        let (message, length) = answer(c::SUCCESS, bytes)?;
        let mut to = ANSWER_HEAD;
        for &(at, n) in &request.runs {
            let n = n as usize;
            let output = message.offset(to as isize).view(Shape::Contiguous { bytes: n });
            let error =
                self.on_own_memory(request, at as isize, n, |place| place.load(&output, 0, n));
            if error != c::SUCCESS {
                set_error(&message, error);
            }
            to += n;
        }
        self.reply(state, origin, request.answer, message, length)
    }

    fn serve_accumulate(
        &self,
        state: &mut EngineState,
        origin: usize,
        request: &RemoteRequest,
        data: &Region,
        bytes: usize,
    ) -> Result<()> {
        let mut error = c::SUCCESS;
        let Ok(update) = ElementUpdate::new(request.op, request.element) else {
            return Ok(()); // the origin has checked it
        };
        let each = |&(_, n): &(i64, u64)| update.bytes(n as usize);
        let result = match request.answer {
            None => None,
            Some(_) => Some(answer(c::SUCCESS, request.runs.iter().map(each).sum())?),
        };
        let gate = self.locks.accumulate_gate(self.node_peers.me);
        let mut position = 0;
        for run in &request.runs {
            let (at, n, length) = (run.0 as isize, run.1 as usize, each(run));
            let input = match bytes {
                0 => Region::null(),
                _ => data.offset(position as isize),
            };
            let back = result
                .as_ref()
                .map(|(message, _)| message.offset((ANSWER_HEAD + position) as isize));
            let of_run = self.on_own_memory(request, at, length, |place| {
                update.apply_run(gate, self.node_peers.me, place, &input, back.as_ref(), n)
            });
            if of_run != c::SUCCESS {
                error = of_run;
            }
            position += length;
        }
        match result {
            None => {
                self.keep(origin, error);
                Ok(())
            }
            Some((message, length)) => {
                set_error(&message, error);
                self.reply(state, origin, request.answer, message, length)
            }
        }
    }

    fn serve_compare_and_swap(
        &self,
        state: &mut EngineState,
        origin: usize,
        request: &RemoteRequest,
        data: &Region,
    ) -> Result<()> {
        let bytes = request.element.size() as usize;
        let (message, length) = answer(c::SUCCESS, bytes)?;
        let result = message.offset(ANSWER_HEAD as isize);
        let gate = self.locks.accumulate_gate(self.node_peers.me);
        let error = self.on_own_memory(request, 0, bytes, |place| {
            let values = [data, &data.offset(bytes as isize), &result];
            compare_element(gate, self.node_peers.me, place, bytes, values)
        });
        set_error(&message, error);
        self.reply(state, origin, request.answer, message, length)
    }
}

/// Locks.
impl RemoteSide {
    fn lock_for(
        &self,
        state: &mut EngineState,
        origin: usize,
        request: &RemoteRequest,
        mode: LockMode,
    ) -> Result<()> {
        if let Some(answer) = request.answer {
            lock(&self.server).locks.ask(LockRequest { origin, mode, answer });
        }
        self.advance_locks(state)
    }

    fn unlock_for(&self, state: &mut EngineState, origin: usize) -> Result<()> {
        let wake = |number| self.wake(number);
        let own_lock = (self.own_lock(), self.node_peers.proxies());
        lock(&self.server).locks.unlock(own_lock, origin, wake);
        self.advance_locks(state)
    }

    /// Takes the lock for those who wait for it, as far as it can be had.
    fn advance_locks(&self, state: &mut EngineState) -> Result<()> {
        let granted = {
            let mut server = lock(&self.server);
            let proxies = self.node_peers.proxies();
            let granted = server.locks.advance(self.own_lock(), proxies);
            server.locks.poll_if_awaited(state);
            granted
        };
        let replies = granted.into_iter().map(|request| {
            let (tag, message) = (Some(request.answer), self.answers.success.clone());
            self.reply(state, request.origin, tag, message, ANSWER_HEAD)
        });
        replies.fold(Ok(()), Result::and)
    }

    fn own_lock(&self) -> WindowLock<'_> {
        self.locks.lock(self.design, self.node_peers.me)
    }

    fn wake(&self, number: u32) {
        if let Ok(engine) = process::engine() {
            self.node_peers.wake(engine, number, self.node_peers.me);
        }
    }
}

impl Reaction for RemoteSide {
    fn react(&self, state: &mut EngineState) -> bool {
        // Relaxed: written inside the engine.
        if self.is_closed.load(Ordering::Relaxed) {
            return true;
        }
        // An error is of one request, whose origin has been answered if that was possible.
        let _ = self.serve(state).and_then(|()| self.advance_locks(state));
        false
    }
}
