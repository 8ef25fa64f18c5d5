! The program of sections_*.F90: rounds with random sections. Arguments: rounds, seed.
!
! In a round each rank draws arrays of one type, whose number of dimensions, extents and sections
! may differ from rank to rank, and passes the sections as buffers. The same calls with packed
! copies say what must come out.
#include "test.h"
#include "elements.h"
#include "instances.h"
program sections
#include "use_mpi.h"
  use test
  use integer_1, only: run_integer_1 => run
  use integer_2, only: run_integer_2 => run
  use integer_3, only: run_integer_3 => run
  use integer_4, only: run_integer_4 => run
  use integer_7, only: run_integer_7 => run
  use real_2, only: run_real_2 => run
  use double_1, only: run_double_1 => run
  use double_3, only: run_double_3 => run
  use complex_2, only: run_complex_2 => run
  use text_1, only: run_text_1 => run
  use text_2, only: run_text_2 => run
  use thing_1, only: run_thing_1 => run
  use thing_2, only: run_thing_2 => run
  implicit none
#include "mpi_header.h"
  ! How many instances each element type has.
  integer, parameter :: instances(6) = [5, 1, 2, 1, 2, 2]
  type(stream) :: common, own
  integer :: round, seed, element
  call test_init
  seed = test_argument(2, 1)
  do round = 1, test_argument(1, 20)
    call start_stream(common, 1000 * seed + round)
    call start_stream(own, 1000 * seed + round + 100003 * (test_rank + 1))
    element = draw(common, 0, size(instances) - 1)
    write (test_context, '(a, i0, a, i0, a)') 'seed ', seed, ', round ', round, ','
    select case (10 * element + draw(own, 0, instances(element + 1) - 1))
    case (0)
      call run_integer_1(own, common)
    case (1)
      call run_integer_2(own, common)
    case (2)
      call run_integer_3(own, common)
    case (3)
      call run_integer_4(own, common)
    case (4)
      call run_integer_7(own, common)
    case (10)
      call run_real_2(own, common)
    case (20)
      call run_double_1(own, common)
    case (21)
      call run_double_3(own, common)
    case (30)
      call run_complex_2(own, common)
    case (40)
      call run_text_1(own, common)
    case (41)
      call run_text_2(own, common)
    case (50)
      call run_thing_1(own, common)
    case (51)
      call run_thing_2(own, common)
    end select
  end do
  call test_finish
end program
