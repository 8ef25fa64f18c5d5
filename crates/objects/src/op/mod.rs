//! Reduction operators (MPI 5.0, 6.9): the predefined ones on all machine types, and the user's.
//!
//! `inout = input (op) inout`, as `MPI_User_function` defines it: the left operand is read, the
//! right one is replaced.

pub mod kernel;
mod soft;
mod table;

use std::fmt;
use std::sync::Arc;

use mica_memory::{Region, combine, copy_bytes};
pub use mica_policy::collective::OperandOrder;

use crate::constants as c;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};

/// A user's operator: addresses of the input and the inout vector, number of elements, datatype
/// handle.
pub type OperatorFunction = dyn Fn(usize, usize, i64, u32) + Send + Sync;

/// A reduction operator. Cloning shares it; an operation that uses it keeps it alive when its
/// handle is freed.
#[derive(Clone, Debug)]
pub struct Op(OpForm);

#[derive(Clone, Debug)]
enum OpForm {
    Predefined(PredefinedOp),
    User(Arc<UserOp>),
}

/// The operators of the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // MPI's names
pub enum PredefinedOp {
    Sum,
    Min,
    Max,
    Prod,
    Band,
    Bor,
    Bxor,
    Land,
    Lor,
    Lxor,
    Minloc,
    Maxloc,
    Replace,
    NoOp,
}

struct UserOp {
    order: OperandOrder,
    function: Arc<OperatorFunction>,
}

static OPS: HandleTable<Op> = HandleTable::new(HandleKind::Op);

impl PredefinedOp {
    /// All of them.
    pub const ALL: [PredefinedOp; 14] = [
        PredefinedOp::Sum,
        PredefinedOp::Min,
        PredefinedOp::Max,
        PredefinedOp::Prod,
        PredefinedOp::Band,
        PredefinedOp::Bor,
        PredefinedOp::Bxor,
        PredefinedOp::Land,
        PredefinedOp::Lor,
        PredefinedOp::Lxor,
        PredefinedOp::Minloc,
        PredefinedOp::Maxloc,
        PredefinedOp::Replace,
        PredefinedOp::NoOp,
    ];

    /// The handle and the name.
    const fn names(self) -> (u32, &'static str) {
        match self {
            PredefinedOp::Sum => (c::SUM, "MPI_SUM"),
            PredefinedOp::Min => (c::MIN, "MPI_MIN"),
            PredefinedOp::Max => (c::MAX, "MPI_MAX"),
            PredefinedOp::Prod => (c::PROD, "MPI_PROD"),
            PredefinedOp::Band => (c::BAND, "MPI_BAND"),
            PredefinedOp::Bor => (c::BOR, "MPI_BOR"),
            PredefinedOp::Bxor => (c::BXOR, "MPI_BXOR"),
            PredefinedOp::Land => (c::LAND, "MPI_LAND"),
            PredefinedOp::Lor => (c::LOR, "MPI_LOR"),
            PredefinedOp::Lxor => (c::LXOR, "MPI_LXOR"),
            PredefinedOp::Minloc => (c::MINLOC, "MPI_MINLOC"),
            PredefinedOp::Maxloc => (c::MAXLOC, "MPI_MAXLOC"),
            PredefinedOp::Replace => (c::REPLACE, "MPI_REPLACE"),
            PredefinedOp::NoOp => (c::NO_OP, "MPI_NO_OP"),
        }
    }

    #[inline]
    fn of(handle: u32) -> Option<PredefinedOp> {
        *BY_HANDLE.get(handle.wrapping_sub(c::OP_NULL) as usize)?
    }

    /// Whether this operator is for one-sided communication only (MPI 5.0, 12.3.4).
    const fn one_sided_only(self) -> bool {
        matches!(self, PredefinedOp::Replace | PredefinedOp::NoOp)
    }
}

/// The predefined operators by handle, counted from the null handle.
static BY_HANDLE: [Option<PredefinedOp>; 32] = {
    let mut table = [None; 32];
    let mut i = 0;
    while i < PredefinedOp::ALL.len() {
        let op = PredefinedOp::ALL[i];
        table[(op.names().0 - c::OP_NULL) as usize] = Some(op);
        i += 1;
    }
    table
};

impl From<PredefinedOp> for Op {
    fn from(op: PredefinedOp) -> Op {
        Op(OpForm::Predefined(op))
    }
}

impl Op {
    /// An operator of the user's, without a handle.
    pub fn user(order: OperandOrder, function: Arc<OperatorFunction>) -> Op {
        Op(OpForm::User(Arc::new(UserOp { order, function })))
    }

    /// Gives this operator a handle (`MPI_Op_create`).
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when no handle is left.
    pub fn register(self) -> Result<u32> {
        OPS.insert(self)
    }

    /// The operator that `handle` names.
    pub fn resolve(handle: u32) -> Result<Op> {
        if let Some(op) = PredefinedOp::of(handle) {
            return Ok(op.into());
        }
        OPS.get(handle).ok_or_else(|| refused(handle))
    }

    /// Frees a user's handle (`MPI_Op_free`).
    pub fn free(handle: u32) -> Result<()> {
        if let Some(op) = PredefinedOp::of(handle) {
            let (_, name) = op.names();
            return Err(Error::argument(
                c::ERR_OP,
                "op",
                name,
                "a predefined operator cannot be freed",
            ));
        }
        OPS.remove(handle).map(drop).ok_or_else(|| refused(handle))
    }

    /// Whether the operands may be swapped.
    pub fn is_commutative(&self) -> bool {
        self.order() == OperandOrder::Any
    }

    /// In which order it takes its operands: `MPI_REPLACE` and `MPI_NO_OP` by rank.
    pub fn order(&self) -> OperandOrder {
        match &self.0 {
            OpForm::Predefined(op) if op.one_sided_only() => OperandOrder::ByRank,
            OpForm::Predefined(_) => OperandOrder::Any,
            OpForm::User(user) => user.order,
        }
    }

    /// Whether reductions may use this operator on this type: predefined operators want predefined
    /// types of the right sort, the user's take any.
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        let OpForm::Predefined(op) = &self.0 else {
            return Ok(());
        };
        let (_, name) = op.names();
        if op.one_sided_only() {
            return Err(Error::argument(
                c::ERR_OP,
                "op",
                name,
                "only one-sided communication may use it",
            ));
        }
        match datatype.basic() {
            Some(basic) if table::kernel(*op, basic).is_some() => Ok(()),
            _ => Err(mismatch(*op, datatype)),
        }
    }

    /// The inner loop of the predefined operator `handle` on the predefined type `datatype`, if
    /// they go together.
    #[inline]
    pub fn kernel_of(handle: u32, datatype: u32) -> Option<kernel::Kernel> {
        Op::kernel_on(handle, crate::datatype::basic_of(datatype)?)
    }

    /// The inner loop of the predefined operator `handle` on elements of this type, if they go
    /// together.
    #[inline]
    pub fn kernel_on(handle: u32, basic: crate::datatype::BasicType) -> Option<kernel::Kernel> {
        let op = PredefinedOp::of(handle).filter(|op| !op.one_sided_only())?;
        table::kernel(op, basic)
    }

    /// Whether it is one of the standard's.
    pub fn is_predefined(&self) -> bool {
        matches!(self.0, OpForm::Predefined(_))
    }

    /// `inout = input (op) inout` for `count` elements of `datatype`.
    pub fn apply(
        &self,
        input: &Region,
        inout: &Region,
        count: usize,
        datatype: &Datatype,
    ) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        match &self.0 {
            OpForm::User(user) => {
                let (input, inout) = (input.address(), inout.address());
                datatype.with_handle(|handle| (user.function)(input, inout, count as i64, handle))
            }
            OpForm::Predefined(PredefinedOp::NoOp) => Ok(()),
            OpForm::Predefined(op) => {
                let basic = datatype.basic().ok_or_else(|| mismatch(*op, datatype))?;
                // The caller's memory need not hold the padding after the last element.
                let used =
                    basic.pair().map_or(basic.size(), |(_, index)| basic.index_at() + index.size());
                let bytes = basic.extent() as usize * (count - 1) + used as usize;
                if *op == PredefinedOp::Replace {
                    copy_bytes(input, inout, bytes);
                    return Ok(());
                }
                let kernel = table::kernel(*op, basic).ok_or_else(|| mismatch(*op, datatype))?;
                combine(input, inout, bytes, kernel);
                Ok(())
            }
        }
    }
}

/// `MPI_Reduce_local`.
pub fn reduce_local(
    op: &Op,
    input: &Region,
    inout: &Region,
    count: i64,
    datatype: &Datatype,
) -> Result<()> {
    let elements = usize::try_from(count)
        .map_err(|_| Error::argument(c::ERR_COUNT, "count", count, "a count cannot be negative"))?;
    op.check(datatype)?;
    if elements > 0 && input.address() == inout.address() && input.address() != 0 {
        return Err(Error::argument(
            c::ERR_BUFFER,
            "inbuf",
            format_args!("{:#x}", input.address()),
            "the same as inoutbuf",
        ));
    }
    op.apply(input, inout, elements, datatype)
}

#[cold]
fn refused(handle: u32) -> Error {
    if handle == c::OP_NULL {
        Error::argument(c::ERR_OP, "op", "MPI_OP_NULL", "no operator")
    } else {
        Error::argument(
            c::ERR_OP,
            "op",
            format_args!("{handle:#x}"),
            "not an operator's handle, or its operator was freed",
        )
    }
}

#[cold]
fn mismatch(op: PredefinedOp, datatype: &Datatype) -> Error {
    let (_, name) = op.names();
    Error::argument(c::ERR_OP, "op", name, format!("not defined on datatype {}", datatype.label()))
}

impl fmt::Debug for UserOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("order", &self.order).finish_non_exhaustive()
    }
}
