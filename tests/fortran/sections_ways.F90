! The ways in which a program passes an array as a buffer, and calls with array sections that other
! libraries are known to have got wrong (MPICH's issues 4170, 5880, 6909, 7098, 7932; Open MPI's
! 6569; VAPAA's 8 and 23). On MPI_COMM_SELF, apart from the collective ones.
#include "test.h"
! flang 19 does not compile procedures that have such arguments themselves; gfortran 11 changes the
! bounds of an array that one of them passes on.
#if defined(STYLE_F08) && __GNUC__ >= 12
#define ASSUMED_RANK
#endif
module ways
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  private
  public :: expects, must_be, start_send, start_receive, wait
  public :: from_assumed_shape, from_contiguous, from_assumed_size, from_explicit_shape
#ifdef ASSUMED_RANK
  public :: from_assumed_rank
#endif
  type, public :: thing
    integer :: number
    double precision :: half
    character(len=5) :: text
  end type
  integer ASYNC :: arrived(300000)
  MPI_REQUEST_T :: receive
contains
  ! Posts the receive of what the next call sends.
  subroutine expects
    arrived = -1
    call MPI_Irecv(arrived, size(arrived), MPI_INTEGER, 0, 0, MPI_COMM_SELF, receive, ierror)
  end subroutine

  subroutine must_be(want, what)
    integer, intent(in) :: want(:)
    character(len=*), intent(in) :: what
    DECLARE_STATUS(status)
    integer :: n
    character(len=100) :: text
    call MPI_Wait(receive, status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, n, ierror)
    if (n == size(want)) then
      if (all(arrived(:n) == want)) return
    end if
    write (text, '(a, i0, a, i0, a, i0, a)') ': ', n, ' elements of ', size(want), ' arrived, ', &
      count(arrived(:size(want)) /= want), ' wrong'
    call test_fail(what // text, __FILE__, __LINE__)
  end subroutine

  subroutine from_assumed_shape(a, want, what)
    integer, intent(in) :: a(:, :), want(:)
    character(len=*), intent(in) :: what
    call expects
    call MPI_Send(a, size(want), MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierror)
    call must_be(want, what)
  end subroutine

  subroutine from_contiguous(a, want, what)
    integer, contiguous, intent(in) :: a(:, :)
    integer, intent(in) :: want(:)
    character(len=*), intent(in) :: what
    call expects
    call MPI_Send(a, size(want), MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierror)
    call must_be(want, what)
  end subroutine

  subroutine from_assumed_size(a, want, what)
    integer, intent(in) :: a(4, *), want(:)
    character(len=*), intent(in) :: what
    call expects
    call MPI_Send(a, size(want), MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierror)
    call must_be(want, what)
    ! A part of it that ends in its last dimension.
    call expects
    call MPI_Send(a(2:4:2, 1:2), 4, MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierror)
    call must_be([want(2), want(4), want(6), want(8)], what // ', a section of it')
  end subroutine

  subroutine from_explicit_shape(a, n, m, want, what)
    integer, intent(in) :: n, m, want(:)
    integer, intent(in) :: a(0:n - 1, m)
    character(len=*), intent(in) :: what
    call expects
    call MPI_Send(a, size(want), MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierror)
    call must_be(want, what)
  end subroutine

#ifdef ASSUMED_RANK
  subroutine from_assumed_rank(a, want, what)
    type(*), intent(in) :: a(..)
    integer, intent(in) :: want(:)
    character(len=*), intent(in) :: what
    call expects
    call MPI_Send(a, size(want), MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierror)
    call must_be(want, what)
  end subroutine
#endif

  ! The descriptor of the section is gone when the request ends.
  subroutine start_send(a, request)
    integer ASYNC, intent(in) :: a(:, :)
    MPI_REQUEST_T, intent(out) :: request
    call MPI_Isend(a, size(a), MPI_INTEGER, 0, 0, MPI_COMM_SELF, request, ierror)
  end subroutine

  subroutine start_receive(a, request)
    integer ASYNC, intent(inout) :: a(:, :)
    MPI_REQUEST_T, intent(out) :: request
    call MPI_Irecv(a, size(a), MPI_INTEGER, 0, 0, MPI_COMM_SELF, request, ierror)
  end subroutine

  ! Where there is one request only because the call waits.
  subroutine wait(request)
    MPI_REQUEST_T, intent(inout) :: request
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  end subroutine
end module

program sections_ways
#include "use_mpi.h"
  use test
  use ways
  implicit none
#include "mpi_header.h"
#define TO_SELF MPI_INTEGER, 0, 0, MPI_COMM_SELF, ierror
#define SEND(section, n) call expects; call MPI_Send(section, n, TO_SELF)
  integer :: i
  call test_init
  call known_cases
  call kinds_of_arrays
  call parts_of_elements
  call bounds_stay
  call long_sections
  if (MPI_SUBARRAYS_SUPPORTED) call outlived_descriptors
  call collective_cases
  call test_finish

contains

  subroutine known_cases
    integer :: a(20, 3), b(30, 20), c(4, 4), d(4, 4, 4), n
    a = reshape([(i, i = 1, size(a))], shape(a))
    b = reshape([(i, i = 1, size(b))], shape(b))
    c = reshape([(i, i = 1, size(c))], shape(c))
    d = reshape([(i, i = 1, size(d))], shape(d))
    SEND(a(1:20:2, :), 30)
    call must_be(pack(a, spread(mod([(i, i = 1, 20)], 2) == 1, 2, 3)), 'a(1:20:2, :)')
    SEND(a(20:1:-2, 3:1:-1), 30)
    call must_be([a(20:1:-2, 3), a(20:1:-2, 2), a(20:1:-2, 1)], 'a(20:1:-2, 3:1:-1)')
    do n = 0, 100
      SEND(b(1:30:3, 1:20:2), n)
      call must_be(front(reshape(b(1:30:3, 1:20:2), [100]), n), 'elements of b(1:30:3, 1:20:2)')
    end do
    do n = 0, 9
      SEND(c(1:3, 1:3), n)
      call must_be(front(reshape(c(1:3, 1:3), [9]), n), 'elements of c(1:3, 1:3)')
      SEND(c(2:4, 4:1:-1), n)
      call must_be(front(reshape(c(2:4, 4:1:-1), [12]), n), 'elements of c(2:4, 4:1:-1)')
    end do
    do n = 0, 12
      SEND(d(2:3, :, 1:3:2), n)
      call must_be(front(reshape(d(2:3, :, 1:3:2), [16]), n), 'elements of d(2:3, :, 1:3:2)')
      SEND(d(:, 2, :), n)
      call must_be(front(reshape(d(:, 2, :), [16]), n), 'elements of d(:, 2, :)')
      SEND(d(3, :, 2:4), n)
      call must_be(front(reshape(d(3, :, 2:4), [12]), n), 'elements of d(3, :, 2:4)')
      SEND(d(1:4:3, 2:2, 1:3), min(n, 6))
      call must_be(front(reshape(d(1:4:3, 2:2, 1:3), [6]), min(n, 6)), &
        'elements of d(1:4:3, 2:2, 1:3)')
    end do
    SEND(a(3:2, :), 0)
    call must_be([integer ::], 'an empty section')
    SEND(a(:, 2), 20)
    call must_be(a(:, 2), 'a column')
    SEND(a(7, :), 3)
    call must_be(a(7, :), 'a row')
    ! Both buffers are interleaved parts of one array.
    call MPI_Sendrecv(a(1:20:2, 1), 10, MPI_INTEGER, 0, 1, a(2:20:2, 1), 10, MPI_INTEGER, 0, 1, &
      MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
    CHECK(all(a(2:20:2, 1) == a(1:20:2, 1)), 'between interleaved sections')
  end subroutine

  function front(a, n)
    integer, intent(in) :: a(:), n
    integer :: front(n)
    front = a(:n)
  end function

  subroutine kinds_of_arrays
    integer, allocatable, target :: a(:, :)
    integer, pointer :: p(:, :), q(:)
    integer, target :: line(24)
    integer :: whole(24), scalar
    whole = [(i, i = 1, 24)]
    line = whole
    allocate (a(0:3, -2:3))
    a = reshape(whole, [4, 6])
    SEND(a, 24)
    call must_be(whole, 'an allocatable array')
    p => a
    SEND(p, 24)
    call must_be(whole, 'a pointer')
    p => a(3:0:-1, ::2)
    SEND(p, 12)
    call must_be([4, 3, 2, 1, 12, 11, 10, 9, 20, 19, 18, 17], 'a pointer to a section')
    SEND(p(2:3, :), 6)
    call must_be([3, 2, 11, 10, 19, 18], 'a section of a pointer to a section')
    p(1:3, 1:4) => line(1:24:2)
    SEND(p, 12)
    call must_be(line(1:24:2), 'a pointer with other bounds')
    q => a(2, :)
    SEND(q, 6)
    call must_be([3, 7, 11, 15, 19, 23], 'a pointer to a row')
    call from_assumed_shape(a, whole, 'an array of assumed shape')
    call from_assumed_shape(a(1:2, :), [2, 3, 6, 7, 10, 11, 14, 15], 'a section of assumed shape')
    call from_contiguous(a(1:2, :), [2, 3, 6, 7, 10, 11, 14, 15], 'a contiguous copy of a section')
    call from_assumed_size(a, whole, 'an array of assumed size')
    call from_explicit_shape(a, 6, 4, whole, 'an array of explicit shape')
#ifdef ASSUMED_RANK
    call from_assumed_rank(a, whole, 'an array of assumed rank')
    call from_assumed_rank(a(0:3:3, :), [1, 4, 5, 8, 9, 12, 13], 'a section of assumed rank')
    call from_assumed_rank(p, line(1:24:2), 'a pointer of assumed rank')
    call from_assumed_rank(a(2, 3), [23], 'a scalar of assumed rank')
#endif
    scalar = 77
    SEND(scalar, 1)
    call must_be([77], 'a scalar')
    ! The element is where the buffer starts.
    SEND(a(0, -1), 8)
    call must_be(whole(5:12), 'an element of an array')
    SEND(line(5), 20)
    call must_be(whole(5:), 'an element of a line')
    ! Copies that the compiler makes.
    call expects
    ! In parentheses: gfortran 12 does not survive a vector subscript as an argument of assumed
    ! rank to a procedure with bind(C).
    call MPI_Send((line([5, 3, 3, 9])), 4, TO_SELF)
    call must_be([5, 3, 3, 9], 'a vector subscript')
    SEND((line(::8)), 3)
    call must_be([1, 9, 17], 'an expression in parentheses')
    SEND(line(1:3) + 100, 3)
    call must_be([101, 102, 103], 'an expression')
    call expects
    call MPI_Send([9, 8, 7], 3, TO_SELF)
    call must_be([9, 8, 7], 'an array constructor')
    deallocate (a)
    allocate (a(0, 4))
    SEND(a, 0)
    call must_be([integer ::], 'an allocatable array without elements')
  end subroutine

  ! Sections whose stride is not a multiple of what they consist of.
  subroutine parts_of_elements
    type(thing), target :: things(9)
    complex :: z(6)
    character(len=7) :: text(4), got(4)
    double precision :: halves(9)
    integer, pointer :: numbers(:)
    real :: parts(6)
    integer(1) :: bytes(9), bytes_got(3)
    logical :: flags(9), flags_got(4)
    things = [(thing(i, i / 2.0d0, repeat(achar(64 + i), 5)), i = 1, 9)]
    SEND(things%number, 9)
    call must_be([(i, i = 1, 9)], 'a component')
    SEND(things(8:2:-3)%number, 3)
    call must_be([8, 5, 2], 'a component of a section')
    numbers => things(::4)%number
    SEND(numbers, 3)
    call must_be([1, 5, 9], 'a pointer to a component')
    call swap(things(9:1:-1)%half, 9, MPI_DOUBLE_PRECISION)
    halves = things%half
    CHECK(all(halves == [(i / 2.0d0, i = 1, 9)]), 'halves that a call left alone')
    call MPI_Sendrecv(things(::2)%half, 4, MPI_DOUBLE_PRECISION, 0, 2, halves(9:1:-2), 5, &
      MPI_DOUBLE_PRECISION, 0, 2, MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
    CHECK(all(halves == [0.5d0, 1.d0, 3.5d0, 2.d0, 2.5d0, 3.d0, 1.5d0, 4.d0, 0.5d0]), 'real components')
    z = [(cmplx(i, -i), i = 1, 6)]
    call exchange(z%im, parts(6:1:-1))
    CHECK(all(parts == [(i - 7, i = 1, 6)]), 'imaginary parts')
    call exchange(parts(1:3), z(2:6:2)%re)
    CHECK(all(z == [(1, -1), (-6, -2), (3, -3), (-5, -4), (5, -5), (-4, -6)]), 'into real parts')
    text = ['abcdefg', 'ABCDEFG', '1234567', '.,-+*/ ']
    got = '#'
    call MPI_Sendrecv(text(:)(2:4), 12, MPI_CHARACTER, 0, 2, got(4:1:-1)(5:7), 12, &
      MPI_CHARACTER, 0, 2, &
      MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
    CHECK(all(got == ['#   ,-+', '#   234', '#   BCD', '#   bcd']), 'substrings')
    ! Less than a whole number of elements.
    got = '#'
    call MPI_Sendrecv(text(::2), 9, MPI_CHARACTER, 0, 2, got(4:1:-1)(1:3), 12, MPI_CHARACTER, 0, &
      2, &
      MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
    CHECK(all(got == ['#      ', 'g12    ', 'def    ', 'abc    ']), 'parts of strings')
    bytes = [(int(i, 1), i = 1, 9)]
    call MPI_Sendrecv(bytes(9:3:-3), 3, MPI_INTEGER1, 0, 2, bytes_got, 3, MPI_INTEGER1, 0, 2, &
      MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
    CHECK(all(bytes_got == [9, 6, 3]), 'bytes')
    flags = [(mod(i, 3) == 0, i = 1, 9)]
    call MPI_Sendrecv(flags(3:9:2), 4, MPI_LOGICAL, 0, 2, flags_got, 4, MPI_LOGICAL, 0, 2, &
      MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
    CHECK(all(flags_got .eqv. flags(3:9:2)), 'logical values')
  end subroutine

  ! gfortran 12 does not survive z%im as an actual argument of assumed rank.
  subroutine exchange(from, to)
    real, intent(in) :: from(:)
    real, intent(inout) :: to(:)
    call MPI_Sendrecv(from, size(from), MPI_REAL, 0, 2, to, size(to), MPI_REAL, 0, 2, &
      MPI_COMM_SELF, &
      MPI_STATUS_IGNORE, ierror)
  end subroutine

  subroutine swap(a, n, type_)
    double precision, intent(inout) :: a(:)
    integer, intent(in) :: n
    MPI_DATATYPE_T, intent(in) :: type_
    call MPI_Sendrecv_replace(a, n, type_, 0, 1, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
  end subroutine

  ! A call leaves the bounds of its arguments alone.
  subroutine bounds_stay
    integer, allocatable :: a(:), b(:, :)
    integer, pointer :: p(:)
    allocate (a(3), b(-1:2, 5:6), p(7:9))
    a = 1
    b = 2
    p = 3
    call MPI_Allreduce(a, p, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_SELF, ierror)
    call MPI_Bcast(b, 8, MPI_INTEGER, 0, MPI_COMM_SELF, ierror)
    EXPECT(lbound(a, 1), 1, 'lower bound of an allocatable array')
    EXPECT(ubound(a, 1), 3, 'upper bound of an allocatable array')
    EXPECT(lbound(p, 1), 7, 'lower bound of a pointer')
    EXPECT(ubound(p, 1), 9, 'upper bound of a pointer')
    CHECK(all(lbound(b) == [-1, 5]) .and. all(ubound(b) == [2, 6]), 'bounds of an array')
    CHECK(all(p == 1) .and. all(b == 2), 'values')
    deallocate (p)
  end subroutine

  ! Longer than what is sent at once.
  subroutine long_sections
    integer, allocatable :: a(:, :), b(:, :)
    allocate (a(1000, 500), b(1000, 500))
    a = reshape([(i, i = 1, size(a))], shape(a))
    SEND(a(1000:1:-2, ::2), 125000)
    call must_be(reshape(a(1000:1:-2, ::2), [125000]), 'a long section')
    SEND(a(:999, :), 299999)
    call must_be(front(reshape(a(:999, :), [499500]), 299999), 'all rows but the last')
    b = 0
    call MPI_Sendrecv(a(:, ::2), 250000, MPI_INTEGER, 0, 2, b(::2, 500:1:-1), 250000, &
      MPI_INTEGER, 0, 2, &
      MPI_COMM_SELF, MPI_STATUS_IGNORE, ierror)
    CHECK(all(b(::2, 500:1:-1) == reshape(a(:, ::2), [500, 500])), 'between long sections')
    CHECK(all(b(2::2, :) == 0), 'between the elements of a long section')
  end subroutine

  subroutine outlived_descriptors
    integer ASYNC :: a(40, 30), b(40, 30), field(9, 7)
    MPI_REQUEST_T :: requests(4)
    integer :: k
    a = reshape([(i, i = 1, size(a))], shape(a))
    b = 0
    call start_receive(b(40:1:-3, 2:29:3), requests(1))
    call start_receive(b(2:39:3, 2:29:3), requests(2))
    call start_send(a(1:40:3, 1:30:3), requests(3))
    call start_send(a(2:39:3, 1:30:3), requests(4))
    call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, ierror)
    CHECK(all(b(40:1:-3, 2:29:3) == a(1:40:3, 1:30:3)), 'the first of two sections on their way')
    CHECK(all(b(2:39:3, 2:29:3) == a(2:39:3, 1:30:3)), 'the second of two sections on their way')
    EXPECT(count(b /= 0), 27 * 10, 'elements that were written')
    field = reshape([(i, i = 1, size(field))], shape(field))
    do k = 1, 3
      call MPI_Isendrecv(field(8, :), 7, MPI_INTEGER, 0, 3, field(1, :), 7, MPI_INTEGER, 0, 3, &
        MPI_COMM_SELF, requests(1), ierror)
      call wait(requests(1))
      CHECK(all(field(1, :) == field(8, :)), 'MPI_Isendrecv of rows')
      field(8, :) = field(8, :) + 100
    end do
  end subroutine

  subroutine collective_cases
    integer :: a(0:3, 0:3), b(4), rows(10, 3), all_rows(10, 3 * test_size), in_place(9)
    ! Each rank gets an element, and two, of a section.
    a = reshape([(i, i = 0, 15)], [4, 4])
    b = -1
    if (test_size <= 4) then
      call MPI_Scatter(a(1:2, 1:2), 1, MPI_INTEGER, b, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
      EXPECT(b(1), 5 + mod(test_rank, 2) + 4 * (test_rank / 2), 'one element of a section by MPI_Scatter')
    end if
    if (test_size <= 2) then
      call MPI_Scatter(a(1:2, 1:2), 2, MPI_INTEGER, b(4:1:-3), 2, MPI_INTEGER, 0, &
        MPI_COMM_WORLD, ierror)
      EXPECT(b(4), 5 + 4 * test_rank, 'the first of two elements by MPI_Scatter')
      EXPECT(b(1), 6 + 4 * test_rank, 'the second of two elements by MPI_Scatter')
    end if
    rows = reshape([(100 * test_rank + i, i = 1, 30)], [10, 3])
    all_rows = -1
    call MPI_Allgather(rows(3:9:2, :), 12, MPI_INTEGER, all_rows(10:4:-2, :), 12, MPI_INTEGER, &
      MPI_COMM_WORLD, ierror)
    do i = 0, test_size - 1
      CHECK(all(all_rows(10:4:-2, 3 * i + 1:3 * i + 3) == rows(3:9:2, :) + 100 * (i - test_rank)), 'rows')
    end do
    EXPECT(count(all_rows == -1), 6 * 3 * test_size, 'elements that MPI_Allgather left alone')
    in_place = [(i, i = 1, 9)]
    call MPI_Allreduce(MPI_IN_PLACE, in_place(9:1:-2), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
      ierror)
    CHECK(all(in_place(9:3:-2) == [9, 7, 5, 3] * test_size), 'MPI_Allreduce in place')
    CHECK(all(in_place([1, 2, 4, 6, 8]) == [1, 2, 4, 6, 8]), 'MPI_Allreduce in place, others')
    all_rows = -1
    all_rows(::3, 3 * test_rank + 1:3 * test_rank + 3) = test_rank
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_INTEGER, all_rows(::3, :), 12, MPI_INTEGER, &
      MPI_COMM_WORLD, ierror)
    do i = 0, test_size - 1
      CHECK(all(all_rows(::3, 3 * i + 1:3 * i + 3) == i), 'MPI_Allgather in place')
    end do
  end subroutine
end program
