//! Ranks as threads, which meet by Unix sockets and by TCP, and what keeps them from that.

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::EnvironmentJob;
use super::settings::tests::settings;
use super::settings::{EnvSettings, RootPlaces};
use crate::tests::{as_ranks, exchanges, join_all};
use crate::{BootstrapError, ProcessManager};

const LONG: Duration = Duration::from_secs(60);

/// The name of a job that no other test has.
fn job() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// How the ranks of a job meet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    Unix,
    Tcp,
}

/// The settings of a rank.
fn rank_of(job: &str, rank: u32, size: u32, network: Network) -> EnvSettings {
    let local = if network == Network::Unix { size.to_string() } else { String::new() };
    let changes = [("TORCHELASTIC_RUN_ID", job), ("LOCAL_WORLD_SIZE", &local)];
    let mut settings = settings(rank, size, &changes).expect("sound");
    if let RootPlaces::Ports { host, .. } = &mut settings.places {
        *host = "127.0.0.1".to_owned();
    }
    settings
}

/// What comes of ranks that meet at the same time.
fn meet(ranks: Vec<EnvSettings>, timeout: Duration) -> Vec<Result<EnvironmentJob, BootstrapError>> {
    let meet =
        |settings: EnvSettings| thread::spawn(move || EnvironmentJob::meet(&settings, timeout));
    let ranks: Vec<_> = ranks.into_iter().map(meet).collect();
    ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
}

/// A job of which all ranks come.
fn started(size: u32, network: Network) -> Vec<Box<dyn ProcessManager>> {
    let job = job();
    let ranks = (0..size).map(|rank| rank_of(&job, rank, size, network)).collect();
    let all = meet(ranks, LONG).into_iter();
    all.map(|rank| Box::new(rank.expect("all come")) as Box<dyn ProcessManager>).collect()
}

/// Ranks that do not get a job fail with the errors expected, which are given in the order of the
/// ranks, with the seconds that they waited. Ranks that a loaded machine does not let run within
/// that time fail for this reason alone: they may have longer.
fn fail_with(ranks: &[EnvSettings], expected: impl Fn(&[String], f64) -> bool) {
    let mut errors = Vec::new();
    for seconds in [0.3, 3.0, 30.0] {
        let results = meet(ranks.to_vec(), Duration::from_secs_f64(seconds)).into_iter();
        let error_of = |met: Result<EnvironmentJob, BootstrapError>| match met {
            Ok(mut job) => job.fence().expect_err("not all are there").to_string(),
            Err(error) => error.to_string(),
        };
        errors = results.map(error_of).collect();
        if expected(&errors, seconds) {
            return;
        }
    }
    panic!("{errors:?}");
}

#[test]
fn ranks_exchange_values_of_any_size() {
    for network in [Network::Unix, Network::Tcp] {
        for size in [2, 3, 8] {
            as_ranks(started(size, network), exchanges);
        }
    }
}

#[test]
fn ranks_of_a_node_share_a_segment() {
    for network in [Network::Unix, Network::Tcp] {
        let all = join_all(started(4, network), 2);
        assert_eq!(all[3].nodes.of, [0, 0, 1, 1]);
        assert_eq!(all[3].segment.members(), [2, 3]);
    }
}

/// A service of another kind has the first port, and one that says nothing the second: rank 0 takes
/// the third, and the other rank finds it there. None of them is sent anything.
#[test]
fn ports_of_other_services_are_passed_over() {
    let job = job();
    let ranks: Vec<EnvSettings> = (0..2).map(|rank| rank_of(&job, rank, 2, Network::Tcp)).collect();
    let RootPlaces::Ports { ports, .. } = ranks[0].places.clone() else {
        panic!("no ports");
    };
    let taken = |port: u16| TcpListener::bind(("127.0.0.1", port)).expect("a free port");
    let (talker, silent) = (taken(ports[0]), taken(ports[1]));
    thread::spawn(move || {
        while let Ok((mut stream, _)) = talker.accept() {
            let _ = stream.write_all(b"220 mail.example ESMTP, and what else there is to say\r\n");
        }
    });
    let all = meet(ranks, LONG);
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    silent.set_nonblocking(true).expect("an option");
    while let Ok((stream, _)) = silent.accept() {
        stream.set_nonblocking(true).expect("an option");
        let said = std::io::Read::read(&mut &stream, &mut [0; 1]);
        assert!(!matches!(said, Ok(1..)), "it was sent something");
    }
}

#[test]
fn names_missing_rank_to_all_that_have_come() {
    for network in [Network::Unix, Network::Tcp] {
        let job = job();
        let some = [0, 1, 3].map(|rank| rank_of(&job, rank, 4, network));
        fail_with(&some, |errors, seconds| {
            let missing = format!("of 4 ranks, 2 did not come within {seconds} s");
            errors.iter().all(|e| e.contains(&missing) && e.contains("MICA_JOIN_TIMEOUT"))
        });
    }
}

#[test]
fn names_missing_root() {
    for network in [Network::Unix, Network::Tcp] {
        let place = if network == Network::Unix { "on this node" } else { "at 127.0.0.1, ports" };
        fail_with(&[rank_of(&job(), 1, 2, network)], |errors, _| {
            errors[0].contains("rank 1 of 2 found no rank 0") && errors[0].contains(place)
        });
    }
}

#[test]
fn another_secret_is_refused_on_both_sides() {
    let job = job();
    let mut ranks = [0, 1].map(|rank| rank_of(&job, rank, 2, Network::Tcp));
    ranks[1].cookie[15] = 1;
    fail_with(&ranks, |errors, _| {
        errors[0].contains("1 did not come")
            && errors.iter().all(|error| error.contains("another MICA_COOKIE"))
    });
}

/// A rank that still looks for rank 0 after that one has given up says what rank 0 told it, and not
/// that nothing listens any longer.
#[test]
fn what_rank_0_told_is_said_after_its_end() {
    let job = job();
    let [root, mut member] = [0, 1].map(|rank| rank_of(&job, rank, 2, Network::Tcp));
    member.cookie[15] = 1;
    let met = [0.3, 3.0, 30.0].into_iter().any(|seconds| {
        let root = root.clone();
        let waits = Duration::from_secs_f64(seconds);
        let root = thread::spawn(move || EnvironmentJob::meet(&root, waits).map(|_| ()));
        let error = EnvironmentJob::meet(&member, 2 * waits).expect_err("no rank 0 of its job");
        root.join().expect("no panic").expect_err("rank 1 does not come");
        error.to_string().contains("another MICA_COOKIE")
    });
    assert!(met);
}

#[test]
fn variables_that_contradict_each_other_are_named() {
    let job = job();
    let ranks =
        [(0, 3), (1, 3), (1, 3)].map(|(rank, size)| rank_of(&job, rank, size, Network::Unix));
    fail_with(&ranks, |errors, _| {
        errors.iter().any(|error| error.contains("two processes have RANK=1"))
    });
    let ranks = [(0, 2), (1, 3)].map(|(rank, size)| rank_of(&job, rank, size, Network::Unix));
    fail_with(&ranks, |errors, _| errors[1].contains("rank 1 has WORLD_SIZE=3, rank 0 has 2"));
}

/// A rank that ends between two fences ends the next for all others.
#[test]
fn names_rank_that_has_ended() {
    let ended = as_ranks(started(3, Network::Tcp), |mut manager| {
        manager.fence().expect("all are there");
        match manager.rank() {
            2 => None,
            _ => manager.fence().err().map(|error| error.to_string()),
        }
    });
    for error in &ended[..2] {
        let error = error.as_ref().expect("rank 2 has ended");
        assert!(error.contains("rank 2 has ended"), "{error}");
    }
}
