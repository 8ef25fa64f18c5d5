! Counts of kind MPI_COUNT_KIND, and arrays of them, by the generic names of mpi_f08. What is
! moved is small: the procedures are what is tested.
#include "test.h"
program large_counts
#include "use_mpi.h"
  use test
  use, intrinsic :: iso_c_binding, only: c_ptr
  implicit none
#include "mpi_header.h"
  integer, parameter :: ck = MPI_COUNT_KIND, ak = MPI_ADDRESS_KIND
  integer(ck), parameter :: n = 10, one = 1
  integer ASYNC :: sent(n), got(n)
  integer, allocatable ASYNC :: all_of_them(:)
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  integer(ck) :: count
  integer :: to, from, i
  call test_init
  to = mod(test_rank + 1, test_size)
  from = mod(test_rank + test_size - 1, test_size)
  sent = [(100 * test_rank + i, i = 1, 10)]
  allocate (all_of_them(10 * test_size))
  call point_to_point
  call collective
  call vectors
  call datatypes
  call others
  call test_finish

contains

  subroutine arrived(what)
    character(len=*), intent(in) :: what
    call MPI_Get_count(status, MPI_INTEGER, count)
    EXPECT(count, n, what // ': count')
    CHECK(all(got == sent + 100 * (from - test_rank)), what)
    got = -1
  end subroutine

  subroutine point_to_point
    call MPI_Irecv(got, n, MPI_INTEGER, from, 1, MPI_COMM_WORLD, request)
    call MPI_Send(sent, n, MPI_INTEGER, to, 1, MPI_COMM_WORLD)
    call MPI_Wait(request, status)
    call arrived('MPI_Send')
    call MPI_Isend(sent, n, MPI_INTEGER, to, 1, MPI_COMM_WORLD, request)
    call MPI_Recv(got, n, MPI_INTEGER, from, 1, MPI_COMM_WORLD, status)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call arrived('MPI_Recv')
    call MPI_Sendrecv(sent, n, MPI_INTEGER, to, 1, got, n, MPI_INTEGER, from, 1, MPI_COMM_WORLD, &
      status)
    call arrived('MPI_Sendrecv')
    got = sent
    call MPI_Sendrecv_replace(got, n, MPI_INTEGER, to, 1, from, 1, MPI_COMM_WORLD, status)
    call arrived('MPI_Sendrecv_replace')
    ! Sections too.
    call MPI_Sendrecv(sent(n:1:-1), n, MPI_INTEGER, to, 1, got(n:1:-1), n, MPI_INTEGER, from, 1, &
      MPI_COMM_WORLD, status)
    call arrived('MPI_Sendrecv of sections')
  end subroutine

  subroutine collective
    integer :: sum_(10), k
    call MPI_Allreduce(sent, sum_, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    CHECK(all(sum_ == 50 * test_size * (test_size - 1) + test_size * [(i, i = 1, 10)]), 'MPI_Allreduce')
    call MPI_Allgather(sent, n, MPI_INTEGER, all_of_them, n, MPI_INTEGER, MPI_COMM_WORLD)
    call check_all('MPI_Allgather')
    got = sent
    call MPI_Bcast(got, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
    CHECK(all(got == [(i, i = 1, 10)]), 'MPI_Bcast')
    call MPI_Iallgather(sent, n, MPI_INTEGER, all_of_them, n, MPI_INTEGER, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check_all('MPI_Iallgather')
    all_of_them = [((100 * k + i, i = 1, 10), k = 0, test_size - 1)]
    call MPI_Scatter(all_of_them, n, MPI_INTEGER, got, n, MPI_INTEGER, 0, MPI_COMM_WORLD)
    CHECK(all(got == sent), 'MPI_Scatter')
  end subroutine

  subroutine check_all(what)
    character(len=*), intent(in) :: what
    do i = 0, test_size - 1
      CHECK(all(all_of_them(10 * i + 1:10 * i + 10) == sent + 100 * (i - test_rank)), what)
    end do
    all_of_them = -1
  end subroutine

  ! Counts of kind MPI_COUNT_KIND, displacements of kind MPI_ADDRESS_KIND, or of MPI_COUNT_KIND
  ! for the bytes of MPI_Alltoallw.
  subroutine vectors
    integer(ck) :: counts(test_size)
    integer(ak) :: places(test_size), bytes(test_size)
    type(MPI_Datatype) :: types(test_size)
    integer :: out(test_size), in(test_size)
    counts = n
    places = [(10 * i, i = 0, test_size - 1)]
    call MPI_Allgatherv(sent, n, MPI_INTEGER, all_of_them, counts, places, MPI_INTEGER, &
      MPI_COMM_WORLD)
    call check_all('MPI_Allgatherv')
    call MPI_Gatherv(sent, n, MPI_INTEGER, all_of_them, counts, places, MPI_INTEGER, 0, &
      MPI_COMM_WORLD)
    got = -1
    call MPI_Scatterv(all_of_them, counts, places, MPI_INTEGER, got, n, MPI_INTEGER, 0, &
      MPI_COMM_WORLD)
    CHECK(all(got == sent), 'MPI_Gatherv and MPI_Scatterv')
    counts = 1
    places = [(i, i = 0, test_size - 1)]
    bytes = 4 * places
    types = MPI_INTEGER
    out = [(100 * test_rank + i, i = 0, test_size - 1)]
    in = -1
    call MPI_Alltoallv(out, counts, places, MPI_INTEGER, in, counts, places, MPI_INTEGER, &
      MPI_COMM_WORLD)
    CHECK(all(in == [(100 * i + test_rank, i = 0, test_size - 1)]), 'MPI_Alltoallv')
    in = -1
    call MPI_Ialltoallw(out, counts, bytes, types, in, counts, bytes, types, MPI_COMM_WORLD, &
      request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    CHECK(all(in == [(100 * i + test_rank, i = 0, test_size - 1)]), 'MPI_Ialltoallw')
    out = 1
    call MPI_Reduce_scatter(out, in, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    EXPECT(in(1), test_size, 'MPI_Reduce_scatter')
  end subroutine

  subroutine datatypes
    type(MPI_Datatype) :: type_, large
    integer(ck) :: size_, lb, extent, ints, addresses, large_counts_, types, values(1), &
      places(1), three(3)
    integer :: combiner, plain(1)
    integer(ak) :: bytes(1)
    type(MPI_Datatype) :: parts(1)
    call MPI_Type_contiguous(3000000000_ck, MPI_INTEGER, large)
    call MPI_Type_size(large, size_)
    EXPECT(size_, 12000000000_int64, 'size of three billion integers')
    call MPI_Type_get_extent(large, lb, extent)
    EXPECT(extent, 12000000000_int64, 'extent of three billion integers')
    call MPI_Type_get_envelope(large, ints, addresses, large_counts_, types, combiner)
    EXPECT(combiner, MPI_COMBINER_CONTIGUOUS, 'combiner')
    EXPECT(large_counts_, 1, 'large counts of the envelope')
    call MPI_Type_get_contents(large, ints, addresses, large_counts_, types, plain, bytes, &
      values, parts)
    EXPECT(values(1), 3000000000_int64, 'large count')
    call MPI_Type_free(large)
    call MPI_Type_vector(2_ck, 2_ck, 5_ck, MPI_INTEGER, type_)
    call MPI_Type_commit(type_)
    call MPI_Sendrecv(sent, one, type_, to, 1, got, 4_ck, MPI_INTEGER, from, 1, MPI_COMM_WORLD, &
      status)
    CHECK(all(got(:4) == [1, 2, 6, 7] + 100 * from), 'MPI_Type_vector')
    call MPI_Get_elements(status, type_, count)
    EXPECT(count, 4, 'MPI_Get_elements')
    call MPI_Type_free(type_)
    places = [4_ck]
    values = [2_ck]
    call MPI_Type_create_struct(1_ck, values, places, [MPI_INTEGER], type_)
    call MPI_Type_get_true_extent(type_, lb, extent)
    EXPECT(lb, 4, 'true lower bound')
    EXPECT(extent, 8, 'true extent')
    call MPI_Type_free(type_)
    three = [4_ck, 3_ck, 2_ck]
    call MPI_Type_create_subarray(3, three, [2_ck, 2_ck, 2_ck], [0_ck, 0_ck, 0_ck], &
      MPI_ORDER_FORTRAN, MPI_INTEGER, type_)
    call MPI_Type_size(type_, size_)
    EXPECT(size_, 32, 'MPI_Type_create_subarray')
    call MPI_Type_free(type_)
  end subroutine

  subroutine others
    type(MPI_Win) :: win
    type(MPI_File) :: file
    character :: bytes(80)
    integer(ck) :: length, position
    call MPI_Win_create(got, 40_ak, 4_ak, MPI_INFO_NULL, MPI_COMM_WORLD, win)
    call MPI_Win_fence(0, win)
    call MPI_Put(sent, n, MPI_INTEGER, to, 0_ak, n, MPI_INTEGER, win)
    call MPI_Win_fence(0, win)
    CHECK(all(got == sent + 100 * (from - test_rank)), 'MPI_Put')
    call MPI_Win_free(win)
    call MPI_Pack_size(n, MPI_INTEGER, MPI_COMM_WORLD, length)
    EXPECT(length, 40, 'MPI_Pack_size')
    position = 0
    call MPI_Pack(sent, n, MPI_INTEGER, bytes, 80_ck, position, MPI_COMM_WORLD)
    EXPECT(position, 40, 'position after MPI_Pack')
    position = 0
    got = -1
    call MPI_Unpack(bytes, 80_ck, position, got, n, MPI_INTEGER, MPI_COMM_WORLD)
    CHECK(all(got == sent), 'MPI_Unpack')
    call MPI_File_open(MPI_COMM_SELF, '/dev/null', MPI_MODE_WRONLY, MPI_INFO_NULL, file)
    call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, sent, n, MPI_INTEGER, status)
    call MPI_Get_count(status, MPI_INTEGER, count)
    EXPECT(count, n, 'count of a write')
    call MPI_File_close(file)
  end subroutine
end program
