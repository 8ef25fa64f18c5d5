//! The processes of a node meet: the lowest rank hands the job segment to the others.
//!
//! The leader's socket waits under an abstract name with the nonce of the leader's card before the cards are
//! exchanged, so that it is there when the others know of it: one fence of the launcher is enough. A guest connects, sees that the socket
//! belongs to its own user, and says its rank with its own card's nonce; the leader sees that the guest is of its user too,
//! and one that it expects. Anything else is turned away and does no harm. Both wait until a deadline.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use mica_node::handover::{Connection, Listener, wait_readable};

const GREETING: [u8; 8] = *b"mica-in\x01";
const WELCOME: [u8; 8] = *b"mica-ok\x01";
/// Greeting, rank, nonce.
const HELLO: usize = 8 + 4 + 16;

/// Who may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guest {
    pub rank: u32,
    pub nonce: [u8; 16],
}

/// The abstract name of the process with this nonce.
pub(crate) fn name(nonce: &[u8; 16]) -> Vec<u8> {
    format!("mica-{}", crate::manager::hex(nonce)).into_bytes()
}

/// Why the processes did not meet.
#[derive(Debug)]
pub(crate) enum Absence {
    /// These ranks did not come before the deadline.
    Missing(Vec<u32>),
    /// The sockets failed.
    Failed(io::Error),
}

/// Gives `descriptor` to every guest; returns when all have it.
pub(crate) fn hand_out(
    listener: &Listener,
    descriptor: BorrowedFd<'_>,
    guests: &[Guest],
    uid: u32,
    deadline: Instant,
) -> Result<(), Absence> {
    let mut expected = guests.to_vec();
    let mut callers: Vec<Connection> = Vec::new();
    while !expected.is_empty() {
        let fds: Vec<_> = std::iter::once(listener.as_fd())
            .chain(callers.iter().map(Connection::as_fd))
            .collect();
        let ready = match wait_readable(&fds, deadline) {
            Ok(ready) => ready,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Absence::Missing(expected.iter().map(|g| g.rank).collect()));
            }
            Err(error) => return Err(Absence::Failed(error)),
        };
        let (at_door, calls) = (ready[0], &ready[1..]);
        let mut spoke = calls.iter();
        callers.retain(|caller| {
            if !spoke.next().is_some_and(|ready| *ready) {
                return true;
            }
            // Whoever spoke is served or turned away; either way it is done with.
            let guest = listen_to(caller);
            let known = guest.and_then(|guest| expected.iter().position(|e| *e == guest));
            if let Some(at) = known
                && caller.send(&WELCOME, Some(descriptor), deadline).is_ok()
            {
                expected.swap_remove(at);
            }
            false
        });
        if at_door {
            while let Some(caller) = listener.try_accept().map_err(Absence::Failed)? {
                if caller.peer().is_ok_and(|peer| peer.uid == uid) {
                    callers.push(caller);
                }
            }
        }
    }
    Ok(())
}

/// Who a caller says it is; `None` for what is no greeting.
fn listen_to(caller: &Connection) -> Option<Guest> {
    let (bytes, descriptor) = caller.try_receive(HELLO).ok()??;
    let (greeting, rest) = bytes.split_first_chunk()?;
    let (rank, nonce) = rest.split_first_chunk()?;
    (*greeting == GREETING && descriptor.is_none()).then_some(())?;
    Some(Guest {
        rank: u32::from_le_bytes(*rank),
        nonce: nonce.try_into().ok()?,
    })
}

/// Gets the descriptor from the leader whose nonce this is.
pub(crate) fn fetch(
    leader: &[u8; 16],
    me: Guest,
    uid: u32,
    deadline: Instant,
) -> io::Result<OwnedFd> {
    let connection = Connection::connect(&name(leader), deadline)?;
    let peer = connection.peer()?;
    if peer.uid != uid {
        let text = format!("its socket belongs to user {}, not {uid}", peer.uid);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let mut hello = Vec::from(GREETING);
    hello.extend(me.rank.to_le_bytes());
    hello.extend(me.nonce);
    connection.send(&hello, None, deadline)?;
    match connection.receive(WELCOME.len(), deadline)? {
        (bytes, Some(descriptor)) if bytes == WELCOME => Ok(descriptor),
        (bytes, _) if bytes.is_empty() => Err(io::Error::new(
            io::ErrorKind::ConnectionReset,
            "it closed the connection",
        )),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it answered something else than Mica does",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::handover::{nonce, own_uid};
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    fn guest(rank: u32) -> Guest {
        let nonce = nonce().expect("random bytes");
        Guest { rank, nonce }
    }

    struct Leader {
        nonce: [u8; 16],
        listener: Listener,
        file: File,
    }

    fn leader() -> Leader {
        let nonce = nonce().expect("random bytes");
        Leader {
            nonce,
            listener: Listener::bind(&name(&nonce)).expect("a fresh name"),
            file: File::open("/proc/self/exe").expect("own program"),
        }
    }

    #[test]
    fn every_guest_gets_the_descriptor_and_nobody_else() {
        let leader = leader();
        let (nonce, uid) = (leader.nonce, own_uid());
        let guests = [guest(1), guest(4)];
        let come = |guest: Guest| thread::spawn(move || fetch(&nonce, guest, uid, soon()));
        // Wrong nonce; wrong rank; one that says something else; one that says nothing and stays.
        let wrong = [
            come(guest(1)),
            come(Guest {
                rank: 2,
                ..guests[0]
            }),
        ];
        let rude = Connection::connect(&name(&nonce), soon()).expect("it listens");
        rude.send(b"GET / HTTP/1.1\r\nHost: nowhere.example\r\n", None, soon())
            .expect("sent");
        let silent = Connection::connect(&name(&nonce), soon()).expect("it listens");
        for stranger in wrong {
            // The leader turns it away while it waits for others: only started once these are known to be refused.
            thread::scope(|scope| {
                let fd = leader.file.as_fd();
                let listener = &leader.listener;
                let brief = Instant::now() + Duration::from_millis(300);
                let out = scope.spawn(move || hand_out(listener, fd, &guests, uid, brief));
                let refused = stranger.join().expect("no panic");
                assert_eq!(
                    refused.expect_err("not expected").kind(),
                    io::ErrorKind::ConnectionReset
                );
                match out.join().expect("no panic") {
                    Err(Absence::Missing(ranks)) => assert_eq!(ranks, [1, 4]),
                    other => panic!("{other:?}"),
                }
            });
        }
        let served = guests.map(come);
        hand_out(&leader.listener, leader.file.as_fd(), &guests, uid, soon()).expect("all came");
        for guest in served {
            let mut file = File::from(guest.join().expect("no panic").expect("served"));
            let mut magic = [0; 4];
            // One open file, one position: that is what the same descriptor means.
            file.rewind().expect("seekable");
            file.read_exact(&mut magic).expect("readable");
            assert_eq!(magic, *b"\x7fELF");
        }
        let (bytes, descriptor) = rude.receive(64, soon()).expect("turned away");
        assert!(bytes.is_empty() && descriptor.is_none());
        drop(silent);
    }

    #[test]
    fn another_user_is_refused_on_both_sides() {
        let leader = leader();
        let me = guest(1);
        let other = own_uid() + 1;
        let error = fetch(&leader.nonce, me, other, soon()).expect_err("another user's socket");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let nonce = leader.nonce;
        let guest = thread::spawn(move || fetch(&nonce, me, own_uid(), soon()));
        let brief = Instant::now() + Duration::from_millis(300);
        let out = hand_out(&leader.listener, leader.file.as_fd(), &[me], other, brief);
        assert!(matches!(out, Err(Absence::Missing(ranks)) if ranks == [1]));
        drop(leader);
        assert!(guest.join().expect("no panic").is_err());
    }

    #[test]
    fn a_leader_that_is_gone_is_no_hang() {
        let nonce = leader().nonce;
        let error = fetch(&nonce, guest(1), own_uid(), soon()).expect_err("nobody");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let leader = leader();
        let nonce = leader.nonce;
        let waits = thread::spawn(move || fetch(&nonce, guest(1), own_uid(), soon()));
        // Queued but not served, it notices the end too.
        drop(leader);
        assert!(waits.join().expect("no panic").is_err());
    }
}
