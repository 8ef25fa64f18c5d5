/* Persistent collectives: every one restarted with new data; all of them prepared on one
 * communicator and started together, completed in any order; blocking and non-blocking ones
 * between; inactive requests; objects freed after the initialization. With the argument `orders`:
 * started in different orders by different ranks. */
#include "collectives.h"

enum { ROUNDS = 4 };
static Coll all[COLL_KINDS];
static MPI_Request requests[COLL_KINDS];

static int empty(const MPI_Status *s)
{
    int count = -1, cancelled = -1;
    MPI_Get_count(s, MPI_BYTE, &count);
    MPI_Test_cancelled(s, &cancelled);
    return s->MPI_SOURCE == MPI_ANY_SOURCE && s->MPI_TAG == MPI_ANY_TAG && count == 0 && cancelled == 0;
}

static void inactive(MPI_Request *r, const char *what)
{
    int done = 0, index = 7;
    MPI_Status status;
    CHECK(*r != MPI_REQUEST_NULL, "%s: the handle of a persistent request is gone", what);
    MPI_Wait(r, &status);
    CHECK(empty(&status), "%s: status of Wait for an inactive request is not empty", what);
    MPI_Test(r, &done, &status);
    CHECK(done && empty(&status), "%s: Test of an inactive request", what);
    MPI_Waitany(1, r, &index, &status);
    CHECK_INT(index, MPI_UNDEFINED, "index of Waitany for an inactive request");
    CHECK(*r != MPI_REQUEST_NULL, "%s: the handle of an inactive request is gone", what);
}

static void one_by_one(void)
{
    static const int counts[] = {0, 1, 30, 5000};
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mica_unknown_hint", "ignored");
    for (int kind = 0; kind < COLL_KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (int form = 0; form < 8; form++) {
                Coll c;
                MPI_Request r;
                if (counts[i] > 1000 && form % 3)
                    continue;
                coll_make(&c, kind, counts[i], (kind + form) % test_size, form & 1 ? 2 : 1, form & 2, form & 4,
                          MPI_COMM_WORLD);
                coll_fill(&c, 3);
                CHECK_INT(coll_call(&c, PERSISTENT, &r), MPI_SUCCESS, coll_names[kind]);
                inactive(&r, coll_names[kind]);
                for (int round = 0; round < ROUNDS; round++) {
                    coll_fill(&c, (unsigned)(round * 100 + form)); /* after the initialization, before the start */
                    CHECK_INT(MPI_Start(&r), MPI_SUCCESS, "MPI_Start");
                    int done = round % 2;
                    if (done)
                        MPI_Wait(&r, MPI_STATUS_IGNORE);
                    while (!done)
                        MPI_Test(&r, &done, MPI_STATUS_IGNORE);
                    coll_check(&c, "persistent");
                }
                inactive(&r, coll_names[kind]);
                MPI_Request_free(&r);
                CHECK(r == MPI_REQUEST_NULL, "handle after Request_free is not null");
                coll_drop(&c);
            }
    MPI_Request r;
    MPI_Barrier_init(MPI_COMM_WORLD, info, &r);
    MPI_Info_free(&info);
    MPI_Start(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Request_free(&r);
}

static void prepare_all(MPI_Comm comm, int n)
{
    for (int kind = 0; kind < COLL_KINDS; kind++) {
        coll_make(&all[kind], kind, n, kind % test_size, 1 + kind % 2, kind / 2 % 2, kind / 3 % 2, comm);
        coll_call(&all[kind], PERSISTENT, &requests[kind]);
    }
}

static void drop_all(void)
{
    for (int kind = 0; kind < COLL_KINDS; kind++) {
        MPI_Request_free(&requests[kind]);
        coll_drop(&all[kind]);
    }
}

static void fill_all(int round)
{
    for (int kind = 0; kind < COLL_KINDS; kind++)
        coll_fill(&all[kind], (unsigned)(round * 50 + kind));
}

static void check_all(const char *what)
{
    for (int kind = 0; kind < COLL_KINDS; kind++)
        coll_check(&all[kind], what);
}

static void together(MPI_Comm comm, int n)
{
    int done, index, indices[COLL_KINDS];
    prepare_all(comm, n);
    for (int round = 0; round < 3 * ROUNDS; round++) {
        fill_all(round);
        MPI_Startall(COLL_KINDS, requests);
        switch (round % 4) {
        case 0:
            MPI_Waitall(COLL_KINDS, requests, MPI_STATUSES_IGNORE);
            break;
        case 1: /* each rank begins elsewhere */
            for (int i = 0; i < COLL_KINDS; i++)
                MPI_Wait(&requests[(i * 3 + test_rank * 5) % COLL_KINDS], MPI_STATUS_IGNORE);
            break;
        case 2:
            for (int i = 0; i < COLL_KINDS; i++) {
                MPI_Waitany(COLL_KINDS, requests, &index, MPI_STATUS_IGNORE);
                CHECK(index >= 0 && index < COLL_KINDS, "Waitany gave index %d", index);
            }
            MPI_Waitany(COLL_KINDS, requests, &index, MPI_STATUS_IGNORE);
            CHECK_INT(index, MPI_UNDEFINED, "index of Waitany when all are inactive");
            break;
        default:
            for (int total = 0; total < COLL_KINDS; total += done) {
                MPI_Waitsome(COLL_KINDS, requests, &done, indices, MPI_STATUSES_IGNORE);
                if (done <= 0) {
                    CHECK(0, "Waitsome completed %d requests", done);
                    break;
                }
            }
        }
        check_all("persistent, together");
    }
    drop_all();
}

/* Started one by one with others between, on the same communicator. */
static void among_others(MPI_Comm comm)
{
    Coll blocking, non_blocking;
    MPI_Request r;
    prepare_all(comm, 70);
    for (int round = 0; round < ROUNDS; round++) {
        fill_all(round);
        for (int kind = 0; kind < COLL_KINDS; kind++) {
            coll_make(&non_blocking, COLL_KINDS - 1 - kind, 25, 0, 1, 0, 1, comm);
            coll_fill(&non_blocking, (unsigned)kind);
            coll_make(&blocking, (kind + round) % COLL_KINDS, 45, test_size - 1, 1, 0, 1, comm);
            coll_fill(&blocking, (unsigned)(kind + 500));
            coll_call(&non_blocking, NONBLOCKING, &r);
            MPI_Start(&requests[kind]);
            coll_call(&blocking, BLOCKING, NULL);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
            coll_check(&blocking, "blocking among persistent");
            coll_check(&non_blocking, "non-blocking among persistent");
            coll_drop(&blocking);
            coll_drop(&non_blocking);
        }
        MPI_Waitall(COLL_KINDS, requests, MPI_STATUSES_IGNORE);
        check_all("persistent among others");
    }
    drop_all();
}

/* The request keeps what it needs. */
static void freed_objects(void)
{
    enum { N = 200 };
    Item in[N], out[N];
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Request r;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_dup(coll_types[1], &type);
    MPI_Op_create(coll_compose_function, 0, &op);
    MPI_Allreduce_init(in, out, N, type, op, comm, MPI_INFO_NULL, &r);
    MPI_Comm_free(&comm);
    MPI_Type_free(&type);
    MPI_Op_free(&op);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            in[i].a = 5;
            in[i].b = (unsigned)(test_rank * round + i);
        }
        MPI_Start(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        for (int i = 0; i < N; i++) {
            Item want = {5, (unsigned)i};
            for (int k = 1; k < test_size; k++) {
                want.b += want.a * (unsigned)(k * round + i);
                want.a *= 5;
            }
            CHECK(out[i].a == want.a && out[i].b == want.b, "round %d with freed objects: item %d differs", round, i);
        }
    }
    MPI_Request_free(&r);
}

static void different_orders(MPI_Comm comm)
{
    prepare_all(comm, 100);
    for (int round = 0; round < ROUNDS; round++) {
        fill_all(round);
        for (int i = 0; i < COLL_KINDS; i++)
            MPI_Start(&requests[(i * (1 + test_rank % 7) + round) % COLL_KINDS]);
        MPI_Waitall(COLL_KINDS, requests, MPI_STATUSES_IGNORE);
        check_all("persistent, started in different orders");
    }
    drop_all();
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    coll_init();
    one_by_one();
    together(MPI_COMM_WORLD, 60);
    together(MPI_COMM_WORLD, 2500);
    among_others(MPI_COMM_WORLD);
    freed_objects();
    if (argc > 1 && !strcmp(argv[1], "orders"))
        different_orders(MPI_COMM_WORLD);
    coll_end();
    return test_finish();
}
