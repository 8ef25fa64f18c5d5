//! The wire format: the header of a message, and the address that ranks exchange.
//!
//! A message consists of a header of [`HEAD`] bytes, the used part of the packet's inline area, and
//! the payload. All numbers are little-endian.
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | the token of this pair of ranks (`token.rs`); a message with another one is foreign |
//! | 8..12 | job rank of the sender |
//! | 12..16 | sequence number among the sender's messages to this receiver, modulo 2^32 |
//! | 16..24 | context |
//! | 24..28 | tag |
//! | 28..32 | bytes of payload |
//! | 32 | kind |
//! | 33 | bytes used of the inline area; [`BLANK`]: no packet, only the arrival counts |
//! | 34..36 | aux |
//!
//! The sequence number is needed because a provider matches messages to receives in order, but may
//! report the receives' completions in another order (tcp;ofi_rxm does so with messages of
//! different lengths).

use crate::shm::{INLINE, Packet};

/// Bytes of a message's header.
pub const HEAD: usize = 36;

/// In place of the inline length: the message has no packet.
const BLANK: u8 = 0x80;

/// A received message, after the checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireMessage {
    /// Job rank of the sender.
    pub source: u32,
    /// Its sequence number among the sender's messages to this rank.
    pub number: u32,
    /// The packet; `None` if the message is blank.
    pub packet: Option<Packet>,
}

/// Why received bytes are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireError {
    /// They are not of the rank that they name: another job's, or a stranger's.
    Token,
    /// They are not a valid message.
    Bytes,
}

/// Header and inline bytes of `packet`, before its payload.
pub fn head_bytes(packet: &Packet) -> usize {
    HEAD + usize::from(packet.inline_len).min(INLINE)
}

/// Writes the header of `packet`, or of a blank message, to the start of `to`, which must be long
/// enough. Returns its length.
pub fn write_head(
    to: &mut [u8],
    token: u64,
    source: u32,
    number: u32,
    packet: Option<&Packet>,
) -> usize {
    const NOTHING: Packet = Packet::of_kind(0);
    let inline = packet.map_or(0, |p| usize::from(p.inline_len).min(INLINE));
    let p = packet.unwrap_or(&NOTHING);
    let (head, rest) = to.split_at_mut(HEAD);
    head[0..8].copy_from_slice(&token.to_le_bytes());
    head[8..12].copy_from_slice(&source.to_le_bytes());
    head[12..16].copy_from_slice(&number.to_le_bytes());
    head[16..24].copy_from_slice(&p.context.to_le_bytes());
    head[24..28].copy_from_slice(&p.tag.to_le_bytes());
    head[28..32].copy_from_slice(&p.payload.to_le_bytes());
    head[32] = p.kind;
    head[33] = if packet.is_some() { inline as u8 } else { BLANK };
    head[34..36].copy_from_slice(&p.aux.to_le_bytes());
    rest[..inline].copy_from_slice(&p.inline[..inline]);
    HEAD + inline
}

/// Parses a message of which all bytes are in `from`. Its payload follows the header and the inline
/// bytes. `token` is that of messages from the rank given, if it sends any.
///
/// # Errors
/// If it does not carry its sender's token, or its lengths do not match `from`.
#[inline]
pub fn read(from: &[u8], token: impl FnOnce(u32) -> Option<u64>) -> Result<WireMessage, WireError> {
    let (head, rest) = from.split_at_checked(HEAD).ok_or(WireError::Bytes)?;
    let four = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
    let eight = |at: usize| {
        u64::from(u32::from_le_bytes(four(at))) | u64::from(u32::from_le_bytes(four(at + 4))) << 32
    };
    let source = u32::from_le_bytes(four(8));
    if token(source) != Some(eight(0)) {
        return Err(WireError::Token);
    }
    let mut message = WireMessage { source, number: u32::from_le_bytes(four(12)), packet: None };
    if head[33] == BLANK {
        return if rest.is_empty() { Ok(message) } else { Err(WireError::Bytes) };
    }
    let inline_len = usize::from(head[33]);
    let payload = u32::from_le_bytes(four(28));
    if inline_len > INLINE || rest.len() != inline_len + payload as usize {
        return Err(WireError::Bytes);
    }
    let mut packet = Packet {
        context: eight(16),
        tag: i32::from_le_bytes(four(24)),
        payload,
        inline: [0; INLINE],
        kind: head[32],
        inline_len: inline_len as u8,
        aux: u16::from_le_bytes([head[34], head[35]]),
    };
    packet.inline[..inline_len].copy_from_slice(&rest[..inline_len]);
    message.packet = Some(packet);
    Ok(message)
}

/// Version of the address format.
const VERSION: u8 = 3;

/// What the addresses of a job's ranks must have in common, so that each reaches each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkKind {
    /// The provider's name.
    pub provider: String,
    /// Largest payload that the rank accepts, in bytes.
    pub payload_max: u32,
    /// Bytes of the provider's addresses.
    pub address_len: u16,
}

/// A rank's address, as ranks publish it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireAddress {
    /// What it has in common with those of other ranks.
    pub kind: NetworkKind,
    /// What the tokens of messages to this rank are made with.
    pub challenge: u64,
    /// The provider's address.
    pub address: Vec<u8>,
}

impl NetworkKind {
    /// Encodes it: version, payload, length of addresses, length of the name, name.
    ///
    /// # Panics
    /// If the provider's name is longer than 255 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let name = u8::try_from(self.provider.len()).expect("libfabric's names are short");
        let mut bytes = vec![VERSION];
        bytes.extend(self.payload_max.to_le_bytes());
        bytes.extend(self.address_len.to_le_bytes());
        bytes.push(name);
        bytes.extend(self.provider.as_bytes());
        bytes
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) wrote; returns the bytes that follow, too.
    fn split_from(bytes: &[u8]) -> Result<(NetworkKind, &[u8]), String> {
        let short = || format!("its address has only {} bytes", bytes.len());
        let (version, rest) = bytes.split_first().ok_or_else(short)?;
        if *version != VERSION {
            return Err(format!(
                "its address is of version {version} and this rank's of {VERSION}: another release \
                 of Mica?"
            ));
        }
        let (payload_max, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (address_len, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (name, rest) = rest.split_first().ok_or_else(short)?;
        let (name, rest) =
            rest.split_at_checked(usize::from(*name)).ok_or("its address is cut off")?;
        let provider = std::str::from_utf8(name).map_err(|_| "its provider's name is no text")?;
        let kind = NetworkKind {
            provider: provider.to_owned(),
            payload_max: u32::from_le_bytes(*payload_max),
            address_len: u16::from_le_bytes(*address_len),
        };
        Ok((kind, rest))
    }

    /// Why ranks with these kinds of network cannot reach each other, if they cannot.
    pub fn difference(&self, peer: &NetworkKind) -> Option<String> {
        if peer.provider != self.provider {
            return Some(format!(
                "it uses the provider {}, this rank {}; name one for both in MICA_NET_PROVIDER",
                peer.provider, self.provider
            ));
        }
        (peer.address_len != self.address_len).then(|| {
            format!(
                "its address has {} bytes, this rank's {}: another kind of network; name one for \
                 both in MICA_NET_INTERFACE",
                peer.address_len, self.address_len
            )
        })
    }
}

impl WireAddress {
    /// Encodes it: the kind, challenge, address.
    ///
    /// # Panics
    /// If the provider's name is longer than 255 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.kind.to_bytes();
        bytes.extend(self.challenge.to_le_bytes());
        bytes.extend(&self.address);
        bytes
    }

    /// Decodes what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// Why the bytes are not a valid address, as text.
    pub fn from_bytes(bytes: &[u8]) -> Result<WireAddress, String> {
        let (kind, rest) = NetworkKind::split_from(bytes)?;
        let cut = || {
            let (has, wanted) = (rest.len().saturating_sub(8), kind.address_len);
            format!("its address is cut off: it has {has} bytes of {wanted}")
        };
        let (challenge, address) = rest.split_first_chunk().ok_or_else(cut)?;
        if address.len() != usize::from(kind.address_len) {
            return Err(cut());
        }
        Ok(WireAddress {
            challenge: u64::from_le_bytes(*challenge),
            address: address.to_owned(),
            kind,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(inline_len: usize, payload: u32) -> Packet {
        let mut packet = Packet {
            context: 0x0102_0304_0506_0708,
            tag: -5,
            payload,
            kind: 9,
            inline_len: inline_len as u8,
            aux: 0xabcd,
            inline: [0; INLINE],
        };
        for (i, byte) in packet.inline[..inline_len].iter_mut().enumerate() {
            *byte = i as u8 + 1;
        }
        packet
    }

    /// The tokens where rank 3 has this one, and no other rank any.
    fn of_three(token: u64) -> impl FnOnce(u32) -> Option<u64> {
        move |source| (source == 3).then_some(token)
    }

    #[test]
    fn messages_survive_the_wire() {
        for inline_len in 0..=INLINE {
            for payload in [0, 1, 100] {
                let p = packet(inline_len, payload);
                let mut bytes = [0; HEAD + INLINE + 100];
                let n = write_head(&mut bytes, 7, 3, 99, Some(&p));
                assert_eq!(n, head_bytes(&p));
                let message = read(&bytes[..n + payload as usize], of_three(7)).unwrap();
                assert_eq!((message.source, message.number), (3, 99));
                assert_eq!(message.packet, Some(p));
            }
        }
        let mut bytes = [0; HEAD];
        assert_eq!(write_head(&mut bytes, 7, 3, 4, None), HEAD);
        let blank = WireMessage { source: 3, number: 4, packet: None };
        assert_eq!(read(&bytes, of_three(7)), Ok(blank));
    }

    #[test]
    fn the_wire_is_little_endian() {
        let mut bytes = [0; HEAD];
        write_head(&mut bytes, 0x0807_0605_0403_0201, 0x0c0b_0a09, 0x100f_0e0d, None);
        assert_eq!(bytes[..16], std::array::from_fn::<u8, 16, _>(|i| i as u8 + 1));
    }

    #[test]
    fn distinguishes_foreign_packets() {
        let mut bytes = [0; HEAD + INLINE];
        let n = write_head(&mut bytes, 7, 3, 0, Some(&packet(8, 5)));
        assert_eq!(read(&bytes[..n + 5], of_three(8)), Err(WireError::Token));
        assert_eq!(read(&bytes[..n + 5], |_| None), Err(WireError::Token));
        for wrong in [n, n + 4, n + 6, HEAD, HEAD - 1, 0] {
            assert_eq!(read(&bytes[..wrong], of_three(7)), Err(WireError::Bytes), "{wrong}");
        }
        bytes[33] = INLINE as u8 + 1;
        bytes[28..32].fill(0);
        assert_eq!(read(&bytes, of_three(7)), Err(WireError::Bytes));
        bytes[33] = BLANK;
        assert_eq!(read(&bytes, of_three(7)), Err(WireError::Bytes));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            ours: bool,
        ) {
            if ours && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(&7u64.to_le_bytes());
            }
            if let Ok(WireMessage { packet: Some(p), .. }) = read(&bytes, |_| Some(7)) {
                prop_assert_eq!(bytes.len(), head_bytes(&p) + p.payload as usize);
            }
        }

        #[test]
        fn any_contact_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(contact) = WireAddress::from_bytes(&bytes) {
                prop_assert_eq!(contact.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn contacts_decode_as_encoded() {
        let contact = WireAddress {
            kind: NetworkKind {
                provider: "tcp;ofi_rxm".to_owned(),
                payload_max: 65536,
                address_len: 8,
            },
            challenge: 0x0123_4567_89ab_cdef,
            address: vec![2, 0, 1, 2, 127, 0, 0, 1],
        };
        assert_eq!(WireAddress::from_bytes(&contact.to_bytes()), Ok(contact));
        assert!(WireAddress::from_bytes(&[1, 0, 0, 0, 0, 0]).unwrap_err().contains("version 1"));
        assert!(WireAddress::from_bytes(&[VERSION]).unwrap_err().contains("1 bytes"));
    }
}
