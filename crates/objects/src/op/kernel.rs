//! The inner loops of the predefined operators: one plain function for each operator and machine
//! type.
//!
//! The loops work on chunks of constant size and have no branch, so the compiler vectorizes those
//! on machine numbers (checked for sum, min and max of 32- and 64-bit numbers). The usual ones of
//! these use the widest vectors that the processor has (`wide_kernel`).

/// Does `inout[i] = input[i] (op) inout[i]` for the elements in two byte slices of the same length.
pub type Kernel = fn(&[u8], &mut [u8]);

/// A kernel on single values: `$x` is the element of `input`, `$y` that of `inout`, `$result` the
/// new one.
macro_rules! scalar_kernel {
    ($type:ty, |$x:ident, $y:ident| $result:expr) => {{
        fn kernel(input: &[u8], inout: &mut [u8]) {
            const N: usize = size_of::<$type>();
            let (input, _) = input.as_chunks::<N>();
            let (inout, _) = inout.as_chunks_mut::<N>();
            for (x, y) in input.iter().zip(inout) {
                let $x = <$type>::from_ne_bytes(*x);
                let $y = <$type>::from_ne_bytes(*y);
                let result: $type = $result;
                *y = result.to_ne_bytes();
            }
        }
        kernel as $crate::op::kernel::Kernel
    }};
}

/// As [`scalar_kernel`], by the widest vectors that the processor has.
macro_rules! wide_kernel {
    ($type:ty, |$x:ident, $y:ident| $result:expr) => {{
        fn kernel(input: &[u8], inout: &mut [u8]) {
            mica_memory::combine_elements(input, inout, |x, y| {
                let $x = <$type>::from_ne_bytes(x);
                let $y = <$type>::from_ne_bytes(y);
                let result: $type = $result;
                result.to_ne_bytes()
            });
        }
        kernel as $crate::op::kernel::Kernel
    }};
}

/// A kernel on complex values: `$a + $b i` is the element of `input`, `$c + $d i` that of `inout`.
macro_rules! complex_kernel {
    ($type:ty, |$a:ident, $b:ident, $c:ident, $d:ident| $result:expr) => {{
        fn kernel(input: &[u8], inout: &mut [u8]) {
            const N: usize = size_of::<$type>();
            let (input, _) = input.as_chunks::<N>();
            let (inout, _) = inout.as_chunks_mut::<N>();
            let (input, _) = input.as_chunks::<2>();
            let (inout, _) = inout.as_chunks_mut::<2>();
            for ([a, b], [c, d]) in input.iter().zip(inout) {
                let ($a, $b) = (<$type>::from_ne_bytes(*a), <$type>::from_ne_bytes(*b));
                let ($c, $d) = (<$type>::from_ne_bytes(*c), <$type>::from_ne_bytes(*d));
                let (re, im): ($type, $type) = $result;
                *c = re.to_ne_bytes();
                *d = im.to_ne_bytes();
            }
        }
        kernel as $crate::op::kernel::Kernel
    }};
}

/// A kernel on pairs of a value and an index: the input's pair wins if its value is `$before` the
/// other's; of equal values the smaller index wins. The last pair need not have its trailing
/// padding.
macro_rules! pair_kernel {
    ($value:ty, $index:ty, $before:tt) => {{
        fn kernel(input: &[u8], inout: &mut [u8]) {
            const V: usize = size_of::<$value>();
            const I: usize = size_of::<$index>();
            // As C lays out `struct { value; index; }`: scalars are aligned to their size.
            const AT: usize = V.next_multiple_of(I);
            const EXTENT: usize = (AT + I).next_multiple_of(if V > I { V } else { I });
            for (x, y) in input.chunks(EXTENT).zip(inout.chunks_mut(EXTENT)) {
                let values = (x.first_chunk::<V>(), y.first_chunk::<V>());
                let indexes = (x[AT..].first_chunk::<I>(), y[AT..].first_chunk::<I>());
                let (Some(xv), Some(yv)) = values else { return };
                let (Some(xi), Some(yi)) = indexes else { return };
                let (a, b) = (<$value>::from_ne_bytes(*xv), <$value>::from_ne_bytes(*yv));
                let (i, j) = (<$index>::from_ne_bytes(*xi), <$index>::from_ne_bytes(*yi));
                if a $before b {
                    y[..V].copy_from_slice(&x[..V]);
                    y[AT..AT + I].copy_from_slice(&x[AT..AT + I]);
                } else if a == b && i < j {
                    y[AT..AT + I].copy_from_slice(&x[AT..AT + I]);
                }
            }
        }
        kernel as $crate::op::kernel::Kernel
    }};
}

pub(super) use {complex_kernel, pair_kernel, scalar_kernel, wide_kernel};
