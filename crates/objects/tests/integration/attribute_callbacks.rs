//! Attributes and their callbacks, on sets that stand alone.

use std::sync::{Arc, Mutex};

use mica_objects::attribute::{
    AttributeOwner, AttributeSet, CopyCallback, DeleteCallback, create_keyval, free_keyval,
};
use mica_objects::{Error, constants as c};

const OBJECT: u32 = 0x4100_0007;
const DUPLICATE: u32 = 0x4100_0008;

/// What callbacks were called with.
type Log = Arc<Mutex<Vec<(&'static str, u32, i32, usize)>>>;

/// A copy callback that adds one to the value, drops value 0, and fails with code 77 for value 13.
fn copy(log: &Log) -> CopyCallback {
    let log = Arc::clone(log);
    CopyCallback::User(Arc::new(move |object, keyval, value| {
        log.lock().unwrap().push(("copy", object, keyval, value));
        match value {
            0 => Ok(None),
            13 => Err(77),
            _ => Ok(Some(value + 1)),
        }
    }))
}

/// A delete callback that fails with code 88 for value 99.
fn delete(log: &Log) -> DeleteCallback {
    let log = Arc::clone(log);
    DeleteCallback::User(Arc::new(move |object, keyval, value| {
        log.lock().unwrap().push(("delete", object, keyval, value));
        if value == 99 { 88 } else { c::SUCCESS }
    }))
}

fn take(log: &Log) -> Vec<(&'static str, u32, i32, usize)> {
    std::mem::take(&mut log.lock().unwrap())
}

#[test]
fn values_are_set_read_overwritten_and_deleted() {
    let log = Log::default();
    let key = create_keyval(AttributeOwner::Comm, CopyCallback::Null, delete(&log)).unwrap();
    let set = AttributeSet::default();
    assert_eq!(set.get(AttributeOwner::Comm, key), Ok(None));
    set.delete(AttributeOwner::Comm, OBJECT, key).unwrap();
    set.set(AttributeOwner::Comm, OBJECT, key, 5).unwrap();
    assert_eq!(take(&log), []);
    assert_eq!(set.get(AttributeOwner::Comm, key), Ok(Some(5)));
    set.set(AttributeOwner::Comm, OBJECT, key, 6).unwrap();
    assert_eq!(take(&log), [("delete", OBJECT, key, 5)]);
    set.delete(AttributeOwner::Comm, OBJECT, key).unwrap();
    assert_eq!(take(&log), [("delete", OBJECT, key, 6)]);
    assert_eq!(set.get(AttributeOwner::Comm, key), Ok(None));
    free_keyval(AttributeOwner::Comm, key).unwrap();
}

#[test]
fn a_delete_callback_that_fails_keeps_the_value() {
    let log = Log::default();
    let key = create_keyval(AttributeOwner::Comm, CopyCallback::Null, delete(&log)).unwrap();
    let set = AttributeSet::default();
    set.set(AttributeOwner::Comm, OBJECT, key, 99).unwrap();
    let refused = Err(Error::Callback { code: 88 });
    assert_eq!(set.delete(AttributeOwner::Comm, OBJECT, key), refused);
    assert_eq!(set.set(AttributeOwner::Comm, OBJECT, key, 1), refused);
    assert_eq!(set.delete_all(OBJECT), refused);
    assert_eq!(set.get(AttributeOwner::Comm, key), Ok(Some(99)));
}

#[test]
fn duplicates_get_what_the_copy_callbacks_give_oldest_first() {
    let log = Log::default();
    let none =
        create_keyval(AttributeOwner::Type, CopyCallback::Null, DeleteCallback::Null).unwrap();
    let same =
        create_keyval(AttributeOwner::Type, CopyCallback::Dup, DeleteCallback::Null).unwrap();
    let more = create_keyval(AttributeOwner::Type, copy(&log), DeleteCallback::Null).unwrap();
    let drops = create_keyval(AttributeOwner::Type, copy(&log), DeleteCallback::Null).unwrap();
    let set = AttributeSet::default();
    for (key, value) in [(drops, 0), (more, 41), (same, 7), (none, 8)] {
        set.set(AttributeOwner::Type, OBJECT, key, value).unwrap();
    }
    let copies = set.duplicate(OBJECT, DUPLICATE).unwrap();
    assert_eq!(take(&log), [("copy", OBJECT, drops, 0), ("copy", OBJECT, more, 41)]);
    let values =
        [none, same, more, drops].map(|key| copies.get(AttributeOwner::Type, key).unwrap());
    assert_eq!(values, [None, Some(7), Some(42), None]);
}

#[test]
fn a_copy_callback_that_fails_undoes_the_duplication() {
    let log = Log::default();
    let good = create_keyval(AttributeOwner::Comm, copy(&log), delete(&log)).unwrap();
    let bad = create_keyval(AttributeOwner::Comm, copy(&log), delete(&log)).unwrap();
    let never = create_keyval(AttributeOwner::Comm, copy(&log), delete(&log)).unwrap();
    let set = AttributeSet::default();
    for (key, value) in [(good, 1), (bad, 13), (never, 3)] {
        set.set(AttributeOwner::Comm, OBJECT, key, value).unwrap();
    }
    let new = AttributeSet::default();
    let failed = set.copy_into(OBJECT, &new, DUPLICATE);
    assert_eq!(failed, Err(Error::Callback { code: 77 }));
    let calls =
        [("copy", OBJECT, good, 1), ("copy", OBJECT, bad, 13), ("delete", DUPLICATE, good, 2)];
    assert_eq!(take(&log), calls);
    assert_eq!(new.get(AttributeOwner::Comm, good), Ok(None));
    assert_eq!(set.get(AttributeOwner::Comm, good), Ok(Some(1)));
}

#[test]
fn all_are_deleted_youngest_first() {
    let log = Log::default();
    let keys = [1, 2, 3]
        .map(|_| create_keyval(AttributeOwner::Comm, CopyCallback::Null, delete(&log)).unwrap());
    let set = AttributeSet::default();
    for key in keys {
        set.set(AttributeOwner::Comm, OBJECT, key, key as usize).unwrap();
    }
    // Overwriting does not make an attribute younger.
    set.set(AttributeOwner::Comm, OBJECT, keys[0], 4).unwrap();
    take(&log);
    set.delete_all(OBJECT).unwrap();
    let order: Vec<i32> = take(&log).into_iter().map(|(_, _, key, _)| key).collect();
    assert_eq!(order, [keys[2], keys[1], keys[0]]);
}

#[test]
fn a_freed_key_lives_on_in_its_objects() {
    let log = Log::default();
    let key = create_keyval(AttributeOwner::Comm, CopyCallback::Dup, delete(&log)).unwrap();
    let set = AttributeSet::default();
    set.set(AttributeOwner::Comm, OBJECT, key, 1).unwrap();
    free_keyval(AttributeOwner::Comm, key).unwrap();
    // Again, through another copy of its number.
    free_keyval(AttributeOwner::Comm, key).unwrap();
    assert_eq!(free_keyval(AttributeOwner::Type, key).unwrap_err().code(), c::ERR_KEYVAL);
    assert_eq!(set.set(AttributeOwner::Comm, OBJECT, key, 2).unwrap_err().code(), c::ERR_KEYVAL);
    assert_eq!(set.get(AttributeOwner::Comm, key), Ok(Some(1)));
    let copy = set.duplicate(OBJECT, DUPLICATE).unwrap();
    set.delete_all(OBJECT).unwrap();
    assert_eq!(copy.get(AttributeOwner::Comm, key), Ok(Some(1)));
    drop(copy);
    assert_eq!(set.get(AttributeOwner::Comm, key).unwrap_err().code(), c::ERR_KEYVAL);
    free_keyval(AttributeOwner::Comm, key).unwrap();
    assert_eq!(take(&log), [("delete", OBJECT, key, 1)]);
}

#[test]
fn keys_are_for_one_kind_of_object() {
    let key = create_keyval(AttributeOwner::Win, CopyCallback::Null, DeleteCallback::Null).unwrap();
    let set = AttributeSet::default();
    for wrong in [AttributeOwner::Comm, AttributeOwner::Type] {
        assert_eq!(set.set(wrong, OBJECT, key, 0).unwrap_err().code(), c::ERR_KEYVAL);
        assert_eq!(free_keyval(wrong, key).unwrap_err().code(), c::ERR_KEYVAL);
    }
    for wrong in [c::KEYVAL_INVALID, -1, c::TAG_UB, c::COMM_WORLD as i32] {
        assert_eq!(set.get(AttributeOwner::Comm, wrong).unwrap_err().code(), c::ERR_KEYVAL);
    }
    free_keyval(AttributeOwner::Win, key).unwrap();
}

#[test]
fn callbacks_may_use_the_set() {
    let set = Arc::new(AttributeSet::default());
    let other =
        create_keyval(AttributeOwner::Comm, CopyCallback::Null, DeleteCallback::Null).unwrap();
    let inner = Arc::clone(&set);
    let meddle: Arc<dyn Fn(u32, i32, usize) -> i32 + Send + Sync> =
        Arc::new(move |object, _, _| {
            inner.delete(AttributeOwner::Comm, object, other).unwrap();
            c::SUCCESS
        });
    let key = create_keyval(AttributeOwner::Comm, CopyCallback::Null, DeleteCallback::User(meddle))
        .unwrap();
    set.set(AttributeOwner::Comm, OBJECT, other, 1).unwrap();
    set.set(AttributeOwner::Comm, OBJECT, key, 2).unwrap();
    set.delete_all(OBJECT).unwrap();
    assert_eq!(set.get(AttributeOwner::Comm, key), Ok(None));
    assert_eq!(set.get(AttributeOwner::Comm, other), Ok(None));
}
