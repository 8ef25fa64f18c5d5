! Info objects: blanks around keys and values do not count, blanks inside do; long values, short
! variables, and lists of keys.
#include "test.h"
program info
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  MPI_INFO_T :: one, two
  character(len=MPI_MAX_INFO_KEY) :: key
  character(len=MPI_MAX_INFO_VAL) :: value
  character(len=300) :: long
  character(len=4) :: short
  logical :: flag
  integer :: n, length, i
  call test_init
  call MPI_Info_create(one, ierror)
  call MPI_Info_set(one, '  colour ', '  light green  ', ierror)
  call MPI_Info_set(one, 'size', '12', ierror)
  call MPI_Info_set(one, 'size', '13', ierror)
  call MPI_Info_get_nkeys(one, n, ierror)
  EXPECT(n, 2, 'number of keys')
  value = repeat('#', len(value))
  call MPI_Info_get(one, 'colour', 40, value, flag, ierror)
  CHECK(flag, 'a key that was set')
  ! The calls know only of the characters that they are told of.
  CHECK(value(:40) == 'light green', 'a value with a blank inside')
  call MPI_Info_get(one, ' colour   ', 40, value, flag, ierror)
  CHECK(flag, 'a key with blanks around')
  call MPI_Info_get(one, 'shape', 40, value, flag, ierror)
  CHECK(.not. flag, 'a key that was not set')
  call MPI_Info_get_valuelen(one, 'colour', length, flag, ierror)
  CHECK(flag, 'a key that was set')
  EXPECT(length, 11, 'length of a value')
  ! Less than the value has.
  short = '####'
  call MPI_Info_get(one, 'colour', 4, short, flag, ierror)
  CHECK(flag .and. short == 'ligh', 'the start of a value')

  do i = 1, len(long)
    long(i:i) = achar(97 + mod(i, 26))
  end do
  call MPI_Info_set(one, 'long', long, ierror)
  call MPI_Info_get_valuelen(one, 'long', length, flag, ierror)
  EXPECT(length, 300, 'length of a long value')
  value = ''
  call MPI_Info_get(one, 'long', 300, value, flag, ierror)
  CHECK(flag .and. value == long, 'a long value')
  ! The length includes no place for an end, as strings of Fortran have none.
  length = len(value)
  value = repeat('#', len(value))
  call MPI_Info_get_string(one, 'size', length, value, flag, ierror)
  CHECK(flag .and. value == '13', 'MPI_Info_get_string')
  EXPECT(length, 2, 'length by MPI_Info_get_string')
  length = 5
  short = '####'
  call MPI_Info_get_string(one, 'colour', length, value, flag, ierror)
  CHECK(flag .and. value(:5) == 'light', 'the start by MPI_Info_get_string')
  EXPECT(length, 11, 'length that a value needs')
  length = 0
  value = '####'
  call MPI_Info_get_string(one, 'colour', length, value, flag, ierror)
  EXPECT(length, 11, 'length of a value that was not asked for')
  CHECK(value == '####', 'a value that was not asked for')

  call MPI_Info_dup(one, two, ierror)
  do i = 0, 2
    key = repeat('#', len(key))
    call MPI_Info_get_nthkey(two, i, key, ierror)
    CHECK(any(key == [character(6) :: 'colour', 'size', 'long']), 'a key in the list')
  end do
  call MPI_Info_delete(two, 'size ', ierror)
  call MPI_Info_get_nkeys(two, n, ierror)
  EXPECT(n, 2, 'number of keys after one was deleted')
  call MPI_Info_free(one, ierror)
  CHECK(one == MPI_INFO_NULL, 'handle after MPI_Info_free')
  call MPI_Info_free(two, ierror)
  call MPI_Info_get(MPI_INFO_ENV, 'command', 100, value, flag, ierror)
  call names
  call test_finish

contains

  ! Other strings that MPI gives.
  subroutine names
    character(len=MPI_MAX_PROCESSOR_NAME) :: processor
    character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: library
    character(len=MPI_MAX_OBJECT_NAME) :: name
    MPI_COMM_T :: comm
    integer :: version, subversion
    processor = repeat('#', len(processor))
    call MPI_Get_processor_name(processor, length, ierror)
    CHECK(length > 0 .and. len_trim(processor) == length, 'MPI_Get_processor_name')
    library = repeat('#', len(library))
    call MPI_Get_library_version(library, length, ierror)
    CHECK(length > 0 .and. library(length + 1:) == '', 'MPI_Get_library_version')
    call MPI_Get_version(version, subversion, ierror)
    EXPECT(version, MPI_VERSION, 'version')
    EXPECT(subversion, MPI_SUBVERSION, 'subversion')
    call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, ierror)
    CHECK(name == 'MPI_COMM_WORLD', 'name of MPI_COMM_WORLD')
    EXPECT(length, 14, 'length of a name')
    call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
    call MPI_Comm_get_name(comm, name, length, ierror)
    EXPECT(length, 0, 'length of no name')
    CHECK(name == '', 'no name')
    call MPI_Comm_set_name(comm, '  a name  ', ierror)
    call MPI_Comm_get_name(comm, name, length, ierror)
    CHECK(name == '  a name', 'blanks in front of a name stay')
    call MPI_Comm_free(comm, ierror)
  end subroutine
end program
