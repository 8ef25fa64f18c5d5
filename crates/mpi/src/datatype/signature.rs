//! What the packed bytes of a datatype are, entry by entry: for counting basic elements and for
//! converting.

use std::sync::Arc;

use super::basic::BasicType;
use crate::constants as c;
use crate::error::{Error, Result};

/// The kinds of a datatype's entries in the order in which they travel: its type signature,
/// compressed.
#[derive(Debug)]
pub(super) struct Signature {
    /// Bytes in memory.
    pub bytes: u64,
    /// Bytes in the external32 representation.
    pub external: u64,
    /// Number of basic elements.
    pub elements: u64,
    kind: SignatureNode,
}

#[derive(Debug)]
enum SignatureNode {
    Basic(BasicType),
    Repeat(u64, Arc<Signature>),
    Sequence(Box<[Arc<Signature>]>),
}

fn overflow(count: u64) -> Error {
    Error::argument(c::ERR_COUNT, "count", count, "the datatype would have more than 2^63 bytes")
}

impl Signature {
    /// One basic element of `external` bytes in external32. A pair is two.
    pub fn basic(basic: BasicType, external: Option<u64>) -> Arc<Signature> {
        if let Some((value, index)) = basic.pair() {
            let index = Signature::basic(index, None);
            let value = Signature::basic(value, external.map(|bytes| bytes - index.external));
            return Signature::joined(vec![value, index]);
        }
        let bytes = basic.size();
        let external = external.unwrap_or(bytes);
        Arc::new(Signature { bytes, external, elements: 1, kind: SignatureNode::Basic(basic) })
    }

    /// This signature, repeated `count` times.
    pub fn repeat(self: &Arc<Self>, count: u64) -> Result<Arc<Signature>> {
        if count == 1 {
            return Ok(Arc::clone(self));
        }
        let (times, body) = match &self.kind {
            SignatureNode::Repeat(inner, body) => {
                (count.checked_mul(*inner).ok_or_else(|| overflow(count))?, body)
            }
            _ => (count, self),
        };
        let product = |of: u64| {
            count.checked_mul(of).filter(|&n| n <= i64::MAX as u64).ok_or_else(|| overflow(count))
        };
        Ok(Arc::new(Signature {
            bytes: product(self.bytes)?,
            external: product(self.external)?,
            elements: product(self.elements)?,
            kind: SignatureNode::Repeat(times, Arc::clone(body)),
        }))
    }

    /// The parts one after another, each repeated by its count.
    pub fn sequence(
        parts: impl IntoIterator<Item = (u64, Arc<Signature>)>,
    ) -> Result<Arc<Signature>> {
        let mut runs: Vec<(u64, Arc<Signature>)> = Vec::new();
        for (count, part) in parts {
            match runs.last_mut() {
                _ if count == 0 || part.bytes == 0 => {}
                Some((last, same)) if Arc::ptr_eq(same, &part) => {
                    *last = last.checked_add(count).ok_or_else(|| overflow(count))?;
                }
                _ => runs.push((count, part)),
            }
        }
        let mut parts = Vec::with_capacity(runs.len());
        let (mut bytes, mut external) = (0u64, 0u64);
        for (count, part) in runs {
            let part = part.repeat(count)?;
            let sum = |a: u64, b: u64| {
                a.checked_add(b).filter(|&n| n <= i64::MAX as u64).ok_or_else(|| overflow(count))
            };
            (bytes, external) = (sum(bytes, part.bytes)?, sum(external, part.external)?);
            parts.push(part);
        }
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        Ok(Signature::joined(parts))
    }

    fn joined(parts: Vec<Arc<Signature>>) -> Arc<Signature> {
        Arc::new(Signature {
            bytes: parts.iter().map(|part| part.bytes).sum(),
            external: parts.iter().map(|part| part.external).sum(),
            elements: parts.iter().map(|part| part.elements).sum(),
            kind: SignatureNode::Sequence(parts.into()),
        })
    }

    /// Number of basic elements in the first `bytes` packed bytes, all of one or more such
    /// datatypes. `None` if a basic element is cut.
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        if self.bytes == 0 {
            return (bytes == 0).then_some(0);
        }
        let (whole, mut rest) = (bytes / self.bytes, bytes % self.bytes);
        let whole = whole.checked_mul(self.elements)?;
        let partial = match &self.kind {
            _ if rest == 0 => 0,
            SignatureNode::Basic(_) => return None,
            SignatureNode::Repeat(_, body) => body.elements_in(rest)?,
            SignatureNode::Sequence(parts) => {
                let mut elements = 0;
                for part in parts {
                    if rest <= part.bytes {
                        elements += part.elements_in(rest)?;
                        break;
                    }
                    rest -= part.bytes;
                    elements += part.elements;
                }
                elements
            }
        };
        whole.checked_add(partial)
    }

    /// Number of packed bytes of the first `elements` basic elements of one or more such datatypes.
    pub fn bytes_of(&self, elements: u64) -> Option<u64> {
        if self.elements == 0 {
            return (elements == 0).then_some(0);
        }
        let (whole, mut rest) = (elements / self.elements, elements % self.elements);
        let whole = whole.checked_mul(self.bytes)?;
        let partial = match &self.kind {
            _ if rest == 0 => 0,
            SignatureNode::Basic(_) => 0, // has one element, so there is no rest
            SignatureNode::Repeat(_, body) => body.bytes_of(rest)?,
            SignatureNode::Sequence(parts) => {
                let mut bytes = 0;
                for part in parts {
                    if rest <= part.elements {
                        bytes += part.bytes_of(rest)?;
                        break;
                    }
                    rest -= part.elements;
                    bytes += part.bytes;
                }
                bytes
            }
        };
        whole.checked_add(partial)
    }

    /// Calls `run(basic, bytes of one in external32, how many)` for the entries in order; equal
    /// neighbours are merged where that is cheap.
    pub fn runs(&self, run: &mut impl FnMut(BasicType, u64, u64) -> Result<()>) -> Result<()> {
        match &self.kind {
            SignatureNode::Basic(basic) => run(*basic, self.external, 1),
            SignatureNode::Repeat(count, body) => match &body.kind {
                SignatureNode::Basic(basic) => run(*basic, body.external, *count),
                _ => (0..*count).try_for_each(|_| body.runs(run)),
            },
            SignatureNode::Sequence(parts) => parts.iter().try_for_each(|part| part.runs(run)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_elements_and_bytes_both_ways() {
        let double = Signature::basic(BasicType::F64, None);
        let int = Signature::basic(BasicType::I32, None);
        let pair = Signature::basic(BasicType::DoubleInt, None);
        let mixed = Signature::sequence([(2, double), (0, Arc::clone(&pair)), (3, int), (2, pair)])
            .unwrap();
        assert_eq!((mixed.bytes, mixed.elements), (16 + 12 + 24, 9));
        let sizes = [8, 8, 4, 4, 4, 8, 4, 8, 4];
        let mut bytes = 0;
        for (n, size) in sizes.iter().cycle().take(30).enumerate() {
            assert_eq!(mixed.elements_in(bytes), Some(n as u64));
            assert_eq!(mixed.bytes_of(n as u64), Some(bytes));
            assert_eq!(mixed.elements_in(bytes + 1), None);
            bytes += size;
        }
    }

    #[test]
    fn repeats_merge_and_overflow_is_an_error() {
        let int = Signature::basic(BasicType::I32, None);
        let many = int.repeat(3).unwrap().repeat(5).unwrap();
        let mut seen = Vec::new();
        many.runs(&mut |basic, _, count| {
            seen.push((basic, count));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(BasicType::I32, 15)]);
        assert!(many.repeat(1 << 60).is_err());
        assert_eq!(int.repeat(0).unwrap().elements_in(0), Some(0));
        assert_eq!(int.repeat(0).unwrap().elements_in(4), None);
    }
}
