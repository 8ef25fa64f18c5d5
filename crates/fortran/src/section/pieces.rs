//! A datatype that is still to be created, as a list of pieces in memory: items that have a handle
//! already, and vectors and structures of them.

use std::collections::TryReserveError;

use crate::abi::Word;

/// Data at a displacement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Bytes from the section's address, or from the structure's origin.
    pub at: i64,
    /// The data.
    pub shape: PieceShape,
}

/// What lies there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PieceShape {
    /// Elements of a datatype, one behind the other.
    Items {
        /// The datatype's handle in C.
        handle: Word,
        /// Its extent.
        extent: i64,
        /// The number of elements.
        count: i64,
    },
    /// Equal shapes at equal distances.
    Vector {
        /// How many.
        count: i64,
        /// Bytes from one to the next.
        stride: i64,
        /// The shape.
        of: Box<PieceShape>,
    },
    /// Several pieces.
    Struct(Vec<Piece>),
}

/// Pieces in the order of the type map.
#[derive(Debug, Default)]
pub struct TypePieces(Vec<Piece>);

impl TypePieces {
    /// The pieces.
    pub fn as_slice(&self) -> &[Piece] {
        &self.0
    }

    /// Adds a piece, to the last one if it continues that.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn push(&mut self, piece: Piece) -> Result<(), TryReserveError> {
        if let Some(last) = self.0.last_mut()
            && let PieceShape::Items { handle, extent, count } = &mut last.shape
            && let PieceShape::Items { handle: next, count: more, .. } = piece.shape
            && (*handle, last.at + *extent * *count) == (next, piece.at)
        {
            *count += more;
            return Ok(());
        }
        self.0.try_reserve(1)?;
        self.0.push(piece);
        Ok(())
    }

    /// Adds `count` copies of all pieces of `of`, at distances of `stride` bytes.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn push_copies(
        &mut self,
        count: i64,
        stride: i64,
        of: TypePieces,
    ) -> Result<(), TryReserveError> {
        let mut pieces = of.0;
        let Some(&Piece { at, .. }) = pieces.first() else { return Ok(()) };
        let shape = match pieces.len() {
            1 => pieces.remove(0).shape,
            _ => {
                // From the first one, so that equal structures at other places are equal.
                pieces.iter_mut().for_each(|piece| piece.at -= at);
                PieceShape::Struct(pieces)
            }
        };
        self.push(Piece { at, shape: shape.copies(count, stride) })
    }
}

impl PieceShape {
    /// `count` copies, at distances of `stride` bytes.
    fn copies(self, count: i64, stride: i64) -> PieceShape {
        match self {
            PieceShape::Items { handle, extent, count: inner } if stride == extent * inner => {
                PieceShape::Items { handle, extent, count: inner * count }
            }
            PieceShape::Vector { count: inner, stride: step, of } if stride == step * inner => {
                PieceShape::Vector { count: inner * count, stride: step, of }
            }
            of => PieceShape::Vector { count, stride, of: Box::new(of) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reals(at: i64, count: i64) -> Piece {
        Piece { at, shape: PieceShape::Items { handle: 1, extent: 4, count } }
    }

    #[test]
    fn items_that_follow_one_another_are_one_piece() {
        let mut list = TypePieces::default();
        for piece in [reals(8, 1), reals(12, 2), reals(24, 1)] {
            list.push(piece).unwrap();
        }
        assert_eq!(list.as_slice(), [reals(8, 3), reals(24, 1)]);
    }

    #[test]
    fn copies_at_the_distance_of_their_parts_are_one_vector() {
        let mut row = TypePieces::default();
        row.push(reals(0, 1)).unwrap();
        let (mut rows, mut all) = (TypePieces::default(), TypePieces::default());
        rows.push_copies(3, 8, row).unwrap();
        all.push_copies(5, 24, rows).unwrap();
        let PieceShape::Vector { count, stride, .. } = &all.as_slice()[0].shape else { panic!() };
        assert_eq!((*count, *stride), (15, 8));
    }
}
