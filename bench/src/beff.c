/* Effective bandwidth b_eff in MB/s (chai 4.3.1, Table 4.1), after the definition of Koniges,
 * Rabenseifner and Solchenbach (IPDPS 2001, www.hlrs.de/mpi/b_eff), version 3:
 *
 *   b_eff  = logavg( logavg over ring patterns of B(p), logavg over random patterns of B(p) )
 *   B(p)   = ( sum over 21 lengths L of max over methods of max over repetitions of b(p, L) ) / 21
 *   b      = L * messages of the pattern * loop length / time of the slowest rank for the loop
 *
 * where logavg is the geometric mean. In a pattern every rank sends one message of L bytes to its
 * right and one to its left neighbour in a ring, 2 n messages. Ring patterns: MPI_COMM_WORLD cut
 * into rings of about 2, 4, 8, max(16, n/4), max(32, n/2) and n ranks. Random patterns: one ring of
 * all ranks in random order. Methods: MPI_Sendrecv to the right, then to the left; MPI_Irecv and
 * MPI_Isend, two of each, and MPI_Waitall; MPI_Alltoallv. L is 1, 2, 4, ... 4096 bytes, then 8
 * steps by a constant factor to L_max = memory of a rank / 128, at most 128 MiB. Consecutive
 * messages use consecutive memory of a buffer of 6 L_max, cyclically.
 *
 * Where this program departs from the definition, to be short:
 *   - L_max is at most 4 MiB (--lmax SIZE: up to 128M). Sums are over 21 lengths as defined; so
 *     only values of the same L_max compare. The memory of a rank is the node's over the ranks.
 *   - 3 random patterns, from a fixed seed, in place of 30 from the clock; 2 repetitions, not 3.
 *   - A loop is to last 1 ms, not 2.5 to 5 ms; it has 1 to 300 passes, the shortest length 300.
 *   - A ring pattern that equals another at this number of ranks is measured once and counted
 *     for each.
 *   - The ranks of the rings are those of MPI_COMM_WORLD, not of a reordered topology.
 *
 * Measures: "b_eff", "b_eff ring", "b_eff random", and "b_eff at Lmax", where B(p) is the value at
 * L_max alone. "value" is the accumulated bandwidth of all ranks ("per_rank": over n), "min" and
 * "max" the least and largest B(p) among the patterns. Any number of ranks from 2. First and last
 * byte of each message are checked. Libraries that never give up the processor need a minute or
 * more where ranks outnumber cores: most loops then last several time slices. */
#include "bench_mpi.h"

#include <math.h>
#include <unistd.h>

enum { LENGTHS = 21, RINGS = 6, RANDOMS = 3, REPEAT = 2, PASSES = 300 };
enum { SENDRECV, NONBLOCKING, ALLTOALLV, METHODS };

typedef struct {
    int left, right;
} Neighbours;

static int rank, size;
static size_t room, next; /* of the buffers: bytes, and where the next message begins */
static char *outs, *ins;
static int *counts_out, *counts_in, *places_out, *places_in;
static unsigned serial; /* of the pass, in the whole run */
static MPI_Comm comm;

static char first_byte(int from, int rightwards)
{
    return (char)(serial * 2 + (unsigned)from * 5 + (unsigned)rightwards);
}

/* Writes, and checks, the first and last byte of a message to the right or to the left. */
static void mark(size_t at, int bytes, int rightwards)
{
    outs[at + (size_t)bytes - 1] = 1;
    outs[at] = first_byte(rank, rightwards);
}

static void verify(size_t at, int bytes, int from, int rightwards)
{
    if (ins[at] != first_byte(from, rightwards) || (bytes > 1 && ins[at + (size_t)bytes - 1] != 1))
        bench_die(
            "a message of %d bytes from rank %d begins with %d, not %d, or ends with %d, not 1",
            bytes, from, ins[at], first_byte(from, rightwards), ins[at + (size_t)bytes - 1]);
    ins[at + (size_t)bytes - 1] = 0;
    ins[at] = (char)~first_byte(from, rightwards);
}

/* Room for the two messages of a pass. */
static void places(int bytes, int together, size_t at[2])
{
    size_t step = together ? (size_t)bytes : ((size_t)bytes + 7) / 8 * 8;
    size_t all = 2 * (((size_t)bytes + 7) / 8 * 8);
    if (next + all > room)
        next = 0;
    at[0] = next;
    at[1] = next + step;
    next += all;
}

static void pass(const Neighbours *n, int bytes, int method)
{
    size_t at[2];
    int left = n->left, right = n->right;
    MPI_Request requests[4];
    places(bytes, method == ALLTOALLV && left == right, at);
    mark(at[0], bytes, 1);
    mark(at[1], bytes, 0);
    switch (method) {
    case SENDRECV:
        MPI_Sendrecv(outs + at[0], bytes, MPI_BYTE, right, 1, ins + at[0], bytes, MPI_BYTE, left, 1,
                     comm, MPI_STATUS_IGNORE);
        MPI_Sendrecv(outs + at[1], bytes, MPI_BYTE, left, 0, ins + at[1], bytes, MPI_BYTE, right, 0,
                     comm, MPI_STATUS_IGNORE);
        break;
    case NONBLOCKING:
        MPI_Irecv(ins + at[0], bytes, MPI_BYTE, left, 1, comm, &requests[0]);
        MPI_Irecv(ins + at[1], bytes, MPI_BYTE, right, 0, comm, &requests[1]);
        MPI_Isend(outs + at[0], bytes, MPI_BYTE, right, 1, comm, &requests[2]);
        MPI_Isend(outs + at[1], bytes, MPI_BYTE, left, 0, comm, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        break;
    default: /* the counts are set; with one neighbour both messages travel as one */
        places_out[left] = (int)at[1];
        places_out[right] = (int)at[0];
        places_in[right] = (int)at[1];
        places_in[left] = (int)at[0];
        MPI_Alltoallv(outs, counts_out, places_out, MPI_BYTE, ins, counts_in, places_in, MPI_BYTE,
                      comm);
    }
    verify(at[0], bytes, left, 1);
    verify(at[1], bytes, right, 0);
    serial++;
}

/* The slowest rank's seconds for `passes` passes. */
static double loop(const Neighbours *n, int bytes, int method, long passes)
{
    double mine, slowest;
    if (method == ALLTOALLV) {
        counts_out[n->left] += bytes;
        counts_out[n->right] += bytes;
        counts_in[n->left] += bytes;
        counts_in[n->right] += bytes;
    }
    MPI_Barrier(comm);
    double start = MPI_Wtime();
    for (long i = 0; i < passes; i++)
        pass(n, bytes, method);
    mine = MPI_Wtime() - start;
    counts_out[n->left] = counts_out[n->right] = counts_in[n->left] = counts_in[n->right] = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, comm);
    return slowest;
}

/* B(p) of the definition in bytes per second; b at L_max into `longest`. */
static double pattern(const Neighbours *n, const int lengths[LENGTHS], double *longest)
{
    long passes[METHODS] = {PASSES, PASSES, PASSES};
    double sum = 0, best = 0;
    for (int l = 0; l < LENGTHS; l++, sum += best) {
        best = 0;
        for (int method = 0; method < METHODS; method++) {
            double seconds = 0;
            for (int repeat = 0; repeat < REPEAT; repeat++) {
                seconds = loop(n, lengths[l], method, passes[method]);
                double b = 2.0 * size * lengths[l] * (double)passes[method] / seconds;
                best = b > best ? b : best;
            }
            /* Passes for the next length: a short one takes as long as this, others with L. */
            double ratio =
                l + 1 < LENGTHS && lengths[l] >= 4096 ? (double)lengths[l + 1] / lengths[l] : 1;
            double fit = 1e-3 / (seconds / (double)passes[method] * ratio);
            passes[method] = fit < 1 ? 1 : fit > PASSES ? PASSES : (long)fit;
        }
    }
    *longest = best;
    return sum / LENGTHS;
}

/* This rank's neighbours if `order` is cut into `rings` rings, shorter ones first. */
static Neighbours ring(const int *order, int rings)
{
    int each = size / rings, longer = size - each * rings, shorter = rings - longer, me = 0;
    while (order[me] != rank)
        me++;
    int length = me < shorter * each ? each : each + 1;
    int base = length == each ? me / each * each
                              : shorter * each + (me - shorter * each) / length * length;
    return (Neighbours){order[base + (me - base + length - 1) % length],
                        order[base + (me - base + 1) % length]};
}

static double logavg(const double *values, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += log(values[i]);
    return exp(sum / n);
}

static void print(const char *name, int lmax, double value, const double *among, int n)
{
    double least = among[0], most = among[0];
    char more[96];
    for (int i = 1; i < n; i++) {
        least = among[i] < least ? among[i] : least;
        most = among[i] > most ? among[i] : most;
    }
    snprintf(more, sizeof more, ", \"per_rank\": %.6g, \"lmax\": %d", value / size / 1e6, lmax);
    if (rank == 0)
        bench_line(name, 0, size, value / 1e6, least / 1e6, most / 1e6, "MB/s", REPEAT, more);
}

int main(int argc, char **argv)
{
    int lengths[LENGTHS], *order, rings[RINGS], patterns = RINGS + RANDOMS;
    double b[RINGS + RANDOMS], longest[RINGS + RANDOMS], parts[2], parts_longest[2];
    unsigned long random = 12345;
    MPI_Init(&argc, &argv);
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size < 2)
        bench_die("needs at least 2 ranks, has %d", size);

    long lmax = bench_option_bytes(&argc, argv, "--lmax", 4 << 20);
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / size / 128;
    if (argc > 1)
        bench_die("unknown argument '%s'", argv[1]);
    if (lmax > 128 << 20 || lmax < 8192)
        bench_die("--lmax %ld: from 8K to 128M", lmax);
    lmax = memory < (double)lmax ? (long)memory : lmax;
    MPI_Bcast(&lmax, 1, MPI_LONG, 0, comm);
    for (int l = 0; l <= 12; l++)
        lengths[l] = 1 << l;
    for (int l = 13; l < LENGTHS; l++)
        lengths[l] = (int)(4096 * pow((double)lmax / 4096, (l - 12) / 8.0) + 0.5);
    room = 6 * (((size_t)lmax + 8) / 8 * 8);
    outs = bench_alloc(room, 1);
    ins = bench_alloc(room, 0);
    order = calloc((size_t)size * 5, sizeof *order);
    if (!order)
        bench_die("no memory for %d counts", 5 * size);
    counts_out = order + size;
    counts_in = order + 2 * size;
    places_out = order + 3 * size;
    places_in = order + 4 * size;

    for (int i = 0; i < size; i++)
        order[i] = i;
    for (int p = 0; p < RINGS; p++) {
        int about[] = {2, 4, 8, size / 4 > 16 ? size / 4 : 16, size / 2 > 32 ? size / 2 : 32, size};
        int wanted = about[p] < size ? about[p] : size, same = 0;
        rings[p] = (int)((double)size / wanted + 0.4);
        rings[p] = rings[p] > size / 2 ? size / 2 : rings[p];
        while (rings[same] != rings[p])
            same++;
        if (same < p) {
            b[p] = b[same];
            longest[p] = longest[same];
            continue;
        }
        Neighbours n = ring(order, rings[p]);
        if (p == 0)
            for (int method = 0; method < METHODS; method++)
                loop(&n, lengths[LENGTHS - 1], method, 3); /* warms up */
        b[p] = pattern(&n, lengths, &longest[p]);
    }
    for (int p = RINGS; p < patterns; p++) {
        for (int i = size - 1; i > 0; i--) { /* the same order on all ranks */
            random = (random * 1103515245 + 12345) & 0x7fffffff;
            int j = (int)((random >> 8) % (unsigned long)(i + 1)), kept = order[i];
            order[i] = order[j];
            order[j] = kept;
        }
        Neighbours n = ring(order, 1);
        b[p] = pattern(&n, lengths, &longest[p]);
    }
    parts[0] = logavg(b, RINGS);
    parts[1] = logavg(b + RINGS, RANDOMS);
    parts_longest[0] = logavg(longest, RINGS);
    parts_longest[1] = logavg(longest + RINGS, RANDOMS);
    print("b_eff", (int)lmax, logavg(parts, 2), b, patterns);
    print("b_eff ring", (int)lmax, parts[0], b, RINGS);
    print("b_eff random", (int)lmax, parts[1], b + RINGS, RANDOMS);
    print("b_eff at Lmax", (int)lmax, logavg(parts_longest, 2), longest, patterns);
    free(order);
    free(ins);
    free(outs);
    MPI_Finalize();
    return 0;
}
