! Conjugate gradients for the five-point Laplacian of a square: halo exchange and two sums over all
! ranks in each step. The answer is known.
#include "test.h"
program cg
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  integer, parameter :: n = 48
  double precision, allocatable ASYNC :: x(:, :), r(:, :), p(:, :), q(:, :), exact(:, :)
  double precision :: rr, rr_before, pq, alpha, largest
  integer :: first, last, above, below, step, i, j
  MPI_COMM_T :: line
  call test_init
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [test_size], [.false.], .false., line, ierror)
  call MPI_Cart_shift(line, 0, 1, below, above, ierror)
  first = test_rank * n / test_size + 1
  last = (test_rank + 1) * n / test_size
  allocate (x(0:n + 1, first - 1:last + 1), source=0d0)
  allocate (p, q, exact, mold=x)
  allocate (r(n, first:last))
  p = 0
  exact = 0
  do j = max(first - 1, 1), min(last + 1, n)
    do i = 1, n
      exact(i, j) = mod(7 * i + 3 * j, 11) - 5
    end do
  end do
  r = laplacian(exact)
  p(1:n, first:last) = r
  rr = dot(r, r)
  do step = 1, 500
    call exchange
    q(1:n, first:last) = laplacian(p)
    pq = dot(p(1:n, first:last), q(1:n, first:last))
    alpha = rr / pq
    x(1:n, first:last) = x(1:n, first:last) + alpha * p(1:n, first:last)
    r = r - alpha * q(1:n, first:last)
    rr_before = rr
    rr = dot(r, r)
    if (rr < 1d-24) exit
    p(1:n, first:last) = r + rr / rr_before * p(1:n, first:last)
  end do
  CHECK(step < 300, 'the number of steps')
  largest = 0
  if (last >= first) largest = maxval(abs(x(1:n, first:last) - exact(1:n, first:last)))
  call MPI_Allreduce(MPI_IN_PLACE, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, &
    ierror)
  CHECK(largest < 1d-9, 'the largest error')
  call MPI_Comm_free(line, ierror)
  call test_finish

contains

  function laplacian(u) result(v)
    double precision, intent(in) :: u(0:, first - 1:)
    double precision :: v(n, first:last)
    integer :: i, j
    do concurrent (i = 1:n, j = first:last)
      v(i, j) = 4 * u(i, j) - u(i - 1, j) - u(i + 1, j) - u(i, j - 1) - u(i, j + 1)
    end do
  end function

  double precision function dot(a, b)
    double precision, intent(in) :: a(:, :), b(:, :)
    dot = sum(a * b)
    call MPI_Allreduce(MPI_IN_PLACE, dot, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  end function

  ! Columns of p are contiguous.
  subroutine exchange
    MPI_REQUEST_T :: requests(4)
    call MPI_Irecv(p(1, first - 1), n, MPI_DOUBLE_PRECISION, below, 1, line, requests(1), ierror)
    call MPI_Irecv(p(1, last + 1), n, MPI_DOUBLE_PRECISION, above, 2, line, requests(2), ierror)
    call MPI_Isend(p(1, last), n, MPI_DOUBLE_PRECISION, above, 1, line, requests(3), ierror)
    call MPI_Isend(p(1, first), n, MPI_DOUBLE_PRECISION, below, 2, line, requests(4), ierror)
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierror)
    if (below == MPI_PROC_NULL) p(:, first - 1) = 0
    if (above == MPI_PROC_NULL) p(:, last + 1) = 0
  end subroutine
end program
