//! Small exchanges of bytes among members of a communicator, for the library's own use: they carry
//! context numbers and the like. Binomial trees over blocking point-to-point messages on the
//! collective plane: a member only sends to one that receives, so no message size can deadlock.

use std::ops::Range;

use mica_memory::{Block, Region, Shape, View};

use crate::members::Members;
use crate::members::context::fresh_context;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// Some members of a communicator, in an order that all of them share.
pub struct ExchangeMembers<'a> {
    members: &'a Members,
    /// Ranks among `members`; `None`: all of them, from `leader` on.
    ranks: Option<&'a [usize]>,
    leader: usize,
    me: usize,
    tag: i32,
}

impl<'a> ExchangeMembers<'a> {
    /// All of `members`.
    pub fn all(members: &'a Members) -> ExchangeMembers<'a> {
        ExchangeMembers::led_by(members, 0)
    }

    /// All of `members`. Rank `leader` is member 0, and the others follow in a circle.
    pub fn led_by(members: &'a Members, leader: usize) -> ExchangeMembers<'a> {
        let size = members.size();
        let me = (members.rank() + size - leader) % size;
        let tag = members.next_collective_tag(None);
        ExchangeMembers { members, ranks: None, leader, me, tag }
    }

    /// The members with these ranks, of which this process is number `me`, using `tag` for this
    /// exchange.
    pub fn of(
        members: &'a Members,
        ranks: &'a [usize],
        me: usize,
        tag: i32,
    ) -> ExchangeMembers<'a> {
        ExchangeMembers { members, ranks: Some(ranks), leader: 0, me, tag }
    }

    fn size(&self) -> usize {
        self.ranks.map_or(self.members.size(), <[usize]>::len)
    }

    fn rank(&self, member: usize) -> usize {
        let around = || (self.leader + member) % self.members.size();
        self.ranks.map_or_else(around, |ranks| ranks[member])
    }

    /// Sends these of the bytes; none if they are lost.
    fn send(&self, to: usize, bytes: &mut ExchangedBytes, part: Range<usize>) {
        let (to, view) = (self.rank(to), bytes.view(part));
        bytes.note(self.members.send(to, &view, self.tag));
    }

    fn receive(&self, from: usize, bytes: &mut ExchangedBytes, part: Range<usize>) {
        let (from, view) = (self.rank(from), bytes.view(part));
        bytes.note(self.members.receive(from, &view, self.tag));
    }

    /// Member 0's bytes reach all. The length is the same everywhere.
    pub fn broadcast(&self, bytes: &mut [u8]) -> Result<()> {
        let mut exchanged = ExchangedBytes::new(bytes.len());
        exchanged.write(0, bytes);
        self.broadcast_all(&mut exchanged, bytes.len());
        exchanged.read(bytes)
    }

    /// The first of a block of contexts, from member 0 to all. Blocks.
    ///
    /// # Errors
    /// Those of messages; at all members, when member 0 has none left.
    pub fn agree_on_context(&self) -> Result<u64> {
        let mut exchanged = ExchangedBytes::new(size_of::<u64>());
        if self.me == 0 {
            let context = fresh_context();
            exchanged.write(0, &context.as_ref().map_or(0, |context| *context).to_ne_bytes());
            exchanged.note(context.map(drop));
        }
        self.broadcast_all(&mut exchanged, size_of::<u64>());
        let mut context = [0; size_of::<u64>()];
        exchanged.read(&mut context)?;
        Ok(u64::from_ne_bytes(context))
    }

    fn broadcast_all(&self, bytes: &mut ExchangedBytes, len: usize) {
        let (size, me) = (self.size(), self.me);
        // The parent is `me` without its lowest bit; the children are `me` with one more bit below
        // that.
        let lowest = if me == 0 { size.next_power_of_two() } else { me & me.wrapping_neg() };
        if me != 0 {
            self.receive(me - lowest, bytes, 0..len);
        }
        let mut step = lowest / 2;
        while step > 0 {
            if me + step < size {
                self.send(me + step, bytes, 0..len);
            }
            step /= 2;
        }
    }

    /// Every member gets all members' bytes, one after another. The length is the same everywhere.
    pub fn allgather(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let (size, me, each) = (self.size(), self.me, mine.len());
        let mut bytes = ExchangedBytes::new(size * each);
        bytes.write(me * each, mine);
        // The tree of `broadcast_all` upwards: `me` holds the parts of members me .. me + step.
        let mut step = 1;
        while step < size {
            if me & step != 0 {
                self.send(me - step, &mut bytes, me * each..(me + step.min(size - me)) * each);
                break;
            }
            let child = me + step;
            if child < size {
                let end = child + step.min(size - child);
                self.receive(child, &mut bytes, child * each..end * each);
            }
            step *= 2;
        }
        // The way down may use the same tag: between two members each direction is used once.
        self.broadcast_all(&mut bytes, size * each);
        let mut all = vec![0; size * each];
        bytes.read(&mut all)?;
        Ok(all)
    }

    /// Every member gets all members' words, unless one of them has an error: then the call fails
    /// at all, there with its own error, elsewhere as [`check_announced`] says.
    ///
    /// # Errors
    /// `own`; that of another member; those of messages.
    pub fn agree<const N: usize>(
        &self,
        own: Result<[u64; N]>,
        whose: &str,
    ) -> Result<Vec<[u64; N]>> {
        let code = own.as_ref().map_or_else(Error::code, |_| c::SUCCESS);
        let mut mine = (code as u64).to_ne_bytes().to_vec();
        let words = own.as_ref().copied().unwrap_or([0; N]);
        mine.extend_from_slice(words.map(u64::to_ne_bytes).as_flattened());
        let all = self.allgather(&mine)?;
        own?;
        let all: Vec<u64> =
            all.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word)).collect();
        let each = || all.chunks_exact(1 + N);
        check_announced(each().map(|one| one[0] as i32), whose)?;
        Ok(each().map(|one| std::array::from_fn(|i| one[1 + i])).collect())
    }
}

/// Fails if one of these codes, which ranks have announced, is not `MPI_SUCCESS`.
///
/// # Errors
/// The first such code, with the rank that announced it, which is one of `whose`.
pub fn check_announced(codes: impl IntoIterator<Item = i32>, whose: &str) -> Result<()> {
    match codes.into_iter().enumerate().find(|&(_, code)| code != c::SUCCESS) {
        None => Ok(()),
        Some((rank, code)) => {
            let detail = format!("the call has failed at rank {rank} of {whose}");
            Err(Error::other(code, detail))
        }
    }
}

/// What a member exchanges. Once it has an error (there is no memory, or another member has had an
/// error before), it sends the remaining messages without bytes. So every member completes the
/// exchange, and a member that lacks data has an error too.
struct ExchangedBytes {
    region: Region,
    error: Option<Error>,
}

impl ExchangedBytes {
    fn new(bytes: usize) -> ExchangedBytes {
        match Block::allocate(bytes) {
            Ok(region) => ExchangedBytes { region, error: None },
            Err(error) => ExchangedBytes { region: Region::null(), error: Some(error.into()) },
        }
    }

    fn view(&self, part: Range<usize>) -> View {
        match self.error {
            None => contiguous(&self.region, part.start, part.len()),
            Some(_) => View::empty(),
        }
    }

    fn note(&mut self, result: Result<()>) {
        self.error = self.error.take().or(result.err());
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if self.error.is_none() {
            self.region.offset(at as isize).write_bytes(bytes);
        }
    }

    fn read(self, to: &mut [u8]) -> Result<()> {
        match self.error {
            None => {
                self.region.read_bytes(to);
                Ok(())
            }
            Some(error) => Err(error),
        }
    }
}

/// Returns when all of `members` have called it.
pub fn barrier(members: &Members) -> Result<()> {
    ExchangeMembers::all(members).allgather(&[0]).map(drop)
}

fn contiguous(region: &Region, offset: usize, bytes: usize) -> View {
    region.offset(offset as isize).view(Shape::Contiguous { bytes })
}
