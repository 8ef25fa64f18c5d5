! Packing, one-sided communication, files and neighbourhood collectives. The calls have one buffer
! each: what it sends comes from `s` or `ps`, what it receives goes to `r` and `expected`.
#define WAIT call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
#define ORIGIN n, t%handle
#define TARGET to, 0_MPI_ADDRESS_KIND, n, t%handle
#define TARGET_FROM from, 0_MPI_ADDRESS_KIND, n, t%handle
! A call that fills the window of the next rank.
#define PUTS(f, tail) call reset; call empty_window; call f(s, ORIGIN, TARGET, tail, ierror); call window_to(pr); \
  call empty_window; call f(ps, ORIGIN, TARGET, tail, ierror); call window_to(expected)
#define RPUTS(f, tail) call reset; call empty_window; call f(s, ORIGIN, TARGET, tail, request, ierror); WAIT; \
  call window_to(pr); call empty_window; call f(ps, ORIGIN, TARGET, tail, request, ierror); WAIT; call window_to(expected)
! A write call at this rank's place in the file; the arguments after the buffer are WRITTEN.
#define WRITES(f) call reset; call f(file, PLACE s, WRITTEN, ierror); call file_to(pr); \
  call f(file, PLACE ps, WRITTEN, ierror); call file_to(expected)
#define READS(f) call reset; call copy_to_file; call f(file, PLACE r, WRITTEN, ierror); call rewind_file; \
  call f(file, PLACE expected, WRITTEN, ierror); call rewind_file

    subroutine exercise_family
      n = draw(common, most / 2, most)
      call packs
      call neighbours
      call one_sided
      call files
    end subroutine

    ! Packed data in contiguous memory; the section packs or unpacks.
    subroutine packs
      character, allocatable :: bytes(:), same(:)
      integer :: length, position, place
      integer(MPI_ADDRESS_KIND) :: length_external, at, at_same
      call reset
      call MPI_Pack_size(n, t%handle, MPI_COMM_WORLD, length, ierror)
      allocate (bytes(length), same(length))
      position = 0
      call MPI_Pack(s, n, t%handle, bytes, length, position, MPI_COMM_WORLD, ierror)
      place = 0
      call MPI_Pack(ps, n, t%handle, same, length, place, MPI_COMM_WORLD, ierror)
      EXPECT(position, place, 'position after MPI_Pack')
      CHECK(all(bytes(:place) == same(:place)), 'MPI_Pack of a section')
      position = 0
      call MPI_Unpack(same, length, position, r, n, t%handle, MPI_COMM_WORLD, ierror)
      EXPECT(position, place, 'position after MPI_Unpack')
      position = 0
      call MPI_Unpack(same, length, position, expected, n, t%handle, MPI_COMM_WORLD, ierror)
      call compare_received('MPI_Unpack')
      deallocate (bytes, same)
      call reset
      ! Other types than these have no external size: MPI_BYTE is one byte in it.
      call MPI_Pack_external_size('external32', n, t%handle, length_external, ierror)
      allocate (bytes(length_external), same(length_external))
      at = 0
      call MPI_Pack_external('external32', s, n, t%handle, bytes, length_external, at, ierror)
      at_same = 0
      call MPI_Pack_external('external32', ps, n, t%handle, same, length_external, at_same, ierror)
      EXPECT(at, at_same, 'position after MPI_Pack_external')
      CHECK(all(bytes(:at_same) == same(:at_same)), 'MPI_Pack_external of a section')
      at = 0
      call MPI_Unpack_external('external32', same, length_external, at, r, n, t%handle, ierror)
      EXPECT(at, at_same, 'position after MPI_Unpack_external')
      at = 0
      call MPI_Unpack_external('external32', same, length_external, at, expected, n, t%handle, &
        ierror)
      call compare_received('MPI_Unpack_external')
    end subroutine

    ! On a ring: each rank has two neighbours, which are the same one on two ranks.
    subroutine neighbours
      MPI_COMM_T :: ring
      integer :: block_length
      call MPI_Cart_create(MPI_COMM_WORLD, 1, [test_size], [.true.], .false., ring, ierror)
      block_length = most / 2
      call reset
      call MPI_Neighbor_alltoall(s, block_length, t%handle, r, block_length, t%handle, ring, &
        ierror)
      call MPI_Neighbor_alltoall(s, block_length, t%handle, pr, block_length, t%handle, ring, &
        ierror)
      call MPI_Neighbor_alltoall(ps, block_length, t%handle, expected, block_length, t%handle, &
        ring, ierror)
      call compare('MPI_Neighbor_alltoall')
      call reset
      call MPI_Neighbor_allgather(s, block_length, t%handle, r, block_length, t%handle, ring, &
        ierror)
      call MPI_Neighbor_allgather(s, block_length, t%handle, pr, block_length, t%handle, ring, &
        ierror)
      call MPI_Neighbor_allgather(ps, block_length, t%handle, expected, block_length, t%handle, &
        ring, ierror)
      call compare('MPI_Neighbor_allgather')
      if (MPI_SUBARRAYS_SUPPORTED) then
        call reset
        call MPI_Ineighbor_alltoallv(s, [1, 1] * block_length, [1, 0] * block_length, t%handle, &
          r, &
          [1, 1] * block_length, [0, 1] * block_length, t%handle, ring, request, ierror)
        WAIT
        call MPI_Ineighbor_alltoallv(s, [1, 1] * block_length, [1, 0] * block_length, t%handle, &
          pr, &
          [1, 1] * block_length, [0, 1] * block_length, t%handle, ring, request, ierror)
        WAIT
        call MPI_Ineighbor_alltoallv(ps, [1, 1] * block_length, [1, 0] * block_length, t%handle, &
          expected, [1, 1] * block_length, [0, 1] * block_length, t%handle, ring, request, ierror)
        WAIT
        call compare('MPI_Ineighbor_alltoallv')
      end if
      call MPI_Comm_free(ring, ierror)
    end subroutine

    subroutine one_sided
      integer(MPI_ADDRESS_KIND) :: lb, extent
      call MPI_Type_get_extent(basic, lb, extent, ierror)
      allocate (memory(max(room, 1)))
      call MPI_Win_create(memory, extent * room, int(extent), MPI_INFO_NULL, MPI_COMM_WORLD, &
        win, ierror)
      ! In an epoch each: without sections the compiler copies what it passes, so that only a call
      ! that returns when all is done, with MPI_Win_flush before the copy goes, could be tested.
      if (MPI_SUBARRAYS_SUPPORTED) then
        call MPI_Win_lock_all(0, win, ierror)
        PUTS(MPI_Put, win)
        call compare_sent('MPI_Put')
        RPUTS(MPI_Rput, win)
        call compare_sent('MPI_Rput')
        call gets
#ifdef NUMERIC
        if (t%parts == 1) then
          call accumulates
        end if
#endif
        call MPI_Win_unlock_all(win, ierror)
      end if
      call MPI_Win_free(win, ierror)
    end subroutine

    subroutine gets
      call reset
      call copy_to_window
      call MPI_Get(r, ORIGIN, TARGET_FROM, win, ierror)
      call MPI_Win_flush(from, win, ierror)
      call MPI_Get(expected, ORIGIN, TARGET_FROM, win, ierror)
      call MPI_Win_flush(from, win, ierror)
      call compare_received('MPI_Get')
      call reset
      call copy_to_window
      call MPI_Rget(r, ORIGIN, TARGET_FROM, win, request, ierror)
      WAIT
      call MPI_Rget(expected, ORIGIN, TARGET_FROM, win, request, ierror)
      WAIT
      call compare_received('MPI_Rget')
    end subroutine

#ifdef NUMERIC
    subroutine accumulates
#define SUM MPI_SUM, win
      PUTS(MPI_Accumulate, SUM)
      call compare_sent('MPI_Accumulate')
      RPUTS(MPI_Raccumulate, SUM)
      call compare_sent('MPI_Raccumulate')
#undef SUM
      call reset
      call copy_to_window
      call MPI_Get_accumulate(s, ORIGIN, r, ORIGIN, TARGET_FROM, MPI_REPLACE, win, ierror)
      call MPI_Win_flush(from, win, ierror)
      call window_to(pr)
      call copy_to_window
      call MPI_Get_accumulate(ps, ORIGIN, expected, ORIGIN, TARGET_FROM, MPI_REPLACE, win, ierror)
      call MPI_Win_flush(from, win, ierror)
      call compare_received('result of MPI_Get_accumulate')
      call window_to(expected)
      call compare_sent('MPI_Get_accumulate')
    end subroutine
#endif

    subroutine empty_window
      integer :: i
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
      memory = MAKE([(700 + i, i = 1, size(memory))])
      call MPI_Win_sync(win, ierror)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
    end subroutine

    subroutine copy_to_window
      call empty_window
      memory(:room) = ps(:room)
      call MPI_Win_sync(win, ierror)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
    end subroutine

    ! What the previous rank has put.
    subroutine window_to(buffer)
      ELEMENT, intent(inout) :: buffer(:)
      call MPI_Win_flush_all(win, ierror)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
      call MPI_Win_sync(win, ierror)
      buffer(:room) = memory(:room)
      call MPI_Barrier(MPI_COMM_WORLD, ierror)
    end subroutine
