/* Non-blocking collectives: every one alone; all of them under way on one communicator, completed
 * in any order by any of the completion calls; a hundred and more in flight; mixed with point to
 * point and with blocking collectives; on several communicators, started in different orders;
 * objects freed while they are in use. */
#include "collectives.h"

static unsigned here; /* each rank draws its own numbers from it */

/* A test, a wait, the status: whatever the call, the collective is there afterwards. */
static void complete(Coll *c, MPI_Request *r, const char *what)
{
    int done = 0;
    MPI_Status status;
    switch (coll_random(&here) % 3) {
    case 0:
        while (!done)
            MPI_Test(r, &done, &status);
        break;
    case 1:
        while (!done)
            MPI_Request_get_status(*r, &done, &status);
        CHECK(*r != MPI_REQUEST_NULL, "%s: Request_get_status took the request away", what);
        MPI_Wait(r, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Wait(r, MPI_STATUS_IGNORE);
    }
    CHECK(*r == MPI_REQUEST_NULL, "%s: the handle of a completed request is not null", what);
    coll_check(c, what);
}

static void alone(MPI_Comm comm)
{
    static const int counts[] = {0, 1, 3, 40, 700, 6000};
    MPI_Request r;
    Coll c;
    unsigned seed = 1;
    for (int kind = 0; kind < COLL_KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (int form = 0; form < 8; form++) {
                if (counts[i] > 700 && form % 3)
                    continue;
                int root = (int)(seed % (unsigned)test_size);
                coll_make(&c, kind, counts[i], root, form & 1 ? 2 : 1, form & 2, form & 4, comm);
                coll_fill(&c, seed++);
                CHECK_INT(coll_call(&c, NONBLOCKING, &r), MPI_SUCCESS, coll_names[kind]);
                complete(&c, &r, "alone");
                coll_drop(&c);
            }
}

enum { MANY = 136 };
static Coll many[MANY];
static MPI_Request requests[MANY];

static void start_all(int n, int count, unsigned seed, MPI_Comm comm)
{
    for (int i = 0; i < n; i++) {
        coll_make(&many[i], i % COLL_KINDS, count, i % test_size, 1 + i % 2, i / 2 % 2, i / 4 % 2, comm);
        coll_fill(&many[i], seed + (unsigned)i);
        coll_call(&many[i], NONBLOCKING, &requests[i]);
    }
}

static void check_all(int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL, "%s: request %d is not null", what, i);
        coll_check(&many[i], what);
        coll_drop(&many[i]);
    }
}

/* n collectives on one communicator, completed in seven ways. */
static void together(int n, int count, MPI_Comm comm)
{
    int indices[MANY], done, index, order[MANY];
    for (int way = 0; way < 7; way++) {
        start_all(n, count, 1000u * (unsigned)way, comm);
        done = 0;
        switch (way) {
        case 0:
            MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
            break;
        case 1: /* the youngest first */
            for (int i = n; i-- > 0;)
                MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            break;
        case 2: /* every rank in an order of its own */
            for (int i = 0; i < n; i++)
                order[i] = i;
            for (int i = n; i > 1; i--) {
                int j = (int)(coll_random(&here) % (unsigned)i), t = order[i - 1];
                order[i - 1] = order[j];
                order[j] = t;
            }
            for (int i = 0; i < n; i++)
                MPI_Wait(&requests[order[i]], MPI_STATUS_IGNORE);
            break;
        case 3:
            for (int i = 0; i < n; i++) {
                MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
                CHECK(index >= 0 && index < n, "Waitany gave index %d of %d", index, n);
            }
            MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
            CHECK_INT(index, MPI_UNDEFINED, "index of Waitany without active requests");
            break;
        case 4:
            for (int total = 0; total < n; total += done) {
                MPI_Waitsome(n, requests, &done, indices, MPI_STATUSES_IGNORE);
                if (done == MPI_UNDEFINED || done <= 0) {
                    CHECK(0, "Waitsome completed %d requests of %d", done, n - total);
                    break;
                }
            }
            break;
        case 5:
            while (!done)
                MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
            break;
        case 6:
            for (int total = 0; total < n; total += done)
                MPI_Testsome(n, requests, &done, indices, MPI_STATUSES_IGNORE);
            break;
        }
        check_all(n, "together");
    }
}

/* Messages with the same tags and wildcards around collectives: neither sees the other's. */
static void with_messages(MPI_Comm comm)
{
    enum { EACH = 3, BYTES = 20000 };
    int me = test_rank, p = test_size, n = COLL_KINDS;
    unsigned char *out = test_alloc(EACH * BYTES), *in = test_alloc((size_t)p * EACH * BYTES);
    MPI_Request *messages = test_alloc(sizeof *messages * (size_t)(2 * EACH * p));
    int m = 0;
    for (int i = 0; i < EACH; i++)
        test_fill(out + i * BYTES, BYTES, (uint64_t)(me * EACH + i));
    for (int from = 0; from < p; from++)
        for (int i = 0; i < EACH; i++)
            MPI_Irecv(in + (from * EACH + i) * BYTES, BYTES, MPI_BYTE, from, i ? i : MPI_ANY_TAG, comm, &messages[m++]);
    start_all(n, 50, 5, comm);
    for (int to = 0; to < p; to++)
        for (int i = 0; i < EACH; i++)
            MPI_Isend(out + i * BYTES, i == 1 ? 10 : BYTES, MPI_BYTE, to, i, comm, &messages[m++]);
    for (int i = n; i-- > 0;) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        if (i == n / 2)
            MPI_Waitall(m, messages, MPI_STATUSES_IGNORE);
    }
    check_all(n, "with messages");
    for (int from = 0; from < p; from++)
        for (int i = 0; i < EACH; i++) {
            size_t want = i == 1 ? 10 : BYTES;
            size_t same = test_verify(in + (from * EACH + i) * BYTES, want, (uint64_t)(from * EACH + i));
            CHECK(same == want, "message %d from %d between collectives differs at byte %zu", i, from, same);
        }
    free(messages);
    free(in);
    free(out);
}

static void with_blocking(MPI_Comm comm)
{
    int n = COLL_KINDS;
    Coll c;
    start_all(n, 33, 9, comm);
    for (int kind = 0; kind < COLL_KINDS; kind++) {
        coll_make(&c, kind, 33, kind % test_size, 1, 0, 1, comm);
        coll_fill(&c, 100u + (unsigned)kind);
        coll_call(&c, BLOCKING, NULL);
        coll_check(&c, "blocking among non-blocking");
        coll_drop(&c);
        MPI_Wait(&requests[(kind * 5 + 3) % n], MPI_STATUS_IGNORE); /* 5 has no factor in common with 17 */
    }
    check_all(n, "with blocking ones");
}

/* Each rank starts on three communicators in an order of its own, waits in another. */
static void several_communicators(MPI_Comm comm)
{
    enum { COMMS = 3 };
    MPI_Comm comms[COMMS];
    Coll c[COMMS][COLL_KINDS];
    MPI_Request r[COMMS][COLL_KINDS];
    for (int k = 0; k < COMMS; k++)
        MPI_Comm_split(comm, 0, k % 2 ? -test_rank : test_rank, &comms[k]);
    for (int turn = 0; turn < COMMS; turn++) {
        int k = (turn + test_rank) % COMMS;
        for (int kind = 0; kind < COLL_KINDS; kind++) {
            coll_make(&c[k][kind], kind, 21, (kind + k) % test_size, 1, 0, 1, comms[k]);
            coll_fill(&c[k][kind], (unsigned)(k * 100 + kind));
            coll_call(&c[k][kind], NONBLOCKING, &r[k][kind]);
        }
    }
    /* A freed communicator serves what is under way. */
    for (int k = 0; k < COMMS; k++)
        MPI_Comm_free(&comms[k]);
    for (int turn = 0; turn < COMMS; turn++) {
        int k = (2 * test_rank + turn) % COMMS;
        MPI_Waitall(COLL_KINDS, r[k], MPI_STATUSES_IGNORE);
        for (int kind = 0; kind < COLL_KINDS; kind++) {
            coll_check(&c[k][kind], "several communicators");
            coll_drop(&c[k][kind]);
        }
    }
}

/* Operator and datatype are freed by their handles only. */
static void freed_objects(MPI_Comm comm)
{
    enum { N = 500 };
    Item *in = test_alloc(sizeof(Item) * N), *out = test_alloc(sizeof(Item) * N);
    for (int i = 0; i < N; i++) {
        in[i].a = 3;
        in[i].b = (unsigned)(test_rank + i);
    }
    MPI_Datatype type;
    MPI_Op op;
    MPI_Request r;
    MPI_Type_dup(coll_types[1], &type);
    MPI_Op_create(coll_compose_function, 0, &op);
    MPI_Iallreduce(in, out, N, type, op, comm, &r);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++) {
        Item want = {3, (unsigned)i};
        for (int k = 1; k < test_size; k++) {
            want.b += want.a * (unsigned)(k + i);
            want.a *= 3;
        }
        CHECK(out[i].a == want.a && out[i].b == want.b, "Iallreduce with freed objects: item %d differs", i);
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    coll_init();
    here = (unsigned)test_rank * 7919u + 1u;
    alone(MPI_COMM_WORLD);
    together(COLL_KINDS, 60, MPI_COMM_WORLD);
    together(COLL_KINDS, 3000, MPI_COMM_WORLD);
    together(MANY, 9, MPI_COMM_WORLD);
    with_messages(MPI_COMM_WORLD);
    with_blocking(MPI_COMM_WORLD);
    several_communicators(MPI_COMM_WORLD);
    freed_objects(MPI_COMM_WORLD);
    CHECK(coll_composed > 0 || test_size == 1, "the user's operator was never called");
    coll_end();
    return test_finish();
}
