! The addresses that stand for something else: MPI_BOTTOM with absolute datatypes, MPI_IN_PLACE in
! each collective operation that has it, MPI_STATUS(ES)_IGNORE (also in status.F90), and what
! topologies.F90 does not show of MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY.
#include "test.h"
program sentinels
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
#define SUM_ MPI_INTEGER, MPI_SUM
#define WAIT call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
#define START_TWICE call start_twice
  integer, parameter :: n = 3
  ! In common, as some calls do not have them as an argument.
  integer :: a(n), b(n)
  common /arrays/ a, b
  integer, allocatable ASYNC :: all_(:)
  integer, allocatable :: counts(:), places(:), bytes(:)
  MPI_DATATYPE_T, allocatable :: types(:)
  MPI_REQUEST_T :: request
  integer :: i, k
  call test_init
  allocate (all_(n * test_size), counts(test_size), places(test_size), bytes(test_size), &
    types(test_size))
  counts = n
  places = [(n * i, i = 0, test_size - 1)]
  bytes = 4 * places
  types = MPI_INTEGER
  call bottom
  call in_place_everywhere
  call in_place_at_root
  call in_place_nonblocking
  call in_place_neighbours
  call test_finish

contains

  ! A datatype of two places in memory, from MPI_BOTTOM on.
  subroutine bottom
    MPI_DATATYPE_T :: from, to, long
    MPI_WIN_T :: win
    integer(MPI_ADDRESS_KIND) :: at(2)
    ! In common, as no call has them as an argument.
    double precision :: x, y
    common /places/ x, y
    integer :: next, previous, position
    character :: packed(100)
    next = mod(test_rank + 1, test_size)
    previous = mod(test_rank + test_size - 1, test_size)
    a = [1, 2, 3] + 10 * test_rank
    b = 0
    x = test_rank + 0.5d0
    y = 0
    call absolute(a, x, from)
    call absolute(b, y, to)
    call MPI_Sendrecv(MPI_BOTTOM, 1, from, next, 1, MPI_BOTTOM, 1, to, previous, 1, &
      MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierror)
    call arrived(previous, b, y, 'MPI_Sendrecv')
    call MPI_Irecv(MPI_BOTTOM, 1, to, previous, 1, MPI_COMM_WORLD, request, ierror)
    call MPI_Send(MPI_BOTTOM, 1, from, next, 1, MPI_COMM_WORLD, ierror)
    WAIT
    call arrived(previous, b, y, 'MPI_Irecv')
    call MPI_Bcast(MPI_BOTTOM, 1, from, 0, MPI_COMM_WORLD, ierror)
    b = a
    y = x
    call arrived(0, b, y, 'MPI_Bcast')
    a = [1, 2, 3] + 10 * test_rank
    x = test_rank + 0.5d0
    position = 0
    call MPI_Pack(MPI_BOTTOM, 1, from, packed, 100, position, MPI_COMM_WORLD, ierror)
    position = 0
    call MPI_Unpack(packed, 100, position, MPI_BOTTOM, 1, to, MPI_COMM_WORLD, ierror)
    call arrived(test_rank, b, y, 'MPI_Pack')
    call MPI_Win_create(all_, int(4 * n * test_size, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, &
      MPI_COMM_WORLD, win, ierror)
    call MPI_Get_address(a, at(1), ierror)
    call MPI_Type_create_hindexed(1, [n], at(1:1), MPI_INTEGER, long, ierror)
    call MPI_Type_commit(long, ierror)
    call MPI_Win_fence(0, win, ierror)
    call MPI_Put(MPI_BOTTOM, 1, long, next, 0_MPI_ADDRESS_KIND, n, MPI_INTEGER, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    CHECK(all(all_(:n) == [1, 2, 3] + 10 * previous), 'MPI_Put from MPI_BOTTOM')
    call MPI_Win_free(win, ierror)
    call MPI_Type_free(long, ierror)
    call MPI_Type_free(from, ierror)
    call MPI_Type_free(to, ierror)
  end subroutine

  subroutine absolute(integers, real_, datatype)
    integer ASYNC, intent(in) :: integers(n)
    double precision ASYNC, intent(in) :: real_
    MPI_DATATYPE_T, intent(out) :: datatype
    MPI_DATATYPE_T :: parts(2)
    integer(MPI_ADDRESS_KIND) :: at(2)
    call MPI_Get_address(integers, at(1), ierror)
    call MPI_Get_address(real_, at(2), ierror)
    parts(1) = MPI_INTEGER
    parts(2) = MPI_DOUBLE_PRECISION
    call MPI_Type_create_struct(2, [n, 1], at, parts, datatype, ierror)
    call MPI_Type_commit(datatype, ierror)
  end subroutine

  subroutine arrived(whose, integers, real_, what)
    integer, intent(in) :: whose
    integer, intent(inout) :: integers(n)
    double precision, intent(inout) :: real_
    character(len=*), intent(in) :: what
    CHECK(all(integers == [1, 2, 3] + 10 * whose), what // ': integers')
    CHECK(real_ == whose + 0.5d0, what // ': real number')
    integers = 0
    real_ = 0
  end subroutine

  ! Rank r has the values 10 r + 1 to 10 r + n at its place.
  subroutine own_part
    all_ = -1
    all_(n * test_rank + 1:n * test_rank + n) = 10 * test_rank + [1, 2, 3]
  end subroutine

  subroutine all_parts(what)
    character(len=*), intent(in) :: what
    CHECK(all(all_ == [((10 * k + i, i = 1, n), k = 0, test_size - 1)]), what)
    call own_part
  end subroutine

  ! What each rank sends to each: 100 * sender + 10 * receiver + i.
  subroutine to_all
    all_ = [((100 * test_rank + 10 * k + i, i = 1, n), k = 0, test_size - 1)]
  end subroutine

  subroutine from_all(what)
    character(len=*), intent(in) :: what
    CHECK(all(all_ == [((100 * k + 10 * test_rank + i, i = 1, n), k = 0, test_size - 1)]), what)
    call to_all
  end subroutine

  subroutine sums(what, ranks_below)
    character(len=*), intent(in) :: what
    integer, intent(in) :: ranks_below
    CHECK(all(a == ranks_below * [1, 2, 3] + 5 * ranks_below * (ranks_below - 1)), what)
    a = [1, 2, 3] + 10 * test_rank
  end subroutine

  ! Those in which each rank may do so. The count and the type that belong to MPI_IN_PLACE are
  ! ignored.
  subroutine in_place_everywhere
    call own_part
    call MPI_Allgather(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, n, MPI_INTEGER, &
      MPI_COMM_WORLD, ierror)
    call all_parts('MPI_Allgather')
    call MPI_Allgatherv(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, counts, places, MPI_INTEGER, &
      MPI_COMM_WORLD, ierror)
    call all_parts('MPI_Allgatherv')
    call to_all
    call MPI_Alltoall(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, n, MPI_INTEGER, MPI_COMM_WORLD, &
      ierror)
    call from_all('MPI_Alltoall')
    call MPI_Alltoallv(MPI_IN_PLACE, counts, places, MPI_DATATYPE_NULL, all_, counts, places, &
      MPI_INTEGER, &
      MPI_COMM_WORLD, ierror)
    call from_all('MPI_Alltoallv')
    call MPI_Alltoallw(MPI_IN_PLACE, counts, bytes, types, all_, counts, bytes, types, &
      MPI_COMM_WORLD, ierror)
    call from_all('MPI_Alltoallw')
    a = [1, 2, 3] + 10 * test_rank
    call MPI_Allreduce(MPI_IN_PLACE, a, n, SUM_, MPI_COMM_WORLD, ierror)
    call sums('MPI_Allreduce', test_size)
    call MPI_Scan(MPI_IN_PLACE, a, n, SUM_, MPI_COMM_WORLD, ierror)
    call sums('MPI_Scan', test_rank + 1)
    call MPI_Exscan(MPI_IN_PLACE, a, n, SUM_, MPI_COMM_WORLD, ierror)
    if (test_rank > 0) call sums('MPI_Exscan', test_rank)
    all_ = [((10 * k + i, i = 1, n), k = 0, test_size - 1)]
    call MPI_Reduce_scatter_block(MPI_IN_PLACE, all_, n, SUM_, MPI_COMM_WORLD, ierror)
    CHECK(all(all_(:n) == test_size * (10 * test_rank + [1, 2, 3])), 'MPI_Reduce_scatter_block')
    all_ = [((10 * k + i, i = 1, n), k = 0, test_size - 1)]
    call MPI_Reduce_scatter(MPI_IN_PLACE, all_, counts, SUM_, MPI_COMM_WORLD, ierror)
    CHECK(all(all_(:n) == test_size * (10 * test_rank + [1, 2, 3])), 'MPI_Reduce_scatter')
  end subroutine

  ! Those in which only the root does so.
  subroutine in_place_at_root
    integer :: root
    root = test_size - 1
    call own_part
    a = [1, 2, 3] + 10 * test_rank
    if (test_rank == root) then
      call MPI_Gather(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, n, MPI_INTEGER, root, &
        MPI_COMM_WORLD, ierror)
      call all_parts('MPI_Gather')
      call MPI_Gatherv(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, counts, places, MPI_INTEGER, &
        root, MPI_COMM_WORLD, &
        ierror)
      call all_parts('MPI_Gatherv')
      all_ = [((10 * k + i, i = 1, n), k = 0, test_size - 1)]
      call MPI_Scatter(all_, n, MPI_INTEGER, MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, root, &
        MPI_COMM_WORLD, ierror)
      call MPI_Scatterv(all_, counts, places, MPI_INTEGER, MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, &
        root, MPI_COMM_WORLD, &
        ierror)
      call all_parts('MPI_Scatter')
      call MPI_Reduce(MPI_IN_PLACE, a, n, SUM_, root, MPI_COMM_WORLD, ierror)
      call sums('MPI_Reduce', test_size)
    else
      call MPI_Gather(a, n, MPI_INTEGER, all_, n, MPI_INTEGER, root, MPI_COMM_WORLD, ierror)
      call MPI_Gatherv(a, n, MPI_INTEGER, all_, counts, places, MPI_INTEGER, root, &
        MPI_COMM_WORLD, ierror)
      b = 0
      call MPI_Scatter(all_, n, MPI_INTEGER, b, n, MPI_INTEGER, root, MPI_COMM_WORLD, ierror)
      CHECK(all(b == a), 'MPI_Scatter from a root in place')
      b = 0
      call MPI_Scatterv(all_, counts, places, MPI_INTEGER, b, n, MPI_INTEGER, root, &
        MPI_COMM_WORLD, ierror)
      CHECK(all(b == a), 'MPI_Scatterv from a root in place')
      call MPI_Reduce(a, b, n, SUM_, root, MPI_COMM_WORLD, ierror)
    end if
  end subroutine

  subroutine start_twice
    integer :: before(n), all_before(n * test_size)
    before = a
    all_before = all_
    call MPI_Start(request, ierror)
    WAIT
    a = before
    all_ = all_before
    call MPI_Start(request, ierror)
    WAIT
    call MPI_Request_free(request, ierror)
  end subroutine

  subroutine in_place_nonblocking
    call own_part
    call MPI_Iallgather(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, n, MPI_INTEGER, &
      MPI_COMM_WORLD, request, ierror)
    WAIT
    call all_parts('MPI_Iallgather')
    call MPI_Iallgatherv(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, counts, places, MPI_INTEGER, &
      MPI_COMM_WORLD, &
      request, ierror)
    WAIT
    call all_parts('MPI_Iallgatherv')
    call MPI_Allgather_init(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, n, MPI_INTEGER, &
      MPI_COMM_WORLD, MPI_INFO_NULL, &
      request, ierror)
    START_TWICE
    call all_parts('MPI_Allgather_init')
    call to_all
    call MPI_Ialltoall(MPI_IN_PLACE, -3, MPI_DATATYPE_NULL, all_, n, MPI_INTEGER, &
      MPI_COMM_WORLD, request, ierror)
    WAIT
    call from_all('MPI_Ialltoall')
    call MPI_Ialltoallv(MPI_IN_PLACE, counts, places, MPI_DATATYPE_NULL, all_, counts, places, &
      MPI_INTEGER, &
      MPI_COMM_WORLD, request, ierror)
    WAIT
    call from_all('MPI_Ialltoallv')
    call MPI_Ialltoallw(MPI_IN_PLACE, counts, bytes, types, all_, counts, bytes, types, &
      MPI_COMM_WORLD, request, ierror)
    WAIT
    call from_all('MPI_Ialltoallw')
    call MPI_Alltoallw_init(MPI_IN_PLACE, counts, bytes, types, all_, counts, bytes, types, &
      MPI_COMM_WORLD, &
      MPI_INFO_NULL, request, ierror)
    START_TWICE
    call from_all('MPI_Alltoallw_init')
    a = [1, 2, 3] + 10 * test_rank
    call MPI_Iallreduce(MPI_IN_PLACE, a, n, SUM_, MPI_COMM_WORLD, request, ierror)
    WAIT
    call sums('MPI_Iallreduce', test_size)
    call MPI_Iscan(MPI_IN_PLACE, a, n, SUM_, MPI_COMM_WORLD, request, ierror)
    WAIT
    call sums('MPI_Iscan', test_rank + 1)
    call MPI_Allreduce_init(MPI_IN_PLACE, a, n, SUM_, MPI_COMM_WORLD, MPI_INFO_NULL, request, &
      ierror)
    START_TWICE
    call sums('MPI_Allreduce_init', test_size)
    if (test_rank == 0) then
      call MPI_Ireduce(MPI_IN_PLACE, a, n, SUM_, 0, MPI_COMM_WORLD, request, ierror)
    else
      call MPI_Ireduce(a, MPI_BOTTOM, n, SUM_, 0, MPI_COMM_WORLD, request, ierror)
    end if
    WAIT
    if (test_rank == 0) call sums('MPI_Ireduce', test_size)
    all_ = [((10 * k + i, i = 1, n), k = 0, test_size - 1)]
    call MPI_Ireduce_scatter(MPI_IN_PLACE, all_, counts, SUM_, MPI_COMM_WORLD, request, ierror)
    WAIT
    CHECK(all(all_(:n) == test_size * (10 * test_rank + [1, 2, 3])), 'MPI_Ireduce_scatter')
  end subroutine

  ! A graph without edges, whose lists are empty, and one whose weights are asked for but ignored.
  subroutine in_place_neighbours
    MPI_COMM_T :: comm
    integer :: n_in, n_out, none(1), weights(1), one(1), other(1)
    logical :: weighted
    none = -1
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, none, MPI_WEIGHTS_EMPTY, 0, none, &
      MPI_WEIGHTS_EMPTY, &
      MPI_INFO_NULL, .false., comm, ierror)
    call MPI_Dist_graph_neighbors_count(comm, n_in, n_out, weighted, ierror)
    CHECK(n_in == 0 .and. n_out == 0 .and. weighted, 'a graph without edges, with weights')
    call MPI_Comm_free(comm, ierror)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, none, MPI_UNWEIGHTED, 0, none, &
      MPI_UNWEIGHTED, &
      MPI_INFO_NULL, .false., comm, ierror)
    call MPI_Dist_graph_neighbors_count(comm, n_in, n_out, weighted, ierror)
    CHECK(n_in == 0 .and. n_out == 0 .and. .not. weighted, 'a graph without edges and weights')
    call MPI_Comm_free(comm, ierror)
    ! An ordinary array of weights after the sentinels.
    weights = 7
    one = test_rank
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, one, weights, 1, one, weights, &
      MPI_INFO_NULL, .false., &
      comm, ierror)
    weights = 0
    call MPI_Dist_graph_neighbors(comm, 1, one, weights, 1, other, MPI_UNWEIGHTED, ierror)
    EXPECT(weights(1), 7, 'a weight')
    EXPECT(other(1), test_rank, 'a neighbour')
    call MPI_Comm_free(comm, ierror)
  end subroutine
end program
