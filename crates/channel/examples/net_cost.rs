//! What the net channel costs over loopback, against a socket: `net_cost [PROVIDER]`. Two
//! processes. Rough: for design notes, not for records.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use mica_channel::net::choice::ProviderRequest;
use mica_channel::net::{Net, NetOptions};
use mica_channel::shm::Packet;
use mica_channel::transport::Transport;
use mica_channel::{PacketSource, RemoteRegion};
use mica_memory::{Block, Region, Shape, View};

fn view(bytes: usize) -> View {
    let region: Region = Block::allocate(bytes.max(1)).expect("memory");
    region.view(Shape::Contiguous { bytes })
}

fn send(net: &mut Net, peer: u32, packet: &Packet, view: &View) {
    while !net.send(peer, packet, Some(view), 0).expect("sent") {
        net.poll();
    }
}

fn receive(net: &mut Net, view: &View) {
    loop {
        if let Some((source, packet)) = net.peek() {
            net.read_payload(source, &packet, view, 0);
            return net.consume(source, &packet);
        }
    }
}

fn main() {
    let provider = std::env::args().nth(1).unwrap_or("tcp".to_owned());
    let options = NetOptions {
        wish: ProviderRequest {
            provider: Some(provider),
            interface: Some("127.0.0.1".to_owned()),
            all_on_one_machine: true,
        },
        library: std::env::var("MICA_NET_LIBRARY").ok(),
        payload_max: Some(1 << 20),
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("an address");
    // SAFETY: this process has one thread.
    let me = if unsafe { libc::fork() } == 0 { 1 } else { 0 };
    // SAFETY: no obligations.
    unsafe { libc::alarm(60) };
    let mut socket = match me {
        0 => listener.accept().expect("the other").0,
        _ => TcpStream::connect(at).expect("the other"),
    };
    socket.set_nodelay(true).expect("an option");
    socket_cost(&mut socket, me);
    let start = Instant::now();
    let mut net = match Net::open(&options) {
        Ok(net) => net,
        Err(error) => return println!("{error}"),
    };
    if me == 0 {
        println!("open: {:?}, {:?}", start.elapsed(), net.offer());
    }
    let ours = net.address().to_vec();
    socket.write_all(&[ours.len() as u8]).expect("written");
    socket.write_all(&ours).expect("written");
    let mut len = [0];
    socket.read_exact(&mut len).expect("read");
    let mut theirs = vec![0; usize::from(len[0])];
    socket.read_exact(&mut theirs).expect("read");
    let mut addresses = vec![Some(ours), Some(theirs)];
    if me == 1 {
        addresses.reverse();
    }
    net.connect(me, mica_channel::net::JobSecret::new([1; 16]), addresses).expect("connected");
    messages(&mut net, me);
    reads(&mut net, me);
    empty_looks(&mut net, me);
}

fn socket_cost(socket: &mut TcpStream, me: u32) {
    for bytes in [8, 1 << 20] {
        let rounds = if bytes == 8 { 20_000 } else { 500 };
        let mut buffer = vec![0u8; bytes];
        let start = Instant::now();
        for _ in 0..rounds {
            if me == 0 {
                socket.write_all(&buffer).expect("written");
            }
            socket.read_exact(&mut buffer).expect("read");
            if me == 1 {
                socket.write_all(&buffer).expect("written");
            }
        }
        report("socket, blocking, there and back", bytes, rounds, start, me);
    }
}

fn report(what: &str, bytes: usize, rounds: u32, start: Instant, me: u32) {
    if me == 0 {
        let half = start.elapsed().as_nanos() as f64 / f64::from(rounds) / 2.0;
        println!(
            "{what}: {bytes} B: {:.2} us one way, {:.2} GB/s",
            half / 1000.0,
            bytes as f64 / half
        );
    }
}

fn messages(net: &mut Net, me: u32) {
    for bytes in [0, 8, 256, 4096, 16_000, 32_768, 65_536, 131_072, 262_144, 1 << 20] {
        let view = view(bytes);
        let mut packet = Packet::of_kind(1);
        if bytes <= 8 {
            packet.inline_len = bytes as u8;
        } else {
            packet.payload = bytes as u32;
        }
        let rounds = if bytes <= 4096 { 10_000 } else { 1000 };
        let mut start = Instant::now();
        for round in 0..rounds + 100 {
            if round == 100 {
                start = Instant::now();
            }
            if me == 0 {
                send(net, 1, &packet, &view);
            }
            receive(net, &view);
            if me == 1 {
                send(net, 0, &packet, &view);
            }
        }
        report("packets, there and back", bytes, rounds, start, me);
    }
}

/// Each reads the other's memory in turn, as the receiver of a long message does, and says so.
fn reads(net: &mut Net, me: u32) {
    for bytes in [65_536, 262_144, 1 << 20, 4 << 20] {
        let (source, target) = (view(bytes), view(bytes));
        let (address, _) = source.as_contiguous().expect("in one piece");
        let mut start = Instant::now();
        let rounds = 300;
        for round in 0..rounds + 20 {
            if round == 20 {
                start = Instant::now();
            }
            for sender in [0, 1] {
                if me == sender {
                    let exposed = net.expose(address, bytes).expect("exposed");
                    let mut request = Packet::of_kind(5);
                    request.set_word(0, exposed.address);
                    request.set_word(1, exposed.key);
                    send(net, 1 - me, &request, &source);
                    receive(net, &target);
                    net.conceal(exposed);
                } else {
                    let (_, request) = loop {
                        if let Some(found) = net.peek() {
                            break found;
                        }
                    };
                    net.consume(1 - me, &request);
                    let from = RemoteRegion { key: request.word(1), address: request.word(0) };
                    while !net.start_read(1 - me, from, &target, bytes, 0).expect("started") {
                        net.poll();
                    }
                    while net.next_completion().is_none() {
                        net.poll();
                    }
                    send(net, 1 - me, &Packet::of_kind(7), &source);
                }
            }
        }
        report("request, read, done", bytes, rounds, start, me);
    }
}

fn empty_looks(net: &mut Net, me: u32) {
    if me == 0 {
        let polls = 200_000;
        let start = Instant::now();
        for _ in 0..polls {
            net.poll();
        }
        let ns = start.elapsed().as_nanos() / polls;
        println!("an empty poll: {ns} ns");
        send(net, 1, &Packet::of_kind(1), &view(0));
        while !net.is_drained() {}
    } else {
        receive(net, &view(0));
    }
}
