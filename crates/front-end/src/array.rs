//! Converted arrays, which live as long as a call: a few elements without an allocation.

/// Elements that are kept in place.
const FEW: usize = 8;

/// An array of converted elements.
#[derive(Debug)]
pub enum Converted<T> {
    /// At most [`FEW`].
    Few([T; FEW]),
    /// Any number.
    Many(Vec<T>),
}

impl<T: Copy> Converted<T> {
    /// `len` elements; `fill` is what unused ones are. `None`: there is no memory for them.
    #[inline(always)]
    pub fn new(len: usize, fill: T, element: impl Fn(usize) -> T) -> Option<Converted<T>> {
        if len <= FEW {
            let mut few = [fill; FEW];
            for (i, place) in few.iter_mut().enumerate().take(len) {
                *place = element(i);
            }
            return Some(Converted::Few(few));
        }
        let mut many = Vec::new();
        many.try_reserve_exact(len).ok()?;
        many.extend((0..len).map(element));
        Some(Converted::Many(many))
    }

    /// Its first element's address.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        match self {
            Converted::Few(few) => few.as_mut_ptr(),
            Converted::Many(many) => many.as_mut_ptr(),
        }
    }

    /// Element `i`.
    #[inline(always)]
    pub fn get(&self, i: usize) -> T {
        match self {
            Converted::Few(few) => few[i],
            Converted::Many(many) => many[i],
        }
    }
}

/// An array, converted: null stays null.
#[derive(Debug)]
pub struct ArrayArgument<W, S> {
    given: *mut W,
    len: usize,
    array: Option<Converted<S>>,
}

impl<W, S: Copy> ArrayArgument<W, S> {
    /// The argument for `len` elements at `given`; `fill` is what unused ones are. `None`: there is
    /// no memory for them.
    #[inline(always)]
    pub fn new(
        given: *mut W,
        len: usize,
        fill: S,
        element: impl Fn(usize) -> S,
    ) -> Option<ArrayArgument<W, S>> {
        let array = match given.is_null() {
            true => None,
            false => Some(Converted::new(len, fill, element)?),
        };
        Some(ArrayArgument { given, len, array })
    }

    /// The address for the call.
    #[inline(always)]
    pub fn pass(&mut self) -> *mut S {
        self.array.as_mut().map_or(std::ptr::null_mut(), Converted::as_mut_ptr)
    }

    /// Hands each element and its place to `give`.
    #[inline(always)]
    pub fn leave(self, give: impl Fn(S, *mut W)) {
        let Some(array) = &self.array else { return };
        for i in 0..self.len {
            give(array.get(i), self.given.wrapping_add(i));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_elements_are_converted() {
        for len in [0, 1, FEW, FEW + 1, 1000] {
            let mut array = Converted::new(len, 0, |i| 3 * i).expect("there is memory");
            assert!(!array.as_mut_ptr().is_null());
            assert!((0..len).all(|i| array.get(i) == 3 * i));
            assert_eq!(matches!(array, Converted::Few(_)), len <= FEW);
        }
    }
}
