! Persistent requests, also of collective operations, and partitioned communication.
#include "test.h"
program persistent
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  integer, parameter :: n = 12
  integer ASYNC :: sent(n), got(n)
  MPI_REQUEST_T :: requests(2)
  integer :: to, from, i, turn
  call test_init
  to = mod(test_rank + 1, test_size)
  from = mod(test_rank + test_size - 1, test_size)
  call point_to_point
  call collective
  call partitioned
  call test_finish

contains

  subroutine fill
    sent = [(10000 * turn + 100 * test_rank + i, i = 1, n)]
    got = -1
  end subroutine

  subroutine point_to_point
    DECLARE_STATUSES(statuses, 2)
    integer :: count
    logical :: flag
    call MPI_Recv_init(got, n, MPI_INTEGER, from, 3, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Send_init(sent, n - 2, MPI_INTEGER, to, 3, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Testall(2, requests, flag, statuses, ierror)
    CHECK(flag, 'MPI_Testall of inactive requests')
    do turn = 1, 4
      call fill
      if (mod(turn, 2) == 0) then
        call MPI_Startall(2, requests, ierror)
      else
        call MPI_Start(requests(1), ierror)
        call MPI_Start(requests(2), ierror)
      end if
      call MPI_Waitall(2, requests, statuses, ierror)
      call MPI_Get_count(NTH(statuses, 1), MPI_INTEGER, count, ierror)
      EXPECT(count, n - 2, 'count')
      CHECK(all(got(:n - 2) == sent(:n - 2) + 100 * (from - test_rank)), 'values')
      CHECK(all(got(n - 1:) == -1), 'values that were not sent')
    end do
    call MPI_Request_free(requests(1), ierror)
    call MPI_Request_free(requests(2), ierror)
    CHECK(all([requests(1) == MPI_REQUEST_NULL, requests(2) == MPI_REQUEST_NULL]), 'handles')
  end subroutine

  subroutine collective
    call MPI_Allreduce_init(sent, got, n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &
      requests(1), ierror)
    do turn = 1, 3
      call fill
      call MPI_Start(requests(1), ierror)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierror)
      CHECK(all(got == test_size * (10000 * turn + [(i, i = 1, n)]) + 50 * test_size * (test_size - 1)), 'a sum')
    end do
    call MPI_Request_free(requests(1), ierror)
    call MPI_Bcast_init(got, n, MPI_INTEGER, test_size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &
      requests(1), ierror)
    call MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, requests(2), ierror)
    do turn = 1, 3
      call fill
      if (test_rank == test_size - 1) got = sent
      call MPI_Start(requests(1), ierror)
      call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierror)
      CHECK(all(got == sent + 100 * (test_size - 1 - test_rank)), 'a broadcast')
      call MPI_Start(requests(2), ierror)
      call MPI_Wait(requests(2), MPI_STATUS_IGNORE, ierror)
    end do
    call MPI_Request_free(requests(1), ierror)
    call MPI_Request_free(requests(2), ierror)
  end subroutine

  ! Partitions count from zero, also in Fortran.
  subroutine partitioned
    integer(MPI_COUNT_KIND), parameter :: each = 3, each_received = 4
    logical :: flag
    call MPI_Psend_init(sent, 4, each, MPI_INTEGER, to, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &
      requests(1), ierror)
    call MPI_Precv_init(got, 3, each_received, MPI_INTEGER, from, 5, MPI_COMM_WORLD, &
      MPI_INFO_NULL, requests(2), ierror)
    do turn = 1, 3
      call fill
      call MPI_Startall(2, requests, ierror)
      select case (turn)
      case (1)
        do i = 3, 0, -1
          call MPI_Pready(i, requests(1), ierror)
        end do
      case (2)
        call MPI_Pready_range(2, 3, requests(1), ierror)
        call MPI_Pready_list(2, [1, 0], requests(1), ierror)
      case default
        call MPI_Pready_range(0, 3, requests(1), ierror)
      end select
      do i = 0, 2
        flag = .false.
        do while (.not. flag)
          call MPI_Parrived(requests(2), i, flag, ierror)
        end do
      end do
      CHECK(all(got == sent + 100 * (from - test_rank)), 'values in partitions')
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    end do
    call MPI_Request_free(requests(1), ierror)
    call MPI_Request_free(requests(2), ierror)
  end subroutine
end program
