/* top_poll: ranks that poll, for the tests of `mica top`; rank 0 prints "ready" before. To be run with 3
 * ranks, or with one, which tests for itself.
 *
 *   rank 0   tests a receive from rank 1 with tag 7 by MPI_Test, for ever
 *   rank 1   probes by MPI_Iprobe for a message of anyone with tag 5, for ever
 *   rank 2   has tested a receive 100,000 times, and computes now, without MPI */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, flag = 0, word;
    volatile double sum = 0;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    switch (rank) {
    case 0:
        puts("ready");
        fflush(stdout);
        MPI_Irecv(&word, 1, MPI_INT, 1 % size, 7, MPI_COMM_WORLD, &request);
        while (!flag)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        break;
    case 1:
        while (!flag)
            MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Irecv(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 100000; i++)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        for (;;)
            sum += 1;
    }
    MPI_Finalize();
    return 0;
}
