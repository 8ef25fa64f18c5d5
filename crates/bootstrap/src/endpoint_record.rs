//! What a process publishes about itself before the processes of its job share anything else.
//!
//! The bytes begin with a format version, the width of pointers and the byte order, so that
//! processes that could not share memory report it at once.

use std::fs;

use mica_node::byte_reader::ByteReader;
use mica_node::handover::{self, own_uid};
use mica_node::identity::{boot_id, host_name};
use mica_node::topology::{CorePlace, CpuSet, affinity, place_on};

use crate::BootstrapError;

const MAGIC: [u8; 4] = *b"mica";
const VERSION: u8 = 1;
/// Bytes that mean a byte order: what a 16-bit 0x0102 is in memory.
const ORDER: [u8; 2] = 0x0102u16.to_ne_bytes();
const WIDTH: u8 = size_of::<usize>() as u8;

/// One process, as the others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRecord {
    /// What can reach each other over loopback: kernel instance and network namespace.
    pub machine: String,
    /// What shares memory: the same with PID namespace, virtual node or segment.
    pub node: String,
    /// The node's name for people.
    pub host: String,
    /// Under which name its socket waits, and proof that it is who it says.
    pub nonce: [u8; 16],
    /// Effective user.
    pub uid: u32,
    /// MPMD section.
    pub appnum: u32,
    /// Where it runs.
    pub place: CorePlace,
    /// On which processors it may run.
    pub cpus: CpuSet,
}

/// What can reach each other over loopback has this in common: kernel instance and network
/// namespace.
pub fn machine() -> String {
    let kernel = match boot_id() {
        id if id.is_empty() => host_name(),
        id => id,
    };
    format!("{kernel} {}", namespace("net"))
}

/// The identity of a namespace of this process; empty if it cannot be read.
fn namespace(name: &str) -> String {
    let link = fs::read_link(format!("/proc/self/ns/{name}"));
    link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What processes that share messages must have in common: the format of their introductions, the
/// width of their pointers, their byte order.
pub fn format() -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..6].copy_from_slice(&[VERSION, WIDTH]);
    bytes[6..].copy_from_slice(&ORDER);
    bytes
}

impl EndpointRecord {
    /// The calling process's record. `part` distinguishes nodes of one machine (a virtual node, or
    /// which segment).
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub fn own(
        part: &str,
        host: Option<String>,
        appnum: u32,
    ) -> Result<EndpointRecord, BootstrapError> {
        let nonce = handover::nonce()
            .map_err(|source| BootstrapError::System { call: "getrandom", source })?;
        let host = host.filter(|name| !name.is_empty()).unwrap_or_else(host_name);
        let machine = machine();
        // Made anew: the kernel's mask has zeros behind the last processor.
        let cpus = CpuSet::from_cpus(affinity().unwrap_or_default().iter());
        Ok(EndpointRecord {
            node: format!("{machine} {} {part}", namespace("pid")),
            machine,
            host,
            nonce,
            uid: own_uid(),
            appnum,
            place: place_on(&cpus),
            cpus,
        })
    }

    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::from(format());
        bytes.extend(self.nonce);
        let place = &self.place;
        for number in [
            self.uid,
            self.appnum,
            place.core,
            place.shared_cache,
            place.package,
            place.numa,
            place.processing_unit,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        let cpus = self.cpus.to_string();
        for text in [&self.machine, &self.node, &self.host, &cpus] {
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    /// Reads the record of rank `rank`.
    ///
    /// # Errors
    /// When the bytes are no record of this version and this kind of machine.
    pub fn decode(bytes: &[u8], rank: u32) -> Result<EndpointRecord, BootstrapError> {
        let bad_record = |what: String| BootstrapError::BadRecord { rank, what };
        let broken = || bad_record("has an introduction that is cut or damaged".to_owned());
        let mut rest = ByteReader(bytes);
        if rest.array() != Some(MAGIC) {
            return Err(bad_record("did not introduce itself as Mica does".to_owned()));
        }
        let [version, width] = rest.array().ok_or_else(broken)?;
        if version != VERSION {
            return Err(bad_record(format!(
                "runs another version of Mica (its introduction has format {version}, ours \
                {VERSION})"
            )));
        }
        let order: [u8; 2] = rest.array().ok_or_else(broken)?;
        if width != WIDTH || order != ORDER {
            return Err(bad_record(format!(
                "runs on another kind of machine ({} bits, {} byte order): one job cannot mix them",
                u32::from(width) * 8,
                if order == ORDER { "the same" } else { "another" },
            )));
        }
        let text = |rest: &mut ByteReader<'_>| {
            let length = rest.u32()? as usize;
            rest.text(length)
        };
        let mut read = || {
            Some(EndpointRecord {
                nonce: rest.array()?,
                uid: rest.u32()?,
                appnum: rest.u32()?,
                place: CorePlace {
                    core: rest.u32()?,
                    shared_cache: rest.u32()?,
                    package: rest.u32()?,
                    numa: rest.u32()?,
                    processing_unit: rest.u32()?,
                },
                machine: text(&mut rest)?,
                node: text(&mut rest)?,
                host: text(&mut rest)?,
                cpus: CpuSet::from_list(&text(&mut rest)?)?,
            })
        };
        read().filter(|_| rest.0.is_empty()).ok_or_else(broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn record_round_trips() {
        let record = EndpointRecord::own("3", None, 7).expect("a record");
        assert_eq!(EndpointRecord::decode(&record.encode(), 0).expect("a record"), record);
        assert_ne!(EndpointRecord::own("3", None, 7).expect("another").nonce, record.nonce);
        assert_ne!(EndpointRecord::own("4", None, 7).expect("another").node, record.node);
    }

    #[test]
    fn rejects_foreign_records_by_rank() {
        let record = EndpointRecord::own("", None, 0).expect("a record").encode();
        let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = record.clone();
            change(&mut bytes);
            EndpointRecord::decode(&bytes, 5).expect_err("changed").to_string()
        };
        let is = |text: String, word: &str| {
            assert!(text.contains(word) && text.contains("rank 5"), "{text}");
        };
        is(refusal(&|b| b[0] = 0), "did not introduce");
        is(refusal(&|b| b[4] = 9), "another version");
        is(refusal(&|b| b[5] = 4), "32 bits");
        is(refusal(&|b| b.swap(6, 7)), "byte order");
        is(refusal(&|b| b.push(0)), "damaged");
    }

    proptest! {
        #[test]
        fn cut_or_changed_bytes_do_no_harm(cut in 0usize..200, at in 0usize..200, to: u8) {
            let mut bytes = EndpointRecord::own("", None, 0).expect("a record").encode();
            let length = bytes.len();
            let cut = cut.min(length - 1);
            prop_assert!(EndpointRecord::decode(&bytes[..cut], 0).is_err());
            bytes[at % length] = to;
            let _ = EndpointRecord::decode(&bytes, 0);
        }
    }
}
