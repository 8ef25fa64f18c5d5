/* Streaming bandwidth in MB/s (10^6 bytes a second), the median of 15 batches: windows of 64
 * messages, as stream.h describes them (fewer above 512 KiB: a window holds at most 32 MiB). One
 * direction ("bandwidth") and both at once, the sum of both counted ("bandwidth bidirectional").
 * Arguments: sizes (default 4K to 4M by factors of 4), and
 *
 *   --no-reuse  "... no reuse": every message from and to another buffer (chai 6.2.1, Figure 6.2)
 *   --touch     "... touched": a buffer for each message of a window, used again in every window
 *               and rewritten by the sender before it, outside the measured time (chai 6.2.2,
 *               Figure 6.3)
 *   --pairs     "... pairs": needs an even number of ranks; i and i + n/2 are a pair, all pairs at
 *               once; the bytes of all pairs over the time of the slowest. Without it 2 ranks.
 *
 * --pairs goes with either of the others (chai Figure 6.2 is --pairs --no-reuse). */
#include "stream.h"

static int rank, size, touch;
static StreamBuffers buffers;

static void measure(int bytes, int both, const char *suffix)
{
    int window = bytes > 512 << 10 ? (32 << 20) / bytes : 64;
    double batch[BATCHES];
    char name[96], more[32];
    window = window < 1 ? 1 : window;
    Stream s = stream_open(bytes, window, buffers, touch, both);
    long n = bench_measure(stream_run, &s, 0.015, batch);
    for (int b = 0; b < BATCHES; b++)
        batch[b] = (double)bytes * window * (size / 2) * (1 + both) / batch[b] / 1e6;
    snprintf(name, sizeof name, "bandwidth%s%s", both ? " bidirectional" : "", suffix);
    snprintf(more, sizeof more, ", \"window\": %d", window);
    if (rank == 0)
        bench_print_more(name, bytes, size, batch, "MB/s", n, more);
}

int main(int argc, char **argv)
{
    char suffix[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int no_reuse = bench_option(&argc, argv, "--no-reuse");
    int pairs = bench_option(&argc, argv, "--pairs");
    touch = bench_option(&argc, argv, "--touch");
    if (no_reuse && touch)
        bench_die("--no-reuse and --touch exclude each other");
    if (!pairs && size != 2)
        bench_die("needs 2 ranks, has %d; --pairs takes any even number", size);
    buffers = no_reuse ? STREAM_NEW : touch ? STREAM_EACH : STREAM_ONE;
    snprintf(suffix, sizeof suffix, "%s%s%s", no_reuse ? " no reuse" : "", touch ? " touched" : "",
             pairs ? " pairs" : "");
    for (int both = 0; both < 2; both++)
        if (argc > 1)
            for (int i = 1; i < argc; i++)
                measure((int)bench_bytes(argv[i]), both, suffix);
        else
            for (int bytes = 4096; bytes <= 4 << 20; bytes *= 4)
                measure(bytes, both, suffix);
    MPI_Finalize();
    return 0;
}
