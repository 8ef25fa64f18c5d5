//! Error classes and codes with their texts, the standard's and the user's (MPI 5.0, 9.4 and 9.5).

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::constants as c;
use crate::error::{Error, Result};
use crate::sync::lock;

/// The standard's classes: constant, name, meaning.
const CLASSES: [(i32, &str, &str); 64] = [
    (c::SUCCESS, "MPI_SUCCESS", "no error"),
    (c::ERR_BUFFER, "MPI_ERR_BUFFER", "invalid buffer address"),
    (c::ERR_COUNT, "MPI_ERR_COUNT", "invalid count"),
    (c::ERR_TYPE, "MPI_ERR_TYPE", "invalid datatype"),
    (c::ERR_TAG, "MPI_ERR_TAG", "invalid tag"),
    (c::ERR_COMM, "MPI_ERR_COMM", "invalid communicator"),
    (c::ERR_RANK, "MPI_ERR_RANK", "invalid rank"),
    (c::ERR_REQUEST, "MPI_ERR_REQUEST", "invalid request"),
    (c::ERR_ROOT, "MPI_ERR_ROOT", "invalid root"),
    (c::ERR_GROUP, "MPI_ERR_GROUP", "invalid group"),
    (c::ERR_OP, "MPI_ERR_OP", "invalid reduction operator"),
    (c::ERR_TOPOLOGY, "MPI_ERR_TOPOLOGY", "the communicator lacks the topology needed"),
    (c::ERR_DIMS, "MPI_ERR_DIMS", "invalid dimensions"),
    (c::ERR_ARG, "MPI_ERR_ARG", "invalid argument"),
    (c::ERR_UNKNOWN, "MPI_ERR_UNKNOWN", "unknown error"),
    (c::ERR_TRUNCATE, "MPI_ERR_TRUNCATE", "message longer than the receive buffer"),
    (c::ERR_OTHER, "MPI_ERR_OTHER", "other error"),
    (c::ERR_INTERN, "MPI_ERR_INTERN", "internal error of the MPI library"),
    (c::ERR_PENDING, "MPI_ERR_PENDING", "operation neither failed nor completed yet"),
    (c::ERR_IN_STATUS, "MPI_ERR_IN_STATUS", "error codes are in the statuses"),
    (c::ERR_ACCESS, "MPI_ERR_ACCESS", "permission denied"),
    (c::ERR_AMODE, "MPI_ERR_AMODE", "invalid or differing access modes of a file"),
    (c::ERR_ASSERT, "MPI_ERR_ASSERT", "invalid assertion"),
    (c::ERR_BAD_FILE, "MPI_ERR_BAD_FILE", "invalid file name"),
    (c::ERR_BASE, "MPI_ERR_BASE", "invalid base address"),
    (c::ERR_CONVERSION, "MPI_ERR_CONVERSION", "error in a data conversion function"),
    (c::ERR_DISP, "MPI_ERR_DISP", "invalid displacement"),
    (c::ERR_DUP_DATAREP, "MPI_ERR_DUP_DATAREP", "data representation defined already"),
    (c::ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS", "file exists"),
    (c::ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE", "file is open in some process"),
    (c::ERR_FILE, "MPI_ERR_FILE", "invalid file handle"),
    (c::ERR_INFO_KEY, "MPI_ERR_INFO_KEY", "invalid info key"),
    (c::ERR_INFO_NOKEY, "MPI_ERR_INFO_NOKEY", "info key not found"),
    (c::ERR_INFO_VALUE, "MPI_ERR_INFO_VALUE", "invalid info value"),
    (c::ERR_INFO, "MPI_ERR_INFO", "invalid info object"),
    (c::ERR_IO, "MPI_ERR_IO", "input or output error"),
    (c::ERR_KEYVAL, "MPI_ERR_KEYVAL", "invalid attribute key"),
    (c::ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE", "invalid lock type"),
    (c::ERR_NAME, "MPI_ERR_NAME", "service name not published"),
    (c::ERR_NO_MEM, "MPI_ERR_NO_MEM", "out of memory"),
    (c::ERR_NOT_SAME, "MPI_ERR_NOT_SAME", "arguments differ between processes"),
    (c::ERR_NO_SPACE, "MPI_ERR_NO_SPACE", "not enough space on the device"),
    (c::ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE", "no such file"),
    (c::ERR_PORT, "MPI_ERR_PORT", "invalid port name"),
    (c::ERR_QUOTA, "MPI_ERR_QUOTA", "quota exceeded"),
    (c::ERR_READ_ONLY, "MPI_ERR_READ_ONLY", "file or file system is read-only"),
    (c::ERR_RMA_ATTACH, "MPI_ERR_RMA_ATTACH", "memory cannot be attached to the window"),
    (c::ERR_RMA_CONFLICT, "MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window"),
    (c::ERR_RMA_RANGE, "MPI_ERR_RMA_RANGE", "target memory is not part of the window"),
    (c::ERR_RMA_SHARED, "MPI_ERR_RMA_SHARED", "memory cannot be shared"),
    (c::ERR_RMA_SYNC, "MPI_ERR_RMA_SYNC", "wrong synchronization of one-sided calls"),
    (c::ERR_SERVICE, "MPI_ERR_SERVICE", "invalid service name"),
    (c::ERR_SIZE, "MPI_ERR_SIZE", "invalid size"),
    (c::ERR_SPAWN, "MPI_ERR_SPAWN", "processes cannot be spawned"),
    (c::ERR_UNSUPPORTED_DATAREP, "MPI_ERR_UNSUPPORTED_DATAREP", "unknown data representation"),
    (c::ERR_UNSUPPORTED_OPERATION, "MPI_ERR_UNSUPPORTED_OPERATION", "operation not supported"),
    (c::ERR_WIN, "MPI_ERR_WIN", "invalid window"),
    (c::ERR_RMA_FLAVOR, "MPI_ERR_RMA_FLAVOR", "wrong flavor of window"),
    (c::ERR_PROC_ABORTED, "MPI_ERR_PROC_ABORTED", "a peer process has aborted"),
    (c::ERR_VALUE_TOO_LARGE, "MPI_ERR_VALUE_TOO_LARGE", "value does not fit the argument"),
    (c::ERR_SESSION, "MPI_ERR_SESSION", "invalid session"),
    (c::ERR_ERRHANDLER, "MPI_ERR_ERRHANDLER", "invalid error handler"),
    (c::ERR_ABI, "MPI_ERR_ABI", "the ABI in use does not allow this"),
    (c::ERR_LASTCODE, "MPI_ERR_LASTCODE", "last error code of the standard"),
];

/// One class or code of the user.
struct Added {
    /// The class that it belongs to: itself, if it is one.
    class: i32,
    text: String,
}

static ADDED: Mutex<BTreeMap<i32, Added>> = Mutex::new(BTreeMap::new());

/// Name and meaning of one of the standard's classes.
pub fn describe(class: i32) -> Option<(&'static str, &'static str)> {
    let found = CLASSES.iter().find(|(constant, ..)| *constant == class);
    found.map(|&(_, name, text)| (name, text))
}

/// `MPI_Error_class`.
pub fn class_of(code: i32) -> Result<i32> {
    if describe(code).is_some() {
        return Ok(code);
    }
    lock(&ADDED).get(&code).map(|added| added.class).ok_or_else(|| unknown("errorcode", code))
}

/// The text that the user gave a class or code, empty if none; `None` for other codes.
pub fn user_text(code: i32) -> Option<String> {
    lock(&ADDED).get(&code).map(|added| added.text.clone())
}

/// `MPI_Add_error_class`.
pub fn add_class() -> i32 {
    let mut added = lock(&ADDED);
    let code = next(&added);
    added.insert(code, Added { class: code, text: String::new() });
    code
}

/// `MPI_Add_error_code`.
pub fn add_code(class: i32) -> Result<i32> {
    let mut added = lock(&ADDED);
    let user_class = added.get(&class).is_some_and(|added| added.class == class);
    if describe(class).is_none() && !user_class {
        return Err(Error::argument(c::ERR_ARG, "errorclass", class, "this is not an error class"));
    }
    let code = next(&added);
    added.insert(code, Added { class, text: String::new() });
    Ok(code)
}

/// `MPI_Add_error_string`.
pub fn add_text(code: i32, text: &str) -> Result<()> {
    let mut added = lock(&ADDED);
    let entry = added.get_mut(&code).ok_or_else(|| not_added("errorcode", code))?;
    entry.text = text[..text.floor_char_boundary(c::MAX_ERROR_STRING - 1)].to_owned();
    Ok(())
}

/// `MPI_Remove_error_class`.
pub fn remove_class(class: i32) -> Result<()> {
    let mut added = lock(&ADDED);
    if added.get(&class).is_none_or(|added| added.class != class) {
        return Err(not_added("errorclass", class));
    }
    if added.iter().any(|(&code, added)| added.class == class && code != class) {
        let reason = "the class still has error codes; remove them first";
        return Err(Error::argument(c::ERR_ARG, "errorclass", class, reason));
    }
    check_no_text(&added, "errorclass", class)?;
    added.remove(&class);
    Ok(())
}

/// `MPI_Remove_error_code`.
pub fn remove_code(code: i32) -> Result<()> {
    let mut added = lock(&ADDED);
    if added.get(&code).is_none_or(|added| added.class == code) {
        return Err(not_added("errorcode", code));
    }
    check_no_text(&added, "errorcode", code)?;
    added.remove(&code);
    Ok(())
}

/// `MPI_Remove_error_string`.
pub fn remove_text(code: i32) -> Result<()> {
    let mut added = lock(&ADDED);
    added.get_mut(&code).ok_or_else(|| not_added("errorcode", code))?.text.clear();
    Ok(())
}

/// The value of the attribute `MPI_LASTUSEDCODE`.
pub fn last_used() -> i32 {
    next(&lock(&ADDED)) - 1
}

fn check_no_text(added: &BTreeMap<i32, Added>, argument: &'static str, code: i32) -> Result<()> {
    if added.get(&code).is_some_and(|added| !added.text.is_empty()) {
        let reason = "it still has an error string; remove that first";
        return Err(Error::argument(c::ERR_ARG, argument, code, reason));
    }
    Ok(())
}

/// One above the highest number in use, so that codes stay close together when they are added and
/// removed alternately.
fn next(added: &BTreeMap<i32, Added>) -> i32 {
    added.last_key_value().map_or(c::ERR_LASTCODE, |(&code, _)| code) + 1
}

#[cold]
fn unknown(argument: &'static str, code: i32) -> Error {
    Error::argument(c::ERR_ARG, argument, code, "this is neither an error code nor a class")
}

#[cold]
fn not_added(argument: &'static str, code: i32) -> Error {
    let reason = "this was not added by the user, or has been removed";
    Error::argument(c::ERR_ARG, argument, code, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_the_standard_has_its_text() {
        for class in (c::SUCCESS..=c::ERR_ABI).chain([c::ERR_LASTCODE]) {
            let (name, text) = describe(class).unwrap();
            assert!(name.starts_with("MPI_") && !text.is_empty());
            assert_eq!(class_of(class), Ok(class));
        }
        for unknown in [-1, c::ERR_ABI + 1, c::ERR_LASTCODE - 1, i32::MAX] {
            assert_eq!(class_of(unknown).unwrap_err().code(), c::ERR_ARG);
        }
    }

    // One test, because the user's classes are per process and tests run concurrently.
    #[test]
    fn users_add_and_remove_classes_codes_and_texts() {
        assert_eq!(last_used(), c::ERR_LASTCODE);
        let class = add_class();
        assert!(class > c::ERR_LASTCODE);
        assert_eq!(last_used(), class);
        let code = add_code(class).unwrap();
        let standard = add_code(c::ERR_OTHER).unwrap();
        assert_eq!(class_of(code), Ok(class));
        assert_eq!(class_of(standard), Ok(c::ERR_OTHER));
        assert_eq!(add_code(code).unwrap_err().code(), c::ERR_ARG, "a code is not a class");
        assert_eq!(user_text(code).as_deref(), Some(""));
        add_text(code, "ä".repeat(400).as_str()).unwrap();
        assert_eq!(user_text(code).unwrap().len(), c::MAX_ERROR_STRING - 2);
        assert!(remove_code(code).is_err(), "it still has a text");
        remove_text(code).unwrap();
        assert_eq!(user_text(code).as_deref(), Some(""));
        for not_ours in [c::ERR_OTHER, standard + 1] {
            assert!(add_text(not_ours, "x").is_err());
            assert!(remove_text(not_ours).is_err());
            assert!(remove_code(not_ours).is_err());
            assert!(remove_class(not_ours).is_err());
        }
        assert!(remove_class(class).is_err(), "it still has a code");
        assert!(remove_class(code).is_err());
        assert!(remove_code(class).is_err());
        remove_code(standard).unwrap();
        remove_code(code).unwrap();
        assert!(class_of(code).is_err());
        remove_class(class).unwrap();
        assert_eq!(last_used(), c::ERR_LASTCODE);
    }
}
