//! The processes of a node meet: the lowest rank hands the job segment to the others.
//!
//! The leader's socket waits under an abstract name with the nonce of the leader's card before the
//! cards are exchanged, so that it is there when the others know of it: one fence of the launcher
//! is enough. A guest connects, sees that the socket belongs to its own user, and says its rank
//! with its own card's nonce; the leader sees that the guest is of its user too, and one that it
//! expects. Anything else is turned away and does no harm. Both wait until a deadline.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use mica_node::handover::{HandoverConnection, HandoverListener, wait_readable};

const GREETING: [u8; 8] = *b"mica-in\x01";
const WELCOME: [u8; 8] = *b"mica-ok\x01";
/// Greeting, rank, nonce.
const HELLO: usize = 8 + 4 + 16;

/// Who may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JoiningProcess {
    pub rank: u32,
    pub nonce: [u8; 16],
}

/// The abstract name of the process with this nonce.
pub(crate) fn name(nonce: &[u8; 16]) -> Vec<u8> {
    format!("mica-{}", crate::manager::hex(nonce)).into_bytes()
}

/// Why the processes did not meet.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// These ranks did not come before the deadline.
    Missing(Vec<u32>),
    /// The sockets failed.
    Failed(io::Error),
}

/// Gives `descriptor` to every guest; returns when all have it.
pub(crate) fn hand_out(
    listener: &HandoverListener,
    descriptor: BorrowedFd<'_>,
    guests: &[JoiningProcess],
    uid: u32,
    deadline: Instant,
) -> Result<(), ExchangeError> {
    let mut expected = guests.to_vec();
    let mut callers: Vec<HandoverConnection> = Vec::new();
    while !expected.is_empty() {
        let fds: Vec<_> = std::iter::once(listener.as_fd())
            .chain(callers.iter().map(HandoverConnection::as_fd))
            .collect();
        let ready = match wait_readable(&fds, deadline) {
            Ok(ready) => ready,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(ExchangeError::Missing(
                    expected.iter().map(|g| g.rank).collect(),
                ));
            }
            Err(error) => return Err(ExchangeError::Failed(error)),
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
            while let Some(caller) = listener.try_accept().map_err(ExchangeError::Failed)? {
                if caller.peer().is_ok_and(|peer| peer.uid == uid) {
                    callers.push(caller);
                }
            }
        }
    }
    Ok(())
}

/// Who a caller says it is; `None` for what is no greeting.
fn listen_to(caller: &HandoverConnection) -> Option<JoiningProcess> {
    let (bytes, descriptor) = caller.try_receive(HELLO).ok()??;
    let (greeting, rest) = bytes.split_first_chunk()?;
    let (rank, nonce) = rest.split_first_chunk()?;
    (*greeting == GREETING && descriptor.is_none()).then_some(())?;
    Some(JoiningProcess {
        rank: u32::from_le_bytes(*rank),
        nonce: nonce.try_into().ok()?,
    })
}

/// Gets the descriptor from the leader whose nonce this is.
pub(crate) fn fetch(
    leader: &[u8; 16],
    me: JoiningProcess,
    uid: u32,
    deadline: Instant,
) -> io::Result<OwnedFd> {
    let connection = HandoverConnection::connect(&name(leader), deadline)?;
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

    fn joining_process(rank: u32) -> JoiningProcess {
        let nonce = nonce().expect("random bytes");
        JoiningProcess { rank, nonce }
    }

    struct Leader {
        nonce: [u8; 16],
        listener: HandoverListener,
        file: File,
    }

    fn leader() -> Leader {
        let nonce = nonce().expect("random bytes");
        Leader {
            nonce,
            listener: HandoverListener::bind(&name(&nonce)).expect("a fresh name"),
            file: File::open("/proc/self/exe").expect("own program"),
        }
    }

    #[test]
    fn every_guest_gets_the_descriptor_and_nobody_else() {
        let leader = leader();
        let (nonce, uid) = (leader.nonce, own_uid());
        let guests = [joining_process(1), joining_process(4)];
        let come = |guest: JoiningProcess| thread::spawn(move || fetch(&nonce, guest, uid, soon()));
        // Wrong nonce; wrong rank; one that says something else; one that says nothing and stays.
        let wrong = [
            come(joining_process(1)),
            come(JoiningProcess {
                rank: 2,
                ..guests[0]
            }),
        ];
        let rude = HandoverConnection::connect(&name(&nonce), soon()).expect("it listens");
        rude.send(b"GET / HTTP/1.1\r\nHost: nowhere.example\r\n", None, soon())
            .expect("sent");
        let silent = HandoverConnection::connect(&name(&nonce), soon()).expect("it listens");
        for stranger in wrong {
            // The leader turns it away while it waits for others: only started once these are known
            // to be refused.
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
                    Err(ExchangeError::Missing(ranks)) => assert_eq!(ranks, [1, 4]),
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
        let me = joining_process(1);
        let other = own_uid() + 1;
        let error = fetch(&leader.nonce, me, other, soon()).expect_err("another user's socket");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let nonce = leader.nonce;
        let guest = thread::spawn(move || fetch(&nonce, me, own_uid(), soon()));
        let brief = Instant::now() + Duration::from_millis(300);
        let out = hand_out(&leader.listener, leader.file.as_fd(), &[me], other, brief);
        assert!(matches!(out, Err(ExchangeError::Missing(ranks)) if ranks == [1]));
        drop(leader);
        assert!(guest.join().expect("no panic").is_err());
    }

    /// Between processes: the test runs itself again as the guest, which the variable tells.
    #[test]
    fn a_process_is_served_and_one_of_another_user_is_not() {
        const ROLE: &str = "MICA_TEST_GUEST";
        const SERVED: i32 = 42;
        const REFUSED: i32 = 43;
        if let Ok(role) = std::env::var(ROLE) {
            let words: Vec<&str> = role.split(' ').collect();
            let bytes = |hex: &str| -> [u8; 16] {
                let bytes = crate::manager::unhex(hex).expect("a nonce");
                bytes.try_into().expect("16 bytes")
            };
            let me = JoiningProcess {
                rank: 1,
                nonce: bytes(words[1]),
            };
            // Whoever it is, it takes the leader's user for its own: only the leader can turn it
            // away.
            let uid = words[2].parse().expect("a user");
            let fetched = fetch(&bytes(words[0]), me, uid, soon());
            std::process::exit(if fetched.is_ok() { SERVED } else { REFUSED });
        }
        let leader = leader();
        let me = joining_process(1);
        let come = |uid: u32| {
            let nonces = [&leader.nonce, &me.nonce].map(|n| crate::manager::hex(n));
            let role = format!("{} {} {}", nonces[0], nonces[1], own_uid());
            let mut command = std::process::Command::new("/proc/self/exe");
            command
                .args(["a_process_is_served", "--test-threads=1"])
                .env(ROLE, role)
                .stdout(std::process::Stdio::null());
            // Setting even the own user takes a right that only root has.
            if uid != own_uid() {
                std::os::unix::process::CommandExt::uid(&mut command, uid);
            }
            let mut child = command.spawn().expect("a second process");
            let patience = Duration::from_secs(if uid == own_uid() { 30 } else { 1 });
            let deadline = Instant::now() + patience;
            let fd = leader.file.as_fd();
            let out = hand_out(&leader.listener, fd, &[me], own_uid(), deadline);
            let status = child.wait().expect("a child");
            (out.is_ok(), status.code())
        };
        if own_uid() == 0 {
            let (all_came, code) = come(65534);
            assert!(!all_came && code == Some(REFUSED), "{code:?}");
        } else {
            println!("not root: that another user's process is refused was not tried");
        }
        assert_eq!(come(own_uid()), (true, Some(SERVED)));
    }

    #[test]
    fn a_leader_that_is_gone_is_no_hang() {
        let nonce = leader().nonce;
        let error = fetch(&nonce, joining_process(1), own_uid(), soon()).expect_err("nobody");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let leader = leader();
        let nonce = leader.nonce;
        let waits = thread::spawn(move || fetch(&nonce, joining_process(1), own_uid(), soon()));
        // Queued but not served, it notices the end too.
        drop(leader);
        assert!(waits.join().expect("no panic").is_err());
    }
}
