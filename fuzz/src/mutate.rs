//! Deterministic mutations of inputs, which `tests/short.rs` tries besides the corpus.

/// Sebastiano Vigna's SplitMix64: small, and good enough to pick bytes.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A sequence for `name`: the same in each run.
    pub fn new(name: &str) -> Random {
        let hash = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        Random(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `limit`; `limit` must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next_number() % limit as u64) as usize
    }
}

/// Inputs grow to this many bytes at most.
const LONGEST: usize = 4096;

/// Bytes that formats treat differently from their neighbours.
const SPECIAL: &[&[u8]] = &[
    b"\0",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b" ",
    b"\n",
    b"\r\n",
    b"=",
    b";",
    b";;",
    b",",
    b"-",
    b"\"",
    b"[",
    b"]",
    b"0",
    b"-1",
    b"9999999999",
    b"18446744073709551616",
    b"1e400",
    b"nan",
    b"\xc3\xa4",
    b"\xf0\x9f\x90\x9f",
];

/// Changes `bytes` in one to four places; parts of `other` may be inserted.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next_number() as u8,
            2 if at < bytes.len() => {
                bytes[at] = bytes[at].wrapping_add(random.below(9) as u8).wrapping_sub(4)
            }
            3 => replace(bytes, at, 0, SPECIAL[random.below(SPECIAL.len())]),
            4 => {
                let special = SPECIAL[random.below(SPECIAL.len())];
                replace(bytes, at, special.len(), special);
            }
            5 => {
                let length = random.below(bytes.len() - at + 1);
                replace(bytes, at, length.min(64), &[]);
            }
            6 => {
                // Copies a part of this input to another place.
                let from = random.below(bytes.len() + 1);
                let length = random.below(bytes.len() - from + 1).min(256);
                let part = bytes[from..from + length].to_vec();
                replace(bytes, at, 0, &part);
            }
            _ => {
                let from = random.below(other.len() + 1);
                let length = random.below(other.len() - from + 1);
                let replaced = random.below(length + 1);
                replace(bytes, at, replaced, &other[from..from + length]);
            }
        }
        bytes.truncate(LONGEST);
    }
}

/// Replaces the `length` bytes at `at`, or as many as there are, by `by`.
fn replace(bytes: &mut Vec<u8>, at: usize, length: usize, by: &[u8]) {
    let end = bytes.len().min(at + length);
    bytes.splice(at..end, by.iter().copied());
}
