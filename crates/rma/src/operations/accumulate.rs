//! Accumulate, get_accumulate, fetch_and_op, compare_and_swap (MPI 5.0, 12.3.4 and 12.3.5).
//!
//! Atomic for each element, and ordered: the operations of one origin on one element take place in
//! the order of their calls, since each is complete on return, or its request is carried out before
//! the next one (12.7.2; stricter than any value of `accumulate_ordering` asks for).
//!
//! One element is changed by a processor atomic, several under the target's lock: so another
//! accumulate sees all of them changed or none, up to [`BULK_ELEMENTS`]. The standard does not
//! promise that, and programs with small structures rely on it. The lock takes 30 ns, with the look
//! at all origins' lines, so an atomic for each element would be slower from the third on. See
//! [`AccumulateGate`].

use std::sync::Arc;

use mica_memory::{Block, Region, Shape, View, copy_bytes};
use mica_node::window::AccumulateGate;

use super::fast_path::{ElementCall, TargetBytes};
use super::help::{LongTransfer, TransferOperation};
use crate::memory::element::{
    BULK_ELEMENTS, ElementUpdate, compare_element, element_of, for_each_run, may_be_compared,
};
use crate::memory::place::TargetPlace;
use crate::memory::target::{TargetRange, WindowTarget};
use crate::remote::{RemoteAccumulate, RemoteOperation};
use crate::synchronization::admission::NeededEpoch;
use crate::window::object::{self, Window};
use mica_objects::constants as c;
use mica_objects::datatype::{self, BasicType, Datatype};
use mica_objects::error::{Error, Result};
use mica_objects::op::Op;

/// Bytes that an origin and its target change together before they let others in: about 10 us.
const HELPED_BYTES: usize = 1 << 20;

/// The buffers and datatypes of an accumulate.
#[derive(Debug, Clone, Copy)]
pub struct AccumulateOperands<'a> {
    /// What is combined with the target; no bytes for `MPI_NO_OP`.
    pub origin: &'a View,
    /// Its datatype.
    pub origin_datatype: u32,
    /// Where the previous values go, and their datatype.
    pub result: Option<(&'a View, u32)>,
    /// The target's datatype.
    pub target_datatype: u32,
    /// The operator.
    pub op: u32,
}

/// `MPI_Accumulate` and `MPI_Raccumulate`: the operation, unless it is complete. Blocks until the
/// target may be accessed.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_RMA_SYNC`, `MPI_ERR_DISP`, `MPI_ERR_RMA_RANGE`;
/// `MPI_ERR_TYPE` when the entries of the datatypes are not of one predefined type; `MPI_ERR_OP`.
#[inline]
pub fn accumulate(
    win: u32,
    operands: &AccumulateOperands<'_>,
    to: &TargetRange,
    needed: NeededEpoch,
) -> Result<Option<Arc<RemoteOperation>>> {
    object::with(win, |window| window.accumulate(operands, to, needed))
}

/// `MPI_Fetch_and_op` of one element at `disp` of `rank`. Blocks until the target may be accessed.
///
/// # Errors
/// As [`accumulate`].
#[inline]
pub fn fetch_and_op(win: u32, op: u32, element: &SingleElement<'_>, origin: &Region) -> Result<()> {
    object::with(win, |window| window.fetch_and_op(op, element, origin))
}

/// `MPI_Compare_and_swap` of one element. Blocks until the target may be accessed.
///
/// # Errors
/// As [`accumulate`]; `MPI_ERR_TYPE` also for floating point numbers.
#[inline]
pub fn compare_and_swap(
    win: u32,
    element: &SingleElement<'_>,
    origin: &Region,
    compare: &Region,
) -> Result<()> {
    object::with(win, |window| window.compare_and_swap(element, origin, compare))
}

/// One element of a target, and where its previous value goes.
#[derive(Debug)]
pub struct SingleElement<'a> {
    /// Its predefined datatype.
    pub datatype: u32,
    /// Rank in the window, or `MPI_PROC_NULL`.
    pub rank: i32,
    /// Displacement.
    pub disp: isize,
    /// Where the previous value goes.
    pub result: &'a Region,
}

impl SingleElement<'_> {
    fn basic(&self) -> Result<BasicType> {
        datatype::basic_of(self.datatype).ok_or_else(|| {
            let value = match Datatype::resolve(self.datatype) {
                Ok(datatype) => datatype.label(),
                Err(error) => return error,
            };
            let reason = "the datatype must be a predefined one";
            Error::argument(c::ERR_TYPE, "datatype", value, reason)
        })
    }
}

impl Window {
    fn accumulate(
        &self,
        operands: &AccumulateOperands<'_>,
        range: &TargetRange,
        needed: NeededEpoch,
    ) -> Result<Option<Arc<RemoteOperation>>> {
        let Some(rank) = self.target(range.rank)? else {
            return Ok(None);
        };
        self.admit(rank, needed)?;
        operands.check_lengths(range)?;
        if range.shape.is_empty() {
            // With any operator and type, as in MPICH and Open MPI.
            return Ok(None);
        }
        let update = operands.update()?;
        let target = &self.0.targets[rank];
        if self.has_messages(rank) {
            return self.accumulate_by_messages(rank, &update, operands, range);
        }
        target.reach(range, |place| {
            let (low, span) = range.shape.span();
            let access = place.offset(low).access(span);
            self.0.counters.count_operation(access, range.shape.len());
            let elements = range.shape.len() / update.basic.size() as usize;
            if elements <= BULK_ELEMENTS && operands.is_one_run(range, &update) {
                let (gate, me) = self.gate(target);
                let input = operands.origin.region();
                let result = operands.result.map(|(view, _)| view.region());
                return update.apply_run(gate, me, place, &input, result.as_ref(), elements);
            }
            if range.shape.len() >= self.0.choices.help_min
                && operands.is_plain_run(range, &update)
                && let TargetPlace::Mapped(region, at) = place
                && self.may_be_helped(rank)?
                && self.update_with_help(operands, (rank, update), region, at as usize)?
            {
                return Ok(());
            }
            self.update_in_locked(target, &update, operands, range, place)
        })?;
        Ok(None)
    }

    #[inline(never)]
    fn accumulate_by_messages(
        &self,
        rank: usize,
        update: &ElementUpdate,
        operands: &AccumulateOperands<'_>,
        range: &TargetRange,
    ) -> Result<Option<Arc<RemoteOperation>>> {
        let address = self.0.targets[rank].address(range)?;
        let origin = operands.has_input().then(|| operands.origin.region());
        let result = operands.result.map(|(view, _)| view.region());
        let call = RemoteAccumulate {
            op: operands.op,
            update,
            origin: origin.as_ref(),
            result: result.as_ref(),
        };
        self.remote().accumulate(rank, address, call, |most, f| {
            operands.for_each_run(range, update.basic, most, f)
        })
    }

    /// Changes elements in one run, `at` bytes into the target's part, together with the target.
    /// False if it does not help from the start on; then nothing has changed.
    fn update_with_help(
        &self,
        operands: &AccumulateOperands<'_>,
        (rank, update): (usize, ElementUpdate),
        region: &Region,
        at: usize,
    ) -> Result<bool> {
        let (origin, bytes) = (operands.origin.region(), operands.origin.len());
        for done in (0..bytes).step_by(HELPED_BYTES) {
            let long = LongTransfer {
                what: TransferOperation::Accumulate(operands.op, update),
                target: rank,
                offset: at + done,
                bytes: HELPED_BYTES.min(bytes - done),
            };
            let (here, there) = (origin.at(done), region.at(at + done));
            let (gate, me) = self.gate(&self.0.targets[rank]);
            // For the target's part as well, which it changes without the gate.
            let _locked = gate.locked(me);
            if self.transfer_with_help(&long, here, there)? {
                continue;
            }
            if done == 0 {
                return Ok(false);
            }
            long.alone(here, there)?;
        }
        Ok(true)
    }

    fn update_in_locked(
        &self,
        target: &WindowTarget,
        update: &ElementUpdate,
        operands: &AccumulateOperands<'_>,
        range: &TargetRange,
        place: TargetPlace<'_>,
    ) -> Result<()> {
        let (gate, me) = self.gate(target);
        let origin = operands.origin.region();
        let result = operands.result.map(|(view, _)| view.region());
        let mut locked = Some(gate.locked(me));
        let mut done = 0;
        let basic = update.basic;
        operands.for_each_run(range, basic, BULK_ELEMENTS, |[there, here, back], n| {
            if done >= BULK_ELEMENTS {
                // Others may be waiting.
                locked = None;
                locked = Some(gate.locked(me));
                done = 0;
            }
            done += n;
            let (input, result) =
                (origin.offset(here), result.as_ref().map(|result| result.offset(back)));
            update.apply_locked(place.offset(there), &input, result.as_ref(), n)
        })?;
        drop(locked);
        Ok(())
    }

    fn fetch_and_op(&self, op: u32, element: &SingleElement<'_>, origin: &Region) -> Result<()> {
        let Some(rank) = self.target(element.rank)? else {
            return Ok(());
        };
        let basic = element.basic()?;
        let update = &ElementUpdate::new(op, basic)?;
        self.admit(rank, NeededEpoch::Any)?;
        if let Some(call) = element.call(origin, basic)
            && self.fetch_at_once(op, call, None).is_some()
        {
            return Ok(());
        }
        let target = &self.0.targets[rank];
        let bytes = update.bytes(1);
        let range = element.range(bytes);
        if self.has_messages(rank) {
            let call = RemoteAccumulate {
                op,
                update,
                origin: (op != c::NO_OP).then_some(origin),
                result: Some(element.result),
            };
            let address = target.address(&range)?;
            self.remote().accumulate(rank, address, call, |_, f| f([0; 3], 1))?;
            return Ok(());
        }
        target.reach(&range, |place| {
            self.0.counters.count_operation(place.access(bytes), bytes);
            let (gate, me) = self.gate(target);
            update.apply_run(gate, me, place, origin, Some(element.result), 1)
        })?;
        Ok(())
    }

    /// What keeps updates of `target`'s elements atomic, and this rank's number there.
    #[inline]
    pub(crate) fn gate(&self, target: &WindowTarget) -> (AccumulateGate<'_>, u32) {
        let number = target.number.expect("its memory is reached, so its locks are shared");
        (self.0.locks.accumulate_gate(number), self.0.node_peers.me)
    }

    fn compare_and_swap(
        &self,
        element: &SingleElement<'_>,
        origin: &Region,
        compare: &Region,
    ) -> Result<()> {
        let Some(rank) = self.target(element.rank)? else {
            return Ok(());
        };
        let basic = element.basic()?;
        if !may_be_compared(basic) {
            let reason = "compare_and_swap takes integers, logicals and bytes";
            let value = Datatype::resolve(element.datatype)?.label();
            return Err(Error::argument(c::ERR_TYPE, "datatype", value, reason));
        }
        self.admit(rank, NeededEpoch::Any)?;
        if let Some(call) = element.call(origin, basic)
            && self.compare_at_once(call, compare.at(0), None).is_some()
        {
            return Ok(());
        }
        let target = &self.0.targets[rank];
        let bytes = basic.size() as usize;
        let range = element.range(bytes);
        if self.has_messages(rank) {
            let values = Block::allocate(2 * bytes)?;
            copy_bytes(origin, &values, bytes);
            copy_bytes(compare, &values.offset(bytes as isize), bytes);
            let address = target.address(&range)?;
            let remote = self.remote();
            remote.compare_and_swap(rank, address, basic, &values, element.result)?;
            return Ok(());
        }
        target.reach(&range, |place| {
            self.0.counters.count_operation(place.access(bytes), bytes);
            let (gate, me) = self.gate(target);
            let values = [origin, compare, element.result];
            compare_element(gate, me, place, bytes, values)
        })?;
        Ok(())
    }
}

impl SingleElement<'_> {
    fn call<'a>(&'a self, origin: &'a Region, basic: BasicType) -> Option<ElementCall<'a>> {
        let (bytes, is_dense) = (basic.size(), basic.size() == basic.extent());
        is_dense.then(|| ElementCall {
            datatype: self.datatype,
            target: TargetBytes { rank: self.rank, disp: self.disp, bytes: bytes as usize },
            origin: origin.at(0),
            result: self.result.at(0),
        })
    }

    fn range(&self, bytes: usize) -> TargetRange {
        TargetRange { rank: self.rank, disp: self.disp, shape: Shape::Contiguous { bytes } }
    }
}

impl AccumulateOperands<'_> {
    /// Whether the operator uses the origin's buffer.
    fn has_input(&self) -> bool {
        self.op != c::NO_OP
    }

    /// What is done to each element.
    fn update(&self) -> Result<ElementUpdate> {
        if let (c::NO_OP, None) = (self.op, self.result) {
            let reason = "it is for calls that return the previous values";
            return Err(Error::argument(c::ERR_OP, "op", "MPI_NO_OP", reason));
        }
        // Before the datatypes: an operator of the program's own is wrong with any.
        Op::resolve(self.op)?;
        let basic = element_of(self.target_datatype, "target_datatype")?;
        let origin = self.has_input().then_some(("origin_datatype", self.origin_datatype));
        let result = self.result.map(|(_, datatype)| ("result_datatype", datatype));
        for (argument, handle) in origin.into_iter().chain(result) {
            if handle != self.target_datatype && element_of(handle, argument)? != basic {
                let value = Datatype::resolve_as(handle, argument)?.label();
                let reason = "its entries are of another type than the target's";
                return Err(Error::argument(c::ERR_TYPE, argument, value, reason));
            }
        }
        ElementUpdate::new(self.op, basic)
    }

    /// Whether the elements lie side by side everywhere.
    #[inline]
    fn is_one_run(&self, range: &TargetRange, update: &ElementUpdate) -> bool {
        let is_contiguous = |shape: &Shape| matches!(shape, Shape::Contiguous { .. });
        !update.has_gap()
            && is_contiguous(&range.shape)
            && (!self.has_input() || is_contiguous(self.origin.shape()))
            && self.result.is_none_or(|(view, _)| is_contiguous(view.shape()))
    }

    /// As [`is_one_run`](Self::is_one_run), and previous values are not asked for.
    fn is_plain_run(&self, range: &TargetRange, update: &ElementUpdate) -> bool {
        self.has_input() && self.result.is_none() && self.is_one_run(range, update)
    }

    fn check_lengths(&self, range: &TargetRange) -> Result<()> {
        let target = range.shape.len();
        let origin = self.has_input().then(|| ("origin", self.origin.len()));
        let result = self.result.map(|(view, _)| ("result", view.len()));
        for (side, bytes) in origin.into_iter().chain(result) {
            if bytes != target {
                let detail = format!(
                    "the {side} buffer has {bytes} bytes of elements, the target {target} \
                     (rank {}, displacement {})",
                    range.rank, range.disp
                );
                return Err(Error::other(c::ERR_TRUNCATE, detail));
            }
        }
        Ok(())
    }

    /// Calls `f` with the offsets of elements that lie side by side at the target, in the origin's
    /// buffer and in the result's, and their number. A buffer that is not used has the target's
    /// offsets.
    fn for_each_run(
        &self,
        range: &TargetRange,
        basic: BasicType,
        most: usize,
        f: impl FnMut([isize; 3], usize) -> Result<()>,
    ) -> Result<()> {
        let target = &range.shape;
        let origin = match self.has_input() {
            true => self.origin.shape(),
            false => target,
        };
        let result = self.result.map_or(target, |(view, _)| view.shape());
        for_each_run([target, origin, result], basic, most, f)
    }
}
