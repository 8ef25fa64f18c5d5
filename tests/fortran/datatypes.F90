! Datatypes of Fortran: sizes of the named ones, parameterized types, MPI_Sizeof, structures with
! addresses, subarrays, names, envelopes, and values of each type from rank to rank.
#include "test.h"
program datatypes
#include "use_mpi.h"
  use test
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, real32, real64
  implicit none
#include "mpi_header.h"
  type :: record
    integer :: number
    double precision :: position(3)
    character(len=6) :: name
    logical :: flag
    complex :: z
  end type
  integer :: to, from, i, bytes
  call test_init
  to = mod(test_rank + 1, test_size)
  from = mod(test_rank + test_size - 1, test_size)
  call named
  call parameterized
  call structures
  call subarrays
  call described
#if !defined(STYLE_F08)
  call sizes_of_arguments
#endif
  call test_finish

contains

  subroutine has_size(datatype, bits, what)
    MPI_DATATYPE_T, intent(in) :: datatype
    integer, intent(in) :: bits
    character(len=*), intent(in) :: what
    call MPI_Type_size(datatype, bytes, ierror)
    EXPECT(8 * bytes, bits, what)
  end subroutine

  subroutine named
    call has_size(MPI_INTEGER, storage_size(1), 'MPI_INTEGER')
    call has_size(MPI_REAL, storage_size(1.), 'MPI_REAL')
    call has_size(MPI_DOUBLE_PRECISION, storage_size(1d0), 'MPI_DOUBLE_PRECISION')
    call has_size(MPI_COMPLEX, storage_size((1., 1.)), 'MPI_COMPLEX')
    call has_size(MPI_DOUBLE_COMPLEX, storage_size((1d0, 1d0)), 'MPI_DOUBLE_COMPLEX')
    call has_size(MPI_LOGICAL, storage_size(.true.), 'MPI_LOGICAL')
    call has_size(MPI_CHARACTER, 8, 'MPI_CHARACTER')
    call has_size(MPI_2INTEGER, 2 * storage_size(1), 'MPI_2INTEGER')
    call has_size(MPI_2REAL, 2 * storage_size(1.), 'MPI_2REAL')
    call has_size(MPI_2DOUBLE_PRECISION, 2 * storage_size(1d0), 'MPI_2DOUBLE_PRECISION')
    call has_size(MPI_INTEGER1, 8, 'MPI_INTEGER1')
    call has_size(MPI_INTEGER2, 16, 'MPI_INTEGER2')
    call has_size(MPI_INTEGER4, 32, 'MPI_INTEGER4')
    call has_size(MPI_INTEGER8, 64, 'MPI_INTEGER8')
    call has_size(MPI_REAL4, 32, 'MPI_REAL4')
    call has_size(MPI_REAL8, 64, 'MPI_REAL8')
    call has_size(MPI_COMPLEX8, 64, 'MPI_COMPLEX8')
    call has_size(MPI_COMPLEX16, 128, 'MPI_COMPLEX16')
    call has_size(MPI_AINT, storage_size(1_MPI_ADDRESS_KIND), 'MPI_AINT')
    call has_size(MPI_OFFSET, storage_size(1_MPI_OFFSET_KIND), 'MPI_OFFSET')
    call has_size(MPI_COUNT, storage_size(1_MPI_COUNT_KIND), 'MPI_COUNT')
    call has_size(MPI_BYTE, 8, 'MPI_BYTE')
    call has_size(MPI_INT, 32, 'MPI_INT of C')
    call has_size(MPI_DOUBLE, 64, 'MPI_DOUBLE of C')
    call locations
  end subroutine

  ! Reductions of pairs, and of logical values.
  subroutine locations
    integer :: pair(2), result_(2)
    real :: reals(2), result_reals(2)
    double precision :: doubles(2), result_doubles(2)
    logical :: flags(3), result_flags(3)
    pair = [mod(7 * test_rank, 5), test_rank]
    call MPI_Allreduce(pair, result_, 1, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD, ierror)
    EXPECT(result_(1), maxval([(mod(7 * i, 5), i = 0, test_size - 1)]), 'MPI_MAXLOC of integers')
    EXPECT(result_(2), maxloc([(mod(7 * i, 5), i = 0, test_size - 1)], 1) - 1, 'place by MPI_MAXLOC')
    reals = [real(test_size - test_rank), real(test_rank)]
    call MPI_Allreduce(reals, result_reals, 1, MPI_2REAL, MPI_MINLOC, MPI_COMM_WORLD, ierror)
    CHECK(all(result_reals == [1., real(test_size - 1)]), 'MPI_MINLOC of reals')
    doubles = reals
    call MPI_Allreduce(doubles, result_doubles, 1, MPI_2DOUBLE_PRECISION, MPI_MINLOC, &
      MPI_COMM_WORLD, ierror)
    CHECK(all(result_doubles == [1d0, dble(test_size - 1)]), 'MPI_MINLOC of doubles')
    flags = [test_rank == 0, .true., .false.]
    call MPI_Allreduce(flags, result_flags, 3, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierror)
    CHECK(all(result_flags .eqv. [test_size == 1, .true., .false.]), 'MPI_LAND')
    call MPI_Allreduce(flags, result_flags, 3, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
    CHECK(all(result_flags .eqv. [.true., .true., .false.]), 'MPI_LOR')
    call MPI_Allreduce(flags, result_flags, 3, MPI_LOGICAL, MPI_LXOR, MPI_COMM_WORLD, ierror)
    CHECK(all(result_flags .eqv. [.true., mod(test_size, 2) == 1, .false.]), 'MPI_LXOR')
    ! What another rank sees as true is .true. here, also negated.
    call MPI_Sendrecv(flags, 3, MPI_LOGICAL, to, 1, result_flags, 3, MPI_LOGICAL, from, 1, &
      MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierror)
    CHECK(all((.not. result_flags) .eqv. [from /= 0, .false., .true.]), 'logical values')
  end subroutine

  subroutine parameterized
    integer, parameter :: ik = selected_int_kind(12), rk = selected_real_kind(10, 100)
    MPI_DATATYPE_T :: type_, same
    integer(ik) :: big(2), big_got(2)
    real(rk) :: x(2), x_got(2)
    complex(rk) :: z(2), z_got(2)
    call MPI_Type_create_f90_integer(12, type_, ierror)
    call has_size(type_, storage_size(1_ik), 'MPI_Type_create_f90_integer')
    big = [1000000000000_ik + test_rank, -7_ik]
    call MPI_Allreduce(big, big_got, 2, type_, MPI_MAX, MPI_COMM_WORLD, ierror)
    CHECK(all(big_got == [1000000000000_ik + test_size - 1, -7_ik]), 'integers of 12 digits')
    call MPI_Type_create_f90_integer(12, same, ierror)
    CHECK(same == type_, 'the same arguments give the same type')
    call MPI_Type_create_f90_real(10, 100, type_, ierror)
    call has_size(type_, storage_size(1._rk), 'MPI_Type_create_f90_real')
    x = test_rank + 0.125_rk
    call MPI_Allreduce(x, x_got, 2, type_, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(all(x_got == sum([(i + 0.125_rk, i = 0, test_size - 1)])), 'reals of 10 digits')
    call MPI_Type_create_f90_complex(10, MPI_UNDEFINED, type_, ierror)
    call has_size(type_, 2 * storage_size(1._rk), 'MPI_Type_create_f90_complex')
    z = cmplx(test_rank, 1, rk)
    call MPI_Allreduce(z, z_got, 2, type_, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(all(z_got == cmplx(test_size * (test_size - 1) / 2, test_size, rk)), 'complex numbers of 10 digits')
    call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, type_, ierror)
    call has_size(type_, 64, 'MPI_Type_match_size of a real')
    call MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 2, type_, ierror)
    call has_size(type_, 16, 'MPI_Type_match_size of an integer')
    call MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 8, type_, ierror)
    call has_size(type_, 64, 'MPI_Type_match_size of a complex number')
  end subroutine

  subroutine structures
    type(record), target ASYNC :: mine(4), got(4)
    integer(MPI_ADDRESS_KIND) :: places(5), start, next, lb, extent
    MPI_DATATYPE_T :: parts, type_, types(5)
    call MPI_Get_address(mine(1), start, ierror)
    call MPI_Get_address(mine(2), next, ierror)
    call MPI_Get_address(mine(1)%number, places(1), ierror)
    call MPI_Get_address(mine(1)%position, places(2), ierror)
    call MPI_Get_address(mine(1)%name, places(3), ierror)
    call MPI_Get_address(mine(1)%flag, places(4), ierror)
    call MPI_Get_address(mine(1)%z, places(5), ierror)
    EXPECT(8 * (next - start), storage_size(mine), 'distance of two elements')
    types = [MPI_INTEGER, MPI_DOUBLE_PRECISION, MPI_CHARACTER, MPI_LOGICAL, MPI_COMPLEX]
    call MPI_Type_create_struct(5, [1, 3, 6, 1, 1], places - start, types, parts, ierror)
    call MPI_Type_create_resized(parts, 0_MPI_ADDRESS_KIND, next - start, type_, ierror)
    call MPI_Type_commit(type_, ierror)
    call MPI_Type_get_extent(type_, lb, extent, ierror)
    EXPECT(extent, next - start, 'extent')
    do i = 1, 4
      mine(i) = record(10 * test_rank + i, [1d0, 2d0, 3d0] * i, 'rank ' // achar(48 + &
        mod(test_rank, 10)), &
        mod(i, 2) == 0, cmplx(i, test_rank))
      got(i) = record(0, 0, '', .false., 0)
    end do
    call MPI_Sendrecv(mine, 3, type_, to, 1, got(2), 3, type_, from, 1, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierror)
    EXPECT(got(1)%number, 0, 'an element in front')
    do i = 1, 3
      EXPECT(got(i + 1)%number, 10 * from + i, 'the number')
      CHECK(all(got(i + 1)%position == [1d0, 2d0, 3d0] * i), 'the position')
      CHECK(got(i + 1)%name == 'rank ' // achar(48 + mod(from, 10)), 'the name')
      CHECK(got(i + 1)%flag .eqv. mod(i, 2) == 0, 'the flag')
      CHECK(got(i + 1)%z == cmplx(i, from), 'the complex number')
    end do
    call MPI_Type_free(type_, ierror)
    call MPI_Type_free(parts, ierror)
  end subroutine

  subroutine subarrays
    integer :: a(7, 6, 5), b(3, 2, 4)
    MPI_DATATYPE_T :: part, block
    a = reshape([(i, i = 1, size(a))], shape(a))
    call MPI_Type_create_subarray(3, [7, 6, 5], [3, 2, 4], [2, 4, 1], MPI_ORDER_FORTRAN, &
      MPI_INTEGER, part, ierror)
    call MPI_Type_commit(part, ierror)
    call MPI_Sendrecv(a, 1, part, 0, 1, b, 24, MPI_INTEGER, 0, 1, MPI_COMM_SELF, &
      MPI_STATUS_IGNORE, ierror)
    CHECK(all(b == a(3:5, 5:6, 2:5)), 'a subarray')
    call MPI_Type_free(part, ierror)
    call MPI_Type_create_hindexed_block(2, 3, [4_MPI_ADDRESS_KIND, 40_MPI_ADDRESS_KIND], &
      MPI_INTEGER, block, ierror)
    call MPI_Type_commit(block, ierror)
    call MPI_Sendrecv(a, 1, block, 0, 1, b, 6, MPI_INTEGER, 0, 1, MPI_COMM_SELF, &
      MPI_STATUS_IGNORE, ierror)
    CHECK(all(reshape(b(:, :, 1), [6]) == [2, 3, 4, 11, 12, 13]), 'blocks')
    call MPI_Type_free(block, ierror)
    call MPI_Type_create_darray(4, 1, 2, [8, 4], [MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC], &
      [MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG], [2, 2], MPI_ORDER_FORTRAN, &
        MPI_INTEGER, part, ierror)
    call has_size(part, 8 * 4 * 8, 'MPI_Type_create_darray')
    call MPI_Type_free(part, ierror)
  end subroutine

  subroutine described
    MPI_DATATYPE_T :: vector, parts(1)
    character(len=MPI_MAX_OBJECT_NAME) :: name
    integer :: n, ints, addresses, types, combiner, values(3), length
    integer(MPI_ADDRESS_KIND) :: places(1), lb, extent
    integer(MPI_COUNT_KIND) :: long
    call MPI_Type_vector(3, 2, 5, MPI_REAL, vector, ierror)
    call MPI_Type_get_envelope(vector, ints, addresses, types, combiner, ierror)
    EXPECT(combiner, MPI_COMBINER_VECTOR, 'combiner')
    EXPECT(ints, 3, 'integers')
    call MPI_Type_get_contents(vector, 3, 0, 1, values, places, parts, ierror)
    CHECK(all(values == [3, 2, 5]), 'arguments')
    CHECK(parts(1) == MPI_REAL, 'the type of the elements')
    call MPI_Type_get_true_extent(vector, lb, extent, ierror)
    EXPECT(extent, 48, 'true extent')
    call MPI_Type_size_x(vector, long, ierror)
    EXPECT(long, 24, 'MPI_Type_size_x')
    call MPI_Type_set_name(vector, 'three pairs  ', ierror)
    name = repeat('#', len(name))
    call MPI_Type_get_name(vector, name, length, ierror)
    CHECK(name == 'three pairs', 'name')
    EXPECT(length, 11, 'length of a name')
    call MPI_Type_get_name(MPI_DOUBLE_PRECISION, name, n, ierror)
    CHECK(name == 'MPI_DOUBLE_PRECISION', 'name of a named type')
    call MPI_Type_free(vector, ierror)
  end subroutine

#if !defined(STYLE_F08)
  ! mpi_f08 has storage_size in its place.
  subroutine sizes_of_arguments
#if defined(STYLE_MPI)
    integer(int8) :: tiny_
    integer(int16) :: short(3)
    integer(int32) :: normal(2, 2)
    integer(int64) :: long
    real(real32) :: x
    real(real64) :: y(4)
    complex(real32) :: z
    complex(real64) :: w(2, 3)
    logical :: flag
    character :: c
    call MPI_Sizeof(tiny_, bytes, ierror)
    EXPECT(bytes, 1, 'MPI_Sizeof of int8')
    call MPI_Sizeof(short, bytes, ierror)
    EXPECT(bytes, 2, 'MPI_Sizeof of an array of int16')
    call MPI_Sizeof(normal, bytes, ierror)
    EXPECT(bytes, 4, 'MPI_Sizeof of a matrix of int32')
    call MPI_Sizeof(long, bytes, ierror)
    EXPECT(bytes, 8, 'MPI_Sizeof of int64')
    call MPI_Sizeof(x, bytes, ierror)
    EXPECT(bytes, 4, 'MPI_Sizeof of real32')
    call MPI_Sizeof(y, bytes, ierror)
    EXPECT(bytes, 8, 'MPI_Sizeof of real64')
    call MPI_Sizeof(z, bytes, ierror)
    EXPECT(bytes, 8, 'MPI_Sizeof of complex')
    call MPI_Sizeof(w, bytes, ierror)
    EXPECT(bytes, 16, 'MPI_Sizeof of double complex')
    call MPI_Sizeof(flag, bytes, ierror)
    EXPECT(8 * bytes, storage_size(flag), 'MPI_Sizeof of a logical')
    call MPI_Sizeof(c, bytes, ierror)
    EXPECT(bytes, 1, 'MPI_Sizeof of a character')
#endif
  end subroutine
#endif
end program
