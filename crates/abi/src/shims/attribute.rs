//! Attributes of communicators, datatypes and windows (MPI 5.0, 7.7 and 16.1).

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use mica_mpi::Result;
use mica_mpi::attribute::{self, AttributeOwner, CopyCallback, DeleteCallback};
use mica_mpi::comm::{AttributeValue, Comm};
use mica_mpi::constants as c;
use mica_mpi::datatype::Datatype;

use crate::convert::{Out, flag};
use crate::table::{CopyCallback as CopyFunction, DeleteCallback as DeleteFunction};
use crate::types::*;

/// The copy callback at `address`, or one of the predefined ones (numbers that are the same for all
/// kinds of object).
///
/// # Safety
/// `address` is a predefined number or a function of type [`CopyFunction`] that stays in place.
unsafe fn copy_callback(address: usize, extra_state: *mut c_void) -> CopyCallback {
    match address {
        c::COMM_NULL_COPY_FN => return CopyCallback::Null,
        c::COMM_DUP_FN => return CopyCallback::Dup,
        _ => {}
    }
    let pointer = std::ptr::with_exposed_provenance::<()>(address);
    // SAFETY: as the caller promises.
    let function = unsafe { std::mem::transmute::<*const (), CopyFunction>(pointer) };
    // SAFETY: as the caller promises.
    unsafe { copy_by(function, same_address(extra_state)) }
}

/// What yields this address, in any thread.
fn same_address(state: *mut c_void) -> impl Fn() -> *mut c_void + Send + Sync + 'static {
    let address = state.expose_provenance();
    move || std::ptr::with_exposed_provenance_mut(address)
}

/// The callback that calls a C function with the state that `state` yields.
///
/// # Safety
/// The function stays in place, and may be called with the state from any thread.
pub(crate) unsafe fn copy_by(
    function: CopyFunction,
    state: impl Fn() -> *mut c_void + Send + Sync + 'static,
) -> CopyCallback {
    CopyCallback::User(Arc::new(move |object, keyval, value| {
        let (mut copy, mut wanted) = (0_usize, 0);
        // SAFETY: the user's function, called as MPI says: the copy's place is a word, the flag an
        // int.
        let code = unsafe {
            function(
                object as usize,
                keyval,
                state(),
                std::ptr::with_exposed_provenance_mut(value),
                (&raw mut copy).cast(),
                &raw mut wanted,
            )
        };
        match (code, wanted) {
            (c::SUCCESS, 0) => Ok(None),
            (c::SUCCESS, _) => Ok(Some(copy)),
            _ => Err(code),
        }
    }))
}

/// The delete callback at `address`, or none.
///
/// # Safety
/// `address` is 0 or a function of type [`DeleteFunction`] that stays in place.
unsafe fn delete_callback(address: usize, extra_state: *mut c_void) -> DeleteCallback {
    if address == c::COMM_NULL_DELETE_FN {
        return DeleteCallback::Null;
    }
    let pointer = std::ptr::with_exposed_provenance::<()>(address);
    // SAFETY: as the caller promises.
    let function = unsafe { std::mem::transmute::<*const (), DeleteFunction>(pointer) };
    // SAFETY: as the caller promises.
    unsafe { delete_by(function, same_address(extra_state)) }
}

/// As [`copy_by`], for the deletion.
///
/// # Safety
/// As for [`copy_by`].
pub(crate) unsafe fn delete_by(
    function: DeleteFunction,
    state: impl Fn() -> *mut c_void + Send + Sync + 'static,
) -> DeleteCallback {
    DeleteCallback::User(Arc::new(move |object, keyval, value| {
        // SAFETY: the user's function, called as MPI says.
        unsafe {
            function(object as usize, keyval, std::ptr::with_exposed_provenance_mut(value), state())
        }
    }))
}

/// Makes a key, and stores it.
///
/// # Safety
/// The functions are as [`copy_callback`] and [`delete_callback`] want them, `keyval` is null or
/// writable.
pub unsafe fn create(
    owner: AttributeOwner,
    copy: usize,
    delete: usize,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (keyval, copy, delete) = unsafe {
        (
            Out::new(keyval, "keyval")?,
            copy_callback(copy, extra_state),
            delete_callback(delete, extra_state),
        )
    };
    keyval.set(attribute::create_keyval(owner, copy, delete)?);
    Ok(())
}

/// Frees a key.
///
/// # Safety
/// `keyval` is null or points to a key that may be overwritten.
pub unsafe fn free(owner: AttributeOwner, keyval: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let keyval = unsafe { Out::new(keyval, "keyval")? };
    attribute::free_keyval(owner, keyval.get())?;
    keyval.set(c::KEYVAL_INVALID);
    Ok(())
}

/// Where C finds the values of predefined attributes: it gets the address of an int that lives
/// forever.
static PREDEFINED: [AtomicI32; 7] = [const { AtomicI32::new(0) }; 7];
const _: () = assert!(c::UNIVERSE_SIZE - c::TAG_UB == 6);

/// The word that the caller gets for a value.
fn word(keyval: c_int, value: AttributeValue) -> usize {
    match value {
        AttributeValue::User(value) => value,
        AttributeValue::Predefined(value) => {
            let place = &PREDEFINED[(keyval - c::TAG_UB) as usize];
            // Relaxed: the number alone matters, and it is the same for all threads or changes by
            // their own calls.
            place.store(value, Ordering::Relaxed);
            place.as_ptr().expose_provenance()
        }
    }
}

/// # Safety
/// `attribute_val` is null or writable for a word, `found` null or writable.
unsafe fn put(
    attribute_val: *mut c_void,
    found: *mut c_int,
    get: impl FnOnce() -> Result<Option<usize>>,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (place, found) = unsafe {
        (Out::new(attribute_val.cast::<usize>(), "attribute_val")?, Out::new(found, "flag")?)
    };
    let value = get()?;
    if let Some(value) = value {
        place.set(value);
    }
    found.set(flag(value.is_some()));
    Ok(())
}

/// MPI_Comm_get_attr.
///
/// # Safety
/// `attribute_val` is null or writable for a word, `found` null or writable.
pub unsafe fn mpi_comm_get_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    found: *mut c_int,
) -> Result<()> {
    let get = || {
        let value = Comm::resolve(comm.raw())?.attribute(comm_keyval)?;
        Ok(value.map(|value| word(comm_keyval, value)))
    };
    // SAFETY: as the caller promises.
    unsafe { put(attribute_val, found, get) }
}

/// MPI_Attr_get, the deprecated name of `MPI_Comm_get_attr`.
///
/// # Safety
/// As for `MPI_Comm_get_attr`.
pub unsafe fn mpi_attr_get(
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: *mut c_void,
    found: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { mpi_comm_get_attr(comm, keyval, attribute_val, found) }
}

/// MPI_Type_get_attr.
///
/// # Safety
/// `attribute_val` is null or writable for a word, `found` null or writable.
pub unsafe fn mpi_type_get_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    found: *mut c_int,
) -> Result<()> {
    let get =
        || Datatype::resolve(datatype.raw())?.attributes().get(AttributeOwner::Type, type_keyval);
    // SAFETY: as the caller promises.
    unsafe { put(attribute_val, found, get) }
}
