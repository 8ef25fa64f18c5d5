! The program by the module mpi.
program sum_mpi
  use mpi
  implicit none
  character(MPI_MAX_LIBRARY_VERSION_STRING) :: version
  integer :: rank, size, length, total, error
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Get_library_version(version, length, error)
  if (rank == 0) print '(i0,a,i0,2a)', size, ' ranks, sum ', total, ', ', version(:length)
  call MPI_Finalize(error)
  if (size /= 3 .or. total /= 3 .or. version(:5) /= 'Mica ') stop 1
end program
