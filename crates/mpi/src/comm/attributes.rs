//! Attributes of communicators: those that the program attaches, and the predefined ones (MPI 5.0,
//! 9.1.2).

use mica_protocol::Engine;

use super::object::Comm;
use crate::attribute::AttributeOwner;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::error_codes;
use crate::process;
use crate::pt2pt;

/// An attribute's value: the user's address-sized integer, or the number that a predefined
/// attribute points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// What the user stored.
    User(usize),
    /// The integer to which C gets a pointer.
    Predefined(i32),
}

/// The value of a predefined attribute: `None` if the key is another one, `Some(None)` if this job
/// has no such value.
fn value(keyval: i32) -> Option<Option<i32>> {
    let of_job = |f: fn(&Engine) -> Option<u32>| {
        process::engine().ok().and_then(f).map(|value| i32::try_from(value).unwrap_or(i32::MAX))
    };
    Some(match keyval {
        c::TAG_UB => Some(pt2pt::TAG_UB),
        // No process is the host; any process can do standard I/O.
        c::HOST => Some(c::PROC_NULL),
        c::IO => Some(c::ANY_SOURCE),
        // CLOCK_MONOTONIC is one clock for all processes of a node; nodes have started at different
        // times.
        c::WTIME_IS_GLOBAL => of_job(|engine| Some(u32::from(engine.nodes() == 1))),
        c::APPNUM => of_job(|engine| engine.appnum()),
        c::UNIVERSE_SIZE => of_job(|engine| Some(engine.size().max(engine.cores() as u32))),
        c::LASTUSEDCODE => Some(error_codes::last_used()),
        _ => return None,
    })
}

/// Refuses to change a predefined attribute.
fn refuse(keyval: i32) -> Result<()> {
    if value(keyval).is_none() {
        return Ok(());
    }
    let reason = "a predefined attribute cannot be changed";
    Err(Error::argument(c::ERR_KEYVAL, "keyval", keyval, reason))
}

impl Comm {
    /// `MPI_Comm_set_attr`.
    pub fn set_attribute(&self, keyval: i32, value: usize) -> Result<()> {
        refuse(keyval)?;
        self.0.attributes.set(AttributeOwner::Comm, self.handle(), keyval, value)
    }

    /// `MPI_Comm_get_attr`.
    pub fn attribute(&self, keyval: i32) -> Result<Option<AttributeValue>> {
        match value(keyval) {
            Some(value) => Ok(value.map(AttributeValue::Predefined)),
            None => {
                let value = self.0.attributes.get(AttributeOwner::Comm, keyval)?;
                Ok(value.map(AttributeValue::User))
            }
        }
    }

    /// `MPI_Comm_delete_attr`.
    pub fn delete_attribute(&self, keyval: i32) -> Result<()> {
        refuse(keyval)?;
        self.0.attributes.delete(AttributeOwner::Comm, self.handle(), keyval)
    }
}
