/* Process skew (chai-2009, 6.2.4, Figure 6.5): a producer that is ahead of its consumer.
 *
 * In a window, rank 0 (the producer) 64 times computes for c1 = 1 us and starts an MPI_Isend from a
 * buffer of its own, then calls MPI_Waitall; rank 1 (the consumer) 64 times calls MPI_Recv and
 * computes for c2. A barrier before each window is outside of the times. "producer skew c2=X" is
 * the paper's c3: microseconds from the producer's first computation to the end of its MPI_Waitall,
 * the median of 31 windows with c2 = X us. A library that lets the send complete without the
 * receiver stays near 64 c1 whatever c2 is; one that does not grows with 64 c2. "consumer skew
 * c2=X" is the consumer's time for the whole window. The key "first" is the first window at this c2
 * and shows what adaptation costs.
 *
 * Computation spins on the clock. Arguments: sizes in bytes (default 16384 and 65536). Every
 * message carries its number in its first and last word, which the consumer checks (in its time:
 * some nanoseconds); all bytes are checked in windows apart, one at the start and one for each c2.
 */
#include "compute.h"

enum { WINDOW = 64, WINDOWS = 31, WARM_UP = 3 };
static const double c1 = 1e-6;
static const int c2_us[] = {0, 10, 50, 100, 200};
static uint64_t sent; /* numbers the messages of the whole run, on both ranks */

static unsigned char filler(uint64_t number, long at)
{
    return (unsigned char)(number * 7 + (uint64_t)at * 13 + (uint64_t)at / 251);
}

static void stamp(char *buffer, long bytes, uint64_t number)
{
    memcpy(buffer, &number, sizeof number);
    memcpy(buffer + bytes - sizeof number, &number, sizeof number);
}

static void check(const char *buffer, long bytes, uint64_t number)
{
    if (memcmp(buffer, &number, sizeof number) ||
        memcmp(buffer + bytes - sizeof number, &number, sizeof number))
        bench_die("message %llu of %ld bytes is not the one expected", (unsigned long long)number,
                  bytes);
}

/* One window; this rank's time. `whole` also fills and checks the bytes between the stamps. */
static double window(int rank, char *const *buffers, long bytes, double c2, int whole)
{
    MPI_Request requests[WINDOW];
    if (rank == 0)
        for (int i = 0; i < WINDOW; i++) {
            for (long at = 0; whole && at < bytes; at++)
                buffers[i][at] = (char)filler(sent + (uint64_t)i, at);
            stamp(buffers[i], bytes, sent + (uint64_t)i);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) {
            spin(c1);
            MPI_Isend(buffers[i], (int)bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
            continue;
        }
        MPI_Recv(buffers[0], (int)bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(buffers[0], bytes, sent + (uint64_t)i);
        for (long at = 8; whole && at < bytes - 8; at++)
            if (buffers[0][at] != (char)filler(sent + (uint64_t)i, at))
                bench_die("byte %ld of %ld is wrong", at, bytes);
        spin(c2);
    }
    if (rank == 0)
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    sent += WINDOW;
    return now() - start;
}

static void measure(int rank, long bytes)
{
    double mine[WINDOWS], theirs[WINDOWS];
    char *buffers[WINDOW], name[64], extra[64];
    if (bytes < 8)
        bench_die("%ld bytes are too few for a message's number", bytes);
    for (int i = 0; i < WINDOW; i++)
        buffers[i] = allocate((size_t)bytes);
    for (int w = 0; w < WARM_UP; w++)
        window(rank, buffers, bytes, 0, w == 0);
    for (size_t c = 0; c < sizeof c2_us / sizeof *c2_us; c++) {
        for (int w = 0; w < WINDOWS; w++)
            mine[w] = window(rank, buffers, bytes, c2_us[c] * 1e-6, 0) * 1e6;
        window(rank, buffers, bytes, c2_us[c] * 1e-6, 1);
        if (rank == 1) {
            MPI_Send(mine, WINDOWS, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
            continue;
        }
        MPI_Recv(theirs, WINDOWS, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int side = 0; side < 2; side++) {
            double *times = side ? theirs : mine;
            snprintf(name, sizeof name, "%s skew c2=%d", side ? "consumer" : "producer", c2_us[c]);
            snprintf(extra, sizeof extra, ", \"first\": %.6g", times[0]);
            figure(name, bytes, 2, times, WINDOWS, "us", WINDOW, extra);
        }
    }
    for (int i = 0; i < WINDOW; i++)
        free(buffers[i]);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        bench_die("needs 2 ranks, has %d", size);
    for (int i = 1; i < argc; i++)
        measure(rank, bench_bytes(argv[i]));
    if (argc == 1) {
        measure(rank, 16384);
        measure(rank, 65536);
    }
    MPI_Finalize();
    return 0;
}
