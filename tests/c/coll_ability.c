/* Ranks of different ability: all collectives and messages, over the sizes at which their algorithm
 * or path changes, with buffers that are used again and again, so that they become reachable by
 * load and store where that works.
 *
 *   coll_ability                     from beginning to end
 *   coll_ability WHAT RANK           and again after WHAT (refusals.h) has been taken away from RANK
 *   coll_ability hang                says "ready", and waits for a message that no rank sends
 *   coll_ability ... part=NAME       only what has NAME in its name (a collective, or "messages")
 *
 * What was taken away before the start (tools/refuse.c) the program does not see. */
#include "collectives.h"
#include "refusals.h"

enum { REUSES = 5 };

static const char *part;

static int is_asked(const char *name)
{
    return !part || !strcmp(part, name);
}

/* One operation with the same buffers, blocking, non-blocking and persistent. */
static void collective(int kind, int n, int in_place, int stride)
{
    Coll c;
    MPI_Request r;
    int times = n < 4096 ? 2 : REUSES;
    coll_make(&c, kind, n, n % 3 ? 0 : test_size - 1, stride, in_place, stride == 2, MPI_COMM_WORLD);
    for (int time = 0; time < times; time++) {
        coll_fill(&c, (unsigned)time);
        CHECK_INT(coll_call(&c, BLOCKING, NULL), MPI_SUCCESS, coll_names[kind]);
        coll_check(&c, "blocking");
    }
    coll_fill(&c, 50);
    CHECK_INT(coll_call(&c, NONBLOCKING, &r), MPI_SUCCESS, coll_names[kind]);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    coll_check(&c, "non-blocking");
    coll_call(&c, PERSISTENT, &r);
    for (int time = 0; time < 2; time++) {
        coll_fill(&c, 60u + (unsigned)time);
        MPI_Start(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        coll_check(&c, "persistent");
    }
    MPI_Request_free(&r);
    coll_drop(&c);
}

static void collectives(void)
{
    /* Items of 8 bytes: up to half a MiB, from or for each rank. */
    static const int counts[] = {1, 8, 100, 1024, 4096, 10000, 65536};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int kind = 0; kind < COLL_KINDS; kind++)
            if (is_asked(coll_names[kind])) {
                collective(kind, counts[i], 0, 1);
                if (counts[i] == 1024 || counts[i] == 10000) {
                    collective(kind, counts[i], 1, 1);
                    collective(kind, counts[i], 0, 2);
                }
            }
}

/* Several non-blocking operations under way on one communicator. */
static void outstanding(int n)
{
    enum { MANY = 8 };
    static const int kinds[MANY] = {BCAST, ALLREDUCE, ALLGATHER, SCATTER, ALLTOALL, GATHER, SCAN, REDUCE_SCATTER_BLOCK};
    Coll c[MANY];
    MPI_Request r[MANY];
    for (int i = 0; i < MANY; i++)
        coll_make(&c[i], kinds[i], n, i % test_size, 1, 0, 0, MPI_COMM_WORLD);
    for (int time = 0; time < 3; time++) {
        for (int i = 0; i < MANY; i++) {
            coll_fill(&c[i], 70u + (unsigned)time);
            coll_call(&c[i], NONBLOCKING, &r[i]);
        }
        MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++)
            coll_check(&c[i], "one of several");
    }
    for (int i = 0; i < MANY; i++)
        coll_drop(&c[i]);
}

/* Messages around the ring, of `n` bytes each, `stride` apart. */
static void messages(int n, int stride)
{
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    int blocks = stride > 1 ? n / 512 : 1, run = stride > 1 ? 512 : n;
    MPI_Datatype type;
    MPI_Type_vector(blocks, run, run * stride, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    size_t bytes = (size_t)run * (size_t)stride * (size_t)blocks;
    unsigned char *out = test_alloc(bytes), *in = test_alloc(bytes);
    MPI_Request r[2], persistent[2];
    MPI_Send_init(out, 1, type, to, 3, MPI_COMM_WORLD, &persistent[0]);
    MPI_Recv_init(in, 1, type, from, 3, MPI_COMM_WORLD, &persistent[1]);
    for (int time = 0; time < REUSES + 4; time++) {
        memset(in, 0, bytes);
        test_fill(out, bytes, (uint64_t)(test_rank * 1000 + time));
        switch (time % 4) {
        case 0:
            MPI_Sendrecv(out, 1, type, to, 1, in, 1, type, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            break;
        case 1:
            MPI_Irecv(in, 1, type, from, 2, MPI_COMM_WORLD, &r[0]);
            MPI_Issend(out, 1, type, to, 2, MPI_COMM_WORLD, &r[1]);
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
            break;
        case 2:
            MPI_Startall(2, persistent);
            MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
            break;
        default:
            if (test_rank % 2 == 0 && test_rank != test_size - 1) {
                MPI_Send(out, 1, type, to, 4, MPI_COMM_WORLD);
                MPI_Recv(in, 1, type, from, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (test_rank % 2) {
                MPI_Recv(in, 1, type, from, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(out, 1, type, to, 4, MPI_COMM_WORLD);
            } else {
                MPI_Irecv(in, 1, type, from, 4, MPI_COMM_WORLD, &r[0]);
                MPI_Send(out, 1, type, to, 4, MPI_COMM_WORLD);
                MPI_Wait(&r[0], MPI_STATUS_IGNORE);
            }
        }
        uint64_t seed = (uint64_t)(from * 1000 + time);
        size_t wrong = 0;
        for (int b = 0; b < blocks; b++) {
            size_t at = (size_t)b * (size_t)run * (size_t)stride;
            wrong += test_verify_from(in + at, (size_t)run, seed, at) != (size_t)run;
        }
        CHECK(!wrong, "message of %d bytes, stride %d, time %d: %zu blocks are wrong", n, stride, time, wrong);
    }
    MPI_Request_free(&persistent[0]);
    MPI_Request_free(&persistent[1]);
    MPI_Type_free(&type);
    free(out);
    free(in);
}

static void everything(void)
{
    collectives();
    if (is_asked("outstanding"))
        for (int n = 16; n <= 65536; n *= 64)
            outstanding(n);
    if (is_asked("messages"))
        for (int n = 8; n <= 1 << 20; n *= 2) {
            messages(n, 1);
            if (n >= 8192)
                messages(n, 2);
        }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    coll_init();
    if (argc > 1 && !strncmp(argv[argc - 1], "part=", 5))
        part = argv[--argc] + 5;
    if (argc == 2 && !strcmp(argv[1], "hang")) {
        int never;
        MPI_Barrier(MPI_COMM_WORLD);
        if (!test_rank) {
            printf("ready\n");
            fflush(stdout);
        }
        MPI_Recv(&never, 1, MPI_INT, test_rank ^ 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    everything();
    if (argc > 2) {
        int error = test_rank == atoi(argv[2]) ? refusals_begin(argv[1]) : 0, worst;
        MPI_Allreduce(&error, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (worst) {
            if (!test_rank)
                printf("SKIP: cannot take away '%s': %s\n", argv[1], strerror(worst));
            coll_end();
            MPI_Finalize();
            return 0;
        }
        everything();
    }
    coll_end();
    return test_finish();
}
