/* A rank that waits in a collective still serves its messages: long ones, for which both sides must
 * do something, come through while one side is in the collective and the other in the message,
 * whichever of them receives. A rank that only tests, or that waits in a collective of another
 * communicator, does its part of what it started. */
#include "collectives.h"

enum { BYTES = 1 << 20 };

/* Does rank 0 wait for rank 1 in it, if the root is 0? The others wait for the root, which is rank
 * 1 then. */
static int waits_as_root(int kind)
{
    return kind == GATHER || kind == GATHERV || kind == REDUCE;
}

/* The one who waits in the collective comes there first; the other is in the message until it is
 * through. */
static void message_and_collective(int kind, int n, int receives)
{
    int waits = kind == SCAN || kind == EXSCAN ? test_size - 1 : 0, other = kind == SCAN || kind == EXSCAN ? 0 : 1;
    int root = waits_as_root(kind) ? waits : other;
    unsigned char *message = test_alloc(BYTES);
    MPI_Request request = MPI_REQUEST_NULL;
    Coll c;
    coll_make(&c, kind, n, root, 1, 0, 1, MPI_COMM_WORLD);
    coll_fill(&c, (unsigned)(kind * 100 + n));
    memset(message, 0, BYTES);
    if (test_rank == (receives ? other : waits))
        test_fill(message, BYTES, (uint64_t)kind);
    if (test_rank == waits) {
        if (receives)
            MPI_Irecv(message, BYTES, MPI_BYTE, other, kind, MPI_COMM_WORLD, &request);
        else
            MPI_Isend(message, BYTES, MPI_BYTE, other, kind, MPI_COMM_WORLD, &request);
    } else if (test_rank == other) {
        if (receives)
            MPI_Ssend(message, BYTES, MPI_BYTE, waits, kind, MPI_COMM_WORLD);
        else
            MPI_Recv(message, BYTES, MPI_BYTE, waits, kind, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    coll_call(&c, BLOCKING, NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (test_rank == waits || test_rank == other) {
        size_t same = test_verify(message, BYTES, (uint64_t)kind);
        CHECK(same == BYTES, "message during %s differs at byte %zu", coll_names[kind], same);
    }
    coll_check(&c, "with a message under way");
    coll_drop(&c);
    free(message);
}

/* Rank `busy` computes and tests; the others wait for collectives that need it. */
static void compute_and_test(int kind, int n, int busy)
{
    enum { FLIGHT = 3 };
    Coll c[FLIGHT];
    MPI_Request r[FLIGHT];
    volatile double work = 1;
    for (int i = 0; i < FLIGHT; i++) {
        coll_make(&c[i], kind, n, (busy + i) % test_size, 1 + i % 2, 0, 1, MPI_COMM_WORLD);
        coll_fill(&c[i], (unsigned)(kind * 10 + i));
        coll_call(&c[i], NONBLOCKING, &r[i]);
    }
    if (test_rank == busy) {
        int done = 0;
        while (!done) {
            for (int k = 0; k < 200; k++)
                work = work * 1.0000001 + 1e-9;
            MPI_Testall(FLIGHT, r, &done, MPI_STATUSES_IGNORE);
        }
    } else {
        for (int i = FLIGHT - 1; i >= 0; i--)
            MPI_Wait(&r[i], MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < FLIGHT; i++) {
        coll_check(&c[i], "a rank that tests");
        coll_drop(&c[i]);
    }
}

/* The others only wait in a blocking collective on another communicator, and still do their part of
 * what they started. */
static void behind_another(int kind, int n, MPI_Comm other)
{
    int first = kind % test_size;
    Coll c, then;
    MPI_Request r;
    coll_make(&c, kind, n, (first + 1) % test_size, 1, 0, 1, MPI_COMM_WORLD);
    coll_fill(&c, (unsigned)kind);
    coll_call(&c, NONBLOCKING, &r);
    if (test_rank == first)
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    coll_make(&then, kind % 2 ? ALLREDUCE : BARRIER, 5, 0, 1, 0, 1, other);
    coll_fill(&then, 9);
    coll_call(&then, BLOCKING, NULL);
    coll_check(&then, "while another is under way");
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    coll_check(&c, "behind a blocking one");
    coll_drop(&then);
    coll_drop(&c);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    coll_init();
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    static const int counts[] = {1, 500, 20000};
    for (int kind = 0; kind < COLL_KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            message_and_collective(kind, counts[i], 1);
            message_and_collective(kind, counts[i], 0);
            compute_and_test(kind, counts[i], (kind + (int)i) % test_size);
            behind_another(kind, counts[i], other);
        }
    MPI_Comm_free(&other);
    coll_end();
    return test_finish();
}
