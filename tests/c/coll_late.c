/* Collectives to which a known rank comes late, each at a line of its own: the table of `mpiexec
 * --late-arrivals` names the lines and the ranks (tests/jobs/late.rs looks for the words in the
 * comments there). What they compute is checked as ever. Argument: rounds. */
#include "test.h"

#include <time.h>

static void come_late(int rank)
{
    struct timespec time = {0, 20 * 1000 * 1000};
    if (test_rank == rank)
        nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 3;
    int last = test_size - 1, one = 1, sum;
    MPI_Request request, started;
    MPI_Win win;
    int *base;
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_fence(0, win);
    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &started);
    for (int round = 0; round < rounds; round++) {
        come_late(last);
        MPI_Barrier(MPI_COMM_WORLD); /* the last rank */

        come_late(0);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* rank 0 */
        CHECK_INT(sum, test_size, "sum");

        come_late(last);
        MPI_Ibarrier(MPI_COMM_WORLD, &request); /* the last rank, non-blocking */
        MPI_Wait(&request, MPI_STATUS_IGNORE);

        come_late(0);
        sum = 0;
        MPI_Start(&started); /* rank 0, persistent */
        MPI_Wait(&started, MPI_STATUS_IGNORE);
        CHECK_INT(sum, test_size, "sum of the persistent operation");

        come_late(last);
        MPI_Win_fence(0, win); /* the last rank, window */
    }
    MPI_Win_free(&win);
    MPI_Request_free(&started);
    return test_finish();
}
