! Processes that the program starts: one program and several, their arguments and error codes, a
! section and a reduction between parents and children; and ports by name.
#include "test.h"
program spawn
#include "use_mpi.h"
  use test
  implicit none
#include "mpi_header.h"
  MPI_COMM_T :: parent, family
  character(len=400) :: self
  character(len=20) :: task
  integer :: i
  call test_init
  call get_command_argument(0, self)
  call get_command_argument(1, task)
  call MPI_Comm_get_parent(parent, ierror)
  if (parent /= MPI_COMM_NULL) then
    call be_child
    ! The verdict is the parents'; what fails here is on stderr.
    call MPI_Finalize(ierror)
  else
    call one_program
    call several_programs
    call no_such_program
    call ports
    call test_finish
  end if

contains

  subroutine be_child
    integer :: number, last
    character(len=20) :: second
    ! What comes last has no blanks behind it, and an argument may have some inside.
    call get_command_argument(2, second)
    select case (task)
    case ('alone')
      EXPECT(command_argument_count(), 2, 'arguments of a child')
      CHECK(second == 'two words', 'an argument with a blank')
      number = 7
    case ('first')
      number = 10
    case default
      EXPECT(command_argument_count(), 0, 'MPI_ARGV_NULL')
      number = 1000
    end select
    call exchange(parent, number, last)
    call MPI_Comm_disconnect(parent, ierror)
    CHECK(parent == MPI_COMM_NULL, 'handle after MPI_Comm_disconnect')
    call MPI_Comm_get_parent(parent, ierror)
    CHECK(parent == MPI_COMM_NULL, 'parent after MPI_Comm_disconnect')
  end subroutine

  ! A sum over both groups, and every second element of an array from parent 0 to all children.
  subroutine exchange(inter, number, total)
    MPI_COMM_T :: inter
    integer, intent(in) :: number
    integer, intent(out) :: total
    integer ASYNC :: every(20)
    integer :: root
    logical :: high
    high = parent /= MPI_COMM_NULL
    call MPI_Intercomm_merge(inter, high, family, ierror)
    call MPI_Allreduce(number, total, 1, MPI_INTEGER, MPI_SUM, family, ierror)
    every = 0
    if (.not. high .and. test_rank == 0) every = [(i, i = 1, 20)]
    root = 0
    call MPI_Bcast(every, 20, MPI_INTEGER, root, family, ierror)
    EXPECT(sum(every), 210, 'broadcast from a parent')
    call MPI_Comm_disconnect(family, ierror)
  end subroutine

  subroutine one_program
    MPI_COMM_T :: inter
    character(len=12) :: words(3)
    integer :: codes(2), total, n
    words = ['alone       ', 'two words   ', '            ']
    codes = -1
    call MPI_Comm_spawn(self, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes, ierror)
    CHECK(all(codes == MPI_SUCCESS), 'error codes')
    call MPI_Comm_remote_size(inter, n, ierror)
    EXPECT(n, 2, 'number of children')
    call exchange(inter, 0, total)
    EXPECT(total, 14, 'sum over children')
    call MPI_Comm_disconnect(inter, ierror)
  end subroutine

  subroutine several_programs
    MPI_COMM_T :: inter
    MPI_INFO_T :: infos(2)
    character(len=400) :: programs(2)
    character(len=12) :: words(2, 2)
    integer :: total, most(2)
    programs = self
    infos = MPI_INFO_NULL
    most = [1, 2]
    ! A row for each program: the second has no arguments.
    words = ''
    words(1, 1) = 'first'
    call MPI_Comm_spawn_multiple(2, programs, words, most, infos, 0, MPI_COMM_WORLD, inter, &
      MPI_ERRCODES_IGNORE, ierror)
    call exchange(inter, 0, total)
    EXPECT(total, 2010, 'sum over children of two programs')
    call MPI_Comm_disconnect(inter, ierror)
    call MPI_Comm_spawn_multiple(1, programs, MPI_ARGVS_NULL, most, infos, 0, MPI_COMM_WORLD, &
      inter, MPI_ERRCODES_IGNORE, ierror)
    call exchange(inter, 0, total)
    EXPECT(total, 1000, 'sum over a child without arguments')
    call MPI_Comm_disconnect(inter, ierror)
  end subroutine

  subroutine no_such_program
    MPI_COMM_T :: inter
    integer :: codes(3), error, class
    codes = MPI_SUCCESS
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
    call MPI_Comm_spawn('/no/such/program', MPI_ARGV_NULL, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &
      inter, codes, error)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, ierror)
    call MPI_Error_class(error, class, ierror)
    EXPECT(class, MPI_ERR_SPAWN, 'class of the error')
    CHECK(all(codes /= MPI_SUCCESS), 'codes of an error')
  end subroutine

  ! The first half of the ranks accepts, the other connects.
  subroutine ports
    MPI_COMM_T :: half, inter
    character(len=MPI_MAX_PORT_NAME) :: port
    integer :: total, mine, color
    if (test_size == 1) return
    color = merge(0, 1, test_rank < test_size / 2)
    call MPI_Comm_split(MPI_COMM_WORLD, color, 0, half, ierror)
    port = ''
    if (test_rank == 0) then
      call MPI_Open_port(MPI_INFO_NULL, port, ierror)
      call MPI_Publish_name('  a service ', MPI_INFO_NULL, port, ierror)
    end if
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    if (color == 0) then
      call MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, inter, ierror)
    else
      call MPI_Lookup_name('  a service', MPI_INFO_NULL, port, ierror)
      call MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, inter, ierror)
    end if
    mine = test_rank + 1
    call MPI_Allreduce(mine, total, 1, MPI_INTEGER, MPI_SUM, inter, ierror)
    mine = (test_size / 2) * (test_size / 2 + 1) / 2
    if (color == 0) mine = test_size * (test_size + 1) / 2 - mine
    EXPECT(total, mine, 'sum over the other half')
    call MPI_Comm_disconnect(inter, ierror)
    if (test_rank == 0) then
      call MPI_Unpublish_name('  a service', MPI_INFO_NULL, port, ierror)
      call MPI_Close_port(port, ierror)
    end if
    call MPI_Comm_free(half, ierror)
  end subroutine
end program
