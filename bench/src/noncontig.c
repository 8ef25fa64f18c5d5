/* Ping-pong of non-contiguous data between ranks 0 and 1 by MPI_Send and MPI_Recv: half a round
 * trip in microseconds, the median of 15 batches; warm buffers. Each message carries 1 MiB of
 * payload in blocks (other sizes: argument), the same in both directions:
 *
 *   "vector B"                blocks of B bytes (8, 64, 512, 4096), one every 2 B bytes, sent and
 *                             received as MPI_Type_vector of MPI_DOUBLE
 *   "vector B to contiguous"  received as plain MPI_DOUBLE
 *   "indexed mixed"           MPI_Type_indexed: blocks of 8, 64, 512 and 4096 bytes by turns, each
 *                             followed by a gap of its own length
 *   "struct mixed"            an array of { int[4]; gap; double[5]; gap; char[8]; gap }: 64 bytes
 *                             of payload in 96
 *
 * Every message carries its number, which the receiver checks. At the end the whole receive buffer
 * is compared with what a plain loop over the blocks makes of it, gaps included: they must be
 * untouched. */
#include "bench_mpi.h"

#include <stddef.h>

enum { GAP = 0x5e }; /* what receive buffers hold at first */

typedef struct {
    long at, length;
} Block;

/* Data in memory: `count` of `type`, and the same as a list of blocks. */
typedef struct {
    MPI_Datatype type;
    int count;
    Block *blocks;
    long used, extent; /* blocks, and bytes of the buffer */
} Layout;

typedef struct {
    const Layout *to_send, *to_receive;
    char *out, *in;
} Exchange;

static int rank;
static long number; /* of the round trip, in the whole run */

static void add(Layout *l, long at, long length)
{
    l->blocks[l->used++] = (Block){at, length};
    if (l->extent < at + length)
        l->extent = at + length;
}

static Layout layout(long most)
{
    Layout l = {MPI_DATATYPE_NULL, 1, malloc((size_t)most * sizeof(Block)), 0, 0};
    if (!l.blocks)
        bench_die("no memory for %ld blocks", most);
    return l;
}

static Layout contiguous(long payload)
{
    Layout l = layout(1);
    add(&l, 0, payload);
    l.count = (int)(payload / 8);
    MPI_Type_dup(MPI_DOUBLE, &l.type);
    return l;
}

static Layout vector(long payload, long block)
{
    Layout l = layout(payload / block);
    for (long i = 0; i < payload / block; i++)
        add(&l, 2 * i * block, block);
    MPI_Type_vector((int)(payload / block), (int)(block / 8), (int)(block / 4), MPI_DOUBLE,
                    &l.type);
    MPI_Type_commit(&l.type);
    return l;
}

static Layout indexed(long payload)
{
    static const long lengths[] = {8, 64, 512, 4096};
    Layout l = layout(payload / 8);
    int *counts = malloc((size_t)payload / 8 * sizeof *counts);
    int *places = malloc((size_t)payload / 8 * sizeof *places);
    if (!counts || !places)
        bench_die("no memory for %ld blocks", payload / 8);
    for (long at = 0, rest = payload, length; rest > 0; at += 2 * length, rest -= length) {
        length = lengths[l.used % 4] < rest ? lengths[l.used % 4] : rest;
        counts[l.used] = (int)(length / 8);
        places[l.used] = (int)(at / 8);
        add(&l, at, length);
    }
    MPI_Type_indexed((int)l.used, counts, places, MPI_DOUBLE, &l.type);
    MPI_Type_commit(&l.type);
    free(places);
    free(counts);
    return l;
}

static Layout structures(long payload)
{
    typedef struct {
        int a[4], gap_a[2];
        double b[5], gap_b;
        char c[8], gap_c[16];
    } Element; /* 16 of 24, 40 of 48, 8 of 24 bytes */
    int lengths[] = {4, 5, 8};
    MPI_Aint places[] = {offsetof(Element, a), offsetof(Element, b), offsetof(Element, c)};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, one;
    long size = sizeof(Element);
    Layout l = layout(payload / 64 * 3);
    l.count = (int)(payload / 64);
    for (long i = 0; i < l.count; i++) {
        add(&l, i * size + places[0], 4 * sizeof(int));
        add(&l, i * size + places[1], 5 * sizeof(double));
        add(&l, i * size + places[2], 8);
    }
    MPI_Type_create_struct(3, lengths, places, types, &one);
    MPI_Type_create_resized(one, 0, (MPI_Aint)size, &l.type);
    MPI_Type_commit(&l.type);
    MPI_Type_free(&one);
    return l;
}

static void drop(Layout *l)
{
    MPI_Type_free(&l->type);
    free(l->blocks);
}

/* Writes the payload that `from` sends: each byte depends on its place in the message. */
static void fill(const Layout *l, char *memory, int from)
{
    unsigned long k = 0;
    for (long b = 0; b < l->used; b++)
        for (long i = 0; i < l->blocks[b].length; i++, k++)
            memory[l->blocks[b].at + i] = (char)(k * 31 + k / 251 + (unsigned long)from * 97);
}

static double round_trips(void *arg, long n)
{
    const Exchange *e = arg;
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++, number++) {
        bench_stamp(e->out, sizeof number, number); /* each layout begins with 8 bytes of payload */
        if (rank == 0)
            MPI_Send(e->out, e->to_send->count, e->to_send->type, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(e->in, e->to_receive->count, e->to_receive->type, 1 - rank, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(e->out, e->to_send->count, e->to_send->type, 0, 0, MPI_COMM_WORLD);
        bench_check(e->in, sizeof number, number);
    }
    return MPI_Wtime() - start;
}

static void measure(const char *name, long payload, const Layout *to_send, const Layout *to_receive)
{
    size_t room = (size_t)to_receive->extent;
    Exchange e = {to_send, to_receive, bench_alloc((size_t)to_send->extent, 0),
                  bench_alloc(room, GAP)};
    char *expected = bench_alloc(room, GAP);
    double batch[BATCHES];
    fill(to_send, e.out, rank);
    long n = bench_measure(round_trips, &e, 0.015, batch);
    fill(to_receive, expected, 1 - rank);
    bench_stamp(expected, sizeof number, number - 1);
    for (size_t i = 0; i < room; i++)
        if (e.in[i] != expected[i])
            bench_die("%s: byte %zu of %zu is %d, not %d", name, i, room, e.in[i], expected[i]);
    for (int b = 0; b < BATCHES; b++)
        batch[b] *= 1e6 / 2;
    if (rank == 0)
        bench_print(name, payload, 2, batch, "us", n);
    free(expected);
    free(e.in);
    free(e.out);
}

int main(int argc, char **argv)
{
    static const long blocks[] = {8, 64, 512, 4096};
    char name[64];
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        bench_die("needs 2 ranks, has %d", size);
    long payload = argc > 1 ? bench_bytes(argv[1]) : 1 << 20;
    if (payload < 4096 || payload % 4096)
        bench_die("a payload of %ld bytes is not a multiple of 4096", payload);
    Layout plain = contiguous(payload), mixed = indexed(payload), structs = structures(payload);
    for (int i = 0; i < 4; i++) {
        Layout l = vector(payload, blocks[i]);
        snprintf(name, sizeof name, "vector %ld", blocks[i]);
        measure(name, payload, &l, &l);
        snprintf(name, sizeof name, "vector %ld to contiguous", blocks[i]);
        measure(name, payload, &l, &plain);
        drop(&l);
    }
    measure("indexed mixed", payload, &mixed, &mixed);
    measure("struct mixed", payload, &structs, &structs);
    drop(&plain);
    drop(&mixed);
    drop(&structs);
    MPI_Finalize();
    return 0;
}
