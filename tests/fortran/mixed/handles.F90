! Objects that Fortran has made, in the hands of C, and the other way round: handles.c has what is
! called here. Each function of C returns how many of its checks failed.
program handles
  implicit none
  include 'mpif.h'
  integer, external :: c_comm, c_datatype, c_op, c_wait, c_file, c_ignored, c_attribute, c_status
  external :: c_keep_attribute, plain_sum
  integer :: comm, datatype, op, request, file, keyval, rank, size, ierror, failures, total
  integer :: status(MPI_STATUS_SIZE), value(2), got
  integer(MPI_ADDRESS_KIND) :: attribute, extra
  logical :: flag

  failures = 0
  call MPI_Init(ierror)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
  call MPI_Comm_rank(comm, rank, ierror)
  call MPI_Comm_size(comm, size, ierror)
  failures = failures + c_comm(comm, rank, size)

  call MPI_Type_vector(3, 1, 2, MPI_INTEGER, datatype, ierror)
  call MPI_Type_commit(datatype, ierror)
  failures = failures + c_datatype(datatype, MPI_DOUBLE_PRECISION)

  ! An operator of Fortran, applied by a call of C.
  call MPI_Op_create(plain_sum, .true., op, ierror)
  failures = failures + c_op(comm, op, size)
  call MPI_Op_free(op, ierror)

  ! A request of Fortran, completed by C, which gives the status back.
  value = [rank, -1]
  call MPI_Irecv(value(2), 1, MPI_INTEGER, MPI_ANY_SOURCE, 5, comm, request, ierror)
  call MPI_Send(value(1), 1, MPI_INTEGER, mod(rank + 1, size), 5, comm, ierror)
  failures = failures + c_wait(request, status)
  if (request /= MPI_REQUEST_NULL) failures = failures + 1
  if (status(MPI_SOURCE) /= mod(rank + size - 1, size)) failures = failures + 1
  if (value(2) /= status(MPI_SOURCE) .or. status(MPI_TAG) /= 5) failures = failures + 1
  call MPI_Get_count(status, MPI_INTEGER, got, ierror)
  if (got /= 1) failures = failures + 1
  failures = failures + c_status(status)

  ! What is ignored has an address that C can compare.
  failures = failures + c_ignored(MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE, status)

  call MPI_File_open(MPI_COMM_SELF, '/dev/null', MPI_MODE_RDONLY, MPI_INFO_NULL, file, ierror)
  failures = failures + c_file(file)
  call MPI_File_close(file, ierror)
  if (file /= MPI_FILE_NULL) failures = failures + 1

  ! An attribute that Fortran sets is an address in C; one that C sets is that address in Fortran.
  extra = 0
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, keyval, extra, ierror)
  attribute = 4711
  call MPI_Comm_set_attr(comm, keyval, attribute, ierror)
  failures = failures + c_attribute(comm, keyval, 4711)
  call c_keep_attribute(comm, keyval)
  call MPI_Comm_get_attr(comm, keyval, attribute, flag, ierror)
  if (.not. flag .or. attribute /= 12345) failures = failures + 1
  call MPI_Comm_get_attr(comm, MPI_TAG_UB, attribute, flag, ierror)
  if (.not. flag .or. attribute < 32767) failures = failures + 1
  call MPI_Comm_free_keyval(keyval, ierror)

  call MPI_Allreduce(failures, total, 1, MPI_INTEGER, MPI_SUM, comm, ierror)
  if (rank == 0 .and. total == 0) print '(a)', 'No Errors'
  if (failures > 0) print *, 'rank ', rank, ': ', failures, ' failures'
  call MPI_Type_free(datatype, ierror)
  call MPI_Comm_free(comm, ierror)
  call MPI_Finalize(ierror)
  if (total /= 0) stop 1
end program

subroutine plain_sum(input, inout, length, datatype)
  implicit none
  integer :: length, datatype, i
  integer :: input(length), inout(length)
  do i = 1, length
    inout(i) = inout(i) + input(i)
  end do
end subroutine
