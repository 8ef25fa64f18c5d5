/* top: ranks come to where they stay, for the tests of `mica top`; rank 0 prints "ready" before.
 * To be run with 3 ranks.
 *
 *   rank 1   has sent 1,000 messages of 8 bytes to rank 0; waits in MPI_Recv for rank 0, tag 7
 *   rank 2   has sent 5 messages to rank 0, of which 4 are unexpected; waits in MPI_Barrier
 *   rank 0   has sent nothing; stays outside of MPI */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;
    double in = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    switch (rank) {
    case 0:
        for (int i = 0; i < 1000; i++)
            MPI_Recv(&in, 1, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&in, 1, MPI_DOUBLE, 2, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        puts("ready");
        fflush(stdout);
        for (;;)
            pause();
    case 1:
        for (int i = 0; i < 1000; i++)
            MPI_Send(&in, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD);
        MPI_Recv(&in, 1, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    default:
        for (int i = 0; i < 5; i++)
            MPI_Send(&in, 1, MPI_DOUBLE, 0, i < 4 ? 8 : 9, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
