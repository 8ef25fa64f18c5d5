/* Wrong arguments to point-to-point calls with MPI_ERRORS_RETURN: the right class, a readable
 * message, no harm to what follows. */
#include "test.h"

#define BAD(call, cls) CHECK_CLASS(call, cls, #call)
#define BAD2(call, one, other) CHECK_EITHER(call, one, other, #call)

static int strict; /* checks that MPI does not ask for, but Mica promises: argv[1] is "strict" */

static MPI_Comm comm;

static void arguments(void)
{
    int x = 0, n = test_size, flag;
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Status st;
    MPI_Datatype raw;
    MPI_Type_contiguous(2, MPI_INT, &raw); /* not committed */

    BAD(MPI_Send(&x, 1, MPI_INT, n, 0, comm), MPI_ERR_RANK);
    BAD(MPI_Send(&x, 1, MPI_INT, -77, 0, comm), MPI_ERR_RANK);
    BAD(MPI_Send(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm), MPI_ERR_RANK);
    BAD(MPI_Recv(&x, 1, MPI_INT, n + 5, 0, comm, &st), MPI_ERR_RANK);
    BAD(MPI_Isend(&x, 1, MPI_INT, n, 0, comm, &r), MPI_ERR_RANK);
    BAD(MPI_Irecv(&x, 1, MPI_INT, n, 0, comm, &r), MPI_ERR_RANK);
    BAD(MPI_Ssend(&x, 1, MPI_INT, n, 0, comm), MPI_ERR_RANK);
    BAD(MPI_Probe(n, 0, comm, &st), MPI_ERR_RANK);
    BAD(MPI_Iprobe(n, 0, comm, &flag, &st), MPI_ERR_RANK);
    BAD(MPI_Sendrecv(&x, 1, MPI_INT, n, 0, &x, 1, MPI_INT, 0, 0, comm, &st), MPI_ERR_RANK);

    BAD(MPI_Send(&x, 1, MPI_INT, 0, -5, comm), MPI_ERR_TAG);
    BAD(MPI_Send(&x, 1, MPI_INT, 0, MPI_ANY_TAG, comm), MPI_ERR_TAG);
    BAD(MPI_Recv(&x, 1, MPI_INT, 0, -55, comm, &st), MPI_ERR_TAG);
    BAD(MPI_Irecv(&x, 1, MPI_INT, 0, -55, comm, &r), MPI_ERR_TAG);
    int *ub = NULL;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &flag);
    if (flag && *ub < 2147483647)
        BAD(MPI_Send(&x, 1, MPI_INT, 0, *ub + 1, comm), MPI_ERR_TAG);

    BAD(MPI_Send(&x, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);
    BAD(MPI_Recv(&x, -3, MPI_INT, 0, 0, comm, &st), MPI_ERR_COUNT);
    BAD(MPI_Isend(&x, -1, MPI_INT, 0, 0, comm, &r), MPI_ERR_COUNT);

    BAD(MPI_Send(&x, 1, MPI_DATATYPE_NULL, 0, 0, comm), MPI_ERR_TYPE);
    BAD(MPI_Recv(&x, 1, MPI_DATATYPE_NULL, 0, 0, comm, &st), MPI_ERR_TYPE);
    BAD(MPI_Send(&x, 1, raw, 0, 0, comm), MPI_ERR_TYPE);
    BAD(MPI_Irecv(&x, 1, raw, 0, 0, comm, &r), MPI_ERR_TYPE);

    BAD(MPI_Send(NULL, 1, MPI_INT, 0, 0, comm), MPI_ERR_BUFFER);
    BAD(MPI_Recv(NULL, 1, MPI_INT, 0, 0, comm, &st), MPI_ERR_BUFFER);

    BAD2(MPI_Wait(NULL, &st), MPI_ERR_ARG, MPI_ERR_REQUEST);
    MPI_Type_free(&raw);

    /* datatype constructors */
    MPI_Datatype t;
    int bl[2] = {1, -1}, d[2] = {0, 1};
    BAD(MPI_Type_contiguous(-1, MPI_INT, &t), MPI_ERR_COUNT);
    BAD(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &t), MPI_ERR_TYPE);
    BAD2(MPI_Type_vector(2, -1, 1, MPI_INT, &t), MPI_ERR_ARG, MPI_ERR_COUNT);
    BAD2(MPI_Type_indexed(2, bl, d, MPI_INT, &t), MPI_ERR_ARG, MPI_ERR_COUNT);
    t = MPI_INT;
    BAD(MPI_Type_free(&t), MPI_ERR_TYPE);
    t = MPI_DATATYPE_NULL;
    BAD(MPI_Type_commit(&t), MPI_ERR_TYPE);

    if (strict) { /* a buffer too small for pack and unpack is not overrun */
        char small[12] = {0};
        int pos = 0, two[2] = {-1, -1};
        BAD2(MPI_Pack(two, 2, MPI_INT, small, 4, &pos, comm), MPI_ERR_TRUNCATE, MPI_ERR_ARG);
        CHECK_INT(small[5], 0, "byte past the end of the pack buffer");
        BAD2(MPI_Unpack(small, 4, &pos, two, 2, MPI_INT, comm), MPI_ERR_TRUNCATE, MPI_ERR_ARG);
    }
}

/* A message longer than the receive: truncation, only for this receive; nothing past the end. */
static void truncation(size_t n, int mode)
{
    unsigned char *b = test_alloc(n + 64);
    int me = test_rank, peer = me ^ 1, code;
    MPI_Status st;
    if (me > 1)
        return free(b);
    memset(b, 0x77, n + 64);
    if (me == 1) {
        test_fill(b, n, 1);
        if (mode == 2) /* posted first: tell the sender so */
            MPI_Recv(NULL, 0, MPI_BYTE, 0, 8, comm, &st);
        code = MPI_Send(b, (int)n, MPI_BYTE, peer, 4, comm);
        CHECK(code == MPI_SUCCESS || n > 0, "send of a truncated message: code %d", code);
        MPI_Send(&me, 1, MPI_INT, peer, 5, comm);
    } else {
        MPI_Request r;
        int room = (int)(n / 2), x = -1;
        if (mode == 0) {
            code = MPI_Recv(b, room, MPI_BYTE, 1, 4, comm, &st);
        } else {
            if (mode == 1)
                MPI_Probe(1, 4, comm, &st);
            MPI_Irecv(b, room, MPI_BYTE, mode == 1 ? MPI_ANY_SOURCE : 1, 4, comm, &r);
            if (mode == 2)
                MPI_Send(NULL, 0, MPI_BYTE, 1, 8, comm);
            code = MPI_Wait(&r, &st);
            CHECK(r == MPI_REQUEST_NULL, "request of a truncated receive not freed");
        }
        CHECK_CLASS(code, MPI_ERR_TRUNCATE, "receive of a message longer than the buffer");
        CHECK(test_all(b + room, n + 64 - (size_t)room, 0x77) == n + 64 - (size_t)room,
              "truncated receive of %zu bytes wrote past its end", n);
        MPI_Recv(&x, 1, MPI_INT, 1, 5, comm, &st);
        CHECK_INT(x, 1, "message after a truncated one");
    }
    free(b);
}

/* In a list, the one that failed has its status: MPI_ERR_IN_STATUS. */
static void in_status(void)
{
    if (test_rank > 1)
        return;
    int a[8] = {0}, b[8] = {0}, code;
    MPI_Request r[2];
    MPI_Status st[2];
    if (test_rank == 0) {
        MPI_Irecv(a, 2, MPI_INT, 1, 1, comm, &r[0]);
        MPI_Irecv(b, 8, MPI_INT, 1, 2, comm, &r[1]);
        MPI_Send(NULL, 0, MPI_INT, 1, 3, comm);
        code = MPI_Waitall(2, r, st);
        CHECK_CLASS(code, MPI_ERR_IN_STATUS, "Waitall with one truncated receive");
        CHECK_CLASS(st[0].MPI_ERROR, MPI_ERR_TRUNCATE, "status of the truncated receive");
        CHECK(st[1].MPI_ERROR == MPI_SUCCESS || st[1].MPI_ERROR == MPI_ERR_PENDING,
              "status of the other receive: %d", st[1].MPI_ERROR);
        if (st[1].MPI_ERROR == MPI_ERR_PENDING)
            MPI_Wait(&r[1], &st[1]);
        CHECK_INT(b[7], 7, "data of the other receive");
    } else {
        for (int i = 0; i < 8; i++)
            b[i] = i;
        MPI_Recv(NULL, 0, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);
        MPI_Send(b, 8, MPI_INT, 0, 1, comm);
        MPI_Send(b, 8, MPI_INT, 0, 2, comm);
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm); /* inherits the handler */
    for (int i = 0; i < 20; i++) /* errors leak nothing and break nothing */
        arguments();
    static const size_t sizes[] = {2, 16, 1000, 5000, 20000, 70000, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int mode = 0; mode < 3; mode++)
            truncation(sizes[i], mode);
    in_status();
    MPI_Comm_free(&comm);
    return test_finish();
}
