/* top_crowded: rank 0 computes for 5 ms again and again, without MPI; all others wait for it in a barrier
 * meanwhile, for ever. Rank 0 prints "ready" before. For the test of `mica top` with more ranks than cores. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank;
    volatile double sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts("ready");
        fflush(stdout);
    }
    for (;;) {
        for (double end = MPI_Wtime() + 5e-3; rank == 0 && MPI_Wtime() < end;)
            sum += 1;
        MPI_Barrier(MPI_COMM_WORLD);
    }
}
