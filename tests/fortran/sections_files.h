    ! Each rank has its own region of a common file, with its elements in the file without holes.
    subroutine files
      character(len=200) :: name
      integer(MPI_OFFSET_KIND) :: region
      integer :: bytes
      call MPI_Type_size(t%handle, bytes, ierror)
      region = int(bytes, MPI_OFFSET_KIND) * most
      name = test_file_name()
      ! An error of a file would only be returned.
      call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL, ierror)
      call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR + &
        MPI_MODE_DELETE_ON_CLOSE, &
        MPI_INFO_NULL, file, ierror)
      call MPI_File_set_view(file, test_rank * region, MPI_BYTE, MPI_BYTE, 'native', &
        MPI_INFO_NULL, ierror)
#define WRITTEN n, t%handle, MPI_STATUS_IGNORE
#define PLACE 0_MPI_OFFSET_KIND,
      WRITES(MPI_File_write_at)
      call compare_sent('MPI_File_write_at')
      WRITES(MPI_File_write_at_all)
      call compare_sent('MPI_File_write_at_all')
      READS(MPI_File_read_at)
      call compare_received('MPI_File_read_at')
      READS(MPI_File_read_at_all)
      call compare_received('MPI_File_read_at_all')
#undef PLACE
#define PLACE
      WRITES(MPI_File_write)
      call compare_sent('MPI_File_write')
      WRITES(MPI_File_write_all)
      call compare_sent('MPI_File_write_all')
      READS(MPI_File_read)
      call compare_received('MPI_File_read')
      READS(MPI_File_read_all)
      call compare_received('MPI_File_read_all')
#undef WRITTEN
#undef PLACE
      if (MPI_SUBARRAYS_SUPPORTED) call files_nonblocking
      call MPI_File_close(file, ierror)
    end subroutine

    subroutine files_nonblocking
#define IWRITES(f) call reset; call f(file, PLACE s, ORIGIN, request, ierror); WAIT; call file_to(pr); \
  call f(file, PLACE ps, ORIGIN, request, ierror); WAIT; call file_to(expected)
#define IREADS(f) call reset; call copy_to_file; call f(file, PLACE r, ORIGIN, request, ierror); WAIT; \
  call rewind_file; call f(file, PLACE expected, ORIGIN, request, ierror); WAIT; call rewind_file
#define PLACE 0_MPI_OFFSET_KIND,
      IWRITES(MPI_File_iwrite_at)
      call compare_sent('MPI_File_iwrite_at')
      IWRITES(MPI_File_iwrite_at_all)
      call compare_sent('MPI_File_iwrite_at_all')
      IREADS(MPI_File_iread_at)
      call compare_received('MPI_File_iread_at')
      IREADS(MPI_File_iread_at_all)
      call compare_received('MPI_File_iread_at_all')
#undef PLACE
#define PLACE
      IWRITES(MPI_File_iwrite)
      call compare_sent('MPI_File_iwrite')
      IREADS(MPI_File_iread)
      call compare_received('MPI_File_iread')
#undef PLACE
      call reset
      call MPI_File_write_at_all_begin(file, 0_MPI_OFFSET_KIND, s, ORIGIN, ierror)
      call MPI_File_write_at_all_end(file, s, MPI_STATUS_IGNORE, ierror)
      call file_to(pr)
      call MPI_File_write_at_all(file, 0_MPI_OFFSET_KIND, ps, ORIGIN, MPI_STATUS_IGNORE, ierror)
      call file_to(expected)
      call compare_sent('MPI_File_write_at_all_begin')
      call reset
      call copy_to_file
      call MPI_File_read_all_begin(file, r, ORIGIN, ierror)
      call MPI_File_read_all_end(file, r, MPI_STATUS_IGNORE, ierror)
      call rewind_file
      call MPI_File_read_all(file, expected, ORIGIN, MPI_STATUS_IGNORE, ierror)
      call rewind_file
      call compare_received('MPI_File_read_all_begin')
    end subroutine

    subroutine rewind_file
      call MPI_File_seek(file, 0_MPI_OFFSET_KIND, MPI_SEEK_SET, ierror)
    end subroutine

    subroutine copy_to_file
      call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, ps, most, t%handle, MPI_STATUS_IGNORE, &
        ierror)
    end subroutine

    ! Reads what was written, and writes something else in its place.
    subroutine file_to(buffer)
      ELEMENT, intent(inout), contiguous :: buffer(:)
      ELEMENT, allocatable :: other(:)
      call MPI_File_read_at(file, 0_MPI_OFFSET_KIND, buffer, n, t%handle, MPI_STATUS_IGNORE, &
        ierror)
      other = buffer(size(buffer):1:-1)
      call MPI_File_write_at(file, 0_MPI_OFFSET_KIND, other, n, t%handle, MPI_STATUS_IGNORE, &
        ierror)
      call rewind_file
    end subroutine
