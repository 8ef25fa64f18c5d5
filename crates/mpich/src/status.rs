//! Statuses. MPICH's has 20 bytes: the count in a word and 31 bits of the next, whose lowest bit
//! says whether the operation was cancelled, then source, tag and error.

use std::ffi::c_int;

pub use mica_front_end::mpich::MpichStatus;
use mica_front_end::types::MPI_Status;

use crate::value::{ErrorCode, NO_VALUE, Rank, Tag};
use crate::word::WordKind;

/// The status in the standard ABI.
pub fn to_standard(own: MpichStatus) -> MPI_Status {
    let mut status = MPI_Status {
        MPI_SOURCE: Rank::to_standard(own.MPI_SOURCE),
        MPI_TAG: Tag::to_standard(own.MPI_TAG),
        MPI_ERROR: ErrorCode::to_standard(own.MPI_ERROR),
        ..MPI_Status::default()
    };
    let high = u64::from(own.count_hi_and_cancelled as u32 >> 1);
    status.set_bytes(u64::from(own.count_lo as u32) | high << 32);
    status.set_cancelled(own.count_hi_and_cancelled & 1 != 0);
    status
}

/// Takes over a status of the standard ABI, but for its error.
#[inline(always)]
fn take(own: &mut MpichStatus, status: &MPI_Status) {
    let bytes = status.bytes();
    own.count_lo = bytes as c_int;
    own.count_hi_and_cancelled = ((bytes >> 32) as c_int) << 1 | c_int::from(status.cancelled());
    own.MPI_SOURCE = Rank::to_mpich(status.MPI_SOURCE);
    own.MPI_TAG = Tag::to_mpich(status.MPI_TAG);
}

/// The status in MPICH's ABI.
pub fn from_standard(status: &MPI_Status) -> MpichStatus {
    let mut own =
        MpichStatus { MPI_ERROR: ErrorCode::to_mpich(status.MPI_ERROR), ..Default::default() };
    take(&mut own, status);
    own
}

/// A status for the library to write.
#[inline(always)]
pub fn untouched() -> MPI_Status {
    MPI_Status { MPI_SOURCE: NO_VALUE, MPI_TAG: 0, MPI_ERROR: NO_VALUE, MPI_internal: [0; 5] }
}

/// Stores what the library has written into an [`untouched`] status; what it has not stays.
///
/// # Safety
/// `to` is writable; it need not be initialized.
#[inline(always)]
pub unsafe fn give(status: &MPI_Status, to: *mut MpichStatus) {
    if status.MPI_SOURCE != NO_VALUE {
        let mut own = MpichStatus::default();
        take(&mut own, status);
        // SAFETY: as the caller promises.
        unsafe {
            (*to).count_lo = own.count_lo;
            (*to).count_hi_and_cancelled = own.count_hi_and_cancelled;
            (*to).MPI_SOURCE = own.MPI_SOURCE;
            (*to).MPI_TAG = own.MPI_TAG;
        }
    }
    if status.MPI_ERROR != NO_VALUE {
        // SAFETY: as the caller promises.
        unsafe { (*to).MPI_ERROR = ErrorCode::to_mpich(status.MPI_ERROR) };
    }
}

/// Whether a status is one that the program ignores: `MPI_STATUS_IGNORE` and
/// `MPI_STATUSES_IGNORE`.
#[inline(always)]
pub fn is_ignored(status: *const MpichStatus) -> bool {
    status.addr() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_round_trip() {
        for bytes in [0, 5, u64::from(u32::MAX), 1 << 40] {
            for cancelled in [false, true] {
                let mut status = MPI_Status { MPI_SOURCE: -1, MPI_TAG: -2, ..Default::default() };
                status.set_bytes(bytes);
                status.set_cancelled(cancelled);
                let own = from_standard(&status);
                assert_eq!((own.MPI_SOURCE, own.MPI_TAG), (-2, -1));
                assert_eq!(own.count_hi_and_cancelled & 1, c_int::from(cancelled));
                assert_eq!(to_standard(own), status);
            }
        }
    }

    #[test]
    fn what_the_library_does_not_write_stays() {
        let before = MpichStatus { MPI_SOURCE: 3, MPI_ERROR: 9, ..Default::default() };
        let (mut own, mut status) = (before, untouched());
        // SAFETY: a status of this test.
        unsafe { give(&status, &raw mut own) };
        assert_eq!(own, before);
        status.MPI_SOURCE = 5;
        // SAFETY: as above.
        unsafe { give(&status, &raw mut own) };
        assert_eq!((own.MPI_SOURCE, own.MPI_ERROR), (5, 9));
    }
}
