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
