//! Reactions: operations that have to go on when something else completes, whatever call makes the
//! progress.
//!
//! A rank that waits for something else must not hold up its peers (MPI 5.0, 2.9). Schedules see to
//! that themselves; a reaction is for an operation whose next step is known only when a message has
//! come.

use std::fmt::Debug;
use std::sync::Arc;

use crate::state::EngineState;

/// What goes on when something has completed.
pub trait Reaction: Send + Sync + Debug {
    /// Looks whether its time has come, and acts. True when it need not be called again.
    fn react(&self, state: &mut EngineState) -> bool;
}

impl EngineState {
    /// Calls `reaction` after completions until it is done.
    pub fn add_reaction(&mut self, reaction: Arc<dyn Reaction>) {
        self.schedules.reactions.push(reaction);
    }

    /// Lets everything go on that waits for completions.
    #[cold]
    pub(crate) fn follow_up(&mut self) {
        self.attention.completed = false;
        let mut reactions = std::mem::take(&mut self.schedules.reactions);
        reactions.retain(|reaction| !reaction.react(self));
        reactions.append(&mut self.schedules.reactions); // those that the others have added
        self.schedules.reactions = reactions;
        self.advance_schedules();
    }
}
