//! The format of a [`LateRecord`] in the segment.
//!
//! All numbers are little-endian; texts are UTF-8 without a terminating zero.
//!
//! ```text
//! header, 24 bytes:     u64 MAGIC ("MICAlat" and the format's version, 1)
//!                       u64 calls at sites that are left out
//!                       u32 number of sites
//!                       u32 0
//! each site, 74 bytes:  u64 address that the call returns to
//!                       u64 offset of the call in its file
//!                       u64 offset of the call in its function
//!                       u64 calls
//!                       u64 calls in which this rank waited for one that came later
//!                       u64 nanoseconds waited in all
//!                       u64 nanoseconds of the longest wait
//!                       u64 nanoseconds inside the calls
//!                       u32 size of the communicators
//!                       u8  number of ranks that came last (0 to 8)
//!                       u8  bytes of the function's name
//!                       u8  bytes of the collective's name
//!                       u8  0
//!                       u16 bytes of the file's name
//!   each that came last: u32 rank, u64 times, u64 nanoseconds that it was waited for
//!   then                the names: the file's, the function's, the collective's
//! ```
//!
//! Sites follow each other without gaps. File names that are too long lose their beginning, other
//! names their end.

use super::{LATEST, LastArrival, LateRecord, LateSite};
use crate::byte_reader::ByteReader;

/// The first eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"MICAlat\x01");

/// Bytes of the header.
pub const HEADER_BYTES: usize = 24;

/// Bytes of a site without the last arrivals and the names.
pub const SITE_BYTES: usize = 8 * 8 + 4 + 4 + 2;

/// Bytes of a last arrival.
const LAST_BYTES: usize = 4 + 8 + 8;

/// Maximum of bytes of a file's name: a record of [`SITES`](super::SITES) sites then fits 64 KiB.
const OBJECT_MAX: usize = 512;

/// Maximum of bytes of a function's or a collective's name.
const NAME_MAX: usize = 128;

const _: () = assert!(
    HEADER_BYTES + super::SITES * (SITE_BYTES + LATEST * LAST_BYTES + OBJECT_MAX + 2 * NAME_MAX)
        <= 64 << 10
);

impl LateRecord {
    /// Encodes the record. Sites beyond the first [`SITES`](super::SITES) only count as left out.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (recorded, left_out) = self.sites.split_at(self.sites.len().min(super::SITES));
        let left_out: u64 = left_out.iter().map(|site| site.counts.calls).sum();
        let mut bytes = Vec::new();
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend((self.calls_left_out + left_out).to_le_bytes());
        bytes.extend((recorded.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        for site in recorded {
            site.write(&mut bytes);
        }
        bytes
    }

    /// Decodes the record at the start of these bytes. `None` if they do not hold one.
    pub fn from_bytes(bytes: &[u8]) -> Option<LateRecord> {
        let mut bytes = ByteReader(bytes);
        if bytes.u64()? != MAGIC {
            return None;
        }
        let calls_left_out = bytes.u64()?;
        let sites = bytes.u32()?;
        bytes.array::<4>()?;
        let sites = (0..sites).map(|_| LateSite::read(&mut bytes));
        Some(LateRecord { sites: sites.collect::<Option<_>>()?, calls_left_out })
    }
}

impl LateSite {
    fn write(&self, bytes: &mut Vec<u8>) {
        let LateSite { place, counts, .. } = self;
        let object = ending(&place.object, OBJECT_MAX);
        let symbol = beginning(&place.symbol, NAME_MAX);
        let collective = beginning(&self.collective, NAME_MAX);
        let last = &counts.last[..counts.last.len().min(LATEST)];
        let numbers = [
            place.address,
            place.offset,
            place.symbol_offset,
            counts.calls,
            counts.waited,
            counts.wait_ns,
            counts.longest_ns,
            counts.inside_ns,
        ];
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend(self.ranks.to_le_bytes());
        bytes.extend([last.len(), symbol.len(), collective.len(), 0].map(|length| length as u8));
        bytes.extend((object.len() as u16).to_le_bytes());
        for one in last {
            bytes.extend(one.rank.to_le_bytes());
            bytes.extend(one.times.to_le_bytes());
            bytes.extend(one.wait_ns.to_le_bytes());
        }
        for name in [object, symbol, collective] {
            bytes.extend(name.as_bytes());
        }
    }

    fn read(bytes: &mut ByteReader<'_>) -> Option<LateSite> {
        let mut site = LateSite::default();
        let LateSite { place, counts, .. } = &mut site;
        for number in [
            &mut place.address,
            &mut place.offset,
            &mut place.symbol_offset,
            &mut counts.calls,
            &mut counts.waited,
            &mut counts.wait_ns,
            &mut counts.longest_ns,
            &mut counts.inside_ns,
        ] {
            *number = bytes.u64()?;
        }
        site.ranks = bytes.u32()?;
        let [last, symbol, collective, _] = bytes.array::<4>()?;
        let object = u16::from_le_bytes(bytes.array()?);
        for _ in 0..last {
            site.counts.last.push(LastArrival {
                rank: bytes.u32()?,
                times: bytes.u64()?,
                wait_ns: bytes.u64()?,
            });
        }
        site.place.object = bytes.text(object.into())?;
        site.place.symbol = bytes.text(symbol.into())?;
        site.collective = bytes.text(collective.into())?;
        Some(site)
    }
}

/// The last `max` bytes of a text, or fewer at a character boundary.
fn ending(text: &str, max: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(max));
    &text[from..]
}

/// The first `max` bytes of a text, or fewer at a character boundary.
fn beginning(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::late::{CallSite, SITES, SiteCounts};

    fn site(number: u64, name: &str) -> LateSite {
        LateSite {
            place: CallSite {
                address: 0x7fff_0000 + number,
                object: format!("/opt/{name}/program"),
                offset: 0x1000 + number,
                symbol: name.to_owned(),
                symbol_offset: 0x20,
            },
            collective: "allreduce".to_owned(),
            ranks: 8,
            counts: SiteCounts {
                calls: 100 + number,
                waited: 90,
                wait_ns: 5_000_000,
                longest_ns: 70_000,
                inside_ns: 6_000_000,
                last: (0..number as u32 % 9)
                    .map(|rank| LastArrival { rank, times: 10, wait_ns: 500 })
                    .collect(),
            },
        }
    }

    #[test]
    fn record_decodes_as_encoded() {
        let table =
            LateRecord { sites: (0..20).map(|n| site(n, "tätig")).collect(), calls_left_out: 3 };
        let mut bytes = table.to_bytes();
        bytes.extend([0xff; 100]);
        assert_eq!(LateRecord::from_bytes(&bytes), Some(table));
        let empty = LateRecord::default();
        assert_eq!(empty.to_bytes().len(), HEADER_BYTES);
        assert_eq!(LateRecord::from_bytes(&empty.to_bytes()), Some(empty));
    }

    #[test]
    fn the_largest_table_fits_and_says_what_it_lacks() {
        let long = "ä".repeat(4000);
        let table =
            LateRecord { sites: (0..100).map(|_| site(8, &long)).collect(), calls_left_out: 1 };
        let bytes = table.to_bytes();
        assert!(bytes.len() <= 64 << 10, "{}", bytes.len());
        let read = LateRecord::from_bytes(&bytes).expect("a table");
        assert_eq!(read.sites.len(), SITES);
        assert_eq!(read.calls_left_out, 1 + 36 * 108);
        assert!(read.sites[0].place.object.ends_with("ä/program"));
        assert_eq!(read.sites[0].place.symbol, "ä".repeat(NAME_MAX / 2));
    }

    #[test]
    fn refuses_bytes_of_another_format() {
        let bytes = LateRecord { sites: vec![site(5, "main")], calls_left_out: 0 }.to_bytes();
        for length in 0..bytes.len() {
            assert_eq!(LateRecord::from_bytes(&bytes[..length]), None, "{length}");
        }
        let mut many = bytes.clone();
        many[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(LateRecord::from_bytes(&many), None);
        let mut other = bytes.clone();
        other[7] = 2;
        assert_eq!(LateRecord::from_bytes(&other), None);
        assert_eq!(LateRecord::from_bytes(&[0; 4096]), None);
    }
}
