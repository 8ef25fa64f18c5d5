! Fourier transform of a cube in slabs: two dimensions where the data is, a transposition between
! the ranks, the third dimension. The transposition is made by MPI_Alltoall of derived types, by
! copies in array order, and by MPI_Alltoallw; the inverse transform must give back the cube, and
! single coefficients their sum.
#include "test.h"
program fft3d
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  integer, parameter :: per_rank = 2, dp = kind(1d0)
  double precision, parameter :: pi = 3.14159265358979323846d0
  integer :: n, k, l, m, base
  complex(dp), allocatable ASYNC :: slab(:, :, :), turned(:, :, :), back(:, :, :), cube(:, :, :)
  complex(dp) :: expected
  integer :: method
  call test_init
  n = per_rank * test_size
  base = per_rank * test_rank
  allocate (cube(n, n, n), slab(n, n, per_rank), turned(n, per_rank, n), back(n, n, per_rank))
  do concurrent (k = 1:n, l = 1:n, m = 1:n)
    cube(k, l, m) = cmplx(mod(3 * k + 5 * l + 7 * m, 13), mod(k * l + m, 7), dp)
  end do
  do method = 1, 3
    slab = cube(:, :, base + 1:base + per_rank)
    do m = 1, per_rank
      do l = 1, n
        slab(:, l, m) = transformed(slab(:, l, m), -1)
      end do
      do k = 1, n
        slab(k, :, m) = transformed(slab(k, :, m), -1)
      end do
    end do
    turned = 0
    call transpose_forth(method)
    do l = 1, per_rank
      do k = 1, n
        turned(k, l, :) = transformed(turned(k, l, :), -1)
      end do
    end do
    do l = 1, per_rank
      expected = coefficient(mod(2 * test_rank, n), base + l - 1, mod(3, n))
      CHECK(abs(turned(mod(2 * test_rank, n) + 1, l, mod(3, n) + 1) - expected) < 1d-8 * n**3, 'a coefficient')
      do k = 1, n
        turned(k, l, :) = transformed(turned(k, l, :), 1)
      end do
    end do
    back = 0
    call transpose_back(method)
    do m = 1, per_rank
      do k = 1, n
        back(k, :, m) = transformed(back(k, :, m), 1)
      end do
      do l = 1, n
        back(:, l, m) = transformed(back(:, l, m), 1)
      end do
    end do
    back = back / real(n, dp)**3
    CHECK(all(abs(back - cube(:, :, base + 1:base + per_rank)) < 1d-9), 'the cube after both transforms')
  end do
  call test_finish

contains

  ! The sum itself: n is small.
  function transformed(a, direction) result(b)
    complex(dp), intent(in) :: a(:)
    integer, intent(in) :: direction
    complex(dp) :: b(size(a))
    integer :: i, j
    do i = 1, size(a)
      b(i) = sum([(a(j) * exp(cmplx(0, direction * 2 * pi * mod((i - 1) * (j - 1), n) / n, dp)), &
        j = 1, size(a))])
    end do
  end function

  complex(dp) function coefficient(u, v, w)
    integer, intent(in) :: u, v, w
    integer :: k, l, m
    coefficient = 0
    do m = 0, n - 1
      do l = 0, n - 1
        do k = 0, n - 1
          coefficient = coefficient + cube(k + 1, l + 1, m + 1) * exp(cmplx(0, &
            -2 * pi * (k * u + l * v + m * w) / n, dp))
        end do
      end do
    end do
  end function

  ! From slab(n, n, per_rank) to turned(n, per_rank, n): each rank gets its columns.
  subroutine transpose_forth(method)
    integer, intent(in) :: method
    MPI_DATATYPE_T :: piece, part
    complex(dp), allocatable :: out(:, :, :, :)
    integer :: i, block
    block = n * per_rank * per_rank
    select case (method)
    case (1)
      ! A piece of the slab, whose neighbour begins after per_rank columns.
      call MPI_Type_create_subarray(3, [n, n, per_rank], [n, per_rank, per_rank], [0, 0, 0], &
        MPI_ORDER_FORTRAN, MPI_DOUBLE_COMPLEX, part, ierror)
      call MPI_Type_create_resized(part, 0_MPI_ADDRESS_KIND, int(16 * n * per_rank, &
        MPI_ADDRESS_KIND), piece, ierror)
      call MPI_Type_commit(piece, ierror)
      call MPI_Alltoall(slab, 1, piece, turned, block, MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD, ierror)
      call MPI_Type_free(piece, ierror)
      call MPI_Type_free(part, ierror)
    case (2)
      allocate (out(n, per_rank, per_rank, test_size))
      do i = 1, test_size
        out(:, :, :, i) = slab(:, per_rank * (i - 1) + 1:per_rank * i, :)
      end do
      call MPI_Alltoall(out, block, MPI_DOUBLE_COMPLEX, turned, block, MPI_DOUBLE_COMPLEX, &
        MPI_COMM_WORLD, ierror)
    case (3)
      call by_types(slab, [n, n, per_rank], 2, turned, [n, per_rank, n], 3)
    end select
  end subroutine

  subroutine transpose_back(method)
    integer, intent(in) :: method
    MPI_DATATYPE_T :: piece, part
    complex(dp), allocatable :: in(:, :, :, :)
    integer :: i, block
    block = n * per_rank * per_rank
    select case (method)
    case (1)
      call MPI_Type_vector(per_rank, n * per_rank, n * n, MPI_DOUBLE_COMPLEX, part, ierror)
      call MPI_Type_create_resized(part, 0_MPI_ADDRESS_KIND, int(16 * n * per_rank, &
        MPI_ADDRESS_KIND), piece, ierror)
      call MPI_Type_commit(piece, ierror)
      call MPI_Alltoall(turned, block, MPI_DOUBLE_COMPLEX, back, 1, piece, MPI_COMM_WORLD, ierror)
      call MPI_Type_free(piece, ierror)
      call MPI_Type_free(part, ierror)
    case (2)
      allocate (in(n, per_rank, per_rank, test_size))
      call MPI_Alltoall(turned, block, MPI_DOUBLE_COMPLEX, in, block, MPI_DOUBLE_COMPLEX, &
        MPI_COMM_WORLD, ierror)
      do i = 1, test_size
        back(:, per_rank * (i - 1) + 1:per_rank * i, :) = in(:, :, :, i)
      end do
    case (3)
      call by_types(turned, [n, per_rank, n], 3, back, [n, n, per_rank], 2)
    end select
  end subroutine

  ! Each rank's part of an array is a range of dimension `cut`.
  subroutine by_types(from, from_shape, from_cut, to, to_shape, to_cut)
    complex(dp), intent(in) :: from(*)
    complex(dp), intent(inout) :: to(*)
    integer, intent(in) :: from_shape(3), to_shape(3), from_cut, to_cut
    MPI_DATATYPE_T :: from_types(test_size), to_types(test_size)
    integer :: ones(test_size), nulls(test_size), i
    ones = 1
    nulls = 0
    do i = 1, test_size
      call make_part(from_shape, from_cut, i, from_types(i))
      call make_part(to_shape, to_cut, i, to_types(i))
    end do
    call MPI_Alltoallw(from, ones, nulls, from_types, to, ones, nulls, to_types, MPI_COMM_WORLD, &
      ierror)
    do i = 1, test_size
      call MPI_Type_free(from_types(i), ierror)
      call MPI_Type_free(to_types(i), ierror)
    end do
  end subroutine

  subroutine make_part(extents, cut, i, part)
    integer, intent(in) :: extents(3), cut, i
    MPI_DATATYPE_T, intent(out) :: part
    integer :: lengths(3), starts(3)
    lengths = extents
    lengths(cut) = per_rank
    starts = 0
    starts(cut) = per_rank * (i - 1)
    call MPI_Type_create_subarray(3, extents, lengths, starts, MPI_ORDER_FORTRAN, &
      MPI_DOUBLE_COMPLEX, part, ierror)
    call MPI_Type_commit(part, ierror)
  end subroutine
end program
