//! The advanced design of chai-2009, 3.2.
//!
//! Small messages go straight into the receiver's ring. Larger ones go through cells of the
//! sender's pool, which control messages in the ring announce, several cells by one message; so all
//! messages of a pair arrive in order through one queue, and the receiver polls nothing else. A
//! receiver finds the senders by doorbells: an array of counters in its own memory, each written by
//! one sender with a plain store.

mod inlet;
mod outlet;

use super::hold::HoldChange;
use crate::{ChannelError, PacketSource};
use inlet::Inlet;
use mica_memory::View;
use mica_node::cells::CellPool;
use mica_node::park::Fencing;
use mica_node::ring::Packet;
use mica_node::segment::{JobSegment, PAGE, SegmentRef};
use outlet::RingOutlet;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Cells that one receiver may hold where ranks share cores.
const CELLS_SHARED: usize = 4;

/// Cells that come into use before the pool checks for returned cells.
const CELLS_READY: usize = 16;

/// Cells that are allocated at a time, as a pool comes into use.
const POOL_STEP: u32 = 4;

/// One rank's endpoint of the rings and cells.
#[derive(Debug)]
pub(super) struct AdvancedShm {
    segment: Arc<JobSegment>,
    me: u32,
    fencing: Fencing,
    /// Rings to the ranks that this rank has sent to, by rank. As the table of inlets, up to the
    /// highest of them: a [`PeerTable`](mica_node::peer_table::PeerTable) would cost each message
    /// six more instructions.
    outlets: Vec<Option<Box<RingOutlet>>>,
    /// Rings from the ranks that have announced themselves.
    inlets: Vec<Inlet>,
    /// By sender: its index in `inlets`, plus one.
    inlet_of: Vec<u32>,
    /// The inlet to poll next.
    cursor: usize,
    pool: CellPool<SegmentRef<[AtomicU32]>>,
    pool_allocated: u32,
    /// Most cells that one receiver may hold.
    cells_each: usize,
    cell_bytes: usize,
}

/// The entry of `rank` in a table by rank, which grows as needed.
fn entry<T: Default>(table: &mut Vec<T>, rank: u32) -> &mut T {
    let at = rank as usize;
    if at >= table.len() {
        table.resize_with(at + 1, T::default);
    }
    &mut table[at]
}

impl AdvancedShm {
    /// The channel of rank `me`, which has [claimed](JobSegment::claim) it.
    pub fn new(segment: &Arc<JobSegment>, me: u32, fencing: Fencing) -> AdvancedShm {
        let cells = segment.geometry().cells as usize;
        let (cells_each, ready) = if segment.is_oversubscribed() {
            // The receiver may not run before this rank waits: more than a few loaded cells only
            // leave the cache.
            (CELLS_SHARED.min(cells), 0)
        } else {
            ((cells / 2).max(1), CELLS_READY)
        };
        AdvancedShm {
            segment: Arc::clone(segment),
            me,
            fencing,
            outlets: Vec::new(),
            inlets: Vec::new(),
            inlet_of: Vec::new(),
            cursor: 0,
            pool: CellPool::new(segment.project(|segment| segment.marks(me)), ready),
            cells_each,
            pool_allocated: 0,
            cell_bytes: segment.geometry().cell_bytes as usize,
        }
    }

    /// Bytes of a cell.
    #[inline]
    pub fn cell_bytes(&self) -> usize {
        self.cell_bytes
    }

    /// Sends a packet whose payload is all of `view`, at most [`INLINE`](super::INLINE) bytes;
    /// false when the ring is full, `None` when `peer` has no outlet yet, or one that needs more
    /// memory.
    #[inline(always)]
    pub fn send_inline(
        &mut self,
        peer: u32,
        kind: u8,
        context: u64,
        tag: i32,
        view: &View,
    ) -> Option<bool> {
        let fencing = self.fencing;
        let outlet = self.outlets.get_mut(peer as usize)?.as_deref_mut()?;
        let sent = outlet.ring.push_inline(kind, 0, context, tag, view.len(), |inline| {
            view.pack(0, inline);
        });
        if sent {
            outlet.ring_doorbell(fencing);
        } else if outlet.ring.wants_memory() {
            return None;
        }
        Some(sent)
    }

    /// True once the outlet to `peer` is open.
    #[inline(always)]
    pub fn has_outlet(&self, peer: u32) -> bool {
        self.outlets.get(peer as usize).is_some_and(Option::is_some)
    }

    /// Sends `packet` to `peer`, which has an outlet; its `payload` bytes are those of `view` from
    /// the start on. False when the ring is full, or it is a message, with a view, and `peer` holds
    /// messages back.
    ///
    /// # Errors
    /// When memory for the ring's arena cannot be allocated.
    #[inline(always)]
    pub fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
    ) -> Result<bool, ChannelError> {
        let (segment, me, fencing) = (&self.segment, self.me, self.fencing);
        let outlet = (self.outlets.get_mut(peer as usize))
            .and_then(Option::as_deref_mut)
            .expect("an outlet");
        if packet.payload > 0 && !outlet.has_arena {
            outlet.allocate_arena(segment, me, peer)?;
        }
        let len = packet.payload as usize;
        let is_message = view.is_some();
        let has_room = match is_message {
            true => outlet.ring.has_room(len),
            false => outlet.ring.has_room_for_control(len),
        };
        if !has_room {
            if outlet.ring.wants_memory() {
                outlet.allocate_slots(segment, me, peer)?;
            }
            if is_message && !outlet.ring.has_room(len) {
                return Ok(false);
            }
        }
        let sent = outlet.ring.push(packet, |to| {
            if let Some(view) = view {
                // SAFETY: 1. the ring hands out `len` bytes of its arena; 2. which no view of a
                // caller lies in.
                unsafe { view.pack_into(0, to, len) };
            }
        });
        if sent {
            outlet.ring_doorbell(fencing);
        }
        Ok(sent)
    }

    /// True when a packet with `payload` arena bytes can be sent to `peer` now, unless it is a
    /// message that `peer` [holds back](Self::is_held).
    #[inline]
    pub fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        self.outlet(peer).is_none_or(|outlet| {
            outlet.ring.has_room_for_control(payload) || outlet.ring.wants_memory()
        })
    }

    /// Whether `peer` holds messages back.
    pub fn is_held(&mut self, peer: u32) -> bool {
        let outlet = self.outlet(peer);
        outlet.is_some_and(|outlet| outlet.ring.is_held())
    }

    /// Holds back the messages of `source`, or releases them. False when `source` has no inlet.
    pub fn hold(&self, source: u32, change: HoldChange) -> bool {
        self.inlet(source).map(|inlet| inlet.ring.hold(change == HoldChange::Hold)).is_some()
    }

    /// True when [`AdvancedShm::load_cell`] would find a cell for `receiver`.
    pub fn has_cell(&mut self, receiver: u32) -> bool {
        self.pool.can_take(receiver, self.cells_each())
    }

    /// Cells that one receiver may hold: a slow receiver must not starve the others of cells.
    fn cells_each(&self) -> usize {
        self.cells_each
    }

    /// Opens the outlet to `peer`, or allocates the memory that an open outlet needs.
    ///
    /// # Errors
    /// When memory for its ring cannot be allocated.
    #[cold]
    pub fn open_outlet(&mut self, peer: u32) -> Result<(), ChannelError> {
        let (segment, me) = (&self.segment, self.me);
        let outlet = entry(&mut self.outlets, peer);
        if let Some(outlet) = outlet {
            return outlet.allocate_slots(segment, me, peer);
        }
        let offset = segment.pair_offset(me, peer);
        segment.allocate(offset, PAGE)?;
        *outlet = Some(Box::new(RingOutlet::open(segment, me, peer)));
        Ok(())
    }

    fn outlet(&mut self, peer: u32) -> Option<&mut RingOutlet> {
        self.outlets.get_mut(peer as usize)?.as_deref_mut()
    }

    #[inline(always)]
    fn inlet_index(&self, source: u32) -> Option<usize> {
        // 0 wraps to an index that no inlet has.
        Some((*self.inlet_of.get(source as usize)?).wrapping_sub(1) as usize)
    }

    /// The inlet from `source`, if its bit has been seen.
    #[inline(always)]
    pub fn inlet(&self, source: u32) -> Option<&Inlet> {
        self.inlets.get(self.inlet_index(source)?)
    }

    /// Makes polling start at the next sender. Call it after a number of packets from one sender,
    /// so that a flood from it does not delay the others.
    #[inline]
    pub fn next_turn(&mut self) {
        self.cursor += 1;
        if self.cursor >= self.inlets.len() {
            self.cursor = 0;
        }
    }

    /// Opens the inlet from `source`, which has announced itself.
    #[cold]
    pub fn open_inlet(&mut self, source: u32) {
        self.inlets.push(Inlet::open(&self.segment, source, self.me));
        *entry(&mut self.inlet_of, source) = self.inlets.len() as u32;
    }

    /// Closes what was opened to and from the holder of number `peer` before the world of
    /// generation `generation` got it. False if an inlet from its present holder is open.
    #[cold]
    pub fn forget(&mut self, peer: u32, generation: u32) -> bool {
        let outlet = self.outlets.get_mut(peer as usize);
        if let Some(outlet) = outlet
            && outlet.as_ref().is_some_and(|outlet| outlet.generation < generation)
        {
            *outlet = None;
        }
        let Some(index) = self.inlet_index(peer).filter(|&index| index < self.inlets.len()) else {
            return true;
        };
        if self.inlets[index].generation >= generation {
            return false;
        }
        self.inlets.swap_remove(index);
        self.inlet_of[peer as usize] = 0;
        if let Some(moved) = self.inlets.get(index) {
            self.inlet_of[moved.source as usize] = index as u32 + 1;
        }
        self.cursor = 0;
        true
    }

    /// Removes `packet`, the one just peeked from `source`. False when `source` has no inlet.
    #[inline(always)]
    pub fn consume(&mut self, source: u32, packet: &Packet) -> bool {
        let fencing = self.fencing;
        let inlet = self.inlet_index(source);
        let Some(inlet) = inlet.and_then(|index| self.inlets.get_mut(index)) else {
            return false;
        };
        if inlet.ring.consume(packet) {
            // The sender may wait for room.
            inlet.parking.wake(fencing);
        }
        true
    }

    /// Takes a free cell for `receiver` and loads it with the bytes of `view` from `position` on.
    /// Returns the cell and how many bytes it holds; `None` when no cell is free.
    ///
    /// # Errors
    /// When memory for the pool cannot be allocated.
    pub fn load_cell(
        &mut self,
        receiver: u32,
        view: &View,
        position: usize,
    ) -> Result<Option<(u16, usize)>, ChannelError> {
        let limit = self.cells_each();
        let Some(cell) = self.pool.take(receiver, limit) else {
            return Ok(None);
        };
        while u32::from(cell) >= self.pool_allocated {
            self.grow_pool()?;
        }
        let to = self.segment.cell(self.me, cell);
        // SAFETY: 1. the pool has handed out the cell, its memory is allocated; 2. no view of a
        // caller lies in it.
        let bytes = unsafe { view.pack_into(position, to, self.cell_bytes) };
        Ok(Some((cell, bytes)))
    }

    #[cold]
    fn grow_pool(&mut self) -> Result<(), ChannelError> {
        let segment = &self.segment;
        let first = self.pool_allocated;
        let last = (first + POOL_STEP).min(segment.geometry().cells);
        let bytes = (last - first) as usize * self.cell_bytes;
        segment.allocate(segment.cell_offset(self.me, first as u16), bytes)?;
        self.pool_allocated = last;
        Ok(())
    }

    /// Copies the first `bytes` bytes of `source`'s cell to `view` from `position` on, as far as
    /// the view has room, and gives the cell back.
    pub fn unload_cell(&self, source: u32, cell: u16, bytes: usize, view: &View, position: usize) {
        debug_assert!(bytes <= self.cell_bytes);
        let from = self.segment.cell(source, cell);
        // SAFETY: 1. `source` announced the cell with this many bytes and leaves it alone until it
        // is marked free; 2. no view of a caller lies in it.
        unsafe { view.unpack_from(position, from, bytes) };
        let inlet = self.inlet(source).expect("its packet was peeked");
        inlet.marks.free(cell);
        // The owner may wait for a cell.
        inlet.parking.wake(self.fencing);
    }

    /// True when all that this rank has sent through cells has been read.
    pub fn is_drained(&mut self) -> bool {
        self.pool.is_idle()
    }
}

impl PacketSource for AdvancedShm {
    /// The next packet. Polls round-robin, beginning with the current sender.
    #[inline]
    fn peek(&mut self) -> Option<(u32, Packet)> {
        for _ in 0..self.inlets.len() {
            let inlet = &self.inlets[self.cursor];
            if inlet.has_rung()
                && let Some(packet) = inlet.ring.peek()
            {
                return Some((inlet.source, packet));
            }
            self.next_turn();
        }
        None
    }

    fn has_arrivals(&mut self) -> bool {
        self.inlets.iter().any(Inlet::has_rung)
    }
}
