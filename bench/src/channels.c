/* Latency of two channels that one rank has to poll (chai-2009, 7.3.1, Figure 7.2).
 *
 * Three ranks: rank 0 is the root, ranks 1 and 2 are its peers, which the caller of this program
 * connects by channels of different kinds: rank 1 by shared memory, rank 2 by the network (another
 * node) or another second channel. The root plays ping-pong with either of them, MPI_Send and
 * MPI_Recv, while the other one sleeps outside of MPI. It receives from MPI_ANY_SOURCE: a receive
 * that names its source need not poll the other channel. "latency of shared memory" is half a round
 * trip with rank 1 in microseconds, "latency of the second channel" that with rank 2, medians of 15
 * batches. A library that rarely polls the second channel has a low latency on the first and a high
 * one on the second.
 *
 * The paper's priority ratio is MICA_POLL_RATIO. Arguments: sizes (default 4, 2K). Every message
 * carries its number, which the receiver checks. */
#include "compute.h"

enum { DATA = 0, TURN = 1, TARGET_MS = 15 };
static int rank;
static long number;

static double round_trips(int partner, char *out, char *in, int bytes, long n)
{
    double start = now();
    for (long i = 0; i < n; i++, number++) {
        bench_stamp(out, (size_t)bytes, number);
        if (rank == 0) {
            MPI_Send(out, bytes, MPI_BYTE, partner, DATA, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
        }
        bench_check(in, (size_t)bytes, number);
    }
    return now() - start;
}

/* The root tells a peer to play `n` round trips, from message `number` on; 0 ends the size. */
static double turn(int peer, char *out, char *in, int bytes, long n)
{
    long order[2] = {n, number};
    MPI_Send(order, 2, MPI_LONG, peer, TURN, MPI_COMM_WORLD);
    return n ? round_trips(peer, out, in, bytes, n) : 0;
}

static void serve(char *out, char *in, int bytes)
{
    const struct timespec nap = {0, 50000};
    for (long order[2] = {1, 0}; order[0];) {
        int there = 0;
        while (MPI_Iprobe(0, TURN, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE), !there)
            nanosleep(&nap, NULL);
        MPI_Recv(order, 2, MPI_LONG, 0, TURN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        number = order[1];
        round_trips(0, out, in, bytes, order[0]);
    }
}

static void measure(int bytes)
{
    static const char *const names[] = {"latency of shared memory", "latency of the second channel"};
    char *out = bench_alloc((size_t)bytes, 1), *in = bench_alloc((size_t)bytes, 2);
    if (rank != 0)
        serve(out, in, bytes);
    for (int peer = 1; rank == 0 && peer <= 2; peer++) {
        double batch[BATCHES];
        long n = 16;
        /* Enough for 15 ms. The first message of a turn waits for the peer to look up from its nap.
         */
        for (; n < 1L << 20; n *= 2) {
            if (turn(peer, out, in, bytes, n) * 1e3 >= TARGET_MS)
                break;
        }
        for (int b = 0; b < BATCHES; b++) {
            long order[2] = {n + 1, number};
            MPI_Send(order, 2, MPI_LONG, peer, TURN, MPI_COMM_WORLD);
            round_trips(peer, out, in, bytes, 1); /* the peer is awake now */
            batch[b] = round_trips(peer, out, in, bytes, n) / (double)n / 2 * 1e6;
        }
        bench_print(names[peer - 1], bytes, 3, batch, "us", n);
    }
    for (int peer = 1; rank == 0 && peer <= 2; peer++)
        turn(peer, out, in, bytes, 0);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 3)
        bench_die("needs 3 ranks, has %d", size);
    for (int i = 1; i < argc; i++)
        measure((int)bench_bytes(argv[i]));
    if (argc == 1) {
        measure(4);
        measure(2048);
    }
    MPI_Finalize();
    return 0;
}
