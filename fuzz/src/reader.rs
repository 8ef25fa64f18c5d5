//! Arguments made from bytes: targets that do not take bytes themselves read their calls from the
//! input with this.

/// The unread bytes of an input. Past the end, every byte reads as 0.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(b, r)| (*b, r));
        self.0 = rest;
        first
    }

    /// A number below `limit`; `limit` must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let number = u16::from_le_bytes([self.byte(), self.byte()]);
        usize::from(number) % limit
    }

    /// A number as programs pass them: mostly small, sometimes negative, seldom at the ends of the
    /// range.
    pub fn integer(&mut self) -> i64 {
        let kind = self.byte();
        let small = i64::from(self.byte() as i8);
        match kind {
            0..=159 => small.unsigned_abs() as i64 % 5,
            160..=219 => small,
            220..=234 => small << 12,
            235..=244 => small << 40,
            245..=249 => i64::from(i32::MAX).wrapping_add(small),
            250..=252 => i64::MAX.wrapping_add(small.min(0)),
            _ => i64::MIN.wrapping_add(small.max(0)),
        }
    }

    /// Up to `limit - 1` integers.
    pub fn integers(&mut self, limit: usize) -> Vec<i64> {
        let count = self.below(limit);
        (0..count).map(|_| self.integer()).collect()
    }

    /// The next `count` bytes, or all that are left if there are fewer.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A text; the next byte is its length in bytes.
    pub fn text(&mut self) -> String {
        let length = usize::from(self.byte());
        String::from_utf8_lossy(self.take(length)).into_owned()
    }
}
