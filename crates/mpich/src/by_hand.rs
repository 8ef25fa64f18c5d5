//! Functions of MPI that are more than their converted arguments, and those that MPI has removed.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use mica_front_end::types::{MPI_Aint, MPI_Count};

use crate::argument::{OutValue, OutValues, Same, Value, Values};
use crate::callback::{
    self, Cancel, Copy, Delete, ErrorHandler, Free, Handler, Operator, Query, UserFunction,
    UserFunctionLarge,
};
use crate::export::{converted, forward, pair, same, standard};
use crate::generated::constants as c;
use crate::handle::{Comm, Errhandler, MpichDatatype, MpichFile, Session, Win};
use crate::status::MpichStatus;
use crate::value::{
    Combiner, Distribution, DistributionArgument, ErrorCode, Keyval, Order, Rank, ValueKind,
    WindowFlavor, WindowModel,
};
use crate::word::WordKind;

// An exit status, which is no error code.
forward! { MPI_Abort(comm: Value<Comm>, errorcode: Same<c_int>) }

same! {
    MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint;
    MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint;
    MPI_Pcontrol(level: c_int) -> c_int;
    MPI_Wtick() -> f64;
    MPI_Wtime() -> f64;
}

// This is another ABI.
pair! { MPI_Abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int {
    for place in [abi_major, abi_minor] {
        if !place.is_null() {
            // SAFETY: the caller passes writable places.
            unsafe { place.write(-1) };
        }
    }
    0
} }

/// Defines functions that return what they get: handles are integers already.
macro_rules! identities {
    ($($($mpi:ident)* ($word:ty) -> $result:ty;)*) => {$($(
        pair! { $mpi(handle: $word) -> $result { handle as $result } }
    )*)*};
}

identities! {
    MPI_Comm_c2f MPI_Comm_f2c MPI_Comm_toint MPI_Comm_fromint
    MPI_Errhandler_c2f MPI_Errhandler_f2c MPI_Errhandler_toint MPI_Errhandler_fromint
    MPI_Group_c2f MPI_Group_f2c MPI_Group_toint MPI_Group_fromint
    MPI_Info_c2f MPI_Info_f2c MPI_Info_toint MPI_Info_fromint
    MPI_Message_c2f MPI_Message_f2c MPI_Message_toint MPI_Message_fromint
    MPI_Op_c2f MPI_Op_f2c MPI_Op_toint MPI_Op_fromint
    MPI_Request_c2f MPI_Request_f2c MPI_Request_toint MPI_Request_fromint
    MPI_Session_c2f MPI_Session_f2c MPI_Session_toint MPI_Session_fromint
    MPI_Type_c2f MPI_Type_f2c MPI_Type_toint MPI_Type_fromint
    MPI_Win_c2f MPI_Win_f2c MPI_Win_toint MPI_Win_fromint
    (c_int) -> c_int;
    MPI_File_c2f MPI_File_toint (usize) -> c_int;
    MPI_File_f2c MPI_File_fromint (u32) -> usize;
}

/// Defines functions that copy a status: in C, in Fortran and in Fortran 2008 it has the same
/// words.
macro_rules! copies {
    ($($mpi:ident)*) => {$(
        pair! { $mpi(from: *const MpichStatus, to: *mut MpichStatus) -> c_int {
            if from.addr() > 1 && to.addr() > 1 {
                // SAFETY: the caller passes a status and the place for one.
                unsafe { to.write(from.read()) };
                return 0;
            }
            c::ERR_ARG
        } }
    )*};
}

copies! {
    MPI_Status_c2f MPI_Status_f2c MPI_Status_c2f08 MPI_Status_f082c MPI_Status_f082f
    MPI_Status_f2f08
}

/// Where a program finds the value of an attribute that is a constant: in the table of constants,
/// which stays.
fn constant<K: ValueKind>(standard: c_int) -> usize {
    let found = K::PAIRS.iter().find(|pair| pair.1 == standard);
    found.map_or(0, |pair| (&raw const pair.0).expose_provenance())
}

/// The address of `place`, which holds `value` from now on.
fn stored(place: &'static AtomicI32, value: c_int) -> usize {
    place.store(value, Ordering::Relaxed);
    place.as_ptr().expose_provenance()
}

/// The number alone matters, so they are stored relaxed.
static LAST_USED: AtomicI32 = AtomicI32::new(0);
static HOST: AtomicI32 = AtomicI32::new(0);
static IO: AtomicI32 = AtomicI32::new(0);

/// Converts the value of a predefined attribute whose value is a constant.
///
/// # Safety
/// `value` is null or holds what the library stored for this key, if `found` is not 0.
unsafe fn convert_attribute(keyval: c_int, value: *mut c_void, found: *const c_int) {
    // SAFETY: as the caller promises; the library has refused null.
    if value.is_null() || unsafe { found.as_ref() }.is_none_or(|&found| found == 0) {
        return;
    }
    let value = value.cast::<*const c_int>();
    // SAFETY: the value of each of these attributes is the address of an int.
    let number = || unsafe { value.read().read() };
    let address = match keyval {
        c::WIN_CREATE_FLAVOR => constant::<WindowFlavor>(number()),
        c::WIN_MODEL => constant::<WindowModel>(number()),
        c::LASTUSEDCODE => stored(&LAST_USED, ErrorCode::to_mpich(number())),
        c::HOST => stored(&HOST, Rank::to_mpich(number())),
        c::IO => stored(&IO, Rank::to_mpich(number())),
        _ => return,
    };
    // SAFETY: as the caller promises.
    unsafe { value.write(std::ptr::with_exposed_provenance(address)) };
}

/// Defines functions that get an attribute.
macro_rules! attributes {
    ($($mpi:ident $kind:ident;)*) => {$(
        pair! { $mpi(
            object: c_int, keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int
        ) -> c_int {
            let key = keyval;
            // SAFETY: the caller passes what MPI asks for.
            unsafe {
                let code = converted!($mpi(
                    object: Value<$kind>,
                    keyval: Value<Keyval>,
                    attribute_val: Same<*mut c_void>,
                    flag: Same<*mut c_int>
                ));
                if code == 0 {
                    convert_attribute(key, attribute_val, flag);
                }
                code
            }
        } }
    )*};
}

attributes! {
    MPI_Attr_get Comm;
    MPI_Comm_get_attr Comm;
    MPI_Win_get_attr Win;
}

/// Defines functions that create the key of an attribute.
macro_rules! keyvals {
    ($($mpi:ident $kind:ident;)*) => {$(
        pair! { $mpi(
            copy: Option<Copy<c_int>>,
            delete: Option<Delete<c_int>>,
            keyval: *mut c_int,
            extra_state: *mut c_void
        ) -> c_int {
            // SAFETY: the caller passes what MPI asks for.
            unsafe { callback::create_keyval::<$kind>(copy, delete, keyval, extra_state) }
        } }
    )*};
}

keyvals! {
    MPI_Keyval_create Comm;
    MPI_Comm_create_keyval Comm;
    MPI_Type_create_keyval MpichDatatype;
    MPI_Win_create_keyval Win;
}

/// Defines functions that create an error handler.
macro_rules! errhandlers {
    ($($mpi:ident $kind:ident;)*) => {$(
        pair! { $mpi(
            function: Option<ErrorHandler<<$kind as WordKind>::Own>>, errhandler: *mut c_int
        ) -> c_int {
            // SAFETY: the caller passes what MPI asks for.
            unsafe {
                callback::create_errhandler::<$kind>(function.map(Handler::Plain), errhandler)
            }
        } }
    )*};
}

errhandlers! {
    MPI_Errhandler_create Comm;
    MPI_Comm_create_errhandler Comm;
    MPI_File_create_errhandler MpichFile;
    MPI_Session_create_errhandler Session;
    MPI_Win_create_errhandler Win;
}

pair! { MPI_Op_create(function: Option<UserFunction>, commute: c_int, op: *mut c_int) -> c_int {
    // SAFETY: the caller passes what MPI asks for.
    unsafe { callback::create_operator(function.map(Operator::Plain), commute, op) }
} }

pair! { MPI_Op_create_c(
    function: Option<UserFunctionLarge>, commute: c_int, op: *mut c_int
) -> c_int {
    // SAFETY: the caller passes what MPI asks for.
    unsafe { callback::create_operator(function.map(Operator::Large), commute, op) }
} }

pair! { MPI_Grequest_start(
    query: Option<Query>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    extra_state: *mut c_void,
    request: *mut c_int
) -> c_int {
    // SAFETY: the caller passes what MPI asks for.
    unsafe { callback::start_generalized((query, free, cancel), extra_state, request) }
} }

/// Characters of a processor's name in the standard ABI, and here; the last is the final zero.
const PROCESSOR_NAME: (usize, usize) = c::MAX_PROCESSOR_NAME;

pair! { MPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int {
    type Call = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    let mut whole = [0 as c_char; PROCESSOR_NAME.1];
    let place = if name.is_null() { name } else { whole.as_mut_ptr() };
    // SAFETY: the places are null or writable, for as many characters as each ABI says.
    unsafe {
        let code = standard!(MPI_Get_processor_name as Call)(place, resultlen);
        if code == 0 {
            let len = (*resultlen as usize).min(PROCESSOR_NAME.0 - 1);
            name.copy_from_nonoverlapping(whole.as_ptr(), len);
            name.add(len).write(0);
            *resultlen = len as c_int;
        }
        ErrorCode::to_mpich(code)
    }
} }

/// Whose integers they are: the large form has sizes among its counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IntegersOf {
    /// `MPI_Type_get_contents`.
    Plain,
    /// `MPI_Type_get_contents_c`.
    Large,
}

/// Converts the constants among the integers by which a datatype was made.
///
/// # Safety
/// `integers` is null or holds what the library stored; `form` says by which form of the call.
unsafe fn convert_integers(datatype: c_int, integers: *mut c_int, form: IntegersOf) {
    type Call = unsafe extern "C" fn(
        usize,
        *mut MPI_Count,
        *mut MPI_Count,
        *mut MPI_Count,
        *mut MPI_Count,
        *mut c_int,
    ) -> c_int;
    let [mut numbers, mut addresses, mut counts, mut datatypes] = [0; 4];
    let mut combiner = 0;
    let datatype = MpichDatatype::to_standard(datatype);
    // SAFETY: the function has these parameters; the places are writable.
    let code = unsafe {
        let call = standard!(MPI_Type_get_envelope_c as Call);
        let (counts, datatypes) = (&raw mut counts, &raw mut datatypes);
        let (numbers, addresses) = (&raw mut numbers, &raw mut addresses);
        call(datatype, numbers, addresses, counts, datatypes, &raw mut combiner)
    };
    let combiner = Combiner::to_mpich(combiner);
    let is_array = [c::COMBINER_SUBARRAY, c::COMBINER_DARRAY].contains(&combiner);
    if code != 0 || integers.is_null() || !is_array {
        return;
    }
    // SAFETY: the number of dimensions is among the integers: of a distributed array behind the
    // size and the rank.
    let integer = |i: usize| unsafe { &mut *integers.add(i) };
    let is_large = form == IntegersOf::Large;
    let (dimensions, last) = match (combiner == c::COMBINER_SUBARRAY, is_large) {
        (true, true) => (0, 1),
        (true, false) => (0, 1 + 3 * *integer(0)),
        (false, true) => (*integer(2), 3 + 3 * *integer(2)),
        (false, false) => (*integer(2), 3 + 4 * *integer(2)),
    };
    // The sizes of the whole array come first, where they are integers.
    let first = if is_large { 3 } else { 3 + dimensions };
    for i in 0..dimensions {
        let distribution = integer((first + i) as usize);
        *distribution = Distribution::to_mpich(*distribution);
        let argument = integer((first + dimensions + i) as usize);
        *argument = DistributionArgument::to_mpich(*argument);
    }
    let order = integer(last as usize);
    *order = Order::to_mpich(*order);
}

pair! { MPI_Type_get_contents(
    datatype: c_int,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: *mut c_int,
    addresses: *mut MPI_Aint,
    datatypes: *mut c_int
) -> c_int {
    let (whole, stored) = (datatype, integers);
    // SAFETY: the caller passes what MPI asks for.
    unsafe {
        let code = converted!(MPI_Type_get_contents(
            datatype: Value<MpichDatatype>,
            max_integers: Same<c_int>,
            max_addresses: Same<c_int>,
            max_datatypes: Same<c_int>,
            integers: Same<*mut c_int>,
            addresses: Same<*mut MPI_Aint>,
            datatypes: OutValues<MpichDatatype>[max_datatypes]
        ));
        if code == 0 {
            convert_integers(whole, stored, IntegersOf::Plain);
        }
        code
    }
} }

pair! { MPI_Type_get_contents_c(
    datatype: c_int,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_counts: MPI_Count,
    max_datatypes: MPI_Count,
    integers: *mut c_int,
    addresses: *mut MPI_Aint,
    counts: *mut MPI_Count,
    datatypes: *mut c_int
) -> c_int {
    let (whole, stored) = (datatype, integers);
    // SAFETY: the caller passes what MPI asks for.
    unsafe {
        let code = converted!(MPI_Type_get_contents_c(
            datatype: Value<MpichDatatype>,
            max_integers: Same<MPI_Count>,
            max_addresses: Same<MPI_Count>,
            max_counts: Same<MPI_Count>,
            max_datatypes: Same<MPI_Count>,
            integers: Same<*mut c_int>,
            addresses: Same<*mut MPI_Aint>,
            counts: Same<*mut MPI_Count>,
            datatypes: OutValues<MpichDatatype>[max_datatypes]
        ));
        if code == 0 {
            convert_integers(whole, stored, IntegersOf::Large);
        }
        code
    }
} }

/// Removed from MPI: the same as a function of today.
macro_rules! renamed {
    ($($old:ident = $new:ident($($p:ident: $kind:ty $([$len:expr])?),*);)*) => {$(
        pair! { $old($($p: <$kind as crate::argument::ParameterKind>::Given),*) -> c_int {
            // SAFETY: the caller passes what MPI asks for.
            unsafe { converted!($new($($p: $kind $([$len])?),*)) }
        } }
    )*};
}

renamed! {
    MPI_Address = MPI_Get_address(location: Same<*const c_void>, address: Same<*mut MPI_Aint>);
    MPI_Errhandler_get =
        MPI_Comm_get_errhandler(comm: Value<Comm>, errhandler: OutValue<Errhandler>);
    MPI_Errhandler_set =
        MPI_Comm_set_errhandler(comm: Value<Comm>, errhandler: Value<Errhandler>);
    MPI_Type_hindexed = MPI_Type_create_hindexed(
        count: Same<c_int>,
        lengths: Same<*const c_int>,
        displacements: Same<*const MPI_Aint>,
        oldtype: Value<MpichDatatype>,
        newtype: OutValue<MpichDatatype>
    );
    MPI_Type_hvector = MPI_Type_create_hvector(
        count: Same<c_int>,
        length: Same<c_int>,
        stride: Same<MPI_Aint>,
        oldtype: Value<MpichDatatype>,
        newtype: OutValue<MpichDatatype>
    );
    MPI_Type_struct = MPI_Type_create_struct(
        count: Same<c_int>,
        lengths: Same<*const c_int>,
        displacements: Same<*const MPI_Aint>,
        types: Values<MpichDatatype>[count],
        newtype: OutValue<MpichDatatype>
    );
}

/// Lower bound and extent of a datatype, and the error code.
fn bounds(datatype: c_int) -> (MPI_Aint, MPI_Aint, c_int) {
    let (mut lower, mut extent) = (0, 0);
    let mut get = || -> c_int {
        let (lb, size) = (&raw mut lower, &raw mut extent);
        // SAFETY: the places are writable.
        unsafe {
            converted!(MPI_Type_get_extent(
                datatype: Value<MpichDatatype>,
                lb: Same<*mut MPI_Aint>,
                size: Same<*mut MPI_Aint>
            ))
        }
    };
    let code = get();
    (lower, extent, code)
}

/// Defines functions that return one of the bounds.
macro_rules! bound {
    ($($mpi:ident |$lower:ident, $extent:ident| $value:expr;)*) => {$(
        pair! { $mpi(datatype: c_int, place: *mut MPI_Aint) -> c_int {
            let ($lower, $extent, code) = bounds(datatype);
            if code == 0 && !place.is_null() {
                // SAFETY: the caller passes a writable place.
                unsafe { place.write($value) };
            }
            code
        } }
    )*};
}

bound! {
    MPI_Type_extent |_lower, extent| extent;
    MPI_Type_lb |lower, _extent| lower;
    MPI_Type_ub |lower, extent| lower + extent;
}
