/* One rank cannot have a temporary buffer that a collective needs, each of them in turn, or it and
 * all after it: an error at that rank, the right result or an error at the others, and none waits
 * for ever. The next call on the communicator works. Arguments: elements of a block; `inter` for
 * an inter-communicator of two halves; `behind`: the root cannot keep a message of rank 1, which
 * the collective's messages stand behind, so it gives up. */
#include "test.h"
#include "allocator.h"

typedef struct {
    double *in, *out, *expected;
    size_t bytes;
    int *counts, *starts, n;
    MPI_Datatype type; /* MPI_DOUBLE with a gap behind it */
    MPI_Comm comm;
} Arguments;

/* Waits. Where that fails for want of memory before the request is complete, it is waited for again
 * when there is memory; the first error counts. */
static int completed(MPI_Request *request)
{
    int code = MPI_Wait(request, MPI_STATUS_IGNORE);
    if (*request != MPI_REQUEST_NULL) {
        CHECK(code != MPI_SUCCESS, "MPI_Wait leaves the request");
        end_failures();
        CHECK_INT(MPI_Wait(request, MPI_STATUS_IGNORE), MPI_SUCCESS, "MPI_Wait again");
    }
    return code;
}

/* A blocking call, and its non-blocking form. */
#define FORMS(blocking, nonblocking, ...)                                                          \
    static int call_##blocking(const Arguments *a)                                                 \
    {                                                                                              \
        return MPI_##blocking(__VA_ARGS__, a->comm);                                               \
    }                                                                                              \
    static int call_##nonblocking(const Arguments *a)                                              \
    {                                                                                              \
        MPI_Request request = MPI_REQUEST_NULL;                                                    \
        int code = MPI_##nonblocking(__VA_ARGS__, a->comm, &request);                              \
        int end = completed(&request);                                                             \
        return code ? code : end;                                                                  \
    }

FORMS(Bcast, Ibcast, a->out, a->n, a->type, 0)
FORMS(Gather, Igather, a->in, a->n, a->type, a->out, a->n, a->type, 0)
FORMS(Gatherv, Igatherv, a->in, a->n, a->type, a->out, a->counts, a->starts, a->type, 0)
FORMS(Scatter, Iscatter, a->in, a->n, a->type, a->out, a->n, a->type, 0)
FORMS(Scatterv, Iscatterv, a->in, a->counts, a->starts, a->type, a->out, a->n, a->type, 0)
FORMS(Allgather, Iallgather, a->in, a->n, a->type, a->out, a->n, a->type)
FORMS(Allgatherv, Iallgatherv, a->in, a->n, a->type, a->out, a->counts, a->starts, a->type)
FORMS(Alltoall, Ialltoall, a->in, a->n, a->type, a->out, a->n, a->type)
FORMS(Alltoallv, Ialltoallv, a->in, a->counts, a->starts, a->type, a->out, a->counts, a->starts, a->type)
FORMS(Reduce, Ireduce, a->in, a->out, a->n, MPI_DOUBLE, MPI_SUM, 0)
FORMS(Allreduce, Iallreduce, a->in, a->out, a->n, MPI_DOUBLE, MPI_SUM)
FORMS(Reduce_scatter, Ireduce_scatter, a->in, a->out, a->counts, MPI_DOUBLE, MPI_SUM)
FORMS(Reduce_scatter_block, Ireduce_scatter_block, a->in, a->out, a->n, MPI_DOUBLE, MPI_SUM)
FORMS(Scan, Iscan, a->in, a->out, a->n, MPI_DOUBLE, MPI_SUM)
FORMS(Exscan, Iexscan, a->in, a->out, a->n, MPI_DOUBLE, MPI_SUM)

typedef struct {
    const char *name;
    int (*call)(const Arguments *);
} Call;

#define BOTH(blocking, nonblocking) {#blocking, call_##blocking}, {#nonblocking, call_##nonblocking}

static int sum_of_ranks;

/* Those without a root, in which both sides of an inter-communicator do the same. */
static const Call without_root[] = {
    BOTH(Allgather, Iallgather),
    BOTH(Allgatherv, Iallgatherv),
    BOTH(Alltoall, Ialltoall),
    BOTH(Alltoallv, Ialltoallv),
    BOTH(Allreduce, Iallreduce),
    BOTH(Reduce_scatter_block, Ireduce_scatter_block),
};

static const Call calls[] = {
    BOTH(Bcast, Ibcast),
    BOTH(Gather, Igather),
    BOTH(Gatherv, Igatherv),
    BOTH(Scatter, Iscatter),
    BOTH(Scatterv, Iscatterv),
    BOTH(Allgather, Iallgather),
    BOTH(Allgatherv, Iallgatherv),
    BOTH(Alltoall, Ialltoall),
    BOTH(Alltoallv, Ialltoallv),
    BOTH(Reduce, Ireduce),
    BOTH(Allreduce, Iallreduce),
    BOTH(Reduce_scatter, Ireduce_scatter),
    BOTH(Reduce_scatter_block, Ireduce_scatter_block),
    BOTH(Scan, Iscan),
    BOTH(Exscan, Iexscan),
};

/* Makes the call with new results. */
static int perform(const Arguments *a, Call call)
{
    memset(a->out, 0, a->bytes);
    for (int i = 0; i < 2 * a->n && test_rank == 0; i++)
        a->out[i] = i; /* what the root broadcasts */
    return call.call(a);
}

/* A call in which `victim` does not get the block after `left` others, or with `all` none from it
 * on. True if it asked for it. */
static int call_without(const Arguments *a, Call call, int victim, int left, int all)
{
    int sum = -1, failed = 0, code, class;
    if (test_rank == victim)
        fail_blocks(left, all);
    code = perform(a, call);
    if (test_rank == victim)
        failed = end_failures();
    MPI_Error_class(code, &class);
    if (test_rank == victim)
        CHECK(class == MPI_SUCCESS || (failed && class == MPI_ERR_NO_MEM), "MPI_%s: class %d, blocks refused: %d", call.name,
              class, failed);
    CHECK(class != MPI_SUCCESS || !memcmp(a->out, a->expected, a->bytes),
          "MPI_%s, while rank %d has no block %d: a wrong result", call.name, victim, left);
    MPI_Bcast(&failed, 1, MPI_INT, victim, MPI_COMM_WORLD);
    CHECK_INT(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, a->comm), MPI_SUCCESS, call.name);
    CHECK_INT(sum, sum_of_ranks, call.name);
    return failed;
}

static void each_block(const Arguments *a, Call call, int *failures)
{
    CHECK_INT(perform(a, call), MPI_SUCCESS, call.name);
    memcpy(a->expected, a->out, a->bytes);
    for (int victim = 0; victim < test_size; victim++)
        for (int all = 0; all < 2; all++)
            for (int left = 0; call_without(a, call, victim, left, all); left++)
                ++*failures;
}

/* A call during which the root has no block for a message that rank 1 has sent it before, and that
 * it has not received yet. Returns whether it asked for one. */
static int call_behind(const Arguments *a, Call call)
{
    enum { BYTES = 3000 };
    char message[BYTES];
    int code, class, failed = 0, sum = -1;
    CHECK_INT(perform(a, call), MPI_SUCCESS, call.name);
    memcpy(a->expected, a->out, a->bytes);
    if (test_rank == 0)
        fail_blocks(0, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    memset(message, test_rank ? 'm' : 0, BYTES);
    if (test_rank == 1)
        MPI_Send(message, BYTES, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
    code = perform(a, call);
    MPI_Error_class(code, &class);
    CHECK(class != MPI_SUCCESS || !memcmp(a->out, a->expected, a->bytes), "MPI_%s: a wrong result", call.name);
    if (test_rank == 0) {
        failed = end_failures() > 0;
        MPI_Recv(message, BYTES, MPI_CHAR, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(message[0] == 'm' && message[BYTES - 1] == 'm', "MPI_%s: the message behind which it waited", call.name);
        CHECK(class == MPI_SUCCESS || (failed && class == MPI_ERR_NO_MEM), "MPI_%s: class %d, refused: %d", call.name, class, failed);
    }
    CHECK_INT(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, a->comm), MPI_SUCCESS, call.name);
    CHECK_INT(sum, sum_of_ranks, call.name);
    return failed;
}

/* Two halves of the ranks. */
static MPI_Comm halves(void)
{
    MPI_Comm half, inter;
    int middle = test_size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, test_rank < middle, test_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, test_rank < middle ? middle : 0, 0, &inter);
    MPI_Comm_free(&half);
    return inter;
}

int main(int argc, char **argv)
{
    int failures = 0;
    test_init(&argc, &argv);
    Arguments a = {.n = argc > 1 ? atoi(argv[1]) : 1000};
    int is_inter = argc > 2 && !strcmp(argv[2], "inter"), is_behind = argc > 2 && !is_inter;
    a.bytes = 2 * (size_t)test_size * a.n * sizeof(double);
    a.in = test_alloc(a.bytes);
    a.out = test_alloc(a.bytes);
    a.expected = test_alloc(a.bytes);
    for (int i = 0; i < 2 * test_size * a.n; i++)
        a.in[i] = 1000 * test_rank + i;
    a.counts = test_alloc(test_size * sizeof *a.counts);
    a.starts = test_alloc(test_size * sizeof *a.starts);
    for (int i = 0; i < test_size; i++) {
        a.counts[i] = a.n;
        a.starts[i] = i * a.n;
    }
    MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &a.type);
    MPI_Type_commit(&a.type);
    if (is_inter)
        a.comm = halves();
    else
        MPI_Comm_dup(MPI_COMM_WORLD, &a.comm);
    CHECK_INT(MPI_Allreduce(&test_rank, &sum_of_ranks, 1, MPI_INT, MPI_SUM, a.comm), MPI_SUCCESS, "MPI_Allreduce");
    MPI_Comm_set_errhandler(a.comm, MPI_ERRORS_RETURN);
    for (size_t which = 0; is_inter && which < sizeof without_root / sizeof *without_root; which++)
        each_block(&a, without_root[which], &failures);
    for (size_t which = 0; is_behind && which < sizeof calls / sizeof *calls; which++)
        failures += call_behind(&a, calls[which]);
    for (size_t which = 0; !is_inter && !is_behind && which < sizeof calls / sizeof *calls; which++)
        each_block(&a, calls[which], &failures);
    CHECK(failures > 0 || (is_behind && test_rank != 0), "no call asked for memory");
    MPI_Type_free(&a.type);
    MPI_Comm_free(&a.comm);
    free(a.in);
    free(a.out);
    free(a.expected);
    free(a.counts);
    free(a.starts);
    return test_finish();
}
