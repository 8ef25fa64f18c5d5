/* Overlap of communication and computation (chai-2009, 7.3.2, Figure 7.6).
 *
 * In an exchange both ranks call MPI_Irecv and MPI_Isend of N bytes to each other (--one-way: only
 * rank 0 sends), compute, and call MPI_Waitall. Three things are timed in turn, on both ranks at
 * once:
 *
 *     comm       the exchange without computation
 *     compute    the computation without the exchange
 *     total      the exchange with the computation in its middle
 *
 *     "overlap ratio"   total / compute, the paper's figure: 1 is perfect
 *     "overlap hidden"  100 * (1 - (total - compute) / comm) percent: how much of the communication
 *                       vanished behind the computation; 100 is perfect, 0 is none. It is not
 *                       clamped: noise, or polling that costs more than it brings, may leave
 *                       the range from 0 to 100.
 *
 * The computation is a fixed amount of arithmetic, twice as long as comm, not a spin on the clock:
 * the cycles that a helper thread or an interrupt takes from it lengthen it, as they would a real
 * program. It makes no MPI call, so what overlaps is moved by another thread or device; with
 * --probe it calls MPI_Iprobe every 100 us, as the paper does, and the probes' own time counts as
 * communication not hidden.
 *
 * Each time runs from the first rank's start to the last rank's end, on the node's common clock,
 * after a barrier. So the definition also holds when both ranks share one core and a helper has the
 * other: the computations of both ranks then take turns, "compute" is their sum and so is what
 * "total" contains, and the amount is chosen so that this sum is twice comm.
 *
 * Median of 15 batches; ratio and hidden are formed in each batch from its own three times. The
 * keys comm_us, compute_us and total_us are medians. Arguments: [--one-way] [--probe] sizes
 * (default 4 MiB, 128 KiB, 4 B). First and last byte of every message are checked, and all bytes of
 * the first and of one with computation at the end. */
#include "overlap.h"

enum { PROBES = 7 };
static int rank, one_way, probe;
static long slice;     /* units of work between two probes */
static unsigned count; /* numbers the exchanges of the whole run */

struct buffers {
    char *out, *in;
    long bytes;
};

static unsigned char filler(unsigned number, int from, long at)
{
    return (unsigned char)(number * 3 + (unsigned)from * 101 + (unsigned)(at * 7 + at / 253));
}

static void compute(long units)
{
    for (; probe && units > slice; units -= slice) {
        int there;
        work(slice);
        MPI_Iprobe(1 - rank, PROBES, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        if (there)
            bench_die("a message of tag %d, which no rank sends", PROBES);
    }
    work(units);
}

/* A barrier, then an exchange with `units` of work in it; its start and its end on this rank. */
static void exchange(struct buffers *b, long units, int whole, double *start, double *end)
{
    MPI_Request requests[2];
    int n = 0;
    long last = b->bytes - 1;
    for (long at = 0; whole && at <= last; at++)
        b->out[at] = (char)filler(count, rank, at);
    b->out[0] = (char)filler(count, rank, 0);
    b->out[last] = (char)filler(count, rank, last);
    MPI_Barrier(MPI_COMM_WORLD);
    *start = now();
    if (rank == 1 || !one_way)
        MPI_Irecv(b->in, (int)b->bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[n++]);
    if (rank == 0 || !one_way)
        MPI_Isend(b->out, (int)b->bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[n++]);
    if (units > 0)
        compute(units);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    *end = now();
    if (rank == 1 || !one_way)
        for (long at = 0; at <= last; at += whole || last == 0 ? 1 : last)
            if (b->in[at] != (char)filler(count, 1 - rank, at))
                bench_die("exchange %u: byte %ld of %ld is wrong", count, at, b->bytes);
    count++;
}

static double exchanges(struct buffers *b, long units, int n)
{
    static double starts[MOST], ends[MOST];
    for (int i = 0; i < n; i++)
        exchange(b, units, 0, &starts[i], &ends[i]);
    return together(starts, ends, n);
}

static void measure(long bytes)
{
    struct buffers b = {allocate((size_t)bytes), allocate((size_t)bytes), bytes};
    double comm[BATCHES], alone[BATCHES], total[BATCHES], ratio[BATCHES], hidden[BATCHES], start,
        end;
    char name[96], extra[160];
    if (bytes == 0)
        bench_die("a message without bytes cannot be checked");
    exchange(&b, 0, 1, &start, &end);
    exchanges(&b, 0, 20);
    for (int i = 0; i < 5; i++)
        comm[i] = exchanges(&b, 0, 10);
    double once = median(comm, 5);
    double fit = 1e4 / once; /* a batch of the three takes some 60 ms */
    int n = fit < 3 ? 3 : fit > MOST ? MOST : (int)fit;
    MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
    long units = calibrate(2 * once, n < 50 ? n : 50);
    for (int i = 0; i < BATCHES; i++) {
        comm[i] = exchanges(&b, 0, n);
        alone[i] = computations(units, n);
        total[i] = exchanges(&b, units, n);
        ratio[i] = total[i] / alone[i];
        hidden[i] = 100 * (1 - (total[i] - alone[i]) / comm[i]);
    }
    exchange(&b, units, 1, &start, &end);
    if (rank == 0) {
        const char *way = one_way ? " one way" : "", *poll = probe ? " probe" : "";
        snprintf(extra, sizeof extra,
                 ", \"comm_us\": %.6g, \"compute_us\": %.6g, \"total_us\": %.6g",
                 median(comm, BATCHES), median(alone, BATCHES), median(total, BATCHES));
        snprintf(name, sizeof name, "overlap ratio%s%s", way, poll);
        figure(name, bytes, 2, ratio, BATCHES, "total/compute", n, extra);
        snprintf(name, sizeof name, "overlap hidden%s%s", way, poll);
        figure(name, bytes, 2, hidden, BATCHES, "%", n, extra);
    }
    free(b.out);
    free(b.in);
}

int main(int argc, char **argv)
{
    static const long sizes[] = {4L << 20, 128L << 10, 4};
    int size, near;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        bench_die("needs 2 ranks, has %d", size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &near);
    MPI_Comm_free(&node);
    if (near != 2)
        bench_die("needs both ranks on one node: it compares their clocks");
    one_way = bench_option(&argc, argv, "--one-way");
    probe = bench_option(&argc, argv, "--probe");
    /* The fastest of five tries: what a core without other work computes in 100 us. */
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double start = now();
        work(20000);
        double took = now() - start;
        best = took < best ? took : best;
    }
    slice = (long)(20000 * 100e-6 / best) + 1;
    for (int i = 1; i < argc; i++)
        measure(bench_bytes(argv[i]));
    for (int i = 0; i < 3 && argc == 1; i++)
        measure(sizes[i]);
    MPI_Finalize();
    return 0;
}
