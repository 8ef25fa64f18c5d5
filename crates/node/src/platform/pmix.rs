//! The client side of PMIx (OpenPMIx's libpmix.so.2), loaded at run time: it is not needed to
//! build, nor to run without such a launcher.
//!
//! Only what starting a job needs: own identity, publish, fence, read, abort, finalize. The types
//! are those of the PMIx standard, version 4 (chapter 3), whose layout versions 2 to 5 share.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

const NAMESPACE_BYTES: usize = 256;
const KEY_BYTES: usize = 512;
const RANK_WILDCARD: u32 = u32::MAX - 1;
const GLOBAL: u8 = 3;
const BOOL: u16 = 1;
const STRING: u16 = 3;
const INT: u16 = 6;
const UINT16: u16 = 13;
const UINT32: u16 = 14;
const PROC_RANK: u16 = 40;

/// The launcher's server is unreachable.
const ERR_UNREACH: i32 = -25;
/// The connection to the launcher's server was lost.
const ERR_LOST_CONNECTION: i32 = -61;

#[derive(Clone, Copy)]
#[repr(C)]
struct PmixProc {
    namespace: [c_char; NAMESPACE_BYTES],
    rank: u32,
}

#[repr(C)]
union PmixData {
    flag: bool,
    string: *mut c_char,
    integer: c_int,
    uint16: u16,
    uint32: u32,
    /// The largest member is an `envar` of two pointers and a character.
    words: [u64; 3],
}

#[repr(C)]
struct PmixValue {
    kind: u16,
    data: PmixData,
}

#[repr(C)]
struct PmixInfo {
    key: [c_char; KEY_BYTES],
    flags: u32,
    value: PmixValue,
}

const _: () = assert!(size_of::<PmixProc>() == 260 && size_of::<PmixValue>() == 32);
const _: () = assert!(size_of::<PmixInfo>() == 552);

/// A failed call of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmixFailure {
    /// The call.
    pub call: &'static str,
    /// Its status.
    pub status: i32,
    /// The status as text, from the library.
    pub text: String,
}

impl PmixFailure {
    /// Whether the launcher is no longer reachable.
    pub fn is_lost(&self) -> bool {
        [ERR_UNREACH, ERR_LOST_CONNECTION].contains(&self.status)
    }
}

impl fmt::Display for PmixFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text, self.status)
    }
}

macro_rules! api {
    ($($field:ident: $symbol:literal, fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of the library.
        #[derive(Clone, Copy)]
        struct Api {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Api {
            /// # Safety
            /// `handle` is what dlopen returned for a libpmix.so.2, which is never closed.
            unsafe fn find(handle: *mut c_void) -> Result<Api, String> {
                Ok(Api {
                    $($field: {
                        let symbol: &CStr = $symbol;
                        // SAFETY: the handle is valid, the name ends with a NUL.
                        let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
                        if found.is_null() {
                            return Err(format!("has no {}", symbol.to_string_lossy()));
                        }
                        // SAFETY: the symbol of this name has this signature in the PMIx standard.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> $result,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

api! {
    init: c"PMIx_Init", fn(*mut PmixProc, *mut PmixInfo, usize) -> c_int;
    finalize: c"PMIx_Finalize", fn(*const PmixInfo, usize) -> c_int;
    abort: c"PMIx_Abort", fn(c_int, *const c_char, *mut PmixProc, usize) -> c_int;
    put: c"PMIx_Put", fn(u8, *const c_char, *mut PmixValue) -> c_int;
    commit: c"PMIx_Commit", fn() -> c_int;
    fence: c"PMIx_Fence", fn(*const PmixProc, usize, *const PmixInfo, usize) -> c_int;
    get: c"PMIx_Get", fn(
        *const PmixProc, *const c_char, *const PmixInfo, usize, *mut *mut PmixValue
    ) -> c_int;
    error_string: c"PMIx_Error_string", fn(c_int) -> *const c_char;
    version: c"PMIx_Get_version", fn() -> *const c_char;
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("libpmix")
    }
}

impl Api {
    fn check(&self, call: &'static str, status: c_int) -> Result<(), PmixFailure> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: takes any number, returns a string that stays valid.
        let text = unsafe { owned((self.error_string)(status)) };
        Err(PmixFailure { call, status, text })
    }
}

/// # Safety
/// `text` is null or a NUL-terminated string.
unsafe fn owned(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees this.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// A loaded library, not yet in use.
#[derive(Debug)]
pub struct PmixLibrary {
    api: Api,
    path: PathBuf,
}

impl PmixLibrary {
    /// Loads the first of `candidates` that can be loaded: paths, or names for the loader's own
    /// search. The library stays loaded for the life of the process, since it starts threads.
    ///
    /// # Errors
    /// The reason of failure for each candidate.
    pub fn load(candidates: &[PathBuf]) -> Result<PmixLibrary, String> {
        let mut refusals = Vec::new();
        for path in candidates {
            match load(path) {
                Ok(api) => {
                    return Ok(PmixLibrary { api, path: path.clone() });
                }
                Err(why) => refusals.push(format!("{}: {why}", path.display())),
            }
        }
        Err(refusals.join("; "))
    }

    /// The candidate that was loaded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version string of the library.
    pub fn version(&self) -> String {
        // SAFETY: takes nothing, returns a string that stays valid.
        unsafe { owned((self.api.version)()) }
    }

    /// Connects to the launcher that the environment names. Blocks until its server answers.
    ///
    /// # Errors
    /// The library's status.
    pub fn connect(self) -> Result<PmixClient, PmixFailure> {
        let mut me = PmixProc { namespace: [0; NAMESPACE_BYTES], rank: 0 };
        // SAFETY: `me` is valid for writes; no infos are given.
        let status = unsafe { (self.api.init)(&mut me, ptr::null_mut(), 0) };
        self.api.check("PMIx_Init", status)?;
        Ok(PmixClient { api: self.api, me })
    }
}

fn load(path: &Path) -> Result<Api, String> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: runs the library's initializers, as intended.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: dlerror returns null or a string that stays valid until this thread's next dl
        // call.
        return Err(unsafe { owned(libc::dlerror()) });
    }
    // SAFETY: just opened, and never closed.
    unsafe { Api::find(handle) }
}

/// A process that is connected to its PMIx launcher.
pub struct PmixClient {
    api: Api,
    me: PmixProc,
}

impl fmt::Debug for PmixClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, rank) = (self.namespace(), self.rank());
        f.debug_struct("Client").field("namespace", &namespace).field("rank", &rank).finish()
    }
}

impl PmixClient {
    /// The job's name.
    pub fn namespace(&self) -> String {
        let bytes = self.me.namespace.iter().map(|&c| c as u8);
        let bytes: Vec<u8> = bytes.take_while(|&b| b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Rank of this process in the job.
    pub fn rank(&self) -> u32 {
        self.me.rank
    }

    /// A number that the launcher has for the whole job.
    ///
    /// # Errors
    /// When it has no such number, or is gone.
    pub fn job_number(&self, key: &CStr) -> Result<u32, PmixFailure> {
        self.read(RANK_WILDCARD, key, &[], number)
    }

    /// A number that the launcher has for this process.
    ///
    /// # Errors
    /// As [`PmixClient::job_number`].
    pub fn own_number(&self, key: &CStr) -> Result<u32, PmixFailure> {
        self.read(self.me.rank, key, &[], number)
    }

    /// What `rank` published under `key`. Blocks until the launcher has found it, for `seconds` at
    /// most.
    ///
    /// # Errors
    /// When there is no such text, or the launcher is gone.
    pub fn text(&self, rank: u32, key: &CStr, seconds: u32) -> Result<String, PmixFailure> {
        let timeout = PmixInfo::new(
            c"pmix.timeout",
            PmixValue { kind: INT, data: PmixData { integer: seconds as c_int } },
        );
        self.read(rank, key, &[timeout], |value| {
            // SAFETY: the kind says which member is valid: a NUL-terminated string, or null.
            (value.kind == STRING).then(|| unsafe { owned(value.data.string) })
        })
    }

    fn read<T>(
        &self,
        rank: u32,
        key: &CStr,
        infos: &[PmixInfo],
        take: impl Fn(&PmixValue) -> Option<T>,
    ) -> Result<T, PmixFailure> {
        let of = PmixProc { rank, ..self.me };
        let mut value: *mut PmixValue = ptr::null_mut();
        // SAFETY: all pointers are valid for the call; `value` receives memory that is ours to
        // free.
        let status =
            unsafe { (self.api.get)(&of, key.as_ptr(), infos.as_ptr(), infos.len(), &mut value) };
        self.api.check("PMIx_Get", status)?;
        if value.is_null() {
            return Err(unexpected("no value at all".to_owned()));
        }
        // SAFETY: not null, so it is a value that the library allocated for us.
        let found = unsafe { &*value };
        let (taken, kind) = (take(found), found.kind);
        // SAFETY: the library allocates values, and strings in them, by malloc, for the caller to
        // free (standard, PMIX_VALUE_RELEASE); neither is used any more. A value of another kind
        // may leak memory.
        unsafe {
            if kind == STRING {
                libc::free((*value).data.string.cast());
            }
            libc::free(value.cast());
        }
        taken.ok_or_else(|| unexpected(format!("a value of type {kind}")))
    }

    /// Publishes a text under this rank's `key`, for others to read after the next fence.
    ///
    /// # Errors
    /// The library's status.
    pub fn put(&self, key: &CStr, text: &CStr) -> Result<(), PmixFailure> {
        let mut value =
            PmixValue { kind: STRING, data: PmixData { string: text.as_ptr().cast_mut() } };
        // SAFETY: the library copies key and value, and does not write to either.
        let status = unsafe { (self.api.put)(GLOBAL, key.as_ptr(), &mut value) };
        self.api.check("PMIx_Put", status)
    }

    /// Sends what was put to the launcher and waits until every process of the job has called this.
    ///
    /// # Errors
    /// The library's status, in particular when the launcher is gone.
    pub fn fence(&self) -> Result<(), PmixFailure> {
        // SAFETY: takes nothing.
        let status = unsafe { (self.api.commit)() };
        self.api.check("PMIx_Commit", status)?;
        let collect =
            PmixInfo::new(c"pmix.collect", PmixValue { kind: BOOL, data: PmixData { flag: true } });
        // SAFETY: naming no processes means all of the job; one info is given.
        let status = unsafe { (self.api.fence)(ptr::null(), 0, &collect, 1) };
        self.api.check("PMIx_Fence", status)
    }

    /// Asks the launcher to end the job.
    ///
    /// # Errors
    /// The library's status.
    pub fn abort(&self, code: i32, message: &CStr) -> Result<(), PmixFailure> {
        // SAFETY: naming no processes means all of the job; the message is only read.
        let status = unsafe { (self.api.abort)(code, message.as_ptr(), ptr::null_mut(), 0) };
        self.api.check("PMIx_Abort", status)
    }

    /// Disconnects from the launcher. No other call may follow.
    ///
    /// # Errors
    /// The library's status.
    pub fn finalize(&self) -> Result<(), PmixFailure> {
        // SAFETY: no infos are given.
        let status = unsafe { (self.api.finalize)(ptr::null(), 0) };
        self.api.check("PMIx_Finalize", status)
    }
}

impl PmixInfo {
    fn new(name: &CStr, value: PmixValue) -> PmixInfo {
        let mut key = [0; KEY_BYTES];
        for (to, from) in key.iter_mut().zip(name.to_bytes()) {
            *to = *from as c_char;
        }
        PmixInfo { key, flags: 0, value }
    }
}

fn number(value: &PmixValue) -> Option<u32> {
    // SAFETY: the kind says which member is valid.
    unsafe {
        match value.kind {
            UINT32 | PROC_RANK => Some(value.data.uint32),
            UINT16 => Some(u32::from(value.data.uint16)),
            INT => u32::try_from(value.data.integer).ok(),
            _ => None,
        }
    }
}

fn unexpected(text: String) -> PmixFailure {
    PmixFailure { call: "PMIx_Get", status: 0, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_library_is_reported() {
        let candidates = ["/proc/self/fdinfo/none", "/proc/self/cmdline"].map(PathBuf::from);
        let refusals = PmixLibrary::load(&candidates).expect_err("neither is one");
        assert!(refusals.contains("fdinfo/none") && refusals.contains("cmdline"));
        assert!(PmixLibrary::load(&[]).is_err());
    }

    #[test]
    fn another_library_is_not_taken_for_it() {
        let refusal = PmixLibrary::load(&["libc.so.6".into()]).expect_err("the C library");
        assert!(refusal.contains("PMIx_Init"), "{refusal}");
    }
}
