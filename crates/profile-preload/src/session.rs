//! The calls that begin and end MPI, written by hand: recording starts when the first of them has
//! succeeded, and the records are written at `MPI_Finalize`, `MPI_Abort` or the end of the process.

use std::ffi::{CStr, c_char, c_int};

use crate::clock::{self, Reading};
use crate::comm;
use crate::record::set_recording;
use crate::resolve::pmpi;
use crate::run::{self, StartFacts};
use crate::types::{MAX_LIBRARY_VERSION_STRING, MAX_PROCESSOR_NAME};
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session, SUCCESS};
use crate::{waits, write};

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    let before = Reading::now();
    // SAFETY: as the caller of MPI_Init promises.
    let code = unsafe { pmpi!(c"MPI_Init"(argc => *mut c_int, argv => *mut *mut *mut c_char)) };
    started(code, before, comm::start);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Init_thread(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let before = Reading::now();
    // SAFETY: as the caller of MPI_Init_thread promises.
    let code = unsafe {
        pmpi!(c"MPI_Init_thread"(
            argc => *mut c_int, argv => *mut *mut *mut c_char,
            required => c_int, provided => *mut c_int))
    };
    started(code, before, comm::start);
    code
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> c_int {
    let before = Reading::now();
    // SAFETY: as the caller of MPI_Session_init promises; after success the session is valid.
    unsafe {
        let code = pmpi!(c"MPI_Session_init"(
            info => MPI_Info, errhandler => MPI_Errhandler, session => *mut MPI_Session));
        if code == SUCCESS && comm::world().is_none() {
            started(code, before, || {
                let mut group: MPI_Group = 0;
                let code = pmpi!(c"MPI_Group_from_session_pset"(
                    *session => MPI_Session, c"mpi://WORLD".as_ptr() => *const c_char,
                    &mut group => *mut MPI_Group));
                if code == SUCCESS {
                    comm::start_with(group);
                }
            });
        }
        code
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Finalize() -> c_int {
    end(clock::monotonic_ns());
    // SAFETY: no arguments.
    unsafe { pmpi!(c"MPI_Finalize"()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Abort(comm: MPI_Comm, code: c_int) -> c_int {
    set_recording(false);
    write::write_records();
    // SAFETY: as the caller of MPI_Abort promises.
    unsafe { pmpi!(c"MPI_Abort"(comm => MPI_Comm, code => c_int)) }
}

/// 0 stops recording, anything else starts it. Further arguments are the tool's own, so none.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Pcontrol(level: c_int) -> c_int {
    if run::start().is_some() && run::finalized_ns().is_none() {
        set_recording(level != 0);
    }
    // SAFETY: the function reads its first argument.
    unsafe { pmpi!(c"MPI_Pcontrol"(level => c_int)) }
}

/// MPI has started, if `code` says so: begins to record.
fn started(code: c_int, before: Reading, find_world: impl FnOnce()) {
    let Ok(directory) = std::env::var("MICA_PROFILE_DIR") else {
        return;
    };
    if code != SUCCESS || run::start().is_some() {
        return;
    }
    clock::calibrate(before);
    find_world();
    let mut library = [0u8; MAX_LIBRARY_VERSION_STRING];
    let mut processor = [0u8; MAX_PROCESSOR_NAME];
    let mut length: c_int = 0;
    // SAFETY: the arrays have the lengths that MPI asks for.
    unsafe {
        pmpi!(c"MPI_Get_library_version"(
            library.as_mut_ptr().cast() => *mut c_char, &mut length => *mut c_int));
        pmpi!(c"MPI_Get_processor_name"(
            processor.as_mut_ptr().cast() => *mut c_char, &mut length => *mut c_int));
        libc::atexit(at_exit);
        libc::pthread_atfork(None, None, Some(in_child));
    }
    run::set_start(StartFacts {
        pid: std::process::id(),
        ns: clock::monotonic_ns(),
        library: first_line(&library),
        processor: first_line(&processor),
        directory,
    });
    waits::start();
    set_recording(true);
}

fn first_line(text: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(text).unwrap_or_default().to_string_lossy();
    let line = text.lines().next().unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn end(now: u64) {
    set_recording(false);
    if run::start().is_some() {
        run::set_finalized(now);
        write::write_records();
    }
}

/// The process ends without `MPI_Finalize`.
extern "C" fn at_exit() {
    set_recording(false);
    write::write_records();
}

/// A child records nothing: it is no rank.
extern "C" fn in_child() {
    set_recording(false);
}
