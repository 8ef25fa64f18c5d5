//! Reactions: operations that must continue when something else completes, whichever call makes the
//! progress.
//!
//! A rank that waits for something else must not delay its peers (MPI 5.0, 2.9). Schedules ensure
//! that by themselves; a reaction is for an operation whose next step is known only when a message
//! has arrived.

use std::fmt::Debug;
use std::sync::Arc;

use crate::state::EngineState;

/// An action to take when something has completed.
pub trait Reaction: Send + Sync + Debug {
    /// Checks whether it is due, and acts. True when it need not be called again.
    fn react(&self, state: &mut EngineState) -> bool;
}

impl EngineState {
    /// Calls `reaction` after completions until it is done.
    pub fn add_reaction(&mut self, reaction: Arc<dyn Reaction>) {
        self.schedules.reactions.push(reaction);
    }

    /// Runs the reactions and schedules that wait for completions.
    #[cold]
    pub(crate) fn run_reactions(&mut self) {
        self.threads.completed = false;
        let mut reactions = std::mem::take(&mut self.schedules.reactions);
        reactions.retain(|reaction| !reaction.react(self));
        reactions.append(&mut self.schedules.reactions); // those that the others have added
        self.schedules.reactions = reactions;
        self.advance_schedules();
    }
}
