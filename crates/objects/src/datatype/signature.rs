//! What the packed bytes of a datatype are, entry by entry: for counting basic elements and for
//! converting.

use std::sync::Arc;

use super::basic::BasicType;
use mica_memory::{NestedNode, drop_parts, try_push, try_with_capacity};

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
    /// Levels of the tree.
    depth: u32,
    kind: SignatureNode,
}

impl Drop for Signature {
    fn drop(&mut self) {
        drop_parts(self);
    }
}

#[derive(Debug)]
enum SignatureNode {
    Basic(BasicType),
    Repeat(u64, Arc<Signature>),
    Sequence(Box<[Arc<Signature>]>),
}

/// What [`Signature::runs`] has still to go through.
enum Upcoming<'a> {
    Repeat(u64, &'a Signature),
    Sequence(std::slice::Iter<'a, Arc<Signature>>),
}

impl<'a> Upcoming<'a> {
    fn next(&mut self) -> Option<&'a Signature> {
        match self {
            Upcoming::Repeat(count, body) => {
                *count = count.checked_sub(1)?;
                Some(body)
            }
            Upcoming::Sequence(parts) => parts.next().map(|part| &**part),
        }
    }
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
        let kind = SignatureNode::Basic(basic);
        Arc::new(Signature { bytes, external, elements: 1, depth: 1, kind })
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
            depth: body.depth.saturating_add(1),
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
                _ => try_push(&mut runs, (count, part)).map_err(Error::no_type_memory)?,
            }
        }
        let mut parts = try_with_capacity(runs.len()).map_err(Error::no_type_memory)?;
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
            depth: parts.iter().map(|part| part.depth).max().unwrap_or(0).saturating_add(1),
            kind: SignatureNode::Sequence(parts.into()),
        })
    }

    /// Number of basic elements in the first `bytes` packed bytes, all of one or more such
    /// datatypes. `None` if a basic element is cut.
    pub fn elements_in(&self, mut bytes: u64) -> Option<u64> {
        let (mut signature, mut elements) = (self, 0u64);
        loop {
            if signature.bytes == 0 {
                return (bytes == 0).then_some(elements);
            }
            let (whole, rest) = (bytes / signature.bytes, bytes % signature.bytes);
            elements = elements.checked_add(whole.checked_mul(signature.elements)?)?;
            bytes = rest;
            match &signature.kind {
                _ if rest == 0 => return Some(elements),
                SignatureNode::Basic(_) => return None,
                SignatureNode::Repeat(_, body) => signature = body,
                SignatureNode::Sequence(parts) => {
                    signature = parts.iter().find(|part| {
                        let is_here = bytes <= part.bytes;
                        if !is_here {
                            bytes -= part.bytes;
                            elements += part.elements;
                        }
                        is_here
                    })?;
                }
            }
        }
    }

    /// Number of packed bytes of the first `elements` basic elements of one or more such datatypes.
    pub fn bytes_of(&self, mut elements: u64) -> Option<u64> {
        let (mut signature, mut bytes) = (self, 0u64);
        loop {
            if signature.elements == 0 {
                return (elements == 0).then_some(bytes);
            }
            let (whole, rest) = (elements / signature.elements, elements % signature.elements);
            bytes = bytes.checked_add(whole.checked_mul(signature.bytes)?)?;
            elements = rest;
            match &signature.kind {
                // A basic element has one element, so there is no rest.
                SignatureNode::Basic(_) => return Some(bytes),
                _ if rest == 0 => return Some(bytes),
                SignatureNode::Repeat(_, body) => signature = body,
                SignatureNode::Sequence(parts) => {
                    signature = parts.iter().find(|part| {
                        let is_here = elements <= part.elements;
                        if !is_here {
                            elements -= part.elements;
                            bytes += part.bytes;
                        }
                        is_here
                    })?;
                }
            }
        }
    }

    /// Calls `run(basic, bytes of one in external32, how many)` for the entries in order; equal
    /// neighbours are merged where that is cheap.
    pub fn runs(&self, mut run: impl FnMut(BasicType, u64, u64) -> Result<()>) -> Result<()> {
        // The innermost last.
        let mut rest = vec![Upcoming::Repeat(1, self)];
        while let Some(upcoming) = rest.last_mut() {
            let Some(signature) = upcoming.next() else {
                rest.pop();
                continue;
            };
            match &signature.kind {
                SignatureNode::Basic(basic) => run(*basic, signature.external, 1)?,
                SignatureNode::Repeat(count, body) => match &body.kind {
                    SignatureNode::Basic(basic) => run(*basic, body.external, *count)?,
                    _ => rest.push(Upcoming::Repeat(*count, body)),
                },
                SignatureNode::Sequence(parts) => rest.push(Upcoming::Sequence(parts.iter())),
            }
        }
        Ok(())
    }
}

impl NestedNode for Signature {
    fn depth(&self) -> u32 {
        self.depth
    }

    fn give_up_parts(&mut self, to: &mut Vec<Arc<Signature>>) {
        self.depth = 1;
        match std::mem::replace(&mut self.kind, SignatureNode::Sequence(Box::default())) {
            SignatureNode::Basic(_) => {}
            SignatureNode::Repeat(_, body) => to.push(body),
            SignatureNode::Sequence(parts) => to.extend(parts),
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
    fn levels_take_no_stack() {
        let work = || {
            let (int, byte) =
                (Signature::basic(BasicType::I32, None), Signature::basic(BasicType::Byte, None));
            let levels = if cfg!(miri) { 500 } else { 50_000 };
            let mut nested = Arc::clone(&int);
            for _ in 0..levels {
                nested = Signature::sequence([(1, nested), (1, Arc::clone(&byte))]).unwrap();
            }
            assert_eq!((nested.elements, nested.bytes), (levels + 1, levels + 4));
            assert_eq!((nested.elements_in(4), nested.elements_in(3)), (Some(1), None));
            assert_eq!(nested.elements_in(2 * (levels + 4) + 5), Some(2 * (levels + 1) + 2));
            assert_eq!((nested.bytes_of(1), nested.bytes_of(3)), (Some(4), Some(6)));
            let mut seen = 0;
            nested
                .runs(|_, _, n| {
                    seen += n;
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, levels + 1);
        };
        std::thread::Builder::new().stack_size(64 << 10).spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn repeats_merge_and_overflow_is_an_error() {
        let int = Signature::basic(BasicType::I32, None);
        let many = int.repeat(3).unwrap().repeat(5).unwrap();
        let mut seen = Vec::new();
        many.runs(|basic, _, count| {
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
