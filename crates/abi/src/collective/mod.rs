//! The arguments of collective calls, from C to `mica_mpi` (MPI 5.0, chapter 6): each family's are
//! converted in one place for the blocking, non-blocking and persistent form. The shims then run
//! one of these forms on the [`CheckedCall`].
//!
//! Arguments that are significant only at the root are not read elsewhere. `MPI_IN_PLACE` becomes
//! `None`. Arrays are read here and not again, while buffers are kept as addresses.
//! [`buffers`] has the arguments that describe one buffer.

/// Defines functions that convert the arguments of a call, on the communicator of the name given:
/// first what the buffers become, then the function of the library that plans the call.
macro_rules! conversions {
    ($comm:ident: $(
        $name:ident as $function:ident($($argument:ident: $type:ty),*)
        let $buffers:pat = $converted:expr; $plan:expr;
    )*) => {$(
        /// The arguments of the call of this name.
        ///
        /// # Safety
        /// What is sent is readable and what is received into is writable, as counts, displacements
        /// and types say, where that is significant; arrays have one element for each rank, or for
        /// each neighbour.
        pub unsafe fn $name($($argument: $type,)* comm: MPI_Comm) -> Result<CheckedCall> {
            let $comm = Comm::resolve(comm.raw())?;
            // SAFETY: by the contract above; nothing is at the null address.
            let $buffers = unsafe { $converted };
            let plan = $plan?;
            Ok(CheckedCall::new(Function::$function, $comm, plan))
        }
    )*};
}

pub mod buffers;
pub mod fast_path;
mod movement;
mod neighbor;
mod reduction;

pub use movement::*;
pub use neighbor::*;
pub use reduction::*;

use std::ffi::c_int;

use mica_mpi::collective::{self, CallForm, CallLabel, CollectivePlan, Function};
use mica_mpi::comm::Comm;
use mica_mpi::constants::ROOT;
use mica_mpi::error::Result;
use mica_mpi::info::Info;

use crate::convert::Out;
use crate::types::{MPI_Info, MPI_Request};

/// A collective call whose arguments have been checked: this rank's part of it.
pub struct CheckedCall {
    comm: Comm,
    plan: CollectivePlan,
    function: Function,
}

impl CheckedCall {
    fn new(function: Function, comm: Comm, plan: impl Into<CollectivePlan>) -> Self {
        let plan = plan.into();
        Self { comm, plan, function }
    }

    /// The blocking form.
    pub fn run(mut self) -> Result<()> {
        self.plan.set_label(CallLabel::new(self.function, CallForm::Blocking));
        collective::run(&self.comm, &self.plan)
    }
}

/// The non-blocking form of the call that `prepare` makes: starts it.
///
/// # Safety
/// `request` is null or writable; the buffers of the call stay as MPI asks until it completes.
pub unsafe fn start(
    request: *mut MPI_Request,
    prepare: impl FnOnce() -> Result<CheckedCall>,
) -> Result<()> {
    // SAFETY: by the contract above.
    let request = unsafe { Out::new(request, "request")? };
    let call = prepare()?;
    let label = CallLabel::new(call.function, CallForm::Immediate);
    let started = collective::start(&call.comm, call.plan, label)?;
    request.give(started)
}

/// The persistent form of the call that `prepare` makes: keeps it, for `MPI_Start` to start. No
/// hints are known, so `info` need only be valid.
///
/// # Safety
/// `request` is null or writable; the buffers of the call stay as MPI asks whenever it is active.
pub unsafe fn make_persistent(
    request: *mut MPI_Request,
    info: MPI_Info,
    prepare: impl FnOnce() -> Result<CheckedCall>,
) -> Result<()> {
    // SAFETY: by the contract above.
    let request = unsafe { Out::new(request, "request")? };
    Info::resolve_hints(info.raw())?;
    let call = prepare()?;
    let label = CallLabel::new(call.function, CallForm::Persistent);
    let plan = collective::persistent(&call.comm, call.plan, label)?;
    request.give(plan)
}

/// Whether arguments that are significant only at the root are significant here.
fn at_root(comm: &Comm, root: c_int) -> bool {
    if comm.is_inter() { root == ROOT } else { usize::try_from(root) == Ok(comm.rank()) }
}

/// Whether arguments that are significant at all ranks are significant here: on an
/// intercommunicator, only where the root is on the other side.
fn takes_part(comm: &Comm, root: c_int) -> bool {
    !comm.is_inter() || root >= 0
}
