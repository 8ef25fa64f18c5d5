/* Ping-pong between ranks 0 and 1 by MPI_Send and MPI_Recv: one-way latency in microseconds, the
 * median of 15 batches. Send and receive buffer differ, both are warm. Arguments: sizes in bytes
 * (default 8, 64 KiB, 1 MiB). Every message carries its number, which the receiver checks, so that
 * a stale buffer or a lost message cannot pass for a fast one; all bytes are checked at the end. */
#include "bench.h"

#include <mpi.h>
#include <string.h>

static long sent; /* numbers the round trips of the whole run */

static void stamp(char *out, int bytes)
{
    memcpy(out, &sent, (size_t)bytes < sizeof sent ? (size_t)bytes : sizeof sent);
}

static void check(const char *in, int bytes)
{
    if (memcmp(in, &sent, (size_t)bytes < sizeof sent ? (size_t)bytes : sizeof sent)) {
        fprintf(stderr, "pingpong: message %ld of %d bytes is not the one expected\n", sent, bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double round_trips(int rank, char *out, char *in, int bytes, long n)
{
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++, sent++) {
        stamp(out, bytes);
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
        check(in, bytes);
    }
    return MPI_Wtime() - start;
}

static void measure(int rank, int bytes)
{
    char *out = malloc((size_t)bytes + 1), *in = malloc((size_t)bytes + 1);
    double batch[BATCHES], once;
    memset(out, 'a' + rank, (size_t)bytes + 1);
    memset(in, 0, (size_t)bytes + 1);
    round_trips(rank, out, in, bytes, 200);
    once = round_trips(rank, out, in, bytes, 200) / 200;
    long n = (long)(0.02 / (once > 1e-8 ? once : 1e-8)) + 10; /* a batch takes some 20 ms */
    MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int b = 0; b < BATCHES; b++)
        batch[b] = round_trips(rank, out, in, bytes, n) / (double)n / 2 * 1e6;
    for (int i = sizeof sent; i < bytes; i++)
        if (in[i] != 'a' + (1 - rank)) {
            fprintf(stderr, "pingpong: byte %d of %d is wrong\n", i, bytes);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    if (rank == 0)
        bench_print("pingpong", bytes, 2, batch, "us", n);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 65536, 1048576};
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        fprintf(stderr, "pingpong: needs 2 ranks, has %d\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (argc > 1)
        for (int i = 1; i < argc; i++)
            measure(rank, atoi(argv[i]));
    else
        for (int i = 0; i < 3; i++)
            measure(rank, sizes[i]);
    MPI_Finalize();
    return 0;
}
