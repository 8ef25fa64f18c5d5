/* The memory that a collective needs on a node cannot be had, at all ranks or at the first alone:
 * that is an error at every rank, and none waits forever. What needs no memory works before and
 * after. Argument: all, or one. */
#include "test.h"
#include "refusals.h"
#include <time.h>

enum { ELEMENTS = 128, ROUNDS = 6 };

static void check_without_memory(MPI_Comm comm)
{
    double own = test_rank, sum = -1;
    /* The others wait for so long that they look for what the last rank has called: they must not
     * find what it called two laps of the slots earlier, if the calls between have failed. */
    struct timespec moment = {0, 1000000};
    if (test_rank == test_size - 1)
        nanosleep(&moment, NULL);
    CHECK_INT(MPI_Barrier(comm), MPI_SUCCESS, "MPI_Barrier");
    CHECK_INT(MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, comm), MPI_SUCCESS,
              "a short MPI_Allreduce");
    CHECK_INT(sum, test_size * (test_size - 1) / 2, "its sum");
}

/* Calls that need memory: the last one at the root alone. */
enum { ALLREDUCE, IALLREDUCE, SCATTER, CALLS };

static int call(int which, double *own, double *sum, MPI_Comm comm)
{
    MPI_Request request;
    if (which == ALLREDUCE)
        return MPI_Allreduce(own, sum, ELEMENTS, MPI_DOUBLE, MPI_SUM, comm);
    if (which == SCATTER)
        return MPI_Scatter(own, ELEMENTS, MPI_DOUBLE, sum, ELEMENTS, MPI_DOUBLE, 0, comm);
    MPI_Iallreduce(own, sum, ELEMENTS, MPI_DOUBLE, MPI_SUM, comm, &request);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    double sum[ELEMENTS], *own;
    MPI_Comm comm;
    test_init(&argc, &argv);
    int is_refused = argc < 2 || !strcmp(argv[1], "all") || test_rank == 0, class;
    own = test_alloc((size_t)test_size * ELEMENTS * sizeof *own);
    memset(own, 0, (size_t)test_size * ELEMENTS * sizeof *own);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    check_without_memory(comm);
    check_without_memory(MPI_COMM_WORLD); /* which the verdict needs */
    if (is_refused)
        CHECK_INT(refusals_begin("memory"), 0, "the refusal of memory");
    for (int i = 0; i < ROUNDS * CALLS; i++) {
        int which = i % CALLS;
        MPI_Error_class(call(which, own, sum, comm), &class);
        if (is_refused && (which != SCATTER || test_rank == 0))
            CHECK(class == MPI_ERR_NO_MEM, "call %d without memory: class %d", which, class);
        else
            CHECK(class != MPI_SUCCESS, "call %d: rank 0 had no memory", which);
        check_without_memory(comm);
    }
    MPI_Comm_free(&comm);
    free(own);
    return test_finish();
}
