/* Every rank says hello. Build: mpicc hello.c -o hello. Run: mpiexec -n 4 ./hello */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, length;
    char node[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(node, &length);
    printf("hello from rank %d of %d on %s\n", rank, size, node);
    MPI_Finalize();
    return 0;
}
