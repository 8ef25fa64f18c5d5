use super::*;
use crate::link::auth::{AgentSide, Keys, Secret};
use mica_node::process::wait_readable;

fn open() -> (AgentListener, SocketAddr, Secret) {
    let key = JobKey::new().unwrap();
    let secret = key.secret(Some(3));
    let listener = AgentListener::open(&[[127, 0, 0, 1].into()], None, key, 1).unwrap();
    let address = listener.addresses().unwrap()[0];
    (listener, address, secret)
}

/// Accepts until an agent enters, or nothing happens for this time.
fn accept_for(
    listener: &mut AgentListener,
    time: Option<Duration>,
) -> Vec<(Box<Connection>, Vec<AgentMessage>)> {
    loop {
        let fds: Vec<_> = listener.fds().collect();
        let ready = wait_readable(&fds, time).unwrap();
        let entered = listener.accept();
        if !entered.is_empty() || !ready.contains(&true) {
            return entered;
        }
    }
}

/// Accepts until an agent enters.
fn enter(listener: &mut AgentListener) -> Vec<(Box<Connection>, Vec<AgentMessage>)> {
    accept_for(listener, None)
}

fn accept_or_nothing(listener: &mut AgentListener) -> Vec<(Box<Connection>, Vec<AgentMessage>)> {
    accept_for(listener, Some(Duration::from_millis(300)))
}

fn hello(node: u32) -> AgentMessage {
    AgentMessage::Hello {
        node: Some(node),
        slurm: None,
        machine: String::new(),
        surroundings: Default::default(),
    }
}

/// An agent in a thread, which returns whether it was let in.
fn agent(address: SocketAddr, secret: Secret) -> std::thread::JoinHandle<bool> {
    std::thread::spawn(move || {
        let stream = TcpStream::connect(address).unwrap();
        let Ok(mut link) = Connection::authenticate(stream, &secret) else { return false };
        link.send(&hello(3));
        wait_readable(&[link.as_fd()], None).unwrap();
        true
    })
}

#[test]
fn an_agent_enters() {
    let (mut listener, address, secret) = open();
    let agent = agent(address, secret);
    let entered = enter(&mut listener);
    assert!(matches!(entered[0].1[..], [AgentMessage::Hello { node: Some(3), .. }]));
    drop(entered);
    assert!(agent.join().unwrap());
}

#[test]
fn who_does_not_know_the_secret_stays_out() {
    let (mut listener, address, _) = open();
    let agent = agent(address, JobKey::new().unwrap().secret(Some(3)));
    assert!(accept_or_nothing(&mut listener).is_empty());
    assert!(!agent.join().unwrap());
    assert!(listener.callers.is_empty());
}

#[test]
fn garbage_is_dropped_without_an_answer() {
    let (mut listener, address, _) = open();
    for bytes in [&b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"[..], &[0xff; 5000]] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(bytes).unwrap();
        assert!(accept_or_nothing(&mut listener).is_empty());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty(), "{answer:?}");
    }
}

/// Sends again the bytes of one agent's handshake.
#[test]
fn a_recorded_handshake_does_not_open() {
    let (mut listener, address, secret) = open();
    let agent = begun(&mut listener, &secret);
    let (hello, proof) = (agent.hello, agent.proof);
    let _link = finish(agent, 3);
    assert_eq!(enter(&mut listener).len(), 1, "the agent itself");

    let mut replayed = TcpStream::connect(address).unwrap();
    replayed.write_all(&hello).unwrap();
    replayed.write_all(&proof).unwrap();
    assert!(accept_or_nothing(&mut listener).is_empty());
    assert!(listener.callers.is_empty());
}

/// An agent whose first message has been answered.
struct BegunAgent {
    stream: TcpStream,
    hello: [u8; HELLO],
    proof: [u8; LENGTH],
    keys: Keys,
}

fn begun(listener: &mut AgentListener, secret: &Secret) -> BegunAgent {
    let mut stream = TcpStream::connect(listener.addresses().unwrap()[0]).unwrap();
    let (side, hello) = AgentSide::new(secret).unwrap();
    stream.write_all(&hello).unwrap();
    let mut challenge = [0; crate::link::auth::CHALLENGE];
    let brief = Some(Duration::from_millis(1));
    while !wait_readable(&[stream.as_fd()], brief).unwrap()[0] {
        assert!(listener.accept().is_empty());
    }
    stream.read_exact(&mut challenge).unwrap();
    let (proof, keys) = side.prove(secret, &challenge).unwrap();
    BegunAgent { stream, hello, proof, keys }
}

/// Sends the agent's proof and its first message, which names this node.
fn finish(mut agent: BegunAgent, node: u32) -> Connection {
    agent.stream.write_all(&agent.proof).unwrap();
    let mut link = Connection::of_agent(agent.stream, agent.keys).unwrap();
    link.send(&hello(node));
    link
}

#[test]
fn a_flood_does_not_evict_an_agent_that_has_begun() {
    let (mut listener, address, secret) = open();
    let agent = begun(&mut listener, &secret);
    let flood: Vec<TcpStream> = (0..CALLERS_MAX * 3)
        .map(|_| {
            let caller = TcpStream::connect(address).unwrap();
            listener.accept();
            caller
        })
        .collect();
    assert!(listener.callers.len() <= CALLERS_MAX + 1);
    let _link = finish(agent, 3);
    assert_eq!(enter(&mut listener).len(), 1);
    drop(flood);
}

#[test]
fn an_agent_cannot_speak_for_another_node() {
    let (mut listener, _, secret) = open();
    let _link = finish(begun(&mut listener, &secret), 4);
    while !listener.callers.is_empty() {
        assert!(listener.accept().is_empty(), "it spoke for node 4");
    }
}

#[test]
fn callers_are_counted_by_their_networks() {
    let of = |address: &str| network(address.parse().unwrap());
    assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"));
    assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:1"));
    assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
}

#[test]
fn slow_callers_do_not_keep_agents_out() {
    let (mut listener, address, secret) = open();
    let connect = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"MICA").unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..CALLERS_MAX * 2).map(connect).collect();
    while listener.callers.len() < CALLERS_MAX {
        listener.accept();
    }
    let agent = agent(address, secret);
    // The slow callers are no longer readable once their four bytes are read.
    let entered = loop {
        let entered = listener.accept();
        assert!(listener.callers.len() <= CALLERS_MAX + 1);
        if !entered.is_empty() {
            break entered;
        }
    };
    drop(entered);
    assert!(agent.join().unwrap());
    for caller in &mut listener.callers {
        caller.since = Instant::now().checked_sub(HANDSHAKE_TIMEOUT * 2).unwrap();
    }
    listener.accept();
    assert!(listener.callers.is_empty(), "their time is over");
    drop(slow);
}
