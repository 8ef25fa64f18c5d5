/* Exits with 0 if the ranks agree on a sum and the library is Mica. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, size, length, sum = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Get_library_version(version, &length);
    if (rank == 0)
        printf("%d ranks, sum %d, %s\n", size, sum, version);
    MPI_Finalize();
    return size == 3 && sum == 3 && strncmp(version, "Mica ", 5) == 0 ? 0 : 1;
}
