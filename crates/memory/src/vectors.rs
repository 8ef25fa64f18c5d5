//! Loops over elements by the widest vectors that the processor has.
//!
//! The library is compiled for the oldest processor of its architecture: 16-byte vectors on x86-64.
//! [`combine_elements`] is compiled three times there, and takes the copy for vectors of 64 bytes
//! (AVX-512) or 32 bytes (AVX2) where the processor has them: fewer instructions for the same
//! bytes, which is what counts for operands that lie in a cache. The results are the same, element
//! for element. The kernels of the predefined operators call it.

/// Bytes from which on it is worth asking which vectors the processor has.
#[cfg(target_arch = "x86_64")]
const WIDE_MIN: usize = 128;

/// Does `inout[i] = f(input[i], inout[i])` for the elements of `N` bytes in two slices, up to the
/// end of the shorter. `f` should be a few instructions without a branch, so that the compiler
/// makes vectors of them.
#[inline(always)]
pub fn combine_elements<const N: usize>(
    input: &[u8],
    inout: &mut [u8],
    f: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    #[cfg(target_arch = "x86_64")]
    if input.len() >= WIDE_MIN {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512bw") && has!("avx512dq") {
            // SAFETY: the processor has the instructions.
            return unsafe { combine_by_avx512(input, inout, f) };
        }
        if has!("avx2") {
            // SAFETY: as above.
            return unsafe { combine_by_avx2(input, inout, f) };
        }
    }
    combine_plainly(input, inout, f);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn combine_by_avx512<const N: usize>(
    input: &[u8],
    inout: &mut [u8],
    f: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    combine_plainly(input, inout, f);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn combine_by_avx2<const N: usize>(
    input: &[u8],
    inout: &mut [u8],
    f: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    combine_plainly(input, inout, f);
}

// Always inlined, so that it is compiled for the caller's vectors.
#[inline(always)]
fn combine_plainly<const N: usize>(
    input: &[u8],
    inout: &mut [u8],
    f: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (input, _) = input.as_chunks::<N>();
    let (inout, _) = inout.as_chunks_mut::<N>();
    for (x, y) in input.iter().zip(inout) {
        *y = f(*x, *y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combines_whole_elements_up_to_the_shorter_slice() {
        for len in 0..300 {
            let input: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut inout = vec![7u8; 250];
            combine_elements::<4>(&input, &mut inout, |x, y| {
                u32::from_ne_bytes(x).wrapping_add(u32::from_ne_bytes(y)).to_ne_bytes()
            });
            let mut expected = vec![7u8; 250];
            combine_plainly::<4>(&input, &mut expected, |x, y| {
                (u32::from_ne_bytes(x).wrapping_add(u32::from_ne_bytes(y))).to_ne_bytes()
            });
            assert_eq!(inout, expected, "{len} bytes");
            let whole = len.min(250) / 4 * 4;
            assert!(inout[whole..].iter().all(|&byte| byte == 7), "{len} bytes");
        }
    }
}
