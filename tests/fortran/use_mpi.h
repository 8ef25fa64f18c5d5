#if defined(STYLE_F08)
  use mpi_f08
#elif defined(STYLE_MPI)
  use mpi
#endif
