! mpi_f08 without ierror, arguments by their names, functions, and handles: comparison, conversion
! to integers, and structures that have them as components.
#include "test.h"
program optional_arguments
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  type :: solver
    type(MPI_Comm) :: comm = MPI_COMM_NULL
    type(MPI_Request) :: requests(2) = MPI_REQUEST_NULL
    type(MPI_Datatype) :: element = MPI_DATATYPE_NULL
  end type
  type(solver) :: s
  type(MPI_Comm) :: comm
  type(MPI_Group) :: group, other
  type(MPI_Status) :: status
  integer ASYNC :: a(4), b(4)
  integer :: i, n, result_
  double precision :: start
  logical :: flag
  call test_init
  CHECK(s%comm == MPI_COMM_NULL, 'a component that is null')
  call MPI_Comm_dup(comm=MPI_COMM_WORLD, newcomm=s%comm)
  call MPI_Comm_compare(s%comm, MPI_COMM_WORLD, result_)
  EXPECT(result_, MPI_CONGRUENT, 'MPI_Comm_compare')
  CHECK(s%comm /= MPI_COMM_WORLD .and. .not. s%comm == MPI_COMM_WORLD, 'comparison of handles')
  comm%MPI_VAL = s%comm%MPI_VAL
  CHECK(comm == s%comm, 'a handle made from its integer')
  s%element = MPI_INTEGER
  a = [(10 * test_rank + i, i = 1, 4)]
  call MPI_Irecv(b, 4, s%element, mod(test_rank + test_size - 1, test_size), 1, s%comm, &
    s%requests(1))
  call MPI_Isend(buf=a, count=4, datatype=s%element, dest=mod(test_rank + 1, test_size), tag=1, &
    comm=s%comm, &
    request=s%requests(2))
  call MPI_Waitall(array_of_requests=s%requests, count=2, array_of_statuses=MPI_STATUSES_IGNORE)
  CHECK(all(b == a + 10 * (mod(test_rank + test_size - 1, test_size) - test_rank)), 'values')
  call MPI_Sendrecv(sendbuf=a, sendcount=4, sendtype=MPI_INTEGER, dest=test_rank, sendtag=1, &
    recvbuf=b, recvcount=4, &
    recvtype=MPI_INTEGER, source=test_rank, recvtag=1, comm=s%comm, status=status)
  call MPI_Get_count(status, MPI_INTEGER, n)
  EXPECT(n, 4, 'count')
  call MPI_Comm_group(s%comm, group)
  call MPI_Group_range_incl(group, 1, reshape([0, test_size - 1, 1], [3, 1]), other)
  call MPI_Group_compare(group, other, result_)
  EXPECT(result_, MPI_IDENT, 'MPI_Group_compare')
  call MPI_Group_translate_ranks(group, 1, [test_rank], other, b)
  EXPECT(b(1), test_rank, 'MPI_Group_translate_ranks')
  call MPI_Group_free(other)
  call MPI_Group_free(group)
  call MPI_Comm_test_inter(s%comm, flag)
  CHECK(.not. flag, 'MPI_Comm_test_inter')
  call MPI_Initialized(flag)
  CHECK(flag, 'MPI_Initialized')
  call MPI_Finalized(flag)
  CHECK(.not. flag, 'MPI_Finalized')
  start = MPI_Wtime()
  CHECK(MPI_Wtick() > 0 .and. MPI_Wtime() >= start, 'MPI_Wtime')
  call MPI_Comm_split(s%comm, color=mod(test_rank, 2), key=-test_rank, newcomm=comm)
  call MPI_Comm_rank(comm, n)
  EXPECT(n, (test_size - 1 - test_rank) / 2, 'rank by a negative key')
  call MPI_Comm_free(comm)
  CHECK(comm == MPI_COMM_NULL, 'handle after MPI_Comm_free')
  call MPI_Barrier(s%comm)
  call MPI_Comm_free(s%comm)
  call test_finish
end program
