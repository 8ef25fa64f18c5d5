//! Parts of multi-dimensional arrays: subarrays and distributed arrays (MPI 5.0, 5.1.3 and 5.1.4).

use mica_memory::{TypeLayout, try_collect, try_concat, try_with_capacity};

use super::{Datatype, TypeArguments};
use crate::constants as c;
use crate::error::{Error, Result};

fn check_dims(ndims: usize) -> Result<()> {
    match ndims {
        0 => {
            Err(Error::argument(c::ERR_ARG, "ndims", ndims, "an array has at least one dimension"))
        }
        _ => Ok(()),
    }
}

/// The dimensions from the one that varies fastest to the slowest.
fn fastest_first(order: i32, ndims: usize) -> Result<Vec<usize>> {
    match order {
        c::ORDER_C => try_collect((0..ndims).rev()).map_err(Error::no_type_memory),
        c::ORDER_FORTRAN => try_collect(0..ndims).map_err(Error::no_type_memory),
        _ => Err(Error::argument(
            c::ERR_ARG,
            "order",
            order,
            "it is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN",
        )),
    }
}

/// `Err` on element `i` of an array argument.
fn bad<T>(argument: &'static str, i: usize, value: i64, reason: &str) -> Result<T> {
    Err(Error::argument(c::ERR_ARG, argument, value, format!("dimension {i}: {reason}")))
}

fn too_large() -> Error {
    Error::other(c::ERR_ARG, "the array has more than 2^63 bytes")
}

/// Indexes of one dimension that a process holds: `full` blocks of `length`, `period` apart, from
/// `start` on, then one of `rest`.
struct Portion {
    start: u64,
    length: u64,
    full: u64,
    period: u64,
    rest: u64,
}

impl Portion {
    fn range(start: u64, length: u64) -> Portion {
        Portion { start, length, full: 1, period: 0, rest: 0 }
    }

    fn total(&self) -> u64 {
        self.full * self.length + self.rest
    }

    /// These indexes of an array whose elements are `body`, `stride` bytes apart.
    fn of(&self, body: &TypeLayout, stride: i64) -> Result<TypeLayout> {
        let bytes = |index: u64| {
            i64::try_from(index).ok().and_then(|i| i.checked_mul(stride)).ok_or_else(too_large)
        };
        let blocks =
            body.hvector(self.length, 1, stride)?.hvector(self.full, 1, bytes(self.period)?)?;
        let last = body.hvector(self.rest, 1, stride)?;
        let last_at = bytes(self.start + self.full * self.period)?;
        Ok(TypeLayout::structure([(1, bytes(self.start)?, &blocks), (1, last_at, &last)])?)
    }
}

/// The layout of the portions of an array with these global sizes, and how many elements it has.
fn array(
    order: &[usize],
    sizes: &[i64],
    portions: &[Portion],
    old: &Datatype,
) -> Result<(TypeLayout, u64)> {
    let mut stride = old.extent();
    let mut layout = TypeLayout::clone(old.layout());
    let mut elements: u64 = 1;
    for &i in order {
        layout = portions[i].of(&layout, stride)?;
        stride = stride.checked_mul(sizes[i]).ok_or_else(too_large)?;
        elements = elements.checked_mul(portions[i].total()).ok_or_else(too_large)?;
    }
    Ok((layout.resized(0, stride)?, elements))
}

impl Datatype {
    /// `MPI_Type_create_subarray`. The slices have one element for each dimension.
    pub fn subarray(
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: i32,
        old: &Datatype,
    ) -> Result<Datatype> {
        check_dims(sizes.len())?;
        let mut portions = try_with_capacity(sizes.len()).map_err(Error::no_type_memory)?;
        for (i, ((&size, &subsize), &start)) in sizes.iter().zip(subsizes).zip(starts).enumerate() {
            if size < 1 {
                return bad("array_of_sizes", i, size, "a size is at least 1");
            }
            if subsize < 1 || subsize > size {
                let reason = format!("a subsize lies between 1 and the size, {size}");
                return bad("array_of_subsizes", i, subsize, &reason);
            }
            if start < 0 || start > size - subsize {
                let reason =
                    format!("a start lies between 0 and {}, size less subsize", size - subsize);
                return bad("array_of_starts", i, start, &reason);
            }
            portions.push(Portion::range(start as u64, subsize as u64));
        }
        let fastest = fastest_first(order, sizes.len())?;
        let (layout, elements) = array(&fastest, sizes, &portions, old)?;
        let arguments = TypeArguments::array(
            c::COMBINER_SUBARRAY,
            &[sizes.len() as i64],
            &[sizes, subsizes, starts],
            &[order.into()],
            old,
        )?;
        Ok(Datatype::derived(arguments, layout, old.0.core.signature.repeat(elements)?))
    }

    /// `MPI_Type_create_darray`: what process `rank` of `size` holds of a distributed array. The
    /// slices have one element for each dimension.
    #[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
    pub fn darray(
        size: i32,
        rank: i32,
        gsizes: &[i64],
        distribs: &[i32],
        dargs: &[i32],
        psizes: &[i32],
        order: i32,
        old: &Datatype,
    ) -> Result<Datatype> {
        let ndims = gsizes.len();
        check_dims(ndims)?;
        if size < 1 {
            return Err(Error::argument(c::ERR_ARG, "size", size, "a process group has a process"));
        }
        if rank < 0 || rank >= size {
            let reason = format!("a rank of {size} processes lies between 0 and {}", size - 1);
            return Err(Error::argument(c::ERR_ARG, "rank", rank, reason));
        }
        if let Some(i) = psizes.iter().position(|&n| n < 1) {
            return bad("array_of_psizes", i, psizes[i].into(), "a process grid has no empty side");
        }
        let grid = psizes.iter().try_fold(1i64, |product, &n| product.checked_mul(n.into()));
        if grid != Some(size.into()) {
            let reason = format!("array_of_psizes {psizes:?} must multiply to it");
            return Err(Error::argument(c::ERR_ARG, "size", size, reason));
        }
        let fastest = fastest_first(order, ndims)?;
        // Processes are numbered in row-major order whatever the order of the array.
        let mut left = rank;
        let mut portions = try_with_capacity(ndims).map_err(Error::no_type_memory)?;
        for i in (0..ndims).rev() {
            let coordinate = left % psizes[i];
            left /= psizes[i];
            portions.push(portion(i, gsizes[i], distribs[i], dargs[i], psizes[i], coordinate)?);
        }
        portions.reverse();
        let (layout, elements) = array(&fastest, gsizes, &portions, old)?;
        let wide = |list: &[i32]| {
            try_collect(list.iter().map(|&n| i64::from(n))).map_err(Error::no_type_memory)
        };
        let after = [&wide(distribs)?[..], &wide(dargs)?, &wide(psizes)?, &[order.into()]];
        let after = try_concat(&after).map_err(Error::no_type_memory)?;
        let before = [size.into(), rank.into(), ndims as i64];
        let arguments = TypeArguments::array(c::COMBINER_DARRAY, &before, &[gsizes], &after, old)?;
        Ok(Datatype::derived(arguments, layout, old.0.core.signature.repeat(elements)?))
    }
}

/// What the process at `coordinate` of `processes` holds of dimension `i`.
fn portion(
    i: usize,
    gsize: i64,
    distrib: i32,
    darg: i32,
    processes: i32,
    coordinate: i32,
) -> Result<Portion> {
    if gsize < 1 {
        return bad("array_of_gsizes", i, gsize, "a size is at least 1");
    }
    let default = darg == c::DISTRIBUTE_DFLT_DARG;
    if !default && darg < 1 && distrib != c::DISTRIBUTE_NONE {
        return bad("array_of_dargs", i, darg.into(), "a block has at least one element");
    }
    let (size, block) = (gsize as u64, darg as u64);
    let (processes, coordinate) = (processes as u64, coordinate as u64);
    match distrib {
        c::DISTRIBUTE_NONE if processes == 1 => Ok(Portion::range(0, size)),
        c::DISTRIBUTE_NONE => bad(
            "array_of_psizes",
            i,
            processes as i64,
            "an undistributed dimension has one process",
        ),
        c::DISTRIBUTE_BLOCK => {
            let block = if default { size.div_ceil(processes) } else { block };
            if block * processes < size {
                let reason = format!("{processes} blocks of it do not cover {size} elements");
                return bad("array_of_dargs", i, darg.into(), &reason);
            }
            let start = (coordinate * block).min(size);
            Ok(Portion::range(start, block.min(size - start)))
        }
        c::DISTRIBUTE_CYCLIC => {
            let block = if default { 1 } else { block };
            let (start, period) = (coordinate * block, block * processes);
            let left = size.saturating_sub(start);
            // Whole periods give whole blocks; what is left of the last period gives a whole block,
            // or a part of one.
            let rest = (left % period).min(block);
            let full = left / period + u64::from(rest == block);
            let rest = if rest == block { 0 } else { rest };
            Ok(Portion { start, length: block, full, period, rest })
        }
        _ => bad("array_of_distribs", i, distrib.into(), "it is not one of MPI_DISTRIBUTE_*"),
    }
}
