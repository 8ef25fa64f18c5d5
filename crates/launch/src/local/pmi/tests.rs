use super::*;
use mica_bootstrap::pmi1::value_table::ValueTable;
use mica_node::sealed_file::SealedFile;

struct PmiRank(UnixStream);

impl PmiRank {
    fn say(&mut self, line: &str) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" {
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }
}

fn ask(server: &mut PmiServer, rank: &mut PmiRank, index: usize, line: &str) -> String {
    rank.say(line);
    server.serve(index);
    rank.receive()
}

#[test]
fn what_ranks_ask() {
    let mut server = PmiServer::new(5, "kvs_1", 1);
    let mut rank = PmiRank(server.add(3).unwrap());
    let mut asked = |line| ask(&mut server, &mut rank, 0, line);
    assert_eq!(
        asked("cmd=init pmi_version=1 pmi_subversion=1"),
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
    );
    assert!(asked("cmd=init pmi_version=2 pmi_subversion=0").ends_with("rc=-1"));
    assert_eq!(
        asked("cmd=get_maxes"),
        "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
    );
    assert_eq!(asked("cmd=get_appnum"), "cmd=appnum rc=0 appnum=3");
    assert_eq!(asked("cmd=get_universe_size"), "cmd=universe_size rc=0 size=5");
    assert_eq!(asked("cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=kvs_1");
    assert!(asked("cmd=get kvsname=k").contains("rc=-1"), "no key");
    assert!(asked("cmd=lookup_name service=x").starts_with("cmd=lookup_name_result rc=-1"));
    assert_eq!(asked("cmd=finalize"), "cmd=finalize_ack rc=0");
}

#[test]
fn a_put_beyond_the_limits_is_refused() {
    let mut server = PmiServer::new(1, "kvs_1", 1);
    let mut rank = PmiRank(server.add(0).unwrap());
    let mut put = |key: usize, value: usize| {
        let (key, value) = ("k".repeat(key), "v".repeat(value));
        let line = format!("cmd=put kvsname=k key={key} value={value}");
        ask(&mut server, &mut rank, 0, &line)
    };
    assert_eq!(put(64, 1024), "cmd=put_result rc=0 msg=success");
    let refused = |reason| format!("cmd=put_result rc=-1 msg={reason}");
    assert_eq!(put(65, 1), refused("key_of_65_bytes_exceeds_64"));
    assert_eq!(put(1, 1025), refused("value_of_1025_bytes_exceeds_1024"));
    rank.say("cmd=barrier_in");
    server.serve(0);
    assert_eq!(server.arrived().unwrap().len(), 1, "the first alone is kept");
}

#[test]
fn the_puts_of_a_rank_are_bounded_in_all() {
    let mut server = PmiServer::new(2, "kvs_1", 2);
    let mut ranks = [0, 0].map(|appnum| PmiRank(server.add(appnum).unwrap()));
    let value = "v".repeat(VALUE_MAX);
    let line = |number: usize| format!("cmd=put kvsname=k key={number} value={value}");
    let put = |server: &mut PmiServer, rank: &mut PmiRank, number| {
        ask(server, rank, 0, &line(number)).contains("rc=0")
    };
    let accepted = (0..PUTS_MAX).take_while(|&n| put(&mut server, &mut ranks[0], n)).count();
    assert!((PUTS_MAX / (VALUE_MAX + 8)..=PUTS_MAX / VALUE_MAX).contains(&accepted));
    let other = ask(&mut server, &mut ranks[1], 1, &line(0));
    assert!(other.contains("rc=0"), "the bound is each rank's own: {other}");
}

#[test]
fn values_are_there_after_the_barrier() {
    let mut server = PmiServer::new(3, "kvs_1", 2);
    let mut ranks = [0, 0].map(|appnum| PmiRank(server.add(appnum).unwrap()));
    let put = ask(&mut server, &mut ranks[0], 0, "cmd=put kvsname=k key=a value=x=y");
    assert_eq!(put, "cmd=put_result rc=0 msg=success");
    let get = "cmd=get kvsname=k key=a";
    assert!(ask(&mut server, &mut ranks[0], 0, get).contains("rc=-1"));
    ranks[0].say("cmd=barrier_in");
    server.serve(0);
    assert_eq!(server.arrived(), None);
    ranks[1].say("cmd=barrier_in");
    server.serve(1);
    let mut puts = server.arrived().unwrap();
    assert_eq!(puts, [("a".to_owned(), "x=y".to_owned())]);
    assert_eq!(server.arrived(), None, "announced once");
    puts.push(("b".into(), "elsewhere".into()));
    server.complete(puts);
    for (index, rank) in ranks.iter_mut().enumerate() {
        assert_eq!(rank.receive(), "cmd=barrier_out rc=0");
        let value = ask(&mut server, rank, index, get);
        assert_eq!(value, "cmd=get_result rc=0 msg=success value=x=y");
        assert!(ask(&mut server, rank, index, "cmd=get key=b").ends_with("value=elsewhere"));
    }
    assert_eq!(server.arrived(), None, "no rank is in the next barrier");
}

#[test]
fn the_table_has_what_all_put_before_the_last_barrier() {
    let mut server = PmiServer::new(2, "kvs_1", 1);
    let _rank = server.add(0).unwrap();
    let table = |server: &mut PmiServer| {
        ValueTable::new(SealedFile::map(server.table().unwrap().as_fd()).expect("sealed"))
    };
    server.complete(vec![
        ("mica-0-k".into(), "1:a/0".into()),
        ("mica-1-k".into(), "1:a/1".into()),
        ("b".into(), "x=y".into()),
    ]);
    for _ in 0..2 {
        let table = table(&mut server);
        assert_eq!(table.get("mica-1-k"), Some("1:a/1"));
        assert_eq!(table.get("b"), Some("x=y"));
        assert_eq!(table.get("mica-all-k"), Some("a"));
    }
    server.complete(vec![("c".into(), "2".into())]);
    let table = table(&mut server);
    assert_eq!((table.get("c"), table.get("b")), (Some("2"), None));
}

#[test]
fn a_barrier_waits_for_ranks_that_are_not_started_yet() {
    let mut server = PmiServer::new(2, "kvs_1", 2);
    let mut first = PmiRank(server.add(0).unwrap());
    assert!(!server.is_waiting(0));
    first.say("cmd=barrier_in");
    server.serve(0);
    assert!(server.is_waiting(0) && !server.is_waiting(1));
    assert_eq!(server.arrived(), None);
    assert!(server.replace(1).unwrap().is_none(), "it has no connection");
    let mut second = PmiRank(server.add(0).unwrap());
    assert_eq!(server.arrived(), None);
    second.say("cmd=barrier_in");
    server.serve(1);
    assert_eq!(server.arrived(), Some(Vec::new()));
}

#[test]
fn aborts_and_nonsense() {
    let mut server = PmiServer::new(2, "kvs_1", 2);
    let mut rank = PmiRank(server.add(0).unwrap());
    rank.say("cmd=abort exitcode=7");
    server.serve(0);
    assert_eq!(server.aborted(0), Some(7));
    let mut other = PmiRank(server.add(0).unwrap());
    other.say("mcmd=spawn");
    server.serve(1);
    assert_eq!(other.0.read(&mut [0; 8]).unwrap(), 0, "closed");
    assert!(server.fd(0).is_some() && server.fd(1).is_none());
}
