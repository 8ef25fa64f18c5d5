//! Small exchanges of bytes among members of a communicator, for the library's own use: they carry
//! context numbers and the like. Binomial trees over blocking point-to-point messages on the
//! collective plane: a member only sends to one that receives, so no message size can deadlock.

use mica_channel::memory::{Block, Region, Shape, View};

use super::object::Comm;
use crate::error::Result;
use crate::pt2pt::{self, Plane};

/// Some members of a communicator, in an order that all of them share.
pub(crate) struct Party<'a> {
    comm: &'a Comm,
    /// Ranks in `comm`; `None`: all of them, in order.
    ranks: Option<&'a [usize]>,
    me: usize,
    tag: i32,
}

impl<'a> Party<'a> {
    /// All members of `comm`.
    pub(crate) fn all(comm: &'a Comm) -> Party<'a> {
        Party { comm, ranks: None, me: comm.rank(), tag: comm.next_collective_tag() }
    }

    /// The members with these ranks, of which this process is number `me`, using `tag` for this
    /// exchange.
    pub(crate) fn of(comm: &'a Comm, ranks: &'a [usize], me: usize, tag: i32) -> Party<'a> {
        Party { comm, ranks: Some(ranks), me, tag }
    }

    fn size(&self) -> usize {
        self.ranks.map_or(self.comm.size(), <[usize]>::len)
    }

    fn rank(&self, member: usize) -> i32 {
        self.ranks.map_or(member, |ranks| ranks[member]) as i32
    }

    fn send(&self, to: usize, view: &View) -> Result<()> {
        pt2pt::send_on(self.comm, Plane::Collective, view, self.rank(to), self.tag)
    }

    fn receive(&self, from: usize, view: &View) -> Result<()> {
        pt2pt::recv_on(self.comm, Plane::Collective, view, self.rank(from), self.tag).map(drop)
    }

    /// Member 0's bytes reach all. The length is the same everywhere.
    pub(crate) fn broadcast(&self, bytes: &mut [u8]) -> Result<()> {
        let region = Block::allocate(bytes.len())?;
        region.write_bytes(bytes);
        self.broadcast_region(&region, bytes.len())?;
        region.read_bytes(bytes);
        Ok(())
    }

    fn broadcast_region(&self, region: &Region, len: usize) -> Result<()> {
        let view = contiguous(region, 0, len);
        let (size, me) = (self.size(), self.me);
        // The parent is `me` without its lowest bit; the children are `me` with one more bit below
        // that.
        let lowest = if me == 0 { size.next_power_of_two() } else { me & me.wrapping_neg() };
        if me != 0 {
            self.receive(me - lowest, &view)?;
        }
        let mut step = lowest / 2;
        while step > 0 {
            if me + step < size {
                self.send(me + step, &view)?;
            }
            step /= 2;
        }
        Ok(())
    }

    /// Every member gets all members' bytes, one after another. The length is the same everywhere.
    pub(crate) fn allgather(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let (size, me, each) = (self.size(), self.me, mine.len());
        let region = Block::allocate(size * each)?;
        region.offset((me * each) as isize).write_bytes(mine);
        // The tree of `broadcast_region` upwards: `me` holds the parts of members me .. me + step.
        let mut step = 1;
        while step < size {
            if me & step != 0 {
                let part = contiguous(&region, me * each, step.min(size - me) * each);
                self.send(me - step, &part)?;
                break;
            }
            let child = me + step;
            if child < size {
                let part = contiguous(&region, child * each, step.min(size - child) * each);
                self.receive(child, &part)?;
            }
            step *= 2;
        }
        // The way down may use the same tag: between two members each direction is used once.
        self.broadcast_region(&region, size * each)?;
        let mut all = vec![0; size * each];
        region.read_bytes(&mut all);
        Ok(all)
    }
}

/// Returns when all members of `comm` have called it.
pub(crate) fn barrier(comm: &Comm) -> Result<()> {
    Party::all(comm).allgather(&[0]).map(drop)
}

fn contiguous(region: &Region, offset: usize, bytes: usize) -> View {
    region.offset(offset as isize).view(Shape::Contiguous { bytes })
}
