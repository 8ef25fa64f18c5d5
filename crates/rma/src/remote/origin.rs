//! The origin's side: requests, and the answers that it waits for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mica_memory::{Block, Region, Shape, View, copy_bytes};
use mica_node::counters::AccessClass;
use mica_node::window::LockMode;
use mica_protocol::{EngineState, MatchPattern, RmaDirection, WaitList};

use super::message::{
    ANSWER_HEAD, DATA_MAX, FIRST_ANSWER, REQUEST_TAG, RUNS_MAX, RemoteRequest, RequestKind,
};
use super::operation::{AnswerData, ExpectedAnswer, GrantedLock, RemoteOperation};
use super::side::RemoteSide;
use crate::memory::element::ElementUpdate;
use crate::memory::place::runs;
use mica_objects::constants as c;
use mica_objects::datatype::BasicType;
use mica_objects::error::{Error, Result};
use mica_objects::process;
use mica_objects::sync::lock;

/// What an accumulate needs of its origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoteAccumulate<'a> {
    pub op: u32,
    pub update: &'a ElementUpdate,
    /// The origin's elements; `MPI_NO_OP` has none.
    pub origin: Option<&'a Region>,
    /// Where the previous values go.
    pub result: Option<&'a Region>,
}

impl RemoteSide {
    /// Puts `view` to the bytes of `shape` at `address` of `target`. The operation under way;
    /// `None`: the view may be reused.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`; `MPI_ERR_TRUNCATE` when the two have different lengths.
    pub fn put(
        self: &Arc<Self>,
        target: usize,
        address: u64,
        shape: &Shape,
        view: &View,
    ) -> Result<Option<Arc<RemoteOperation>>> {
        must_be_as_long(view, shape)?;
        let transfer = self.transfer(RmaDirection::Put, target, address, shape, view)?;
        if transfer.is_none() {
            self.put_by_requests(address, shape, view, |message, length| {
                self.tell(target, message, length)
            })?;
        }
        Ok(transfer)
    }

    /// Gets the bytes of `shape` at `address` of `target` into `view`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn get(
        self: &Arc<Self>,
        target: usize,
        address: u64,
        shape: &Shape,
        view: &View,
    ) -> Result<Arc<RemoteOperation>> {
        must_be_as_long(view, shape)?;
        let transfer = self.transfer(RmaDirection::Get, target, address, shape, view)?;
        if let Some(transfer) = transfer {
            return Ok(transfer);
        }
        let expected = self.get_by_requests(address, shape, view, |request, bytes, data| {
            self.ask_for(target, request, None, bytes, data)
        })?;
        Ok(self.begin(target, "a get", expected))
    }

    /// Calls `tell` with the requests of a put and their lengths.
    pub(super) fn put_by_requests(
        &self,
        address: u64,
        shape: &Shape,
        view: &View,
        mut tell: impl FnMut(Region, usize) -> Result<()>,
    ) -> Result<()> {
        self.counters.count_operation(AccessClass::Requests, shape.len());
        for_each_chunk(shape, |position, runs, bytes| {
            let request =
                RemoteRequest { address, runs, ..RemoteRequest::plain(RequestKind::Put, None) };
            let (message, length) = request.message(bytes)?;
            let data = message.offset(request.head_bytes() as isize);
            view.pack_to(position, &data, bytes);
            tell(message, length)
        })
    }

    /// Calls `ask` with the requests of a get, the bytes of their answers and what these are for.
    pub(super) fn get_by_requests(
        &self,
        address: u64,
        shape: &Shape,
        view: &View,
        mut ask: impl FnMut(RemoteRequest, usize, AnswerData) -> Result<ExpectedAnswer>,
    ) -> Result<Vec<ExpectedAnswer>> {
        self.counters.count_operation(AccessClass::Requests, shape.len());
        let mut expected = Vec::new();
        for_each_chunk(shape, |position, runs, bytes| {
            let request =
                RemoteRequest { address, runs, ..RemoteRequest::plain(RequestKind::Get, None) };
            let data = AnswerData::View { view: view.clone(), position, bytes };
            expected.push(ask(request, bytes, data)?);
            Ok(())
        })?;
        Ok(expected)
    }

    /// Accumulates elements at `address` of `target`; `run` calls its argument with the offsets of
    /// elements that lie side by side at the target, at the origin and in the result, and their
    /// number, at most as many as the argument before says. The operation, if it has results.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn accumulate(
        &self,
        target: usize,
        address: u64,
        call: RemoteAccumulate<'_>,
        each: impl FnOnce(usize, &mut dyn FnMut([isize; 3], usize) -> Result<()>) -> Result<()>,
    ) -> Result<Option<Arc<RemoteOperation>>> {
        let extent = call.update.basic.extent() as usize;
        let (mut chunk, mut total) = (ElementChunk::default(), 0);
        let mut expected = Vec::new();
        each(DATA_MAX / extent, &mut |[there, here, back], n| {
            let bytes = call.update.bytes(n);
            total += bytes;
            if chunk.bytes + bytes > DATA_MAX || chunk.runs.len() == RUNS_MAX {
                expected.extend(self.send_elements(target, address, call, &mut chunk)?);
            }
            chunk.runs.push((there as i64, n as u64));
            chunk.inputs.push((here, bytes));
            chunk.results.push((back, bytes));
            chunk.bytes += bytes;
            Ok(())
        })?;
        self.counters.count_operation(AccessClass::Requests, total);
        if !chunk.runs.is_empty() {
            expected.extend(self.send_elements(target, address, call, &mut chunk)?);
        }
        Ok(call.result.map(|_| self.begin(target, "an accumulate", expected)))
    }

    fn send_elements(
        &self,
        target: usize,
        address: u64,
        call: RemoteAccumulate<'_>,
        chunk: &mut ElementChunk,
    ) -> Result<Option<ExpectedAnswer>> {
        let chunk = std::mem::take(chunk);
        let mut request = RemoteRequest {
            kind: RequestKind::Accumulate,
            op: call.op,
            element: call.update.basic,
            answer: None,
            address,
            runs: chunk.runs,
        };
        let input = Block::allocate(chunk.bytes)?;
        let mut inputs = 0;
        if let Some(origin) = call.origin {
            for &(at, bytes) in &chunk.inputs {
                copy_bytes(&origin.offset(at), &input.offset(inputs as isize), bytes);
                inputs += bytes;
            }
        }
        let data = (&input, inputs);
        let Some(result) = call.result else {
            let (message, length) = with_data(&request, data)?;
            return self.tell(target, message, length).map(|()| None);
        };
        let elements = AnswerData::Elements { region: result.clone(), pieces: chunk.results };
        request.answer = None;
        self.ask_for(target, request, Some(data), chunk.bytes, elements).map(Some)
    }

    /// Compares and swaps one element at `address` of `target`; the two values are in `values`, the
    /// new one first.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn compare_and_swap(
        &self,
        target: usize,
        address: u64,
        basic: BasicType,
        values: &Region,
        result: &Region,
    ) -> Result<Arc<RemoteOperation>> {
        let bytes = basic.size() as usize;
        self.counters.count_operation(AccessClass::Requests, bytes);
        let request = RemoteRequest {
            kind: RequestKind::CompareAndSwap,
            element: basic,
            address,
            runs: vec![(0, 1)],
            ..RemoteRequest::plain(RequestKind::CompareAndSwap, None)
        };
        let data = AnswerData::Elements { region: result.clone(), pieces: vec![(0, bytes)] };
        let values = Some((values, 2 * bytes));
        let expected = self.ask_for(target, request, values, bytes, data)?;
        Ok(self.begin(target, "a compare_and_swap", vec![expected]))
    }

    /// Asks for the lock of `target`.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn lock(&self, target: usize, mode: LockMode) -> Result<GrantedLock> {
        let kind = match mode {
            LockMode::Shared => RequestKind::LockShared,
            LockMode::Exclusive => RequestKind::LockExclusive,
        };
        self.ask(target, kind, "the lock")
    }

    /// Gives the lock of `target` back. Blocks until all operations on it are done.
    ///
    /// # Errors
    /// Those of the operations.
    pub fn unlock(&self, target: usize) -> Result<()> {
        // The target gives the lock to the next origin, which shall find what RMA has brought.
        self.flush_local(&[target])?;
        self.wait_for(&[self.ask(target, RequestKind::Unlock, "the unlock")?])
    }

    /// Blocks until all operations on `targets` are done.
    ///
    /// # Errors
    /// Those of the operations.
    pub fn flush(&self, targets: &[usize]) -> Result<()> {
        // First: an operation that learns that its target's memory is not registered sends
        // requests.
        let mut waited = self.flush_local(targets);
        let (mut waits, mut flushed) = (Vec::new(), Vec::new());
        for &target in targets {
            let (sent, done) = {
                let origin = lock(&self.origin);
                (origin.sent[target], origin.done[target])
            };
            if done < sent {
                match self.ask(target, RequestKind::Flush, "the flush") {
                    Ok(wait) => {
                        waits.push(wait);
                        flushed.push((target, sent));
                    }
                    Err(error) => waited = waited.and(Err(error)),
                }
            }
        }
        let waited = waited.and(self.wait_for(&waits));
        let mut origin = lock(&self.origin);
        for (target, sent) in flushed {
            origin.done[target] = origin.done[target].max(sent);
        }
        waited
    }

    /// Blocks until the buffers of all operations on `targets` may be used.
    ///
    /// # Errors
    /// Those of the operations.
    pub fn flush_local(&self, targets: &[usize]) -> Result<()> {
        self.wait_for(&self.under_way(targets))
    }

    /// Tells `origin` that this rank has posted.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn post(&self, origin: usize) -> Result<()> {
        {
            let mut counts = lock(&self.counts);
            counts.posted[origin] = counts.posted[origin].wrapping_add(1);
        }
        let (message, length) = RemoteRequest::plain(RequestKind::Post, None).message(0)?;
        self.tell_quietly(origin, message, length)
    }

    /// Tells `target` that this rank has completed. Blocks until the buffers of its operations may
    /// be used.
    ///
    /// # Errors
    /// Those of the operations.
    pub fn complete(&self, target: usize) -> Result<()> {
        // The target waits for this request, whatever becomes of an operation.
        let waited = self.flush_local(&[target]);
        let (message, length) = RemoteRequest::plain(RequestKind::Complete, None).message(0)?;
        self.tell_quietly(target, message, length)?;
        waited
    }

    /// Waits until a lock is granted. Hang reports say what `waiting` says.
    pub fn wait_for_lock(
        &self,
        granted: &Arc<RemoteOperation>,
        waiting: impl Fn(&EngineState, &mut WaitList),
    ) -> Result<()> {
        wait_until_done(std::slice::from_ref(granted), waiting)
    }

    fn wait_for(&self, operations: &[Arc<RemoteOperation>]) -> Result<()> {
        let Some(last) = operations.last() else {
            return Ok(());
        };
        let pending = last.pending(&self.members);
        wait_until_done(operations, |_, list| list.add(pending.clone()))
    }

    /// Whether requests without an answer are on their way to `target`, as far as is known.
    pub(super) fn has_unanswered(&self, target: usize) -> bool {
        let origin = lock(&self.origin);
        origin.done[target] < origin.sent[target]
    }

    /// The operations on `targets` whose answers have not come. They stay where they are: another
    /// thread may flush as well.
    fn under_way(&self, targets: &[usize]) -> Vec<Arc<RemoteOperation>> {
        let mut origin = lock(&self.origin);
        origin.pending.retain(|operation| !operation.is_done());
        let is_meant = |operation: &&Arc<RemoteOperation>| targets.contains(&operation.target);
        origin.pending.iter().filter(is_meant).cloned().collect()
    }

    /// Keeps requests with answers until they are flushed.
    pub(super) fn begin(
        &self,
        target: usize,
        what: &'static str,
        expected: Vec<ExpectedAnswer>,
    ) -> Arc<RemoteOperation> {
        self.keep_pending(RemoteOperation::new(target, what, expected))
    }

    /// Keeps an operation until it is flushed.
    pub(super) fn keep_pending(&self, operation: RemoteOperation) -> Arc<RemoteOperation> {
        let operation = Arc::new(operation);
        let mut origin = lock(&self.origin);
        if origin.pending.len() >= origin.pruned_at {
            origin.pending.retain(|operation| !operation.is_done());
            // So that an operation is looked at a bounded number of times, however many there are.
            origin.pruned_at = PRUNE_MIN.max(2 * origin.pending.len());
        }
        origin.pending.push(Arc::clone(&operation));
        operation
    }

    /// Sends a request about no memory that has an answer.
    fn ask(
        &self,
        target: usize,
        kind: RequestKind,
        what: &'static str,
    ) -> Result<Arc<RemoteOperation>> {
        let request = RemoteRequest::plain(kind, None);
        let expected = self.ask_for(target, request, None, 0, AnswerData::Nothing)?;
        Ok(Arc::new(RemoteOperation::new(target, what, vec![expected])))
    }

    /// Sends a request whose answer has `bytes` bytes of data.
    pub(super) fn ask_for(
        &self,
        target: usize,
        request: RemoteRequest,
        data: Option<(&Region, usize)>,
        bytes: usize,
        what_for: AnswerData,
    ) -> Result<ExpectedAnswer> {
        process::engine()?
            .enter(|state| self.ask_inside(state, target, request, data, bytes, what_for))
    }

    /// As [`ask_for`](Self::ask_for), inside the engine.
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    pub(super) fn ask_inside(
        &self,
        state: &mut EngineState,
        target: usize,
        mut request: RemoteRequest,
        data: Option<(&Region, usize)>,
        bytes: usize,
        what_for: AnswerData,
    ) -> Result<ExpectedAnswer> {
        // Relaxed: only the number matters.
        let number = self.next_answer.fetch_add(1, Ordering::Relaxed);
        let tag = FIRST_ANSWER + (number & 0x3FFF_FFFF) as i32;
        request.answer = Some(tag);
        let (message, length) = with_data(&request, data.unwrap_or((&Region::null(), 0)))?;
        let length_of_answer = ANSWER_HEAD + bytes;
        let answer = Block::allocate(length_of_answer)?;
        let view = answer.clone().view(Shape::Contiguous { bytes: length_of_answer });
        let pattern = MatchPattern {
            context: self.members.context(),
            source: Some(self.members.peer(target)),
            tag: Some(tag),
        };
        let receive = state.receive(pattern, &view)?;
        self.send(state, target, REQUEST_TAG, message, length)?;
        Ok(ExpectedAnswer { receive, message: answer, data: what_for })
    }

    /// Sends a request without an answer.
    fn tell(&self, target: usize, message: Region, length: usize) -> Result<()> {
        process::engine()?.enter(|state| self.tell_inside(state, target, message, length))
    }

    /// As [`tell`](Self::tell), inside the engine.
    pub(super) fn tell_inside(
        &self,
        state: &mut EngineState,
        target: usize,
        message: Region,
        length: usize,
    ) -> Result<()> {
        self.send(state, target, REQUEST_TAG, message, length)?;
        lock(&self.origin).sent[target] += 1;
        Ok(())
    }

    /// Sends a request that no flush waits for.
    fn tell_quietly(&self, target: usize, message: Region, length: usize) -> Result<()> {
        process::engine()?.enter(|state| self.send(state, target, REQUEST_TAG, message, length))
    }
}

/// Operations under way from which on those that are complete are looked for.
const PRUNE_MIN: usize = 64;

/// Elements that go in one request.
#[derive(Debug, Default)]
struct ElementChunk {
    runs: Vec<(i64, u64)>,
    /// Offsets and bytes of the runs, at the origin and in the result.
    inputs: Vec<(isize, usize)>,
    results: Vec<(isize, usize)>,
    bytes: usize,
}

/// A message with the request and its data.
fn with_data(request: &RemoteRequest, (data, bytes): (&Region, usize)) -> Result<(Region, usize)> {
    let (message, length) = request.message(bytes)?;
    copy_bytes(data, &message.offset(request.head_bytes() as isize), bytes);
    Ok((message, length))
}

fn must_be_as_long(view: &View, shape: &Shape) -> Result<()> {
    let (here, there) = (view.len(), shape.len());
    if here == there {
        return Ok(());
    }
    let detail = format!("the origin has {here} bytes, the target {there}");
    Err(Error::other(c::ERR_TRUNCATE, detail))
}

/// Calls `f` with parts of a shape that fit a request: the position in the message, the runs, and
/// the bytes of each part.
fn for_each_chunk(
    shape: &Shape,
    mut f: impl FnMut(usize, Vec<(i64, u64)>, usize) -> Result<()>,
) -> Result<()> {
    let (mut position, mut bytes, mut chunk) = (0, 0, Vec::new());
    for run in runs(shape) {
        let (mut at, mut left) = (run.start, run.len());
        while left > 0 {
            let n = left.min(DATA_MAX - bytes);
            chunk.push((at as i64, n as u64));
            bytes += n;
            at += n as isize;
            left -= n;
            if bytes == DATA_MAX || chunk.len() == RUNS_MAX {
                f(position, std::mem::take(&mut chunk), bytes)?;
                position += std::mem::take(&mut bytes);
            }
        }
    }
    match chunk.is_empty() {
        true => Ok(()),
        false => f(position, chunk, bytes),
    }
}

/// Waits until all operations are done; the error of the first that failed. Blocks.
fn wait_until_done(
    operations: &[Arc<RemoteOperation>],
    waiting: impl Fn(&EngineState, &mut WaitList),
) -> Result<()> {
    let mut left = operations;
    process::engine()?.drive(waiting, |state| {
        // In turn, so that each is polled once when they complete in the order of their calls.
        while left.first().is_some_and(|operation| operation.advance(state)) {
            left = &left[1..];
        }
        left.is_empty().then_some(())
    })?;
    operations.iter().find_map(|operation| operation.error()).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_a_shape_in_order() {
        let shape = Shape::Contiguous { bytes: 3 * DATA_MAX + 5 };
        let mut chunks = Vec::new();
        for_each_chunk(&shape, |position, runs, bytes| {
            chunks.push((position, runs, bytes));
            Ok(())
        })
        .expect("nothing fails");
        assert_eq!(chunks.len(), 4);
        for (i, (position, runs, bytes)) in chunks.iter().enumerate() {
            let expected = if i == 3 { 5 } else { DATA_MAX };
            assert_eq!((*position, *bytes), (i * DATA_MAX, expected));
            assert_eq!(*runs, [((i * DATA_MAX) as i64, expected as u64)]);
        }
    }
}
