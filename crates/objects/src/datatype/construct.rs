//! The general constructors (MPI 5.0, 5.1.2, 5.1.7 and 5.1.10).
//!
//! Each returns a datatype without a handle and not committed. Counts and displacements are checked
//! here; the shims check the lengths of the caller's arrays.

use std::sync::Arc;

use mica_memory::{TypeLayout, try_collect, try_collect_valid};

use super::TypeArguments;
use super::signature::Signature;
use super::{Datatype, TypeCore, check_count};
use crate::constants as c;
use crate::error::{Error, Result};

/// Checks the block lengths of an array of blocks.
fn check_lengths(lengths: &[i64]) -> Result<()> {
    match lengths.iter().position(|&length| length < 0) {
        None => Ok(()),
        Some(i) => {
            let reason = format!("element {i} must not be negative");
            Err(Error::argument(c::ERR_ARG, "array_of_blocklengths", lengths[i], reason))
        }
    }
}

fn check_length(length: i64) -> Result<u64> {
    u64::try_from(length)
        .map_err(|_| Error::argument(c::ERR_ARG, "blocklength", length, "it must not be negative"))
}

/// Displacements counted in extents of `old`, in bytes.
fn in_bytes(displacements: &[i64], old: &Datatype) -> Result<Vec<i64>> {
    let scale = |(i, &displacement): (usize, &i64)| {
        displacement.checked_mul(old.extent()).ok_or_else(|| {
            let reason = format!(
                "element {i} times the extent of {}, {} bytes, exceeds 63 bits",
                old.label(),
                old.extent()
            );
            Error::argument(c::ERR_ARG, "array_of_displacements", displacement, reason)
        })
    };
    try_collect_valid(displacements.iter().enumerate().map(scale))
}

impl Datatype {
    pub(super) fn derived(
        arguments: TypeArguments,
        layout: TypeLayout,
        signature: Arc<Signature>,
    ) -> Datatype {
        let layout = Arc::new(layout);
        let mut elements = arguments.datatypes.iter().map(Datatype::element);
        let first = elements.next().flatten();
        let element = first.filter(|_| elements.all(|element| element == first));
        let core =
            TypeCore { arguments, layout, signature, basic: None, element, permanent: false };
        Datatype::new(core)
    }

    /// The signature of this many elements.
    fn signed(&self, count: u64) -> Result<Arc<Signature>> {
        self.0.core.signature.repeat(count)
    }

    /// The signature of blocks of these lengths.
    fn signed_blocks(&self, lengths: impl IntoIterator<Item = i64>) -> Result<Arc<Signature>> {
        let signature = &self.0.core.signature;
        Signature::sequence(lengths.into_iter().map(|n| (n as u64, Arc::clone(signature))))
    }

    /// `MPI_Type_contiguous`.
    pub fn contiguous(count: i64, old: &Datatype) -> Result<Datatype> {
        let n = check_count(count, "count")?;
        let arguments =
            TypeArguments::new(c::COMBINER_CONTIGUOUS, &[&[count]], &[], vec![old.clone()])?;
        Ok(Datatype::derived(arguments, old.layout().contiguous(n)?, old.signed(n)?))
    }

    /// `MPI_Type_vector`: `stride` in extents of `old`.
    pub fn vector(count: i64, blocklength: i64, stride: i64, old: &Datatype) -> Result<Datatype> {
        let bytes = stride.checked_mul(old.extent()).ok_or_else(|| {
            let reason = "the stride in bytes exceeds 63 bits";
            Error::argument(c::ERR_ARG, "stride", stride, reason)
        })?;
        let counts = [count, blocklength, stride];
        let arguments = TypeArguments::new(c::COMBINER_VECTOR, &[&counts], &[], vec![old.clone()])?;
        Datatype::strided(arguments, count, blocklength, bytes, old)
    }

    /// `MPI_Type_create_hvector`: `stride` in bytes.
    pub fn hvector(count: i64, blocklength: i64, stride: i64, old: &Datatype) -> Result<Datatype> {
        let counts = [count, blocklength];
        let arguments =
            TypeArguments::new(c::COMBINER_HVECTOR, &[&counts], &[stride], vec![old.clone()])?;
        Datatype::strided(arguments, count, blocklength, stride, old)
    }

    fn strided(
        arguments: TypeArguments,
        count: i64,
        blocklength: i64,
        stride: i64,
        old: &Datatype,
    ) -> Result<Datatype> {
        let (n, length) = (check_count(count, "count")?, check_length(blocklength)?);
        let layout = old.layout().hvector(n, length, stride)?;
        Ok(Datatype::derived(arguments, layout, old.signed(length)?.repeat(n)?))
    }

    /// `MPI_Type_indexed`: displacements in extents of `old`.
    pub fn indexed(lengths: &[i64], displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let count = [lengths.len() as i64];
        let counts = [&count[..], lengths, displacements];
        let arguments = TypeArguments::new(c::COMBINER_INDEXED, &counts, &[], vec![old.clone()])?;
        Datatype::blocks(arguments, lengths, &in_bytes(displacements, old)?, old)
    }

    /// `MPI_Type_create_hindexed`: displacements in bytes.
    pub fn hindexed(lengths: &[i64], displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let count = [lengths.len() as i64];
        let counts = [&count[..], lengths];
        let arguments =
            TypeArguments::new(c::COMBINER_HINDEXED, &counts, displacements, vec![old.clone()])?;
        Datatype::blocks(arguments, lengths, displacements, old)
    }

    fn blocks(
        arguments: TypeArguments,
        lengths: &[i64],
        displacements: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        check_lengths(lengths)?;
        let blocks = lengths.iter().zip(displacements).map(|(&n, &at)| (n as u64, at));
        let layout = old.layout().hindexed(blocks)?;
        Ok(Datatype::derived(arguments, layout, old.signed_blocks(lengths.iter().copied())?))
    }

    /// `MPI_Type_create_indexed_block`: displacements in extents of `old`.
    pub fn indexed_block(length: i64, displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let head = [displacements.len() as i64, length];
        let counts = [&head[..], displacements];
        let arguments =
            TypeArguments::new(c::COMBINER_INDEXED_BLOCK, &counts, &[], vec![old.clone()])?;
        Datatype::equal_blocks(arguments, length, &in_bytes(displacements, old)?, old)
    }

    /// `MPI_Type_create_hindexed_block`: displacements in bytes.
    pub fn hindexed_block(length: i64, displacements: &[i64], old: &Datatype) -> Result<Datatype> {
        let head = [displacements.len() as i64, length];
        let old_types = vec![old.clone()];
        let arguments =
            TypeArguments::new(c::COMBINER_HINDEXED_BLOCK, &[&head], displacements, old_types)?;
        Datatype::equal_blocks(arguments, length, displacements, old)
    }

    fn equal_blocks(
        arguments: TypeArguments,
        length: i64,
        displacements: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        let n = check_length(length)?;
        let layout = old.layout().hindexed(displacements.iter().map(|&at| (n, at)))?;
        let signature = old.signed(n)?.repeat(displacements.len() as u64)?;
        Ok(Datatype::derived(arguments, layout, signature))
    }

    /// `MPI_Type_create_struct`: displacements in bytes.
    pub fn create_struct(
        lengths: &[i64],
        displacements: &[i64],
        types: &[Datatype],
    ) -> Result<Datatype> {
        check_lengths(lengths)?;
        let fields = lengths.iter().zip(displacements).zip(types);
        let layout = TypeLayout::structure(
            fields.map(|((&n, &at), field)| (n as u64, at, &**field.layout())),
        )?;
        let parts = lengths.iter().zip(types);
        let signature = Signature::sequence(
            parts.map(|(&n, field)| (n as u64, Arc::clone(&field.0.core.signature))),
        )?;
        let count = [lengths.len() as i64];
        let counts = [&count[..], lengths];
        let fields = try_collect(types.iter().cloned()).map_err(Error::no_type_memory)?;
        let arguments = TypeArguments::new(c::COMBINER_STRUCT, &counts, displacements, fields)?;
        Ok(Datatype::derived(arguments, layout, signature))
    }

    /// `MPI_Type_create_resized`.
    pub fn resized(old: &Datatype, lb: i64, extent: i64) -> Result<Datatype> {
        let arguments =
            TypeArguments::new(c::COMBINER_RESIZED, &[], &[lb, extent], vec![old.clone()])?;
        Ok(Datatype::derived(arguments, old.layout().resized(lb, extent)?, old.signed(1)?))
    }

    /// `MPI_Type_dup`: the same, committed or not as the original, with the attributes that its
    /// copy callbacks give.
    pub fn dup(old: &Datatype) -> Result<Datatype> {
        let core = &old.0.core;
        let attributes = old.attributes().duplicate(old.handle(), c::DATATYPE_NULL)?;
        let core = TypeCore {
            arguments: TypeArguments::new(c::COMBINER_DUP, &[], &[], vec![old.clone()])?,
            layout: Arc::clone(&core.layout),
            signature: Arc::clone(&core.signature),
            basic: core.basic,
            element: core.element,
            permanent: false,
        };
        Ok(Datatype::with_core(Arc::new(core), old.committed(), attributes))
    }
}
