//! What arrives over the network: message headers and addresses.

use mica_channel::net::wire::{self, WireAddress, WireError, WireMessage};

/// The first byte decides whether the token is replaced by the right one, so that the rest is
/// parsed.
pub fn run(bytes: &[u8]) {
    const TOKEN: u64 = 7;
    let Some((&ours, bytes)) = bytes.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if ours % 8 != 0
        && let Some(token) = bytes.first_chunk_mut()
    {
        *token = TOKEN.to_le_bytes();
    }
    let message = match wire::read(&bytes, |_| Some(TOKEN)) {
        Ok(message) => message,
        Err(WireError::Token) => {
            return assert_ne!(bytes.first_chunk(), Some(&TOKEN.to_le_bytes()));
        }
        Err(WireError::Bytes) => return,
    };
    let WireMessage { source, number, packet } = &message;
    let mut again = vec![0; bytes.len().max(wire::HEAD)];
    let head = wire::write_head(&mut again, TOKEN, *source, *number, packet.as_ref());
    let payload = packet.as_ref().map_or(0, |packet| packet.payload as usize);
    assert_eq!(head + payload, bytes.len(), "{message:?}");
    again[head..].copy_from_slice(&bytes[head..]);
    assert_eq!(wire::read(&again, |_| Some(TOKEN)), Ok(message));
}

/// Decodes a network address that another rank sent.
pub fn run_contact(bytes: &[u8]) {
    if let Ok(contact) = WireAddress::from_bytes(bytes) {
        assert_eq!(contact.to_bytes(), bytes);
    }
}
