! Statuses: their parts, STATUS_IGNORE and STATUSES_IGNORE, error codes in a list, conversions
! between the styles, numbers of elements, and MPI_Status_set_*.
#include "test.h"
program status
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  integer :: to, from, n, i
  integer ASYNC :: sent(12), got(12)
  MPI_REQUEST_T :: requests(4)
  DECLARE_STATUS(one)
  call test_init
  to = mod(test_rank + 1, test_size)
  from = mod(test_rank + test_size - 1, test_size)
  sent = [(100 * test_rank + i, i = 1, 12)]
  call parts
  call lists
  call ignored
  call error_codes
  call elements
  call set
#if !defined(STYLE_MPIF_H)
  call converted
#endif
  call test_finish

contains

  subroutine parts
    logical :: flag
    call MPI_Isend(sent, 5, MPI_INTEGER, to, 17, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, one, ierror)
    EXPECT(SOURCE_OF(one), from, 'source by MPI_Probe')
    EXPECT(TAG_OF(one), 17, 'tag by MPI_Probe')
    call MPI_Recv(got, 12, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, one, ierror)
    EXPECT(SOURCE_OF(one), from, 'source')
    EXPECT(TAG_OF(one), 17, 'tag')
    call MPI_Get_count(one, MPI_INTEGER, n, ierror)
    EXPECT(n, 5, 'count')
    call MPI_Get_count(one, MPI_DOUBLE_PRECISION, n, ierror)
    EXPECT(n, MPI_UNDEFINED, 'count of another type')
    call MPI_Test_cancelled(one, flag, ierror)
    CHECK(.not. flag, 'MPI_Test_cancelled')
    call MPI_Wait(requests(1), one, ierror)
    call MPI_Recv(got, 12, MPI_INTEGER, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, one, ierror)
    EXPECT(SOURCE_OF(one), MPI_PROC_NULL, 'source of a receive from MPI_PROC_NULL')
    EXPECT(TAG_OF(one), MPI_ANY_TAG, 'tag of a receive from MPI_PROC_NULL')
    call MPI_Get_count(one, MPI_INTEGER, n, ierror)
    EXPECT(n, 0, 'count of a receive from MPI_PROC_NULL')
    ! A request that is null has an empty status.
    requests(1) = MPI_REQUEST_NULL
    call MPI_Wait(requests(1), one, ierror)
    EXPECT(SOURCE_OF(one), MPI_ANY_SOURCE, 'source in an empty status')
    EXPECT(TAG_OF(one), MPI_ANY_TAG, 'tag in an empty status')
    EXPECT(ERROR_OF(one), MPI_SUCCESS, 'error in an empty status')
    ! A cancelled receive.
    call MPI_Irecv(got, 12, MPI_INTEGER, from, 18, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Cancel(requests(1), ierror)
    call MPI_Wait(requests(1), one, ierror)
    call MPI_Test_cancelled(one, flag, ierror)
    CHECK(flag, 'a receive that nothing matches is cancelled')
    ! MPI_Request_get_status leaves the request as it is.
    call MPI_Isend(sent, 3, MPI_INTEGER, to, 19, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Irecv(got, 12, MPI_INTEGER, from, 19, MPI_COMM_WORLD, requests(1), ierror)
    flag = .false.
    do while (.not. flag)
      call MPI_Request_get_status(requests(1), flag, one, ierror)
    end do
    EXPECT(TAG_OF(one), 19, 'tag by MPI_Request_get_status')
    CHECK(requests(1) /= MPI_REQUEST_NULL, 'the request by MPI_Request_get_status')
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    CHECK(all(got(:3) == [1, 2, 3] + 100 * from), 'values')
  end subroutine

  subroutine lists
    DECLARE_STATUSES(all_of_them, 4)
    do i = 1, 4
      call MPI_Irecv(got(3 * i - 2), 3, MPI_INTEGER, from, i, MPI_COMM_WORLD, requests(i), ierror)
    end do
    do i = 4, 1, -1
      call MPI_Send(sent, mod(i, 4), MPI_INTEGER, to, i, MPI_COMM_WORLD, ierror)
    end do
    call MPI_Waitall(4, requests, all_of_them, ierror)
    do i = 1, 4
      EXPECT(NTH_TAG(all_of_them, i), i, 'tag in a list')
      EXPECT(NTH_SOURCE(all_of_them, i), from, 'source in a list')
      call MPI_Get_count(NTH(all_of_them, i), MPI_INTEGER, n, ierror)
      EXPECT(n, mod(i, 4), 'count in a list')
      CHECK(requests(i) == MPI_REQUEST_NULL, 'a request of the list')
    end do
  end subroutine

  subroutine ignored
    logical :: flag
    integer :: index_, outcount, indices(2)
    call MPI_Sendrecv(sent, 2, MPI_INTEGER, to, 1, got, 2, MPI_INTEGER, from, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierror)
    call MPI_Irecv(got, 2, MPI_INTEGER, from, 1, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Irecv(got(5), 2, MPI_INTEGER, from, 2, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Testall(2, requests, flag, MPI_STATUSES_IGNORE, ierror)
    CHECK(.not. flag, 'MPI_Testall of what nothing was sent for')
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Send(sent, 1, MPI_INTEGER, to, 1, MPI_COMM_WORLD, ierror)
    call MPI_Waitany(2, requests, index_, MPI_STATUS_IGNORE, ierror)
    EXPECT(index_, 1, 'index by MPI_Waitany')
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Send(sent, 1, MPI_INTEGER, to, 2, MPI_COMM_WORLD, ierror)
    call MPI_Waitsome(2, requests, outcount, indices, MPI_STATUSES_IGNORE, ierror)
    EXPECT(outcount, 1, 'number by MPI_Waitsome')
    EXPECT(indices(1), 2, 'index by MPI_Waitsome')
    call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE, ierror)
    CHECK(flag, 'MPI_Test of a null request')
    call MPI_Iprobe(from, 99, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE, ierror)
    CHECK(.not. flag, 'MPI_Iprobe')
  end subroutine

  ! A message that is too long, and one that fits, which may not be there yet.
  subroutine error_codes
    DECLARE_STATUSES(two, 2)
    integer :: code, class, class_of_first
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
    call MPI_Irecv(got, 2, MPI_INTEGER, from, 1, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Irecv(got(5), 2, MPI_INTEGER, from, 2, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Send(sent, 4, MPI_INTEGER, to, 1, MPI_COMM_WORLD, ierror)
    call MPI_Send(sent, 2, MPI_INTEGER, to, 2, MPI_COMM_WORLD, ierror)
    call MPI_Waitall(2, requests, two, code)
    call MPI_Error_class(code, class, ierror)
    EXPECT(class, MPI_ERR_IN_STATUS, 'class of the error of MPI_Waitall')
    call MPI_Error_class(NTH_ERROR(two, 1), class_of_first, ierror)
    EXPECT(class_of_first, MPI_ERR_TRUNCATE, 'class of the error in the first status')
    CHECK(any(NTH_ERROR(two, 2) == [MPI_SUCCESS, MPI_ERR_PENDING]), 'error in the second status')
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE, ierror)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine

  subroutine elements
    MPI_DATATYPE_T :: pair
    integer(MPI_COUNT_KIND) :: long
    call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierror)
    call MPI_Type_commit(pair, ierror)
    call MPI_Isend(sent, 5, MPI_INTEGER, to, 1, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Recv(got, 4, pair, from, 1, MPI_COMM_WORLD, one, ierror)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE, ierror)
    call MPI_Get_elements(one, pair, n, ierror)
    EXPECT(n, 5, 'MPI_Get_elements')
    call MPI_Get_elements_x(one, pair, long, ierror)
    EXPECT(long, 5, 'MPI_Get_elements_x')
    call MPI_Get_count(one, pair, n, ierror)
    EXPECT(n, MPI_UNDEFINED, 'count of pairs')
#if defined(STYLE_F08)
    call MPI_Get_count(one, MPI_INTEGER, long, ierror)
    EXPECT(long, 5, 'count of kind MPI_COUNT_KIND')
#endif
    call MPI_Type_free(pair, ierror)
  end subroutine

  subroutine set
    logical :: flag
    integer(MPI_COUNT_KIND) :: long
    requests(1) = MPI_REQUEST_NULL
    call MPI_Wait(requests(1), one, ierror)
    call MPI_Status_set_elements(one, MPI_INTEGER, 7, ierror)
    call MPI_Status_set_cancelled(one, .true., ierror)
    SOURCE_OF(one) = 3
    TAG_OF(one) = 4
    ERROR_OF(one) = MPI_ERR_OTHER
    call MPI_Get_count(one, MPI_INTEGER, n, ierror)
    EXPECT(n, 7, 'count that was set')
    call MPI_Test_cancelled(one, flag, ierror)
    CHECK(flag, 'cancelled as it was set')
    call MPI_Status_set_cancelled(one, .false., ierror)
    call MPI_Test_cancelled(one, flag, ierror)
    CHECK(.not. flag, 'not cancelled as it was set')
    long = 5000000000_MPI_COUNT_KIND
    call MPI_Status_set_elements_x(one, MPI_BYTE, long, ierror)
    call MPI_Get_elements_x(one, MPI_BYTE, long, ierror)
    EXPECT(long, 5000000000_int64, 'a long number of elements')
    EXPECT(SOURCE_OF(one), 3, 'source that was set')
    EXPECT(TAG_OF(one), 4, 'tag that was set')
    EXPECT(ERROR_OF(one), MPI_ERR_OTHER, 'error that was set')
  end subroutine

#if !defined(STYLE_MPIF_H)
  subroutine converted
    type(MPI_Status) :: new, again
    integer :: old(MPI_STATUS_SIZE)
    integer :: in_old
    call MPI_Sendrecv(sent, 6, MPI_INTEGER, to, 21, got, 12, MPI_INTEGER, from, 21, &
      MPI_COMM_WORLD, one, &
      ierror)
#if defined(STYLE_F08)
    new = one
    call MPI_Status_f082f(new, old, ierror)
#else
    old = one
    call MPI_Status_f2f08(old, new, ierror)
#endif
    EXPECT(old(MPI_SOURCE), from, 'source, as an integer')
    EXPECT(old(MPI_TAG), 21, 'tag, as an integer')
    EXPECT(new%MPI_SOURCE, from, 'source, as a component')
    EXPECT(new%MPI_TAG, 21, 'tag, as a component')
    old(MPI_TAG) = 22
    call MPI_Status_f2f08(old, again, ierror)
    EXPECT(again%MPI_TAG, 22, 'tag after f2f08')
    again%MPI_TAG = 23
    call MPI_Status_f082f(again, old, ierror)
    EXPECT(old(MPI_TAG), 23, 'tag after f082f')
    in_old = -1
#if defined(STYLE_F08)
    call MPI_Get_count(again, MPI_INTEGER, in_old, ierror)
#else
    call MPI_Get_count(old, MPI_INTEGER, in_old, ierror)
#endif
    EXPECT(in_old, 6, 'count after the conversions')
  end subroutine
#endif
end program
