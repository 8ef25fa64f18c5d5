/* Persistent requests: started again and again, inactive between; the wait and test families leave
 * their handles alone and ignore inactive ones. */
#include "test.h"

enum { ROUNDS = 20 };

/* Also what MPICH 5.0 does otherwise (statuses of MPI_Isendrecv and of persistent receives from
 * MPI_PROC_NULL), and errors that the standard lets a library overlook. */
static int strict;

static void check_empty(const MPI_Status *s, const char *what)
{
    int count = -1, cancelled = -1;
    MPI_Get_count(s, MPI_BYTE, &count);
    MPI_Test_cancelled(s, &cancelled);
    CHECK(s->MPI_SOURCE == MPI_ANY_SOURCE && s->MPI_TAG == MPI_ANY_TAG && count == 0 && !cancelled,
          "%s: status is (%d, %d, %d bytes, cancelled %d), expected the empty one", what,
          s->MPI_SOURCE, s->MPI_TAG, count, cancelled);
}

/* Sizes and modes around a ring, with Startall and Waitall. */
static void ring(void)
{
    static const size_t sizes[] = {0, 1, 60, 3000, 50000, 1000000};
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = sizes[k];
        unsigned char *out[2] = {test_alloc(n), test_alloc(n)};
        unsigned char *in[2] = {test_alloc(n), test_alloc(n)};
        MPI_Request r[4];
        MPI_Status s[4];
        MPI_Recv_init(in[0], (int)n, MPI_BYTE, from, 1, MPI_COMM_WORLD, &r[0]);
        MPI_Recv_init(in[1], (int)n, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &r[1]);
        MPI_Send_init(out[0], (int)n, MPI_BYTE, to, 1, MPI_COMM_WORLD, &r[2]);
        MPI_Ssend_init(out[1], (int)n, MPI_BYTE, to, 2, MPI_COMM_WORLD, &r[3]);
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < 2; i++) {
                test_fill(out[i], n, (uint64_t)(test_rank * 1000 + round * 2 + i));
                memset(in[i], 0, n);
            }
            MPI_Startall(4, r);
            MPI_Waitall(4, r, s);
            for (int i = 0; i < 2; i++) {
                int count = -1;
                MPI_Get_count(&s[i], MPI_BYTE, &count);
                CHECK_INT(count, n, "received bytes");
                CHECK_INT(s[i].MPI_SOURCE, from, "source");
                CHECK_INT(s[i].MPI_TAG, i + 1, "tag");
                CHECK_INT(test_verify(in[i], n, (uint64_t)(from * 1000 + round * 2 + i)), n,
                          "first differing byte");
            }
            for (int i = 0; i < 4; i++)
                CHECK(r[i] != MPI_REQUEST_NULL, "request %d is null after MPI_Waitall", i);
        }
        for (int i = 0; i < 4; i++) {
            MPI_Request_free(&r[i]);
            CHECK(r[i] == MPI_REQUEST_NULL, "request %d is not null after MPI_Request_free", i);
        }
        for (int i = 0; i < 2; i++)
            free(out[i]), free(in[i]);
    }
}

/* Every completion call on inactive requests. */
static void inactive(void)
{
    int x = 0, y = 0, flag, index, count, indices[2];
    MPI_Request r[2];
    MPI_Status s[2];
    MPI_Send_init(&x, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r[0]);
    MPI_Recv_init(&y, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r[1]);
    memset(s, 1, sizeof s);
    MPI_Wait(&r[0], &s[0]);
    check_empty(&s[0], "MPI_Wait");
    memset(s, 1, sizeof s), flag = 0;
    MPI_Test(&r[1], &flag, &s[0]);
    CHECK(flag, "MPI_Test on an inactive request says false");
    check_empty(&s[0], "MPI_Test");
    memset(s, 1, sizeof s), flag = 0;
    MPI_Request_get_status(r[1], &flag, &s[0]);
    CHECK(flag, "MPI_Request_get_status on an inactive request says false");
    check_empty(&s[0], "MPI_Request_get_status");
    memset(s, 1, sizeof s);
    MPI_Waitall(2, r, s);
    check_empty(&s[0], "MPI_Waitall");
    check_empty(&s[1], "MPI_Waitall");
    flag = 0;
    MPI_Testall(2, r, &flag, s);
    CHECK(flag, "MPI_Testall on inactive requests says false");
    memset(s, 1, sizeof s), index = 5;
    MPI_Waitany(2, r, &index, &s[0]);
    CHECK_INT(index, MPI_UNDEFINED, "index of MPI_Waitany");
    check_empty(&s[0], "MPI_Waitany");
    memset(s, 1, sizeof s), index = 5, flag = 0;
    MPI_Testany(2, r, &index, &flag, &s[0]);
    CHECK(flag && index == MPI_UNDEFINED, "MPI_Testany gives flag %d, index %d", flag, index);
    check_empty(&s[0], "MPI_Testany");
    count = 5;
    MPI_Waitsome(2, r, &count, indices, s);
    CHECK_INT(count, MPI_UNDEFINED, "outcount of MPI_Waitsome");
    count = 5;
    MPI_Testsome(2, r, &count, indices, s);
    CHECK_INT(count, MPI_UNDEFINED, "outcount of MPI_Testsome");
    for (int i = 0; i < 2; i++) {
        CHECK(r[i] != MPI_REQUEST_NULL, "an inactive request is null now");
        MPI_Request_free(&r[i]);
    }
}

/* One of two is active: each call finds that one, and makes it inactive. */
static void half_active(void)
{
    int x = 0, y = 0, flag, index, count, indices[2];
    MPI_Request r[2], send;
    MPI_Status s[2];
    MPI_Recv_init(&x, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r[0]);
    MPI_Recv_init(&y, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &r[1]);
    MPI_Send_init(&x, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &send);
    for (int round = 0; round < 4 * 5; round++) {
        x = round, y = -1;
        MPI_Start(&r[1]);
        index = -7, flag = 0, count = -7;
        MPI_Testany(2, r, &index, &flag, s);
        CHECK(!flag && index == MPI_UNDEFINED, "MPI_Testany gives flag %d, index %d", flag, index);
        MPI_Testsome(2, r, &count, indices, s);
        CHECK_INT(count, 0, "outcount of MPI_Testsome");
        MPI_Start(&send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        switch (round % 4) {
        case 0:
            MPI_Waitany(2, r, &index, s);
            CHECK_INT(index, 1, "index of MPI_Waitany");
            break;
        case 1:
            MPI_Waitsome(2, r, &count, indices, s);
            CHECK(count == 1 && indices[0] == 1, "MPI_Waitsome gives %d requests", count);
            break;
        case 2:
            for (flag = 0; !flag;)
                MPI_Testany(2, r, &index, &flag, s);
            CHECK_INT(index, 1, "index of MPI_Testany");
            break;
        default:
            for (flag = 0; !flag;)
                MPI_Testall(2, r, &flag, s);
            check_empty(&s[0], "MPI_Testall");
            s[0] = s[1];
        }
        CHECK_INT(s[0].MPI_TAG, 2, "tag");
        CHECK_INT(y, round, "value");
        MPI_Waitany(2, r, &index, s);
        CHECK_INT(index, MPI_UNDEFINED, "index of MPI_Waitany on inactive requests");
    }
    for (int i = 0; i < 2; i++)
        MPI_Request_free(&r[i]);
    MPI_Request_free(&send);
}

static void cancel_and_free(void)
{
    int x = 0, flag = -1, y = 3;
    MPI_Request r;
    MPI_Status s;
    MPI_Recv_init(&x, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r);
    MPI_Start(&r);
    MPI_Cancel(&r);
    MPI_Wait(&r, &s);
    MPI_Test_cancelled(&s, &flag);
    CHECK(flag, "a persistent receive that nothing matches is not cancelled");
    CHECK(r != MPI_REQUEST_NULL, "a persistent request is gone after cancellation");
    MPI_Start(&r); /* and it can be used again */
    MPI_Send(&y, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Wait(&r, &s);
    MPI_Test_cancelled(&s, &flag);
    CHECK(!flag && x == 3, "after a cancellation: cancelled %d, value %d", flag, x);
    MPI_Start(&r); /* freed while active: it goes on */
    MPI_Request_free(&r);
    y = 4;
    MPI_Send(&y, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "a message is left although a freed receive was active");
    CHECK_INT(x, 4, "value of a freed receive");
}

static void to_null_process(void)
{
    MPI_Request r[2];
    MPI_Status s[2];
    MPI_Send_init(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(NULL, 0, MPI_BYTE, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &r[1]);
    for (int round = 0; round < 3; round++) {
        MPI_Startall(2, r);
        MPI_Waitall(2, r, s);
        if (strict)
            CHECK_INT(s[1].MPI_SOURCE, MPI_PROC_NULL, "source of a receive from MPI_PROC_NULL");
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void errors(void)
{
    int x = 0;
    MPI_Request r;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Send_init(&x, 1, MPI_INT, 5, 1, comm, &r), MPI_ERR_RANK, "Send_init to rank 5 of 1");
    CHECK_CLASS(MPI_Send_init(&x, 1, MPI_INT, 0, -5, comm, &r), MPI_ERR_TAG, "Send_init with tag -5");
    CHECK_CLASS(MPI_Recv_init(&x, -1, MPI_INT, 0, 1, comm, &r), MPI_ERR_COUNT, "Recv_init of -1");
    MPI_Recv_init(&x, 1, MPI_INT, 0, 1, comm, &r);
    MPI_Start(&r);
    CHECK_CLASS(MPI_Start(&r), MPI_ERR_REQUEST, "Start of an active request");
    MPI_Cancel(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Request_free(&r);
    CHECK_CLASS(MPI_Start(&r), MPI_ERR_REQUEST, "Start of MPI_REQUEST_NULL");
    MPI_Irecv(&x, 1, MPI_INT, 0, 1, comm, &r);
    CHECK_CLASS(MPI_Start(&r), MPI_ERR_REQUEST, "Start of a request that is not persistent");
    MPI_Cancel(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    /* an error of the operation leaves the request inactive */
    int two[2] = {1, 2};
    MPI_Recv_init(&x, 1, MPI_INT, 0, 1, comm, &r);
    MPI_Start(&r);
    MPI_Send(two, 2, MPI_INT, 0, 1, comm);
    CHECK_CLASS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "Wait for too long a message");
    MPI_Start(&r);
    MPI_Send(two, 1, MPI_INT, 0, 1, comm);
    CHECK_INT(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_SUCCESS, "Wait after an error");
    MPI_Request_free(&r);
    MPI_Comm_free(&comm);
}

#if MPI_VERSION >= 4
/* Isendrecv with both halves outstanding, and Isendrecv_replace. */
static void sendrecv(void)
{
    static const int sizes[] = {0, 8, 5000, 400000};
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int n = sizes[k], count = -1;
        unsigned char *out = test_alloc((size_t)n), *in = test_alloc((size_t)n);
        MPI_Request r[2];
        MPI_Status s[2];
        test_fill(out, (size_t)n, (uint64_t)test_rank);
        MPI_Isendrecv(out, n, MPI_BYTE, to, 1, in, n, MPI_BYTE, from, 1, MPI_COMM_WORLD, &r[0]);
        unsigned char *both = test_alloc((size_t)n);
        test_fill(both, (size_t)n, (uint64_t)(100 + test_rank));
        MPI_Isendrecv_replace(both, n, MPI_BYTE, to, 2, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &r[1]);
        MPI_Waitall(2, r, s);
        for (int i = 0; i < 2; i++) {
            if (strict) {
                MPI_Get_count(&s[i], MPI_BYTE, &count);
                CHECK_INT(count, n, "received bytes");
                CHECK_INT(s[i].MPI_SOURCE, from, "source");
                CHECK_INT(s[i].MPI_TAG, i + 1, "tag");
            }
            CHECK(r[i] == MPI_REQUEST_NULL, "request %d is not null", i);
        }
        CHECK_INT(test_verify(in, (size_t)n, (uint64_t)from), n, "first differing byte");
        CHECK_INT(test_verify(both, (size_t)n, (uint64_t)(100 + from)), n,
                  "first differing byte of replaced data");
        free(out), free(in), free(both);
    }
    int x = 4;
    MPI_Request r;
    MPI_Status s;
    MPI_Isendrecv_replace(&x, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, &s);
    CHECK(x == 4, "value %d", x);
    CHECK(!strict || s.MPI_SOURCE == MPI_PROC_NULL, "source %d", s.MPI_SOURCE);
}
#endif

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    strict = argc > 1;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    ring();
    inactive();
    half_active();
    cancel_and_free();
    to_null_process();
    if (strict)
        errors();
#if MPI_VERSION >= 4
    sendrecv();
#endif
    return test_finish();
}
