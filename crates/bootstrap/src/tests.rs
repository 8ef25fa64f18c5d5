//! The clients of PMI-1 and PMI-2 against made-up launchers, and the whole way into a job through
//! them.

use std::thread;
use std::time::Duration;

use crate::join::{LauncherSettings, launched};
use crate::pmi1::Pmi1;
use crate::pmi2::Pmi2;
use crate::{BootstrapError, Joined, ProcessManager, exchange, fake};

/// Runs `body` as every rank of a job at once.
pub(crate) fn as_ranks<T: Send + 'static>(
    managers: Vec<Box<dyn ProcessManager>>,
    body: impl Fn(Box<dyn ProcessManager>) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let ranks: Vec<_> = managers
        .into_iter()
        .map(|manager| {
            let body = body.clone();
            thread::spawn(move || body(manager))
        })
        .collect();
    let results = ranks.into_iter().map(|rank| rank.join());
    results.map(|result| result.expect("no panic")).collect()
}

pub(crate) fn exchanges(mut manager: Box<dyn ProcessManager>) {
    let (rank, size) = (manager.rank(), manager.size());
    for (key, length) in [("none", 0), ("few", 10), ("many", 100_000)] {
        let of = |rank: u32| vec![rank as u8 + 1; length * (rank as usize + 1) / 2];
        let all = exchange(manager.as_mut(), key, &of(rank)).expect("an exchange");
        assert!(all.into_iter().eq((0..size).map(of)), "{key}");
    }
    let error = manager.get(0, "never-put").expect_err("no such value");
    assert!(matches!(error, BootstrapError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("never-put"), "{error}");
    manager.finalize().expect("a farewell");
}

#[test]
fn ranks_exchange_values_of_any_size() {
    as_ranks(fake::pmi1(3, 1024), exchanges);
    // The shortest that makes sense: every value in many parts.
    as_ranks(fake::pmi1(2, 20), |mut manager| {
        let mine = [manager.rank() as u8; 100];
        let all = exchange(manager.as_mut(), "k", &mine);
        assert_eq!(all.expect("an exchange"), [[0; 100], [1; 100]]);
    });
    as_ranks(fake::pmi2(3), exchanges);
}

#[test]
fn launchers_report_rank_and_size() {
    let pmi1 = &fake::pmi1(2, 1024)[1];
    assert_eq!((pmi1.rank(), pmi1.size(), pmi1.identity().job_id.as_str()), (1, 2, "kvs_0"));
    assert_eq!((pmi1.identity().appnum, pmi1.identity().universe_size), (Some(3), None));
    let pmi2 = &fake::pmi2(2)[1];
    assert_eq!((pmi2.rank(), pmi2.size(), pmi2.identity().job_id.as_str()), (1, 2, "job;1"));
    // An application number of -1 is none.
    assert_eq!((pmi2.identity().appnum, pmi2.identity().universe_size), (None, Some(8)));
}

#[test]
fn rejects_unstorable_values_before_sending() {
    let mut managers = fake::pmi1(1, 1024);
    managers.extend(fake::pmi2(1));
    for manager in &mut managers {
        let error = manager.put("a key", "x").expect_err("white space");
        assert!(matches!(error, BootstrapError::NotStorable { .. }), "{error}");
        manager.put("key", "x").expect("still well");
    }
}

#[test]
fn lost_launcher_is_an_error() {
    let mut managers = fake::pmi1(1, 1024);
    managers.extend(fake::pmi2(1));
    for manager in &mut managers {
        // The fakes leave when the end is announced.
        manager.abort(3, "tests; end so").expect("announced");
        let error = manager.fence().expect_err("gone");
        assert!(matches!(error, BootstrapError::Lost { .. }), "{error}");
        let word = if manager.name() == "PMI-1" { "barrier_in" } else { "kvs-fence" };
        assert!(error.to_string().contains(word), "{error}");
    }
}

type Answers = &'static [&'static [u8]];

const GREETING: &[u8] = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";

#[test]
fn bad_answers_of_pmi1_are_errors() {
    let error =
        |answers: Answers| Pmi1::connect(fake::saying(answers), 0, 2).expect_err("a bad answer");
    let refused = |answers: Answers, word: &str| {
        let error = error(answers);
        let is = matches!(error, BootstrapError::Refused { .. });
        assert!(is && error.to_string().contains(word), "{error}");
    };
    refused(&[b"hello\n"], "hello");
    refused(&[b"\xff\xfe\n"], "not text");
    refused(&[b"cmd=response_to_init rc=-1 msg=no\n"], "rc=-1");
    refused(&[b"cmd=finalize_ack\n"], "finalize_ack");
    refused(&[b"cmd=response_to_init rc=0\n", b"cmd=maxes kvsname_max=2\n"], "vallen_max");
    refused(&[b"cmd=response_to_init rc=0\n", b"cmd=maxes vallen_max=x\n"], "vallen_max=x");
    refused(&[b"cmd=response_to_init rc=0\n", b"cmd=maxes vallen_max=4\n"], "too short");
    refused(&[&[b'x'; 70_000]], "more than");
    let cuts: [Answers; 2] = [&[], &[b"cmd=response_to_in"]];
    for cut in cuts {
        let error = error(cut);
        assert!(matches!(error, BootstrapError::Lost { .. }), "{error}");
    }
    assert!(error(&[b"cmd=resp"]).to_string().contains("after 8 bytes"));
}

#[test]
fn bad_answers_of_pmi2_are_errors() {
    let error =
        |answers: Answers| Pmi2::connect(fake::saying(answers), 1, None).expect_err("a bad answer");
    let refused = |answers: Answers, word: &str| {
        let error = error(answers);
        let is = matches!(error, BootstrapError::Refused { .. });
        assert!(is && error.to_string().contains(word), "{error}");
    };
    refused(&[b"cmd=response_to_init rc=1\n"], "rc=1");
    refused(&[GREETING, b"cmd=fullinit-response;rc=0;"], "cmd=fu");
    refused(&[GREETING, b"     5hello"], "hello");
    refused(&[GREETING, b"    27cmd=fullinit-response;rc=0;"], "without rank");
    refused(&[GREETING, b"    41cmd=fullinit-response;rank=0;size=2;rc=0;;"], "PMI_RANK=1");
    refused(&[GREETING, b"    27cmd=fullinit-response;rc=9;"], "rc=9");
    let cuts: [Answers; 2] = [&[GREETING], &[GREETING, b"    99cmd=fullinit-response;"]];
    for cut in cuts {
        let error = error(cut);
        assert!(matches!(error, BootstrapError::Lost { .. }), "{error}");
    }
}

/// Every rank writes a word of the segment of its own and reads those of the others, as processes
/// would.
fn share(joined: &Joined, barrier: &std::sync::Barrier) {
    use std::sync::atomic::Ordering;
    let word = |rank: u32| &joined.segment.marks(rank)[0];
    joined.segment.claim(joined.rank).expect("free");
    word(joined.rank).store(joined.rank + 10, Ordering::Relaxed);
    barrier.wait();
    for &rank in joined.segment.members() {
        assert_eq!(word(rank).load(Ordering::Relaxed), rank + 10);
    }
}

pub(crate) fn join_all(managers: Vec<Box<dyn ProcessManager>>, virtual_nodes: u64) -> Vec<Joined> {
    let settings = LauncherSettings { virtual_nodes, timeout: Duration::from_secs(60) };
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(managers.len()));
    as_ranks(managers, move |manager| {
        let joined = launched(manager, &settings).expect("all are there");
        share(&joined, &barrier);
        joined
    })
}

#[test]
fn ranks_of_a_node_share_a_segment() {
    for managers in [fake::pmi1(1, 1024), fake::pmi1(4, 64), fake::pmi2(3)] {
        let size = managers.len() as u32;
        for (rank, joined) in (0..).zip(join_all(managers, 0)) {
            assert_eq!((joined.rank, joined.size, joined.launched), (rank, size, true));
            assert!(joined.segment.members().iter().copied().eq(0..size));
            assert_eq!(joined.segment.job_size(), size);
            assert!(joined.nodes.of.iter().all(|&node| node == 0));
            assert!(joined.manager.is_some());
            let parent = std::os::unix::process::parent_id();
            assert_eq!(joined.segment.launcher_pid(), parent);
        }
    }
}

#[test]
fn virtual_nodes_have_segments_of_their_own() {
    let all = join_all(fake::pmi1(5, 1024), 2);
    for joined in &all {
        assert_eq!(joined.nodes.of, [0, 0, 0, 1, 1]);
        assert_eq!(joined.nodes.names.len(), 2);
        assert_eq!(joined.nodes.names[1], format!("{}#1", joined.nodes.names[0]));
        assert!(joined.nodes.all_on_one_machine);
        assert_eq!(joined.segment.job_size(), 5);
        assert_eq!(joined.segment.appnum(joined.rank), 3);
    }
    assert_eq!(all[2].segment.members(), [0, 1, 2]);
    assert_eq!(all[3].segment.members(), [3, 4]);
}

#[test]
fn names_missing_rank() {
    let settings = LauncherSettings { virtual_nodes: 0, timeout: Duration::from_millis(300) };
    let errors = as_ranks(fake::pmi1(3, 1024), move |mut manager| {
        if manager.rank() != 1 {
            return launched(manager, &settings).map(drop).err();
        }
        // Takes part in the exchange and is never seen again.
        let record = crate::endpoint_record::EndpointRecord::own("", None, 0).expect("a record");
        let node = settings.part(1, 3);
        assert!(node.is_empty());
        exchange(manager.as_mut(), "card", &record.encode()).expect("an exchange");
        None
    });
    let error = errors[0].as_ref().expect("rank 0 misses rank 1").to_string();
    assert!(error.contains("[1]") && error.contains("did not come"), "{error}");
    assert!(errors[2].is_none(), "rank 2 was served: {:?}", errors[2]);
}

#[test]
fn names_missing_leader() {
    let settings = LauncherSettings { virtual_nodes: 0, timeout: Duration::from_secs(60) };
    let errors = as_ranks(fake::pmi1(2, 1024), move |mut manager| {
        if manager.rank() == 1 {
            return launched(manager, &settings).map(drop).err();
        }
        let record = crate::endpoint_record::EndpointRecord::own("", None, 0).expect("a record");
        exchange(manager.as_mut(), "card", &record.encode()).expect("an exchange");
        None
    });
    let error = errors[1].as_ref().expect("rank 1 misses rank 0").to_string();
    assert!(error.contains("from rank 0"), "{error}");
}
