/* One collective operation on all ranks. Arguments: its name, then sizes (default 8, 1K, 64K, 1M;
 * barrier has none). An operation's name is its measure's.
 *
 *     barrier
 *     bcast, reduce, allreduce, scan      bytes are those of the vector
 *     gather, scatter, allgather          bytes are those of one rank's block
 *     alltoall, reduce_scatter            the same (MPI_Reduce_scatter_block)
 *     alltoallv                           blocks of half, one and one and a half times the bytes
 *     sendrecv                            bytes to the next rank, as many from the one before
 *
 * Reductions are sums of doubles. Operations with a root take another root each time. What is
 * measured, in microseconds, as the median of 15 batches (fewer, at least 3, of what is slow; one
 * call of what takes more than 0.6 s):
 *
 *   (none)       "NAME": operations follow each other without a barrier; the slowest rank's time.
 *   --cold       "NAME cold": before each operation the ranks together walk through memory of twice
 *                the last-level cache (each 8 MiB at least), so buffers and the library's own memory
 *                are cold; then a barrier; the time from the last rank's arrival to the last rank's
 *                return.
 *   --late US    "NAME late": after a barrier one rank, another each time, computes for US
 *                microseconds before it calls. The time from the last arrival to a rank's return,
 *                the median of the ranks that need the late one; a rank that was back before counts
 *                as 0. Of bcast and scatter the root is late; of gather and reduce another rank, and
 *                the root's time counts; of scan the times from the late rank upwards.
 *   --calls N    "NAME calls": N operations after each other, after a few that are not timed, and no
 *                search for a batch's length: for a simulator. They are a region of interest
 *                (MPI_Pcontrol(1), then 0). The slowest rank's time, divided by N. With --read every
 *                rank sums up what it got, in the same time.
 *
 * With --cold and --late each operation is taken by itself, a batch is the median of its
 * operations, and all ranks have to be on one node, whose clock they share. The first and the last
 * element of every block are checked in each call, all elements in one more call before and after;
 * of the barrier with --cold and --late, that no rank left before the last one came. */
#include "compute.h"

#include <unistd.h>

/* What a block of an operation's result is. */
typedef enum { NOTHING, OF_ROOT, OF_RANK, OF_PREVIOUS, SUM, SUM_UP_TO_ME } Content;
typedef enum { ALL, ROOT } Who;
enum { EACH = -1 }; /* as many blocks as ranks */

typedef struct {
    const char *name;
    void (*call)(void);
    Who sends, receives;
    int out_blocks, in_blocks;
    Content content;
    int addressed; /* a sender's blocks are other ones for every receiver */
} Operation;

static int rank, size, root, count; /* of doubles in a block */
static long number;                 /* of the call, in the whole run */
static double *out, *in, late_seconds;
static int is_late, is_cold, is_read;
static long calls; /* of --calls, or 0 */
static volatile double total; /* of --read */
static size_t room; /* doubles from one block to the next */
static int *out_counts, *in_counts, *places;
static const Operation *op;
static const double LIMIT = 0.6; /* seconds for the batches of a size */
static volatile char *far;
static size_t region; /* that --cold walks through */

static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(void)
{
    MPI_Bcast(in, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static void reduce(void)
{
    MPI_Reduce(out, in, count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
}

static void allreduce(void)
{
    MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void scan(void)
{
    MPI_Scan(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(void)
{
    MPI_Gather(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static void scatter(void)
{
    MPI_Scatter(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static void allgather(void)
{
    MPI_Allgather(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void alltoall(void)
{
    MPI_Alltoall(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void reduce_scatter(void)
{
    MPI_Reduce_scatter_block(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoallv(void)
{
    MPI_Alltoallv(out, out_counts, places, MPI_DOUBLE, in, in_counts, places, MPI_DOUBLE,
                  MPI_COMM_WORLD);
}

static void sendrecv(void)
{
    MPI_Sendrecv(out, count, MPI_DOUBLE, (rank + 1) % size, 0, in, count, MPI_DOUBLE,
                 (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const Operation operations[] = {
    {"barrier", barrier, ALL, ALL, 0, 0, NOTHING, 0},
    {"bcast", bcast, ROOT, ALL, 1, 1, OF_ROOT, 0},
    {"reduce", reduce, ALL, ROOT, 1, 1, SUM, 0},
    {"allreduce", allreduce, ALL, ALL, 1, 1, SUM, 0},
    {"scan", scan, ALL, ALL, 1, 1, SUM_UP_TO_ME, 0},
    {"gather", gather, ALL, ROOT, 1, EACH, OF_RANK, 0},
    {"scatter", scatter, ROOT, ALL, EACH, 1, OF_ROOT, 1},
    {"allgather", allgather, ALL, ALL, 1, EACH, OF_RANK, 0},
    {"alltoall", alltoall, ALL, ALL, EACH, EACH, OF_RANK, 1},
    {"alltoallv", alltoallv, ALL, ALL, EACH, EACH, OF_RANK, 1},
    {"reduce_scatter", reduce_scatter, ALL, ALL, EACH, 1, SUM, 1},
    {"sendrecv", sendrecv, ALL, ALL, 1, 1, OF_PREVIOUS, 0},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* What rank `from` puts in at place `at` of its block for rank `to`. Whole numbers, so that sums
 * are exact in any order. */
static double value(int from, int to, int at)
{
    return (double)((number + at + to) % 1000 + from);
}

static int length(int from, int to)
{
    int halves = op->call == alltoallv ? 1 + (from + to) % 3 : 2;
    int elements = (int)((long)count * halves / 2);
    return elements ? elements : 1;
}

static int blocks(int declared)
{
    return declared == EACH ? size : declared;
}

static int takes_part(Who who)
{
    return who == ALL || rank == root;
}

/* The call's input: the first and the last element of each block, or `whole` blocks. */
static void fill(int whole)
{
    for (int k = 0; takes_part(op->sends) && k < blocks(op->out_blocks); k++) {
        double *block = out + (size_t)k * room;
        int last = length(rank, k) - 1;
        block[0] = value(rank, k, 0);
        block[last] = value(rank, k, last);
        for (int at = 1; whole && at < last; at++)
            block[at] = value(rank, k, at);
    }
}

/* What has to be at place `at` of block k of the result. */
static double wanted(int k, int at)
{
    int to = op->addressed ? rank : 0;
    double sum = 0;
    switch (op->content) {
    case OF_ROOT:
        return value(root, to, at);
    case OF_RANK:
        return value(k, to, at);
    case OF_PREVIOUS:
        return value((rank + size - 1) % size, to, at);
    default:
        for (int from = 0; from <= (op->content == SUM ? size - 1 : rank); from++)
            sum += value(from, to, at);
        return sum;
    }
}

static void expect(int k, int at)
{
    double got = in[(size_t)k * room + (size_t)at], want = wanted(k, at);
    if (got != want)
        bench_die("%s, call %ld, %d elements: element %d of block %d of rank %d is %g, not %g",
                  op->name, number, count, at, k, rank, got, want);
}

static void check(int whole)
{
    for (int k = 0; takes_part(op->receives) && k < blocks(op->in_blocks); k++) {
        int last = length(k, rank) - 1;
        expect(k, 0);
        expect(k, last);
        for (int at = 1; whole && at < last; at++)
            expect(k, at);
    }
}

/* Reads the call's result, as a program would that needs it. */
static void read_result(void)
{
    double sum = 0;
    for (int k = 0; takes_part(op->receives) && k < blocks(op->in_blocks); k++)
        for (int at = 0; at < length(k, rank); at++)
            sum += in[(size_t)k * room + (size_t)at];
    total = sum;
}

static double back_to_back(void *arg, long n)
{
    double start = now(), took, most;
    (void)arg;
    for (long i = 0; i < n; i++, number++) {
        root = (int)(number % size);
        fill(0);
        op->call();
        check(0);
        if (is_read)
            read_result();
    }
    took = now() - start;
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* Who is late in this call. */
static int late_rank(long call, int root_then)
{
    if (op->sends == ROOT)
        return root_then;
    if (op->receives == ROOT && size > 1)
        return (root_then + 1 + (int)(call / size % (size - 1))) % size;
    return (int)(call % size);
}

/* Whether a rank's time counts: with --late if it needs what the late one brings. */
static int counts(int who, int late, int root_then)
{
    if (!is_late)
        return 1;
    if (op->receives == ROOT)
        return who == root_then;
    if (op->content == OF_PREVIOUS)
        return who == late || who == (late + 1) % size;
    return op->content != SUM_UP_TO_ME || who >= late;
}

/* On rank 0: seconds of call `i` of n from the last arrival on. `times` has n arrivals and n
 * returns of each rank. */
static double cost(const double *times, long first, long i, long n, double *scratch)
{
    double last = 0;
    int root_then = (int)((first + i) % size), late = late_rank(first + i, root_then), ranks = 0;
    for (int r = 0; r < size; r++) {
        double arrived = times[2 * n * r + i];
        last = arrived > last ? arrived : last;
    }
    for (int r = 0; r < size; r++) {
        double after = times[2 * n * r + n + i] - last;
        if (after < 0 && op->content == NOTHING)
            bench_die("rank %d left a barrier %g s before the last one came", r, -after);
        if (counts(r, late, root_then))
            scratch[ranks++] = after < 0 ? 0 : after;
    }
    double middle = median(scratch, ranks); /* sorts */
    return is_late ? middle : scratch[ranks - 1];
}

static double one_by_one(void *arg, long n)
{
    double *times = allocate(2 * (size_t)n * sizeof *times), *all = NULL, result = 0;
    long first = number;
    (void)arg;
    for (long i = 0; i < n; i++, number++) {
        root = (int)(number % size);
        fill(0);
        for (size_t at = 0; is_cold && at < region; at += 64)
            (void)far[at];
        MPI_Barrier(MPI_COMM_WORLD);
        if (is_late && rank == late_rank(number, root))
            spin(late_seconds);
        times[i] = now();
        op->call();
        times[n + i] = now();
        check(0);
    }
    if (rank == 0)
        all = allocate(2 * (size_t)n * (size_t)size * sizeof *all);
    MPI_Gather(times, (int)(2 * n), MPI_DOUBLE, all, (int)(2 * n), MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double *scratch = allocate((size_t)size * sizeof *scratch);
        for (long i = 0; i < n; i++)
            times[i] = cost(all, first, i, n, scratch);
        result = median(times, (int)n) * (double)n;
        free(scratch);
    }
    free(all);
    free(times);
    return result;
}

/* One call whose elements are all checked; its seconds on the slowest rank. */
static double check_all(void)
{
    double took, most;
    root = (int)(number % size);
    fill(1);
    MPI_Barrier(MPI_COMM_WORLD);
    took = now();
    op->call();
    took = now() - took;
    check(1);
    number++;
    MPI_Allreduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static void prepare(long bytes)
{
    if (bytes % (long)sizeof(double) || (bytes == 0) != (op->content == NOTHING))
        bench_die("%s: %ld bytes are no whole number of doubles", op->name, bytes);
    count = (int)(bytes / (long)sizeof(double));
    room = (size_t)count + (op->call == alltoallv ? (size_t)count / 2 + 1 : 0);
    in = allocate((size_t)blocks(op->in_blocks) * room * sizeof *in);
    out = op->call == bcast ? in : allocate((size_t)blocks(op->out_blocks) * room * sizeof *out);
    for (int k = 0; k < size; k++) {
        out_counts[k] = length(rank, k);
        in_counts[k] = length(k, rank);
        places[k] = (int)((size_t)k * room);
    }
}

/* One operation as a batch of its own; what it took in all. */
static double single(BenchRun *run, double *batch)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    *batch = run(NULL, 1);
    double wall = now() - start;
    MPI_Bcast(&wall, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return wall;
}

/* --calls: what a simulator has the time for. */
static void measure_calls(long bytes)
{
    enum { WARM_UP_CALLS = 2 };
    char name[64];
    prepare(bytes);
    check_all();
    back_to_back(NULL, WARM_UP_CALLS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
    double us = back_to_back(NULL, calls) / (double)calls * 1e6;
    MPI_Pcontrol(0);
    check_all();
    snprintf(name, sizeof name, "%s calls%s", op->name, is_read ? " read" : "");
    if (rank == 0)
        figure(name, bytes, size, &us, 1, "us", calls, "");
    if (out != in)
        free(out);
    free(in);
}

static void measure(long bytes)
{
    if (calls > 0) {
        measure_calls(bytes);
        return;
    }
    BenchRun *run = is_cold || is_late ? one_by_one : back_to_back;
    double batch[BATCHES];
    char name[64], more[64] = "";
    int batches = 1;
    long n = 1;
    prepare(bytes);
    /* Where a call takes as long as all batches may, a second one is the figure. */
    double wall = check_all();
    if (wall > LIMIT)
        wall = single(run, batch);
    if (wall <= LIMIT) {
        /* A library may learn from how a buffer is used: more calls than finding a batch's length
         * takes. */
        run(NULL, wall < 0.0025 ? 40 : wall < 0.1 ? (long)(0.1 / wall) : 1);
        n = bench_measure_within(run, NULL, 0.015, LIMIT, batch, &batches);
        check_all();
    }
    for (int b = 0; b < batches; b++)
        batch[b] *= 1e6;
    snprintf(name, sizeof name, "%s%s%s", op->name, is_cold ? " cold" : "", is_late ? " late" : "");
    if (is_late)
        snprintf(more, sizeof more, ", \"late_us\": %g", late_seconds * 1e6);
    if (rank == 0)
        figure(name, bytes, size, batch, batches, "us", n, more);
    if (out != in)
        free(out);
    free(in);
}

/* Twice the last-level cache, at least 64 MiB, by all ranks together; of each 8 MiB at least. */
static void prepare_walk(void)
{
    long cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    region = (cache > 32L << 20 ? 2 * (size_t)cache : (size_t)64 << 20) / (size_t)size;
    region = region < (size_t)8 << 20 ? (size_t)8 << 20 : region;
    far = bench_alloc(region, 1);
}

int main(int argc, char **argv)
{
    static const long usual[] = {8, 1024, 65536, 1048576};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    is_cold = bench_option(&argc, argv, "--cold");
    late_seconds = (double)bench_option_bytes(&argc, argv, "--late", 0) * 1e-6;
    is_late = late_seconds > 0;
    calls = bench_option_bytes(&argc, argv, "--calls", 0);
    is_read = bench_option(&argc, argv, "--read");
    if (is_read && !calls)
        bench_die("--read needs --calls");
    for (int i = 0; i < OPERATIONS && argc > 1; i++)
        if (!strcmp(argv[1], operations[i].name))
            op = &operations[i];
    if (!op)
        bench_die("expected the name of an operation first, such as allreduce");
    out_counts = allocate((size_t)size * sizeof *out_counts);
    in_counts = allocate((size_t)size * sizeof *in_counts);
    places = allocate((size_t)size * sizeof *places);
    if (is_cold)
        prepare_walk();
    if (op->content == NOTHING)
        measure(0);
    for (int i = 2; i < argc; i++)
        measure(bench_bytes(argv[i]));
    for (size_t i = 0; argc == 2 && op->content != NOTHING && i < sizeof usual / sizeof *usual; i++)
        measure(usual[i]);
    MPI_Finalize();
    return 0;
}
