! Error handlers of the program for communicators, windows and files; MPI_ERRORS_RETURN; error
! classes, codes and strings of the program; strings padded with blanks.
#include "test.h"
module handlers
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  private
  public :: on_comm, on_win, on_file
  integer, public :: comm_calls = 0, win_calls = 0, file_calls = 0, last_code = 0
  MPI_COMM_T, public :: last_comm
  MPI_WIN_T, public :: last_win
contains
  subroutine on_comm(comm, error_code)
    MPI_COMM_T :: comm
    integer :: error_code
    comm_calls = comm_calls + 1
    last_code = error_code
    last_comm = comm
  end subroutine

  subroutine on_win(win, error_code)
    MPI_WIN_T :: win
    integer :: error_code
    win_calls = win_calls + 1
    last_code = error_code
    last_win = win
  end subroutine

  subroutine on_file(file, error_code)
    MPI_FILE_T :: file
    integer :: error_code
    file_calls = file_calls + 1
    last_code = error_code
    if (file /= MPI_FILE_NULL) file_calls = file_calls + 100
  end subroutine
end module

program errhandlers
#include "use_mpi.h"
  use test
  use handlers
  implicit none
#include "mpi_header.h"
  MPI_ERRHANDLER_T :: handler, same
  MPI_COMM_T :: comm
  integer :: buffer(4), code, class
  call test_init
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
  call of_communicators
  call of_windows
  call of_files
  call strings
  call own_codes
  call MPI_Comm_free(comm, ierror)
  call test_finish

contains

  subroutine of_communicators
    call MPI_Comm_create_errhandler(on_comm, handler, ierror)
    call MPI_Comm_set_errhandler(comm, handler, ierror)
    call MPI_Send(buffer, -1, MPI_INTEGER, test_rank, 0, comm, code)
    EXPECT(comm_calls, 1, 'calls of the handler')
    EXPECT(last_code, code, 'code that the handler sees')
    CHECK(last_comm == comm, 'communicator that the handler sees')
    call MPI_Error_class(code, class, ierror)
    EXPECT(class, MPI_ERR_COUNT, 'class of the error')
    call MPI_Comm_get_errhandler(comm, same, ierror)
    CHECK(same == handler, 'MPI_Comm_get_errhandler')
    call MPI_Errhandler_free(same, ierror)
    CHECK(same == MPI_ERRHANDLER_NULL, 'handle after MPI_Errhandler_free')
    call MPI_Errhandler_free(handler, ierror)
    ! In use though its handle is gone.
    call MPI_Send(buffer, 1, MPI_INTEGER, test_size + 5, 0, comm, code)
    EXPECT(comm_calls, 2, 'calls of a handler whose handle was freed')
    call MPI_Error_class(code, class, ierror)
    EXPECT(class, MPI_ERR_RANK, 'class of a wrong rank')
    call MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER, ierror)
    EXPECT(comm_calls, 3, 'calls after MPI_Comm_call_errhandler')
    EXPECT(last_code, MPI_ERR_OTHER, 'code of MPI_Comm_call_errhandler')
    call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierror)
    call MPI_Send(buffer, 1, MPI_DATATYPE_NULL, test_rank, 0, comm, code)
    call MPI_Error_class(code, class, ierror)
    EXPECT(class, MPI_ERR_TYPE, 'class of a null datatype')
    EXPECT(comm_calls, 3, 'calls after MPI_ERRORS_RETURN')
    call MPI_Comm_get_errhandler(comm, same, ierror)
    CHECK(same == MPI_ERRORS_RETURN, 'a predefined handler')
  end subroutine

  subroutine of_windows
    MPI_WIN_T :: win
    call MPI_Win_create(buffer, 16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, comm, win, ierror)
    call MPI_Win_create_errhandler(on_win, handler, ierror)
    call MPI_Win_set_errhandler(win, handler, ierror)
    call MPI_Win_lock(MPI_LOCK_SHARED, test_size + 5, 0, win, code)
    EXPECT(win_calls, 1, 'calls of the handler of a window')
    EXPECT(last_code, code, 'code that the handler of a window sees')
    CHECK(last_win == win, 'window that the handler sees')
    call MPI_Win_call_errhandler(win, MPI_ERR_WIN, ierror)
    EXPECT(win_calls, 2, 'calls after MPI_Win_call_errhandler')
    call MPI_Win_get_errhandler(win, same, ierror)
    CHECK(same == handler, 'MPI_Win_get_errhandler')
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Win_free(win, ierror)
  end subroutine

  ! A file that cannot be opened has the handler of MPI_FILE_NULL, which returns by default.
  subroutine of_files
    MPI_FILE_T :: file
    call MPI_File_open(MPI_COMM_SELF, '/no such folder/file', MPI_MODE_RDONLY, MPI_INFO_NULL, &
      file, code)
    call MPI_Error_class(code, class, ierror)
    EXPECT(class, MPI_ERR_NO_SUCH_FILE, 'class of a file that is not there')
    call MPI_File_create_errhandler(on_file, handler, ierror)
    call MPI_File_set_errhandler(MPI_FILE_NULL, handler, ierror)
    call MPI_File_open(MPI_COMM_SELF, '/no such folder/file', MPI_MODE_RDONLY, MPI_INFO_NULL, &
      file, code)
    EXPECT(file_calls, 1, 'calls of the handler of files')
    EXPECT(last_code, code, 'code that the handler of files sees')
    call MPI_File_get_errhandler(MPI_FILE_NULL, same, ierror)
    CHECK(same == handler, 'MPI_File_get_errhandler')
    call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN, ierror)
    call MPI_Errhandler_free(handler, ierror)
  end subroutine

  ! Strings of the exact length, of more and of less; blanks behind the text.
  subroutine strings
    character(len=MPI_MAX_ERROR_STRING) :: text
    character(len=MPI_MAX_ERROR_STRING + 20) :: longer
    integer :: length, length_longer
    text = repeat('#', len(text))
    call MPI_Error_string(MPI_ERR_RANK, text, length, ierror)
    CHECK(length > 0 .and. length <= len(text), 'length of the string of an error')
    EXPECT(len_trim(text), length, 'string of an error without its blanks')
    CHECK(index(text, '#') == 0 .and. index(text, achar(0)) == 0, 'blanks after the string of an error')
    longer = repeat('#', len(longer))
    call MPI_Error_string(MPI_ERR_RANK, longer, length_longer, ierror)
    EXPECT(length_longer, length, 'length in a longer string')
    ! The calls know only of MPI_MAX_ERROR_STRING characters.
    CHECK(longer(:len(text)) == text, 'a longer string')
  end subroutine

  subroutine own_codes
    integer :: new_class, new_code, length
    integer(MPI_ADDRESS_KIND) :: last
    logical :: flag
    character(len=MPI_MAX_ERROR_STRING) :: text
    call MPI_Add_error_class(new_class, ierror)
    call MPI_Add_error_code(new_class, new_code, ierror)
    ! Blanks at the end are not part of the string.
    call MPI_Add_error_string(new_code, 'the pump has stopped   ', ierror)
    call MPI_Error_class(new_code, class, ierror)
    EXPECT(class, new_class, 'class of a new code')
    call MPI_Error_string(new_code, text, length, ierror)
    CHECK(text == 'the pump has stopped', 'string of a new code')
    EXPECT(length, 20, 'length of the string of a new code')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, last, flag, ierror)
    CHECK(flag .and. last >= new_code, 'MPI_LASTUSEDCODE')
  end subroutine
end program
