//! Ranks of a job in one process, each with its own end of the network, over loopback only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mica_channel::net::choice::ProviderRequest;
use mica_channel::net::{JobSecret, Net, NetOptions, ProviderOffers};
use mica_channel::shm::Packet;
use mica_channel::transport::{NetError, Transport};
use mica_channel::{ChannelError, PacketSource, RemoteRegion};
use mica_memory::{Block, Region, Shape, View};

/// The job's secret in these tests.
pub const SECRET: JobSecret = JobSecret::new(*b"secret of a test");

/// What no peer exposes.
pub const NOWHERE: RemoteRegion = RemoteRegion { key: 0, address: 0 };

/// What a watchdog gives a test.
const TEST_LIMIT: Duration = Duration::from_secs(50);

/// Options for loopback with `provider`.
pub fn options(provider: &str) -> NetOptions {
    NetOptions {
        wish: ProviderRequest {
            provider: Some(provider.to_owned()),
            interface: Some("127.0.0.1".to_owned()),
            all_on_one_machine: true,
        },
        library: None,
        payload_max: Some(1 << 16),
    }
}

/// The provider that works on sockets without ofi_rxm: `net` in libfabric 1.16 and 1.17, `tcp`
/// later.
pub fn native() -> &'static str {
    let has_net = |offers: ProviderOffers| offers.offers.iter().any(|(o, _)| o.provider == "net");
    match Net::offers(&options("net")) {
        Ok(offers) if !has_net(offers.clone()) => "tcp",
        _ => "net",
    }
}

/// `None`, with the reason printed, only if libfabric is not installed.
pub fn open(options: &NetOptions) -> Option<Net> {
    match Net::open(options) {
        Ok(net) => Some(net),
        Err(NetError::Library { file, why }) if options.library.is_none() => {
            static REPORTED: AtomicBool = AtomicBool::new(false);
            if !REPORTED.swap(true, Ordering::Relaxed) {
                println!("skipped: {file} cannot be loaded: {why}");
            }
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Connects the ends with each other, as the ranks of a job.
pub fn connect(nets: &mut [Net]) {
    let addresses: Vec<_> = nets.iter().map(|n| Some(n.address().to_vec())).collect();
    for (me, net) in (0..).zip(nets) {
        net.connect(me, SECRET, addresses.to_vec()).expect("addresses");
    }
}

/// The ends of `ranks` ranks, connected.
pub fn job_with(ranks: usize, options: &NetOptions) -> Option<Vec<Net>> {
    let mut nets = Vec::new();
    for _ in 0..ranks {
        nets.push(open(options)?);
    }
    connect(&mut nets);
    Some(nets)
}

pub fn job(ranks: usize) -> Option<Vec<Net>> {
    job_with(ranks, &options("tcp"))
}

/// Panics when a test has not ended in time.
pub struct Watchdog(Instant);

impl Watchdog {
    pub fn new() -> Watchdog {
        Watchdog(Instant::now())
    }

    pub fn check(&self, what: &str) {
        assert!(self.0.elapsed() < TEST_LIMIT, "still waiting after the limit: {what}");
    }
}

/// Calls `step` until it gives something; all ends make progress meanwhile.
pub fn until<T>(nets: &mut [Net], what: &str, mut step: impl FnMut(&mut [Net]) -> Option<T>) -> T {
    let dog = Watchdog::new();
    loop {
        if let Some(found) = step(nets) {
            return found;
        }
        nets.iter_mut().for_each(Net::poll);
        dog.check(what);
    }
}

/// A message of this length in memory of ours, and the region it lies in.
pub fn buffer(bytes: usize) -> (Region, View) {
    let region = Block::allocate(bytes.max(1)).expect("memory");
    let view = region.clone().view(Shape::Contiguous { bytes });
    (region, view)
}

/// A buffer filled by `pattern(seed)`.
pub fn filled(bytes: usize, seed: u64) -> View {
    let (region, view) = buffer(bytes);
    region.write_bytes(&pattern(bytes, seed));
    view
}

pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..bytes).map(|_| byte()).collect()
}

pub fn content(view: &View) -> Vec<u8> {
    let mut bytes = vec![0; view.len()];
    view.pack(0, &mut bytes);
    bytes
}

/// Packet number `number`, with `payload` bytes.
pub fn packet(number: u64, payload: usize) -> Packet {
    let mut packet = Packet {
        context: number,
        tag: number as i32,
        payload: payload as u32,
        aux: number as u16,
        ..Packet::of_kind(number as u8)
    };
    let inline = (number % 41) as usize;
    packet.inline[..inline].copy_from_slice(&pattern(inline, number));
    packet.inline_len = inline as u8;
    packet
}

/// Sends to `peer`, waiting for room.
pub fn send(nets: &mut [Net], from: usize, peer: u32, packet: &Packet, view: Option<&View>) {
    let payload = packet.payload as usize;
    until(nets, "a send", |nets| {
        let has_room = nets[from].has_room(peer, payload);
        (has_room && nets[from].send(peer, packet, view, 0).expect("sent")).then_some(())
    });
}

/// The next packet at `at`, with its payload.
pub fn receive(nets: &mut [Net], at: usize) -> (u32, Packet, Vec<u8>) {
    until(nets, "a receive", |nets| take(&mut nets[at]))
}

/// The packet that is here, with its payload.
pub fn take(net: &mut Net) -> Option<(u32, Packet, Vec<u8>)> {
    let (source, packet) = net.peek()?;
    let (_, view) = buffer(packet.payload as usize);
    assert_eq!(net.read_payload(source, &packet, &view, 0), view.len());
    net.consume(source, &packet);
    Some((source, packet, content(&view)))
}

/// The completion of the operation with `token`, the only one under way.
pub fn end_of(nets: &mut [Net], at: usize, token: u64) -> Result<(), NetError> {
    let end = until(nets, "an operation", |nets| nets[at].next_completion());
    assert_eq!(end.token, token);
    end.result
}

/// The network's error in a channel's.
pub fn net_error<T: std::fmt::Debug>(result: Result<T, ChannelError>) -> NetError {
    match result {
        Err(ChannelError::Net(error)) => error,
        other => panic!("{other:?}"),
    }
}
