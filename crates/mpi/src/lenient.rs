//! Deviations from MPI that the library accepts, because other implementations do and nothing is
//! lost. With `MICA_CHECK=1` each kind is reported once on standard error, for programs that are
//! meant to be portable.

use std::io::Write;
use std::sync::Once;

use mica_node::tunables::CHECK;

use crate::process;

/// A kind of accepted deviation, and whether it has been reported.
pub(crate) struct Lenience {
    said: Once,
    text: &'static str,
}

/// A predefined communicator in a program that only opens sessions.
pub(crate) static WORLD_OF_SESSIONS: Lenience = Lenience::new(
    "MPI_COMM_WORLD or MPI_COMM_SELF is used, but MPI_Init has not been called, only \
     MPI_Session_init; make a communicator of the process set mpi://WORLD",
);

/// A grid without processes.
pub(crate) static EMPTY_GRID: Lenience = Lenience::new(
    "MPI_Cart_create got a dimension of length 0: the grid has no processes, and all get \
     MPI_COMM_NULL; MPI asks for positive lengths (MPI_Dims_create finds some)",
);

/// A request that has nothing to cancel.
pub(crate) static INACTIVE_CANCEL: Lenience = Lenience::new(
    "MPI_Cancel got a persistent request that is not active: nothing is cancelled; MPI asks for an \
     active one",
);

impl Lenience {
    const fn new(text: &'static str) -> Lenience {
        Lenience { said: Once::new(), text }
    }

    /// Reports the deviation, the first time, if the program is checked.
    #[cold]
    pub(crate) fn note(&self) {
        self.said.call_once(|| {
            if CHECK.choice() != Ok("1") {
                return;
            }
            let line = format!("mica: {}: {} (MICA_CHECK=1)\n", process::in_words(), self.text);
            // One write, so that ranks' lines do not mix. If the write fails, the program
            // continues.
            let _ = std::io::stderr().write_all(line.as_bytes());
        });
    }
}
