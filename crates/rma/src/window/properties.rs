//! What a window carries besides memory: name, error handler, hints, attributes, group.

use super::counts::WindowCountsBlock;
use super::object::{PredefinedAttributes, Window};
use mica_objects::attribute::AttributeOwner;
use mica_objects::constants as c;
use mica_objects::errhandler::{Errhandler, HandlerFamily};
use mica_objects::error::{Error, Result};
use mica_objects::group::Group;
use mica_objects::info::{Info, MEMORY_ALLOC_KINDS};
use mica_objects::sync::lock;
use std::sync::Arc;

/// The hints that windows know (MPI 5.0, 12.2.1, 12.2.3, 12.7.2), and what holds where the program
/// says nothing. All but `no_locks` are promises that the library does not need.
pub(crate) const HINTS: [(&str, &str); 7] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("mpi_accumulate_granularity", "0"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
];

/// Whether a hint that windows know may have this value. What may not is ignored (MPI 5.0, 10).
fn may_be(key: &str, value: &str) -> bool {
    match key {
        "accumulate_ordering" => {
            let is_pair = |pair| matches!(pair, "rar" | "raw" | "war" | "waw");
            value == "none" || value.split(',').map(str::trim).all(is_pair)
        }
        "accumulate_ops" => matches!(value, "same_op" | "same_op_no_op"),
        "mpi_accumulate_granularity" => value.parse::<u64>().is_ok(),
        _ => matches!(value, "true" | "false"),
    }
}

/// The hints in force for a window that is created with these.
pub(crate) fn hints_in_force(given: &Info) -> Info {
    let info = Info::default();
    for (key, default) in HINTS {
        let value = given.lookup(key).filter(|value| may_be(key, value));
        info.put(key, value.as_deref().unwrap_or(default));
    }
    // What is there, whatever was asked for.
    let (key, kinds) = MEMORY_ALLOC_KINDS;
    info.put(key, kinds);
    info
}

/// Whether a hint says `true`.
pub(crate) fn is_set(info: &Info, key: &str) -> bool {
    info.lookup(key).is_some_and(|value| value == "true")
}

impl Window {
    /// What this window counts of its operations; `None` if it counts where others do.
    pub fn counts_block(&self) -> Option<Arc<WindowCountsBlock>> {
        let block = &self.0.counts_block;
        block.is_own().then(|| Arc::clone(block))
    }

    /// `MPI_Win_get_name`.
    pub fn name(&self) -> String {
        lock(&self.0.properties).name.clone()
    }

    /// `MPI_Win_set_name`. A name that is longer than MPI allows is cut.
    pub fn set_name(&self, name: &str) {
        let end = name.floor_char_boundary(c::MAX_OBJECT_NAME - 1);
        lock(&self.0.properties).name = name[..end].to_owned();
    }

    /// `MPI_Win_get_errhandler`: `MPI_ERRORS_ARE_FATAL` at first.
    pub fn errhandler(&self) -> Errhandler {
        lock(&self.0.properties).errhandler.clone()
    }

    /// `MPI_Win_set_errhandler`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` for the handler of another kind of object.
    pub fn set_errhandler(&self, errhandler: Errhandler) -> Result<()> {
        errhandler.check_family(HandlerFamily::Win)?;
        let old = std::mem::replace(&mut lock(&self.0.properties).errhandler, errhandler);
        drop(old); // after the lock: the last reference frees what the user's closure holds
        Ok(())
    }

    /// `MPI_Win_get_info`: the hints in force, as a new object.
    pub fn info(&self) -> Info {
        lock(&self.0.properties).info.duplicate()
    }

    /// `MPI_Win_set_info`: hints that windows do not know are ignored, as are those that matter
    /// only when the window is created, and values that a hint cannot have.
    pub fn set_info(&self, hints: &Info) {
        let properties = lock(&self.0.properties);
        for (key, value) in hints.entries() {
            let is_known = HINTS.iter().any(|(known, _)| *known == key);
            let is_late = matches!(key.as_str(), "no_locks" | "alloc_shared_noncontig");
            if is_known && !is_late && may_be(&key, &value) {
                properties.info.put(&key, &value);
            }
        }
    }

    /// `MPI_Win_get_group`.
    pub fn group(&self) -> Group {
        self.0.members.group().clone()
    }

    /// The values of the predefined attributes.
    pub fn predefined(&self) -> &PredefinedAttributes {
        &self.0.predefined
    }

    /// `MPI_Win_get_attr`, for a key of the program's.
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`.
    pub fn attribute(&self, keyval: i32) -> Result<Option<usize>> {
        self.0.attributes.get(AttributeOwner::Win, keyval)
    }

    /// `MPI_Win_set_attr`.
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`, also for a predefined attribute; those of the delete callback.
    pub fn set_attribute(&self, keyval: i32, value: usize) -> Result<()> {
        refuse_predefined(keyval)?;
        let attributes = &self.0.attributes;
        attributes.set(AttributeOwner::Win, self.handle(), keyval, value)
    }

    /// `MPI_Win_delete_attr`.
    ///
    /// # Errors
    /// As [`set_attribute`](Self::set_attribute).
    pub fn delete_attribute(&self, keyval: i32) -> Result<()> {
        refuse_predefined(keyval)?;
        let attributes = &self.0.attributes;
        attributes.delete(AttributeOwner::Win, self.handle(), keyval)
    }
}

/// Refuses to change a predefined attribute.
fn refuse_predefined(keyval: i32) -> Result<()> {
    match keyval {
        c::WIN_BASE | c::WIN_SIZE | c::WIN_DISP_UNIT | c::WIN_CREATE_FLAVOR | c::WIN_MODEL => {
            let reason = "a predefined attribute cannot be changed";
            Err(Error::argument(c::ERR_KEYVAL, "win_keyval", keyval, reason))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_a_hint_cannot_have_are_not_in_force() {
        let given = Info::default();
        let pairs = [
            ("no_locks", "perhaps", "false"),
            ("same_size", "true", "true"),
            ("same_disp_unit", "1", "false"),
            ("accumulate_ordering", "raw,waw", "raw,waw"),
            ("accumulate_ops", "any", "same_op_no_op"),
            ("mpi_accumulate_granularity", "-8", "0"),
            ("alloc_shared_noncontig", "true", "true"),
        ];
        for (key, value, _) in pairs {
            given.put(key, value);
        }
        let info = hints_in_force(&given);
        for (key, value, in_force) in pairs {
            let got = info.lookup(key);
            assert_eq!(got.as_deref(), Some(in_force), "{key} = {value}");
        }
        given.put("accumulate_ordering", "raw,later");
        let info = hints_in_force(&given);
        let got = info.lookup("accumulate_ordering");
        assert_eq!(got.as_deref(), Some("rar,raw,war,waw"));
    }
}
