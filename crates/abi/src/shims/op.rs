//! Reduction operators (MPI 5.0, 6.9.5).

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mica_mpi::constants as c;
use mica_mpi::datatype::{Datatype, Region, check_buffer};
use mica_mpi::error::Error;
use mica_mpi::op::{self, Op, OperandOrder};

use crate::collective::buffers::plain;
use crate::poly::CountForm;
use crate::types::{MPI_Count, MPI_Datatype, MPI_Op};

/// `MPI_User_function`.
type Plain = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
/// `MPI_User_function_c`.
type Large = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype);

/// MPI_Op_create, MPI_Op_create_c.
///
/// # Safety
/// `user_fn` is a function of the form that `form` names; it reads and writes nothing but the
/// vectors it is given. `op` is writable.
pub unsafe fn mpi_op_create(
    user_fn: usize,
    commute: c_int,
    op: *mut MPI_Op,
    form: CountForm,
) -> mica_mpi::Result<()> {
    if user_fn == 0 {
        return Err(Error::argument(c::ERR_ARG, "user_fn", "NULL", "no function"));
    }
    let function: Arc<op::OperatorFunction> = if form == CountForm::Large {
        // SAFETY: by the contract above it is a function of this type.
        let function = unsafe { std::mem::transmute::<usize, Large>(user_fn) };
        Arc::new(move |input: usize, inout: usize, count: i64, datatype: u32| {
            let (mut count, mut datatype) = (count, MPI_Datatype::from_raw(datatype));
            // SAFETY: the addresses are those of the operands, live, of `count` elements; the
            // function is the caller's for this very purpose.
            unsafe { function(pointer(input), pointer(inout), &raw mut count, &raw mut datatype) }
        })
    } else {
        // SAFETY: as above.
        let function = unsafe { std::mem::transmute::<usize, Plain>(user_fn) };
        Arc::new(move |input: usize, inout: usize, count: i64, datatype: u32| {
            pieces(input, inout, count, datatype, |input, inout, mut count| {
                let mut datatype = MPI_Datatype::from_raw(datatype);
                // SAFETY: as above; each piece lies within the operands.
                unsafe {
                    function(pointer(input), pointer(inout), &raw mut count, &raw mut datatype)
                }
            });
        })
    };
    let handle = Op::user(order(commute), function).register()?;
    // SAFETY: by the contract above.
    unsafe { *op = MPI_Op::from_raw(handle) };
    Ok(())
}

/// In which order operands may be combined.
pub(crate) fn order(commute: c_int) -> OperandOrder {
    match commute {
        0 => OperandOrder::ByRank,
        _ => OperandOrder::Any,
    }
}

/// Calls `f` once, or as often as a count that is an `int` needs.
pub(crate) fn pieces(
    input: usize,
    inout: usize,
    count: i64,
    datatype: u32,
    mut f: impl FnMut(usize, usize, c_int),
) {
    if let Ok(count) = c_int::try_from(count) {
        return f(input, inout, count);
    }
    // The operation holds the datatype, whose handle may be freed only where no collective call is
    // still running.
    let extent = Datatype::resolve(datatype).map_or(0, |d| d.extent());
    let mut done = 0;
    while done < count {
        let piece = (count - done).min(c_int::MAX.into());
        let shift = done.wrapping_mul(extent) as isize;
        f(input.wrapping_add_signed(shift), inout.wrapping_add_signed(shift), piece as c_int);
        done += piece;
    }
}

pub(crate) fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

/// MPI_Reduce_local, MPI_Reduce_local_c.
///
/// # Safety
/// `inbuf` is readable, `inoutbuf` readable and writable, for `count` elements of `datatype`.
pub unsafe fn mpi_reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> mica_mpi::Result<()> {
    let op = Op::resolve(op.raw())?;
    let datatype = Datatype::resolve_committed(datatype.raw())?;
    let address = |given, argument| plain(given).map_err(|e| e.renamed(&[("buffer", argument)]));
    // SAFETY: by the contract above.
    let (input, inout) = unsafe {
        (
            Region::user(address(inbuf, "inbuf")?, datatype.bounds(count)),
            Region::user(address(inoutbuf, "inoutbuf")?, datatype.bounds(count)),
        )
    };
    check_buffer(input.address(), count, &datatype, "inbuf")?;
    check_buffer(inout.address(), count, &datatype, "inoutbuf")?;
    op::reduce_local(&op, &input, &inout, count, &datatype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_beyond_an_int_are_split() {
        let mut calls = Vec::new();
        let count = i64::from(c_int::MAX) * 2 + 5;
        pieces(0, 1 << 60, count, c::DOUBLE, |a, b, n| calls.push((a, b - (1 << 60), n)));
        let step = c_int::MAX as usize * 8;
        assert_eq!(calls, [(0, 0, c_int::MAX), (step, step, c_int::MAX), (2 * step, 2 * step, 5)]);
        calls.clear();
        pieces(8, 16, 3, c::DOUBLE, |a, b, n| calls.push((a, b, n)));
        assert_eq!(calls, [(8, 16, 3)]);
    }
}
