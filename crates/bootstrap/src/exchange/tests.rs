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
fn hands_descriptor_to_expected_processes_only() {
    let leader = leader();
    let (nonce, uid) = (leader.nonce, own_uid());
    let joining = [joining_process(1), joining_process(4)];
    let come = |process: JoiningProcess| thread::spawn(move || fetch(&nonce, process, uid, soon()));
    // Wrong nonce; wrong rank; one that says something else; one that says nothing and stays.
    let wrong = [come(joining_process(1)), come(JoiningProcess { rank: 2, ..joining[0] })];
    let invalid = HandoverConnection::connect(&name(&nonce), soon()).expect("it listens");
    invalid.send(b"GET / HTTP/1.1\r\nHost: nowhere.example\r\n", None, soon()).expect("sent");
    let silent = HandoverConnection::connect(&name(&nonce), soon()).expect("it listens");
    for refused_process in wrong {
        // The leader turns it away while it waits for others: only started once these are known
        // to be refused.
        thread::scope(|scope| {
            let fd = leader.file.as_fd();
            let listener = &leader.listener;
            let brief = Instant::now() + Duration::from_millis(300);
            let out = scope.spawn(move || hand_out(listener, fd, &joining, uid, brief));
            let refused = refused_process.join().expect("no panic");
            assert_eq!(refused.expect_err("not expected").kind(), io::ErrorKind::ConnectionReset);
            match out.join().expect("no panic") {
                Err(ExchangeError::Missing(ranks)) => assert_eq!(ranks, [1, 4]),
                other => panic!("{other:?}"),
            }
        });
    }
    let served = joining.map(come);
    hand_out(&leader.listener, leader.file.as_fd(), &joining, uid, soon()).expect("all came");
    for process in served {
        let mut file = File::from(process.join().expect("no panic").expect("served"));
        let mut magic = [0; 4];
        // One open file, one position: that is what the same descriptor means.
        file.rewind().expect("seekable");
        file.read_exact(&mut magic).expect("readable");
        assert_eq!(magic, *b"\x7fELF");
    }
    let (bytes, descriptor) = invalid.receive(64, soon()).expect("turned away");
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
    let process = thread::spawn(move || fetch(&nonce, me, own_uid(), soon()));
    let brief = Instant::now() + Duration::from_millis(300);
    let out = hand_out(&leader.listener, leader.file.as_fd(), &[me], other, brief);
    assert!(matches!(out, Err(ExchangeError::Missing(ranks)) if ranks == [1]));
    drop(leader);
    assert!(process.join().expect("no panic").is_err());
}

#[test]
fn a_flood_of_other_users_ends_at_the_deadline() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let leader = leader();
    let nonce = leader.nonce;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let soon = Instant::now() + Duration::from_millis(50);
                    drop(HandoverConnection::connect(&name(&nonce), soon));
                }
            });
        }
        let brief = Instant::now() + Duration::from_millis(100);
        let fd = leader.file.as_fd();
        // To the leader, this test's user is another one.
        let expected = [joining_process(1)];
        let out = hand_out(&leader.listener, fd, &expected, own_uid() + 1, brief);
        is_over.store(true, Ordering::Relaxed);
        assert!(matches!(out, Err(ExchangeError::Missing(ranks)) if ranks == [1]));
    });
}

/// A caller beyond the bound takes the place of the oldest, while the leader still waits.
#[test]
fn of_too_many_silent_callers_the_oldest_is_dropped() {
    let leader = leader();
    let (nonce, uid) = (leader.nonce, own_uid());
    let me = joining_process(1);
    let connect = || HandoverConnection::connect(&name(&nonce), soon()).expect("it listens");
    let oldest = connect();
    let others: Vec<HandoverConnection> = (0..SILENT_MAX + 1).map(|_| connect()).collect();
    thread::scope(|scope| {
        let (listener, fd) = (&leader.listener, leader.file.as_fd());
        let out = scope.spawn(move || hand_out(listener, fd, &[me], uid, soon()));
        // Ends while the leader waits: the process comes only afterwards.
        let dropped = oldest.receive(16, soon());
        fetch(&nonce, me, uid, soon()).expect("a descriptor");
        out.join().expect("no panic").expect("it came");
        assert!(dropped.expect("the end").0.is_empty());
    });
    drop(others);
}

/// Between processes: the test runs itself again as a joining process, as the variable says.
#[test]
fn serves_own_user_only() {
    const ROLE: &str = "MICA_TEST_ROLE";
    const SERVED: i32 = 42;
    const REFUSED: i32 = 43;
    if let Ok(role) = std::env::var(ROLE) {
        let words: Vec<&str> = role.split(' ').collect();
        let bytes = |hex: &str| -> [u8; 16] {
            let bytes = crate::manager::unhex(hex).expect("a nonce");
            bytes.try_into().expect("16 bytes")
        };
        let me = JoiningProcess { rank: 1, nonce: bytes(words[1]) };
        // The process takes the leader's user for its own: only the leader can turn it
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
            .args(["serves_own_user_only", "--test-threads=1"])
            .env(ROLE, role)
            .stdout(std::process::Stdio::null());
        // Setting even the own user takes a right that only root has.
        if uid != own_uid() {
            std::os::unix::process::CommandExt::uid(&mut command, uid);
        }
        let mut child = command.spawn().expect("a second process");
        let timeout = Duration::from_secs(if uid == own_uid() { 30 } else { 1 });
        let deadline = Instant::now() + timeout;
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
fn missing_leader_is_an_error() {
    let nonce = leader().nonce;
    let error = fetch(&nonce, joining_process(1), own_uid(), soon()).expect_err("no leader");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    let leader = leader();
    let nonce = leader.nonce;
    let waits = thread::spawn(move || fetch(&nonce, joining_process(1), own_uid(), soon()));
    // Queued but not served, it notices the end too.
    drop(leader);
    assert!(waits.join().expect("no panic").is_err());
}
