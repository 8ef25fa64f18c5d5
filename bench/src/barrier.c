/* MPI_Barrier on all ranks: microseconds a call on rank 0, the median of 15 batches. */
#include "bench.h"

#include <mpi.h>

static double barriers(long n)
{
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - start;
}

int main(int argc, char **argv)
{
    int rank, size;
    double batch[BATCHES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    barriers(5);
    double once = barriers(10) / 10;
    long n = (long)(0.03 / (once > 1e-8 ? once : 1e-8)) + 5; /* a batch takes some 30 ms */
    MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int b = 0; b < BATCHES; b++)
        batch[b] = barriers(n) / (double)n * 1e6;
    if (rank == 0)
        bench_print("barrier", 0, size, batch, "us", n);
    MPI_Finalize();
    return 0;
}
