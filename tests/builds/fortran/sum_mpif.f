C     The program by mpif.h, in fixed form.
      program summpif
      implicit none
      include 'mpif.h'
      character*(MPI_MAX_LIBRARY_VERSION_STRING) version
      integer rank, size, length, total, error
      call MPI_INIT(error)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, size, error)
      call MPI_ALLREDUCE(rank, total, 1, MPI_INTEGER, MPI_SUM,
     &    MPI_COMM_WORLD, error)
      call MPI_GET_LIBRARY_VERSION(version, length, error)
      if (rank .eq. 0) print '(i0,a,i0,2a)', size, ' ranks, sum ',
     &    total, ', ', version(1:length)
      call MPI_FINALIZE(error)
      if (size .ne. 3 .or. total .ne. 3) stop 1
      if (version(1:5) .ne. 'Mica ') stop 1
      end
