//! The external32 representation: big-endian, with sizes that the standard fixes (MPI 5.0, 5.3 and
//! 14.5.2).
//!
//! Packed native bytes and external bytes have the same entries in the same order, so conversion
//! runs along the datatype's signature, a stretch of like entries at a time.

use mica_memory::{Region, View};
use rustc_apfloat::ieee::{Quad, X87DoubleExtended};
use rustc_apfloat::{Float, FloatConvert};

use super::basic::BasicType;
use super::pack::window;
use super::{Datatype, check_count};
use crate::constants as c;
use crate::error::{Error, Result};

/// Maximum number of entries converted at a time.
const PORTION: usize = 256;
/// Size in bytes of the largest basic entry.
const LARGEST: usize = 32;

fn check_datarep(datarep: &str) -> Result<()> {
    if datarep == "external32" {
        return Ok(());
    }
    let reason = "the only representation for packing is \"external32\"";
    Err(Error::argument(c::ERR_ARG, "datarep", format!("{datarep:?}"), reason))
}

/// `MPI_Pack_external_size`.
pub fn external_size(datarep: &str, count: i64, datatype: u32) -> Result<i64> {
    check_datarep(datarep)?;
    size_of(&Datatype::resolve_committed(datatype)?, count, "incount").map(|bytes| bytes as i64)
}

fn size_of(datatype: &Datatype, count: i64, argument: &'static str) -> Result<u64> {
    check_count(count, argument)?
        .checked_mul(datatype.0.core.signature.external)
        .filter(|&bytes| bytes <= i64::MAX as u64)
        .ok_or_else(|| {
            let reason = "the packed size exceeds 63 bits";
            Error::argument(c::ERR_COUNT, argument, count, reason)
        })
}

/// `MPI_Pack_external`: returns the position after what was packed.
#[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
pub fn pack_external(
    datarep: &str,
    from: Region,
    count: i64,
    datatype: u32,
    to: &Region,
    outsize: i64,
    position: i64,
) -> Result<i64> {
    check_datarep(datarep)?;
    let datatype = Datatype::resolve_committed(datatype)?;
    let bytes = size_of(&datatype, count, "incount")?;
    let view = from.view(datatype.shape(count)?);
    let (at, end) = window(to, outsize, "outsize", position, bytes)?;
    datatype.encode(&view, count, &at)?;
    Ok(end)
}

/// `MPI_Unpack_external`: returns the position after what was unpacked.
#[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
pub fn unpack_external(
    datarep: &str,
    from: &Region,
    insize: i64,
    position: i64,
    to: Region,
    count: i64,
    datatype: u32,
) -> Result<i64> {
    check_datarep(datarep)?;
    let datatype = Datatype::resolve_committed(datatype)?;
    let bytes = size_of(&datatype, count, "outcount")?;
    let view = to.view(datatype.shape(count)?);
    let (at, end) = window(from, insize, "insize", position, bytes)?;
    datatype.decode(&at, &view, count)?;
    Ok(end)
}

impl Datatype {
    /// Bytes of one element in the external32 representation.
    pub fn external_bytes(&self) -> u64 {
        self.0.core.signature.external
    }

    /// Writes `count` elements to `external` as external32 has them.
    ///
    /// # Errors
    /// `MPI_ERR_CONVERSION` for a value that external32 cannot hold.
    pub fn encode(&self, elements: &View, count: i64, external: &Region) -> Result<()> {
        along(self, count, |entry, n, native_at, external_at| {
            let (mut native, mut encoded) = ([0; PORTION * LARGEST], [0; PORTION * LARGEST]);
            let native = &mut native[..n * entry.native];
            let encoded = &mut encoded[..n * entry.external];
            elements.pack(native_at, native);
            let pairs =
                native.chunks_exact(entry.native).zip(encoded.chunks_exact_mut(entry.external));
            for (native, encoded) in pairs {
                entry.encode(native, encoded)?;
            }
            external.offset(external_at as isize).write_bytes(encoded);
            Ok(())
        })
    }

    /// The reverse of [`encode`](Self::encode).
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` for more than 2^63 bytes.
    pub fn decode(&self, external: &Region, elements: &View, count: i64) -> Result<()> {
        along(self, count, |entry, n, native_at, external_at| {
            let (mut native, mut encoded) = ([0; PORTION * LARGEST], [0; PORTION * LARGEST]);
            let native = &mut native[..n * entry.native];
            let encoded = &mut encoded[..n * entry.external];
            external.offset(external_at as isize).read_bytes(encoded);
            let pairs =
                native.chunks_exact_mut(entry.native).zip(encoded.chunks_exact(entry.external));
            for (native, encoded) in pairs {
                entry.decode(encoded, native)?;
            }
            elements.unpack(native_at, native);
            Ok(())
        })
    }
}

/// Calls `portion(entry, how many, position in the native bytes, position in the external ones)`
/// along `count` elements.
fn along(
    datatype: &Datatype,
    count: i64,
    mut portion: impl FnMut(ExternalEntry, usize, usize, usize) -> Result<()>,
) -> Result<()> {
    let signature = datatype.0.core.signature.repeat(count as u64)?;
    let (mut native_at, mut external_at) = (0, 0);
    signature.runs(|basic, external, count| {
        let entry =
            ExternalEntry { basic, native: basic.size() as usize, external: external as usize };
        let mut left = count;
        while left > 0 {
            let n = left.min(PORTION as u64) as usize;
            portion(entry, n, native_at, external_at)?;
            native_at += n * entry.native;
            external_at += n * entry.external;
            left -= n as u64;
        }
        Ok(())
    })
}

/// A basic entry and its sizes.
#[derive(Clone, Copy)]
struct ExternalEntry {
    basic: BasicType,
    native: usize,
    external: usize,
}

impl ExternalEntry {
    fn encode(self, native: &[u8], external: &mut [u8]) -> Result<()> {
        if let Some(part) = self.parts() {
            let (n, e) = (part.native, part.external);
            part.encode(&native[..n], &mut external[..e])?;
            return part.encode(&native[n..], &mut external[e..]);
        }
        if self.is_extended() {
            let value = quad_of(read_ne(native));
            external.copy_from_slice(&value.to_be_bytes());
            return Ok(());
        }
        let bytes = read_ne(native).to_be_bytes();
        external.copy_from_slice(&bytes[16 - self.external..]);
        if self.external == self.native {
            return Ok(());
        }
        // An entry that is shorter in external32 must convert back to the same value.
        let mut back = [0; 16];
        let back = &mut back[..self.native];
        self.decode(external, back)?;
        if back == native { Ok(()) } else { Err(self.lost()) }
    }

    fn decode(self, external: &[u8], native: &mut [u8]) -> Result<()> {
        if let Some(part) = self.parts() {
            let (n, e) = (part.native, part.external);
            part.decode(&external[..e], &mut native[..n])?;
            return part.decode(&external[e..], &mut native[n..]);
        }
        let mut bytes = [0; 16];
        bytes[16 - self.external..].copy_from_slice(external);
        let mut value = u128::from_be_bytes(bytes);
        if self.is_extended() {
            value = extended_of(value);
        } else if self.basic == BasicType::I64 && self.external < self.native {
            let unused = 128 - 8 * self.external;
            value = (((value << unused) as i128) >> unused) as u128;
        }
        native.copy_from_slice(&value.to_le_bytes()[..self.native]);
        Ok(())
    }

    fn parts(self) -> Option<ExternalEntry> {
        let basic = self.basic.component()?;
        Some(ExternalEntry { basic, native: self.native / 2, external: self.external / 2 })
    }

    /// Whether this is the x87 format, which external32 does not have.
    fn is_extended(self) -> bool {
        self.basic == BasicType::LongDouble && cfg!(target_arch = "x86_64")
    }

    #[cold]
    fn lost(self) -> Error {
        let what = format!(
            "a value of type {:?} does not fit the {} bytes that external32 gives it",
            self.basic, self.external
        );
        Error::other(c::ERR_CONVERSION, what)
    }
}

// Mica runs on little-endian machines only (x86-64, aarch64).
fn read_ne(native: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[..native.len()].copy_from_slice(native);
    u128::from_le_bytes(bytes)
}

/// The bits of binary128 for an x87 number, whose 80 bits are the low ones. Exact.
fn quad_of(bits: u128) -> u128 {
    let value = X87DoubleExtended::from_bits(bits & ((1 << 80) - 1));
    let quad: Quad = value.convert(&mut false).value;
    quad.to_bits()
}

/// The bits of the x87 number nearest to a binary128.
fn extended_of(bits: u128) -> u128 {
    let value: X87DoubleExtended = Quad::from_bits(bits).convert(&mut false).value;
    value.to_bits()
}
