//! What a datatype is made of, as far as it has been taken apart: a tree without empty parts.

use std::rc::Rc;

use crate::abi::Word;

/// A datatype, or a part of one. Displacements count from its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeTree {
    /// The first byte with data.
    pub low: i64,
    /// The byte after the last one with data. Greater than `low`.
    pub high: i64,
    /// Its parts.
    pub parts: TreeParts,
}

/// The parts of a datatype, in the order of its type map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeParts {
    /// One with a handle, not taken apart.
    Whole {
        /// Its handle in C.
        handle: Word,
        /// Bytes from one element to the next where they follow one another.
        extent: i64,
    },
    /// Copies of a part.
    Repeat {
        /// How many.
        count: i64,
        /// Bytes from one to the next.
        stride: i64,
        /// The part.
        of: Rc<TypeTree>,
    },
    /// Parts at displacements.
    Fields(Vec<(i64, Rc<TypeTree>)>),
}

/// A part that may have no data.
pub type MaybeTree = Option<Rc<TypeTree>>;

/// `count` copies of `of` at distances of `stride` bytes. Copies of copies that follow one another
/// at equal distances are one repetition.
pub fn repeat(count: i64, stride: i64, of: &MaybeTree) -> MaybeTree {
    let of = of.as_ref()?;
    match (count, &of.parts) {
        (..=0, _) => None,
        (1, _) => Some(Rc::clone(of)),
        (_, TreeParts::Repeat { count: inner, stride: step, of: part })
            if step.checked_mul(*inner) == Some(stride) =>
        {
            Some(Rc::new(group(count * inner, *step, part)))
        }
        _ => Some(Rc::new(group(count, stride, of))),
    }
}

/// `count` copies, at least one, as they are.
pub fn group(count: i64, stride: i64, of: &Rc<TypeTree>) -> TypeTree {
    let last = (count - 1) * stride;
    TypeTree {
        low: of.low + last.min(0),
        high: of.high + last.max(0),
        parts: TreeParts::Repeat { count, stride, of: Rc::clone(of) },
    }
}

/// Parts at displacements.
pub fn fields(fields: Vec<(i64, Rc<TypeTree>)>) -> MaybeTree {
    let low = fields.iter().map(|(at, field)| at + field.low).min()?;
    let high = fields.iter().map(|(at, field)| at + field.high).max()?;
    match &fields[..] {
        [(0, only)] => Some(Rc::clone(only)),
        _ => Some(Rc::new(TypeTree { low, high, parts: TreeParts::Fields(fields) })),
    }
}

/// `tree` at a displacement.
pub fn shifted(by: i64, tree: MaybeTree) -> MaybeTree {
    fields(tree.map(|tree| (by, tree)).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real() -> MaybeTree {
        let parts = TreeParts::Whole { handle: 1, extent: 4 };
        Some(Rc::new(TypeTree { low: 0, high: 4, parts }))
    }

    #[test]
    fn copies_of_copies_at_equal_distances_are_one_repetition() {
        assert_eq!(repeat(3, 16, &repeat(2, 8, &real())), repeat(6, 8, &real()));
        let apart = repeat(3, -20, &repeat(2, 8, &real())).unwrap();
        assert_eq!((apart.low, apart.high), (-40, 12));
    }

    #[test]
    fn parts_without_data_vanish() {
        assert_eq!(repeat(0, 4, &real()), None);
        assert_eq!(repeat(5, 4, &None), None);
        assert_eq!(fields(Vec::new()), None);
        assert_eq!(shifted(0, real()), real());
        assert_eq!(shifted(8, real()).map(|tree| (tree.low, tree.high)), Some((8, 12)));
    }
}
