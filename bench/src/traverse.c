/* Linear traversal of incoming network data (leon-2009, 2.3.2; Figures 2.4 and 2.5).
 *
 * Ranks work in pairs: an even rank sends messages of 32-bit words, the next one receives them and
 * reduces each to the sum of its words. Two receives are posted at any time, so that one message
 * arrives while the one before is traversed. A word that has arrived is read once, in order: the
 * best case of a prefetcher, and of injection. `--work W` adds W dependent operations to each word,
 * so that a line of the cache takes as long as in another processor.
 *
 *     "traverse"    microseconds of a message on the receiver, from the first receive's completion
 *                   to the last sum, divided by the messages
 *
 * The receivers' region of interest (MPI_Pcontrol(1), then 0) begins before the first receive is
 * posted, so that every message comes within. Every sum is checked. Arguments: bytes of a message
 * (256K), `--messages N` (16) that are timed after two that are not. */
#include "compute.h"

enum { BUFFERS = 2, STEP = 13 };

/* The sum of the words of a message, which begins with its number; the others are multiples of
 * their place. */
static uint32_t expected(long message, size_t n)
{
    return (uint32_t)message + STEP * (uint32_t)((uint64_t)n * (n - 1) / 2);
}

/* The reduction. The operations of `work` change nothing, which the compiler does not know. */
static uint32_t reduce(const uint32_t *data, size_t n, long work)
{
    static volatile uint32_t always_zero;
    uint32_t sum = 0, zero = always_zero;
    for (size_t i = 0; i < n; i++) {
        uint32_t x = data[i];
        for (long w = 0; w < work; w++)
            x = (x + zero) ^ zero;
        sum += x;
    }
    return sum;
}

static void send_all(int to, size_t n, long messages)
{
    uint32_t *data = allocate(n * sizeof *data);
    for (size_t i = 0; i < n; i++)
        data[i] = STEP * (uint32_t)i;
    for (long m = 0; m < messages; m++) {
        data[0] = (uint32_t)m;
        MPI_Send(data, (int)n, MPI_UINT32_T, to, 0, MPI_COMM_WORLD);
    }
    free(data);
}

/* Receives and sums; returns seconds of the messages that count. */
static double receive_all(int from, size_t n, long messages, long work)
{
    uint32_t *data[BUFFERS];
    MPI_Request requests[BUFFERS];
    double start = 0;
    for (int b = 0; b < BUFFERS; b++)
        data[b] = allocate(n * sizeof **data);
    MPI_Pcontrol(1);
    for (int b = 0; b < BUFFERS; b++)
        MPI_Irecv(data[b], (int)n, MPI_UINT32_T, from, 0, MPI_COMM_WORLD, &requests[b]);
    for (long m = 0; m < messages; m++) {
        int b = (int)(m % BUFFERS);
        MPI_Wait(&requests[b], MPI_STATUS_IGNORE);
        if (m == BUFFERS)
            start = now();
        uint32_t sum = reduce(data[b], n, work);
        if (sum != expected(m, n))
            bench_die("message %ld of %zu words has the sum %u, not %u", m, n, sum,
                      expected(m, n));
        if (m + BUFFERS < messages)
            MPI_Irecv(data[b], (int)n, MPI_UINT32_T, from, 0, MPI_COMM_WORLD, &requests[b]);
    }
    double took = now() - start;
    MPI_Pcontrol(0);
    for (int b = 0; b < BUFFERS; b++)
        free(data[b]);
    return took;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long work = bench_option_bytes(&argc, argv, "--work", 0);
    long messages = bench_option_bytes(&argc, argv, "--messages", 16);
    long bytes = argc > 1 ? bench_bytes(argv[1]) : 256L << 10;
    if (argc > 2 || size % 2 || bytes < 4 || bytes % 4 || messages < 1)
        bench_die("expected bytes, a multiple of 4, and an even number of ranks");
    double took = 0, slowest;
    if (rank % 2)
        took = receive_all(rank - 1, (size_t)bytes / 4, messages + BUFFERS, work);
    else
        send_all(rank + 1, (size_t)bytes / 4, messages + BUFFERS);
    MPI_Reduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double us = slowest / (double)messages * 1e6;
        figure("traverse", bytes, size, &us, 1, "us", messages, "");
    }
    MPI_Finalize();
    return 0;
}
