//! The line of Python that runs, for calls that mpi4py's extension makes.
//!
//! mpi4py releases the interpreter's lock (GIL) around calls of MPI, and frames may be read with
//! the lock only. Taking it before the call could make a program hang that does not hang without
//! the profiler: a thread that holds the lock may wait for the very message that this call would
//! send. So the line is read after the call returned, where mpi4py takes the lock anyway: the
//! frame is still the same, and a thread that waits for the lock there would wait in mpi4py next.
//!
//! The interpreter's functions are found by `dlsym`; without one of them sites are the extension's
//! own addresses. Nothing is read when the interpreter is not initialised or ends (mpi4py calls
//! `MPI_Finalize` from `Py_AtExit`), or on a thread that it does not know.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, OnceLock};

use crate::resolve::as_function;

/// A line of Python that calls MPI.
#[derive(Debug, Clone)]
pub struct PythonLine {
    pub file: String,
    pub function: String,
    pub line: u32,
}

type Object = *mut c_void;

/// Functions of the stable API, and what tells that the interpreter ends.
struct PythonApi {
    is_initialized: unsafe extern "C" fn() -> c_int,
    is_finalizing: unsafe extern "C" fn() -> c_int,
    this_thread: unsafe extern "C" fn() -> Object,
    ensure: unsafe extern "C" fn() -> c_int,
    release: unsafe extern "C" fn(c_int),
    frame: unsafe extern "C" fn() -> Object,
    line_number: unsafe extern "C" fn(Object) -> c_int,
    code: unsafe extern "C" fn(Object) -> Object,
    attribute: unsafe extern "C" fn(Object, *const c_char) -> Object,
    utf8: unsafe extern "C" fn(Object) -> *const c_char,
    decref: unsafe extern "C" fn(Object),
    clear_error: unsafe extern "C" fn(),
}

static API: OnceLock<Option<PythonApi>> = OnceLock::new();

/// Lines by number, and numbers by code object and line. A code object in the table is kept (one
/// reference), so that its address is not another's later.
#[derive(Default)]
struct Lines {
    all: Vec<PythonLine>,
    numbers: HashMap<(usize, c_int), u64>,
}

static LINES: Mutex<Option<Lines>> = Mutex::new(None);

/// Whether lines can be read in this process.
pub fn is_usable() -> bool {
    API.get_or_init(PythonApi::find).is_some()
}

/// Number of the line that this thread runs. Takes the interpreter's lock.
pub fn current_line() -> Option<u64> {
    let api = API.get()?.as_ref()?;
    // SAFETY: the functions are those of the interpreter in this process. The thread is known to
    // it, and the interpreter is running, so the lock can be taken; it is held until `release`.
    unsafe {
        let known = (api.is_initialized)() != 0 && !(api.this_thread)().is_null();
        if !known || (api.is_finalizing)() != 0 {
            return None;
        }
        let state = (api.ensure)();
        let line = api.line();
        (api.release)(state);
        line
    }
}

/// What a number means.
pub fn line(number: u64) -> Option<PythonLine> {
    let lines = LINES.lock().expect("no panic while locked");
    lines.as_ref()?.all.get(number as usize).cloned()
}

impl PythonApi {
    fn find() -> Option<PythonApi> {
        // SAFETY: each function has the type that Python's C API documents.
        unsafe {
            Some(PythonApi {
                is_initialized: function(c"Py_IsInitialized")?,
                is_finalizing: function(c"Py_IsFinalizing")
                    .or_else(|| function(c"_Py_IsFinalizing"))?,
                this_thread: function(c"PyGILState_GetThisThreadState")?,
                ensure: function(c"PyGILState_Ensure")?,
                release: function(c"PyGILState_Release")?,
                frame: function(c"PyEval_GetFrame")?,
                line_number: function(c"PyFrame_GetLineNumber")?,
                code: function(c"PyFrame_GetCode")?,
                attribute: function(c"PyObject_GetAttrString")?,
                utf8: function(c"PyUnicode_AsUTF8")?,
                decref: function(c"Py_DecRef")?,
                clear_error: function(c"PyErr_Clear")?,
            })
        }
    }

    /// # Safety
    /// The thread holds the interpreter's lock.
    unsafe fn line(&self) -> Option<u64> {
        // SAFETY: the lock is held. The frame is borrowed from the thread's stack, which does not
        // change here; `code` is a new reference.
        unsafe {
            let frame = (self.frame)();
            if frame.is_null() {
                return None;
            }
            let line = (self.line_number)(frame);
            let code = (self.code)(frame);
            let key = (code.addr(), line);
            let mut lines = LINES.lock().expect("no panic while locked");
            let lines = lines.get_or_insert_default();
            if let Some(&number) = lines.numbers.get(&key) {
                (self.decref)(code);
                return Some(number);
            }
            // The reference stays in the table.
            let number = lines.all.len() as u64;
            lines.all.push(PythonLine {
                file: self.text(code, c"co_filename"),
                function: self.text(code, c"co_name"),
                line: line.max(0) as u32,
            });
            lines.numbers.insert(key, number);
            Some(number)
        }
    }

    /// # Safety
    /// The thread holds the interpreter's lock; the object is valid.
    unsafe fn text(&self, object: Object, name: &CStr) -> String {
        // SAFETY: as the caller promises; the text lives as long as the attribute's reference.
        unsafe {
            let value = (self.attribute)(object, name.as_ptr());
            let text = if value.is_null() { std::ptr::null() } else { (self.utf8)(value) };
            let copy = match text.is_null() {
                true => {
                    (self.clear_error)();
                    "?".into()
                }
                false => CStr::from_ptr(text).to_string_lossy().into_owned(),
            };
            if !value.is_null() {
                (self.decref)(value);
            }
            copy
        }
    }
}

/// A function of the interpreter.
///
/// # Safety
/// `F` is the type of a pointer to a function of this name.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: dlsym reads a string, RTLD_DEFAULT needs no handle; `F` is as the caller promises.
    unsafe {
        let address = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (!address.is_null()).then(|| as_function(address))
    }
}
