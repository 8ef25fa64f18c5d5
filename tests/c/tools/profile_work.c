/* Every rank computes for 100 ms, however many there are: together they compute longer, the more there are
 * (tests/jobs/profile.rs). */
#include <mpi.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    double end = now() + 0.1;
    while (now() < end)
        ;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
