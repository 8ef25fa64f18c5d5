//! What goes wrong: peers that die, bytes that are not ours, libraries and providers that are not
//! there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::kit::*;
use mica_channel::RemoteRegion;
use mica_channel::net::{JobSecret, Net};
use mica_channel::transport::{NetError, Transport, WaitMode};
use mica_node::counters::Counter;

/// Set for the child of a test: what it is to do.
const ROLE: &str = "MICA_TEST_NET_ROLE";

/// And by which provider.
const PROVIDER: &str = "MICA_TEST_NET_PROVIDER";

/// Rank 1 of a job of two, in a process of its own.
struct Other {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Other {
    /// Starts it; `net` is rank 0, and connected with it then.
    fn start(net: &mut Net, role: &str) -> Other {
        let exe = std::env::current_exe().expect("this program");
        let mut child = Command::new(exe)
            .args(["--exact", "net::faults::the_other_rank", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .env(PROVIDER, net.offer().provider.split(';').next().expect("a name"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the child");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let theirs = from_hex(&line(&mut out, "address "));
        let ours = net.address().to_vec();
        writeln!(child.stdin.as_mut().expect("piped"), "{}", to_hex(&ours)).expect("written");
        net.connect(0, SECRET, vec![Some(ours), Some(theirs)]).expect("an address");
        Other { child, out }
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited for");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What follows `head` on the line that starts so.
fn line(from: &mut impl BufRead, head: &str) -> String {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(from.read_line(&mut line).expect("read") > 0, "no line {head}");
        if let Some((_, rest)) = line.split_once(head) {
            return rest.trim().to_owned();
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Not a test: rank 1 of those below, which end it.
#[test]
#[ignore = "the child of other tests"]
fn the_other_rank() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    // Whatever becomes of the test, this process goes.
    // SAFETY: no obligations.
    unsafe { libc::alarm(100) };
    let provider = std::env::var(PROVIDER).expect("set by the parent");
    let mut net = open(&options(&provider)).expect("the parent has it too");
    println!("address {}", to_hex(net.address()));
    let mut theirs = String::new();
    std::io::stdin().read_line(&mut theirs).expect("the parent's address");
    let addresses = [Some(from_hex(theirs.trim())), Some(net.address().to_vec())];
    net.connect(1, SECRET, addresses.to_vec()).expect("an address");
    let memory = filled(64 << 20, 1);
    let (address, len) = memory.as_contiguous().expect("in one piece");
    let exposed = net.expose(address, len).expect("exposed");
    println!("exposed {:x} {:x}", exposed.address, exposed.key);
    match role.as_str() {
        // Says something, and answers for as long as it lives.
        "talk" => {
            let mut said = false;
            loop {
                said |= !said && net.send(0, &packet(7, 0), None, 0).expect("sent");
                if let Some((_, found, _)) = take(&mut net) {
                    while !net.send(0, &found, None, 0).expect("sent") {
                        net.poll();
                    }
                }
            }
        }
        // Takes one packet, and does nothing more.
        "stall" => {
            while take(&mut net).is_none() {}
            println!("stalled");
            loop {
                std::thread::park();
            }
        }
        role => panic!("no role {role}"),
    }
}

/// Sends to a lost peer until there is an error.
fn send_until_error(net: &mut Net, payload: usize) -> NetError {
    let view = filled(payload, 1);
    let dog = Watchdog::new();
    for number in 0.. {
        while !net.has_room(1, payload) {
            net.poll();
            dog.check("has_room");
        }
        match net.send(1, &packet(number, payload), Some(&view), 0) {
            Ok(_) => net.poll(),
            error => return net_error(error),
        }
        dog.check("the error");
    }
    unreachable!()
}

fn assert_is_rank_1(error: &NetError) {
    assert!(matches!(error, NetError::Lost(_)), "{error}");
    assert!(error.to_string().starts_with("rank 1 is lost: "), "{error}");
}

fn send_to_the_dead(provider: &str, payload: usize) {
    let Some(mut net) = open(&options(provider)) else {
        return;
    };
    let mut other = Other::start(&mut net, "talk");
    let mut nets = [net];
    assert_eq!(receive(&mut nets, 0).1, packet(7, 0));
    other.kill();
    let error = send_until_error(&mut nets[0], payload);
    println!("{error}");
    assert_is_rank_1(&error);
    let lost = nets[0].take_loss().expect("a lost peer is reported");
    assert_eq!(lost.peer, 1);
    assert_eq!(nets[0].take_loss(), None, "once");
    assert!(nets[0].has_room(1, 0), "so that the error is met");
    assert_is_rank_1(&net_error(nets[0].send(1, &packet(0, 0), None, 0)));
    let (_, view) = buffer(8);
    assert_is_rank_1(&net_error(nets[0].start_read(1, NOWHERE, &view, 8, 0)));
    until(&mut nets, "draining", |nets| nets[0].is_drained().then_some(()));
}

#[test]
fn short_packets_to_a_killed_peer_are_an_error_with_its_rank() {
    send_to_the_dead("tcp", 0);
}

#[test]
fn long_packets_to_a_killed_peer_are_an_error_with_its_rank() {
    send_to_the_dead("tcp", 60_000);
}

#[test]
fn packets_to_a_killed_peer_are_an_error_by_the_native_provider() {
    send_to_the_dead(native(), 0);
    send_to_the_dead(native(), 60_000);
}

#[test]
fn a_peer_that_died_before_the_first_packet_is_an_error_with_its_rank() {
    let Some(mut net) = open(&options("tcp")) else {
        return;
    };
    let mut other = Other::start(&mut net, "talk");
    other.kill();
    let error = send_until_error(&mut net, 0);
    println!("{error}");
    assert_is_rank_1(&error);
}

#[test]
fn waiting_rank_detects_a_lost_peer_by_probing() {
    let Some(mut net) = open(&options("tcp")) else {
        return;
    };
    let mut other = Other::start(&mut net, "talk");
    let mut nets = [net];
    assert_eq!(receive(&mut nets, 0).1, packet(7, 0));
    for _ in 0..10 {
        nets[0].probe(1).expect("it lives");
        nets[0].poll();
    }
    assert_eq!(nets[0].take_loss(), None);
    other.kill();
    let lost = until(&mut nets, "the loss", |nets| {
        let _ = nets[0].probe(1);
        nets[0].poll();
        nets[0].take_loss()
    });
    println!("{lost}");
    assert_eq!(lost.peer, 1);
}

#[test]
fn a_read_of_a_killed_peer_ends_with_its_rank() {
    read_from_the_dead("tcp");
}

#[test]
fn a_read_of_a_killed_peer_ends_by_the_native_provider() {
    read_from_the_dead(native());
}

fn read_from_the_dead(provider: &str) {
    let Some(net) = open(&options(provider)) else {
        return;
    };
    let mut nets = [net];
    let mut other = Other::start(&mut nets[0], "stall");
    let exposed = line(&mut other.out, "exposed ");
    let (address, key) = exposed.split_once(' ').expect("two");
    let number = |text| u64::from_str_radix(text, 16).expect("hex");
    let (address, key) = (number(address), number(key));
    send(&mut nets, 0, 1, &packet(0, 0), None);
    let dog = Watchdog::new();
    until(&mut nets, "draining", |nets| nets[0].is_drained().then_some(()));
    line(&mut other.out, "stalled");
    // It does not poll any more, so these do not end before it does.
    let (_, view) = buffer(64 << 20);
    for token in 0..3 {
        until(&mut nets, "room", |nets| {
            nets[0]
                .start_read(1, RemoteRegion { key, address }, &view, 64 << 20, token)
                .expect("alive")
                .then_some(())
        });
    }
    for _ in 0..1000 {
        nets[0].poll();
    }
    assert_eq!(nets[0].next_completion(), None);
    other.kill();
    let mut ended = [false; 3];
    while ended != [true; 3] {
        nets[0].poll();
        while let Some(end) = nets[0].next_completion() {
            let error = end.result.expect_err("the peer is lost");
            println!("{error}");
            assert_is_rank_1(&error);
            ended[end.token as usize] = true;
        }
        dog.check("the reads");
    }
}

#[test]
fn a_rank_that_sleeps_while_it_sends_is_woken_by_the_death_of_its_peer() {
    let Some(net) = open(&options("tcp")) else {
        return;
    };
    let mut nets = [net];
    let mut other = Other::start(&mut nets[0], "stall");
    send(&mut nets, 0, 1, &packet(0, 0), None);
    line(&mut other.out, "stalled");
    // Send until there is no room.
    let payload = filled(60_000, 1);
    let mut refused = 0;
    while refused < 1000 {
        if !nets[0].has_room(1, 60_000)
            || !nets[0].send(1, &packet(1, 60_000), Some(&payload), 0).unwrap()
        {
            refused += 1;
        }
        nets[0].poll();
    }
    other.kill();
    let dog = Watchdog::new();
    while nets[0].take_loss().is_none() {
        dog.check("the loss");
        if let WaitMode::Descriptor(fd) = nets[0].prepare_to_wait() {
            let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
            let most = nets[0].wait_at_most().expect("something is under way");
            // SAFETY: one entry.
            unsafe { libc::poll(&raw mut poll, 1, most.as_millis() as i32) };
        }
        nets[0].poll();
    }
}

/// The provider keeps the buffers of what it could not send: they are replaced.
#[test]
fn a_lost_peer_takes_no_room_from_the_others() {
    let Some(net) = open(&options("tcp")) else {
        return;
    };
    let mut nets = [net];
    let mut other = Other::start(&mut nets[0], "stall");
    send(&mut nets, 0, 1, &packet(0, 0), None);
    line(&mut other.out, "stalled");
    let payload = filled(60_000, 1);
    let mut taken = 0;
    let mut refused = 0;
    while refused < 1000 {
        let sent = nets[0].has_room(1, 60_000)
            && nets[0].send(1, &packet(1, 60_000), Some(&payload), 0).unwrap();
        if sent {
            taken += 1;
        } else {
            refused += 1;
        }
        nets[0].poll();
    }
    assert!(taken >= 64, "all buffers are under way");
    other.kill();
    until(&mut nets, "the loss", |nets| nets[0].take_loss());
    for number in 0..200 {
        send(&mut nets, 0, 0, &packet(number, 60_000), Some(&payload));
        assert_eq!(receive(&mut nets, 0).1, packet(number, 60_000));
    }
}

/// An end that reaches `net` as rank 1, but says what it likes.
fn stranger(nets: &mut Vec<Net>, secret: JobSecret, me: u32) {
    let mut other = open(&options("tcp")).expect("opened before");
    let addresses = [Some(nets[0].address().to_vec()), Some(other.address().to_vec())];
    other.connect(me, secret, addresses.to_vec()).unwrap();
    nets.push(other);
}

#[test]
fn packets_of_another_job_are_dropped() {
    let Some(mut nets) = job(2) else { return };
    stranger(&mut nets, JobSecret::new([0; 16]), 1);
    let payload = filled(1000, 1);
    for number in 0..100 {
        send(&mut nets, 2, 0, &packet(number, 1000), Some(&payload));
        send(&mut nets, 1, 0, &packet(number, 0), None);
        assert_eq!(receive(&mut nets, 0).1, packet(number, 0));
    }
    until(&mut nets, "the strangers' packets", |nets| {
        assert_eq!(mica_channel::PacketSource::peek(&mut nets[0]), None);
        (nets[0].counters().get(Counter::ForeignArrivals) == 100).then_some(())
    });
}

#[test]
fn packets_of_no_rank_of_the_job_are_dropped() {
    let Some(mut nets) = job(2) else { return };
    stranger(&mut nets, SECRET, 9);
    send(&mut nets, 2, 0, &packet(0, 0), None);
    until(&mut nets, "the stranger's packet", |nets| {
        assert_eq!(mica_channel::PacketSource::peek(&mut nets[0]), None);
        (nets[0].counters().get(Counter::ForeignArrivals) == 1).then_some(())
    });
}

/// The stranger has the token to another rank, as a process does that takes over the port of a rank
/// that has ended.
#[test]
fn a_token_to_one_rank_opens_no_other() {
    let Some(mut nets) = job(2) else { return };
    let mut other = open(&options("tcp")).expect("opened before");
    // Rank 0's port, under the challenge of rank 1.
    let (address, challenge) = (nets[0].address(), nets[1].address());
    let mut forged = address.to_vec();
    // It follows the kind of network.
    let at = nets[0].kind().len();
    forged[at..at + 8].copy_from_slice(&challenge[at..at + 8]);
    assert_ne!(forged, address, "each rank has its own challenge");
    let addresses = [Some(forged), Some(other.address().to_vec())];
    other.connect(1, SECRET, addresses.to_vec()).unwrap();
    nets.push(other);
    send(&mut nets, 2, 0, &packet(0, 0), None);
    until(&mut nets, "the stranger's packet", |nets| {
        assert_eq!(mica_channel::PacketSource::peek(&mut nets[0]), None);
        (nets[0].counters().get(Counter::ForeignArrivals) == 1).then_some(())
    });
}

#[test]
fn packets_that_are_longer_than_any_are_dropped() {
    let short = mica_channel::net::NetOptions { payload_max: Some(1000), ..options("tcp") };
    let Some(net) = open(&short) else { return };
    let mut nets = vec![net];
    let ours = nets[0].address().to_vec();
    nets[0].connect(0, SECRET, vec![Some(ours.clone()), Some(ours.clone())]).unwrap();
    // It believes that rank 0 takes what it takes itself.
    let mut other = open(&options("tcp")).expect("opened before");
    let mut forged = other.address().to_vec();
    let address = ours.len() - 16;
    forged.truncate(forged.len() - 16);
    forged.extend(&ours[address..]);
    let addresses = [Some(forged), Some(other.address().to_vec())];
    other.connect(1, SECRET, addresses.to_vec()).unwrap();
    nets.push(other);
    let payload = filled(60_000, 1);
    for number in 0..100 {
        send(&mut nets, 1, 0, &packet(number, 60_000), Some(&payload));
    }
    until(&mut nets, "the long packets", |nets| {
        assert_eq!(mica_channel::PacketSource::peek(&mut nets[0]), None);
        (nets[0].counters().get(Counter::MalformedArrivals) == 100).then_some(())
    });
}

#[test]
fn the_smallest_payload_among_the_ranks_holds() {
    let small = mica_channel::net::NetOptions { payload_max: Some(1000), ..options("tcp") };
    let (Some(one), Some(two)) = (open(&small), open(&options("tcp"))) else {
        return;
    };
    let mut nets = [one, two];
    connect(&mut nets);
    assert_eq!([nets[0].payload_max(), nets[1].payload_max()], [1000, 1000]);
}

#[test]
fn addresses_of_another_network_are_refused_with_the_rank() {
    let (Some(mut tcp), Some(sockets)) = (open(&options("tcp")), open(&options("sockets"))) else {
        return;
    };
    let own = Some(tcp.address().to_vec());
    let cut = Some(tcp.address()[..tcp.address().len() - 1].to_vec());
    for (address, words) in [
        (Some(sockets.address().to_vec()), "provider sockets"),
        (cut, "15 bytes"),
        (Some(vec![3, 2]), "2 bytes"),
        (Some(vec![9; 30]), "version 9"),
    ] {
        let error = tcp.connect(0, SECRET, vec![own.clone(), None, address]).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("rank 2 cannot be reached: ") && text.contains(words), "{text}");
    }
}

#[test]
fn a_missing_library_is_named() {
    let mut options = options("tcp");
    options.library = Some("/nowhere/libfabric.so.1".to_owned());
    let error = Net::open(&options).unwrap_err();
    assert!(matches!(error, NetError::Library { .. }));
    let text = error.to_string();
    assert!(
        text.contains("/nowhere/libfabric.so.1") && text.contains("MICA_NET_LIBRARY"),
        "{text}"
    );
}

#[test]
fn a_library_that_is_another_is_named() {
    let mut options = options("tcp");
    options.library = Some("libc.so.6".to_owned());
    let text = Net::open(&options).unwrap_err().to_string();
    assert!(text.contains("libc.so.6") && text.contains("fi_version"), "{text}");
}

#[test]
fn an_unknown_provider_is_named_with_what_there_is() {
    if open(&options("tcp")).is_none() {
        return;
    }
    let text = Net::open(&options("warp")).unwrap_err().to_string();
    assert!(text.contains("provider warp (MICA_NET_PROVIDER)"), "{text}");
    let others = "lo (MICA_NET_PROVIDER=warp asks for another)";
    assert!(text.contains("tcp;ofi_rxm on ") && text.contains(others), "{text}");
    let mut options = options("tcp");
    options.wish.interface = Some("ib7".to_owned());
    let text = Net::open(&options).unwrap_err().to_string();
    assert!(text.contains("interface ib7 (MICA_NET_INTERFACE)"), "{text}");
}

/// The addresses at which this process listens, as /proc/self/net/tcp writes them.
fn listening_addresses() -> Vec<String> {
    let own: Vec<String> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|to| {
            to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned)
        })
        .collect();
    let mut found = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        for line in std::fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // State 0A: it listens.
            if fields[3] == "0A" && own.iter().any(|inode| inode == fields[9]) {
                found.push(fields[1].split(':').next().unwrap_or("").to_owned());
            }
        }
    }
    found
}

#[test]
fn a_rank_listens_at_the_chosen_address_only() {
    for provider in ["tcp", "sockets", native()] {
        let Some(_net) = open(&options(provider)) else {
            return;
        };
        let found = listening_addresses();
        // 127.0.0.1, in the byte order of this machine. Other tests of this process listen there.
        let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        assert!(!found.is_empty(), "{provider}");
        assert!(found.iter().all(|address| *address == loopback), "{provider}: {found:?}");
    }
}
