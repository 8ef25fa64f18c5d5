//! libfabric, loaded on demand.
//!
//! Only six functions are looked up by name; everything else is reached through the tables of the
//! objects that these return. The library stays loaded, because it has threads and handlers that
//! may outlive their last use.

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;

use super::bindings as fi;
use crate::transport::NetError;
use mica_node::signals::keeping_dispositions;

/// The file that the dynamic linker looks for if none is configured.
const DEFAULT: &str = "libfabric.so.1";

/// The requested version of the interface: that of the bindings.
const WANTED: u32 = version(1, 17);

/// The oldest supported library: the first one whose structures have all fields that the bindings
/// use.
const OLDEST: u32 = version(1, 9);

const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi::fi_info,
    *mut *mut fi::fi_info,
) -> i32;

type FreeInfo = unsafe extern "C" fn(*mut fi::fi_info);
type DupInfo = unsafe extern "C" fn(*const fi::fi_info) -> *mut fi::fi_info;
type OpenFabric =
    unsafe extern "C" fn(*mut fi::fi_fabric_attr, *mut *mut fi::fid_fabric, *mut c_void) -> i32;
type StrError = unsafe extern "C" fn(i32) -> *const c_char;
type Version = unsafe extern "C" fn() -> u32;

/// The library's functions.
#[derive(Clone)]
pub(super) struct Libfabric {
    file: String,
    version: u32,
    get_info: GetInfo,
    free_info: FreeInfo,
    dup_info: DupInfo,
    fabric: OpenFabric,
    strerror: StrError,
}

impl fmt::Debug for Libfabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "libfabric {} at {}", self.version(), self.file)
    }
}

impl Libfabric {
    /// Loads `file`, or libfabric.so.1 as the dynamic linker finds it.
    ///
    /// # Errors
    /// If there is none, or it is too old.
    pub fn load(file: Option<&str>) -> Result<Libfabric, NetError> {
        let file = file.unwrap_or(DEFAULT).to_owned();
        let failed = |why: String| NetError::Library { file: file.clone(), why };
        let path =
            CString::new(file.as_str()).map_err(|_| failed("its name has a NUL".to_owned()))?;
        // Debian's libfabric loads libpsm_infinipath and libpsm2, whose initialisers take SIGSEGV,
        // SIGTERM and others: their handlers write PROGRAM.80s-PID,HOST.btr to the current folder.
        // SAFETY: a valid string; the library's initialisers do nothing that Rust forbids.
        let handle = keeping_dispositions(|| unsafe {
            libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL)
        });
        if handle.is_null() {
            return Err(failed(linker_says()));
        }
        let symbol = |name: &CStr| {
            // SAFETY: a handle from dlopen and a valid string.
            let at = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if at.is_null() {
                Err(failed(format!("it has no {}", name.to_string_lossy())))
            } else {
                Ok(at)
            }
        };
        // SAFETY: the functions of these names have these types in every libfabric 1.x and 2.x.
        let library = unsafe {
            use std::mem::transmute;
            let version = transmute::<*mut c_void, Version>(symbol(c"fi_version")?);
            Libfabric {
                file: file.clone(),
                version: version(),
                get_info: transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo")?),
                free_info: transmute::<*mut c_void, FreeInfo>(symbol(c"fi_freeinfo")?),
                dup_info: transmute::<*mut c_void, DupInfo>(symbol(c"fi_dupinfo")?),
                fabric: transmute::<*mut c_void, OpenFabric>(symbol(c"fi_fabric")?),
                strerror: transmute::<*mut c_void, StrError>(symbol(c"fi_strerror")?),
            }
        };
        if library.version < OLDEST {
            return Err(failed(format!("it is version {}, and 1.9 is needed", library.version())));
        }
        Ok(library)
    }

    /// Version of the library: `1.17`.
    pub fn version(&self) -> String {
        format!("{}.{}", self.version >> 16, self.version & 0xffff)
    }

    /// Its file, as requested.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// libfabric's text for an error number (positive).
    pub fn describe(&self, code: i32) -> String {
        // SAFETY: the function takes any number and returns a string that stays valid.
        unsafe {
            let text = (self.strerror)(code);
            if text.is_null() {
                return "unknown error".to_owned();
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }

    /// The error of a call that returned `code` (negative).
    pub fn error(&self, call: &'static str, provider: &str, code: isize) -> NetError {
        let code = i32::try_from(-code).unwrap_or(i32::MAX);
        NetError::Call { call, provider: provider.to_owned(), why: self.describe(code), code }
    }

    /// All offers that match `hints`; empty if there is none.
    ///
    /// # Errors
    /// If the library fails for another reason.
    pub fn get_info(&self, hints: &FabricInfo) -> Result<Vec<FabricInfo>, NetError> {
        let mut list = std::ptr::null_mut();
        let version = WANTED.min(self.version);
        // The first call loads and initialises the providers.
        // SAFETY: the hints are valid, the library copies from them, and there is a place for the
        // result.
        let code = keeping_dispositions(|| unsafe {
            (self.get_info)(
                version,
                std::ptr::null(),
                std::ptr::null(),
                0,
                hints.raw(),
                &raw mut list,
            )
        });
        if code as isize == -fi::FI_ENODATA {
            return Ok(Vec::new());
        }
        if code != 0 {
            return Err(self.error("fi_getinfo", "every provider", code as isize));
        }
        let mut infos = Vec::new();
        let mut next = list;
        while !next.is_null() {
            // SAFETY: an entry of the list, which is freed as a whole below; the copy belongs to
            // us.
            unsafe {
                infos.push(FabricInfo::own(self, (self.dup_info)(next))?);
                next = (*next).next;
            }
        }
        // SAFETY: the list belongs to the library, and nothing points into it any more.
        unsafe { (self.free_info)(list) };
        Ok(infos)
    }

    /// Opens the fabric of `info`.
    ///
    /// # Errors
    /// If the library fails to open it.
    pub fn open_fabric(&self, info: &FabricInfo) -> Result<*mut fi::fid_fabric, NetError> {
        let mut fabric = std::ptr::null_mut();
        // SAFETY: the attributes of an info of this library, and a place for the result.
        let code = unsafe {
            (self.fabric)((*info.raw()).fabric_attr, &raw mut fabric, std::ptr::null_mut())
        };
        match code {
            0 => Ok(fabric),
            code => Err(self.error("fi_fabric", &info.provider(), code as isize)),
        }
    }
}

fn linker_says() -> String {
    // SAFETY: the call returns null or a string that stays valid until this thread's next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "the dynamic linker does not say why".to_owned();
        }
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// One `fi_info` with all its parts, allocated by the library.
#[derive(Debug)]
pub(super) struct FabricInfo {
    raw: std::ptr::NonNull<fi::fi_info>,
    library: Libfabric,
}

// SAFETY: an info is plain memory that only this value owns.
unsafe impl Send for FabricInfo {}

impl FabricInfo {
    /// An empty info, for hints.
    ///
    /// # Errors
    /// If memory runs out.
    pub fn empty(library: &Libfabric) -> Result<FabricInfo, NetError> {
        // SAFETY: null asks for a new info.
        let raw = unsafe { (library.dup_info)(std::ptr::null()) };
        // SAFETY: the info belongs to us.
        unsafe { FabricInfo::own(library, raw) }
    }

    /// # Safety
    /// `raw` is null or an info of the library that has no other owner.
    unsafe fn own(library: &Libfabric, raw: *mut fi::fi_info) -> Result<FabricInfo, NetError> {
        let Some(raw) = std::ptr::NonNull::new(raw) else {
            return Err(library.error("fi_dupinfo", "every provider", -(libc::ENOMEM as isize)));
        };
        Ok(FabricInfo { raw, library: library.clone() })
    }

    /// The structure; all its attribute pointers are set.
    pub fn raw(&self) -> *mut fi::fi_info {
        self.raw.as_ptr()
    }

    pub fn get(&self) -> &fi::fi_info {
        // SAFETY: it is valid, and changes only through `get_mut` and the like.
        unsafe { self.raw.as_ref() }
    }

    pub fn get_mut(&mut self) -> &mut fi::fi_info {
        // SAFETY: as above, and access is exclusive.
        unsafe { self.raw.as_mut() }
    }

    pub fn tx(&mut self) -> &mut fi::fi_tx_attr {
        // SAFETY: fi_dupinfo allocates it, and nothing else points to it.
        unsafe { &mut *self.get_mut().tx_attr }
    }

    pub fn rx(&mut self) -> &mut fi::fi_rx_attr {
        // SAFETY: as for `tx`.
        unsafe { &mut *self.get_mut().rx_attr }
    }

    pub fn ep(&mut self) -> &mut fi::fi_ep_attr {
        // SAFETY: as for `tx`.
        unsafe { &mut *self.get_mut().ep_attr }
    }

    pub fn domain_attr(&mut self) -> &mut fi::fi_domain_attr {
        // SAFETY: as for `tx`.
        unsafe { &mut *self.get_mut().domain_attr }
    }

    /// Restricts the hints to this provider.
    pub fn set_provider(&mut self, name: &str) {
        let Ok(name) = CString::new(name) else {
            return;
        };
        // SAFETY: the copy is made by malloc, as required by fi_freeinfo, which frees it; the field
        // was null before.
        unsafe { (*self.get_mut().fabric_attr).prov_name = libc::strdup(name.as_ptr()) };
    }

    pub fn provider(&self) -> String {
        // SAFETY: allocated by fi_dupinfo; its strings are null or valid.
        unsafe { text((*self.get().fabric_attr).prov_name) }
    }

    pub fn fabric_name(&self) -> String {
        // SAFETY: as for `provider`.
        unsafe { text((*self.get().fabric_attr).name) }
    }

    pub fn domain_name(&self) -> String {
        // SAFETY: as for `provider`.
        unsafe { text((*self.get().domain_attr).name) }
    }

    /// What the provider requires of memory registration: FI_MR bits.
    pub fn mr_mode(&self) -> u64 {
        // SAFETY: allocated by fi_dupinfo.
        u64::from(unsafe { (*self.get().domain_attr).mr_mode }.cast_unsigned())
    }

    /// Longest key of a registration, in bytes; 0 if the provider does not say.
    pub fn key_bytes(&self) -> usize {
        // SAFETY: allocated by fi_dupinfo.
        unsafe { (*self.get().domain_attr).mr_key_size }
    }

    /// The provider's address on this machine, in its format.
    pub fn source(&self) -> &[u8] {
        let info = self.get();
        if info.src_addr.is_null() {
            return &[];
        }
        // SAFETY: the library allocated `src_addrlen` bytes there.
        unsafe { std::slice::from_raw_parts(info.src_addr.cast(), info.src_addrlen) }
    }

    /// Bits per second of the interface, if it is known.
    pub fn speed(&self) -> Option<u64> {
        // SAFETY: each pointer is null or valid.
        unsafe {
            let nic = self.get().nic.as_ref()?;
            let link = nic.link_attr.as_ref()?;
            Some(link.speed as u64).filter(|&speed| speed > 0)
        }
    }
}

impl Drop for FabricInfo {
    fn drop(&mut self) {
        // SAFETY: only this value owns it.
        unsafe { (self.library.free_info)(self.raw.as_ptr()) };
    }
}

/// # Safety
/// `at` is null or a valid string.
unsafe fn text(at: *const c_char) -> String {
    if at.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}
