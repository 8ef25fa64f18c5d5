//! Making and freeing windows (MPI 5.0, 12.2).
//!
//! All ranks of the communicator agree in exchanges, each of which carries what went wrong, so that
//! a call fails at all ranks or at none:
//!
//! 1. what each rank asks for: bytes, displacement unit;
//! 2. where it lies: each rank allocates or exposes its memory and says where; the first rank of
//!    the node also allocates the locks (and the memory of a contiguous shared window);
//! 3. whether all ranks could map the others' memory, and whether any rank needs messages to reach
//!    another;
//! 4. if one does: whether all ranks serve requests.
//!
//! A window is freed in the reverse order: the ranks meet, drop their references, and each owner
//! returns its memory to the system.

use std::sync::{Arc, Mutex, OnceLock};

use mica_channel::direct::PublishedBuffer;
use mica_memory::{Block, Region};
use mica_node::window::{OwnCounts, OwnLocks, PartUser, WindowLocks};
use mica_protocol::Engine;

use super::choice::{LockService, WindowAccess, WindowChoices};
use super::counts::WindowCountsBlock;
use super::object::{
    EpochsLock, PredefinedAttributes, WINDOWS, Window, WindowInner, WindowProperties,
};
use super::properties::{hints_in_force, is_set};
use crate::epoch::{AccessEpoch, Epochs, wrong_epoch};
use crate::memory::access::{AccessFlags, TargetFlag};
use crate::memory::attached::{OwnAttachments, PeerAttachments};
use crate::memory::movable::{CreatedMemory, CreatedTarget, MovableMemory};
use crate::memory::node_peers::NodePeers;
use crate::memory::target::{TargetMemory, WindowTarget};
use crate::remote::{RemoteParts, RemoteSide};
use mica_collective::exchange::ExchangeMembers;
use mica_collective::members::Members;
use mica_objects::attribute::AttributeSet;
use mica_objects::constants as c;
use mica_objects::errhandler::Errhandler;
use mica_objects::error::{Error, Result};
use mica_objects::info::Info;
use mica_objects::process;

/// What this rank asks for.
#[derive(Debug)]
pub enum WindowSpec {
    /// `MPI_Win_create`: the program's memory.
    Create {
        /// The memory; its bounds are the window's.
        memory: Region,
        /// Its bytes.
        bytes: i64,
        /// Displacement unit in bytes.
        unit: i64,
    },
    /// `MPI_Win_allocate`: memory of the library.
    Allocate {
        /// Bytes.
        bytes: i64,
        /// Displacement unit in bytes.
        unit: i64,
    },
    /// `MPI_Win_allocate_shared`: memory that all ranks of the window load and store.
    Shared {
        /// Bytes.
        bytes: i64,
        /// Displacement unit in bytes.
        unit: i64,
    },
    /// `MPI_Win_create_dynamic`: memory that is attached later.
    Dynamic,
}

/// What a rank announces in an exchange.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Announcement {
    pub words: [u64; 3],
}

impl WindowSpec {
    /// Refuses a shared window of ranks that share no memory.
    fn check_node_peers(&self, node_peers: &NodePeers, members: &Members) -> Result<()> {
        let all = members.size();
        let number = node_peers.window_ranks.len();
        if self.is_shared() && number < all {
            let what_to_do = match node_peers.is_shared {
                true => {
                    "make a communicator of ranks that do (MPI_Comm_split_type with \
                         MPI_COMM_TYPE_SHARED)"
                }
                false => {
                    "raise the limit of the size of files (ulimit -f) that was in force when \
                          the job started"
                }
            };
            let detail = format!(
                "of the {all} ranks of the communicator, this one shares memory with {number}; \
                 {what_to_do}"
            );
            return Err(Error::other(c::ERR_RMA_SHARED, detail));
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        matches!(self, WindowSpec::Shared { .. })
    }

    fn flavor(&self) -> i32 {
        match self {
            WindowSpec::Create { .. } => c::WIN_FLAVOR_CREATE,
            WindowSpec::Allocate { .. } => c::WIN_FLAVOR_ALLOCATE,
            WindowSpec::Shared { .. } => c::WIN_FLAVOR_SHARED,
            WindowSpec::Dynamic => c::WIN_FLAVOR_DYNAMIC,
        }
    }

    /// Bytes and displacement unit, checked.
    fn sizes(&self) -> Result<(usize, usize)> {
        let (bytes, unit) = match *self {
            WindowSpec::Create { bytes, unit, .. }
            | WindowSpec::Allocate { bytes, unit }
            | WindowSpec::Shared { bytes, unit } => (bytes, unit),
            WindowSpec::Dynamic => (0, 1),
        };
        let reason = "a size is not negative";
        let size = usize::try_from(bytes)
            .map_err(|_| Error::argument(c::ERR_SIZE, "size", bytes, reason))?;
        if unit <= 0 || unit > i64::from(i32::MAX) {
            let reason = "a displacement unit is positive, and fits an int";
            return Err(Error::argument(c::ERR_DISP, "disp_unit", unit, reason));
        }
        if let WindowSpec::Create { memory, .. } = self
            && memory.address() == 0
            && size > 0
        {
            let reason = format!("a null address has no {size} bytes");
            return Err(Error::argument(c::ERR_BASE, "base", "NULL", reason));
        }
        Ok((size, unit as usize))
    }
}

/// This rank's memory of a window that is being made.
pub(crate) struct OwnMemory {
    pub region: Region,
    /// What the peers open it by.
    words: [u64; 2],
    published: Option<PublishedBuffer>,
    pub attachments: Option<Arc<OwnAttachments>>,
    /// Those that this rank has allocated for its node peers.
    locks: Option<WindowLocks>,
}

/// What all exchanges of a call share.
pub(crate) struct Creation<'a> {
    pub engine: &'a Engine,
    pub members: &'a Arc<Members>,
    spec: &'a WindowSpec,
    node_peers: Arc<NodePeers>,
    pub sizes: Sizes,
    pub choices: WindowChoices,
    has_locks: bool,
    /// The segments of a shared window lie one after the other.
    is_contiguous: bool,
}

/// What all ranks have asked for.
pub(crate) struct Sizes {
    pub bytes: Vec<usize>,
    units: Vec<usize>,
    /// Each rank reaches all memory of its node peers, wherever it lies.
    reach_all: bool,
}

/// The properties of a window that is made with these hints.
fn initial_properties(hints: &Info) -> WindowProperties {
    WindowProperties {
        name: String::new(),
        errhandler: Errhandler::ARE_FATAL,
        info: hints_in_force(hints),
    }
}

impl Window {
    /// Makes a window of the ranks of an intra-communicator. Blocks until all of them have called
    /// it.
    ///
    /// # Errors
    /// `MPI_ERR_SIZE`, `MPI_ERR_DISP`, `MPI_ERR_BASE`;
    /// `MPI_ERR_NO_MEM` with the bytes wanted; `MPI_ERR_RMA_SHARED` for a shared window of ranks
    /// that share no memory. If the call fails at one rank, it fails at all.
    pub fn create(parent: &Members, spec: &WindowSpec, hints: &Info) -> Result<Window> {
        let context = ExchangeMembers::all(parent).agree_on_context()?;
        let members = &Arc::new(parent.in_context(context, 0..0));
        let engine = process::engine()?;
        let choices = WindowChoices::in_force(engine);
        let node_peers = Arc::new(NodePeers::of(engine, members, spec.is_shared()));
        let wanted = choices.as_ref().map_err(Error::clone).and_then(|_| {
            let sizes = spec.sizes()?;
            spec.check_node_peers(&node_peers, members)?;
            Ok((sizes, node_peers.reach_all(engine, members)?))
        });
        let creation = Creation {
            engine,
            members,
            spec,
            node_peers: Arc::clone(&node_peers),
            sizes: Sizes::agree(members, wanted)?,
            choices: choices?,
            has_locks: !is_set(hints, "no_locks"),
            is_contiguous: spec.is_shared() && !is_set(hints, "alloc_shared_noncontig"),
        };
        let own = creation.own_memory();
        let announced = own.as_ref().map(OwnMemory::announcement);
        let places = agree(members, announced.map_err(Error::clone))?;
        let opened = creation.open_all(&places, own?);
        // From the last exchange on nothing fails at one rank alone.
        let handle = WINDOWS.reserve();
        let needs = match (&opened, &handle) {
            (Ok((targets, _, own)), Ok(_)) => Ok(creation.needs(targets, own)),
            (Err(error), _) | (_, Err(error)) => Err(error.clone()),
        };
        let all_needs = agree(members, needs.as_ref().copied().map_err(Error::clone));
        if let (Ok(own), Err(_)) = (&needs, &all_needs) {
            creation.unregister(*own);
        }
        let (all_needs, (targets, locks, own), handle) = (all_needs?, opened?, handle?);
        let counts_block = WindowCountsBlock::take(engine);
        let mut choices = creation.choices;
        let remote = match all_needs.iter().any(Announcement::needs_messages) {
            false => None,
            true => {
                choices.locking = choices.locking.with_servers();
                let parts = RemoteParts {
                    counters: counts_block.words(),
                    own: creation.own_target(&targets, &own, &locks),
                    locks: Arc::clone(&locks),
                    node_peers: Arc::clone(&node_peers),
                    design: choices.locking.design,
                    registered: creation.registered(&all_needs),
                };
                Some(serve_at_all(members, RemoteSide::open(members, parts))?)
            }
        };
        let attachments = own.attachments.clone();
        let created = creation.created(own, &locks);
        let predefined = creation.predefined(&targets[members.rank()].memory);
        let epochs = Epochs::new(OwnCounts::new(&locks, node_peers.me));
        let window = handle.fill(|handle| {
            Window(Arc::new(WindowInner {
                handle,
                members: Arc::clone(members),
                flags: AccessFlags::closed(),
                targets,
                epochs: EpochsLock::under(WINDOWS.mode(), epochs),
                locks,
                choices,
                has_locks: creation.has_locks,
                node_peers,
                counters: counts_block.words(),
                counts_block,
                remote,
                created,
                attachments,
                attributes: AttributeSet::default(),
                predefined,
                properties: Mutex::new(initial_properties(hints)),
            }))
        });
        window.offer_help(engine);
        Ok(window)
    }

    /// `MPI_Win_free`: deletes the attributes, and frees the window. Blocks until all ranks have
    /// called it.
    ///
    /// # Errors
    /// `MPI_ERR_WIN`; `MPI_ERR_RMA_SYNC` in an epoch that is not a fence's; those of the delete
    /// callbacks. Those of operations under way, after which the window is freed nevertheless.
    pub fn free(handle: u32) -> Result<()> {
        let window = Window::resolve(handle)?;
        {
            let epochs = window.epochs();
            if !matches!(epochs.access, AccessEpoch::None | AccessEpoch::Fence { .. }) {
                let described = epochs.describe();
                return Err(wrong_epoch(format!("{described}; end it before MPI_Win_free")));
            }
            if epochs.is_exposed {
                let detail = "the window is exposed by MPI_Win_post; call MPI_Win_wait first";
                return Err(wrong_epoch(detail.to_owned()));
            }
        }
        window.0.attributes.delete_all(handle)?;
        let flushed = window.flush_remote();
        // Before another rank can free the locks, in which this one says what it has migrated.
        process::engine()?.remove_target_copier(window.0.members.context());
        window.meet_last()?;
        if let Some(remote) = &window.0.remote {
            remote.close()?;
        }
        window.discard();
        flushed
    }

    /// `MPI_Win_shared_query`: bytes, displacement unit and address of the memory of `rank`, or for
    /// `MPI_PROC_NULL` of the first rank that has any.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`; `MPI_ERR_RMA_FLAVOR` for a dynamic window.
    pub fn shared_query(&self, rank: i32) -> Result<(usize, usize, usize)> {
        if self.is_dynamic() {
            let detail = "a dynamic window has no memory of its own";
            return Err(Error::other(c::ERR_RMA_FLAVOR, detail));
        }
        let target = match self.target(rank).map_err(|e| e.renamed(&[("target_rank", "rank")]))? {
            Some(target) => target,
            None => {
                let all = &self.0.targets;
                all.iter().position(|target| target.bytes > 0).unwrap_or(0)
            }
        };
        let target = &self.0.targets[target];
        Ok(match &target.memory {
            TargetMemory::Mapped(region) => (target.bytes, target.unit as usize, region.address()),
            TargetMemory::Created(_) => match target.mapped.get() {
                Some(region) => (target.bytes, target.unit as usize, region.address()),
                // Not reached by loads and stores, or not yet (MPI 5.0, 12.2.3).
                None => (0, target.unit as usize, 0),
            },
            TargetMemory::Empty | TargetMemory::Attached(_) | TargetMemory::Messages { .. } => {
                (0, target.unit as usize, 0)
            }
        })
    }

    fn is_dynamic(&self) -> bool {
        self.0.attachments.is_some()
    }
}

impl Sizes {
    /// What all ranks have asked for, given what this one asks for, and whether it reaches all of
    /// its node peers' memory.
    fn agree(members: &Members, own: Result<((usize, usize), bool)>) -> Result<Sizes> {
        let own = own.map(|((bytes, unit), reaches_all)| Announcement {
            words: [bytes as u64, unit as u64, u64::from(reaches_all)],
        });
        let all = agree(members, own)?;
        let word = |at: usize| all.iter().map(move |a| a.words[at] as usize);
        Ok(Sizes {
            bytes: word(0).collect(),
            units: word(1).collect(),
            reach_all: word(2).all(|reaches| reaches == 1),
        })
    }

    /// Where the segments of a contiguous shared window begin, and the bytes of all.
    fn offsets(&self) -> Result<(Vec<usize>, usize)> {
        let mut end = 0_usize;
        let mut offsets = Vec::with_capacity(self.bytes.len());
        for &bytes in &self.bytes {
            offsets.push(end);
            end = end
                .checked_add(bytes)
                .ok_or(Error::OutOfMemory { bytes: u64::MAX, what: "a shared window" })?;
        }
        Ok((offsets, end))
    }
}

impl Creation<'_> {
    /// This rank's memory, if the program has given it.
    fn created(&self, own: OwnMemory, locks: &Arc<WindowLocks>) -> Option<Arc<CreatedMemory>> {
        let (address, bytes) = (own.region.address(), self.sizes.bytes[self.members.rank()]);
        let (locks, me) = (Arc::clone(locks), self.node_peers.me);
        let published = Mutex::new(own.published?);
        Some(Arc::new(CreatedMemory { address, bytes, published, locks, me }))
    }

    /// The attributes of this rank's window, whose memory this is.
    fn predefined(&self, own: &TargetMemory) -> PredefinedAttributes {
        let (Sizes { bytes, units, .. }, me) = (&self.sizes, self.members.rank());
        PredefinedAttributes {
            base: match own {
                TargetMemory::Mapped(region) => region.address(),
                _ => 0,
            },
            size: bytes[me] as isize,
            disp_unit: units[me] as i32,
            flavor: self.spec.flavor(),
            model: c::WIN_UNIFIED,
        }
    }

    /// Allocates or exposes this rank's memory.
    fn own_memory(&self) -> Result<OwnMemory> {
        let me = self.members.rank();
        let bytes = self.sizes.bytes[me];
        let numbers = self.node_peers.numbers();
        let mut own = OwnMemory {
            region: Region::null(),
            words: [0, 0],
            published: None,
            attachments: None,
            locks: None,
        };
        if !self.node_peers.is_shared {
            own.locks = Some(WindowLocks::private(numbers)?);
        } else if self.node_peers.me == 0 {
            own.locks = Some(self.engine.allocate_window_locks(numbers)?);
        }
        match self.spec {
            WindowSpec::Create { memory, .. } => {
                let access = self.engine.peer_access();
                // Where the kernel's copies do not reach it, migration is the only way.
                let published = match self.sizes.reach_all {
                    true => access.expose_in_place(memory.address(), bytes),
                    false => access.expose_only_path(memory.address(), bytes),
                };
                own.words = published.words();
                own.published = Some(published);
                own.region = memory.clone();
            }
            WindowSpec::Shared { .. } if self.is_contiguous => {
                let (_, all) = self.sizes.offsets()?;
                if me == 0 && all > 0 {
                    self.allocate(&mut own, all)?;
                }
            }
            WindowSpec::Allocate { .. } | WindowSpec::Shared { .. } => {
                if bytes > 0 {
                    self.allocate(&mut own, bytes)?;
                }
            }
            WindowSpec::Dynamic => {
                let attachments =
                    OwnAttachments::new(self.engine, WINDOWS.mode(), self.node_peers.is_shared)?;
                own.words = [attachments.offset(), 0];
                own.attachments = Some(Arc::new(attachments));
            }
        }
        Ok(own)
    }

    fn allocate(&self, own: &mut OwnMemory, bytes: usize) -> Result<()> {
        if !self.node_peers.is_shared {
            own.region = Block::allocate(bytes)?;
            return Ok(());
        }
        let window = self.engine.allocate_window(bytes, PartUser::Program)?;
        own.words = [window.offset(), 0];
        own.region = window.region();
        Ok(())
    }

    /// Maps the memory and the locks of all node peers.
    fn open_all(
        &self,
        places: &[Announcement],
        mut own: OwnMemory,
    ) -> Result<(Box<[WindowTarget]>, Arc<WindowLocks>, OwnMemory)> {
        let first = self.node_peers.window_ranks[0];
        let locks = Arc::new(match own.locks.take() {
            Some(locks) => locks,
            None => self.engine.open_window_locks(
                self.members.peer(first),
                places[first].words[2],
                self.node_peers.numbers(),
            )?,
        });
        let memories: Vec<TargetMemory> = match self.is_contiguous {
            true => self.open_segments(places[first].words[0], &own)?,
            false => {
                let open = |rank: usize| self.open_one(rank, places[rank].words, &own, &locks);
                (0..self.members.size()).map(open).collect::<Result<_>>()?
            }
        };
        let targets = memories.into_iter().enumerate();
        let targets = targets.map(|(rank, memory)| self.target(rank, memory, &locks));
        Ok((targets.collect(), locks, own))
    }

    fn target(&self, rank: usize, memory: TargetMemory, locks: &Arc<WindowLocks>) -> WindowTarget {
        let bytes = self.sizes.bytes[rank];
        let number = self.node_peers.number(rank);
        let LockService { design, by_thread } = self.choices.locking;
        let own_locks = number.filter(|_| !self.choices.sends_accumulates());
        let mapped = OnceLock::new();
        let memory = match memory {
            // Whole pages, or the parts of all ranks, have more.
            TargetMemory::Mapped(region) => {
                let part = region.piece(0, bytes).expect("has the window's bytes").to_region();
                TargetMemory::Mapped(mapped.get_or_init(|| part).clone())
            }
            other => other,
        };
        WindowTarget {
            mapped,
            memory,
            bytes,
            unit: self.sizes.units[rank] as u32,
            number,
            locks: own_locks.map(|number| {
                let design = (self.has_locks && !by_thread).then_some(design);
                OwnLocks::new(locks, design, number, self.node_peers.me)
            }),
            flag: TargetFlag::closed(),
        }
    }

    /// This rank's part of the window, once more.
    fn own_target(
        &self,
        targets: &[WindowTarget],
        own: &OwnMemory,
        locks: &Arc<WindowLocks>,
    ) -> WindowTarget {
        let me = self.members.rank();
        let memory = match &targets[me].memory {
            // In a contiguous shared window, memory that the first rank has allocated.
            TargetMemory::Mapped(region) => TargetMemory::Mapped(region.clone()),
            _ => own_part(own),
        };
        self.target(me, memory, locks)
    }

    /// The segments of a contiguous shared window, which the first rank has allocated at `offset`.
    fn open_segments(&self, offset: u64, own: &OwnMemory) -> Result<Vec<TargetMemory>> {
        let (offsets, all) = self.sizes.offsets()?;
        let whole = match (self.members.rank(), all) {
            (_, 0) => Region::null(),
            (0, _) => own.region.clone(),
            _ => {
                let user = PartUser::Program;
                let window = self.engine.open_window(self.members.peer(0), offset, all, user)?;
                window.region()
            }
        };
        let segment = |&at: &usize| TargetMemory::Mapped(whole.offset(at as isize));
        Ok(offsets.iter().map(segment).collect())
    }

    /// Opens the memory of `rank`, which has announced it by these words.
    fn open_one(
        &self,
        rank: usize,
        [a, b, _]: [u64; 3],
        own: &OwnMemory,
        locks: &Arc<WindowLocks>,
    ) -> Result<TargetMemory> {
        if rank == self.members.rank() {
            return Ok(own_part(own));
        }
        let (peer, bytes) = (self.members.peer(rank), self.sizes.bytes[rank]);
        let by_messages =
            TargetMemory::Messages { is_dynamic: matches!(self.spec, WindowSpec::Dynamic) };
        let is_compared = self.choices.access == WindowAccess::Messages && !self.spec.is_shared();
        let Some(number) = self.node_peers.number(rank).filter(|_| !is_compared) else {
            return Ok(by_messages);
        };
        let context = self.members.context();
        match self.spec {
            // It may attach memory that only the kernel reaches.
            WindowSpec::Dynamic if !self.engine.peer_access().reaches_all_of(peer) => {
                Ok(by_messages)
            }
            WindowSpec::Dynamic => {
                let attached = PeerAttachments::of(peer, a, context);
                Ok(TargetMemory::Attached(Box::new(attached)))
            }
            _ if bytes == 0 => Ok(TargetMemory::Empty),
            WindowSpec::Create { .. } => {
                // Where neither migration nor the kernel's copies work, by messages.
                let opened = self.engine.peer_access().open(peer, [a, b], bytes);
                Ok(match opened {
                    None => by_messages,
                    Some(buffer) => match buffer.region(0, bytes) {
                        Some(region) if buffer.is_window() => TargetMemory::Mapped(region),
                        _ => {
                            let (owner, place) = ((peer, context), (0, bytes));
                            let memory = MovableMemory::new(self.engine, buffer, owner, place);
                            let created = CreatedTarget::new(memory, bytes, locks, number);
                            TargetMemory::Created(Box::new(created))
                        }
                    },
                })
            }
            WindowSpec::Allocate { .. } | WindowSpec::Shared { .. } => {
                let window = self.engine.open_window(peer, a, bytes, PartUser::Program)?;
                Ok(TargetMemory::Mapped(window.region()))
            }
        }
    }
}

/// This rank's side, if all ranks have theirs: none is left with a window that others lack.
fn serve_at_all(members: &Members, side: Result<Arc<RemoteSide>>) -> Result<Arc<RemoteSide>> {
    let answer = side.as_ref().map(|_| Announcement::default()).map_err(Error::clone);
    if let (Err(error), Ok(side)) = (agree(members, answer), &side) {
        side.close()?;
        return Err(error);
    }
    side
}

/// This rank's own memory as its operations see it.
fn own_part(own: &OwnMemory) -> TargetMemory {
    match &own.attachments {
        Some(attachments) => {
            let own = PeerAttachments::Own(Arc::clone(attachments));
            TargetMemory::Attached(Box::new(own))
        }
        None => TargetMemory::Mapped(own.region.clone()),
    }
}

impl OwnMemory {
    fn announcement(&self) -> Announcement {
        let locks = self.locks.as_ref().map_or(0, WindowLocks::offset);
        Announcement { words: [self.words[0], self.words[1], locks] }
    }
}

/// Exchanges what each rank has to announce. Fails at all ranks if one has an error: with its own
/// error there, and with the class and the rank at the others.
fn agree(members: &Members, own: Result<Announcement>) -> Result<Vec<Announcement>> {
    let own = own.map(|announcement| announcement.words);
    let all = ExchangeMembers::all(members).agree(own, "the communicator")?;
    Ok(all.into_iter().map(|words| Announcement { words }).collect())
}
