/* Two messages that are received in the other order, by their tags (tests/jobs/profile.rs): what
 * rank 1 does between its receives begins only after what rank 0 does between its sends. */
#include <mpi.h>
#include <time.h>

enum { FIRST = 1, SECOND = 2 };

static void compute(void)
{
    const struct timespec pause = {0, 50 * 1000 * 1000};
    nanosleep(&pause, NULL); /* 50 ms at least, which the test counts on */
}

int main(int argc, char **argv)
{
    int rank, value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Send(&value, 1, MPI_INT, 1, FIRST, MPI_COMM_WORLD);
        compute();
        MPI_Send(&value, 1, MPI_INT, 1, SECOND, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, SECOND, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        compute();
        MPI_Recv(&value, 1, MPI_INT, 0, FIRST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
