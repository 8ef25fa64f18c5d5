! Files: views of interleaved blocks, collective and single access, shared and individual pointers,
! sizes and offsets beyond 32 bits, status counts. The file is in TMPDIR or /tmp.
#include "test.h"
program files
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  integer, parameter :: n = 12
  MPI_FILE_T :: file
  DECLARE_STATUS(status)
  integer ASYNC :: values(n), got(n)
  integer(MPI_OFFSET_KIND) :: offset, length
  character(len=200) :: name
  integer :: i, count
  call test_init
  ! An error of a file would only be returned.
  call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL, ierror)
  name = test_file_name()
  values = [(1000 * test_rank + i, i = 1, n)]
  call views
  call pointers
  call nonblocking
  call far_away
  call descriptions
  call test_finish

contains

  ! The blanks behind a name do not count.
  subroutine open_file
    call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR + &
      MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierror)
  end subroutine

  ! Each rank has three integers of each stripe.
  subroutine views
    MPI_DATATYPE_T :: stripe, etype, filetype
    integer(MPI_OFFSET_KIND) :: disp
    character(len=MPI_MAX_DATAREP_STRING) :: datarep
    integer :: all_values(n * test_size)
    call open_file
    call MPI_Type_create_subarray(1, [3 * test_size], [3], [3 * test_rank], MPI_ORDER_FORTRAN, &
      MPI_INTEGER, &
      stripe, ierror)
    call MPI_Type_commit(stripe, ierror)
    call MPI_File_set_view(file, 8_MPI_OFFSET_KIND, MPI_INTEGER, stripe, 'native', &
      MPI_INFO_NULL, ierror)
    call MPI_File_write_at_all(file, 0_MPI_OFFSET_KIND, values, n, MPI_INTEGER, status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    EXPECT(count, n, 'count of a write')
    got = -1
    call MPI_File_read_at(file, 3_MPI_OFFSET_KIND, got, n - 3, MPI_INTEGER, status, ierror)
    CHECK(all(got(:n - 3) == values(4:)), 'a read in the view')
    datarep = '#'
    call MPI_File_get_view(file, disp, etype, filetype, datarep, ierror)
    EXPECT(disp, 8, 'start of the view')
    CHECK(datarep == 'native', 'data representation')
    call MPI_File_get_byte_offset(file, 4_MPI_OFFSET_KIND, offset, ierror)
    EXPECT(offset, 8 + 4 * (3 * test_size + 3 * test_rank + 1), 'MPI_File_get_byte_offset')
    call MPI_File_set_view(file, 8_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', &
      MPI_INFO_NULL, ierror)
    call MPI_File_read_all(file, all_values, n * test_size, MPI_INTEGER, status, ierror)
    do i = 0, n * test_size - 1
      if (all_values(i + 1) /= 1000 * mod(i / 3, test_size) + i / (3 * test_size) * 3 + mod(i, &
        3) + 1) exit
    end do
    EXPECT(i, n * test_size, 'the first wrong integer of the file')
    call MPI_File_get_size(file, length, ierror)
    EXPECT(length, 8 + 4 * n * test_size, 'size of the file')
    ! Less than was asked for.
    call MPI_File_read_at(file, int(n * test_size - 2, MPI_OFFSET_KIND), got, n, MPI_INTEGER, &
      status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    EXPECT(count, 2, 'count at the end of the file')
    call MPI_File_close(file, ierror)
    CHECK(file == MPI_FILE_NULL, 'handle after MPI_File_close')
    call MPI_Type_free(stripe, ierror)
  end subroutine

  subroutine pointers
    integer :: seen(test_size), whose
    call open_file
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', &
      MPI_INFO_NULL, ierror)
    call MPI_File_seek(file, int(n * test_rank, MPI_OFFSET_KIND), MPI_SEEK_SET, ierror)
    call MPI_File_write(file, values, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    call MPI_File_get_position(file, offset, ierror)
    EXPECT(offset, n * (test_rank + 1), 'position after a write')
    call MPI_File_seek(file, -5_MPI_OFFSET_KIND, MPI_SEEK_CUR, ierror)
    call MPI_File_read(file, got, 5, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    CHECK(all(got(:5) == values(n - 4:)), 'the last five of a rank')
    call MPI_File_sync(file, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_File_sync(file, ierror)
    ! In the order of the ranks, then in any.
    call MPI_File_read_ordered(file, got, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    CHECK(all(got == values), 'MPI_File_read_ordered')
    call MPI_File_seek_shared(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, ierror)
    call MPI_File_read_shared(file, got, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    whose = got(1) / 1000
    CHECK(all(got == [(1000 * whose + i, i = 1, n)]), 'MPI_File_read_shared')
    call MPI_Allgather(whose, 1, MPI_INTEGER, seen, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    EXPECT(sum(seen), test_size * (test_size - 1) / 2, 'parts by MPI_File_read_shared')
    call MPI_File_get_position_shared(file, offset, ierror)
    EXPECT(offset, n * test_size, 'the shared position')
    call MPI_File_close(file, ierror)
  end subroutine

  subroutine nonblocking
    MPI_REQUEST_T :: requests(2)
    call open_file
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_INTEGER, MPI_INTEGER, 'native', &
      MPI_INFO_NULL, ierror)
    call MPI_File_iwrite_at(file, int(n * test_rank, MPI_OFFSET_KIND), values, 6, MPI_INTEGER, &
      requests(1), ierror)
    call MPI_File_iwrite_at(file, int(n * test_rank + 6, MPI_OFFSET_KIND), values(7), 6, &
      MPI_INTEGER, requests(2), &
      ierror)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
    got = -1
    call MPI_File_iread_at(file, int(n * test_rank, MPI_OFFSET_KIND), got, n, MPI_INTEGER, &
      requests(1), ierror)
    call MPI_Wait(requests(1), status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    EXPECT(count, n, 'count of a nonblocking read')
    CHECK(all(got == values), 'a nonblocking read')
    call MPI_File_write_at_all_begin(file, int(n * test_rank, MPI_OFFSET_KIND), got, n, &
      MPI_INTEGER, ierror)
    call MPI_File_write_at_all_end(file, got, MPI_STATUS_IGNORE, ierror)
    call MPI_File_read_at_all_begin(file, int(n * test_rank, MPI_OFFSET_KIND), got, n, &
      MPI_INTEGER, ierror)
    call MPI_File_read_at_all_end(file, got, status, ierror)
    CHECK(all(got == values), 'a split collective read')
    call MPI_File_close(file, ierror)
  end subroutine

  ! A file with a hole of six gigabytes.
  subroutine far_away
    call open_file
    offset = 6000000000_MPI_OFFSET_KIND + 100 * test_rank
    call MPI_File_write_at(file, offset, values, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    got = -1
    call MPI_File_read_at(file, offset, got, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierror)
    CHECK(all(got == values), 'beyond six gigabytes')
    call MPI_File_sync(file, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_File_get_size(file, length, ierror)
    EXPECT(length, 6000000000_int64 + 100 * (test_size - 1) + 4 * n, 'size of a large file')
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_File_set_size(file, 10_MPI_OFFSET_KIND, ierror)
    call MPI_File_get_size(file, length, ierror)
    EXPECT(length, 10, 'size after MPI_File_set_size')
    call MPI_File_close(file, ierror)
  end subroutine

  subroutine descriptions
    logical :: flag
    integer :: amode
    MPI_INFO_T :: hints
    MPI_GROUP_T :: group
    call open_file
    call MPI_File_get_amode(file, amode, ierror)
    EXPECT(amode, MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, 'MPI_File_get_amode')
    call MPI_File_set_atomicity(file, .true., ierror)
    call MPI_File_get_atomicity(file, flag, ierror)
    CHECK(flag, 'MPI_File_get_atomicity')
    call MPI_File_get_info(file, hints, ierror)
    CHECK(hints /= MPI_INFO_NULL, 'MPI_File_get_info')
    call MPI_Info_free(hints, ierror)
    call MPI_File_get_group(file, group, ierror)
    call MPI_Group_size(group, i, ierror)
    EXPECT(i, test_size, 'size of the group of a file')
    call MPI_Group_free(group, ierror)
    call MPI_File_close(file, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    inquire (file=trim(name), exist=flag)
    CHECK(.not. flag, 'a file that its close deletes')
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    if (test_rank == 0) then
      open (unit=11, file=trim(name))
      close (11)
      call MPI_File_delete(name, MPI_INFO_NULL, ierror)
      inquire (file=trim(name), exist=flag)
      CHECK(.not. flag, 'MPI_File_delete')
    end if
  end subroutine
end program
