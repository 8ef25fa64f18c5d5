//! Functions that return a value and no error code: the clock (MPI 5.0, 9.6), address arithmetic
//! (5.1.5).

use crate::types::MPI_Aint;

/// MPI_Wtime: seconds of the monotonic clock, which all processes of a node share.
pub fn mpi_wtime() -> f64 {
    seconds(clock(libc::clock_gettime))
}

/// MPI_Wtick: the length of one tick of that clock, in seconds.
pub fn mpi_wtick() -> f64 {
    seconds(clock(libc::clock_getres))
}

/// MPI_Aint_add.
pub fn mpi_aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// MPI_Aint_diff.
pub fn mpi_aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}

fn clock(
    read: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> i32,
) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both readers only write the timespec. They fail for an unknown clock alone, and every
    // Linux has this one.
    unsafe { read(libc::CLOCK_MONOTONIC, &mut time) };
    time
}

fn seconds(time: libc::timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_runs_forward_and_has_ticks() {
        let start = mpi_wtime();
        assert!(mpi_wtime() >= start && start > 0.0);
        assert!(mpi_wtick() > 0.0);
    }

    #[test]
    fn addresses_wrap_as_pointers_do() {
        assert_eq!(mpi_aint_add(-1, 1), 0);
        assert_eq!(mpi_aint_diff(MPI_Aint::MIN, 1), MPI_Aint::MAX);
    }
}
