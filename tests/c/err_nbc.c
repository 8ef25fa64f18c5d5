/* Wrong arguments to non-blocking and persistent collectives are found by the call itself, which
 * leaves no request behind and takes no part in the collective; what goes wrong under way is found
 * on completion. */
#include "test.h"

#define BAD(call, cls) CHECK_CLASS(call, cls, #call)

/* Data that does not fit: the ranks disagree on the amount. The error comes with the completion,
 * where the library notices (Mica promises to), and the communicator goes on. */
static void truncated(MPI_Comm w)
{
    int out[4] = {1, 2, 3, 4}, in[4] = {0}, code, done = 0;
    MPI_Request r;
    for (int way = 0; way < 4; way++) {
        int n = test_rank == 0 ? 4 : 1;
        MPI_Status status;
        if (way < 2)
            MPI_Ibcast(test_rank == 0 ? out : in, n, MPI_INT, 0, w, &r);
        else
            MPI_Bcast_init(test_rank == 0 ? out : in, n, MPI_INT, 0, w, MPI_INFO_NULL, &r);
        if (way >= 2)
            MPI_Start(&r);
        if (way % 2)
            code = MPI_Wait(&r, &status);
        else
            do
                code = MPI_Test(&r, &done, &status);
            while (code == MPI_SUCCESS && !done);
        /* Rank 0 sends to all of at most 4 ranks itself or through a rank that has the error too.
         */
        if (test_rank == 1 || test_rank == 2)
            BAD(code, MPI_ERR_TRUNCATE);
        CHECK(in[1] == 0 && in[2] == 0, "bytes beyond the buffer of a truncated broadcast were written");
        if (way >= 2) {
            CHECK(r != MPI_REQUEST_NULL, "a failed persistent request lost its handle");
            MPI_Request_free(&r);
        } else {
            CHECK(r == MPI_REQUEST_NULL, "a failed request kept its handle");
        }
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    /* mistakes that a library need not notice, and Mica promises to */
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Comm w;
    MPI_Request r;
    MPI_Info none = MPI_INFO_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &w);
    int p = test_size, x = 1, s = 0;
    int *many = calloc((size_t)p, sizeof *many);
    MPI_Request before = MPI_REQUEST_NULL;
    for (int round = 0; round < 10; round++) {
        r = before;
        BAD(MPI_Ibarrier(MPI_COMM_NULL, &r), MPI_ERR_COMM);
        BAD(MPI_Ibcast(&x, 1, MPI_INT, p, w, &r), MPI_ERR_ROOT);
        BAD(MPI_Ibcast(&x, -1, MPI_INT, 0, w, &r), MPI_ERR_COUNT);
        BAD(MPI_Igather(&x, 1, MPI_INT, many, 1, MPI_INT, -1, w, &r), MPI_ERR_ROOT);
        BAD(MPI_Iscatter(many, 1, MPI_INT, &x, 1, MPI_INT, p, w, &r), MPI_ERR_ROOT);
        BAD(MPI_Iallgather(&x, 1, MPI_INT, many, 1, MPI_DATATYPE_NULL, w, &r), MPI_ERR_TYPE);
        BAD(MPI_Iallreduce(&x, many, 1, MPI_INT, MPI_OP_NULL, w, &r), MPI_ERR_OP);
        BAD(MPI_Ireduce(&x, many, 1, MPI_INT, MPI_SUM, p, w, &r), MPI_ERR_ROOT);
        BAD(MPI_Bcast_init(&x, 1, MPI_INT, p, w, none, &r), MPI_ERR_ROOT);
        BAD(MPI_Reduce_init(&x, many, 1, MPI_INT, MPI_SUM, -1, w, none, &r), MPI_ERR_ROOT);
        BAD(MPI_Barrier_init(MPI_COMM_NULL, none, &r), MPI_ERR_COMM);
        CHECK(r == MPI_REQUEST_NULL, "a call that failed left a request");
        if (strict) {
            MPI_Info freed;
            BAD(MPI_Allreduce_init(&x, many, 1, MPI_DATATYPE_NULL, MPI_SUM, w, none, &r), MPI_ERR_TYPE);
            BAD(MPI_Iscan(&x, many, -1, MPI_INT, MPI_SUM, w, &r), MPI_ERR_COUNT);
            BAD(MPI_Iallreduce(&x, many, -1, MPI_INT, MPI_SUM, w, &r), MPI_ERR_COUNT);
            BAD(MPI_Ibarrier(w, NULL), MPI_ERR_ARG);
            BAD(MPI_Ibcast(&x, 1, MPI_INT, 0, w, NULL), MPI_ERR_ARG);
            BAD(MPI_Barrier_init(w, none, NULL), MPI_ERR_ARG);
            MPI_Info_create(&freed);
            MPI_Info gone = freed;
            MPI_Info_free(&freed);
            BAD(MPI_Barrier_init(w, gone, &r), MPI_ERR_INFO);
            BAD(MPI_Iallreduce(&x, &x, 1, MPI_INT, MPI_SUM, w, &r), MPI_ERR_BUFFER);
            MPI_Allreduce_init(&x, &s, 1, MPI_INT, MPI_SUM, w, none, &r);
            MPI_Start(&r);
            BAD(MPI_Start(&r), MPI_ERR_REQUEST); /* it is active */
            MPI_Wait(&r, MPI_STATUS_IGNORE);
            MPI_Request_free(&r);
        }
        /* and the communicator still works, in all forms */
        s = 0;
        CHECK_INT(MPI_Iallreduce(&x, &s, 1, MPI_INT, MPI_SUM, w, &r), MPI_SUCCESS, "Iallreduce after errors");
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        CHECK_INT(s, p, "sum after errors");
    }
    if (strict) {
        truncated(w);
        s = 0;
        MPI_Allreduce(&x, &s, 1, MPI_INT, MPI_SUM, w);
        CHECK_INT(s, p, "sum after truncated broadcasts");
    }
    free(many);
    MPI_Comm_free(&w);
    return test_finish();
}
