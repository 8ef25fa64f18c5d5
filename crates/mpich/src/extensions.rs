//! What public binaries of MPICH's ABI find beside the functions of MPI: data, and functions that
//! begin with `MPIX_`. Those that Mica has work; the others raise an error with their name.

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicPtr;

use crate::argument::{Same, Value};
use crate::callback::{
    Destructor, ErrorHandlerExtra, Handler, Operator, ProgramState, UserFunctionExtra,
    create_errhandler, create_operator,
};
use crate::export::{converted, missing, pair};
use crate::generated::constants as c;
use crate::handle::{Comm, MpichFile, Request, Session, Win};
use crate::status::MpichStatus;
use crate::word::WordKind;

/// Addresses that stand for an array of weights: those of the standard ABI, since a program reads
/// them here.
#[unsafe(no_mangle)]
static MPI_UNWEIGHTED: AtomicPtr<c_int> =
    AtomicPtr::new(std::ptr::without_provenance_mut(c::UNWEIGHTED));
#[unsafe(no_mangle)]
static MPI_WEIGHTS_EMPTY: AtomicPtr<c_int> =
    AtomicPtr::new(std::ptr::without_provenance_mut(c::WEIGHTS_EMPTY));
/// The handle that stands for all of a session.
#[unsafe(no_mangle)]
static MPI_T_PVAR_ALL_HANDLES: AtomicPtr<c_void> =
    AtomicPtr::new(std::ptr::without_provenance_mut(c::T_PVAR_ALL_HANDLES));

/// Statuses that Fortran ignores, as C sees them: set by Fortran's interface.
#[unsafe(no_mangle)]
static MPI_F_STATUS_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(std::ptr::null_mut());
#[unsafe(no_mangle)]
static MPI_F_STATUSES_IGNORE: AtomicPtr<c_int> = AtomicPtr::new(std::ptr::null_mut());
#[unsafe(no_mangle)]
static mut MPIR_F08_MPI_STATUS_IGNORE_OBJ: MpichStatus = EMPTY;
#[unsafe(no_mangle)]
static mut MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [MpichStatus; 1] = [EMPTY];
#[unsafe(no_mangle)]
static MPI_F08_STATUS_IGNORE: AtomicPtr<MpichStatus> =
    AtomicPtr::new(&raw mut MPIR_F08_MPI_STATUS_IGNORE_OBJ);
#[unsafe(no_mangle)]
static MPI_F08_STATUSES_IGNORE: AtomicPtr<MpichStatus> =
    AtomicPtr::new((&raw mut MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast());
const EMPTY: MpichStatus =
    MpichStatus { count_lo: 0, count_hi_and_cancelled: 0, MPI_SOURCE: 0, MPI_TAG: 0, MPI_ERROR: 0 };

/// `MPI_DUP_FN`: the copy has the same value.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is C's")]
unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _keyval: c_int,
    _extra_state: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller passes a place for a word and one for a flag.
    unsafe {
        copy.cast::<*mut c_void>().write(value);
        flag.write(1);
    }
    0
}

/// Mica sends from no memory of an accelerator.
macro_rules! without_accelerators {
    ($($mpix:ident)*) => {$(
        pair! { $mpix() -> c_int { 0 } }
    )*};
}

without_accelerators! { MPIX_Query_cuda_support MPIX_Query_hip_support MPIX_Query_ze_support }

pair! { MPIX_GPU_query_support(_gpu_type: c_int, is_supported: *mut c_int) -> c_int {
    if is_supported.is_null() {
        return c::ERR_ARG;
    }
    // SAFETY: the caller passes a writable place.
    unsafe { is_supported.write(0) };
    0
} }

pair! { MPIX_Request_is_complete(request: c_int) -> c_int {
    let mut flag = 0;
    let get = |request: c_int, done: *mut c_int, status: *mut c_void| -> c_int {
        // SAFETY: the place is writable; the status is ignored.
        unsafe {
            converted!(MPI_Request_get_status(
                request: Value<Request>,
                done: Same<*mut c_int>,
                status: Same<*mut c_void>
            ))
        }
    };
    get(request, &raw mut flag, std::ptr::null_mut());
    flag
} }

pair! { MPIX_Op_create_x(
    function: Option<UserFunctionExtra>,
    destructor: Option<Destructor>,
    commute: c_int,
    extra_state: *mut c_void,
    op: *mut c_int
) -> c_int {
    let own = |function| Operator::Extra(function, ProgramState::new(extra_state, destructor));
    let operator = function.map(own);
    // SAFETY: the caller passes a place for the operator.
    unsafe { create_operator(operator, commute, op) }
} }

/// Functions that create an error handler with a state.
macro_rules! errhandlers {
    ($($mpix:ident $kind:ident;)*) => {$(
        pair! { $mpix(
            function: Option<ErrorHandlerExtra<<$kind as WordKind>::Own>>,
            destructor: Option<Destructor>,
            extra_state: *mut c_void,
            errhandler: *mut c_int
        ) -> c_int {
            let own = |function| {
                Handler::Extra(function, ProgramState::new(extra_state, destructor))
            };
            // SAFETY: the caller passes a place for the handler.
            unsafe { create_errhandler::<$kind>(function.map(own), errhandler) }
        } }
    )*};
}

errhandlers! {
    MPIX_Comm_create_errhandler_x Comm;
    MPIX_File_create_errhandler_x MpichFile;
    MPIX_Session_create_errhandler_x Session;
    MPIX_Win_create_errhandler_x Win;
}

missing! {
    MPIX_Allreduce_enqueue MPIX_Allreduce_enqueue_c MPIX_Async_get_state MPIX_Async_spawn
    MPIX_Async_start MPIX_Comm_agree MPIX_Comm_failure_ack MPIX_Comm_failure_get_acked
    MPIX_Comm_get_failed MPIX_Comm_get_stream MPIX_Comm_revoke MPIX_Comm_shrink
    MPIX_Comm_test_threadcomm MPIX_Grequest_class_allocate MPIX_Grequest_class_create
    MPIX_Grequest_start MPIX_Info_set_hex MPIX_Irecv_enqueue MPIX_Irecv_enqueue_c
    MPIX_Isend_enqueue MPIX_Isend_enqueue_c MPIX_Recv_enqueue MPIX_Recv_enqueue_c
    MPIX_Send_enqueue MPIX_Send_enqueue_c MPIX_Start_progress_thread MPIX_Stop_progress_thread
    MPIX_Stream_comm_create MPIX_Stream_comm_create_multiplex MPIX_Stream_create
    MPIX_Stream_free MPIX_Stream_irecv MPIX_Stream_irecv_c MPIX_Stream_isend MPIX_Stream_isend_c
    MPIX_Stream_progress MPIX_Stream_recv MPIX_Stream_recv_c MPIX_Stream_send MPIX_Stream_send_c
    MPIX_Threadcomm_finish MPIX_Threadcomm_free MPIX_Threadcomm_init MPIX_Threadcomm_start
    MPIX_Type_iov MPIX_Type_iov_len MPIX_Wait_enqueue MPIX_Waitall_enqueue
}

// What MPICH's own interfaces for C++ and Fortran call, which come with MPICH.
missing! {
    MPII_Comm_get_attr MPII_Comm_set_attr MPII_Grequest_set_lang_f77 MPII_Keyval_set_proxy
    MPII_Type_get_attr MPII_Type_set_attr MPII_Win_get_attr MPII_Win_set_attr MPIR_Err_create_code
    MPIR_Err_return_comm MPIR_Err_return_comm_create_from_group MPIR_Err_return_group
    MPIR_Err_return_session MPIR_Err_return_session_init MPIR_Err_return_win
}

/// Fortran's logical values, as MPICH was built.
#[unsafe(no_mangle)]
static MPIR_fortran_true: c_int = 1;
#[unsafe(no_mangle)]
static MPIR_fortran_false: c_int = 0;
