! Generalized requests: callbacks in Fortran, extra state, statuses, cancelling.
#include "test.h"
module functions
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  private
  public :: query, free_state, cancel
  integer(MPI_ADDRESS_KIND), parameter, public :: state = 9876543210_MPI_ADDRESS_KIND
  integer, public :: queries = 0, frees = 0, cancels = 0
  logical, public :: was_complete = .false., is_cancelled = .false.
contains
  subroutine query(extra_state, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    DECLARE_STATUS(status)
    integer :: ierror
    EXPECT(extra_state, state, 'extra state of the query')
    queries = queries + 1
    call MPI_Status_set_elements(status, MPI_INTEGER, 12, ierror)
    call MPI_Status_set_cancelled(status, is_cancelled, ierror)
    SOURCE_OF(status) = 41
    TAG_OF(status) = 42
    ierror = MPI_SUCCESS
  end subroutine

  subroutine free_state(extra_state, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    EXPECT(extra_state, state, 'extra state of the end')
    frees = frees + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra_state, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    EXPECT(extra_state, state, 'extra state of MPI_Cancel')
    cancels = cancels + 1
    was_complete = complete
    if (.not. complete) is_cancelled = .true.
    ierror = MPI_SUCCESS
  end subroutine
end module

program grequests
#include "use_mpi.h"
  use test
  use functions
  implicit none
#include "mpi_header.h"
  MPI_REQUEST_T :: request, requests(2)
  DECLARE_STATUS(status)
  DECLARE_STATUSES(statuses, 2)
  logical :: flag
  integer :: n, i
  call test_init
  call MPI_Grequest_start(query, free_state, cancel, state, request, ierror)
  call MPI_Test(request, flag, status, ierror)
  CHECK(.not. flag, 'before MPI_Grequest_complete')
  call MPI_Grequest_complete(request, ierror)
  call MPI_Wait(request, status, ierror)
  CHECK(request == MPI_REQUEST_NULL, 'handle after MPI_Wait')
  EXPECT(queries, 1, 'queries')
  EXPECT(frees, 1, 'ends')
  EXPECT(SOURCE_OF(status), 41, 'source')
  EXPECT(TAG_OF(status), 42, 'tag')
  call MPI_Get_count(status, MPI_INTEGER, n, ierror)
  EXPECT(n, 12, 'count')

  do i = 1, 2
    call MPI_Grequest_start(query, free_state, cancel, state, requests(i), ierror)
    call MPI_Grequest_complete(requests(i), ierror)
  end do
  call MPI_Waitall(2, requests, statuses, ierror)
  EXPECT(NTH_TAG(statuses, 1), 42, 'tag in a list')
  EXPECT(NTH_TAG(statuses, 2), 42, 'tag in a list')
  EXPECT(frees, 3, 'ends of a list')

  call MPI_Grequest_start(query, free_state, cancel, state, request, ierror)
  call MPI_Cancel(request, ierror)
  EXPECT(cancels, 1, 'calls by MPI_Cancel')
  CHECK(.not. was_complete, 'complete while it was not')
  call MPI_Grequest_complete(request, ierror)
  call MPI_Wait(request, status, ierror)
  call MPI_Test_cancelled(status, flag, ierror)
  CHECK(flag, 'MPI_Test_cancelled')
  is_cancelled = .false.

  call MPI_Grequest_start(query, free_state, cancel, state, request, ierror)
  call MPI_Grequest_complete(request, ierror)
  call MPI_Cancel(request, ierror)
  CHECK(was_complete, 'complete when it was')
  call MPI_Request_free(request, ierror)
  EXPECT(frees, 5, 'ends in all')
  call test_finish
end program
