! Exits with 0 if the ranks agree on a sum and the library is Mica: by the module mpi_f08.
program sum_f08
  use mpi_f08
  implicit none
  character(MPI_MAX_LIBRARY_VERSION_STRING) :: version
  integer :: rank, size, length, total
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Get_library_version(version, length)
  if (rank == 0) print '(i0,a,i0,2a)', size, ' ranks, sum ', total, ', ', version(:length)
  call MPI_Finalize()
  if (size /= 3 .or. total /= 3 .or. version(:5) /= 'Mica ') stop 1
end program
