! Integer sort by buckets, as in the benchmark IS: keys to the rank that has their range, by
! MPI_Alltoallv, after the numbers of keys by MPI_Alltoall. Checked by order, number and sum.
#include "test.h"
program is_sort
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  integer, parameter :: keys = 20000, largest = 100000
  integer ASYNC :: mine(keys), grouped(keys)
  integer, allocatable ASYNC :: got(:)
  integer, allocatable :: sends(:), receives(:), send_places(:), receive_places(:), next(:)
  integer(int64) :: sums(2), totals(2)
  type(stream) :: random
  integer :: i, owner, low, high, edge
  call test_init
  allocate (sends(test_size), receives(test_size), send_places(test_size), &
    receive_places(test_size), next(test_size))
  call start_stream(random, 17 + test_rank)
  ! Sums of four: the middle ranges have most keys.
  do i = 1, keys
    mine(i) = (draw(random, 0, largest - 1) + draw(random, 0, largest - 1) + draw(random, 0, &
      largest - 1) + &
      draw(random, 0, largest - 1)) / 4
  end do
  sends = 0
  do i = 1, keys
    owner = owner_of(mine(i))
    sends(owner) = sends(owner) + 1
  end do
  call MPI_Alltoall(sends, 1, MPI_INTEGER, receives, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  send_places = [(sum(sends(:i - 1)), i = 1, test_size)]
  receive_places = [(sum(receives(:i - 1)), i = 1, test_size)]
  next = send_places
  do i = 1, keys
    owner = owner_of(mine(i))
    next(owner) = next(owner) + 1
    grouped(next(owner)) = mine(i)
  end do
  allocate (got(sum(receives)))
  call MPI_Alltoallv(grouped, sends, send_places, MPI_INTEGER, got, receives, receive_places, &
    MPI_INTEGER, &
    MPI_COMM_WORLD, ierror)
  low = -1
  high = -1
  call count_sort(got)
  if (size(got) > 0) then
    low = got(1)
    high = got(size(got))
  end if
  CHECK(all(got(2:) >= got(:size(got) - 1)), 'the order of the keys')
  CHECK(size(got) == 0 .or. (owner_of(low) == test_rank + 1 .and. owner_of(high) == test_rank + 1), 'the range of keys')
  ! The largest key of all ranks before.
  edge = -1
  call MPI_Exscan(high, edge, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierror)
  CHECK(size(got) == 0 .or. test_rank == 0 .or. edge <= low, 'the order of the ranks')
  sums = [int(size(got), int64), sum(int(got, int64))]
  call MPI_Allreduce(sums, totals, 2, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierror)
  EXPECT(totals(1), keys * test_size, 'number of keys')
  sums(2) = sum(int(mine, int64))
  call MPI_Reduce(sums(2), sums(1), 1, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
  if (test_rank == 0) then
    EXPECT(totals(2), sums(1), 'sum of keys')
  end if
  call test_finish

contains

  integer function owner_of(key)
    integer, intent(in) :: key
    owner_of = 1 + int(int(key, int64) * test_size / largest)
  end function

  subroutine count_sort(a)
    integer, intent(inout) :: a(:)
    integer :: counts(0:largest - 1), i, j
    counts = 0
    do i = 1, size(a)
      counts(a(i)) = counts(a(i)) + 1
    end do
    j = 0
    do i = 0, largest - 1
      a(j + 1:j + counts(i)) = i
      j = j + counts(i)
    end do
  end subroutine
end program
