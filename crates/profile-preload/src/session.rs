//! The calls that begin and end MPI, written by hand: the records are begun when the first of them
//! has succeeded, and say how the process ended at `MPI_Finalize`, the end of the last session,
//! `MPI_Abort` or `exit`.

use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mica_node::identity::{boot_id, host_name};
use mica_profile::rank_tables::DIRECTORY_VARIABLE;

use crate::clock::{self, Reading};
use crate::comm;
use crate::facts::{self, field};
use crate::generated::NAMES;
use crate::resolve::pmpi;
use crate::types::{MAX_LIBRARY_VERSION_STRING, MAX_PROCESSOR_NAME};
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session, SUCCESS};
use crate::{abi, memory, place, recording, run, sites, waits};

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
        started(code, before, || {
            let mut group: MPI_Group = 0;
            let code = pmpi!(c"MPI_Group_from_session_pset"(
                *session => MPI_Session, c"mpi://WORLD".as_ptr() => *const c_char,
                &mut group => *mut MPI_Group));
            if code == SUCCESS {
                comm::start_with(group);
            }
        });
        code
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Session_finalize(session: *mut MPI_Session) -> c_int {
    ended(clock::monotonic_ns());
    // SAFETY: as the caller of MPI_Session_finalize promises.
    unsafe { pmpi!(c"MPI_Session_finalize"(session => *mut MPI_Session)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Finalize() -> c_int {
    ended(clock::monotonic_ns());
    // SAFETY: no arguments.
    unsafe { pmpi!(c"MPI_Finalize"()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Abort(comm: MPI_Comm, code: c_int) -> c_int {
    if run::is_begun() && run::is_open() {
        close_records("aborted", clock::monotonic_ns(), Some(code));
    }
    // SAFETY: as the caller of MPI_Abort promises.
    unsafe { pmpi!(c"MPI_Abort"(comm => MPI_Comm, code => c_int)) }
}

/// 0 stops recording, anything else starts it. Further arguments are the tool's own, so none.
#[unsafe(no_mangle)]
unsafe extern "C" fn MPI_Pcontrol(level: c_int) -> c_int {
    if run::is_begun() {
        if level == 0 { run::pause() } else { run::resume() }
    }
    // SAFETY: the function reads its first argument.
    unsafe { pmpi!(c"MPI_Pcontrol"(level => c_int)) }
}

/// The world or a session has begun, if `code` says so: the first one begins the records.
fn started(code: c_int, before: Reading, find_world: impl FnOnce()) {
    let Ok(directory) = std::env::var(DIRECTORY_VARIABLE) else { return };
    if code != SUCCESS {
        return;
    }
    if !abi::is_standard() {
        abi::refuse(&directory);
        return;
    }
    if !run::open() {
        return;
    }
    let now = clock::monotonic_ns();
    if run::is_begun() {
        find_world();
        facts::append(&format!("resumed\t{now}"));
    } else {
        clock::calibrate(before);
        find_world();
        if !begin_records(Path::new(&directory), clock::monotonic_ns()) {
            return;
        }
    }
    waits::start();
    recording::set(true);
}

/// Makes the files of the records. Without them this rank is not recorded.
fn begin_records(directory: &Path, now: u64) -> bool {
    let Some(world) = comm::world() else { return false };
    let (rank, size, pid) = (world.rank, world.size, std::process::id());
    // Ranks of other hosts and of other jobs may have the same numbers.
    let path = directory.join(format!("rank-{rank}-of-{size}-{pid}-{now}"));
    let made = memory::create(&with_end(&path, "tables"))
        .map(clock::write_scale)
        .and_then(|()| facts::create(&with_end(&path, "facts"), &first_facts(world, now)));
    if let Err(error) = made {
        let directory = directory.display();
        eprintln!(
            "mica profile: rank {rank}: cannot make its records in {directory}: {error}; this \
             rank is not recorded"
        );
        return false;
    }
    run::begin();
    // SAFETY: the functions have the types that are asked for.
    unsafe {
        libc::atexit(at_exit);
        libc::pthread_atfork(None, None, Some(in_child));
    }
    true
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

/// What is known at the start.
fn first_facts(world: &comm::ProfiledWorld, now: u64) -> String {
    let mut library = [0u8; MAX_LIBRARY_VERSION_STRING];
    let mut processor = [0u8; MAX_PROCESSOR_NAME];
    let mut length: c_int = 0;
    // SAFETY: the arrays have the lengths that MPI asks for.
    unsafe {
        pmpi!(c"MPI_Get_library_version"(
            library.as_mut_ptr().cast() => *mut c_char, &mut length => *mut c_int));
        pmpi!(c"MPI_Get_processor_name"(
            processor.as_mut_ptr().cast() => *mut c_char, &mut length => *mut c_int));
    }
    let mut text = String::from("mica-profile\t2\n");
    let mut line = |line: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{line}");
    };
    let (rank, size, pid) = (world.rank, world.size, std::process::id());
    let (host, processor) = (field(&host_name()), field(&first_line(&processor)));
    let boot = field(&boot_id());
    line(format_args!("rank\t{rank}\t{size}\t{pid}\t{host}\t{processor}\t{boot}"));
    line(format_args!("job\t{}", field(&place::job())));
    line(format_args!("start\t{now}\t{}", place::unix_ns()));
    line(format_args!("program\t{}", field(&place::command_line())));
    line(format_args!("library\t{}", field(&first_line(&library))));
    if let Some(place) = place::find() {
        let (cpu, core, cache, package) = (place.cpu, place.core, place.cache, place.package);
        line(format_args!("place\t{cpu}\t{core}\t{cache}\t{package}"));
    }
    let names: Vec<&str> = NAMES.split_whitespace().collect();
    line(format_args!("calls\t{}", names.join("\t")));
    for group in comm::group_lines() {
        line(format_args!("{group}"));
    }
    for object in sites::loaded() {
        let (start, end, base) = (object.start, object.end, object.base);
        line(format_args!("object\t{start}\t{end}\t{base}\t{}", field(&object.path)));
    }
    text
}

fn first_line(text: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(text).unwrap_or_default().to_string_lossy();
    text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The world or a session ends.
fn ended(now: u64) {
    if run::close() && run::is_begun() {
        close_records("finalized", now, None);
    }
}

/// Says in the records how this process ended.
fn close_records(how: &str, now: u64, code: Option<c_int>) {
    recording::set(false);
    clock::note_reading();
    for (reason, ns) in waits::take() {
        facts::append(&format!("wait\t{reason}\t{ns}"));
    }
    let code = code.map(|code| format!("\t{code}")).unwrap_or_default();
    facts::append(&format!("end\t{how}\t{now}{code}"));
}

/// The process ends without `MPI_Finalize`.
extern "C" fn at_exit() {
    if run::is_begun() && run::is_open() {
        close_records("exited", clock::monotonic_ns(), None);
    }
}

/// A child records nothing: it is no rank.
extern "C" fn in_child() {
    recording::stop();
}
