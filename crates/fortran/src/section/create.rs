//! Creates the datatype that pieces describe.

use std::collections::HashMap;
use std::ffi::c_int;

use super::library::{
    PMPI_Type_commit, PMPI_Type_contiguous_c, PMPI_Type_create_hvector_c,
    PMPI_Type_create_struct_c, PMPI_Type_free, check,
};
use super::pieces::{Piece, PieceShape};
use crate::abi::{Word, constants as c};

/// A datatype of ours.
#[derive(Debug)]
pub struct OwnedType(Word);

impl OwnedType {
    /// Its handle in C.
    pub fn handle(&self) -> Word {
        self.0
    }

    /// What a constructor makes.
    fn make(construct: impl FnOnce(*mut Word) -> c_int) -> Result<OwnedType, c_int> {
        let mut handle = 0;
        check(construct(&mut handle))?;
        Ok(OwnedType(handle))
    }
}

impl Drop for OwnedType {
    fn drop(&mut self) {
        // SAFETY: the handle is ours, and no one else frees it.
        unsafe { PMPI_Type_free(&mut self.0) };
    }
}

/// A datatype, of which one is all data of a section.
#[derive(Debug)]
pub struct WholeData {
    /// Bytes from the section's address to where it lies.
    pub at: i64,
    /// The datatype, committed.
    pub datatype: OwnedType,
}

/// The datatype of which one is these pieces.
///
/// # Errors
/// Those of MPI, and `MPI_ERR_NO_MEM`.
pub fn create(pieces: &[Piece]) -> Result<WholeData, c_int> {
    let mut makers = ShapeTypes::default();
    let (at, datatype) = match pieces {
        [] => (0, contiguous(0, c::BYTE)?),
        [Piece { at, shape: PieceShape::Items { handle, count, .. } }] => {
            (*at, contiguous(*count, *handle)?)
        }
        [Piece { at, shape }] => (*at, makers.make(shape)?),
        pieces => (0, makers.structure(pieces)?),
    };
    let mut handle = datatype.handle();
    // SAFETY: the place is ours.
    check(unsafe { PMPI_Type_commit(&mut handle) })?;
    Ok(WholeData { at, datatype })
}

fn contiguous(count: i64, of: Word) -> Result<OwnedType, c_int> {
    // SAFETY: the place is `OwnedType::make`'s.
    OwnedType::make(|new| unsafe { PMPI_Type_contiguous_c(count, of, new) })
}

/// The datatypes of shapes, each made once; freed when the datatype that uses them is made.
#[derive(Debug, Default)]
struct ShapeTypes<'a>(HashMap<&'a PieceShape, OwnedType>);

impl<'a> ShapeTypes<'a> {
    /// The datatype and the number of its elements that a shape is.
    fn get(&mut self, shape: &'a PieceShape) -> Result<(Word, i64), c_int> {
        if let PieceShape::Items { handle, count, .. } = shape {
            return Ok((*handle, *count));
        }
        if let Some(known) = self.0.get(shape) {
            return Ok((known.handle(), 1));
        }
        let made = self.make(shape)?;
        let handle = made.handle();
        self.0.try_reserve(1).map_err(|_| c::ERR_NO_MEM)?;
        self.0.insert(shape, made);
        Ok((handle, 1))
    }

    fn make(&mut self, shape: &'a PieceShape) -> Result<OwnedType, c_int> {
        match shape {
            PieceShape::Items { handle, count, .. } => contiguous(*count, *handle),
            PieceShape::Vector { count, stride, of } => {
                let (old, block) = self.get(of)?;
                OwnedType::make(|new| {
                    // SAFETY: the place is `OwnedType::make`'s.
                    unsafe { PMPI_Type_create_hvector_c(*count, block, *stride, old, new) }
                })
            }
            PieceShape::Struct(pieces) => self.structure(pieces),
        }
    }

    fn structure(&mut self, pieces: &'a [Piece]) -> Result<OwnedType, c_int> {
        let (mut lengths, mut places, mut types) = (Vec::new(), Vec::new(), Vec::new());
        lengths.try_reserve_exact(pieces.len()).map_err(|_| c::ERR_NO_MEM)?;
        places.try_reserve_exact(pieces.len()).map_err(|_| c::ERR_NO_MEM)?;
        types.try_reserve_exact(pieces.len()).map_err(|_| c::ERR_NO_MEM)?;
        for piece in pieces {
            let (datatype, length) = self.get(&piece.shape)?;
            lengths.push(length);
            places.push(piece.at);
            types.push(datatype);
        }
        let (lengths, places) = (&lengths[..], &places[..]);
        OwnedType::make(|new| {
            let count = lengths.len() as i64;
            // SAFETY: the arrays have `count` elements, and the place is `OwnedType::make`'s.
            unsafe {
                let (lengths, places) = (lengths.as_ptr(), places.as_ptr());
                PMPI_Type_create_struct_c(count, lengths, places, types.as_ptr(), new)
            }
        })
    }
}
