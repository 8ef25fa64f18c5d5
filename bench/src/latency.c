/* Ping-pong between ranks 0 and 1 by MPI_Send and MPI_Recv: one-way time in microseconds, half a
 * round trip, the median of 15 batches. Arguments: sizes (8, 64K, 4M); one of the options below.
 *
 *   (none)      "latency": the same send and the same receive buffer for every message, both warm;
 *               a batch of round trips is timed as a whole.
 *   --no-reuse  "latency no reuse": each message goes from and to another buffer; the buffers lie
 *               spread in a region twice the last-level cache, so none is warm when its turn comes
 *               again (chai 6.2.2). A batch is timed as a whole.
 *   --touch     "latency touched": each rank writes every byte before it sends and reads every byte
 *               after it has received (chai 6.2.2: "we rewrite the send buffers"), so a buffer is
 *               warm only on the side that used it last.
 *   --cold      "latency cold": before each round trip both ranks walk through memory of twice the
 *               last-level cache (64 MiB at least), so buffers and the library's own memory are
 *               cold (chai 3.3.2). Default sizes 8, 1K, 16K, 64K, 1M.
 *
 * With --touch and --cold each round trip is timed by itself, on rank 0; writing, reading and
 * walking are not counted. An exchange of empty messages goes before, so that rank 1 waits in
 * MPI_Recv when rank 0 sends. Every message carries its number, which the receiver checks; all
 * bytes are checked at the end, with --touch each time. */
#include "bench_mpi.h"

#include <unistd.h>

enum { SPREAD = 7919 }; /* a prime: takes the buffers in an order that no prefetcher follows */
typedef enum { WARM, NO_REUSE, TOUCH, COLD } Mode;

static Mode mode;
static int rank;
static long number; /* of the round trip, in the whole run */
static size_t region;
static char *outs, *ins;   /* the buffers, all of a region with --no-reuse */
static volatile char *far; /* what --cold walks through */

typedef struct {
    int bytes;
    long slots, stride; /* buffers, and bytes from one to the next */
} Shape;

/* Twice the last-level cache, at least 64 MiB. */
static size_t beyond_cache(void)
{
    long cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return cache > 32L << 20 ? 2 * (size_t)cache : (size_t)64 << 20;
}

static void exchange(char *out, char *in, int bytes)
{
    if (rank == 0) {
        MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static double round_trips(void *arg, long n)
{
    const Shape *s = arg;
    size_t bytes = (size_t)s->bytes;
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++, number++) {
        long at = number % s->slots * SPREAD % s->slots * s->stride;
        bench_stamp(outs + at, bytes, number);
        exchange(outs + at, ins + at, s->bytes);
        bench_check(ins + at, bytes, number);
    }
    return MPI_Wtime() - start;
}

static double apart(void *arg, long n)
{
    int bytes = ((const Shape *)arg)->bytes;
    double sum = 0;
    for (long i = 0; i < n; i++, number++) {
        if (mode == TOUCH)
            memset(outs, (int)(number + rank) & 127, (size_t)bytes);
        bench_stamp(outs, (size_t)bytes, number);
        if (mode == COLD)
            for (size_t at = 0; at < region; at += 64)
                (void)far[at];
        exchange(NULL, NULL, 0);
        double start = MPI_Wtime();
        exchange(outs, ins, bytes);
        sum += MPI_Wtime() - start;
        bench_check(ins, (size_t)bytes, number);
        if (mode == TOUCH)
            bench_check_rest(ins, (size_t)bytes, (int)(number + 1 - rank) & 127);
    }
    return sum;
}

static void measure(int bytes)
{
    static const char *const names[] = {"latency", "latency no reuse", "latency touched",
                                        "latency cold"};
    Shape s = {bytes, 1, 0};
    double batch[BATCHES];
    if (mode == NO_REUSE) {
        s.stride = bytes ? ((long)bytes + 63) / 64 * 64 : 64;
        s.slots = (long)region / s.stride;
        s.slots -= s.slots % SPREAD == 0;
        if (s.slots < 2)
            bench_die("--no-reuse: %d bytes do not fit twice into %zu", bytes, region);
        memset(outs, 'a' + rank, region);
    } else {
        outs = bench_alloc((size_t)bytes, 'a' + rank);
        ins = bench_alloc((size_t)bytes, 0);
    }
    long n = bench_measure(mode >= TOUCH ? apart : round_trips, &s, 0.015, batch);
    if (mode != TOUCH)
        bench_check_rest(ins + (number - 1) % s.slots * SPREAD % s.slots * s.stride, (size_t)bytes,
                         'a' + 1 - rank);
    for (int b = 0; b < BATCHES; b++)
        batch[b] *= 1e6 / 2;
    if (rank == 0)
        bench_print(names[mode], bytes, 2, batch, "us", n);
    if (mode != NO_REUSE) {
        free(ins);
        free(outs);
    }
}

int main(int argc, char **argv)
{
    static const int usual[] = {0, 8, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304};
    static const int few[] = {8, 1024, 16384, 65536, 1048576};
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        bench_die("needs 2 ranks, has %d", size);
    int no_reuse = bench_option(&argc, argv, "--no-reuse");
    int touch = bench_option(&argc, argv, "--touch");
    int cold = bench_option(&argc, argv, "--cold");
    if (no_reuse + touch + cold > 1)
        bench_die("--no-reuse, --touch and --cold exclude each other");
    mode = no_reuse ? NO_REUSE : touch ? TOUCH : cold ? COLD : WARM;
    region = beyond_cache();
    if (mode == COLD)
        far = bench_alloc(region, 1);
    if (mode == NO_REUSE) {
        outs = bench_alloc(region, 0);
        ins = bench_alloc(region, 0);
    }
    if (argc > 1)
        for (int i = 1; i < argc; i++)
            measure((int)bench_bytes(argv[i]));
    else if (mode == COLD)
        for (size_t i = 0; i < sizeof few / sizeof *few; i++)
            measure(few[i]);
    else
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
            measure(usual[i]);
    MPI_Finalize();
    return 0;
}
