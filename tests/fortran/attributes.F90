! Attributes of communicators, datatypes and windows: predefined ones, callbacks of the program,
! those that MPI has, and the old calls of MPI-1 whose values are default integers.
#include "test.h"
module callbacks
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  private
  public :: comm_copy, comm_delete, comm_keep, comm_refuse, type_copy, type_delete, win_delete, &
    win_copy
  integer(MPI_ADDRESS_KIND), parameter, public :: extra = 1234567890123_MPI_ADDRESS_KIND
  integer, public :: copies = 0, deletes = 0
  integer(MPI_ADDRESS_KIND), public :: deleted = 0
  MPI_COMM_T, public :: old_comm
  MPI_DATATYPE_T, public :: old_type
#ifndef STYLE_F08
  public :: old_copy, old_delete
#endif
contains
  subroutine comm_copy(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, &
    flag, ierror)
    MPI_COMM_T :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    CHECK(oldcomm == old_comm, 'communicator that a copy callback sees')
    CHECK(comm_keyval /= MPI_KEYVAL_INVALID, 'keyval that a copy callback sees')
    EXPECT(extra_state, extra, 'extra state that a copy callback sees')
    copies = copies + 1
    attribute_val_out = attribute_val_in + 1
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine comm_keep(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, &
    flag, ierror)
    MPI_COMM_T :: oldcomm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    copies = copies + 100
    flag = .false.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine comm_delete(comm, comm_keyval, attribute_val, extra_state, ierror)
    MPI_COMM_T :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    EXPECT(extra_state, extra, 'extra state that a delete callback sees')
    deletes = deletes + 1
    deleted = attribute_val
    ierror = MPI_SUCCESS
  end subroutine

  subroutine comm_refuse(comm, comm_keyval, attribute_val, extra_state, ierror)
    MPI_COMM_T :: comm
    integer :: comm_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    ierror = merge(MPI_ERR_OTHER, MPI_SUCCESS, deletes == 0)
    deletes = deletes + 1
  end subroutine

  subroutine type_copy(oldtype, type_keyval, extra_state, attribute_val_in, attribute_val_out, &
    flag, ierror)
    MPI_DATATYPE_T :: oldtype
    integer :: type_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    CHECK(oldtype == old_type, 'datatype that a copy callback sees')
    EXPECT(extra_state, extra, 'extra state that a copy callback sees')
    attribute_val_out = 2 * attribute_val_in
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine type_delete(datatype, type_keyval, attribute_val, extra_state, ierror)
    MPI_DATATYPE_T :: datatype
    integer :: type_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deletes = deletes + 1
    deleted = attribute_val
    ierror = MPI_SUCCESS
  end subroutine

  ! Never called: windows are not duplicated.
  subroutine win_copy(oldwin, win_keyval, extra_state, attribute_val_in, attribute_val_out, &
    flag, ierror)
    MPI_WIN_T :: oldwin
    integer :: win_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    flag = .false.
    ierror = MPI_ERR_INTERN
  end subroutine

  subroutine win_delete(win, win_keyval, attribute_val, extra_state, ierror)
    MPI_WIN_T :: win
    integer :: win_keyval, ierror
    integer(MPI_ADDRESS_KIND) :: attribute_val, extra_state
    deletes = deletes + 1
    deleted = attribute_val
    ierror = MPI_SUCCESS
  end subroutine

#ifndef STYLE_F08
  subroutine old_copy(comm, keyval, extra_state, value_in, value_out, flag, ierror)
    integer :: comm, keyval, extra_state, value_in, value_out, ierror
    logical :: flag
    EXPECT(extra_state, -5, 'extra state that a callback of MPI-1 sees')
    copies = copies + 1
    value_out = value_in - 1
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine old_delete(comm, keyval, value, extra_state, ierror)
    integer :: comm, keyval, value, extra_state, ierror
    deletes = deletes + 1
    deleted = value
    ierror = MPI_SUCCESS
  end subroutine
#endif
end module

program attributes
#include "use_mpi.h"
  use test
  use callbacks, only: comm_copy, comm_delete, comm_keep, comm_refuse, type_copy, type_delete, &
    win_delete, win_copy, extra, copies, deletes, deleted, old_comm, old_type
#ifndef STYLE_F08
  use callbacks, only: old_copy, old_delete
#endif
  implicit none
#include "mpi_header.h"
  integer(MPI_ADDRESS_KIND) :: value
  ! Outside of the range of default integers.
  integer(MPI_ADDRESS_KIND), parameter :: large = 5000000000_MPI_ADDRESS_KIND
  logical :: flag
  call test_init
  call predefined
  call of_communicators
  call of_datatypes
  call of_windows
#ifndef STYLE_F08
  call of_mpi_1
#endif
  call test_finish

contains

  subroutine predefined
    integer :: i, sent
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
    CHECK(flag .and. value >= 32767, 'MPI_TAG_UB')
    sent = 3
    i = 0
    call MPI_Sendrecv(sent, 1, MPI_INTEGER, test_rank, int(value), i, 1, MPI_INTEGER, test_rank, &
      int(value), &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    EXPECT(i, 3, 'a message with the largest tag')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, flag, ierror)
    CHECK(flag .and. (value == 0 .or. value == 1), 'MPI_WTIME_IS_GLOBAL')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, value, flag, ierror)
    CHECK(flag, 'MPI_IO')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, value, flag, ierror)
    CHECK(.not. flag .or. value >= 1, 'MPI_UNIVERSE_SIZE')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, value, flag, ierror)
    CHECK(.not. flag .or. value >= 0, 'MPI_APPNUM')
  end subroutine

  subroutine of_communicators
    integer :: key, key_keep, key_dup, key_null, key_refuse, code
    MPI_COMM_T :: one, two
    call MPI_Comm_create_keyval(comm_copy, comm_delete, key, extra, ierror)
    call MPI_Comm_create_keyval(comm_keep, comm_delete, key_keep, extra, ierror)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key_dup, extra, ierror)
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, key_null, extra, &
      ierror)
    call MPI_Comm_dup(MPI_COMM_WORLD, one, ierror)
    old_comm = one
    call MPI_Comm_get_attr(one, key, value, flag, ierror)
    CHECK(.not. flag, 'an attribute that was not set')
    call MPI_Comm_set_attr(one, key, large, ierror)
    call MPI_Comm_set_attr(one, key_keep, large + 10, ierror)
    call MPI_Comm_set_attr(one, key_dup, -large, ierror)
    call MPI_Comm_set_attr(one, key_null, 7_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_get_attr(one, key, value, flag, ierror)
    CHECK(flag, 'an attribute that was set')
    EXPECT(value, large, 'its value')
    call MPI_Comm_dup(one, two, ierror)
    EXPECT(copies, 101, 'copy callbacks')
    call MPI_Comm_get_attr(two, key, value, flag, ierror)
    CHECK(flag, 'a copied attribute')
    EXPECT(value, large + 1, 'value of a copied attribute')
    call MPI_Comm_get_attr(two, key_keep, value, flag, ierror)
    CHECK(.not. flag, 'an attribute that a callback does not copy')
    call MPI_Comm_get_attr(two, key_dup, value, flag, ierror)
    CHECK(flag, 'an attribute copied by MPI_COMM_DUP_FN')
    EXPECT(value, -large, 'value copied by MPI_COMM_DUP_FN')
    call MPI_Comm_get_attr(two, key_null, value, flag, ierror)
    CHECK(.not. flag, 'an attribute not copied by MPI_COMM_NULL_COPY_FN')
    call MPI_Comm_set_attr(two, key, 3_MPI_ADDRESS_KIND, ierror)
    EXPECT(deletes, 1, 'delete callbacks of a value that was replaced')
    EXPECT(deleted, large + 1, 'value that was replaced')
    call MPI_Comm_delete_attr(one, key_keep, ierror)
    EXPECT(deleted, large + 10, 'value that was deleted')
    call MPI_Comm_free(two, ierror)
    EXPECT(deletes, 3, 'delete callbacks of a communicator')
    EXPECT(deleted, 3, 'value of a communicator that was freed')
    deletes = 0
    deleted = 0
    call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, comm_refuse, key_refuse, extra, ierror)
    call MPI_Comm_set_attr(one, key_refuse, 1_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN, ierror)
    call MPI_Comm_delete_attr(one, key_refuse, code)
    CHECK(code /= MPI_SUCCESS, 'a delete callback that refuses')
    call MPI_Comm_delete_attr(one, key_refuse, code)
    EXPECT(code, MPI_SUCCESS, 'a delete callback that agrees later')
    deletes = 0
    deleted = 0
    call MPI_Comm_free(one, ierror)
    EXPECT(deletes, 1, 'delete callbacks of the last communicator')
    call MPI_Comm_free_keyval(key, ierror)
    EXPECT(key, MPI_KEYVAL_INVALID, 'a keyval that was freed')
    call MPI_Comm_free_keyval(key_keep, ierror)
    call MPI_Comm_free_keyval(key_dup, ierror)
    call MPI_Comm_free_keyval(key_null, ierror)
    call MPI_Comm_free_keyval(key_refuse, ierror)
  end subroutine

  subroutine of_datatypes
    integer :: key, key_dup, key_null
    MPI_DATATYPE_T :: one, two
    call MPI_Type_create_keyval(type_copy, type_delete, key, extra, ierror)
    call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, key_dup, extra, ierror)
    call MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, key_null, extra, &
      ierror)
    call MPI_Type_contiguous(3, MPI_INTEGER, one, ierror)
    old_type = one
    call MPI_Type_set_attr(one, key, large, ierror)
    call MPI_Type_set_attr(one, key_dup, large + 2, ierror)
    call MPI_Type_set_attr(one, key_null, large + 3, ierror)
    call MPI_Type_dup(one, two, ierror)
    call MPI_Type_get_attr(two, key, value, flag, ierror)
    CHECK(flag, 'a copied attribute of a datatype')
    EXPECT(value, 2 * large, 'value of a copied attribute of a datatype')
    call MPI_Type_get_attr(two, key_dup, value, flag, ierror)
    CHECK(flag, 'an attribute copied by MPI_TYPE_DUP_FN')
    EXPECT(value, large + 2, 'value copied by MPI_TYPE_DUP_FN')
    call MPI_Type_get_attr(two, key_null, value, flag, ierror)
    CHECK(.not. flag, 'an attribute not copied by MPI_TYPE_NULL_COPY_FN')
    deletes = 0
    deleted = 0
    call MPI_Type_free(one, ierror)
    EXPECT(deleted, large, 'value of a datatype that was freed')
    call MPI_Type_delete_attr(two, key, ierror)
    EXPECT(deletes, 2, 'delete callbacks of datatypes')
    call MPI_Type_free(two, ierror)
    call MPI_Type_free_keyval(key, ierror)
    call MPI_Type_free_keyval(key_dup, ierror)
    call MPI_Type_free_keyval(key_null, ierror)
  end subroutine

  subroutine of_windows
    integer :: key, key_null
    MPI_WIN_T :: win
    integer ASYNC :: memory(10)
    integer(MPI_ADDRESS_KIND) :: base
    call MPI_Win_create(memory, 40_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Get_address(memory, base, ierror)
    call MPI_Win_get_attr(win, MPI_WIN_BASE, value, flag, ierror)
    CHECK(flag .and. value == base, 'MPI_WIN_BASE')
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag, ierror)
    CHECK(flag .and. value == 40, 'MPI_WIN_SIZE')
    call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, flag, ierror)
    CHECK(flag .and. value == 4, 'MPI_WIN_DISP_UNIT')
    call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, value, flag, ierror)
    CHECK(flag .and. value == MPI_WIN_FLAVOR_CREATE, 'MPI_WIN_CREATE_FLAVOR')
    call MPI_Win_get_attr(win, MPI_WIN_MODEL, value, flag, ierror)
    CHECK(flag .and. (value == MPI_WIN_UNIFIED .or. value == MPI_WIN_SEPARATE), 'MPI_WIN_MODEL')
    call MPI_Win_create_keyval(win_copy, win_delete, key, extra, ierror)
    call MPI_Win_create_keyval(MPI_WIN_DUP_FN, MPI_WIN_NULL_DELETE_FN, key_null, extra, ierror)
    call MPI_Win_free_keyval(key_null, ierror)
    call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, key_null, extra, &
      ierror)
    call MPI_Win_set_attr(win, key, large, ierror)
    call MPI_Win_set_attr(win, key_null, -1_MPI_ADDRESS_KIND, ierror)
    call MPI_Win_get_attr(win, key, value, flag, ierror)
    CHECK(flag .and. value == large, 'an attribute of a window')
    call MPI_Win_get_attr(win, key_null, value, flag, ierror)
    CHECK(flag .and. value == -1, 'an attribute of minus one')
    call MPI_Win_delete_attr(win, key_null, ierror)
    deletes = 0
    deleted = 0
    call MPI_Win_free(win, ierror)
    EXPECT(deletes, 1, 'delete callbacks of a window')
    EXPECT(deleted, large, 'value of a window that was freed')
    call MPI_Win_free_keyval(key, ierror)
    call MPI_Win_free_keyval(key_null, ierror)
  end subroutine

#ifndef STYLE_F08
  ! Values are default integers in the deprecated calls.
  subroutine of_mpi_1
    integer :: key, key_dup, value_1
    integer :: one, two
    call MPI_Attr_get(MPI_COMM_WORLD, MPI_TAG_UB, value_1, flag, ierror)
    CHECK(flag .and. value_1 >= 32767, 'MPI_TAG_UB by MPI_Attr_get')
    call MPI_Keyval_create(old_copy, old_delete, key, -5, ierror)
    call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key_dup, 0, ierror)
    call MPI_Comm_dup(MPI_COMM_WORLD, one, ierror)
    call MPI_Attr_put(one, key, -70, ierror)
    call MPI_Attr_put(one, key_dup, 80, ierror)
    call MPI_Attr_get(one, key, value_1, flag, ierror)
    CHECK(flag, 'an attribute by MPI_Attr_get')
    EXPECT(value_1, -70, 'a negative value of MPI-1')
    call MPI_Comm_get_attr(one, key, value, flag, ierror)
    EXPECT(value, -70, 'a negative value of MPI-1, by MPI_Comm_get_attr')
    copies = 0
    deletes = 0
    deleted = 0
    call MPI_Comm_dup(one, two, ierror)
    EXPECT(copies, 1, 'copy callbacks of MPI-1')
    call MPI_Attr_get(two, key, value_1, flag, ierror)
    EXPECT(value_1, -71, 'a value that a callback of MPI-1 copied')
    call MPI_Attr_get(two, key_dup, value_1, flag, ierror)
    CHECK(flag, 'an attribute copied by MPI_DUP_FN')
    EXPECT(value_1, 80, 'a value copied by MPI_DUP_FN')
    call MPI_Attr_delete(two, key, ierror)
    EXPECT(deleted, -71, 'a value that a callback of MPI-1 deleted')
    call MPI_Comm_free(one, ierror)
    EXPECT(deletes, 2, 'delete callbacks of MPI-1')
    call MPI_Comm_free(two, ierror)
    call MPI_Keyval_free(key, ierror)
    EXPECT(key, MPI_KEYVAL_INVALID, 'a keyval of MPI-1 that was freed')
    call MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, key, 0, ierror)
    call MPI_Keyval_free(key, ierror)
    call MPI_Keyval_free(key_dup, ierror)
  end subroutine
#endif
end program
