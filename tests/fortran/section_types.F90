! Datatypes that the library keeps for array sections: made once, those over a datatype of the
! program too, which may be freed and its handle come back; freed when the last session ends.
! Mica's handles show it: a datatype's has its place in a table in the low bits.
#include "test.h"
program section_types
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  integer, parameter :: n = 8
  integer :: matrix(4 * n, n), got(4 * n * n), i
  matrix = reshape([(i, i = 1, size(matrix))], shape(matrix))
  call made_once
  call end_of_sessions
  call test_init
  call handle_again
  call test_finish

contains

  ! The place of a datatype in the table.
  integer function place(datatype)
    MPI_DATATYPE_T, intent(in) :: datatype
    place = iand(INTEGER_OF(datatype), int(z'ffffff'))
  end function

  ! Sends rows of the matrix to itself: sections of `rows` of its columns' elements.
  subroutine exchange(comm, rows, count, datatype)
    MPI_COMM_T, intent(in) :: comm
    integer, intent(in) :: rows, count
    MPI_DATATYPE_T, intent(in) :: datatype
    call MPI_Sendrecv(matrix(:rows, :), count, datatype, 0, 0, got, size(got), MPI_INTEGER, 0, 0, &
      comm, MPI_STATUS_IGNORE, ierror)
  end subroutine

  subroutine open_session(session, comm)
    MPI_SESSION_T, intent(out) :: session
    MPI_COMM_T, intent(out) :: comm
    MPI_GROUP_T :: group
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session, ierror)
    call MPI_Group_from_session_pset(session, 'mpi://SELF', group, ierror)
    call MPI_Comm_create_from_group(group, 'mica:section_types', MPI_INFO_NULL, &
      MPI_ERRORS_ARE_FATAL, comm, ierror)
    call MPI_Group_free(group, ierror)
  end subroutine

  subroutine close_session(session, comm)
    MPI_SESSION_T, intent(inout) :: session
    MPI_COMM_T, intent(inout) :: comm
    call MPI_Comm_free(comm, ierror)
    call MPI_Session_finalize(session, ierror)
  end subroutine

  ! Sections of a datatype of the program, too: between two datatypes of the program none is made.
  ! (The first places of the table are given out one after another.)
  subroutine made_once
    MPI_SESSION_T :: session
    MPI_COMM_T :: comm
    MPI_DATATYPE_T :: pair, first, second
    integer :: turn
    call open_session(session, comm)
    call MPI_Type_contiguous(2, MPI_INTEGER, pair, ierror)
    call MPI_Type_commit(pair, ierror)
    do turn = 1, 100
      got = -1
      call exchange(comm, 2, n, pair)
      CHECK(all(got(:2 * n) == reshape(matrix(:2, :), [2 * n])), 'pairs')
      call exchange(comm, 3, n, MPI_INTEGER)
      if (turn == 1) call MPI_Type_contiguous(3, MPI_INTEGER, first, ierror)
    end do
    call MPI_Type_contiguous(3, MPI_INTEGER, second, ierror)
    EXPECT(place(second), place(first) + 1, 'the place of the next datatype')
    call MPI_Type_free(first, ierror)
    call MPI_Type_free(second, ierror)
    call MPI_Type_free(pair, ierror)
    call close_session(session, comm)
  end subroutine

  subroutine end_of_sessions
    MPI_SESSION_T :: session, other
    MPI_COMM_T :: comm, other_comm
    MPI_DATATYPE_T :: first, last
    integer :: turn, rows
    do turn = 1, 40
      call open_session(session, comm)
      call MPI_Type_contiguous(3, MPI_INTEGER, first, ierror)
      do rows = 1, 12
        got = -1
        call exchange(comm, rows, rows * n, MPI_INTEGER)
        CHECK(all(got(:rows * n) == reshape(matrix(:rows, :), [rows * n])), 'a section in a session')
        if (rows /= 6) cycle
        ! One that is not the last.
        call open_session(other, other_comm)
        call exchange(other_comm, 3, 3 * n, MPI_INTEGER)
        call close_session(other, other_comm)
      end do
      call MPI_Type_contiguous(3, MPI_INTEGER, last, ierror)
      ! Each turn has made twelve, and 65 places rest before they are given out again.
      if (turn == 2) then
        EXPECT(place(last), place(first) + 13, 'the place of the next datatype in another session')
      end if
      CHECK(place(last) < 200, 'datatypes that stay after the end of all sessions')
      call MPI_Type_free(first, ierror)
      call MPI_Type_free(last, ierror)
      call close_session(session, comm)
    end do
  end subroutine

  ! The handle of a datatype that was freed comes back for another one.
  subroutine handle_again
    MPI_DATATYPE_T :: old, new
    integer :: turn, before
    call MPI_Type_contiguous(2, MPI_INTEGER, old, ierror)
    call MPI_Type_commit(old, ierror)
    before = INTEGER_OF(old)
    got = -1
    call exchange(MPI_COMM_SELF, 3, 4, old)
    CHECK(all(got(:8) == [1, 2, 3, 33, 34, 35, 65, 66]), 'the first datatype')
    call MPI_Type_free(old, ierror)
    do turn = 1, 1000
      call MPI_Type_vector(2, 1, 2, MPI_INTEGER, new, ierror)
      if (INTEGER_OF(new) == before) exit
      call MPI_Type_free(new, ierror)
    end do
    CHECK(turn <= 1000, 'the handle comes back')
    call MPI_Type_commit(new, ierror)
    got = -1
    call exchange(MPI_COMM_SELF, 3, 4, new)
    CHECK(all(got(:8) == [1, 3, 33, 35, 65, 67, 97, 99]), 'the second datatype of that handle')
    call MPI_Type_free(new, ierror)
  end subroutine
end program
