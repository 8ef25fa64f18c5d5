! Requests that Fortran starts on sections of arrays and C starts again and completes, of operations
! that no datatype can stand for, so that they work on copies. The functions of C are declared here.
#include "test.h"
module functions_of_c
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_intptr_t) function to_c(request) bind(C, name='MPI_Request_fromint')
      import
      integer(c_int), value :: request
    end function
    integer(c_int) function c_start(request) bind(C, name='MPI_Start')
      import
      integer(c_intptr_t) :: request
    end function
    integer(c_int) function c_wait(request, status) bind(C, name='MPI_Wait')
      import
      integer(c_intptr_t) :: request
      type(c_ptr), value :: status
    end function
    integer(c_int) function c_test(request, flag, status) bind(C, name='MPI_Test')
      import
      integer(c_intptr_t) :: request
      integer(c_int) :: flag
      type(c_ptr), value :: status
    end function
    integer(c_int) function c_get_status(request, flag, status) &
        bind(C, name='MPI_Request_get_status')
      import
      integer(c_intptr_t), value :: request
      integer(c_int) :: flag
      type(c_ptr), value :: status
    end function
    integer(c_int) function c_waitall(count, requests, statuses) bind(C, name='MPI_Waitall')
      import
      integer(c_int), value :: count
      integer(c_intptr_t) :: requests(*)
      type(c_ptr), value :: statuses
    end function
    integer(c_int) function c_waitany(count, requests, index, status) bind(C, name='MPI_Waitany')
      import
      integer(c_int), value :: count
      integer(c_intptr_t) :: requests(*)
      integer(c_int) :: index
      type(c_ptr), value :: status
    end function
    integer(c_int) function c_testsome(count, requests, number, indices, statuses) &
        bind(C, name='MPI_Testsome')
      import
      integer(c_int), value :: count
      integer(c_intptr_t) :: requests(*)
      integer(c_int) :: number, indices(*)
      type(c_ptr), value :: statuses
    end function
    integer(c_int) function c_pready(partition, request) bind(C, name='MPI_Pready')
      import
      integer(c_int), value :: partition
      integer(c_intptr_t), value :: request
    end function
    integer(c_int) function c_parrived(request, partition, flag) bind(C, name='MPI_Parrived')
      import
      integer(c_intptr_t), value :: request
      integer(c_int), value :: partition
      integer(c_int) :: flag
    end function
  end interface
end module

program completed_by_c
#include "use_mpi.h"
  use test
  use functions_of_c
  implicit none
#include "mpi_header.h"
  integer, parameter :: n = 6, most = 9
  integer ASYNC :: sent(2 * n), got(2 * n), gathered(2, most * n)
  MPI_REQUEST_T :: request, requests(2)
  integer(c_intptr_t) :: in_c, both(2)
  integer :: i, turn, to, from
  call test_init
  to = mod(test_rank + 1, test_size)
  from = mod(test_rank + test_size - 1, test_size)
  call one_by_wait
  call one_by_test
  call asked_before
  call several
  call persistent
  call partitioned
  call test_finish

contains

  subroutine fill
    sent = [(1000 * turn + 100 * test_rank + i, i = 1, 2 * n)]
    got = -1
    gathered = -1
  end subroutine

  subroutine expect_sum(what)
    character(len=*), intent(in) :: what
    integer :: others
    others = 50 * test_size * (test_size - 1)
    CHECK(all(got(1::2) == [(test_size * (1000 * turn + i) + others, i = 1, 2 * n, 2)]), what)
    CHECK(all(got(2::2) == -1), what // ': elements between')
  end subroutine

  subroutine expect_blocks(what)
    character(len=*), intent(in) :: what
    integer :: rank
    do rank = 0, test_size - 1
      CHECK(all(gathered(2, rank * n + 1:(rank + 1) * n) == 1000 * turn + 100 * rank + [(i, i = 1, n)]), what)
    end do
    CHECK(all(gathered(1, :) == -1), what // ': elements between')
  end subroutine

  subroutine one_by_wait
    turn = 1
    call fill
    call MPI_Iallreduce(sent(1::2), got(1::2), n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, &
      ierror)
    in_c = to_c(INTEGER_OF(request))
    ierror = c_wait(in_c, c_null_ptr)
    EXPECT(ierror, MPI_SUCCESS, 'code of MPI_Wait')
    EXPECT(in_c, to_c(INTEGER_OF(MPI_REQUEST_NULL)), 'the handle after MPI_Wait')
    call expect_sum('a sum by MPI_Wait')
  end subroutine

  subroutine one_by_test
    integer(c_int) :: flag
    turn = 2
    call fill
    call MPI_Iallgather(sent, n, MPI_INTEGER, gathered(2, :), n, MPI_INTEGER, MPI_COMM_WORLD, &
      request, ierror)
    in_c = to_c(INTEGER_OF(request))
    flag = 0
    do while (flag == 0)
      ierror = c_test(in_c, flag, c_null_ptr)
    end do
    call expect_blocks('blocks by MPI_Test')
  end subroutine

  ! What a call of C has found complete is there, and the program's own until the request ends.
  subroutine asked_before
    integer(c_int) :: flag
    turn = 3
    call fill
    call MPI_Iallreduce(sent(1::2), got(1::2), n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, &
      ierror)
    in_c = to_c(INTEGER_OF(request))
    flag = 0
    do while (flag == 0)
      ierror = c_get_status(in_c, flag, c_null_ptr)
    end do
    call expect_sum('a sum by MPI_Request_get_status')
    got = 77
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    CHECK(all(got == 77), 'what the program has written after MPI_Request_get_status')
    CHECK(request == MPI_REQUEST_NULL, 'the request after MPI_Wait')
  end subroutine

  subroutine several
    integer(c_int) :: index_, number, indices(2), left
    do turn = 4, 6
      call fill
      call MPI_Iallreduce(sent(1::2), got(1::2), n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
        requests(1), ierror)
      call MPI_Iallgather(sent, n, MPI_INTEGER, gathered(2, :), n, MPI_INTEGER, MPI_COMM_WORLD, &
        requests(2), ierror)
      both = [(to_c(INTEGER_OF(requests(i))), i = 1, 2)]
      select case (turn)
      case (4)
        ierror = c_waitall(2, both, c_null_ptr)
      case (5)
        ierror = c_waitany(2, both, index_, c_null_ptr)
        ierror = c_waitany(2, both, index_, c_null_ptr)
      case (6)
        left = 2
        do while (left > 0)
          ierror = c_testsome(2, both, number, indices, c_null_ptr)
          left = left - number
        end do
      end select
      call expect_sum('a sum among several')
      call expect_blocks('blocks among several')
    end do
  end subroutine

  ! The operation takes what the section has when C starts it.
  subroutine persistent
    call MPI_Allreduce_init(sent(1::2), got(1::2), n, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
      MPI_INFO_NULL, request, ierror)
    in_c = to_c(INTEGER_OF(request))
    do turn = 7, 9
      call fill
      if (turn == 8) then
        call MPI_Start(request, ierror)
      else
        ierror = c_start(in_c)
      end if
      ierror = c_wait(in_c, c_null_ptr)
      call expect_sum('a sum that C starts')
    end do
    CHECK(in_c == to_c(INTEGER_OF(request)), 'a persistent request after MPI_Wait')
    call MPI_Request_free(request, ierror)
  end subroutine

  subroutine partitioned
    integer :: part
    integer(c_int) :: flag
    call MPI_Precv_init(got(1::2), 3, int(2, MPI_COUNT_KIND), MPI_INTEGER, from, 5, &
      MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), ierror)
    call MPI_Psend_init(sent(1::2), 3, int(2, MPI_COUNT_KIND), MPI_INTEGER, to, 5, &
      MPI_COMM_WORLD, MPI_INFO_NULL, requests(2), ierror)
    both = [(to_c(INTEGER_OF(requests(i))), i = 1, 2)]
    do turn = 10, 12
      got = -1
      sent = -2
      ierror = c_start(both(1))
      ierror = c_start(both(2))
      do part = 2, 0, -1
        ! Written after the start, before the partition is ready.
        sent(4 * part + 1:4 * part + 4) = 1000 * turn + 100 * test_rank + 10 * part
        ierror = c_pready(part, both(2))
        EXPECT(ierror, MPI_SUCCESS, 'code of MPI_Pready')
      end do
      do part = 0, 2
        flag = 0
        do while (flag == 0)
          ierror = c_parrived(both(1), part, flag)
        end do
        CHECK(all(got(4 * part + 1:4 * part + 4:2) == 1000 * turn + 100 * from + 10 * part), 'a partition')
        ! From now on it is the program's.
        if (turn == 11) got(4 * part + 1) = 33
      end do
      ierror = c_waitall(2, both, c_null_ptr)
      CHECK(all(got(2::2) == -1), 'elements between partitions')
      if (turn == 11) then
        CHECK(all(got(1::4) == 33), 'what the program has written after MPI_Parrived')
      end if
    end do
    ! Without a look at partitions.
    turn = 13
    got = -1
    ierror = c_start(both(1))
    ierror = c_start(both(2))
    sent = 1000 * turn + 100 * test_rank
    do part = 0, 2
      call MPI_Pready(part, requests(2), ierror)
    end do
    ierror = c_wait(both(1), c_null_ptr)
    CHECK(all(got(1::2) == 1000 * turn + 100 * from), 'partitions by MPI_Wait')
    ierror = c_wait(both(2), c_null_ptr)
    call MPI_Request_free(requests(1), ierror)
    call MPI_Request_free(requests(2), ierror)
  end subroutine
end program
