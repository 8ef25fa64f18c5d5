! Halo exchange of a field of two components on a periodic grid of ranks: by derived types in each
! style, and where a style permits it, with array sections as buffers: blocking, nonblocking,
! persistent, and by a neighbourhood collective.
#include "test.h"
program halo
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  ! A rank has 2 x NX x NY inner values, and a border of one point all around.
  integer, parameter :: nx = 6, ny = 4
  double precision ASYNC :: field(2, 0:nx + 1, 0:ny + 1)
  integer :: extents(2), place(2), west, east, south, north
  MPI_COMM_T :: grid
  MPI_DATATYPE_T :: column, row
  MPI_REQUEST_T :: requests(8)
  integer :: turn
  logical :: periodic(2)
  call test_init
  extents = 0
  call MPI_Dims_create(test_size, 2, extents, ierror)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, extents, [.true., .true.], .false., grid, ierror)
  call MPI_Cart_get(grid, 2, extents, periodic, place, ierror)
  CHECK(all(periodic), 'periods of the grid')
  call MPI_Cart_shift(grid, 0, 1, west, east, ierror)
  call MPI_Cart_shift(grid, 1, 1, south, north, ierror)
  call by_types
  call by_blocking_sections
  if (MPI_SUBARRAYS_SUPPORTED) then
    call by_nonblocking_sections
    call by_persistent_sections
  end if
  call by_neighbours
  call MPI_Comm_free(grid, ierror)
  call test_finish

contains

  ! The value of a point of the whole grid, which is periodic.
  elemental double precision function value_at(component, x, y)
    integer, intent(in) :: component, x, y
    value_at = component + 10 * modulo(x - 1, nx * extents(1)) + 1000 * modulo(y - 1, &
      ny * extents(2))
  end function

  subroutine fill
    integer :: i, j, k
    field = -1
    do concurrent (k = 1:2, i = 1:nx, j = 1:ny)
      field(k, i, j) = value_at(k, place(1) * nx + i, place(2) * ny + j)
    end do
  end subroutine

  subroutine verify(what)
    character(len=*), intent(in) :: what
    integer :: i, j, k, wrong
    logical :: at_corner
    wrong = 0
    do j = 0, ny + 1
      do i = 0, nx + 1
        at_corner = (i == 0 .or. i == nx + 1) .and. (j == 0 .or. j == ny + 1)
        do k = 1, 2
          if (at_corner) then
            if (field(k, i, j) /= -1) wrong = wrong + 1
          else if (field(k, i, j) /= value_at(k, place(1) * nx + i, place(2) * ny + j)) then
            wrong = wrong + 1
          end if
        end do
      end do
    end do
    EXPECT(wrong, 0, what // ': wrong points')
  end subroutine

  subroutine by_types
    call MPI_Type_vector(ny, 2, 2 * (nx + 2), MPI_DOUBLE_PRECISION, column, ierror)
    call MPI_Type_commit(column, ierror)
    call MPI_Type_contiguous(2 * nx, MPI_DOUBLE_PRECISION, row, ierror)
    call MPI_Type_commit(row, ierror)
    call fill
    call MPI_Sendrecv(field(1, nx, 1), 1, column, east, 1, field(1, 0, 1), 1, column, west, 1, &
      grid, &
      MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(field(1, 1, 1), 1, column, west, 2, field(1, nx + 1, 1), 1, column, east, &
      2, grid, &
      MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(field(1, 1, ny), 1, row, north, 3, field(1, 1, 0), 1, row, south, 3, grid, &
      MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(field(1, 1, 1), 1, row, south, 4, field(1, 1, ny + 1), 1, row, north, 4, &
      grid, &
      MPI_STATUS_IGNORE, ierror)
    call verify('derived types')
    call fill
    call MPI_Irecv(field(1, 0, 1), 1, column, west, 1, grid, requests(1), ierror)
    call MPI_Irecv(field(1, nx + 1, 1), 1, column, east, 2, grid, requests(2), ierror)
    call MPI_Irecv(field(1, 1, 0), 1, row, south, 3, grid, requests(3), ierror)
    call MPI_Irecv(field(1, 1, ny + 1), 1, row, north, 4, grid, requests(4), ierror)
    call MPI_Isend(field(1, nx, 1), 1, column, east, 1, grid, requests(5), ierror)
    call MPI_Isend(field(1, 1, 1), 1, column, west, 2, grid, requests(6), ierror)
    call MPI_Isend(field(1, 1, ny), 1, row, north, 3, grid, requests(7), ierror)
    call MPI_Isend(field(1, 1, 1), 1, row, south, 4, grid, requests(8), ierror)
    call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE, ierror)
    call verify('derived types, nonblocking')
    call MPI_Type_free(column, ierror)
    call MPI_Type_free(row, ierror)
  end subroutine

#define COLUMN(i) field(:, i, 1:ny), 2 * ny, MPI_DOUBLE_PRECISION
#define ROW(j) field(:, 1:nx, j), 2 * nx, MPI_DOUBLE_PRECISION
  subroutine by_blocking_sections
    call fill
    call MPI_Sendrecv(COLUMN(nx), east, 1, COLUMN(0), west, 1, grid, MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(COLUMN(1), west, 2, COLUMN(nx + 1), east, 2, grid, MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(ROW(ny), north, 3, ROW(0), south, 3, grid, MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(ROW(1), south, 4, ROW(ny + 1), north, 4, grid, MPI_STATUS_IGNORE, ierror)
    call verify('sections')
  end subroutine

  subroutine by_nonblocking_sections
    call fill
    call MPI_Irecv(COLUMN(0), west, 1, grid, requests(1), ierror)
    call MPI_Irecv(COLUMN(nx + 1), east, 2, grid, requests(2), ierror)
    call MPI_Irecv(ROW(0), south, 3, grid, requests(3), ierror)
    call MPI_Irecv(ROW(ny + 1), north, 4, grid, requests(4), ierror)
    call MPI_Isend(COLUMN(nx), east, 1, grid, requests(5), ierror)
    call MPI_Isend(COLUMN(1), west, 2, grid, requests(6), ierror)
    call MPI_Isend(ROW(ny), north, 3, grid, requests(7), ierror)
    call MPI_Isend(ROW(1), south, 4, grid, requests(8), ierror)
    call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE, ierror)
    call verify('sections, nonblocking')
  end subroutine

  subroutine by_persistent_sections
    call MPI_Recv_init(COLUMN(0), west, 1, grid, requests(1), ierror)
    call MPI_Recv_init(COLUMN(nx + 1), east, 2, grid, requests(2), ierror)
    call MPI_Recv_init(ROW(0), south, 3, grid, requests(3), ierror)
    call MPI_Recv_init(ROW(ny + 1), north, 4, grid, requests(4), ierror)
    call MPI_Send_init(COLUMN(nx), east, 1, grid, requests(5), ierror)
    call MPI_Send_init(COLUMN(1), west, 2, grid, requests(6), ierror)
    call MPI_Send_init(ROW(ny), north, 3, grid, requests(7), ierror)
    call MPI_Send_init(ROW(1), south, 4, grid, requests(8), ierror)
    do turn = 1, 3
      call fill
      call MPI_Startall(8, requests, ierror)
      call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE, ierror)
      call verify('sections, persistent')
    end do
    do turn = 1, 8
      call MPI_Request_free(requests(turn), ierror)
    end do
  end subroutine

  ! Addresses of the types' blocks in the field, relative to its start.
  subroutine by_neighbours
    MPI_DATATYPE_T :: types(4)
    integer(MPI_ADDRESS_KIND) :: from(4), to(4), start
    integer :: i, sizes(3)
    sizes = [2, nx + 2, ny + 2]
    call MPI_Type_create_subarray(3, sizes, [2, 1, ny], [0, 0, 0], MPI_ORDER_FORTRAN, &
      MPI_DOUBLE_PRECISION, types(1), ierror)
    types(2) = types(1)
    call MPI_Type_create_subarray(3, sizes, [2, nx, 1], [0, 0, 0], MPI_ORDER_FORTRAN, &
      MPI_DOUBLE_PRECISION, types(3), ierror)
    types(4) = types(3)
    call MPI_Type_commit(types(1), ierror)
    call MPI_Type_commit(types(3), ierror)
    call MPI_Get_address(field, start, ierror)
    call MPI_Get_address(field(1, 1, 1), from(1), ierror)
    call MPI_Get_address(field(1, nx, 1), from(2), ierror)
    call MPI_Get_address(field(1, 1, 1), from(3), ierror)
    call MPI_Get_address(field(1, 1, ny), from(4), ierror)
    call MPI_Get_address(field(1, 0, 1), to(1), ierror)
    call MPI_Get_address(field(1, nx + 1, 1), to(2), ierror)
    call MPI_Get_address(field(1, 1, 0), to(3), ierror)
    call MPI_Get_address(field(1, 1, ny + 1), to(4), ierror)
    from = from - start
    to = to - start
    call fill
    call MPI_Neighbor_alltoallw(field, [(1, i = 1, 4)], from, types, field, [(1, i = 1, 4)], to, &
      types, &
      grid, ierror)
    call verify('MPI_Neighbor_alltoallw')
    call MPI_Type_free(types(1), ierror)
    call MPI_Type_free(types(3), ierror)
  end subroutine
end program
