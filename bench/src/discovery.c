/* Message discovery with two channels (chai-2009, 7.3.1, Figure 7.3).
 *
 * Three ranks: rank 0 is the root, ranks 1 and 2 are its peers, which the paper (and the caller of
 * this program) connects by channels of different kinds. The root alternately tells one of the
 * peers to send a burst of 4-byte messages; it receives each by MPI_ANY_SOURCE and answers with an
 * acknowledgement of 4 bytes, which the peer awaits before it sends the next. "discovery burst N"
 * is the mean time T of one message of a burst of N: microseconds from the peer's MPI_Send to the
 * arrival of the acknowledgement; the median over all bursts of both peers. Polling that favours
 * one channel pays when the other one's burst begins: the key "first" is the median T of a burst's
 * first message, "peer_1" and "peer_2" are the medians of each peer's bursts.
 *
 * The peer whose turn it is not naps outside of MPI between looks for its turn, so that the ranks
 * at work have two cores to themselves; its discovery of its turn is not timed. Arguments: lengths
 * of bursts (default 100 and 200). Messages and acknowledgements carry their number, and the root
 * checks number and source of each: a message that overtook another or came from the wrong peer
 * ends the job. */
#include "compute.h"

enum { BURSTS = 64, WARM_UP = 4, DATA = 0, TURN = 1, TIMES = 2 };

/* The root's part of a burst from `peer`, messages `number` and up. */
static void answer(int peer, int burst, int number)
{
    int turn = number;
    MPI_Send(&turn, 1, MPI_INT, peer, TURN, MPI_COMM_WORLD);
    for (int i = 0; i < burst; i++) {
        MPI_Status status;
        int got = -1, want = number + i;
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &status);
        if (got != want || status.MPI_SOURCE != peer)
            bench_die("message %d from rank %d, expected %d from rank %d", got, status.MPI_SOURCE,
                      want, peer);
        MPI_Send(&got, 1, MPI_INT, peer, DATA, MPI_COMM_WORLD);
    }
}

/* A peer's part: the mean time of a message, and that of the first one, in microseconds. */
static void ask(int burst, double *mean, double *first)
{
    const struct timespec nap = {0, 50000};
    int there = 0, number = -1;
    while (MPI_Iprobe(0, TURN, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE), !there)
        nanosleep(&nap, NULL);
    MPI_Recv(&number, 1, MPI_INT, 0, TURN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double start = now();
    *first = 0;
    for (int i = 0; i < burst; i++) {
        int out = number + i, in = -1;
        MPI_Send(&out, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD);
        MPI_Recv(&in, 1, MPI_INT, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (i == 0)
            *first = (now() - start) * 1e6;
        if (in != out)
            bench_die("acknowledgement %d, expected %d", in, out);
    }
    *mean = (now() - start) * 1e6 / burst;
}

static void measure(int rank, int burst)
{
    /* Means, then first messages; of peer 1, then of peer 2. */
    double times[2][2][BURSTS], mean, first;
    if (burst < 1)
        bench_die("a burst of %d messages cannot be", burst);
    if (rank == 0) {
        int number = 0;
        for (int b = 0; b < WARM_UP + BURSTS; b++)
            for (int peer = 1; peer <= 2; peer++, number = (number + burst) % (1 << 30))
                answer(peer, burst, number);
        for (int what = 0; what < 2; what++)
            for (int peer = 1; peer <= 2; peer++)
                MPI_Recv(times[what][peer - 1], BURSTS, MPI_DOUBLE, peer, TIMES, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        char name[64], extra[128];
        double *means = times[0][0], *firsts = times[1][0], each[2];
        for (int p = 0; p < 2; p++)
            each[p] = median(times[0][p], BURSTS);
        snprintf(name, sizeof name, "discovery burst %d", burst);
        snprintf(extra, sizeof extra, ", \"first\": %.6g, \"peer_1\": %.6g, \"peer_2\": %.6g",
                 median(firsts, 2 * BURSTS), each[0], each[1]);
        figure(name, 4, 3, means, 2 * BURSTS, "us", burst, extra);
        return;
    }
    for (int b = -WARM_UP; b < BURSTS; b++) {
        ask(burst, &mean, &first);
        if (b >= 0) {
            times[0][0][b] = mean;
            times[1][0][b] = first;
        }
    }
    for (int what = 0; what < 2; what++)
        MPI_Send(times[what][0], BURSTS, MPI_DOUBLE, 0, TIMES, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 3)
        bench_die("needs 3 ranks, has %d", size);
    for (int i = 1; i < argc; i++)
        measure(rank, (int)bench_bytes(argv[i]));
    if (argc == 1) {
        measure(rank, 100);
        measure(rank, 200);
    }
    MPI_Finalize();
    return 0;
}
