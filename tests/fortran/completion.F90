! Waitany, Waitsome, Testany, Testsome and their kin: indices count from one, and MPI_UNDEFINED
! stays what it is.
#include "test.h"
program completion
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  integer, parameter :: n = 5
  integer ASYNC :: got(n)
  MPI_REQUEST_T :: requests(n), none(1)
  integer :: to, from, i
  call test_init
  to = mod(test_rank + 1, test_size)
  from = mod(test_rank + test_size - 1, test_size)
  call any_of_them
  call some_of_them
  call all_of_them
  call nothing_active
  call test_finish

contains

  subroutine post
    got = 0
    do i = 1, n
      call MPI_Irecv(got(i), 1, MPI_INTEGER, from, i, MPI_COMM_WORLD, requests(i), ierror)
    end do
  end subroutine

  subroutine send(tag)
    integer, intent(in) :: tag
    call MPI_Send(1000 * test_rank + tag, 1, MPI_INTEGER, to, tag, MPI_COMM_WORLD, ierror)
  end subroutine

  subroutine any_of_them
    DECLARE_STATUS(one)
    integer :: index_
    logical :: flag
    call post
    call MPI_Testany(n, requests, index_, flag, one, ierror)
    CHECK(.not. flag, 'flag of MPI_Testany when nothing is there')
    EXPECT(index_, MPI_UNDEFINED, 'index by MPI_Testany when nothing is there')
    do i = n, 1, -1
      ! Nothing else comes before this one is there.
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
      call send(i)
      if (mod(i, 2) == 1) then
        call MPI_Waitany(n, requests, index_, one, ierror)
      else
        flag = .false.
        do while (.not. flag)
          call MPI_Testany(n, requests, index_, flag, one, ierror)
        end do
      end if
      EXPECT(index_, i, 'index')
      EXPECT(TAG_OF(one), i, 'tag')
      EXPECT(SOURCE_OF(one), from, 'source')
      EXPECT(got(i), 1000 * from + i, 'value')
      CHECK(requests(i) == MPI_REQUEST_NULL, 'the request that completed')
    end do
    call MPI_Waitany(n, requests, index_, one, ierror)
    EXPECT(index_, MPI_UNDEFINED, 'index by MPI_Waitany of null requests')
    EXPECT(TAG_OF(one), MPI_ANY_TAG, 'tag by MPI_Waitany of null requests')
  end subroutine

  subroutine some_of_them
    DECLARE_STATUSES(statuses, n)
    integer :: outcount, indices(n), left, seen(n)
    call post
    indices = -7
    call MPI_Testsome(n, requests, outcount, indices, statuses, ierror)
    EXPECT(outcount, 0, 'number by MPI_Testsome when nothing is there')
    EXPECT(indices(1), -7, 'an index of nothing')
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    seen = 0
    do i = n, 1, -1
      call send(i)
    end do
    left = n
    do while (left > 0)
      if (left == n) then
        call MPI_Waitsome(n, requests, outcount, indices, statuses, ierror)
        CHECK(outcount >= 1, 'number by MPI_Waitsome')
      else
        call MPI_Testsome(n, requests, outcount, indices, statuses, ierror)
      end if
      do i = 1, outcount
        CHECK(indices(i) >= 1 .and. indices(i) <= n, 'index in the range')
        seen(indices(i)) = seen(indices(i)) + 1
        EXPECT(NTH_TAG(statuses, i), indices(i), 'tag of an index')
        EXPECT(got(indices(i)), 1000 * from + indices(i), 'value of an index')
      end do
      left = left - outcount
    end do
    CHECK(all(seen == 1), 'each index once')
    call MPI_Waitsome(n, requests, outcount, indices, statuses, ierror)
    EXPECT(outcount, MPI_UNDEFINED, 'number by MPI_Waitsome of null requests')
    call MPI_Testsome(n, requests, outcount, indices, statuses, ierror)
    EXPECT(outcount, MPI_UNDEFINED, 'number by MPI_Testsome of null requests')
    ! Without statuses.
    call post
    do i = 1, n
      call send(i)
    end do
    left = n
    do while (left > 0)
      call MPI_Waitsome(n, requests, outcount, indices, MPI_STATUSES_IGNORE, ierror)
      CHECK(all(indices(:outcount) >= 1) .and. all(indices(:outcount) <= n), 'indices without statuses')
      left = left - outcount
    end do
    EXPECT(left, 0, 'requests left')
  end subroutine

  subroutine all_of_them
    DECLARE_STATUSES(statuses, n)
    logical :: flag
    call post
    call MPI_Testall(n, requests, flag, statuses, ierror)
    CHECK(.not. flag, 'MPI_Testall when nothing is there')
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    do i = 1, n
      call send(i)
    end do
    flag = .false.
    do while (.not. flag)
      call MPI_Testall(n, requests, flag, statuses, ierror)
    end do
    do i = 1, n
      EXPECT(NTH_TAG(statuses, i), i, 'tag by MPI_Testall')
    end do
    call post
    do i = 1, n
      call send(i)
    end do
    ! The first three of the list, then the rest.
    call MPI_Waitall(3, requests, statuses, ierror)
    CHECK(requests(3) == MPI_REQUEST_NULL .and. requests(4) /= MPI_REQUEST_NULL, 'three of five')
    call MPI_Waitall(2, requests(4:5), MPI_STATUSES_IGNORE, ierror)
    CHECK(all(got == [(1000 * from + i, i = 1, n)]), 'values')
  end subroutine

  subroutine nothing_active
    DECLARE_STATUS(one)
    DECLARE_STATUSES(statuses, 1)
    integer :: index_, outcount, indices(1)
    logical :: flag
    none = MPI_REQUEST_NULL
    call MPI_Waitany(0, none, index_, one, ierror)
    EXPECT(index_, MPI_UNDEFINED, 'index by MPI_Waitany of nothing')
    call MPI_Testany(0, none, index_, flag, one, ierror)
    CHECK(flag, 'flag of MPI_Testany of nothing')
    EXPECT(index_, MPI_UNDEFINED, 'index by MPI_Testany of nothing')
    call MPI_Testany(1, none, index_, flag, MPI_STATUS_IGNORE, ierror)
    CHECK(flag, 'flag of MPI_Testany of a null request')
    EXPECT(index_, MPI_UNDEFINED, 'index by MPI_Testany of a null request')
    call MPI_Waitsome(0, none, outcount, indices, statuses, ierror)
    EXPECT(outcount, MPI_UNDEFINED, 'number by MPI_Waitsome of nothing')
    call MPI_Testall(1, none, flag, statuses, ierror)
    CHECK(flag, 'MPI_Testall of a null request')
    EXPECT(NTH_SOURCE(statuses, 1), MPI_ANY_SOURCE, 'source by MPI_Testall of a null request')
    ! An inactive persistent request counts like a null one.
    call MPI_Recv_init(got, 1, MPI_INTEGER, from, 1, MPI_COMM_WORLD, none(1), ierror)
    call MPI_Waitany(1, none, index_, one, ierror)
    EXPECT(index_, MPI_UNDEFINED, 'index by MPI_Waitany of an inactive request')
    call MPI_Start(none(1), ierror)
    call send(1)
    call MPI_Waitany(1, none, index_, one, ierror)
    EXPECT(index_, 1, 'index by MPI_Waitany of a persistent request')
    CHECK(none(1) /= MPI_REQUEST_NULL, 'a persistent request after MPI_Waitany')
    call MPI_Request_free(none(1), ierror)
  end subroutine
end program
