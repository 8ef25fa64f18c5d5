//! Attributes: what libraries keep on communicators, datatypes and windows (MPI 5.0, 7.7).
//!
//! A key ([`create_keyval`]) defines what happens to its values when their object is duplicated or
//! freed. Objects embed an [`AttributeSet`]. Callbacks run without any lock held, so they may call
//! MPI, also on the same object.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::sync::lock;

/// What kind of object carries an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeOwner {
    /// A communicator.
    Comm,
    /// A datatype.
    Type,
    /// A window.
    Win,
}

/// The user's copy callback: (old object's handle, keyval, value) to the value in the new object,
/// none, or an error code.
pub type UserCopy =
    Arc<dyn Fn(u32, i32, usize) -> std::result::Result<Option<usize>, i32> + Send + Sync>;

/// The user's delete callback: (object's handle, keyval, value) to an error code or `MPI_SUCCESS`.
pub type UserDelete = Arc<dyn Fn(u32, i32, usize) -> i32 + Send + Sync>;

/// What a duplicate gets.
#[derive(Clone)]
pub enum CopyCallback {
    /// Nothing (`MPI_COMM_NULL_COPY_FN` and its variants).
    Null,
    /// The same value (`MPI_COMM_DUP_FN` and its variants).
    Dup,
    /// What the user's function returns.
    User(UserCopy),
}

/// What happens when an attribute is deleted or overwritten.
#[derive(Clone)]
pub enum DeleteCallback {
    /// Nothing (`MPI_COMM_NULL_DELETE_FN` and its variants).
    Null,
    /// The user's function is called.
    User(UserDelete),
}

struct Keyval {
    number: i32,
    owner: AttributeOwner,
    copy: CopyCallback,
    delete: DeleteCallback,
    uses: Mutex<Uses>,
}

/// A key's number is given to another key only when it was freed and no object has a value for it.
#[derive(Default)]
struct Uses {
    freed: bool,
    attached: usize,
}

static KEYVALS: HandleTable<Arc<Keyval>> = HandleTable::new(HandleKind::Keyval);

/// `MPI_Comm_create_keyval` and its variants: the new key's number.
///
/// # Errors
/// `MPI_ERR_NO_MEM` when no number is left.
pub fn create_keyval(
    owner: AttributeOwner,
    copy: CopyCallback,
    delete: DeleteCallback,
) -> Result<i32> {
    let make = |handle| {
        let uses = Mutex::default();
        Arc::new(Keyval { number: handle as i32, owner, copy, delete, uses })
    };
    Ok(KEYVALS.insert_with(make)?.number)
}

/// `MPI_Comm_free_keyval` and its variants: values that objects hold stay, and so do the callbacks
/// for them. Freeing a key again, through another copy of its number, is no error, as in MPICH.
pub fn free_keyval(owner: AttributeOwner, number: i32) -> Result<()> {
    if KEYVALS.had(number as u32) {
        return Ok(());
    }
    let keyval = keyval(owner, number)?;
    let mut uses = lock(&keyval.uses);
    uses.freed = true;
    let last = uses.attached == 0;
    drop(uses);
    if last {
        KEYVALS.remove(number as u32);
    }
    Ok(())
}

impl Keyval {
    fn attach(&self) {
        lock(&self.uses).attached += 1;
    }

    fn detach(&self) {
        let mut uses = lock(&self.uses);
        uses.attached -= 1;
        let last = uses.freed && uses.attached == 0;
        drop(uses);
        if last {
            KEYVALS.remove(self.number as u32);
        }
    }
}

/// The key of this number, which may have been freed but lives on in objects.
fn keyval(owner: AttributeOwner, number: i32) -> Result<Arc<Keyval>> {
    if number == c::KEYVAL_INVALID {
        let reason = "a key is needed";
        return Err(Error::argument(c::ERR_KEYVAL, "keyval", "MPI_KEYVAL_INVALID", reason));
    }
    let keyval = KEYVALS.get(number as u32).ok_or_else(|| {
        let reason = "this is not an attribute key, or it has been freed";
        Error::argument(c::ERR_KEYVAL, "keyval", number, reason)
    })?;
    if keyval.owner != owner {
        let reason = format!("this is a key for {}, not for {owner}", keyval.owner);
        return Err(Error::argument(c::ERR_KEYVAL, "keyval", number, reason));
    }
    Ok(keyval)
}

fn usable_keyval(owner: AttributeOwner, number: i32) -> Result<Arc<Keyval>> {
    let keyval = keyval(owner, number)?;
    if lock(&keyval.uses).freed { Err(freed(number)) } else { Ok(keyval) }
}

#[cold]
fn freed(number: i32) -> Error {
    Error::argument(c::ERR_KEYVAL, "keyval", number, "this key has been freed")
}

/// The attributes of one object, in the order in which they were set.
#[derive(Default)]
pub struct AttributeSet {
    entries: Mutex<Vec<AttributeEntry>>,
}

#[derive(Clone)]
struct AttributeEntry {
    keyval: Arc<Keyval>,
    value: usize,
}

impl AttributeEntry {
    fn delete(&self, object: u32) -> Result<()> {
        match &self.keyval.delete {
            DeleteCallback::Null => Ok(()),
            DeleteCallback::User(delete) => match delete(object, self.keyval.number, self.value) {
                c::SUCCESS => Ok(()),
                code => Err(Error::Callback { code }),
            },
        }
    }
}

impl AttributeSet {
    /// Stores a value; a previous value is deleted first, with its callback.
    pub fn set(&self, owner: AttributeOwner, object: u32, number: i32, value: usize) -> Result<()> {
        let keyval = usable_keyval(owner, number)?;
        if let Some(old) = self.find(number) {
            old.delete(object)?;
        }
        let mut entries = lock(&self.entries);
        match entries.iter_mut().find(|entry| entry.keyval.number == number) {
            Some(entry) => entry.value = value,
            None => {
                keyval.attach();
                entries.push(AttributeEntry { keyval, value });
            }
        }
        Ok(())
    }

    /// The value for a key, if there is one.
    pub fn get(&self, owner: AttributeOwner, number: i32) -> Result<Option<usize>> {
        keyval(owner, number)?;
        Ok(self.find(number).map(|entry| entry.value))
    }

    /// Deletes the value for a key, with its callback, if there is one. The value stays if the
    /// callback refuses.
    pub fn delete(&self, owner: AttributeOwner, object: u32, number: i32) -> Result<()> {
        keyval(owner, number)?;
        match self.find(number) {
            Some(entry) => {
                entry.delete(object)?;
                self.drop_entry(number);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Deletes all values, the youngest first. Stops at the first callback that refuses.
    pub fn delete_all(&self, object: u32) -> Result<()> {
        loop {
            // Looked up anew each time: a callback may set or delete attributes.
            let Some(entry) = lock(&self.entries).last().cloned() else {
                return Ok(());
            };
            entry.delete(object)?;
            self.drop_entry(entry.keyval.number);
        }
    }

    /// The set of a duplicate that has no handle yet; `new_object` stands in for it where a delete
    /// callback needs one.
    pub fn duplicate(&self, object: u32, new_object: u32) -> Result<AttributeSet> {
        let new = AttributeSet::default();
        self.copy_into(object, &new, new_object)?;
        Ok(new)
    }

    /// Fills the set `new` of a duplicate, whose handle is `new_object`, by the copy callbacks,
    /// oldest value first. If one fails, the values copied so far are deleted again, and its error
    /// is the duplication's.
    pub fn copy_into(&self, object: u32, new: &AttributeSet, new_object: u32) -> Result<()> {
        let entries = lock(&self.entries).clone();
        for AttributeEntry { keyval, value } in entries {
            let copy = match &keyval.copy {
                CopyCallback::Null => Ok(None),
                CopyCallback::Dup => Ok(Some(value)),
                CopyCallback::User(copy) => copy(object, keyval.number, value),
            };
            match copy {
                Ok(None) => {}
                Ok(Some(value)) => {
                    keyval.attach();
                    lock(&new.entries).push(AttributeEntry { keyval, value });
                }
                Err(code) => {
                    // The copy's error is reported, whether or not the deletions succeed.
                    let _ = new.delete_all(new_object);
                    return Err(Error::Callback { code });
                }
            }
        }
        Ok(())
    }

    fn find(&self, number: i32) -> Option<AttributeEntry> {
        lock(&self.entries).iter().find(|entry| entry.keyval.number == number).cloned()
    }

    fn drop_entry(&self, number: i32) {
        let mut entries = lock(&self.entries);
        let Some(i) = entries.iter().position(|entry| entry.keyval.number == number) else {
            return;
        };
        let entry = entries.remove(i);
        drop(entries);
        entry.keyval.detach();
    }
}

/// An object that is dropped without its attributes' delete callbacks still releases the keys.
impl Drop for AttributeSet {
    fn drop(&mut self) {
        for entry in lock(&self.entries).drain(..) {
            entry.keyval.detach();
        }
    }
}

impl fmt::Display for AttributeOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttributeOwner::Comm => "communicators",
            AttributeOwner::Type => "datatypes",
            AttributeOwner::Win => "windows",
        })
    }
}

impl fmt::Debug for AttributeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = lock(&self.entries);
        f.debug_map()
            .entries(entries.iter().map(|entry| (entry.keyval.number, entry.value)))
            .finish()
    }
}
