//! Choice buffers that arrive as descriptors: the address goes on where the elements lie one behind
//! the other; what stands for a section that is not contiguous is made here
//! ([`crate::section`]).
//!
//! A buffer with one count and datatype is `typed`: one element of a derived datatype. `copied` is
//! one for which no datatype can stand, since it has a block for each process or an operator works
//! on it: a contiguous copy, which goes back when the call is over; parts of it at different times,
//! if the request is `partitioned`. `contiguous` must be so. Of a `location` only the address
//! counts.

use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use crate::abi::descriptor::{Descriptor, DimensionRoom, KNOWN_COMPILERS};
use crate::abi::{Word, constants as c, table};
use crate::argument::to_fortran;
use crate::descriptor::UnknownCompiler;
use crate::section::deferred::{self, RequestUse};
use crate::section::{CopiedSection, KeptType, SectionAccess, copied, kept, partitions, typed};

unsafe extern "C" {
    fn PMPI_Comm_call_errhandler(comm: Word, code: c_int) -> c_int;
    fn PMPI_Add_error_code(class: c_int, code: *mut c_int) -> c_int;
    fn PMPI_Add_error_string(code: c_int, text: *const c_char) -> c_int;
}

/// Why a buffer cannot be passed on.
#[derive(Clone, Copy, Debug)]
pub enum ChoiceError {
    /// An error class of MPI.
    Class(c_int),
    /// The version of a compiler's descriptors.
    Unknown(UnknownCompiler),
}

impl From<UnknownCompiler> for ChoiceError {
    fn from(unknown: UnknownCompiler) -> ChoiceError {
        ChoiceError::Unknown(unknown)
    }
}

/// Raises the error of a call, and returns its code.
#[cold]
pub fn raise(error: ChoiceError) -> c_int {
    let code = match error {
        ChoiceError::Class(class) => class,
        ChoiceError::Unknown(UnknownCompiler(version)) => unknown(version),
    };
    // SAFETY: a function of MPI. The error is one of no object (MPI 5.0, 9.3).
    unsafe { PMPI_Comm_call_errhandler(c::COMM_SELF, code) };
    code
}

/// A code for descriptors of an unknown compiler, with a text that says so.
fn unknown(version: c_int) -> c_int {
    let text = format!(
        "this compiler's array descriptors (version {version}) are not known to Mica, which knows \
        those of {KNOWN_COMPILERS}; include 'mpif.h' needs none\0"
    );
    let mut code = c::ERR_OTHER;
    // SAFETY: functions of MPI; the text ends with a zero.
    unsafe {
        if PMPI_Add_error_code(c::ERR_OTHER, &raw mut code) == c::SUCCESS {
            PMPI_Add_error_string(code, text.as_ptr().cast());
        }
    }
    code
}

/// Raises the error of a call for whose arguments of `len` elements there is no memory. The name
/// ends with a zero.
#[cold]
pub fn no_memory(call: &'static str, len: usize) -> c_int {
    let bytes = len.saturating_mul(size_of::<usize>());
    // SAFETY: the table's function gets a C string that stays.
    unsafe { (table().out_of_memory)(call.as_ptr().cast(), bytes) }
}

/// Stores the code of a call where the program wants it.
///
/// # Safety
/// `ierror` is null or writable.
#[inline(always)]
pub unsafe fn store(ierror: *mut c_int, code: c_int) {
    if !ierror.is_null() {
        // SAFETY: as the caller promises.
        unsafe { ierror.write(code) };
    }
}

/// A number of elements, as Fortran has it.
pub trait ElementCount: Copy + 'static {
    /// One element.
    const ONE: &'static Self;

    /// The number.
    fn number(self) -> i64;
}

impl ElementCount for c_int {
    const ONE: &'static c_int = &1;

    fn number(self) -> i64 {
        self.into()
    }
}

impl ElementCount for i64 {
    const ONE: &'static i64 = &1;

    fn number(self) -> i64 {
        self
    }
}

/// What a buffer's elements are in C: its address, their number and datatype.
type Described<C> = (*mut c_void, *const C, *const c_int);

/// Stands for the elements of a section during a call: one element of a datatype, which may be
/// freed with this, since a started operation may still use it then.
#[derive(Debug, Default)]
pub struct SectionElements {
    /// The datatype's handle in Fortran.
    datatype: c_int,
    kept: Option<Rc<KeptType>>,
}

impl SectionElements {
    /// The elements of a call: as they are, if they lie one behind the other.
    ///
    /// # Errors
    /// See [`ChoiceError`].
    ///
    /// # Safety
    /// The arguments are as Fortran passes them.
    #[inline(always)]
    pub unsafe fn describe<C: ElementCount>(
        &mut self,
        buffer: *const Descriptor,
        count: *const C,
        datatype: *const c_int,
    ) -> Result<Described<C>, ChoiceError> {
        let mut room = DimensionRoom::default();
        // SAFETY: as the caller promises.
        let (section, number, of) = unsafe {
            (Descriptor::section(buffer, &mut room)?, count.read().number(), datatype.read())
        };
        if section.is_packed() {
            return Ok((section.address, count, datatype));
        }
        let kept = match kept(&section, number, of) {
            Some(kept) => kept,
            // What is wrong with a count below 0 the library reports.
            None if section.is_contiguous() || number < 0 => {
                return Ok((section.address, count, datatype));
            }
            None => typed(&section, number, of).map_err(ChoiceError::Class)?,
        };
        let address = section.address.wrapping_byte_offset(kept.at as isize);
        self.datatype = to_fortran(kept.handle);
        self.kept = Some(kept);
        Ok((address, C::ONE, &raw const self.datatype))
    }
}

/// The contiguous copies that stand for sections during a call.
#[derive(Debug, Default)]
pub struct Copies(Vec<CopiedSection>);

impl Copies {
    /// The address of a buffer of a call, or of its copy.
    ///
    /// # Errors
    /// See [`ChoiceError`].
    ///
    /// # Safety
    /// The descriptor is one of Fortran.
    pub unsafe fn address(
        &mut self,
        buffer: *const Descriptor,
        access: SectionAccess,
    ) -> Result<*mut c_void, ChoiceError> {
        let mut room = DimensionRoom::default();
        // SAFETY: as the caller promises.
        let section = unsafe { Descriptor::section(buffer, &mut room)? };
        if section.is_contiguous() {
            return Ok(section.address);
        }
        // SAFETY: the section is the caller's.
        let copy = unsafe { copied(&section, access) }.map_err(ChoiceError::Class)?;
        let address = copy.address();
        self.0.push(copy);
        Ok(address)
    }

    /// After the call, which returned `code`: brings results back, now or when `request` is
    /// complete. Returns the code of the whole.
    ///
    /// # Safety
    /// The request's address is readable.
    #[inline(always)]
    pub unsafe fn finish(self, code: c_int, request: Option<(*const c_int, RequestUse)>) -> c_int {
        if self.0.is_empty() {
            return code;
        }
        // SAFETY: as the caller promises.
        unsafe { self.bring_back(code, request) }
    }

    /// As [`Copies::finish`], if there are any.
    ///
    /// # Safety
    /// The request's address is readable.
    #[inline(never)]
    unsafe fn bring_back(
        mut self,
        code: c_int,
        request: Option<(*const c_int, RequestUse)>,
    ) -> c_int {
        match request {
            None => self.0.iter_mut().for_each(CopiedSection::finish),
            Some((request, usage)) if code == c::SUCCESS => {
                // SAFETY: the call has stored it.
                return deferred::keep(unsafe { request.read() }, self.0, usage);
            }
            Some(_) => {}
        }
        code
    }
}

/// What a request of partitions is for, each of `count` elements of a datatype.
///
/// # Errors
/// See [`ChoiceError`].
///
/// # Safety
/// The arguments are as Fortran passes them.
pub unsafe fn partitioned<C: ElementCount>(
    count: *const C,
    datatype: *const c_int,
) -> Result<RequestUse, ChoiceError> {
    // SAFETY: as the caller promises.
    let partitions = unsafe { partitions(count.read().number(), datatype.read()) };
    partitions.map(RequestUse::Partitioned).map_err(ChoiceError::Class)
}

/// The address of a buffer that must be contiguous.
///
/// # Errors
/// See [`ChoiceError`].
///
/// # Safety
/// The descriptor is one of Fortran.
pub unsafe fn contiguous(buffer: *const Descriptor) -> Result<*mut c_void, ChoiceError> {
    let mut room = DimensionRoom::default();
    // SAFETY: as the caller promises.
    let section = unsafe { Descriptor::section(buffer, &mut room)? };
    match section.is_contiguous() {
        true => Ok(section.address),
        false => Err(ChoiceError::Class(c::ERR_BUFFER)),
    }
}

/// The address of a buffer of which nothing else counts.
///
/// # Safety
/// The descriptor is one of Fortran; of one of an unknown compiler, too, the address comes first.
#[inline(always)]
pub unsafe fn location(buffer: *const Descriptor) -> *mut c_void {
    // SAFETY: as the caller promises.
    unsafe { Descriptor::address(buffer) }
}

/// Whether a descriptor is of a compiler that is known, and what it describes is contiguous by the
/// [quick test](crate::descriptor::ArraySection::is_packed).
///
/// # Safety
/// The descriptor is one of Fortran.
#[inline(always)]
pub unsafe fn is_packed(buffer: *const Descriptor) -> bool {
    // SAFETY: as the caller promises.
    unsafe { Descriptor::is_packed(buffer) }
}
