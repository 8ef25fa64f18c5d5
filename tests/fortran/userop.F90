! User operators: one on complex numbers, one that does not commute on a derived type. Each sees
! the handle of the datatype that the call was given.
#include "test.h"
module operators
#include "use_mpi.h"
  use test
  use, intrinsic :: iso_c_binding
  implicit none
#include "mpi_header.h"
  private
  public :: complex_product, matrix_product, longest
  ! What the operator must see, and how often it was called.
  MPI_DATATYPE_T, public :: expected_type
  integer, public :: calls = 0, wrong_types = 0
contains

  subroutine saw(datatype)
    MPI_DATATYPE_T, intent(in) :: datatype
    calls = calls + 1
    if (datatype /= expected_type) wrong_types = wrong_types + 1
  end subroutine

  ! In mpi_f08 an operator gets addresses, in the other styles arrays.
#ifdef STYLE_F08
#define OPERANDS(declared, shape) type(c_ptr), value :: invec, inoutvec; \
    declared, pointer :: a shape, b shape
#define TAKE(extents) call c_f_pointer(invec, a, extents); call c_f_pointer(inoutvec, b, extents)
#define NAMES invec, inoutvec
#else
#define NAMES a, b
#define TAKE(extents)
#endif

  subroutine complex_product(NAMES, len, datatype)
    integer :: len
    MPI_DATATYPE_T :: datatype
#ifdef STYLE_F08
    OPERANDS(complex, (:))
#else
    complex :: a(len), b(len)
#endif
    TAKE([len])
    call saw(datatype)
    b = a * b
  end subroutine

  ! 2 x 2 matrices, modulo a prime so that products stay small.
  subroutine matrix_product(NAMES, len, datatype)
    integer :: len, i
    MPI_DATATYPE_T :: datatype
    integer :: sizes(3)
#ifdef STYLE_F08
    OPERANDS(integer, (:, :, :))
#else
    integer :: a(2, 2, len), b(2, 2, len)
#endif
    sizes = [2, 2, len]
    TAKE(sizes)
    call saw(datatype)
    do i = 1, len
      b(:, :, i) = mod(matmul(a(:, :, i), b(:, :, i)), 10007)
    end do
  end subroutine

  ! Strings of 8 characters: the longer one, without blanks at its end.
  subroutine longest(NAMES, len, datatype)
    integer :: len, i
    MPI_DATATYPE_T :: datatype
#ifdef STYLE_F08
    OPERANDS(character(len=8), (:))
#else
    character(len=8) :: a(len), b(len)
#endif
    TAKE([len])
    call saw(datatype)
    do i = 1, len
      if (len_trim(a(i)) > len_trim(b(i))) b(i) = a(i)
    end do
  end subroutine
end module

program userop
#include "use_mpi.h"
  use test
  use operators
  implicit none
#include "mpi_header.h"
  MPI_OP_T :: op
  MPI_DATATYPE_T :: type_
  MPI_REQUEST_T :: request
  integer, parameter :: n = 5
  complex :: z(n), product_(n)
  integer :: m(2, 2, n), got(2, 2, n), want(2, 2, n), before(2, 2, n), i, r
  logical :: commutes
  character(len=8) :: text(2), text_got(2)
  call test_init

  expected_type = MPI_COMPLEX
  call MPI_Op_create(complex_product, .true., op, ierror)
  call MPI_Op_commutative(op, commutes, ierror)
  CHECK(commutes, 'MPI_Op_commutative')
  z = (0., 1.)
  call MPI_Allreduce(z, product_, n, MPI_COMPLEX, op, MPI_COMM_WORLD, ierror)
  CHECK(all(product_ == (0., 1.)**test_size), 'a product of imaginary units')
  call MPI_Reduce_local(z, product_, n, MPI_COMPLEX, op, ierror)
  CHECK(all(product_ == (0., 1.)**(test_size + 1)), 'MPI_Reduce_local')
  CHECK(calls > 0, 'the operator was called')
  call MPI_Op_free(op, ierror)
  CHECK(op == MPI_OP_NULL, 'handle after MPI_Op_free')

  call MPI_Type_contiguous(4, MPI_INTEGER, type_, ierror)
  call MPI_Type_commit(type_, ierror)
  expected_type = type_
  call MPI_Op_create(matrix_product, .false., op, ierror)
  call MPI_Op_commutative(op, commutes, ierror)
  CHECK(.not. commutes, 'MPI_Op_commutative')
  m = matrices(test_rank)
  want = matrices(0)
  before = 0
  do r = 1, test_size - 1
    if (r == test_rank) before = want
    want = product_of(want, matrices(r))
  end do
  call MPI_Allreduce(m, got, n, type_, op, MPI_COMM_WORLD, ierror)
  CHECK(all(got == want), 'MPI_Allreduce of matrices')
  got = 0
  call MPI_Reduce(m, got, n, type_, op, test_size - 1, MPI_COMM_WORLD, ierror)
  if (test_rank == test_size - 1) then
    CHECK(all(got == want), 'MPI_Reduce of matrices')
  end if
  call MPI_Iallreduce(m, got, n, type_, op, MPI_COMM_WORLD, request, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  CHECK(all(got == want), 'MPI_Iallreduce of matrices')
  got = 0
  call MPI_Exscan(m, got, n, type_, op, MPI_COMM_WORLD, ierror)
  if (test_rank > 0) then
    CHECK(all(got == before), 'MPI_Exscan of matrices')
    before = product_of(before, m)
  else
    before = m
  end if
  call MPI_Scan(m, got, n, type_, op, MPI_COMM_WORLD, ierror)
  CHECK(all(got == before), 'MPI_Scan of matrices')
  call MPI_Op_free(op, ierror)
  call MPI_Type_free(type_, ierror)

  call MPI_Type_contiguous(8, MPI_CHARACTER, type_, ierror)
  call MPI_Type_commit(type_, ierror)
  expected_type = type_
  call MPI_Op_create(longest, .true., op, ierror)
  text(1) = repeat('x', mod(test_rank, 9))
  text(2) = 'y'
  call MPI_Allreduce(text, text_got, 2, type_, op, MPI_COMM_WORLD, ierror)
  i = min(test_size - 1, 8)
  CHECK(text_got(1) == repeat('x', i), 'the longest string')
  call MPI_Op_free(op, ierror)
  call MPI_Type_free(type_, ierror)
  EXPECT(wrong_types, 0, 'calls with another datatype')
  call test_finish

contains

  function matrices(rank) result(a)
    integer, intent(in) :: rank
    integer :: a(2, 2, n), i
    do i = 1, n
      a(:, :, i) = reshape([1 + rank, i, 2, rank + 3 * i], [2, 2])
    end do
  end function

  function product_of(a, b) result(c)
    integer, intent(in) :: a(:, :, :), b(:, :, :)
    integer :: c(2, 2, n), i
    do i = 1, n
      c(:, :, i) = mod(matmul(a(:, :, i), b(:, :, i)), 10007)
    end do
  end function
end program
