/* Partitioned communication: partitions ready in any order, arrival one by one, different divisions
 * at both ends, matching in order of initialization, several threads' worth of requests at once. */
#include "test.h"

static uint64_t seed_of(int rank, int round)
{
    return (uint64_t)(rank * 1000 + round);
}

/* Ring; `sends` partitions at the sender, `receives` at the receiver, `unit` bytes in a piece that
 * divides both. */
static void ring(int sends, int receives, int unit, int rounds)
{
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    size_t n = (size_t)sends * (size_t)receives * (size_t)unit;
    unsigned char *out = test_alloc(n), *in = test_alloc(n);
    MPI_Request s, r;
    MPI_Status status;
    int count = -1, flag;
    MPI_Psend_init(out, sends, receives * unit, MPI_BYTE, to, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &s);
    MPI_Precv_init(in, receives, sends * unit, MPI_BYTE, from, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
    for (int round = 0; round < rounds; round++) {
        memset(in, 0, n);
        MPI_Start(&r);
        MPI_Start(&s);
        test_fill(out, n, seed_of(test_rank, round));
        if (round % 3 == 0) {
            for (int p = sends - 1; p >= 0; p--)
                MPI_Pready(p, s);
        } else if (round % 3 == 1) {
            MPI_Pready_range(0, sends - 1, s);
        } else {
            int *list = test_alloc((size_t)sends * sizeof *list);
            for (int p = 0; p < sends; p++)
                list[p] = (p * 7 + 3) % sends; /* all of them, since 7 divides no number of partitions here */
            MPI_Pready_list(sends, list, s);
            free(list);
        }
        if (round % 2)
            for (int p = 0; p < receives; p++)
                for (flag = 0; !flag;)
                    MPI_Parrived(r, p, &flag);
        MPI_Wait(&r, &status);
        MPI_Wait(&s, MPI_STATUS_IGNORE);
        CHECK(r != MPI_REQUEST_NULL && s != MPI_REQUEST_NULL, "a partitioned request is gone after MPI_Wait");
        CHECK_INT(test_verify(in, n, seed_of(from, round)), n, "first differing byte");
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_INT(count, n, "received bytes");
        CHECK_INT(status.MPI_SOURCE, from, "source");
        CHECK_INT(status.MPI_TAG, 4, "tag");
    }
    MPI_Request_free(&s);
    MPI_Request_free(&r);
    free(out);
    free(in);
}

/* Requests with equal tags match in order of initialization, those of other tags do not disturb. */
static void order(void)
{
    enum { N = 6 };
    int out[N], in[N];
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    MPI_Request s[N], r[N];
    for (int i = 0; i < N; i++) {
        out[i] = test_rank * 100 + i;
        MPI_Psend_init(&out[i], 1, 1, MPI_INT, to, i % 2, MPI_COMM_WORLD, MPI_INFO_NULL, &s[i]);
    }
    for (int i = 1; i < N; i += 2) /* the odd tag first */
        MPI_Precv_init(&in[i], 1, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &r[i]);
    for (int i = 0; i < N; i += 2)
        MPI_Precv_init(&in[i], 1, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[i]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            in[i] = -1, out[i] += 1000;
        for (int i = N - 1; i >= 0; i--) { /* the order of starting does not matter */
            MPI_Start(&s[i]);
            MPI_Pready(0, s[i]);
        }
        MPI_Startall(N, r);
        MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
        MPI_Waitall(N, s, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N; i++)
            CHECK_INT(in[i], (round + 1) * 1000 + from * 100 + i, "value");
    }
    for (int i = 0; i < N; i++) {
        MPI_Request_free(&s[i]);
        MPI_Request_free(&r[i]);
    }
}

/* The receiver waits for something else, which the sender sends only after its partitioned send is
 * complete: the library has to go on with the receive by itself. */
static void progress(void)
{
    enum { P = 4, EACH = 1 << 20 };
    unsigned char *b = test_alloc((size_t)P * EACH);
    MPI_Request r;
    if (test_rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* the receive is started */
        test_fill(b, (size_t)P * EACH, 3);
        MPI_Psend_init(b, P, EACH, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
        MPI_Start(&r);
        MPI_Pready_range(0, P - 1, r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        MPI_Request_free(&r);
    } else if (test_rank == 1) {
        MPI_Precv_init(b, P, EACH, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
        MPI_Start(&r);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        CHECK_INT(test_verify(b, (size_t)P * EACH, 3), P * EACH, "first differing byte");
        MPI_Request_free(&r);
    }
    free(b);
}

/* Partitions of a datatype with gaps, divided differently at both ends. */
static void layouts(int sends, int receives)
{
    enum { ELEMENTS = 24 };
    int out[2 * ELEMENTS], in[2 * ELEMENTS];
    MPI_Datatype gap;
    MPI_Request s, r;
    MPI_Type_create_resized(MPI_INT, 0, 2 * (MPI_Aint)sizeof(int), &gap);
    MPI_Type_commit(&gap);
    for (int i = 0; i < 2 * ELEMENTS; i++)
        out[i] = i, in[i] = -1;
    MPI_Psend_init(out, sends, ELEMENTS / sends, gap, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &s);
    MPI_Precv_init(in, receives, ELEMENTS / receives, gap, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &r);
    MPI_Type_free(&gap);
    MPI_Start(&s);
    MPI_Start(&r);
    MPI_Pready_range(0, sends - 1, s);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Wait(&s, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2 * ELEMENTS; i++)
        CHECK_INT(in[i], i % 2 ? -1 : i, "element");
    MPI_Request_free(&s);
    MPI_Request_free(&r);
}

/* A long partition arrives although the others are not ready: ours does that, the standard leaves it
 * open. */
static void early(void)
{
    enum { P = 3, EACH = 70000 };
    unsigned char *out = test_alloc(P * EACH), *in = test_alloc(P * EACH);
    MPI_Request s, r;
    int flag = 0;
    test_fill(out, P * EACH, 7);
    MPI_Psend_init(out, P, EACH, MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &s);
    MPI_Precv_init(in, P, EACH, MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &r);
    MPI_Start(&r);
    MPI_Start(&s);
    for (int p = P - 1; p >= 0; p--) {
        MPI_Parrived(r, p, &flag);
        CHECK(!flag, "partition %d has arrived before it was ready", p);
        MPI_Pready(p, s);
        for (flag = 0; !flag;)
            MPI_Parrived(r, p, &flag);
        CHECK_INT(memcmp(in + p * EACH, out + p * EACH, EACH), 0, "comparison of a partition that has arrived");
    }
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Wait(&s, MPI_STATUS_IGNORE);
    MPI_Request_free(&s);
    MPI_Request_free(&r);
    free(out);
    free(in);
}

/* Requests that are freed before they were started match no request, at either end. */
static void freed(void)
{
    enum { ROUNDS = 4, LATER = 3 };
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    int out[LATER], in, gone;
    MPI_Request s[LATER], r, unused;
    for (int round = 0; round < 8 * ROUNDS; round++) {
        int frees_send = round & 1, frees_receive = round & 2, late = round & 4;
        if (frees_receive) {
            MPI_Precv_init(&gone, 1, 1, MPI_INT, from, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &unused);
            if (late) /* the other end has made its request, if it does */
                MPI_Barrier(MPI_COMM_WORLD);
            MPI_Request_free(&unused);
        } else if (late) {
            MPI_Barrier(MPI_COMM_WORLD);
        }
        if (frees_send) {
            MPI_Psend_init(&out[0], 1, 1, MPI_INT, to, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &unused);
            MPI_Request_free(&unused);
        }
        out[0] = 100 * test_rank + round, in = gone = -1;
        MPI_Psend_init(&out[0], 1, 1, MPI_INT, to, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &s[0]);
        MPI_Precv_init(&in, 1, 1, MPI_INT, from, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
        MPI_Start(&r);
        MPI_Start(&s[0]);
        MPI_Pready(0, s[0]);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Wait(&s[0], MPI_STATUS_IGNORE);
        CHECK(in == 100 * from + round && gone == -1, "round %d: received %d, a freed request %d", round, in, gone);
        MPI_Request_free(&s[0]);
        MPI_Request_free(&r);
    }
    /* The first of three sends is freed when the second was started: the receive that was made
     * first, and has been started, gets the third one. */
    for (int round = 0; round < ROUNDS; round++) {
        int second = -1;
        MPI_Request r2;
        in = -1;
        for (int i = 0; i < 2; i++) {
            out[i] = 1000 * test_rank + 10 * round + i;
            MPI_Psend_init(&out[i], 1, 1, MPI_INT, to, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &s[i]);
        }
        MPI_Precv_init(&in, 1, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
        MPI_Precv_init(&second, 1, 1, MPI_INT, from, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &r2);
        MPI_Start(&s[1]);
        MPI_Start(&r);
        MPI_Start(&r2);
        MPI_Pready(0, s[1]);
        MPI_Wait(&r2, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD); /* all have matched */
        MPI_Request_free(&s[0]);
        out[2] = 1000 * test_rank + 10 * round + 2;
        MPI_Psend_init(&out[2], 1, 1, MPI_INT, to, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &s[2]);
        MPI_Start(&s[2]);
        MPI_Pready(0, s[2]);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Wait(&s[1], MPI_STATUS_IGNORE);
        MPI_Wait(&s[2], MPI_STATUS_IGNORE);
        CHECK(second == 1000 * from + 10 * round + 1 && in == 1000 * from + 10 * round + 2, "received %d and %d", second, in);
        MPI_Request_free(&s[1]);
        MPI_Request_free(&s[2]);
        MPI_Request_free(&r);
        MPI_Request_free(&r2);
    }
}

/* The memory of this process in KiB. */
static long resident(void)
{
    long all = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return 4 * pages;
}

/* Requests that come and go leave nothing behind. */
static void no_leak(void)
{
    enum { MANY = 20000, MOST = 2048 };
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size, b[2];
    long before = 0;
    MPI_Request s, r;
    for (int i = 0; i < 2 * MANY; i++) {
        if (i == MANY)
            before = resident();
        MPI_Psend_init(&b[0], 1, 1, MPI_INT, to, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &s);
        MPI_Precv_init(&b[1], 1, 1, MPI_INT, from, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
        MPI_Request_free(&r);
        MPI_Request_free(&s);
        MPI_Precv_init(&b[1], 1, 1, MPI_INT, from, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &r); /* no send is ever made */
        MPI_Request_free(&r);
    }
    CHECK(resident() - before < MOST, "%d freed requests take %ld KiB", 3 * MANY, resident() - before);
}

/* MPI_Parrived of what is not active (MPI 5.0, 4.2.2). */
static void parrived(void)
{
    int b[4], flag = 0;
    MPI_Comm comm;
    MPI_Request s, r, other, none = MPI_REQUEST_NULL;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK_INT(MPI_Parrived(none, 0, &flag), MPI_SUCCESS, "Parrived of MPI_REQUEST_NULL");
    CHECK_INT(flag, 1, "flag of MPI_REQUEST_NULL");
    MPI_Precv_init(b, 2, 2, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &r);
    MPI_Psend_init(b, 2, 2, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &s);
    MPI_Recv_init(b, 2, MPI_INT, 0, 0, comm, &other);
    flag = 0;
    CHECK_INT(MPI_Parrived(r, 1, &flag), MPI_SUCCESS, "Parrived of an inactive request");
    CHECK_INT(flag, 1, "flag of an inactive request");
    CHECK_CLASS(MPI_Parrived(r, 7, &flag), MPI_ERR_ARG, "Parrived of partition 7 of 2, inactive");
    CHECK_CLASS(MPI_Parrived(r, -1, &flag), MPI_ERR_ARG, "Parrived of partition -1, inactive");
    CHECK_CLASS(MPI_Parrived(s, 0, &flag), MPI_ERR_REQUEST, "Parrived of an inactive partitioned send");
    CHECK_CLASS(MPI_Parrived(other, 0, &flag), MPI_ERR_REQUEST, "Parrived of an inactive receive");
    MPI_Request_free(&other);
    MPI_Irecv(b, 2, MPI_INT, 0, 0, comm, &other);
    CHECK_CLASS(MPI_Parrived(other, 0, &flag), MPI_ERR_REQUEST, "Parrived of a receive");
    MPI_Cancel(&other);
    MPI_Wait(&other, MPI_STATUS_IGNORE);
    MPI_Request_free(&r);
    MPI_Request_free(&s);
    MPI_Comm_free(&comm);
}

static void errors(void)
{
    int b[4] = {0}, flag;
    MPI_Comm comm;
    MPI_Request s, r;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Precv_init(b, 2, 2, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_INFO_NULL, &r), MPI_ERR_RANK,
                "Precv_init from MPI_ANY_SOURCE");
    CHECK_CLASS(MPI_Precv_init(b, 2, 2, MPI_INT, 0, MPI_ANY_TAG, comm, MPI_INFO_NULL, &r), MPI_ERR_TAG,
                "Precv_init with MPI_ANY_TAG");
    CHECK_CLASS(MPI_Psend_init(b, -2, 2, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &s), MPI_ERR_ARG,
                "Psend_init of -2 partitions");
    CHECK_CLASS(MPI_Psend_init(b, 2, -2, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &s), MPI_ERR_COUNT,
                "Psend_init of -2 elements");
    MPI_Psend_init(b, 2, 2, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &s);
    MPI_Precv_init(b, 2, 2, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &r);
    CHECK_CLASS(MPI_Pready(0, s), MPI_ERR_REQUEST, "Pready before Start");
    MPI_Start(&s);
    CHECK_CLASS(MPI_Pready(2, s), MPI_ERR_ARG, "Pready of partition 2 of 2");
    CHECK_CLASS(MPI_Pready(-1, s), MPI_ERR_ARG, "Pready of partition -1");
    CHECK_CLASS(MPI_Pready_range(1, 0, s), MPI_ERR_ARG, "Pready_range from 1 to 0");
    CHECK_INT(MPI_Pready(1, s), MPI_SUCCESS, "Pready");
    CHECK_CLASS(MPI_Pready(1, s), MPI_ERR_ARG, "Pready of a partition that is ready");
    MPI_Start(&r);
    CHECK_CLASS(MPI_Pready(0, r), MPI_ERR_REQUEST, "Pready of a receive");
    CHECK_CLASS(MPI_Parrived(s, 0, &flag), MPI_ERR_REQUEST, "Parrived of a send");
    CHECK_CLASS(MPI_Parrived(r, 2, &flag), MPI_ERR_ARG, "Parrived of partition 2 of 2");
    MPI_Pready(0, s);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Wait(&s, MPI_STATUS_IGNORE);
    MPI_Request_free(&s);
    MPI_Request_free(&r);
    /* more is sent than fits */
    int two[2] = {8, 9}, one[2] = {-1, -1};
    MPI_Psend_init(two, 2, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &s);
    MPI_Precv_init(one, 1, 1, MPI_INT, 0, 0, comm, MPI_INFO_NULL, &r);
    MPI_Start(&s);
    MPI_Start(&r);
    MPI_Pready_range(0, 1, s);
    CHECK_CLASS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "Wait for more than fits");
    MPI_Wait(&s, MPI_STATUS_IGNORE);
    CHECK(one[0] == 8 && one[1] == -1, "received %d, %d", one[0], one[1]);
    MPI_Request_free(&s);
    MPI_Request_free(&r);
    MPI_Comm_free(&comm);
}

/* To and from MPI_PROC_NULL; no bytes. */
static void null_process(void)
{
    int b[2], flag = 0;
    MPI_Request s, r;
    MPI_Status status;
    MPI_Psend_init(b, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &s);
    MPI_Precv_init(b, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r);
    for (int round = 0; round < 3; round++) {
        MPI_Start(&s);
        MPI_Start(&r);
        MPI_Pready_range(0, 1, s);
        MPI_Parrived(r, 1, &flag);
        CHECK(flag, "nothing has arrived from MPI_PROC_NULL");
        MPI_Wait(&r, &status);
        MPI_Wait(&s, MPI_STATUS_IGNORE);
        CHECK_INT(status.MPI_SOURCE, MPI_PROC_NULL, "source");
    }
    MPI_Request_free(&s);
    MPI_Request_free(&r);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    ring(1, 1, 1000, 6);
    ring(4, 4, 0, 6);
    ring(4, 4, 10, 6);
    ring(6, 2, 1000, 6);
    ring(2, 6, 1000, 6);
    ring(3, 4, 5000, 6);
    ring(8, 8, 8000, 3);
    ring(100, 100, 1, 6); /* short partitions, which may travel together */
    ring(130, 100, 1, 6);
    ring(3, 200, 4, 6);
    order();
    freed();
    no_leak();
    parrived();
    layouts(4, 4);
    layouts(4, 6);
    layouts(2, 12);
    if (test_size > 1)
        progress();
    if (argc > 1) { /* beyond what the standard demands */
        null_process();
        early();
        errors();
    }
    return test_finish();
}
