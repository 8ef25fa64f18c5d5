! Collective operations. PASSES makes a call three times: with two sections, with a section and
! contiguous memory, and with contiguous memory alone. SEND, RECEIVE and LAST stand for the
! arguments after the buffers; the nonblocking and the persistent form have more of them.
#define PASSES(f) call reset; call f(s, SEND, r, RECEIVE, LAST, ierror); \
  call f(s, SEND, pr, RECEIVE, LAST, ierror); call f(ps, SEND, expected, RECEIVE, LAST, ierror)
#define IPASSES(f) call reset; call f(s, SEND, r, RECEIVE, LAST, request, ierror); WAIT; \
  call f(s, SEND, pr, RECEIVE, LAST, request, ierror); WAIT; \
  call f(ps, SEND, expected, RECEIVE, LAST, request, ierror); WAIT
#define PASSES_INIT(f) call reset; call f(s, SEND, r, RECEIVE, LAST, MPI_INFO_NULL, request, ierror); RUN; \
  call f(s, SEND, pr, RECEIVE, LAST, MPI_INFO_NULL, request, ierror); RUN; \
  call f(ps, SEND, expected, RECEIVE, LAST, MPI_INFO_NULL, request, ierror); RUN
! Reductions: the receive buffer has no count of its own.
#define REDUCES(f) call reset; call f(s, r, SEND, LAST, ierror); \
  call f(s, pr, SEND, LAST, ierror); call f(ps, expected, SEND, LAST, ierror)
#define IREDUCES(f) call reset; call f(s, r, SEND, LAST, request, ierror); WAIT; \
  call f(s, pr, SEND, LAST, request, ierror); WAIT; call f(ps, expected, SEND, LAST, request, ierror); WAIT
#define REDUCES_INIT(f) call reset; call f(s, r, SEND, LAST, MPI_INFO_NULL, request, ierror); RUN; \
  call f(s, pr, SEND, LAST, MPI_INFO_NULL, request, ierror); RUN; \
  call f(ps, expected, SEND, LAST, MPI_INFO_NULL, request, ierror); RUN
#define WAIT call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
#define RUN call run_twice
#define WORLD MPI_COMM_WORLD

    subroutine exercise_family
      integer :: i
      ! Blocks of one rank, of all of them, and lists of blocks whose lengths differ.
      block_length = draw(common, most / test_size / 2, most / test_size)
      root = draw(common, 0, test_size - 1)
      call draw_lists
      n = draw(common, most / 2, most)
      call calls_blocking
      if (MPI_SUBARRAYS_SUPPORTED) then
        call calls_nonblocking
        call calls_persistent
      end if
#ifdef NUMERIC
      if (t%name /= 'basic') return
      counts = [(block_length - mod(i, 2) * (block_length / 2), i = 1, test_size)]
      call reductions_blocking
      if (MPI_SUBARRAYS_SUPPORTED) then
        call reductions_nonblocking
        call reductions_persistent
      end if
#endif
    end subroutine

    ! What each rank sends to each: block_length or half of it, by sender and receiver.
    subroutine draw_lists
      integer :: i
      out_counts = [(length_of(test_rank, i), i = 0, test_size - 1)]
      in_counts = [(length_of(i, test_rank), i = 0, test_size - 1)]
      from_root = [(length_of(root, i), i = 0, test_size - 1)]
      to_root = [(length_of(i, root), i = 0, test_size - 1)]
      places = [(i * block_length, i = test_size - 1, 0, -1)]
      byte_places = places * extent_of(t)
      allocate (types(test_size), source=t%handle)
    end subroutine

    integer function length_of(sender, receiver)
      integer, intent(in) :: sender, receiver
      length_of = block_length - mod(sender + 2 * receiver, 3) * (block_length / 3)
    end function

    integer function extent_of(drawn)
      type(drawn_type), intent(in) :: drawn
      integer(MPI_ADDRESS_KIND) :: lb, extent
      call MPI_Type_get_extent(drawn%handle, lb, extent, ierror)
      extent_of = int(extent)
    end function

    ! Starts a persistent operation twice.
    subroutine run_twice
      call MPI_Start(request, ierror)
      WAIT
      call MPI_Start(request, ierror)
      WAIT
      call MPI_Request_free(request, ierror)
    end subroutine

    subroutine calls_blocking
      call reset
      call renumber
      call MPI_Bcast(r, n, t%handle, root, WORLD, ierror)
      call MPI_Bcast(expected, n, t%handle, root, WORLD, ierror)
      call compare_received('MPI_Bcast')
#define SEND block_length, t%handle
#define RECEIVE block_length, t%handle
#define LAST WORLD
      PASSES(MPI_Allgather)
      call compare('MPI_Allgather')
      PASSES(MPI_Alltoall)
      call compare('MPI_Alltoall')
#undef LAST
#define LAST root, WORLD
      PASSES(MPI_Gather)
      call compare('MPI_Gather')
      PASSES(MPI_Scatter)
      call compare('MPI_Scatter')
#undef RECEIVE
#define RECEIVE to_root, places, t%handle
#undef SEND
#define SEND to_root(test_rank + 1), t%handle
      PASSES(MPI_Gatherv)
      call compare('MPI_Gatherv')
#undef SEND
#define SEND from_root, places, t%handle
#undef RECEIVE
#define RECEIVE from_root(test_rank + 1), t%handle
      PASSES(MPI_Scatterv)
      call compare('MPI_Scatterv')
#undef LAST
#define LAST WORLD
#undef SEND
#define SEND to_root(test_rank + 1), t%handle
#undef RECEIVE
#define RECEIVE to_root, places, t%handle
      PASSES(MPI_Allgatherv)
      call compare('MPI_Allgatherv')
#undef SEND
#define SEND out_counts, places, t%handle
#undef RECEIVE
#define RECEIVE in_counts, places, t%handle
      PASSES(MPI_Alltoallv)
      call compare('MPI_Alltoallv')
#undef SEND
#define SEND out_counts, byte_places, types
#undef RECEIVE
#define RECEIVE in_counts, byte_places, types
      PASSES(MPI_Alltoallw)
      call compare('MPI_Alltoallw')
#undef SEND
#undef RECEIVE
#undef LAST
    end subroutine

    subroutine calls_nonblocking
      call reset
      call renumber
      call MPI_Ibcast(r, n, t%handle, root, WORLD, request, ierror)
      WAIT
      call MPI_Ibcast(expected, n, t%handle, root, WORLD, request, ierror)
      WAIT
      call compare_received('MPI_Ibcast')
#define SEND block_length, t%handle
#define RECEIVE block_length, t%handle
#define LAST WORLD
      IPASSES(MPI_Iallgather)
      call compare('MPI_Iallgather')
      IPASSES(MPI_Ialltoall)
      call compare('MPI_Ialltoall')
#undef LAST
#define LAST root, WORLD
      IPASSES(MPI_Igather)
      call compare('MPI_Igather')
      IPASSES(MPI_Iscatter)
      call compare('MPI_Iscatter')
#undef RECEIVE
#define RECEIVE to_root, places, t%handle
#undef SEND
#define SEND to_root(test_rank + 1), t%handle
      IPASSES(MPI_Igatherv)
      call compare('MPI_Igatherv')
#undef SEND
#define SEND from_root, places, t%handle
#undef RECEIVE
#define RECEIVE from_root(test_rank + 1), t%handle
      IPASSES(MPI_Iscatterv)
      call compare('MPI_Iscatterv')
#undef LAST
#define LAST WORLD
#undef SEND
#define SEND to_root(test_rank + 1), t%handle
#undef RECEIVE
#define RECEIVE to_root, places, t%handle
      IPASSES(MPI_Iallgatherv)
      call compare('MPI_Iallgatherv')
#undef SEND
#define SEND out_counts, places, t%handle
#undef RECEIVE
#define RECEIVE in_counts, places, t%handle
      IPASSES(MPI_Ialltoallv)
      call compare('MPI_Ialltoallv')
#undef SEND
#define SEND out_counts, byte_places, types
#undef RECEIVE
#define RECEIVE in_counts, byte_places, types
      IPASSES(MPI_Ialltoallw)
      call compare('MPI_Ialltoallw')
#undef SEND
#undef RECEIVE
#undef LAST
    end subroutine

    subroutine calls_persistent
      call reset
      call renumber
      call MPI_Bcast_init(r, n, t%handle, root, WORLD, MPI_INFO_NULL, request, ierror)
      RUN
      call MPI_Bcast_init(expected, n, t%handle, root, WORLD, MPI_INFO_NULL, request, ierror)
      RUN
      call compare_received('MPI_Bcast_init')
#define SEND block_length, t%handle
#define RECEIVE block_length, t%handle
#define LAST WORLD
      PASSES_INIT(MPI_Allgather_init)
      call compare('MPI_Allgather_init')
      PASSES_INIT(MPI_Alltoall_init)
      call compare('MPI_Alltoall_init')
#undef LAST
#define LAST root, WORLD
      PASSES_INIT(MPI_Gather_init)
      call compare('MPI_Gather_init')
      PASSES_INIT(MPI_Scatter_init)
      call compare('MPI_Scatter_init')
#undef RECEIVE
#define RECEIVE to_root, places, t%handle
#undef SEND
#define SEND to_root(test_rank + 1), t%handle
      PASSES_INIT(MPI_Gatherv_init)
      call compare('MPI_Gatherv_init')
#undef SEND
#define SEND from_root, places, t%handle
#undef RECEIVE
#define RECEIVE from_root(test_rank + 1), t%handle
      PASSES_INIT(MPI_Scatterv_init)
      call compare('MPI_Scatterv_init')
#undef LAST
#define LAST WORLD
#undef SEND
#define SEND to_root(test_rank + 1), t%handle
#undef RECEIVE
#define RECEIVE to_root, places, t%handle
      PASSES_INIT(MPI_Allgatherv_init)
      call compare('MPI_Allgatherv_init')
#undef SEND
#define SEND out_counts, places, t%handle
#undef RECEIVE
#define RECEIVE in_counts, places, t%handle
      PASSES_INIT(MPI_Alltoallv_init)
      call compare('MPI_Alltoallv_init')
#undef SEND
#define SEND out_counts, byte_places, types
#undef RECEIVE
#define RECEIVE in_counts, byte_places, types
      PASSES_INIT(MPI_Alltoallw_init)
      call compare('MPI_Alltoallw_init')
#undef SEND
#undef RECEIVE
#undef LAST
    end subroutine

#ifdef NUMERIC
    subroutine reductions_blocking
#define SEND n, t%handle
#define LAST MPI_SUM, WORLD
      REDUCES(MPI_Allreduce)
      call compare('MPI_Allreduce')
      REDUCES(MPI_Scan)
      call compare('MPI_Scan')
      REDUCES(MPI_Exscan)
      if (test_rank > 0) call compare('MPI_Exscan')
#undef LAST
#define LAST MPI_SUM, root, WORLD
      REDUCES(MPI_Reduce)
      call compare('MPI_Reduce')
#undef LAST
#define LAST MPI_SUM, WORLD
#undef SEND
#define SEND counts, t%handle
      REDUCES(MPI_Reduce_scatter)
      call compare('MPI_Reduce_scatter')
#undef SEND
#define SEND block_length, t%handle
      REDUCES(MPI_Reduce_scatter_block)
      call compare('MPI_Reduce_scatter_block')
      call reset
      call MPI_Reduce_local(s, r, n, t%handle, MPI_SUM, ierror)
      call MPI_Reduce_local(s, pr, n, t%handle, MPI_SUM, ierror)
      call MPI_Reduce_local(ps, expected, n, t%handle, MPI_SUM, ierror)
      call compare('MPI_Reduce_local')
#undef SEND
#undef LAST
    end subroutine

    subroutine reductions_nonblocking
#define SEND n, t%handle
#define LAST MPI_SUM, WORLD
      IREDUCES(MPI_Iallreduce)
      call compare('MPI_Iallreduce')
      IREDUCES(MPI_Iscan)
      call compare('MPI_Iscan')
      IREDUCES(MPI_Iexscan)
      if (test_rank > 0) call compare('MPI_Iexscan')
#undef LAST
#define LAST MPI_SUM, root, WORLD
      IREDUCES(MPI_Ireduce)
      call compare('MPI_Ireduce')
#undef LAST
#define LAST MPI_SUM, WORLD
#undef SEND
#define SEND counts, t%handle
      IREDUCES(MPI_Ireduce_scatter)
      call compare('MPI_Ireduce_scatter')
#undef SEND
#define SEND block_length, t%handle
      IREDUCES(MPI_Ireduce_scatter_block)
      call compare('MPI_Ireduce_scatter_block')
#undef SEND
#undef LAST
    end subroutine

    subroutine reductions_persistent
#define SEND n, t%handle
#define LAST MPI_SUM, WORLD
      REDUCES_INIT(MPI_Allreduce_init)
      call compare('MPI_Allreduce_init')
      REDUCES_INIT(MPI_Scan_init)
      call compare('MPI_Scan_init')
      REDUCES_INIT(MPI_Exscan_init)
      if (test_rank > 0) call compare('MPI_Exscan_init')
#undef LAST
#define LAST MPI_SUM, root, WORLD
      REDUCES_INIT(MPI_Reduce_init)
      call compare('MPI_Reduce_init')
#undef LAST
#define LAST MPI_SUM, WORLD
#undef SEND
#define SEND counts, t%handle
      REDUCES_INIT(MPI_Reduce_scatter_init)
      call compare('MPI_Reduce_scatter_init')
#undef SEND
#define SEND block_length, t%handle
      REDUCES_INIT(MPI_Reduce_scatter_block_init)
      call compare('MPI_Reduce_scatter_block_init')
#undef SEND
#undef LAST
    end subroutine
#endif

    ! Gives each rank other elements in the buffers that a broadcast overwrites.
    subroutine renumber
      integer :: i
      expected = MAKE([(1000 * test_rank + i, i = 1, size(r))])
      r = reshape(expected, shape(r))
    end subroutine
