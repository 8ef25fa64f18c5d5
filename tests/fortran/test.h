! Shared by every program in this directory: checks that say what differed, one verdict, and random
! numbers that are the same with every compiler.
!
! A program calls test_init, any number of CHECK and EXPECT, and test_finish. Rank 0 prints
! "No Errors" when no rank failed; otherwise each failing rank says on stderr where and what, and
! every rank exits with 1.
#include "style.h"
module test
#include "use_mpi.h"
  use, intrinsic :: iso_fortran_env, only: error_unit, output_unit, int64
  implicit none
#include "mpi_header.h"
  private
  public :: test_init, test_finish, test_fail, test_expect, test_skip, test_argument, &
    test_file_name, draw, start_stream
  public :: int64
  integer, public :: test_rank = -1, test_size = -1
  ! For calls whose error code is not looked at: the default handler ends the job.
  integer, public :: ierror
  ! Said before each message: what the program works on.
  character(len=200), public :: test_context = ''
  integer :: failures = 0
  ! At most this many messages per rank: the first ones tell the story.
  integer, parameter :: max_messages = 8

  ! A stream of random numbers: Park and Miller's generator (CACM 31:10, 1988).
  type, public :: stream
    integer(int64) :: state = 1
  end type

contains

  subroutine test_init
    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, test_rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, test_size, ierror)
  end subroutine

  subroutine test_fail(what, file, line)
    character(len=*), intent(in) :: what, file
    integer, intent(in) :: line
    character(len=40) :: place
    failures = failures + 1
    if (failures > max_messages) return
    write (place, '(i0, a, i0, a, i0)') line, ': rank ', test_rank, ' of ', test_size
    write (error_unit, '(7a)') trim(file), ':', trim(place), ': ', trim(test_context), ' ', &
      trim(what)
    flush (error_unit)
  end subroutine

  subroutine test_expect(got, want, what, file, line)
    integer(int64), intent(in) :: got, want
    character(len=*), intent(in) :: what, file
    integer, intent(in) :: line
    character(len=60) :: numbers
    if (got == want) return
    write (numbers, '(a, i0, a, i0)') ' is ', got, ', expected ', want
    call test_fail(what // trim(numbers), file, line)
  end subroutine

  ! Says why nothing was tested; the harness reports it as skipped.
  subroutine test_skip(reason)
    character(len=*), intent(in) :: reason
    if (test_rank == 0) write (output_unit, '(2a)') 'SKIP: ', reason
    call MPI_Finalize(ierror)
    stop
  end subroutine

  subroutine test_finish
    integer :: total
    if (failures > max_messages) write (error_unit, '(a, i0, a, i0, a)') 'rank ', test_rank, &
      ': ', &
        failures, ' failures in all'
    call MPI_Allreduce(failures, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    if (test_rank == 0 .and. total == 0) write (output_unit, '(a)') 'No Errors'
    call MPI_Finalize(ierror)
    if (total /= 0) stop 1
  end subroutine

  ! The n-th argument of the program as a number.
  integer function test_argument(n, default) result(value)
    integer, intent(in) :: n, default
    character(len=32) :: text
    value = default
    call get_command_argument(n, text)
    if (text /= '') read (text, *) value
  end function

  ! A file in TMPDIR or /tmp that no other program uses, by one name for all ranks.
  function test_file_name() result(name)
    character(len=200) :: name
    character(len=150) :: folder
    integer(int64) :: clock
    integer :: parts(2)
    call get_environment_variable('TMPDIR', folder)
    if (folder == '') folder = '/tmp'
    call system_clock(clock)
    parts = [int(mod(clock, 1000000000_int64)), int(mod(clock / 1000000000_int64, &
      1000000000_int64))]
    call MPI_Bcast(parts, 2, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
    write (name, '(2a, i0, a, i0)') trim(folder), '/mica-fortran-', parts(1), '-', parts(2)
  end function

  subroutine start_stream(from, seed)
    type(stream), intent(out) :: from
    integer, intent(in) :: seed
    integer :: i
    from%state = 1 + mod(abs(int(seed, int64)) * 7919_int64, 2147483646_int64)
    do i = 1, 8
      call step(from)
    end do
  end subroutine

  subroutine step(from)
    type(stream), intent(inout) :: from
    from%state = mod(from%state * 16807_int64, 2147483647_int64)
  end subroutine

  ! A number from low to high.
  integer function draw(from, low, high)
    type(stream), intent(inout) :: from
    integer, intent(in) :: low, high
    call step(from)
    draw = low + int(mod(from%state / 8, int(high - low + 1, int64)))
  end function
end module
