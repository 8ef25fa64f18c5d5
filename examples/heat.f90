! Heat in a square plate, drawn in letters: Jacobi's iteration on a grid of ranks.
!
! Two edges of the plate are held at 100 degrees, the others at 0. Each rank has a rectangle of it
! with a border of one point, and exchanges the border with its four neighbours. The buffers are
! sections of the array: the rows, whose elements do not lie side by side, as well as the columns.
! Every 50 sweeps the ranks agree on the largest change; rank 0 draws the plate at the end.
!
!   mpifort -O2 heat.f90 -o heat
!   mpiexec -n 4 ./heat [POINTS [SWEEPS]]
program heat
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  implicit none
  integer, parameter :: check_every = 50
  real(real64), parameter :: hot = 100
  type(MPI_Comm) :: grid
  integer :: ranks, rank, extents(2), place(2), west, east, south, north
  integer :: points, sweeps, nx, ny, sweep
  real(real64) :: change, largest, start, seconds
  real(real64), allocatable, asynchronous :: now(:, :), next(:, :)

  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  extents = 0
  call MPI_Dims_create(ranks, 2, extents)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, extents, [.false., .false.], .true., grid)
  call MPI_Comm_rank(grid, rank)
  call MPI_Cart_coords(grid, rank, 2, place)
  call MPI_Cart_shift(grid, 0, 1, west, east)
  call MPI_Cart_shift(grid, 1, 1, south, north)
  points = argument(1, 120)
  sweeps = argument(2, 5000)
  if (points < maxval(extents) .or. sweeps < 1) then
    if (rank == 0) print '(a)', 'heat: each rank needs a point, and one sweep is the least'
    call MPI_Abort(grid, 2)
  end if
  nx = share(1)
  ny = share(2)
  allocate (now(0:nx + 1, 0:ny + 1), source=0._real64)
  if (west == MPI_PROC_NULL) now(0, :) = hot
  if (north == MPI_PROC_NULL) now(:, ny + 1) = hot
  next = now

  start = MPI_Wtime()
  do sweep = 1, sweeps
    call exchange_border(now)
    next(1:nx, 1:ny) = (now(0:nx - 1, 1:ny) + now(2:nx + 1, 1:ny) + now(1:nx, 0:ny - 1) + &
      now(1:nx, 2:ny + 1)) / 4
    if (mod(sweep, check_every) == 0 .or. sweep == sweeps) then
      change = maxval(abs(next(1:nx, 1:ny) - now(1:nx, 1:ny)))
      call MPI_Allreduce(change, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, grid)
    end if
    now(1:nx, 1:ny) = next(1:nx, 1:ny)
  end do
  seconds = MPI_Wtime() - start
  call draw
  if (rank == 0) then
    print '(a, i0, a, i0, a, i0, a, i0, a)', 'grid            ', points, ' x ', points, ' on ', &
      extents(1), ' x ', &
      extents(2), ' ranks'
    print '(a, i0)', 'sweeps          ', sweeps
    print '(a, es12.6)', 'last change     ', largest
    print '(a, f0.2, a)', 'time            ', 1000 * seconds, ' ms'
  end if
  call MPI_Finalize()

contains

  integer function argument(n, default) result(value)
    integer, intent(in) :: n, default
    character(len=20) :: text
    value = default
    call get_command_argument(n, text)
    if (text /= '') read (text, *) value
  end function

  ! The points of this rank in a dimension: the first ones have one more.
  integer function share(dimension)
    integer, intent(in) :: dimension
    share = points / extents(dimension)
    if (place(dimension) < mod(points, extents(dimension))) share = share + 1
  end function

  ! The index of its first point, less one.
  integer function first(dimension)
    integer, intent(in) :: dimension
    first = place(dimension) * (points / extents(dimension)) + min(place(dimension), mod(points, &
      extents(dimension)))
  end function

  subroutine exchange_border(a)
    real(real64), asynchronous, intent(inout) :: a(0:, 0:)
    type(MPI_Request) :: requests(8)
    call MPI_Irecv(a(0, 1:ny), ny, MPI_DOUBLE_PRECISION, west, 1, grid, requests(1))
    call MPI_Irecv(a(nx + 1, 1:ny), ny, MPI_DOUBLE_PRECISION, east, 2, grid, requests(2))
    call MPI_Irecv(a(1:nx, 0), nx, MPI_DOUBLE_PRECISION, south, 3, grid, requests(3))
    call MPI_Irecv(a(1:nx, ny + 1), nx, MPI_DOUBLE_PRECISION, north, 4, grid, requests(4))
    call MPI_Isend(a(nx, 1:ny), ny, MPI_DOUBLE_PRECISION, east, 1, grid, requests(5))
    call MPI_Isend(a(1, 1:ny), ny, MPI_DOUBLE_PRECISION, west, 2, grid, requests(6))
    call MPI_Isend(a(1:nx, ny), nx, MPI_DOUBLE_PRECISION, north, 3, grid, requests(7))
    call MPI_Isend(a(1:nx, 1), nx, MPI_DOUBLE_PRECISION, south, 4, grid, requests(8))
    call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE)
  end subroutine

  ! A letter for each of 24 x 48 places of the plate, by its temperature.
  subroutine draw
    integer, parameter :: lines = 24, columns = 48
    real(real64) :: mine(columns, lines), all_of_them(columns, lines)
    integer :: i, j, x, y
    mine = 0
    do j = 1, lines
      y = 1 + (j - 1) * points / lines - first(2)
      do i = 1, columns
        x = 1 + (i - 1) * points / columns - first(1)
        if (x >= 1 .and. x <= nx .and. y >= 1 .and. y <= ny) mine(i, j) = now(x, y)
      end do
    end do
    call MPI_Reduce(mine, all_of_them, columns * lines, MPI_DOUBLE_PRECISION, MPI_SUM, 0, grid)
    if (rank /= 0) return
    do j = lines, 1, -1
      print '(48a1)', [(letter(all_of_them(i, j)), i = 1, columns)]
    end do
  end subroutine

  character function letter(degrees)
    real(real64), intent(in) :: degrees
    character(len=*), parameter :: letters = ' .:-=+*#%@'
    integer :: i
    i = 1 + int(degrees / hot * len(letters))
    i = min(i, len(letters))
    letter = letters(i:i)
  end function
end program
