! The functions of mpi_f08 for large counts that MPICH's module has as well, with small ones: which
! has none for files (large_counts has those, and counts that are large).
#include "test.h"
program large_calls
#include "use_mpi.h"
  use, intrinsic :: iso_c_binding
  use test
  implicit none
  integer, parameter :: n = 12, half = n / 2
  type(MPI_Comm) :: comm
  class(*), allocatable :: copy
  integer :: own(n), got(n), next, i

  call test_init
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  ! What the compiler knows of the type is in the library.
  allocate (copy, source=comm)
  next = mod(test_rank + 1, test_size)
  own = [(i + 100 * test_rank, i = 1, n)]
  call messages
  call datatypes
  call texts
  call windows
  call MPI_Comm_free(comm)
  call test_finish

contains

  subroutine messages
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer(MPI_COUNT_KIND) :: count
    integer :: sum
    got = own
    call MPI_Bcast(got, 12_MPI_COUNT_KIND, MPI_INTEGER, 0, comm)
    CHECK(all(got == [(i, i = 1, n)]), 'MPI_Bcast')
    got = -1
    call MPI_Isend(own(1:n:2), 6_MPI_COUNT_KIND, MPI_INTEGER, next, 1, comm, request)
    call MPI_Recv(got(2:n:2), 6_MPI_COUNT_KIND, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &
      status)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    CHECK(all(got(1:n:2) == -1), 'elements between those received')
    EXPECT(modulo(got(4), 100), 3, 'an element received')
    call MPI_Get_count(status, MPI_INTEGER, count)
    EXPECT(count, half, 'MPI_Get_count')
    sum = test_rank
    call MPI_Allreduce(MPI_IN_PLACE, sum, 1_MPI_COUNT_KIND, MPI_INTEGER, MPI_SUM, comm)
    EXPECT(sum, test_size * (test_size - 1) / 2, 'MPI_Allreduce')
  end subroutine

  subroutine datatypes
    type(MPI_Datatype) :: vector, of(1)
    integer(MPI_COUNT_KIND) :: integers, addresses, counts, types, arguments(3), size
    integer(MPI_ADDRESS_KIND) :: no_addresses(1)
    integer :: combiner, no_integers(1)
    call MPI_Type_vector(3_MPI_COUNT_KIND, 1_MPI_COUNT_KIND, 2_MPI_COUNT_KIND, MPI_INTEGER, vector)
    call MPI_Type_get_envelope(vector, integers, addresses, counts, types, combiner)
    EXPECT(combiner, MPI_COMBINER_VECTOR, 'combiner')
    EXPECT(counts, 3, 'number of counts')
    call MPI_Type_get_contents(vector, integers, addresses, counts, types, no_integers, &
      no_addresses, arguments, of)
    CHECK(all(arguments == [3, 1, 2]), 'arguments')
    CHECK(of(1) == MPI_INTEGER, 'element')
    call MPI_Type_size(vector, size)
    EXPECT(size, 12, 'size')
    call MPI_Type_free(vector)
  end subroutine

  subroutine texts
    character(len=12) :: name = 'external32'
    character(len=100) :: packed
    integer(MPI_COUNT_KIND) :: size, position
    call MPI_Pack_external_size(name, 6_MPI_COUNT_KIND, MPI_INTEGER, size)
    EXPECT(size, 24, 'MPI_Pack_external_size')
    position = 0
    call MPI_Pack_external(name, own(1:n:2), 6_MPI_COUNT_KIND, MPI_INTEGER, packed, &
      100_MPI_COUNT_KIND, position)
    EXPECT(position, 24, 'MPI_Pack_external')
    got = -1
    position = 0
    call MPI_Unpack_external(name, packed, 100_MPI_COUNT_KIND, position, got(2:n:2), &
      6_MPI_COUNT_KIND, MPI_INTEGER)
    CHECK(all(got(2:n:2) == own(1:n:2)), 'MPI_Unpack_external')
    CHECK(all(got(1:n:2) == -1), 'elements between those unpacked')
  end subroutine

  subroutine windows
    type(MPI_Win) :: window
    type(c_ptr) :: base
    integer, pointer :: memory(:)
    call MPI_Win_allocate(48_MPI_ADDRESS_KIND, 4_MPI_ADDRESS_KIND, MPI_INFO_NULL, comm, base, &
      window)
    call c_f_pointer(base, memory, [n])
    memory = -1
    call MPI_Win_fence(0, window)
    call MPI_Put(own(1:n:3), 4_MPI_COUNT_KIND, MPI_INTEGER, next, 2_MPI_ADDRESS_KIND, &
      4_MPI_COUNT_KIND, MPI_INTEGER, window)
    call MPI_Win_fence(0, window)
    CHECK(all(memory(:2) == -1) .and. all(memory(7:) == -1), 'elements beside those put')
    EXPECT(modulo(memory(4), 100), 4, 'an element put')
    call MPI_Win_free(window)
  end subroutine
end program
