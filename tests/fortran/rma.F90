! One-sided communication: fence, locks, post and start; put, get, accumulate and atomics; windows
! that MPI allocates, by C pointer or by address, shared ones, and dynamic ones.
#include "test.h"
program rma
#include "use_mpi.h"
  use test
  use, intrinsic :: iso_c_binding
  implicit none
#include "mpi_header.h"
  integer, parameter :: n = 8
  integer ASYNC :: memory(n), values(n), old(n)
  MPI_WIN_T :: win
  integer :: to, from, i
  integer(MPI_ADDRESS_KIND), parameter :: bytes = 4 * n, none = 0
  call test_init
  to = mod(test_rank + 1, test_size)
  from = mod(test_rank + test_size - 1, test_size)
  call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
  call fences
  call locks
  call atomics
  call posts
  call MPI_Win_free(win, ierror)
  CHECK(win == MPI_WIN_NULL, 'handle after MPI_Win_free')
  call allocated
  call shared
  call dynamic
  call test_finish

contains

  subroutine fences
    memory = 0
    values = [(100 * test_rank + i, i = 1, n)]
    call MPI_Win_fence(MPI_MODE_NOPRECEDE, win, ierror)
    call MPI_Put(values, 4, MPI_INTEGER, to, 2_MPI_ADDRESS_KIND, 4, MPI_INTEGER, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    CHECK(all(memory == [0, 0, 100 * from + 1, 100 * from + 2, 100 * from + 3, 100 * from + 4, 0, 0]), 'MPI_Put')
    call MPI_Get(old, 3, MPI_INTEGER, to, 2_MPI_ADDRESS_KIND, 3, MPI_INTEGER, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    CHECK(all(old(:3) == [1, 2, 3] + 100 * test_rank), 'MPI_Get')
    call MPI_Accumulate(values, 2, MPI_INTEGER, 0, 0_MPI_ADDRESS_KIND, 2, MPI_INTEGER, MPI_SUM, &
      win, ierror)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierror)
    if (test_rank == 0) then
      EXPECT(memory(1), sum([(100 * i + 1, i = 0, test_size - 1)]), 'MPI_Accumulate')
      EXPECT(memory(2), sum([(100 * i + 2, i = 0, test_size - 1)]), 'MPI_Accumulate')
    end if
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine

  subroutine locks
    MPI_REQUEST_T :: request
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, win, ierror)
    memory = test_rank
    call MPI_Win_unlock(test_rank, win, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win, ierror)
    call MPI_Put([7], 1, MPI_INTEGER, to, none, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_flush(to, win, ierror)
    values = -1
    call MPI_Get(values, n, MPI_INTEGER, to, none, n, MPI_INTEGER, win, ierror)
    call MPI_Win_unlock(to, win, ierror)
    CHECK(all(values == [7, (to, i = 2, n)]), 'MPI_Get under a lock')
    call MPI_Win_lock_all(0, win, ierror)
    values = -1
    call MPI_Rget(values, n, MPI_INTEGER, from, none, n, MPI_INTEGER, win, request, ierror)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
    CHECK(all(values(2:) == from), 'MPI_Rget')
    call MPI_Win_flush_local_all(win, ierror)
    call MPI_Win_unlock_all(win, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine

  subroutine atomics
    integer ASYNC :: mine, before
    call MPI_Win_lock_all(0, win, ierror)
    memory = 0
    call MPI_Win_sync(win, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    mine = 1
    do i = 1, 10
      call MPI_Fetch_and_op(mine, before, MPI_INTEGER, 0, 1_MPI_ADDRESS_KIND, MPI_SUM, win, ierror)
      call MPI_Win_flush(0, win, ierror)
      CHECK(before >= i - 1 .and. before < 10 * test_size, 'MPI_Fetch_and_op')
    end do
    values = 2
    call MPI_Get_accumulate(values, 2, MPI_INTEGER, old, 2, MPI_INTEGER, to, 4_MPI_ADDRESS_KIND, &
      2, &
      MPI_INTEGER, MPI_REPLACE, win, ierror)
    call MPI_Win_flush(to, win, ierror)
    CHECK(all(old(:2) == 0), 'MPI_Get_accumulate')
    mine = 5
    values(1) = 2
    call MPI_Compare_and_swap(mine, values, before, MPI_INTEGER, to, 4_MPI_ADDRESS_KIND, win, &
      ierror)
    call MPI_Win_flush(to, win, ierror)
    EXPECT(before, 2, 'MPI_Compare_and_swap')
    call MPI_Win_unlock_all(win, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, win, ierror)
    EXPECT(memory(5), 5, 'value that was swapped')
    EXPECT(memory(6), 2, 'value that was replaced')
    if (test_rank == 0) then
      EXPECT(memory(2), 10 * test_size, 'sum by MPI_Fetch_and_op')
    end if
    call MPI_Win_unlock(test_rank, win, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end subroutine

  subroutine posts
    MPI_GROUP_T :: world, sources, targets
    logical :: flag
    call MPI_Comm_group(MPI_COMM_WORLD, world, ierror)
    call MPI_Group_incl(world, 1, [from], sources, ierror)
    call MPI_Group_incl(world, 1, [to], targets, ierror)
    memory = 0
    call MPI_Win_post(sources, 0, win, ierror)
    call MPI_Win_start(targets, 0, win, ierror)
    call MPI_Put(values, 0, MPI_INTEGER, to, none, 0, MPI_INTEGER, win, ierror)
    values = test_rank
    call MPI_Put(values, n, MPI_INTEGER, to, none, n, MPI_INTEGER, win, ierror)
    call MPI_Win_complete(win, ierror)
    flag = .false.
    do while (.not. flag)
      call MPI_Win_test(win, flag, ierror)
    end do
    CHECK(all(memory == from), 'MPI_Put between MPI_Win_start and MPI_Win_complete')
    call MPI_Group_free(world, ierror)
    call MPI_Group_free(sources, ierror)
    call MPI_Group_free(targets, ierror)
  end subroutine

  ! Memory that MPI gives. The style mpif.h has an address, and the program a pointer to it all the
  ! same; the other styles have both.
  subroutine allocated
    double precision, pointer :: a(:)
    double precision ASYNC :: x(3)
    type(c_ptr) :: base
    integer(MPI_ADDRESS_KIND) :: address
#ifdef STYLE_MPIF_H
    call MPI_Win_allocate(80_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, address, win, &
      ierror)
    base = transfer(address, base)
#else
    call MPI_Win_allocate(80_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierror)
#endif
    call c_f_pointer(base, a, [10])
    a = [(test_rank + i / 4d0, i = 1, 10)]
    call MPI_Win_fence(0, win, ierror)
    call MPI_Get(x, 3, MPI_DOUBLE_PRECISION, to, 7_MPI_ADDRESS_KIND, 3, MPI_DOUBLE_PRECISION, &
      win, ierror)
    call MPI_Win_fence(0, win, ierror)
    CHECK(all(x == [(to + i / 4d0, i = 8, 10)]), 'MPI_Get from memory of MPI_Win_allocate')
    call MPI_Win_free(win, ierror)
#ifdef STYLE_MPIF_H
    call MPI_Alloc_mem(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, address, ierror)
    base = transfer(address, base)
#else
    call MPI_Alloc_mem(80_MPI_ADDRESS_KIND, MPI_INFO_NULL, base, ierror)
#endif
    call c_f_pointer(base, a, [10])
    a = test_rank
    call MPI_Allreduce(MPI_IN_PLACE, a, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(all(a == test_size * (test_size - 1) / 2), 'memory of MPI_Alloc_mem')
    call MPI_Free_mem(a, ierror)
  end subroutine

  subroutine shared
    MPI_COMM_T :: node
    integer :: node_rank, node_size, unit, next
    integer, pointer :: mine(:), theirs(:, :)
    integer(MPI_ADDRESS_KIND) :: length
    type(c_ptr) :: base
#ifdef STYLE_MPIF_H
    integer(MPI_ADDRESS_KIND) :: address
#endif
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node, ierror)
    call MPI_Comm_rank(node, node_rank, ierror)
    call MPI_Comm_size(node, node_size, ierror)
    next = mod(node_rank + 1, node_size)
#ifdef STYLE_MPIF_H
    call MPI_Win_allocate_shared(48_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, node, address, win, ierror)
    base = transfer(address, base)
#else
    call MPI_Win_allocate_shared(48_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, node, base, win, ierror)
#endif
    call c_f_pointer(base, mine, [12])
    call MPI_Win_fence(0, win, ierror)
    mine = [(1000 * node_rank + i, i = 1, 12)]
    call MPI_Win_fence(0, win, ierror)
    length = -1
#ifdef STYLE_MPIF_H
    call MPI_Win_shared_query(win, next, length, unit, address, ierror)
    base = transfer(address, base)
#else
    call MPI_Win_shared_query(win, next, length, unit, base, ierror)
#endif
    EXPECT(length, 48, 'length by MPI_Win_shared_query')
    EXPECT(unit, 4, 'unit by MPI_Win_shared_query')
    call c_f_pointer(base, theirs, [4, 3])
    CHECK(all(theirs == reshape([(1000 * next + i, i = 1, 12)], [4, 3])), 'memory of another rank')
    call MPI_Win_fence(0, win, ierror)
    theirs(2, 2) = -test_rank - 1
    call MPI_Win_fence(0, win, ierror)
    CHECK(mine(6) < 0, 'what another rank has written')
    call MPI_Win_free(win, ierror)
    call MPI_Comm_free(node, ierror)
  end subroutine

  ! Displacements in a dynamic window are addresses of the target.
  subroutine dynamic
    integer, allocatable, target ASYNC :: part(:)
    integer(MPI_ADDRESS_KIND) :: mine, theirs
    allocate (part(6), source=0)
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_attach(win, part, 24_MPI_ADDRESS_KIND, ierror)
    call MPI_Get_address(part(3), mine, ierror)
    call MPI_Sendrecv(mine, 1, MPI_AINT, from, 1, theirs, 1, MPI_AINT, to, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierror)
    values = test_rank + 1
    call MPI_Win_fence(0, win, ierror)
    call MPI_Put(values, 2, MPI_INTEGER, to, MPI_Aint_add(theirs, 4_MPI_ADDRESS_KIND), 2, &
      MPI_INTEGER, win, &
      ierror)
    call MPI_Win_fence(0, win, ierror)
    CHECK(all(part == [0, 0, 0, from + 1, from + 1, 0]), 'MPI_Put into a dynamic window')
    EXPECT(MPI_Aint_diff(MPI_Aint_add(mine, 12_MPI_ADDRESS_KIND), mine), 12, 'MPI_Aint_diff')
    call MPI_Win_detach(win, part, ierror)
    call MPI_Win_free(win, ierror)
  end subroutine
end program
