//! Files (MPI 5.0, chapter 14): what differs from one call to the next is in the generator's table
//! (`bindings/methods.py`).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use mica_mpi::constants as c;
use mica_mpi::datatype::Datatype;
use mica_mpi::file::{
    self, Conversion, ConversionCall, File, FileElements, RegisteredRepresentation,
};
use mica_mpi::{Error, Result};

use crate::convert::{Out, text};
use crate::elements::UserElements;
use crate::poly::CountForm;
use crate::raise::{ErrorOn, ErrorTarget};
use crate::types::*;

/// The elements that a call names. An error of theirs is one of the call, which other ranks may
/// have called as well.
///
/// # Safety
/// The obligations of [`View::user`](mica_memory::View::user), until the access is complete.
pub unsafe fn elements(elements: UserElements) -> Result<FileElements> {
    // SAFETY: passed on to the caller.
    let view = unsafe { elements.view()? };
    let datatype = match elements.datatype.raw() {
        // No elements of it are none.
        c::DATATYPE_NULL => Datatype::resolve(c::BYTE)?,
        handle => Datatype::resolve(handle)?,
    };
    let address = elements.address.expose_provenance();
    Ok(FileElements { view, address, count: elements.count, datatype })
}

/// MPI_File_close.
///
/// # Safety
/// `fh` is null or writable.
pub unsafe fn mpi_file_close(fh: *mut MPI_File) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let place = unsafe { Out::new(fh, "fh")? };
    let handle = place.get().raw();
    // Its handler is gone when it is closed.
    let handler = File::errhandler_of(handle);
    let closed = File::close(handle);
    if closed.is_ok() || File::resolve(handle).is_err() && handler.is_ok() {
        place.set(MPI_File::from_raw(c::FILE_NULL));
    }
    closed.map_err(|error| match handler {
        Ok(handler) => ErrorOn::for_handler(handler, ErrorTarget::File(handle), error),
        Err(_) => error.into(),
    })
}

/// MPI_File_get_view.
///
/// # Safety
/// The places are null or writable, `datarep` for `MPI_MAX_DATAREP_STRING` bytes.
pub unsafe fn mpi_file_get_view(
    fh: MPI_File,
    disp: *mut MPI_Offset,
    etype: *mut MPI_Datatype,
    filetype: *mut MPI_Datatype,
    datarep: *mut c_char,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (disp, etype, filetype) = unsafe {
        (Out::new(disp, "disp")?, Out::new(etype, "etype")?, Out::new(filetype, "filetype")?)
    };
    let (at, of_etype, of_filetype, name) = File::resolve(fh.raw())?.view_contents()?;
    let room = c::MAX_DATAREP_STRING;
    // SAFETY: as the caller promises.
    unsafe { crate::convert::put_text(datarep, room, &name, "datarep")? };
    disp.set(at);
    etype.set(MPI_Datatype::from_raw(of_etype));
    filetype.set(MPI_Datatype::from_raw(of_filetype));
    Ok(())
}

/// `MPI_Datarep_conversion_function` and its large form, which differ in the type of `count`.
type Convert<Count> = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    Count,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;
/// `MPI_Datarep_extent_function`.
type Extent = unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int;

/// A conversion function of the program; 0 is `MPI_CONVERSION_FN_NULL`.
///
/// # Safety
/// It is of the form's type and stays in place.
unsafe fn conversion(function: usize, form: CountForm, extra: usize) -> Option<Conversion> {
    use std::ptr::with_exposed_provenance_mut as at;
    let address = (function != 0).then(|| std::ptr::with_exposed_provenance::<()>(function))?;
    Some(match form {
        CountForm::Plain => {
            // SAFETY: as the caller promises.
            let call = unsafe { std::mem::transmute::<*const (), Convert<c_int>>(address) };
            Arc::new(move |with: ConversionCall| {
                let (datatype, count) = (MPI_Datatype::from_raw(with.datatype), with.count);
                let (user, file, extra) = (at(with.user), at(with.file), at(extra));
                // SAFETY: the program's function, called as MPI says.
                unsafe { call(user, datatype, count as c_int, file, with.position, extra) }
            })
        }
        CountForm::Large => {
            // SAFETY: as the caller promises.
            let call = unsafe { std::mem::transmute::<*const (), Convert<MPI_Count>>(address) };
            Arc::new(move |with: ConversionCall| {
                let (datatype, count) = (MPI_Datatype::from_raw(with.datatype), with.count);
                let (user, file, extra) = (at(with.user), at(with.file), at(extra));
                // SAFETY: as above.
                unsafe { call(user, datatype, count, file, with.position, extra) }
            })
        }
    })
}

/// MPI_Register_datarep, MPI_Register_datarep_c.
///
/// # Safety
/// `datarep` is null or a string; the functions are of the types that their names and the form say,
/// and stay in place.
pub unsafe fn mpi_register_datarep(
    datarep: *const c_char,
    read_conversion_fn: usize,
    write_conversion_fn: usize,
    dtype_file_extent_fn: usize,
    extra_state: *mut c_void,
    form: CountForm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let name = unsafe { text(datarep, "datarep")? };
    if dtype_file_extent_fn == 0 {
        let reason = "a function is needed";
        return Err(Error::argument(c::ERR_ARG, "dtype_file_extent_fn", "NULL", reason));
    }
    let extra = extra_state.expose_provenance();
    // SAFETY: as the caller promises.
    let (read, write, extent) = unsafe {
        let address = std::ptr::with_exposed_provenance::<()>(dtype_file_extent_fn);
        (
            conversion(read_conversion_fn, form, extra),
            conversion(write_conversion_fn, form, extra),
            std::mem::transmute::<*const (), Extent>(address),
        )
    };
    let extent = move |datatype: &Datatype| {
        let (mut bytes, extra) = (0, std::ptr::with_exposed_provenance_mut(extra));
        let datatype = MPI_Datatype::from_raw(datatype.handle());
        // SAFETY: the program's function, called as MPI says.
        match unsafe { extent(datatype, &raw mut bytes, extra) } {
            c::SUCCESS => Ok(bytes as i64),
            code => Err(Error::Callback { code }),
        }
    };
    file::register(RegisteredRepresentation { name, read, write, extent: Box::new(extent) })
}
