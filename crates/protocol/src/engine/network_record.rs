//! What a rank publishes of its network, and how it finds what the others have published.
//!
//! The part that all ranks should have in common (settings, provider, length of addresses, packet
//! size) stands before the rank's own (random bytes, address). Where the launcher says that all
//! have the same common part, as Mica's does, a rank reads another's record when it first has to do
//! with it; otherwise every record is read and compared at start, so that all ranks of a job that
//! cannot work refuse it alike. [`Engine::start`](crate::Engine::start) publishes and compares.

use std::sync::Arc;

use mica_bootstrap::{BootstrapError, PublishedValue, PublishedValues};
use mica_channel::net::{AddressSource, JobSecret};
use mica_channel::shm::NodeTraffic;
use mica_node::segment::{AlikeSettings, Difference, JobSegment};

/// What a rank publishes of itself.
#[derive(Debug)]
pub(crate) struct NetworkRecord {
    /// [`AlikeSettings::to_bytes`].
    pub settings: Vec<u8>,
    /// [`Net::kind`](mica_channel::net::Net::kind).
    pub kind: Vec<u8>,
    /// Random bytes: those of the first rank are the job's secret.
    pub nonce: [u8; JobSecret::BYTES],
    /// [`Net::address`](mica_channel::net::Net::address).
    pub address: Vec<u8>,
}

impl NetworkRecord {
    pub fn to_value(&self) -> PublishedValue {
        let length = u16::try_from(self.settings.len()).expect("a bounded number of settings");
        let mut common = length.to_le_bytes().to_vec();
        common.extend_from_slice(&self.settings);
        common.extend_from_slice(&self.kind);
        let mut own = self.nonce.to_vec();
        own.extend_from_slice(&self.address);
        PublishedValue { common, own }
    }

    /// The settings in a value; `None` if it is not one of this release.
    fn settings_of(value: &PublishedValue) -> Option<AlikeSettings> {
        let (length, rest) = value.common.split_first_chunk()?;
        AlikeSettings::from_bytes(rest.get(..usize::from(u16::from_le_bytes(*length)))?)
    }

    /// The random bytes in a value; `None` if it is not one of this release.
    pub fn nonce_of(value: &PublishedValue) -> Option<[u8; JobSecret::BYTES]> {
        value.own.first_chunk().copied()
    }
}

/// The network addresses of a job's ranks, as they have published them.
#[derive(Debug)]
pub(crate) struct NetworkAddresses {
    pub values: PublishedValues,
    /// Whose ranks are not reached by the network, unless `traffic` says so.
    pub segment: Arc<JobSegment>,
    /// This rank.
    pub rank: u32,
    /// Ranks of one node communicate over the network.
    pub traffic: NodeTraffic,
    /// All ranks have published the same common part.
    pub is_uniform: bool,
}

impl NetworkAddresses {
    /// The first difference between the settings of this rank and those of any other.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn difference(&self, own: &AlikeSettings) -> Result<Option<Difference>, BootstrapError> {
        for peer in 0..self.segment.job_size() {
            // A record of another release has an address that `Net::connect` refuses by its
            // version.
            let settings = NetworkRecord::settings_of(&self.values.of(peer)?);
            let difference = settings.and_then(|theirs| own.difference(self.rank, &theirs, peer));
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }
}

impl AddressSource for NetworkAddresses {
    fn ranks(&self) -> u32 {
        self.segment.job_size()
    }

    fn reaches(&self, peer: u32) -> bool {
        let is_elsewhere = self.traffic == NodeTraffic::Network || !self.segment.is_member(peer);
        peer != self.rank && peer < self.segment.job_size() && is_elsewhere
    }

    fn address(&self, peer: u32) -> Result<Vec<u8>, String> {
        let value = self.values.of(peer).map_err(|error| error.to_string())?;
        let address = value.own.get(JobSecret::BYTES..);
        Ok(address.unwrap_or_default().to_vec())
    }

    fn is_uniform(&self) -> bool {
        self.is_uniform
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_written() {
        let settings = AlikeSettings::in_force().expect("defaults");
        let record = NetworkRecord {
            settings: settings.to_bytes(),
            kind: vec![1, 2, 3],
            nonce: [5; JobSecret::BYTES],
            address: vec![7; 30],
        };
        let mut value = record.to_value();
        assert_eq!(NetworkRecord::nonce_of(&value), Some([5; JobSecret::BYTES]));
        assert_eq!(value.own[JobSecret::BYTES..], [7; 30]);
        let read = NetworkRecord::settings_of(&value).expect("settings");
        assert_eq!(read.to_bytes(), settings.to_bytes());
        value.common.truncate(1);
        assert!(NetworkRecord::settings_of(&value).is_none());
        assert!(
            NetworkRecord::nonce_of(&PublishedValue { common: vec![], own: vec![1] }).is_none()
        );
    }
}
