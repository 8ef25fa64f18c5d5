/* Small messages of n/2 pairs at once (ranks i and i + n/2), the medians of 15 batches.
 *
 * "message rate": messages of 8 bytes per second, all pairs together, over the time of the slowest
 * pair; windows of 64 messages as stream.h describes them, a buffer for each message of a window.
 * "multi-pair latency": each pair plays ping-pong (MPI_Send, MPI_Recv, warm buffers); half a round
 * trip in microseconds, the mean over the pairs (chai 6.2.2). With 2 ranks it is plain latency.
 * Arguments: sizes of the ping-pong (default 8, 64K); --window N (default 64, at most 128). */
#include "stream.h"

static int rank, size, partner;
static long number; /* of the round trip, in the whole run */

typedef struct {
    char *out, *in;
    int bytes;
} Buffers;

/* Seconds that `n` round trips take, the mean over the pairs. */
static double round_trips(void *arg, long n)
{
    const Buffers *m = arg;
    double mine, sum, start = MPI_Wtime();
    for (long i = 0; i < n; i++, number++) {
        bench_stamp(m->out, (size_t)m->bytes, number);
        if (rank < partner) {
            MPI_Send(m->out, m->bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
            MPI_Recv(m->in, m->bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(m->in, m->bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(m->out, m->bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
        }
        bench_check(m->in, (size_t)m->bytes, number);
    }
    mine = rank < partner ? MPI_Wtime() - start : 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum / (size / 2);
}

static void latency(int bytes)
{
    Buffers m = {bench_alloc((size_t)bytes, 'a' + rank % 16), bench_alloc((size_t)bytes, 0), bytes};
    double batch[BATCHES];
    long n = bench_measure(round_trips, &m, 0.05, batch);
    bench_check_rest(m.in, (size_t)bytes, 'a' + partner % 16);
    for (int b = 0; b < BATCHES; b++)
        batch[b] *= 1e6 / 2;
    if (rank == 0)
        bench_print("multi-pair latency", bytes, size, batch, "us", n);
    free(m.in);
    free(m.out);
}

int main(int argc, char **argv)
{
    char more[32];
    double batch[BATCHES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long window = bench_option_bytes(&argc, argv, "--window", 64);
    if (window < 1 || window > MOST_WINDOW)
        bench_die("--window %ld: from 1 to %d", window, MOST_WINDOW);
    Stream s = stream_open(8, (int)window, STREAM_EACH, 0, 0);
    partner = s.partner;
    long n = bench_measure(stream_run, &s, 0.05, batch);
    for (int b = 0; b < BATCHES; b++)
        batch[b] = (double)window * (size / 2) / batch[b];
    snprintf(more, sizeof more, ", \"window\": %ld", window);
    if (rank == 0)
        bench_print_more("message rate", 8, size, batch, "messages/s", n, more);
    if (argc > 1)
        for (int i = 1; i < argc; i++)
            latency((int)bench_bytes(argv[i]));
    else {
        latency(8);
        latency(65536);
    }
    MPI_Finalize();
    return 0;
}
