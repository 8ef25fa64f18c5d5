//! A simulated node: its clock, and what makes it go on.
//!
//! The clock counts the processor's cycles in units of 1/1024. A block of instructions adds its
//! cycles, an access what `NodeMemory` says that the processor stalls for. When the clock reaches
//! `stop`, the next moment at which something else is due (a packet arrives, the adapter has
//! something to do, the quantum ends), the node takes its slow path, `Node::go_on`.
//!
//! In the region of interest all accesses are simulated; outside of it time goes on by instructions
//! alone, and the adapter's writes invalidate what the caches still hold.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::Relaxed;

use mica_node::adapter::{AdapterMemory, MAGIC, Registers};
use mica_sim::adapter::policy::Policy;
use mica_sim::adapter::{Adapter, AdapterSetup};
use mica_sim::machine::{SimulatedMachine, WriteMode};
use mica_sim::memory::{DataAccess, FetchLine, MemoryMode, NodeMemory};
use mica_sim::port::{
    ClockReport, Departure, NodePort, NodeSetup, NodeState, NodeSummary, PacketArrival, TimeGrant,
};
use mica_sim::time::SimTime;

use crate::host::NodeHost;
use crate::memory_file::GuestMemory;
use crate::quit::{fail, quit};
use crate::region::RegionState;
use crate::summary;
use crate::system_calls::{Effect, SystemCall};

/// Parts of a cycle that the clock counts.
const PARTS: u64 = 1024;

/// What is simulated of an access at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Each access, in loose mode at a fixed cost.
    Accesses,
    /// Instructions alone: outside the region of interest.
    Instructions,
    /// Nothing: this process is a child after `fork`.
    Nothing,
}

/// A block of instructions, made at its translation.
#[derive(Debug)]
pub struct BlockFacts {
    instructions: u64,
    /// What they add to the clock.
    parts: u64,
    /// The lines that it touches, in order.
    lines: Box<[FetchLine]>,
}

/// The node of this process. The module documentation says how it goes on.
#[derive(Debug)]
pub struct SimulatedNode {
    /// Now, in parts of a cycle.
    clock: u64,
    /// The next moment at which something else is due, in parts of a cycle.
    stop: u64,
    detail: Detail,
    /// Parts of a cycle that an instruction takes.
    instruction_parts: u64,
    /// Parts of a cycle that a hit of the L1 of data takes, and of that of instructions.
    hit_parts: u64,
    fetch_parts: u64,
    instructions: u64,
    memory: NodeMemory,
    /// Addresses of the adapter's registers, once the program has mapped them.
    registers: Range<u64>,
    rest: Box<Rest>,
}

/// What the fast path does not use.
#[derive(Debug)]
struct Rest {
    port: NodePort<UnixStream>,
    device: AdapterMemory,
    adapter_fd: RawFd,
    guest: GuestMemory,
    adapter: Adapter,
    arrivals: VecDeque<PacketArrival>,
    departures: Vec<Departure>,
    /// The end of the quantum.
    until: SimTime,
    region: RegionState,
    is_loose: bool,
    /// First addresses seen of the region's functions.
    entries: Vec<Option<u64>>,
    /// Time spent in the region, and when the present stay began; NEVER outside.
    region_time: SimTime,
    region_since: SimTime,
    /// Time in the region in which the program waited for the adapter.
    waited: SimTime,
    picoseconds_per_cycle: f64,
    call: SystemCall,
    random: fastrand::Rng,
    instruction_line: u64,
    /// State of injected lines.
    write_mode: WriteMode,
}

impl SimulatedNode {
    /// Takes what to simulate from the simulator. Blocks.
    pub fn start(
        port: RawFd,
        adapter_fd: RawFd,
    ) -> Result<SimulatedNode, Box<dyn std::error::Error>> {
        // SAFETY: the simulator made this descriptor for this plugin, and nothing else uses it.
        let mut port = NodePort::new(unsafe { UnixStream::from_raw_fd(port) });
        let setup: NodeSetup = port.receive()?;
        let machine = SimulatedMachine::parse(&setup.machine, "the machine", &[])?;
        let device = AdapterMemory::map(adapter_fd)?;
        let region = RegionState::new(setup.region.clone());
        let adapter = AdapterSetup {
            rank: setup.rank,
            size: setup.size,
            device: 0,
            policy: Policy::named(&setup.policy, &machine)?,
        };
        let adapter = Adapter::new(&machine, adapter);
        let TimeGrant { until, arrivals } = port.receive()?;
        let memory = NodeMemory::new(&machine);
        let mut node = SimulatedNode {
            clock: 0,
            stop: 0,
            detail: Detail::Instructions,
            instruction_parts: (machine.processor.cycles_per_instruction * PARTS as f64) as u64,
            instructions: 0,
            hit_parts: memory.l1d_hit() * PARTS,
            fetch_parts: memory.l1i_hit() * PARTS,
            memory,
            registers: 0..0,
            rest: Box::new(Rest {
                port,
                device,
                adapter_fd,
                guest: GuestMemory::open()?,
                adapter,
                arrivals: arrivals.into(),
                departures: Vec::new(),
                until,
                entries: vec![None; region.functions().len()],
                region,
                is_loose: setup.loose,
                region_time: SimTime::default(),
                region_since: SimTime::NEVER,
                waited: SimTime::default(),
                picoseconds_per_cycle: 1e6 / machine.processor.mhz,
                call: SystemCall::default(),
                random: fastrand::Rng::with_seed(setup.seed ^ u64::from(setup.rank)),
                instruction_line: machine.caches.line.into(),
                write_mode: machine.adapter.injected,
            }),
        };
        node.follow_region();
        node.set_stop();
        Ok(node)
    }

    // ---- The fast path.

    /// A block runs.
    #[inline(always)]
    pub fn run_block(&mut self, block: &mut BlockFacts) {
        self.instructions += block.instructions;
        self.clock += block.parts;
        if self.detail == Detail::Accesses {
            // No call in this loop, so that the function needs no frame.
            for (index, line) in block.lines.iter().enumerate() {
                if !self.memory.is_fetch_hit(line) {
                    return self.fetch_from(block, index);
                }
                self.clock += self.fetch_parts;
            }
        }
        if self.clock >= self.stop {
            self.go_on();
        }
    }

    /// The block runs on from this line, which is no simple hit of the L1.
    #[inline(never)]
    fn fetch_from(&mut self, block: &mut BlockFacts, line: usize) {
        for line in &mut block.lines[line..] {
            self.clock += self.memory.fetch_line(self.clock / PARTS, line).cycles() * PARTS;
        }
        if self.clock >= self.stop {
            self.go_on();
        }
    }

    /// The program has loaded or stored.
    #[inline(always)]
    pub fn access(&mut self, access: DataAccess, address: u64) {
        match self.memory.is_hit(access, address) {
            true => self.clock += self.hit_parts,
            false => self.access_beyond(access, address),
        }
    }

    /// The access is no simple hit of the L1, or not simulated.
    #[inline(never)]
    fn access_beyond(&mut self, access: DataAccess, address: u64) {
        if self.detail != Detail::Accesses {
            if access.is_store() && self.registers.contains(&address) {
                self.store_to_register(address);
            }
            return;
        }
        let stall = self.memory.access(self.clock / PARTS, access, address);
        self.clock += stall.cycles() * PARTS;
        if stall.is_device() && access.is_store() {
            self.store_to_register(address);
        }
    }

    /// What a block of these lines of instructions needs to [`run`](Self::run_block).
    pub fn block(&self, instructions: u64, lines: &[u64]) -> BlockFacts {
        BlockFacts {
            instructions,
            parts: instructions * self.instruction_parts,
            lines: lines.iter().map(|&line| FetchLine::new(line)).collect(),
        }
    }

    // ---- Time.

    fn now(&self) -> SimTime {
        self.moment(self.clock)
    }

    /// The moment at which the clock shows `parts`.
    fn moment(&self, parts: u64) -> SimTime {
        SimTime((parts as f64 / PARTS as f64 * self.rest.picoseconds_per_cycle) as u64)
    }

    /// What the clock shows at `moment`, rounded up, so that it is not before.
    fn parts_at(&self, moment: SimTime) -> u64 {
        match moment {
            SimTime::NEVER => u64::MAX,
            SimTime(ps) => {
                (ps as f64 / self.rest.picoseconds_per_cycle * PARTS as f64).ceil() as u64 + 1
            }
        }
    }

    /// Lets the clock go on to `moment`, if that is later.
    fn advance_to(&mut self, moment: SimTime) {
        self.clock = self.clock.max(self.parts_at(moment));
    }

    /// The next moment at which something is due in this quantum, or its end.
    fn next_due(&self) -> SimTime {
        let arrival = self.rest.arrivals.front().map_or(SimTime::NEVER, |a| a.at);
        arrival.min(self.rest.adapter.next_due()).min(self.rest.until)
    }

    fn set_stop(&mut self) {
        self.stop = match self.detail {
            Detail::Nothing => u64::MAX,
            _ => self.parts_at(self.next_due()),
        };
    }

    // ---- The slow path.

    /// Does what is due, and ends the quantum if it is over.
    #[cold]
    #[inline(never)]
    fn go_on(&mut self) {
        loop {
            self.serve_due();
            let now = self.now();
            if now < self.rest.until {
                break;
            }
            self.end_quantum(now, NodeState::Runs);
        }
        self.set_stop();
    }

    /// Lets the adapter do what is due by now, in order of time.
    fn serve_due(&mut self) {
        let now = self.now();
        loop {
            let own = self.rest.adapter.next_due();
            let arrival = self.rest.arrivals.front().map_or(SimTime::NEVER, |a| a.at);
            let next = own.min(arrival);
            if next > now || next == SimTime::NEVER {
                return;
            }
            let arrived = if arrival <= own { self.rest.arrivals.pop_front() } else { None };
            self.with_adapter(|adapter, host, departures| match arrived {
                Some(arrival) => adapter.arrive(arrival, host, departures),
                None => adapter.advance(own, host, departures),
            });
        }
    }

    /// Calls the adapter with the node's memory.
    fn with_adapter(&mut self, f: impl FnOnce(&mut Adapter, &mut NodeHost, &mut Vec<Departure>)) {
        let Rest { adapter, guest, departures, write_mode, .. } = &mut *self.rest;
        let mut host = NodeHost { memory: &mut self.memory, guest, write_mode: *write_mode };
        f(adapter, &mut host, departures);
    }

    /// Reports, and waits until the simulator grants the next quantum.
    fn end_quantum(&mut self, at: SimTime, state: NodeState) {
        let report = ClockReport {
            at,
            state,
            departures: std::mem::take(&mut self.rest.departures),
            summary: None,
        };
        let granted =
            self.rest.port.send(&report).and_then(|()| self.rest.port.receive::<TimeGrant>());
        match granted {
            Ok(TimeGrant { until, arrivals }) => {
                self.rest.until = until;
                self.rest.arrivals.extend(arrivals);
            }
            // The simulator has ended: so does its node.
            Err(_) => quit(1),
        }
    }

    /// The program has stored to the register at `address`: the adapter acts.
    #[cold]
    #[inline(never)]
    fn store_to_register(&mut self, address: u64) {
        self.serve_due();
        let now = self.now();
        let registers = self.rest.device.registers();
        match (address - self.registers.start) as usize {
            Registers::DOORBELL => {
                let place = registers.doorbell.load(Relaxed);
                self.with_adapter(|adapter, host, departures| {
                    adapter.doorbell(now, place, host, departures)
                });
            }
            Registers::WAIT => self.wait(registers.wait.load(Relaxed)),
            Registers::HINT => {
                self.rest.adapter.hint(registers.hint.load(Relaxed));
            }
            Registers::MARKER => {
                self.rest.region.control(registers.marker.load(Relaxed));
                self.follow_region();
            }
            _ => {}
        }
        self.set_stop();
    }

    /// The program has taken `taken` events and waits for more.
    fn wait(&mut self, taken: u64) {
        let began = self.now();
        while !self.rest.adapter.should_wake(taken) {
            let due = self.next_due();
            if due < self.rest.until {
                self.advance_to(due);
                self.serve_due();
            } else {
                // Nothing happens in this quantum.
                let now = self.now();
                let due = self.rest.adapter.next_due();
                self.end_quantum(now, NodeState::Waits { due });
            }
        }
        if self.rest.region_since != SimTime::NEVER {
            self.rest.waited += self.now().since(began);
        }
    }

    // ---- The region of interest.

    /// The functions that begin and end the region.
    pub fn region_functions(&self) -> Vec<String> {
        self.rest.region.functions().into_iter().map(str::to_owned).collect()
    }

    /// Whether `address` is the entry of the region's function of this number: the first address
    /// at which it was seen.
    pub fn is_entry(&mut self, function: usize, address: u64) -> bool {
        *self.rest.entries[function].get_or_insert(address) == address
    }

    /// The program enters a function of the region.
    pub fn enter_function(&mut self, function: usize) {
        self.rest.region.enter(function);
        self.follow_region();
    }

    /// Simulates what the region asks for.
    fn follow_region(&mut self) {
        if self.detail == Detail::Nothing {
            return;
        }
        let now = self.now();
        let was_inside = self.rest.region_since != SimTime::NEVER;
        match (was_inside, self.rest.region.is_inside()) {
            (false, true) => self.rest.region_since = now,
            (true, false) => {
                self.rest.region_time += now.since(self.rest.region_since);
                self.rest.region_since = SimTime::NEVER;
            }
            _ => {}
        }
        let (detail, mode) = match (self.rest.region.is_inside(), self.rest.is_loose) {
            (false, _) => (Detail::Instructions, MemoryMode::FastForward),
            (true, false) => (Detail::Accesses, MemoryMode::Accurate),
            (true, true) => (Detail::Accesses, MemoryMode::Loose),
        };
        self.detail = detail;
        self.memory.set_mode(mode);
    }

    /// Bytes of a line of instructions.
    pub fn instruction_line(&self) -> u64 {
        self.rest.instruction_line
    }

    // ---- System calls.

    /// A call starts.
    pub fn begin_system_call(&mut self, call: SystemCall) {
        self.rest.call = call;
    }

    /// The call has returned `result`.
    pub fn end_system_call(&mut self, result: i64) {
        let now = self.now();
        let Rest { call, guest, random, .. } = &mut *self.rest;
        match call.finish(result, now, guest, random) {
            Ok(Effect::None) => {}
            Ok(Effect::Sleep(duration)) => self.sleep_until(now + duration),
            Ok(Effect::SleepUntil(moment)) => self.sleep_until(moment),
            Ok(Effect::Mapped { fd, address }) if fd == self.rest.adapter_fd => {
                self.map_registers(address);
            }
            Ok(Effect::Mapped { .. }) => {}
            Ok(Effect::Forked) => {
                self.detail = Detail::Nothing;
                self.registers = 0..0;
                self.set_stop();
            }
            Err(error) => fail(&format!("cannot reach the program's memory: {error}")),
        }
    }

    /// The program sleeps. Time goes on by quanta.
    fn sleep_until(&mut self, moment: SimTime) {
        if self.detail == Detail::Nothing {
            return;
        }
        while self.now() < moment {
            self.advance_to(self.next_due().min(moment));
            self.go_on();
        }
    }

    /// The program has mapped the adapter's memory at `address`.
    fn map_registers(&mut self, address: u64) {
        let mut magic = [0; 8];
        let read = self.rest.guest.read(address, &mut magic);
        if read.is_err() || u64::from_le_bytes(magic) != MAGIC {
            fail("this QEMU does not keep the program's addresses (guest base is not 0)");
        }
        let length = size_of::<Registers>() as u64;
        self.registers = address..address + length;
        self.memory.set_device(self.registers.clone());
        self.rest.adapter.set_device(address);
    }

    // ---- The end.

    /// The program has ended: the last report.
    pub fn end(&mut self) {
        if self.detail == Detail::Nothing {
            return;
        }
        self.serve_due();
        let at = self.now();
        let rest = &mut self.rest;
        rest.adapter.finish(&mut rest.departures);
        if rest.region_since != SimTime::NEVER {
            rest.region_time += at.since(rest.region_since);
        }
        let counts = summary::by_name(&self.memory.counts(), &rest.adapter.counts());
        let report = ClockReport {
            at,
            state: NodeState::Ended,
            departures: std::mem::take(&mut rest.departures),
            summary: Some(NodeSummary {
                instructions: self.instructions,
                end: at,
                region: rest.region_time,
                waited: rest.waited,
                counts,
            }),
        };
        // An error means that the simulator has ended.
        let _ = rest.port.send(&report);
    }

    /// The program has started a second thread, which a simulated node has no processor for.
    pub fn refuse_thread(&self) -> ! {
        let before = match self.registers.is_empty() {
            true => " before Mica's library has started (is it the one that the program loads?)",
            false => "",
        };
        fail(&format!(
            "the program starts a second thread{before}; a simulated node has one processor \
             (libraries: OMP_NUM_THREADS=1, OPENBLAS_NUM_THREADS=1)"
        ))
    }
}
