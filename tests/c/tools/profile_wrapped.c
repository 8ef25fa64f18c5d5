/* Sends through a function of the program's own, and a broadcast of no bytes to which the root comes
 * late (tests/jobs/profile.rs). Lines that the test names carry a mark. */
#include <mpi.h>
#include <time.h>

enum { NEAR = 30, FAR = 12 };

static int rank, size;

/* A compiler may neither put it into its callers nor jump to MPI_Sendrecv. */
__attribute__((noinline)) static int exchange(int distance)
{
    int out = rank, in = 0;
    int to = (rank + distance) % size, from = (rank + size - distance) % size;
    MPI_Sendrecv(&out, 1, MPI_INT, to, 1, &in, 1, MPI_INT, from, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE); /* site: wrapper */
    return in;
}

__attribute__((noinline)) static int near_ranks(void)
{
    int sum = 0;
    for (int i = 0; i < NEAR; i++)
        sum += exchange(1); /* site: near */
    return sum;
}

__attribute__((noinline)) static int far_ranks(void)
{
    int sum = 0;
    for (int i = 0; i < FAR; i++)
        sum += exchange(2); /* site: far */
    return sum;
}

int main(int argc, char **argv)
{
    const struct timespec pause = {0, 300 * 1000 * 1000};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int sum = near_ranks() + far_ranks();
    if (rank == 0)
        nanosleep(&pause, NULL);
    MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return sum < 0;
}
