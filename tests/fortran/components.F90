! A component of an array of a derived type as a buffer: the distance between its elements is the
! size of the type, which need be no multiple of the component's. By itself and by a pointer, whose
! descriptor has that distance in another place than its strides.
#include "test.h"
program components
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  type :: thing
    sequence
    integer :: first
    double precision :: middle
    integer :: last
  end type
  integer, parameter :: n = 7
  type(thing), target :: things(n, 2)
  type(thing), target :: expected(n, 2)
  integer, pointer :: lasts(:)
  double precision, pointer :: middles(:)
  integer :: got(n), i
  DECLARE_STATUS(status)

  call test_init
  call fill

  ! Out of the component, contiguous at the other end.
  call exchange_out(things(:, 1)%last, things(1:n:2, 2)%last)
  lasts => things(:, 1)%last
  call exchange_out(lasts, lasts(1:n:2))

  ! Into the component: the others stay.
  middles => things(n:1:-1, 2)%middle
  call MPI_Sendrecv([(1.5d0 * i, i = 1, n)], n, MPI_DOUBLE_PRECISION, test_rank, 1, middles, n, &
    MPI_DOUBLE_PRECISION, test_rank, 1, MPI_COMM_WORLD, status, ierror)
  expected = things
  call fill
  do i = 1, n
    things(n + 1 - i, 2)%middle = 1.5d0 * i
  end do
  CHECK(all(things%first == expected%first), 'first components')
  CHECK(all(things%last == expected%last), 'last components')
  CHECK(all(things%middle == expected%middle), 'middle components')

  ! An operator works on a copy.
  call fill
  lasts => things(1:n:3, 1)%last
  got = 0
  call MPI_Allreduce(lasts, got, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  EXPECT(got(2), test_size * 400, 'reduced component')
  call test_finish

contains

  subroutine fill
    integer :: j
    do j = 1, n
      things(j, 1) = thing(j, 0.5d0 * j, 100 * j)
      things(j, 2) = thing(-j, -0.5d0 * j, 1000 * j)
    end do
  end subroutine

  subroutine exchange_out(whole, part)
    integer, intent(in) :: whole(:), part(:)
    got = 0
    call MPI_Sendrecv(whole, size(whole), MPI_INTEGER, test_rank, 2, got, n, MPI_INTEGER, &
      test_rank, 2, MPI_COMM_WORLD, status, ierror)
    CHECK(all(got == whole), 'a whole component')
    got = 0
    call MPI_Sendrecv(part, size(part), MPI_INTEGER, test_rank, 3, got, n, MPI_INTEGER, &
      test_rank, 3, MPI_COMM_WORLD, status, ierror)
    CHECK(all(got(1:size(part)) == part), 'a part of a component')
  end subroutine
end program
