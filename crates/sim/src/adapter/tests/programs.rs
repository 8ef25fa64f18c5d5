//! Policies with the model of a node's memory: programs that use what they receive, and that do
//! not.

use super::*;

/// Bytes of a message: more than `size-dependent` puts into the L2.
const MESSAGE: u64 = 24 << 10;
/// Buffers that the program receives into in turn; more than fit into the L3.
const BUFFER_COUNT: u64 = 7;
const LINE: u64 = 128;
/// The program's own data.
const OWN: u64 = 1 << 40;

/// A Power5 with small caches, so that programs are small.
fn small_machine() -> SimulatedMachine {
    let mut machine = machine();
    machine.caches.l1d.size_kib = 4;
    machine.caches.l2.size_kib = 60;
    machine.caches.l3.as_mut().expect("an L3").size_kib = 288;
    machine.adapter.eager_max = MESSAGE;
    machine.prefetch.streams = 0;
    machine
}

/// What a program does between two messages.
#[derive(Debug, Clone, Copy)]
struct Program {
    /// It reads the message.
    uses_message: bool,
    /// Bytes of its own that it reads.
    own: u64,
}

/// Cycles for which the program stands still, over this number of messages.
fn stalls(program: Program, policy: Policy, messages: u64) -> u64 {
    let machine = small_machine();
    let mut node = Node::on(&machine, 0, 2, policy);
    node.host.model = Some((NodeMemory::new(&machine), machine.adapter.injected));
    let cycle = 1e6 / machine.processor.mhz;
    let (mut cycles, mut stalled) = (0, 0);
    let mut load = |node: &mut Node, address: u64| {
        let (memory, _) = node.host.model.as_mut().expect("a model");
        let stall = memory.load(cycles, address, 8).cycles();
        cycles += stall + 4;
        stalled += stall;
        SimTime((cycles as f64 * cycle) as u64)
    };
    let mut now = SimTime::default();
    for message in 0..messages {
        let buffer = BUFFERS + message % BUFFER_COUNT * MESSAGE;
        node.command(now, &receive(1, 7, (buffer, MESSAGE), 1));
        node.arrive(now, 1, eager(7, &[1; MESSAGE as usize]));
        node.finish();
        node.host.writes.clear();
        now = load(&mut node, DEVICE + EVENTS_OFFSET as u64 + message % EVENTS as u64 * LINE);
        let lines = |bytes: u64| 0..bytes / LINE;
        if program.uses_message {
            for line in lines(MESSAGE) {
                now = load(&mut node, buffer + line * LINE);
            }
        }
        for line in lines(program.own) {
            now = load(&mut node, OWN + line * LINE);
        }
    }
    stalled
}

/// Messages of a run.
const MESSAGES: u64 = 200;

fn stalls_by_name(program: Program, name: &str) -> u64 {
    stalls(program, policy(name), MESSAGES)
}

#[test]
fn payload_helps_a_program_that_uses_its_messages_and_adaptive_finds_out() {
    let program = Program { uses_message: true, own: 16 << 10 };
    let of = |name| stalls_by_name(program, name);
    let (base, header, message) = (of("base"), of("header"), of("message"));
    assert!(header < base && message < base / 2, "{base} {header} {message}");
    let adaptive = of("adaptive");
    assert!(adaptive < message + (base - message) / 5, "{adaptive}");
}

#[test]
fn payload_harms_a_program_that_needs_its_cache_and_adaptive_leaves_it() {
    let program = Program { uses_message: false, own: 280 << 10 };
    let of = |name| stalls_by_name(program, name);
    let (base, header, message) = (of("base"), of("header"), of("message"));
    assert!(header < base, "{base} {header}");
    assert!(message > base + base / 10, "{base} {message}");
    let adaptive = of("adaptive");
    assert!(adaptive < header + (message - header) / 5, "{adaptive}");
}
