! One instance of the tests over sections: of the element type ELEMENT and of RANK dimensions, in a
! module INSTANCE. The family of calls that it makes is chosen by SECTIONS_*.
module INSTANCE
#include "use_mpi.h"
  use test
  use elements
  use, intrinsic :: iso_c_binding, only: c_ptr
  implicit none
#include "mpi_header.h"
  private
  public :: run

contains

  ! One round: draws arrays and a section of each from `own`, and all that the ranks have to agree
  ! on from `common`.
  subroutine run(own, common)
    type(stream), intent(inout) :: own, common
    ELEMENT, allocatable :: send(COLONS), receive(COLONS), untouched(COLONS)
    logical, allocatable :: outside(COLONS)
    integer :: extents(RANK, 2), triplets(3, RANK, 2), room
    MPI_DATATYPE_T :: basic
    integer :: i
    do i = 1, 2
      call draw_shape(own, extents(:, i))
      call draw_section(own, extents(:, i), triplets(:, :, i))
    end do
    associate (x => extents, t => triplets(:, :, 1), u => triplets(:, :, 2))
      allocate (send ALLOCATED(x, 1), receive ALLOCATED(x, 2))
      send = reshape(MAKE([(500000 + i, i = 1, size(send))]), shape(send))
      receive = reshape(MAKE([(600000 + i, i = 1, size(receive))]), shape(receive))
      room = min(size(send SECTION(t)), size(receive SECTION(u)))
      call MPI_Allreduce(room, i, 1, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, ierror)
      room = i
      basic = TYPE_OF()
      call exercise(send SECTION(t), receive SECTION(u), common, room, basic)
      FREE_BASIC(basic)
      allocate (outside ALLOCATED(x, 1), source=.true.)
      outside SECTION(t) = .false.
      untouched = reshape(MAKE([(500000 + i, i = 1, size(send))]), shape(send))
      CHECK(all(send == untouched .or. .not. outside), 'wrote outside of the section that is sent')
      deallocate (outside)
      allocate (outside ALLOCATED(x, 2), source=.true.)
      outside SECTION(u) = .false.
      untouched = reshape(MAKE([(600000 + i, i = 1, size(receive))]), shape(receive))
      CHECK(all(receive == untouched .or. .not. outside), 'wrote outside of the section that receives')
    end associate
  end subroutine

  ! Calls with the sections `s` (sends) and `r` (receives), with copies `ps` and `pr` of their
  ! elements in array order, and with copies alone, into `expected`: what `r` and `pr` must be
  ! after the call.
  subroutine exercise(s, r, common, room, basic)
    ELEMENT, intent(inout) ASYNC :: s(COLONS), r(COLONS)
    type(stream), intent(inout) :: common
    integer, intent(in) :: room
    MPI_DATATYPE_T, intent(in) :: basic
    ELEMENT, allocatable ASYNC :: ps(:), pr(:), expected(:)
    type(drawn_type) :: t
    ! How many of `t` fit at most, and how many a call moves; its peers.
    integer :: most, n, to, from
    character(len=200) :: what
    ! Of the call that is tested, and of the one at its other end.
    MPI_REQUEST_T :: request, other
    MPI_MESSAGE_T :: message
    DECLARE_STATUS(status)
#if defined(SECTIONS_COLL)
    integer :: root, block_length
    integer, dimension(test_size) :: out_counts, in_counts, to_root, from_root, places, &
      byte_places, counts
    MPI_DATATYPE_T, allocatable :: types(:)
#elif defined(SECTIONS_MOVES)
    ELEMENT, allocatable ASYNC :: memory(:)
    MPI_WIN_T :: win
    MPI_FILE_T :: file
#endif
    to = mod(test_rank + 1, test_size)
    from = mod(test_rank + test_size - 1, test_size)
    t = draw_type(common, basic)
    most = t%fits(room)
    allocate (ps(size(s)), pr(size(r)), expected(size(r)))
    write (what, '(4a, i0, 3a, i0)') trim(test_context), ' ', INSTANCE_NAME, ' of ', &
      room, ' elements, ', trim(t%name), ', at most ', most
    test_context = trim(what) // ':'
    call exercise_family
    call t%free

  contains

    subroutine reset
      integer :: i
      ps = MAKE([(1000 * (test_rank + 1) + i, i = 1, size(s))])
      pr = MAKE([(100000 + i, i = 1, size(r))])
      expected = pr
      s = reshape(ps, shape(s))
      r = reshape(pr, shape(r))
    end subroutine

    subroutine compare(what)
      character(len=*), intent(in) :: what
      call compare_sent(what)
      call compare_received(what)
    end subroutine

    subroutine compare_sent(what)
      character(len=*), intent(in) :: what
      if (.not. all(reshape(s, [size(s)]) == ps)) call wrong(what, 'the section that is sent', &
        count(.not. reshape(s, [size(s)]) == ps))
      if (.not. all(pr == expected)) call wrong(what, 'what arrives from the section', &
        count(.not. pr == expected))
    end subroutine

    subroutine compare_received(what)
      character(len=*), intent(in) :: what
      if (.not. all(reshape(r, [size(r)]) == expected)) call wrong(what, &
        'the section that receives', &
        count(.not. reshape(r, [size(r)]) == expected))
    end subroutine

    subroutine wrong(what, place, elements)
      character(len=*), intent(in) :: what, place
      integer, intent(in) :: elements
      character(len=200) :: text
      write (text, '(4a, i0, a)') what, ': ', place, ' has ', elements, ' wrong elements'
      call test_fail(text, __FILE__, __LINE__)
    end subroutine
#if defined(SECTIONS_PT2PT)
#include "sections_pt2pt.h"
#elif defined(SECTIONS_COLL)
#include "sections_coll.h"
#elif defined(SECTIONS_MOVES)
#include "sections_moves.h"
#include "sections_files.h"
#endif
  end subroutine
end module
#undef INSTANCE
#undef INSTANCE_NAME
#undef RANK
#undef COLONS
#undef SECTION
#undef ALLOCATED
