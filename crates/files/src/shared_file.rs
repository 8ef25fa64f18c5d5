//! What accesses need of an open file, apart from its handle, pointers and view.

use std::sync::{Arc, Mutex};

use mica_collective::members::Members;
use mica_memory::{Block, OutOfMemory, Region, View};
use mica_objects::sync::lock;
use mica_protocol::CounterRef;

use crate::access::{FileAccess, staging};
use crate::guard::FileGuard;
use crate::hints::Hints;
use crate::pieces::HEADER;
use crate::storage::Storage;
use crate::view::FileView;

/// Whose rank an error of another process names.
pub const PROCESSES: &str = "the file's processes";

/// An open file.
#[derive(Debug)]
pub struct SharedFile {
    /// Its processes, in a context of the file's own: its traffic meets no other.
    pub members: Arc<Members>,
    /// As the program gave it, for messages.
    pub name: String,
    /// Where its bytes are.
    pub storage: Arc<dyn Storage>,
    /// What keeps accesses apart.
    pub guard: FileGuard,
    /// Ranks that access the file for all, where the hints say nothing.
    pub aggregators: usize,
    /// The hints in force.
    pub hints: Mutex<Hints>,
    /// Where this rank counts.
    pub counters: CounterRef,
    /// Memory for collective accesses, which take turns.
    pub aggregator_memory: Mutex<Option<AggregatorMemory>>,
}

/// Memory of a window, and its bytes as a message.
pub type WindowMemory = (Region, View);

/// What an aggregator needs memory for before it can promise the others to take part.
#[derive(Clone, Debug)]
pub struct AggregatorMemory {
    /// Those of a round and the next.
    pub windows: [WindowMemory; 2],
    /// For each rank, the beginning of its list of pieces.
    pub heads: Region,
}

impl SharedFile {
    /// The file, as an access to this view of it needs it.
    pub fn access<'a>(&'a self, view: &'a FileView) -> FileAccess<'a> {
        FileAccess {
            storage: &*self.storage,
            guard: &self.guard,
            view,
            hints: self.hints(),
            name: &self.name,
            counters: &self.counters,
        }
    }

    /// The hints in force.
    pub fn hints(&self) -> Hints {
        *lock(&self.hints)
    }

    /// How many ranks access the file for all.
    pub fn aggregators(&self) -> usize {
        self.hints().aggregators.unwrap_or(self.aggregators)
    }

    /// The memory of an aggregator. It stays until the file is closed, or windows get another
    /// size.
    ///
    /// # Errors
    /// When there is none.
    pub fn aggregator_memory(&self) -> Result<AggregatorMemory, OutOfMemory> {
        let bytes = self.hints().exchange_block as usize;
        let kept = &mut *lock(&self.aggregator_memory);
        match kept {
            Some(memory) if memory.windows[0].1.len() == bytes => Ok(memory.clone()),
            _ => {
                *kept = None;
                let heads = Block::allocate(self.members.size() * HEADER)?;
                let windows = [staging(bytes)?, staging(bytes)?];
                Ok(kept.insert(AggregatorMemory { windows, heads }).clone())
            }
        }
    }
}
