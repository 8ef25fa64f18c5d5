//! Collectives of messages in which ranks name different roots, as between nodes: their tags differ
//! ([`super::tag`]), and what was sent to the wrong root is found by the next round of a
//! collective on the communicator.

use std::sync::atomic::Ordering;

use mica_protocol::QueuedMessage;

use super::Members;
use super::tag::{CollectiveTag, ROOTS};
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::process;

/// Messages that are compared at a time.
const COMPARED: usize = 64;

impl Members {
    /// The tag of this process's next collective operation here, in which it names this root. All
    /// members call collectives in the same order, so they agree on it if they agree on the root.
    #[inline]
    pub fn next_collective_tag(&self, root: Option<usize>) -> i32 {
        // Relaxed: only the number matters, no other memory depends on it.
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        self.named_roots.name(number, root).value()
    }

    /// Looks whether another member has named another root in one of the last collectives here.
    ///
    /// # Errors
    /// `MPI_ERR_ROOT`, once for each such collective.
    #[inline]
    pub fn check_roots(&self) -> Result<()> {
        let context = self.collective_context();
        match process::engine()?.unexpected_of(context) {
            0 => Ok(()),
            _ => self.compare_roots(context),
        }
    }

    #[cold]
    fn compare_roots(&self, context: u64) -> Result<()> {
        let queued = process::engine()?.queued_messages(context, COMPARED);
        let next = self.started.load(Ordering::Relaxed);
        let roots = &self.named_roots;
        let unlike = |message: &QueuedMessage| {
            let theirs = CollectiveTag::of(message.tag)?;
            Some((message.source, theirs, roots.unlike(theirs, next)?))
        };
        let Some((rank, theirs, ours)) = queued.iter().find_map(unlike) else {
            return Ok(());
        };
        roots.set_said(theirs.number());
        let detail = format!(
            "collective {} on this communicator: rank {rank} of the job has named {}, rank {} {} \
             (modulo {ROOTS})",
            theirs.number(),
            theirs.root_in_words(),
            self.me(),
            ours.root_in_words()
        );
        Err(Error::other(c::ERR_ROOT, detail))
    }
}
