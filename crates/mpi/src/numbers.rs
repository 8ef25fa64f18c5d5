//! Numbers as the bytes of messages of the library's own.

/// The bytes of these numbers.
pub(crate) fn to_bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// The numbers of these bytes.
pub(crate) fn to_numbers(bytes: &[u8]) -> Vec<u64> {
    let (numbers, _) = bytes.as_chunks();
    numbers.iter().map(|number| u64::from_ne_bytes(*number)).collect()
}
