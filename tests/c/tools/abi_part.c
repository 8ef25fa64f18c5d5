/* A part of a program, a shared library: the size of MPI_COMM_WORLD, by the ABI that it was compiled for. */
#include <mpi.h>

int PART(void);

int PART(void)
{
    int size = -1;
    return MPI_Comm_size(MPI_COMM_WORLD, &size) == MPI_SUCCESS ? size : -1;
}
