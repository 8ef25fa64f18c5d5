//! The name of the socket where a job's mpiexec lets tools attach.

use std::collections::HashSet;
use std::io;

use crate::handover::{nonce, own_uid};

const PREFIX: &str = "mica-top-";

/// `mica-top-UID-PID-RANDOM`: the name of an abstract socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SocketName {
    /// The user whose job it is.
    pub uid: u32,
    /// The process that listens, by its own PID namespace.
    pub pid: u32,
    random: String,
}

impl SocketName {
    /// A new name for this process.
    ///
    /// # Errors
    /// When the kernel has no random bytes.
    pub fn new() -> io::Result<SocketName> {
        Ok(SocketName {
            uid: own_uid(),
            pid: std::process::id(),
            random: format!("{:032x}", u128::from_le_bytes(nonce()?)),
        })
    }

    /// The name in bytes.
    pub fn encode(&self) -> Vec<u8> {
        format!("{PREFIX}{}-{}-{}", self.uid, self.pid, self.random).into_bytes()
    }

    /// The names in a listing as `/proc/net/unix` has it, each once; sockets that have been
    /// accepted appear under their listener's name there.
    pub fn find_in(listing: &str) -> Vec<SocketName> {
        let mut found: Vec<SocketName> = Vec::new();
        // Any user can make any number of such names.
        let mut known = HashSet::new();
        for line in listing.lines() {
            let name = line.split_ascii_whitespace().nth(7);
            let name = name.and_then(|name| name.strip_prefix('@'));
            let Some(name) = name.and_then(SocketName::parse) else {
                continue;
            };
            if known.insert(name.clone()) {
                found.push(name);
            }
        }
        found
    }

    fn parse(name: &str) -> Option<SocketName> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
        let mut number = || parts.next()?.parse::<u32>().ok();
        let (uid, pid) = (number()?, number()?);
        let random = parts.next()?;
        let is_random = random.len() == 32 && random.bytes().all(|b| b.is_ascii_hexdigit());
        is_random.then(|| SocketName { uid, pid, random: random.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handover::HandoverListener;

    #[test]
    fn a_socket_is_found_by_its_name() {
        let name = SocketName::new().unwrap();
        let listing = || std::fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!SocketName::find_in(&listing()).contains(&name));
        let listener = HandoverListener::bind(&name.encode()).unwrap();
        let found = SocketName::find_in(&listing());
        assert_eq!(found.iter().filter(|&other| *other == name).count(), 1);
        drop(listener);
        assert!(!SocketName::find_in(&listing()).contains(&name));
    }

    #[test]
    fn other_names_are_none_of_ours() {
        let random = "0123456789abcdef0123456789abcdef";
        let line = |name: &str| format!("0000: 00000002 00000000 00010000 0005 01 4711 {name}\n");
        for other in [
            "@mica-job-77",
            "@mica-top-1-2-3",
            "@mica-top-x-2-0123456789abcdef0123456789abcdef",
            "@mica-top-99999999999-2-0123456789abcdef0123456789abcdef",
            "/tmp/mica-top-1-2-0123456789abcdef0123456789abcdef",
            "",
        ] {
            assert_eq!(SocketName::find_in(&line(other)), [], "{other}");
        }
        let found = SocketName::find_in(&line(&format!("@mica-top-1-2-{random}")));
        assert_eq!((found[0].uid, found[0].pid), (1, 2));
        assert_eq!(found[0].encode(), format!("mica-top-1-2-{random}").as_bytes());
    }
}
