//! Why the library waited, as Mica counts it: its performance variables `mica_wait_REASON_time`
//! (MPI 5.0, 15.3.7), from the start of recording to `MPI_Finalize`. A library that has none of
//! these, as other MPIs, or no tools interface at all, gives nothing.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::Mutex;

use crate::resolve::function_of_library as function;
use crate::types::SUCCESS;

/// The reasons, as they stand in the variables' names.
const REASONS: [&str; 4] = ["peer", "copying", "queue_full", "progress"];

/// `MPI_T_PVAR_CLASS_TIMER`.
const TIMER: c_int = 9;
/// `MPI_THREAD_SINGLE` of the standard's ABI: this tool calls from one thread.
const THREAD_SINGLE: c_int = 0;

/// A session or handle of the tools interface; opaque.
type Handle = usize;

/// What is read at the end; `None` when nothing is.
static WATCH: Mutex<Option<Watch>> = Mutex::new(None);

/// Started handles, by reason.
struct Watch {
    tools: Tools,
    session: Handle,
    handles: Vec<(&'static str, Handle)>,
}

/// The functions of the tools interface that are needed here.
struct Tools {
    init: unsafe extern "C" fn(c_int, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    create_session: unsafe extern "C" fn(*mut Handle) -> c_int,
    free_session: unsafe extern "C" fn(*mut Handle) -> c_int,
    get_index: unsafe extern "C" fn(*const c_char, c_int, *mut c_int) -> c_int,
    allocate: unsafe extern "C" fn(Handle, c_int, *mut c_void, *mut Handle, *mut c_int) -> c_int,
    start: unsafe extern "C" fn(Handle, Handle) -> c_int,
    read: unsafe extern "C" fn(Handle, Handle, *mut c_void) -> c_int,
}

/// Begins to count.
pub fn start() {
    // SAFETY: the functions have the types of the standard's ABI.
    let watch = unsafe { Tools::find() }.and_then(Tools::watch);
    *WATCH.lock().expect("no panic while locked") = watch;
}

/// Nanoseconds that the library has waited since [`start`], by reason. Ends the count: a second
/// call gives nothing.
pub fn take() -> Vec<(&'static str, u64)> {
    let watch = WATCH.lock().expect("no panic while locked").take();
    watch.map_or_else(Vec::new, Watch::end)
}

impl Tools {
    /// # Safety
    /// The library's ABI is the standard's.
    unsafe fn find() -> Option<Tools> {
        // SAFETY: each type is that of the function of this name.
        unsafe {
            Some(Tools {
                init: function(c"MPI_T_init_thread")?,
                finalize: function(c"MPI_T_finalize")?,
                create_session: function(c"MPI_T_pvar_session_create")?,
                free_session: function(c"MPI_T_pvar_session_free")?,
                get_index: function(c"MPI_T_pvar_get_index")?,
                allocate: function(c"MPI_T_pvar_handle_alloc")?,
                start: function(c"MPI_T_pvar_start")?,
                read: function(c"MPI_T_pvar_read")?,
            })
        }
    }

    /// Starts a handle for each reason that the library counts; `None` if there is none.
    fn watch(self) -> Option<Watch> {
        let (mut provided, mut session): (c_int, Handle) = (0, 0);
        // SAFETY: every pointer is to a variable of the type that the function writes.
        unsafe {
            if (self.init)(THREAD_SINGLE, &mut provided) != SUCCESS {
                return None;
            }
            if (self.create_session)(&mut session) != SUCCESS {
                (self.finalize)();
                return None;
            }
            let handle = |reason| Some((reason, self.handle(session, reason)?));
            let watch = Watch {
                session,
                handles: REASONS.into_iter().filter_map(handle).collect(),
                tools: self,
            };
            if watch.handles.is_empty() {
                watch.end();
                return None;
            }
            Some(watch)
        }
    }

    /// A started handle for one reason; `None` if the library has no variable of this name, or it
    /// is no single number.
    ///
    /// # Safety
    /// The session is valid.
    unsafe fn handle(&self, session: Handle, reason: &str) -> Option<Handle> {
        let name = CString::new(format!("mica_wait_{reason}_time")).ok()?;
        let (mut index, mut count): (c_int, c_int) = (0, 0);
        let mut handle: Handle = 0;
        let no_object = std::ptr::null_mut();
        // SAFETY: every pointer is to a variable of the type that the function writes; the handle
        // goes with the session.
        unsafe {
            let found = (self.get_index)(name.as_ptr(), TIMER, &mut index) == SUCCESS
                && (self.allocate)(session, index, no_object, &mut handle, &mut count) == SUCCESS
                && count == 1
                && (self.start)(session, handle) == SUCCESS;
            found.then_some(handle)
        }
    }
}

impl Watch {
    /// Reads all, and leaves the tools interface.
    fn end(mut self) -> Vec<(&'static str, u64)> {
        let read = |&(reason, handle): &(&'static str, Handle)| {
            let mut value: u64 = 0;
            // SAFETY: the variable is Mica's by its name, so it is an unsigned number of 64 bits.
            let code = unsafe { (self.tools.read)(self.session, handle, (&raw mut value).cast()) };
            (code == SUCCESS).then_some((reason, value))
        };
        let times = self.handles.iter().filter_map(read).collect();
        // SAFETY: the session is valid, and is not used any more.
        unsafe {
            (self.tools.free_session)(&mut self.session);
            (self.tools.finalize)();
        }
        times
    }
}
