! Topologies: Cartesian ones with logical arrays, graphs, distributed graphs with and without
! weights, and neighbourhood collectives on them.
#include "test.h"
program topologies
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  MPI_COMM_T :: comm, sub
  integer :: i, kind_
  call test_init
  call cartesian
  call graph
  call distributed
  call test_finish

contains

  subroutine cartesian
    integer :: dims(3), coords(3), n, rank, source, dest, dims_got(3), coords_got(3)
    logical :: periods(3), periods_got(3)
    dims = 0
    call MPI_Dims_create(test_size, 3, dims, ierror)
    EXPECT(product(dims), test_size, 'ranks of the grid')
    periods = [.true., .false., .true.]
    call MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, .false., comm, ierror)
    call MPI_Topo_test(comm, kind_, ierror)
    EXPECT(kind_, MPI_CART, 'MPI_Topo_test')
    call MPI_Cartdim_get(comm, n, ierror)
    EXPECT(n, 3, 'MPI_Cartdim_get')
    call MPI_Cart_get(comm, 3, dims_got, periods_got, coords_got, ierror)
    CHECK(all(dims_got == dims), 'extents')
    CHECK(all(periods_got .eqv. periods), 'periods')
    CHECK(all((.not. periods_got) .eqv. [.false., .true., .false.]), 'periods, negated')
    call MPI_Cart_coords(comm, test_rank, 3, coords, ierror)
    CHECK(all(coords == coords_got), 'coordinates')
    call MPI_Cart_rank(comm, coords, rank, ierror)
    EXPECT(rank, test_rank, 'MPI_Cart_rank')
    call MPI_Cart_shift(comm, 1, 1, source, dest, ierror)
    if (coords(2) == 0) then
      EXPECT(source, MPI_PROC_NULL, 'neighbour at the border')
    end if
    call MPI_Cart_sub(comm, [.true., .false., .false.], sub, ierror)
    call MPI_Comm_size(sub, n, ierror)
    EXPECT(n, dims(1), 'size of a line of the grid')
    call MPI_Comm_free(sub, ierror)
    call MPI_Cart_map(MPI_COMM_WORLD, 3, dims, periods, rank, ierror)
    CHECK(rank == MPI_UNDEFINED .or. (rank >= 0 .and. rank < test_size), 'MPI_Cart_map')
    call neighbours_of_line
    call MPI_Comm_free(comm, ierror)
  end subroutine

  ! On a line that is no ring, the ends have one neighbour.
  subroutine neighbours_of_line
    MPI_COMM_T :: line
    integer :: mine(2), got(2), counts(2), places(2)
    integer(MPI_ADDRESS_KIND) :: bytes(2)
    MPI_DATATYPE_T :: types(2)
    MPI_REQUEST_T :: request
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [test_size], [.false.], .false., line, ierror)
    mine = [10 * test_rank + 1, 10 * test_rank + 2]
    got = -5
    call MPI_Neighbor_alltoall(mine, 1, MPI_INTEGER, got, 1, MPI_INTEGER, line, ierror)
    call check_ends(got, 2, 1)
    got = -5
    call MPI_Neighbor_allgather(mine, 1, MPI_INTEGER, got, 1, MPI_INTEGER, line, ierror)
    call check_ends(got, 1, 1)
    counts = 1
    places = [1, 0]
    got = -5
    call MPI_Neighbor_alltoallv(mine, counts, places, MPI_INTEGER, got, counts, [0, 1], &
      MPI_INTEGER, line, ierror)
    call check_ends(got, 1, 2)
    bytes = [0, 4]
    types = MPI_INTEGER
    got = -5
    call MPI_Ineighbor_alltoallw(mine, counts, bytes, types, got, counts, bytes, types, line, &
      request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    call check_ends(got, 2, 1)
    call MPI_Comm_free(line, ierror)
  end subroutine

  subroutine check_ends(got, from_left, from_right)
    integer, intent(in) :: got(2), from_left, from_right
    EXPECT(got(1), merge(-5, 10 * (test_rank - 1) + from_left, test_rank == 0), 'from the left')
    EXPECT(got(2), merge(-5, 10 * (test_rank + 1) + from_right, test_rank == test_size - 1), 'from the right')
  end subroutine

  ! A star: rank 0 has all the others as neighbours.
  subroutine graph
    integer :: index_(test_size), edges(2 * test_size - 2), n, m, neighbours(test_size)
    index_ = [(test_size - 1 + i, i = 0, test_size - 1)]
    edges(:test_size - 1) = [(i, i = 1, test_size - 1)]
    edges(test_size:) = 0
    call MPI_Graph_create(MPI_COMM_WORLD, test_size, index_, edges, .false., comm, ierror)
    call MPI_Topo_test(comm, kind_, ierror)
    EXPECT(kind_, MPI_GRAPH, 'MPI_Topo_test of a graph')
    call MPI_Graphdims_get(comm, n, m, ierror)
    EXPECT(n, test_size, 'nodes')
    EXPECT(m, 2 * test_size - 2, 'edges')
    call MPI_Graph_neighbors_count(comm, test_rank, n, ierror)
    EXPECT(n, merge(test_size - 1, 1, test_rank == 0), 'number of neighbours')
    call MPI_Graph_neighbors(comm, test_rank, n, neighbours, ierror)
    if (test_rank == 0) then
      CHECK(all(neighbours(:n) == [(i, i = 1, test_size - 1)]), 'neighbours of the middle')
    else
      EXPECT(neighbours(1), 0, 'the only neighbour')
    end if
    call MPI_Comm_free(comm, ierror)
  end subroutine

  ! A ring with edges to the next rank.
  subroutine distributed
    integer :: next, previous, n_in, n_out, sources(2), targets(2), weights_in(2), &
      weights_out(2), got
    logical :: weighted
    next = mod(test_rank + 1, test_size)
    previous = mod(test_rank + test_size - 1, test_size)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [previous], MPI_UNWEIGHTED, 1, [next], &
      MPI_UNWEIGHTED, MPI_INFO_NULL, .false., comm, ierror)
    call MPI_Topo_test(comm, kind_, ierror)
    EXPECT(kind_, MPI_DIST_GRAPH, 'MPI_Topo_test of a distributed graph')
    call MPI_Dist_graph_neighbors_count(comm, n_in, n_out, weighted, ierror)
    CHECK(n_in == 1 .and. n_out == 1 .and. .not. weighted, 'a ring without weights')
    call MPI_Dist_graph_neighbors(comm, 1, sources, MPI_UNWEIGHTED, 1, targets, MPI_UNWEIGHTED, &
      ierror)
    CHECK(sources(1) == previous .and. targets(1) == next, 'neighbours in a ring')
    call MPI_Neighbor_allgather(test_rank, 1, MPI_INTEGER, got, 1, MPI_INTEGER, comm, ierror)
    EXPECT(got, previous, 'what comes around a ring')
    call MPI_Comm_free(comm, ierror)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [previous], [10 + test_rank], 1, &
      [next], &
      [20 + test_rank], MPI_INFO_NULL, .false., comm, ierror)
    call MPI_Dist_graph_neighbors_count(comm, n_in, n_out, weighted, ierror)
    CHECK(weighted, 'a ring with weights')
    call MPI_Dist_graph_neighbors(comm, 1, sources, weights_in, 1, targets, weights_out, ierror)
    EXPECT(weights_in(1), 10 + test_rank, 'weight of what comes')
    EXPECT(weights_out(1), 20 + test_rank, 'weight of what goes')
    call MPI_Comm_free(comm, ierror)
    ! Rank 0 knows all edges; a rank that knows none has no weights.
    if (test_rank == 0) then
      call MPI_Dist_graph_create(MPI_COMM_WORLD, test_size, [(i, i = 0, test_size - 1)], [(1, &
        i = 1, test_size)], &
        [(mod(i + 1, test_size), i = 0, test_size - 1)], [(5 * i, i = 0, test_size - 1)], &
          MPI_INFO_NULL, .true., &
        comm, ierror)
    else
      call MPI_Dist_graph_create(MPI_COMM_WORLD, 0, [integer ::], [integer ::], [integer ::], &
        MPI_WEIGHTS_EMPTY, &
        MPI_INFO_NULL, .true., comm, ierror)
    end if
    call MPI_Dist_graph_neighbors_count(comm, n_in, n_out, weighted, ierror)
    CHECK(n_in == 1 .and. n_out == 1 .and. weighted, 'a ring that rank 0 made')
    call MPI_Dist_graph_neighbors(comm, 1, sources, weights_in, 1, targets, weights_out, ierror)
    EXPECT(weights_out(1), 5 * modulo(targets(1) - 1, test_size), 'weight of an edge that rank 0 made')
    call MPI_Comm_free(comm, ierror)
    call MPI_Dist_graph_create(MPI_COMM_WORLD, 1, [test_rank], [1], [next], MPI_UNWEIGHTED, &
      MPI_INFO_NULL, &
      .false., comm, ierror)
    call MPI_Dist_graph_neighbors_count(comm, n_in, n_out, weighted, ierror)
    CHECK(n_in == 1 .and. n_out == 1 .and. .not. weighted, 'a ring that each rank made')
    call MPI_Comm_free(comm, ierror)
  end subroutine
end program
