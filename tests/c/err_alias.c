/* Send and receive buffers that share bytes, on one rank: that rank gets MPI_ERR_BUFFER, the others
 * get their data, no rank waits for ever, and the communicator still works. Buffers that interleave
 * without sharing a byte are right. */
#include "collectives.h"

enum { MOST = 60000 };

static int *area;
static int *counts, *displs, *bytes;
static MPI_Datatype *types;

/* The call with `n` integers to or from each, of which this rank has those it sends at `send` and
 * its result at `recv`. */
static int call(int kind, int form, int *send, int *recv, int n, int root, MPI_Comm w, MPI_Request *request)
{
    Coll dummy = {.comm = w}, *c = &dummy;
    for (int i = 0; i < test_size; i++) {
        counts[i] = n;
        displs[i] = i * n;
        bytes[i] = i * n * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    MPI_Datatype t = MPI_INT;
    switch (kind) {
    case GATHER:
        return COLL_CALL(Gather, Igather, send, n, t, recv, n, t, root);
    case GATHERV:
        return COLL_CALL(Gatherv, Igatherv, send, n, t, recv, counts, displs, t, root);
    case SCATTER:
        return COLL_CALL(Scatter, Iscatter, send, n, t, recv, n, t, root);
    case SCATTERV:
        return COLL_CALL(Scatterv, Iscatterv, send, counts, displs, t, recv, n, t, root);
    case ALLGATHER:
        return COLL_CALL(Allgather, Iallgather, send, n, t, recv, n, t);
    case ALLGATHERV:
        return COLL_CALL(Allgatherv, Iallgatherv, send, n, t, recv, counts, displs, t);
    case ALLTOALL:
        return COLL_CALL(Alltoall, Ialltoall, send, n, t, recv, n, t);
    case ALLTOALLV:
        return COLL_CALL(Alltoallv, Ialltoallv, send, counts, displs, t, recv, counts, displs, t);
    case ALLTOALLW:
        return COLL_CALL(Alltoallw, Ialltoallw, send, counts, bytes, types, recv, counts, bytes, types);
    case REDUCE:
        return COLL_CALL(Reduce, Ireduce, send, recv, n, t, MPI_SUM, root);
    case ALLREDUCE:
        return COLL_CALL(Allreduce, Iallreduce, send, recv, n, t, MPI_SUM);
    case REDUCE_SCATTER:
        return COLL_CALL(Reduce_scatter, Ireduce_scatter, send, recv, counts, t, MPI_SUM);
    case REDUCE_SCATTER_BLOCK:
        return COLL_CALL(Reduce_scatter_block, Ireduce_scatter_block, send, recv, n, t, MPI_SUM);
    case SCAN:
        return COLL_CALL(Scan, Iscan, send, recv, n, t, MPI_SUM);
    default:
        return COLL_CALL(Exscan, Iexscan, send, recv, n, t, MPI_SUM);
    }
}

/* Integers that the call sends, and those that it receives, on a rank where both count. */
static int sends(int kind, int n)
{
    int all = kind == SCATTER || kind == SCATTERV || (kind >= ALLTOALL && kind <= ALLTOALLW) || kind == REDUCE_SCATTER ||
              kind == REDUCE_SCATTER_BLOCK;
    return all ? n * test_size : n;
}

static int receives(int kind, int n)
{
    int all = kind == GATHER || kind == GATHERV || kind == ALLGATHER || kind == ALLGATHERV ||
              (kind >= ALLTOALL && kind <= ALLTOALLW);
    return all ? n * test_size : n;
}

static int is_rooted(int kind)
{
    return kind == GATHER || kind == GATHERV || kind == SCATTER || kind == SCATTERV || kind == REDUCE;
}

/* The first integer of the result, where it is known: every rank sends its number plus one. */
static int expected(int kind, int root)
{
    int sum = test_size * (test_size + 1) / 2;
    switch (kind) {
    case SCATTER: case SCATTERV:
        return root + 1;
    case REDUCE: case ALLREDUCE: case REDUCE_SCATTER: case REDUCE_SCATTER_BLOCK:
        return sum;
    case SCAN:
        return (test_rank + 1) * (test_rank + 2) / 2;
    case EXSCAN:
        return test_rank * (test_rank + 1) / 2;
    default:
        return 1;
    }
}

/* `shift`: how far the result's first integer lies behind the first one that is sent, on rank
 * `victim`. */
static void one(int kind, int form, int n, int victim, int shift, MPI_Comm w)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int *send = area + MOST * test_size, *recv = area;
    int out = sends(kind, n), in = receives(kind, n), wrong = test_rank == victim;
    if (wrong)
        recv = send + shift;
    for (int i = 0; i < in; i++)
        recv[i] = -1;
    for (int i = 0; i < out; i++)
        send[i] = test_rank + 1;
    int code = call(kind, form, send, recv, n, victim, w, &request);
    if (wrong) {
        char text[MPI_MAX_ERROR_STRING];
        int len;
        CHECK_CLASS(code, MPI_ERR_BUFFER, coll_names[kind]);
        MPI_Error_string(code, text, &len);
        CHECK(strstr(text, "sendbuf") && strstr(text, "recvbuf"), "%s: '%s' does not name the arguments", coll_names[kind], text);
    } else {
        CHECK_INT(code, MPI_SUCCESS, coll_names[kind]);
        if (form == NONBLOCKING)
            CHECK_INT(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, coll_names[kind]);
        if (!is_rooted(kind) || kind == SCATTER || kind == SCATTERV)
            if (kind != EXSCAN || test_rank > 0) {
                CHECK_INT(recv[0], expected(kind, victim), coll_names[kind]);
                CHECK_INT(recv[in - 1], in > n ? test_size : expected(kind, victim), coll_names[kind]);
            }
    }
    int sum = 0;
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, w);
    CHECK_INT(sum, test_size, "an allreduce after the error");
}

/* Columns of one matrix: every second integer is sent, the others are received into. */
static void interleaved(MPI_Comm w)
{
    enum { N = 50 };
    MPI_Datatype column;
    MPI_Type_vector(N, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    int *both = test_alloc(2 * N * (size_t)test_size * sizeof *both);
    for (int i = 0; i < 2 * N * test_size; i++)
        both[i] = i % 2 ? -1 : test_rank;
    CHECK_INT(MPI_Bcast(both, 1, column, 0, w), MPI_SUCCESS, "Bcast of a column");
    for (int i = 0; i < N; i++)
        both[2 * i] = test_rank;
    MPI_Datatype wide;
    MPI_Type_create_resized(column, 0, 2 * N * (MPI_Aint)sizeof(int), &wide);
    MPI_Type_commit(&wide);
    CHECK_INT(MPI_Allgather(both, 1, column, both + 1, 1, wide, w), MPI_SUCCESS, "Allgather between columns");
    for (int i = 0; i < test_size; i++)
        CHECK_INT(both[2 * N * i + 1], i, "an integer of the other column");
    CHECK_INT(MPI_Alltoall(both, 1, wide, both + 1, 1, wide, w), MPI_SUCCESS, "Alltoall between columns");
    CHECK_INT(MPI_Gather(both, 1, column, both + 1, 1, wide, 0, w), MPI_SUCCESS, "Gather between columns");
    /* Side by side. */
    CHECK_INT(MPI_Allreduce(both, both + N, N, MPI_INT, MPI_SUM, w), MPI_SUCCESS, "Allreduce of neighbours");
    MPI_Type_free(&column);
    MPI_Type_free(&wide);
    free(both);
}

int main(int argc, char **argv)
{
    static const int lengths[] = {1, 30, 3000, MOST};
    MPI_Comm w;
    test_init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &w);
    MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN);
    size_t p = (size_t)test_size;
    area = test_alloc(3 * MOST * p * sizeof *area);
    counts = test_alloc(p * sizeof *counts);
    displs = test_alloc(p * sizeof *displs);
    bytes = test_alloc(p * sizeof *bytes);
    types = test_alloc(p * sizeof *types);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = GATHER; kind < COLL_KINDS; kind++)
            for (int form = BLOCKING; form <= NONBLOCKING; form++) {
                int n = lengths[i], last = sends(kind, n) - 1, before = receives(kind, n) - 1;
                one(kind, form, n, test_size - 1, 0, w);
                one(kind, form, n, 0, last, w);
                one(kind, form, n, test_size / 2, -before, w);
            }
    interleaved(w);
    free(area);
    free(counts);
    free(displs);
    free(bytes);
    free(types);
    MPI_Comm_free(&w);
    return test_finish();
}
