! What sections_*.F90 share: elements of six types that are made from numbers, the datatypes over
! them, and random sections.
module elements
#include "use_mpi.h"
  use, intrinsic :: iso_fortran_env, only: real64
  use test
  implicit none
#include "mpi_header.h"
  private
  public :: operator(==), draw_type, draw_section, draw_shape
  public :: make_integer, make_real, make_double, make_complex, make_text, make_thing
  public :: integer_type, real_type, double_type, complex_type, text_type, thing_type

  integer, parameter, public :: text_length = 5
  ! Has a hole in front of its second component and one at its end.
  type, public :: thing
    integer :: number = 0
    real(real64) :: half = 0
    character(len=3) :: text = ''
  end type
  interface operator(==)
    module procedure same_thing
  end interface

  ! A datatype over elements, and how many of it fit into a number of elements.
  type, public :: drawn_type
    MPI_DATATYPE_T :: handle
    character(len=12) :: name = ''
    ! Elements from one to the next, and from the first of one to the end of its last.
    integer :: extent = 1, true_extent = 1
    ! How many make an element: more than one for MPI_BYTE and MPI_CHARACTER.
    integer :: parts = 1
    logical :: predefined = .false.
  contains
    procedure :: fits
    procedure :: free => free_type
  end type

contains

  elemental integer function make_integer(number)
    integer, intent(in) :: number
    make_integer = number
  end function

  elemental real function make_real(number)
    integer, intent(in) :: number
    make_real = real(number)
  end function

  elemental real(real64) function make_double(number)
    integer, intent(in) :: number
    make_double = real(number, real64)
  end function

  elemental complex function make_complex(number)
    integer, intent(in) :: number
    make_complex = cmplx(number, -2 * number)
  end function

  elemental character(len=text_length) function make_text(number)
    integer, intent(in) :: number
    integer :: i, rest
    rest = number
    do i = 1, text_length
      make_text(i:i) = achar(iachar('a') + mod(rest, 16))
      rest = rest / 16
    end do
  end function

  elemental type(thing) function make_thing(number)
    integer, intent(in) :: number
    make_thing = thing(number, number / 2.0_real64, make_text(number))
  end function

  elemental logical function same_thing(one, other)
    type(thing), intent(in) :: one, other
    same_thing = one%number == other%number .and. one%half == other%half .and. &
      one%text == other%text
  end function

  ! How many fit into `room` elements.
  integer function fits(self, room)
    class(drawn_type), intent(in) :: self
    integer, intent(in) :: room
    fits = 0
    if (room >= self%true_extent) fits = 1 + (room - self%true_extent) / self%extent
    if (self%parts > 1) fits = room * self%parts
  end function

  subroutine free_type(self)
    class(drawn_type), intent(inout) :: self
    if (.not. self%predefined) call MPI_Type_free(self%handle, ierror)
  end subroutine

  MPI_DATATYPE_T function integer_type()
    integer_type = MPI_INTEGER
  end function

  MPI_DATATYPE_T function real_type()
    real_type = MPI_REAL
  end function

  MPI_DATATYPE_T function double_type()
    double_type = MPI_DOUBLE_PRECISION
  end function

  MPI_DATATYPE_T function complex_type()
    complex_type = MPI_COMPLEX
  end function

  MPI_DATATYPE_T function text_type()
    call MPI_Type_contiguous(text_length, MPI_CHARACTER, text_type, ierror)
    call MPI_Type_commit(text_type, ierror)
  end function

  MPI_DATATYPE_T function thing_type()
    type(thing), target :: two(2)
    integer(MPI_ADDRESS_KIND) :: place(3), start, next
    MPI_DATATYPE_T :: types(3), parts
    call MPI_Get_address(two(1), start, ierror)
    call MPI_Get_address(two(2), next, ierror)
    call MPI_Get_address(two(1)%number, place(1), ierror)
    call MPI_Get_address(two(1)%half, place(2), ierror)
    call MPI_Get_address(two(1)%text, place(3), ierror)
    types = [MPI_INTEGER, MPI_DOUBLE_PRECISION, MPI_CHARACTER]
    call MPI_Type_create_struct(3, [1, 1, 3], place - start, types, parts, ierror)
    call MPI_Type_create_resized(parts, 0_MPI_ADDRESS_KIND, next - start, thing_type, ierror)
    call MPI_Type_commit(thing_type, ierror)
    call MPI_Type_free(parts, ierror)
  end function

  ! The same one on each rank that draws from an equal stream.
  function draw_type(from, element) result(drawn)
    type(stream), intent(inout) :: from
    MPI_DATATYPE_T, intent(in) :: element
    type(drawn_type) :: drawn
    integer :: blocks, length, step, k, bytes
    integer(MPI_ADDRESS_KIND) :: lb, size
    integer(MPI_ADDRESS_KIND) :: places(3)
    MPI_DATATYPE_T :: types(3), parts
    select case (draw(from, 0, 5))
    case (0, 1)
      drawn = drawn_type(element, 'basic', predefined=.true.)
      return
    case (2)
      if (element == MPI_INTEGER) then
        call MPI_Type_size(element, bytes, ierror)
        drawn = drawn_type(MPI_BYTE, 'byte', parts=bytes, predefined=.true.)
      else
        ! A part of an element cannot be compared in the other types.
        drawn = drawn_type(element, 'basic', predefined=.true.)
      end if
      return
    case (3)
      k = draw(from, 2, 4)
      drawn = drawn_type(element, 'contiguous', k, k)
      call MPI_Type_contiguous(k, element, drawn%handle, ierror)
    case (4)
      blocks = draw(from, 1, 3)
      length = draw(from, 1, 2)
      step = length + draw(from, 0, 2)
      k = (blocks - 1) * step + length
      drawn = drawn_type(element, 'vector', k, k)
      call MPI_Type_vector(blocks, length, step, element, drawn%handle, ierror)
    case default
      ! Three blocks, the second one behind the third, a hole in front of each and behind all.
      call MPI_Type_get_extent(element, lb, size, ierror)
      k = draw(from, 0, 1)
      places = [0 + k, 4 + k, 2 + k] * size
      types = element
      drawn = drawn_type(element, 'struct', 7, 6 + k)
      call MPI_Type_create_struct(3, [1, 2, 1], places, types, parts, ierror)
      call MPI_Type_create_resized(parts, 0_MPI_ADDRESS_KIND, 7 * size, drawn%handle, ierror)
      call MPI_Type_free(parts, ierror)
    end select
    call MPI_Type_commit(drawn%handle, ierror)
  end function

  ! The extents of an array that is not too large.
  subroutine draw_shape(from, extents)
    type(stream), intent(inout) :: from
    integer, intent(out) :: extents(:)
    integer, parameter :: largest(7) = [60, 12, 7, 5, 4, 3, 3]
    integer :: i
    do i = 1, size(extents)
      extents(i) = draw(from, 1, largest(size(extents)))
    end do
  end subroutine

  ! First, last and stride of a section in each dimension: whole, one element, a part, strides of
  ! both signs, and rarely none.
  subroutine draw_section(from, extents, triplets)
    type(stream), intent(inout) :: from
    integer, intent(in) :: extents(:)
    integer, intent(out) :: triplets(:, :)
    integer :: i, n, low, high
    do i = 1, size(extents)
      n = extents(i)
      low = draw(from, 1, n)
      high = draw(from, low, n)
      select case (draw(from, 0, 24))
      case (0:6)
        triplets(:, i) = [1, n, 1]
      case (7)
        triplets(:, i) = [low, low, 1]
      case (8)
        triplets(:, i) = [1, n, 2]
        if (draw(from, 0, 3) == 0) triplets(:, i) = [high, high - 1, 1]
      case (9:11)
        triplets(:, i) = [low, high, 1]
      case (12:14)
        triplets(:, i) = [n, 1, -1]
      case (15:18)
        triplets(:, i) = [high, low, -draw(from, 1, 3)]
      case default
        triplets(:, i) = [low, n, draw(from, 2, 3)]
      end select
    end do
  end subroutine
end module
