//! Takes datatypes apart: the tree that a constructor makes of its arguments.

use std::collections::HashMap;
use std::ffi::c_int;
use std::rc::Rc;

use super::arrays::{ArrayElements, DistributedArray, Subarray};
use super::contents::{ConstructorArguments, FreedTypes};
use super::library::{
    PMPI_Type_get_extent_c, PMPI_Type_get_true_extent_c, PMPI_Type_size_c, check,
};
use super::pairs::{ValuePair, pair_of};
use super::spread::TakeApart;
use super::tree::{MaybeTree, TreeParts, TypeTree, fields, repeat};
use crate::abi::{Word, constants as c};

/// Takes datatypes apart, each one once. The handles in trees are freed with it: keep it until
/// the datatype is created.
#[derive(Debug, Default)]
pub struct TypeDecoder {
    known: HashMap<Word, MaybeTree>,
    freed: FreedTypes,
}

impl TakeApart for TypeDecoder {
    fn parts(&mut self, handle: Word) -> Result<MaybeTree, c_int> {
        if let Some(known) = self.known.get(&handle) {
            return Ok(known.clone());
        }
        self.known.try_reserve(1).map_err(|_| c::ERR_NO_MEM)?;
        let found = match pair_of(handle) {
            Some(pair) => values(handle, pair)?,
            None => match ConstructorArguments::of(handle, &mut self.freed)? {
                Some(arguments) => construct(&arguments)?,
                None => None,
            },
        };
        self.known.insert(handle, found.clone());
        Ok(found)
    }
}

/// The whole datatype `handle`.
///
/// # Errors
/// Those of MPI.
pub fn whole(handle: Word) -> Result<MaybeTree, c_int> {
    element(handle).map(|element| element.tree)
}

/// The whole datatype `handle`, and its extent.
fn element(handle: Word) -> Result<ArrayElements, c_int> {
    let (mut size, mut lb, mut extent, mut low, mut length) = (0, 0, 0, 0, 0);
    // SAFETY: the places are ours.
    unsafe {
        check(PMPI_Type_size_c(handle, &mut size))?;
        check(PMPI_Type_get_extent_c(handle, &mut lb, &mut extent))?;
        check(PMPI_Type_get_true_extent_c(handle, &mut low, &mut length))?;
    }
    let parts = TreeParts::Whole { handle, extent };
    let tree = (size > 0).then(|| Rc::new(TypeTree { low, high: low + length, parts }));
    Ok(ArrayElements { tree, extent })
}

/// The values of a predefined pair.
fn values(handle: Word, pair: ValuePair) -> Result<MaybeTree, c_int> {
    match pair {
        ValuePair::Same(value) => {
            let value = element(value)?;
            Ok(repeat(2, value.extent, &value.tree))
        }
        ValuePair::WithInt(value) => {
            let end = whole(handle)?.map_or(0, |pair| pair.high);
            let int = element(c::INT)?;
            let parts = [(0, whole(value)?), (end - int.extent, int.tree)];
            Ok(fields(parts.into_iter().filter_map(|(at, part)| Some((at, part?))).collect()))
        }
    }
}

/// What the constructor makes.
fn construct(arguments: &ConstructorArguments) -> Result<MaybeTree, c_int> {
    let ConstructorArguments { integers, numbers, datatypes, .. } = arguments;
    if arguments.combiner == c::COMBINER_STRUCT {
        return structure(numbers, datatypes);
    }
    let element = element(*datatypes.first().ok_or(c::ERR_TYPE)?)?;
    // Displacements are in extents of the element, or in bytes.
    let unit = match arguments.combiner {
        c::COMBINER_VECTOR | c::COMBINER_INDEXED | c::COMBINER_INDEXED_BLOCK => element.extent,
        _ => 1,
    };
    match (arguments.combiner, &numbers[..]) {
        (c::COMBINER_DUP | c::COMBINER_RESIZED, _) => Ok(element.tree),
        (c::COMBINER_CONTIGUOUS, &[count]) => Ok(repeat(count, element.extent, &element.tree)),
        (c::COMBINER_VECTOR | c::COMBINER_HVECTOR, &[count, length, stride]) => {
            let block = repeat(length, element.extent, &element.tree);
            // Of one block the stride may be anything.
            Ok(repeat(count, stride.wrapping_mul(unit), &block))
        }
        (c::COMBINER_INDEXED | c::COMBINER_HINDEXED, &[count, ref list @ ..]) => {
            let (lengths, places) = halves(count, list)?;
            blocks(lengths.iter().copied().zip(places.iter().copied()), unit, &element)
        }
        (c::COMBINER_INDEXED_BLOCK | c::COMBINER_HINDEXED_BLOCK, &[_, length, ref places @ ..]) => {
            blocks(places.iter().map(|&at| (length, at)), unit, &element)
        }
        (c::COMBINER_SUBARRAY, _) => subarray(integers, numbers, element),
        (c::COMBINER_DARRAY, _) => distributed_array(integers, numbers, element),
        _ => Err(c::ERR_TYPE),
    }
}

/// Lengths and displacements, of which there are `count` each.
fn halves(count: i64, list: &[i64]) -> Result<(&[i64], &[i64]), c_int> {
    let count = usize::try_from(count).map_err(|_| c::ERR_TYPE)?;
    list.split_at_checked(count).ok_or(c::ERR_TYPE)
}

/// Blocks of elements, by their lengths and displacements in `unit` bytes.
fn blocks(
    blocks: impl ExactSizeIterator<Item = (i64, i64)>,
    unit: i64,
    element: &ArrayElements,
) -> Result<MaybeTree, c_int> {
    let mut list = Vec::new();
    list.try_reserve_exact(blocks.len()).map_err(|_| c::ERR_NO_MEM)?;
    list.extend(blocks.filter_map(|(length, at)| {
        Some((at.wrapping_mul(unit), repeat(length, element.extent, &element.tree)?))
    }));
    Ok(fields(list))
}

fn structure(numbers: &[i64], datatypes: &[Word]) -> Result<MaybeTree, c_int> {
    let (&count, list) = numbers.split_first().ok_or(c::ERR_TYPE)?;
    let (lengths, places) = halves(count, list)?;
    let mut list = Vec::new();
    list.try_reserve_exact(lengths.len()).map_err(|_| c::ERR_NO_MEM)?;
    for ((&length, &at), &datatype) in lengths.iter().zip(places).zip(datatypes) {
        let field = element(datatype)?;
        list.extend(repeat(length, field.extent, &field.tree).map(|block| (at, block)));
    }
    Ok(fields(list))
}

/// The sizes among the arguments of an array constructor, and what follows them. The sizes follow
/// the first `before` integers, unless they are large.
fn sizes<'a>(
    integers: &'a [c_int],
    numbers: &[i64],
    (before, sizes): (usize, usize),
) -> Result<(Vec<i64>, &'a [c_int]), c_int> {
    let rest = integers.get(before..).ok_or(c::ERR_TYPE)?;
    if numbers.len() == sizes {
        return Ok((numbers.to_vec(), rest));
    }
    let (sizes, rest) = rest.split_at_checked(sizes).ok_or(c::ERR_TYPE)?;
    Ok((sizes.iter().map(|&size| size.into()).collect(), rest))
}

fn subarray(
    integers: &[c_int],
    numbers: &[i64],
    element: ArrayElements,
) -> Result<MaybeTree, c_int> {
    let &[dimensions, ..] = integers else { return Err(c::ERR_TYPE) };
    let n = usize::try_from(dimensions).map_err(|_| c::ERR_TYPE)?;
    let (lists, rest) = sizes(integers, numbers, (1, 3 * n))?;
    let &[order] = rest else { return Err(c::ERR_TYPE) };
    let (sizes, subsizes, starts) = (&lists[..n], &lists[n..2 * n], &lists[2 * n..]);
    Ok(Subarray { sizes, subsizes, starts, order }.select(element))
}

fn distributed_array(
    integers: &[c_int],
    numbers: &[i64],
    element: ArrayElements,
) -> Result<MaybeTree, c_int> {
    let &[_, rank, dimensions, ..] = integers else { return Err(c::ERR_TYPE) };
    let n = usize::try_from(dimensions).map_err(|_| c::ERR_TYPE)?;
    let (sizes, lists) = sizes(integers, numbers, (3, n))?;
    if lists.len() != 3 * n + 1 {
        return Err(c::ERR_TYPE);
    }
    let array = DistributedArray {
        rank: rank.into(),
        sizes: &sizes,
        distributions: &lists[..n],
        blocks: &lists[n..2 * n],
        processes: &lists[2 * n..3 * n],
        order: lists[3 * n],
    };
    array.select(element)
}
