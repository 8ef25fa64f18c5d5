//! Recording one call: from its entry to what it moved.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mica_profile::model::size_class;
use mica_profile::rank_tables::{
    ArrivalEntry, COLLECTIVE, MessageTotals, NO_RANK, SpanEntry, SpanKind, WaitingRule,
};

use crate::clock;
use crate::comm::{self, CommInfo, FOREIGN};
use crate::files;
use crate::persistent::{self, Prepared};
use crate::recording;
use crate::sites;
use crate::stacks::{self, CallFrame};
use crate::thread::{Tables, Thread, current};
use crate::traffic::{
    BlockReceiver, CallTraffic, CollectiveTraffic, Data, DataStart, Flow, MessageTraffic, TagPair,
};
use crate::trampoline;
use crate::types::{BYTE, ROOT, SUCCESS};

/// A call that is being timed.
pub struct TimedCall {
    id: u16,
    caller: usize,
    /// Where the wrapper's frame lies.
    frame: usize,
    start: u64,
    thread: &'static Thread,
}

/// What a call moved.
#[derive(Default)]
struct Moved {
    sends: u64,
    bytes: u64,
    peer: Option<u32>,
    comm_size: u32,
    envelope: Option<Envelope>,
    arrival: Option<(&'static CommInfo, u64, WaitingRule)>,
    access: Option<FileAccess>,
}

/// A call on a file.
#[derive(Clone, Copy)]
struct FileAccess {
    /// Number of the file's name.
    file: u64,
    /// It begins where the last access ended.
    follows: bool,
}

/// What the messages of a call match by besides the ranks.
#[derive(Clone, Copy)]
struct Envelope {
    /// The communicator's key.
    comm: u64,
    tags: TagPair,
}

impl TimedCall {
    /// The call begins. `None` if it is not recorded.
    #[inline(always)]
    pub fn enter(id: u16) -> Option<TimedCall> {
        let caller = trampoline::caller();
        if !recording::is_on() {
            return None;
        }
        let thread = current()?;
        if thread.inside.replace(true) {
            return None;
        }
        let frame = stacks::frame();
        let start = clock::ticks();
        thread.enter(id, caller, start);
        Some(TimedCall { id, caller, frame, start, thread })
    }

    /// The call ended with this code.
    ///
    /// # Safety
    /// What `traffic` makes describes the arguments of the call.
    #[inline(always)]
    pub unsafe fn leave(self, result: c_int, traffic: impl FnOnce() -> CallTraffic) {
        let end = clock::ticks();
        let traffic = if result == SUCCESS { traffic() } else { CallTraffic::Nothing };
        // SAFETY: as the caller promises.
        unsafe { self.record(end, &traffic) };
    }

    /// # Safety
    /// The call succeeded and `traffic` describes its arguments, or it is `Nothing`.
    unsafe fn record(&self, end: u64, traffic: &CallTraffic) {
        let mut site = sites::of(self.caller);
        self.thread.with(|tables| {
            if site & sites::PYTHON == 0 && stacks::depth() > 1 {
                site = tables.stacks.site(CallFrame {
                    id: self.id,
                    caller: self.caller,
                    frame: self.frame,
                });
            }
            // Nothing below adds to the table of calls, so the place holds.
            let place = match tables.calls.find((u64::from(self.id), site)) {
                Some(place) => Some(place),
                None => self.first(tables, &mut site),
            };
            // SAFETY: as the caller promises.
            let moved = unsafe { self.moved(tables, traffic) };
            if let Some(place) = place {
                self.add(tables, place, site, end, &moved);
            }
        });
        self.thread.leave(end);
    }

    /// The first call of the function at this site: finds out where that is. The place in the
    /// table of calls, if there is memory.
    #[cold]
    fn first(&self, tables: &mut Tables, site: &mut u64) -> Option<usize> {
        // A stack says where it is when it is walked.
        if *site & stacks::STACK == 0 {
            *site = sites::announce(*site, self.caller);
        }
        tables.calls.find_or_add((u64::from(self.id), *site))
    }

    #[inline]
    fn add(&self, tables: &mut Tables, place: usize, site: u64, end: u64, moved: &Moved) {
        let time = clock::duration_ns(end.saturating_sub(self.start));
        tables.add_time(time);
        let totals = tables.calls.at(place);
        totals.min_ns = if totals.count == 0 { time } else { totals.min_ns.min(time) };
        totals.max_ns = totals.max_ns.max(time);
        totals.count += 1;
        totals.time_ns += time;
        totals.sends += moved.sends;
        totals.bytes += moved.bytes;
        if moved.comm_size != 0 {
            totals.comm_size = u64::from(moved.comm_size);
        }
        let class = (time | 1).ilog2() as usize;
        totals.durations[class.min(totals.durations.len() - 1)] += 1;
        let peer = moved.peer.unwrap_or(NO_RANK);
        if !tables.spans.join_call((self.start, end), moved.bytes) {
            tables.spans.keep(self.span(end, site, peer, moved));
        }
        if let Some((comm, sequence, rule)) = moved.arrival {
            tables.keep_arrival(ArrivalEntry {
                comm: comm.key,
                sequence,
                start: self.start,
                end,
                site,
                size: comm.peers.len() as u32,
                root: peer,
                call: u32::from(self.id),
                rule: rule as u32,
            });
        }
        if let Some(access) = moved.access {
            self.add_access(tables, access, moved.bytes, time);
        }
        if end >= tables.next_reading {
            tables.next_reading = clock::note_reading();
        }
    }

    #[cold]
    fn add_access(&self, tables: &mut Tables, access: FileAccess, bytes: u64, time: u64) {
        let class = u64::from(size_class(bytes));
        let key = (access.file, u64::from(self.id) << 8 | class);
        if let Some(totals) = tables.files.entry(key) {
            totals.calls += 1;
            totals.bytes += bytes;
            totals.time_ns += time;
            totals.following += u64::from(access.follows);
        }
    }

    #[inline]
    fn span(&self, end: u64, site: u64, peer: u32, moved: &Moved) -> SpanEntry {
        let (kind, more) = match moved.envelope {
            None => (SpanKind::Call, [0; 3]),
            Some(Envelope { comm, tags: TagPair { tag, receive_tag } }) => match receive_tag {
                None => (SpanKind::Tagged, [comm, tag as u64, 0]),
                Some(receive) => (SpanKind::TaggedTwice, [comm, tag as u64, receive as u64]),
            },
        };
        SpanEntry {
            start: self.start,
            end,
            site,
            bytes: moved.bytes,
            peer,
            call_and_kind: SpanEntry::pack(self.id, kind),
            more,
        }
    }

    /// What the call moved; counts its messages.
    ///
    /// # Safety
    /// The call succeeded and `traffic` describes its arguments, or it is `Nothing`.
    #[inline]
    unsafe fn moved(&self, tables: &mut Tables, traffic: &CallTraffic) -> Moved {
        // SAFETY: pointers in `traffic` are arguments of a call that succeeded.
        unsafe {
            match *traffic {
                CallTraffic::Nothing => Moved::default(),
                CallTraffic::On(comm) => Moved::on(tables.comm(comm, comm::info)),
                CallTraffic::NewComm(comm) => Moved::on(comm::register(*comm)),
                CallTraffic::From(comm, rank, tag) => {
                    Moved::of_message(tables.comm(comm, comm::info), rank, TagPair::one(tag))
                }
                CallTraffic::To(ref message) => {
                    let moved = message.resolve(tables);
                    self.count(tables, &moved)
                }
                CallTraffic::Target { win, peer, count, datatype } => {
                    let mut moved = Moved::with(tables.comm(win, comm::window), peer);
                    moved.bytes = bytes(tables, count, datatype);
                    self.count(tables, &moved)
                }
                CallTraffic::Prepare(request, ref message) => {
                    self.prepare(*request, message.resolve(tables))
                }
                CallTraffic::Start(requests, count) => start_all(tables, requests, count),
                CallTraffic::Collective(ref collective) => self.collective(tables, collective),
                CallTraffic::OpenFile(name, file) => {
                    Moved::on_file(Some((files::register(*file, name, BYTE), false)))
                }
                CallTraffic::File { file, place, count, datatype } => {
                    let bytes = bytes(tables, count, datatype);
                    let size = |etype| tables.type_size(etype);
                    let access = files::accessed(file, place, bytes, size);
                    Moved { bytes, ..Moved::on_file(access) }
                }
                CallTraffic::OnFile(file, how) => {
                    Moved::on_file(files::used(file, how).map(|number| (number, false)))
                }
            }
        }
    }

    /// Counts one message to the peer, if it is a process.
    #[inline]
    fn count(&self, tables: &mut Tables, moved: &Moved) -> Moved {
        let mut moved = Moved { ..*moved };
        match moved.peer {
            Some(peer) => {
                moved.sends = 1;
                count_message(tables, self.id, u64::from(peer), moved.bytes);
            }
            // To MPI_PROC_NULL, or out of the job's world.
            None => moved.bytes = 0,
        }
        moved
    }

    fn prepare(&self, request: usize, moved: Moved) -> Moved {
        if moved.peer.is_some() {
            let prepared = Prepared {
                id: self.id,
                peer: moved.peer,
                bytes: moved.bytes,
                blocks: Arc::default(),
            };
            persistent::remember(request, prepared);
        }
        Moved { bytes: 0, ..moved }
    }

    /// # Safety
    /// The arrays of the collective are those of a call that succeeded.
    unsafe fn collective(&self, tables: &mut Tables, call: &CollectiveTraffic) -> Moved {
        let Some(comm) = tables.comm(call.comm, comm::info) else { return Moved::default() };
        let mut moved = Moved::with(Some(comm), call.root);
        let role = match call.root == ROOT || (!comm.inter && call.root == comm.rank) {
            true => RankRole::Root,
            false => RankRole::Other,
        };
        // SAFETY: as the caller promises; what is not significant at this rank is not read.
        unsafe {
            if call.flow != Flow::Scatter || role == RankRole::Root {
                moved.bytes = call.bytes(tables, comm);
                moved.sends = u64::from(!matches!(call.data, Data::None));
            }
            match call.start {
                DataStart::Persistent(request) => {
                    self.prepare_collective(tables, comm, call, (role, *request), &mut moved);
                }
                DataStart::Blocking => moved.arrival = arrival(comm, call.flow),
                DataStart::Started => {}
            }
            if moved.sends > 0 {
                count_message(tables, self.id, COLLECTIVE, moved.bytes);
                flow(tables, comm, call, role, count_blocks);
            }
        }
        moved
    }

    /// Remembers what a start of a persistent collective moves; nothing has moved yet.
    ///
    /// # Safety
    /// The arrays of the collective are those of a call that succeeded.
    unsafe fn prepare_collective(
        &self,
        tables: &mut Tables,
        comm: &'static CommInfo,
        call: &CollectiveTraffic,
        (role, request): (RankRole, usize),
        moved: &mut Moved,
    ) {
        let mut blocks = Vec::new();
        if moved.sends > 0 {
            // SAFETY: as the caller promises.
            unsafe {
                flow(tables, comm, call, role, |_, to, bytes| {
                    blocks.push((to, bytes));
                });
            }
            let prepared =
                Prepared { id: self.id, peer: None, bytes: moved.bytes, blocks: blocks.into() };
            persistent::remember(request, prepared);
        }
        (moved.bytes, moved.sends) = (0, 0);
    }
}

/// What a rank is in a collective with a root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RankRole {
    Root,
    Other,
}

/// The place of a blocking collective among those on its communicator, and who waits in it.
fn arrival(comm: &'static CommInfo, flow: Flow) -> Option<(&'static CommInfo, u64, WaitingRule)> {
    // Relaxed: collectives on one communicator follow each other.
    let sequence = comm.sequence.fetch_add(1, Ordering::Relaxed);
    let kind = match flow {
        Flow::ToAll | Flow::Mixed => WaitingRule::All,
        Flow::Broadcast | Flow::Scatter => WaitingRule::ForRoot,
        Flow::Gather | Flow::Reduce => WaitingRule::Root,
        Flow::Chain | Flow::Neighbors => return None,
    };
    (!comm.inter).then_some((comm, sequence, kind))
}

/// Counts the blocks of a collective for a receiver.
fn count_blocks(tables: &mut Tables, to: BlockReceiver, bytes: u64) {
    match to {
        BlockReceiver::Rank(peer) => add(tables.blocks.entry((peer.into(), 0)), bytes),
        BlockReceiver::All(comm) => {
            add(tables.group_blocks.entry((comm.group.into(), 0)), bytes);
        }
    }
}

/// Calls `sink` with the blocks of a collective that go from this rank to others: whatever of this
/// rank's data reaches another rank, itself or combined with others'.
///
/// # Safety
/// The arrays of the collective are those of a call that succeeded.
unsafe fn flow(
    tables: &mut Tables,
    comm: &'static CommInfo,
    call: &CollectiveTraffic,
    role: RankRole,
    mut sink: impl FnMut(&mut Tables, BlockReceiver, u64),
) {
    let all = BlockReceiver::All(comm);
    // SAFETY: as the caller promises; there is a count for each receiver.
    let block = |tables: &mut Tables, index| unsafe { call.data.block_bytes(tables, index) };
    match (call.flow, call.data) {
        (_, Data::None) => {}
        (Flow::Broadcast, _) => {
            if role == RankRole::Root {
                let bytes = block(tables, 0);
                sink(tables, all, bytes);
            }
        }
        (Flow::Gather | Flow::Reduce, data) => {
            if let Some(root) = comm.world_rank(call.root) {
                // SAFETY: as the caller promises.
                let bytes = unsafe { data.bytes(tables, comm, 1) };
                sink(tables, BlockReceiver::Rank(root), bytes);
            }
        }
        (Flow::Scatter | Flow::ToAll | Flow::Mixed, Data::Block(..) | Data::Own(..)) => {
            // SAFETY: as the caller promises.
            let bytes = unsafe { call.data.bytes(tables, comm, 1) };
            sink(tables, all, bytes);
        }
        // The blocks are those of the own group, each combined from the other group's data.
        (Flow::Mixed, _) if comm.inter => {}
        (Flow::Scatter | Flow::ToAll | Flow::Mixed, _) => {
            for (index, peer) in comm.peers.iter().enumerate() {
                let bytes = block(tables, index);
                sink(tables, BlockReceiver::Rank(*peer), bytes);
            }
        }
        (Flow::Chain, _) => {
            let bytes = block(tables, 0);
            for peer in comm.peers.iter().skip(comm.rank.max(0) as usize + 1) {
                sink(tables, BlockReceiver::Rank(*peer), bytes);
            }
        }
        (Flow::Neighbors, _) => {
            for (index, peer) in comm.neighbors(call.comm).iter().enumerate() {
                if *peer != FOREIGN {
                    let bytes = block(tables, index);
                    sink(tables, BlockReceiver::Rank(*peer), bytes);
                }
            }
        }
    }
}

/// # Safety
/// The array is that of a call that succeeded.
unsafe fn start_all(tables: &mut Tables, requests: *const usize, count: c_int) -> Moved {
    let mut moved = Moved::default();
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: as the caller promises.
        let request = unsafe { *requests.add(i) };
        if let Some(prepared) = persistent::get(request) {
            let peer = prepared.peer.map_or(COLLECTIVE, u64::from);
            count_message(tables, prepared.id, peer, prepared.bytes);
            for &(to, bytes) in prepared.blocks.iter() {
                count_blocks(tables, to, bytes);
            }
            moved.sends += 1;
            moved.bytes += prepared.bytes;
            moved.peer = prepared.peer;
        }
    }
    moved
}

#[inline]
fn count_message(tables: &mut Tables, id: u16, peer: u64, bytes: u64) {
    let class = u64::from(size_class(bytes));
    add(tables.messages.entry((u64::from(id) << 8 | class, peer)), bytes);
}

#[inline]
fn bytes(tables: &mut Tables, count: i64, datatype: usize) -> u64 {
    count.max(0) as u64 * tables.type_size(datatype)
}

/// Counts a message, if there is memory.
#[inline]
fn add(amount: Option<&mut MessageTotals>, bytes: u64) {
    if let Some(amount) = amount {
        amount.messages += 1;
        amount.bytes += bytes;
    }
}

impl Moved {
    fn on(comm: Option<&'static CommInfo>) -> Moved {
        Moved { comm_size: comm.map_or(0, |comm| comm.peers.len() as u32), ..Moved::default() }
    }

    fn of_message(comm: Option<&'static CommInfo>, rank: c_int, tags: TagPair) -> Moved {
        Moved {
            envelope: comm.map(|comm| Envelope { comm: comm.key, tags }),
            ..Moved::with(comm, rank)
        }
    }

    /// Number of the file's name, and whether the access follows the last one.
    fn on_file(access: Option<(u64, bool)>) -> Moved {
        let access = access.map(|(file, follows)| FileAccess { file, follows });
        Moved { access, ..Moved::default() }
    }

    fn with(comm: Option<&'static CommInfo>, rank: c_int) -> Moved {
        Moved { peer: comm.and_then(|comm| comm.world_rank(rank)), ..Moved::on(comm) }
    }
}

impl MessageTraffic {
    #[inline]
    fn resolve(&self, tables: &mut Tables) -> Moved {
        let comm = tables.comm(self.comm, comm::info);
        let mut moved = Moved::of_message(comm, self.peer, self.tags);
        if moved.peer.is_some() {
            moved.bytes = bytes(tables, self.count, self.datatype);
        }
        moved
    }
}

impl CollectiveTraffic {
    /// Bytes that this rank gives.
    ///
    /// # Safety
    /// The arrays of the collective are those of a call that succeeded.
    unsafe fn bytes(&self, tables: &mut Tables, comm: &'static CommInfo) -> u64 {
        // SAFETY: as the caller promises.
        unsafe {
            match (self.flow, self.data) {
                (Flow::Neighbors, Data::Blocks(..) | Data::Each(..)) => {
                    let mut sum = 0;
                    let role = RankRole::Other;
                    flow(tables, comm, self, role, |_, _, bytes| sum += bytes);
                    sum
                }
                (Flow::Mixed, data) => data.bytes(tables, comm, comm.local_size),
                (_, data) => data.bytes(tables, comm, comm.peers.len()),
            }
        }
    }
}

impl Data {
    /// Bytes in all.
    ///
    /// # Safety
    /// Arrays have `blocks` elements.
    unsafe fn bytes(self, tables: &mut Tables, comm: &CommInfo, blocks: usize) -> u64 {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Data::None => 0,
                Data::Block(count, datatype) => bytes(tables, count, datatype),
                Data::Own(..) => self.block_bytes(tables, comm.rank.max(0) as usize),
                _ => (0..blocks).map(|index| self.block_bytes(tables, index)).sum(),
            }
        }
    }

    /// Bytes of one block.
    ///
    /// # Safety
    /// Arrays have more than `index` elements.
    unsafe fn block_bytes(self, tables: &mut Tables, index: usize) -> u64 {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Data::None => 0,
                Data::Block(count, datatype) => bytes(tables, count, datatype),
                Data::Blocks(counts, datatype) | Data::Own(counts, datatype) => {
                    bytes(tables, counts.get(index), datatype)
                }
                Data::Each(counts, datatypes) => match counts.get(index) {
                    // The type of an empty block may be anything.
                    0 => 0,
                    count => bytes(tables, count, *datatypes.add(index)),
                },
            }
        }
    }
}
