! What the programs of calls.py report to the recorder (recorder.h): which call comes next, what
! came back from it, and what a callback sees.
module reports
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: open_record, next, back, back_address, callback

  ! A value, or the elements of an array, in the line of the call or of the callback.
  interface back
    module procedure back_integer, back_wide, back_logical, back_text
    module procedure back_integers, back_wides, back_logicals
  end interface

  interface
    subroutine recorder_open(path, block, bytes) bind(C)
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr), value :: block
      integer(c_size_t), value :: bytes
    end subroutine
    ! The number of the next call, the code that it returns, and whether its results are special.
    subroutine next(number, code, special) bind(C, name="recorder_next")
      import
      integer(c_int), value :: number, code, special
    end subroutine
    subroutine recorder_callback(name) bind(C)
      import
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
    subroutine recorder_back(name, element, value) bind(C)
      import
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: element
      integer(c_long_long), value :: value
    end subroutine
    subroutine recorder_back_address(name, address) bind(C)
      import
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: address
    end subroutine
    subroutine recorder_back_text(name, text, length) bind(C)
      import
      character(kind=c_char), intent(in) :: name(*), text(*)
      integer(c_int), value :: length
    end subroutine
  end interface

contains

  subroutine open_record(block)
    integer, target, intent(in) :: block(:, :)
    character(len=1000) :: path
    call get_command_argument(1, path)
    call recorder_open(trim(path) // c_null_char, c_loc(block), &
        storage_size(block) / 8 * size(block, kind=c_size_t))
  end subroutine

  ! Begins the line of a callback.
  subroutine callback(name)
    character(len=*), intent(in) :: name
    call recorder_callback(name // c_null_char)
  end subroutine

  subroutine back_integer(name, value)
    character(len=*), intent(in) :: name
    integer, intent(in) :: value
    call recorder_back(name // c_null_char, 0, int(value, c_long_long))
  end subroutine

  subroutine back_wide(name, value)
    character(len=*), intent(in) :: name
    integer(c_long_long), intent(in) :: value
    call recorder_back(name // c_null_char, 0, value)
  end subroutine

  ! A LOGICAL is what the compiler takes for it, and has the compiler's own bits.
  subroutine back_logical(name, value)
    character(len=*), intent(in) :: name
    logical, intent(in) :: value
    call recorder_back(name // c_null_char, 0, logical_number(value))
  end subroutine

  integer(c_long_long) function logical_number(value)
    logical, intent(in) :: value
    logical_number = merge(1, 0, value)
    if (transfer(value, 0) /= logical_number) logical_number = -1
  end function

  subroutine back_integers(name, value)
    character(len=*), intent(in) :: name
    integer, intent(in) :: value(:)
    call back_wides(name, int(value, c_long_long))
  end subroutine

  subroutine back_wides(name, value)
    character(len=*), intent(in) :: name
    integer(c_long_long), intent(in) :: value(:)
    integer :: i
    do i = 1, size(value)
      call recorder_back(name // c_null_char, i - 1, value(i))
    end do
  end subroutine

  subroutine back_logicals(name, value)
    character(len=*), intent(in) :: name
    logical, intent(in) :: value(:)
    integer :: i
    do i = 1, size(value)
      call recorder_back(name // c_null_char, i - 1, logical_number(value(i)))
    end do
  end subroutine

  ! Where an address lies in the block, or what it stands for.
  subroutine back_address(name, address)
    character(len=*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    call recorder_back_address(name // c_null_char, address)
  end subroutine

  subroutine back_text(name, text)
    character(len=*), intent(in) :: name, text
    call recorder_back_text(name // c_null_char, text, len(text))
  end subroutine

end module
