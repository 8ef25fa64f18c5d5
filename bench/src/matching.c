/* How the depth of the matching queues costs: ping-pong of 8 bytes between ranks 0 and 1, half a
 * round trip in microseconds, the median of 15 batches. Depth D is in the measure's name and the
 * key "depth".
 *
 * "matching posted D": before the ping-pong each rank posts D receives from the other, of other
 * tags, so that the receive of the ping-pong is always the last of a queue of D + 1.
 *
 * "matching unexpected D": before the ping-pong each rank sends D messages of 8 bytes and other
 * tags, which are not received yet: each receive of the ping-pong has to look beyond D unexpected
 * messages (messages of one sender do not overtake each other, so they arrived before the first
 * ping).
 *
 * Afterwards the D receives or messages are served, in order, and every byte of them is checked.
 * Arguments: depths (default 0, 1, 100, 1000, 10000). */
#include "bench_mpi.h"

enum { BYTES = 8, PING = 0, SERVE = 1 }; /* tags; the D others have SERVE + i */

static int rank;
static long number; /* of the round trip, in the whole run */

static double round_trips(void *arg, long n)
{
    char out[BYTES], in[BYTES];
    double start = MPI_Wtime();
    (void)arg;
    for (long i = 0; i < n; i++, number++) {
        bench_stamp(out, BYTES, number);
        if (rank == 0) {
            MPI_Send(out, BYTES, MPI_BYTE, 1, PING, MPI_COMM_WORLD);
            MPI_Recv(in, BYTES, MPI_BYTE, 1, PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, BYTES, MPI_BYTE, 0, PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, BYTES, MPI_BYTE, 0, PING, MPI_COMM_WORLD);
        }
        bench_check(in, BYTES, number);
    }
    return MPI_Wtime() - start;
}

static void measure(int depth, int posted)
{
    size_t all = (size_t)depth * BYTES;
    char *outs = bench_alloc(all, 0), *ins = bench_alloc(all, 0);
    MPI_Request *pending = malloc(((size_t)depth + 1) * sizeof *pending);
    double batch[BATCHES];
    char name[64], more[32];
    int other = 1 - rank;
    if (!pending)
        bench_die("no memory for %d requests", depth);
    for (int i = 0; i < depth; i++) {
        bench_stamp(outs + (size_t)i * BYTES, BYTES, (long)depth * 3 + i + rank);
        if (posted)
            MPI_Irecv(ins + (size_t)i * BYTES, BYTES, MPI_BYTE, other, SERVE + i, MPI_COMM_WORLD,
                      &pending[i]);
        else
            MPI_Isend(outs + (size_t)i * BYTES, BYTES, MPI_BYTE, other, SERVE + i, MPI_COMM_WORLD,
                      &pending[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long n = bench_measure(round_trips, NULL, 0.015, batch);
    for (int i = 0; i < depth; i++)
        if (posted)
            MPI_Send(outs + (size_t)i * BYTES, BYTES, MPI_BYTE, other, SERVE + i, MPI_COMM_WORLD);
        else
            MPI_Recv(ins + (size_t)i * BYTES, BYTES, MPI_BYTE, other, SERVE + i, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    MPI_Waitall(depth, pending, MPI_STATUSES_IGNORE);
    for (int i = 0; i < depth; i++)
        bench_check(ins + (size_t)i * BYTES, BYTES, (long)depth * 3 + i + other);
    for (int b = 0; b < BATCHES; b++)
        batch[b] *= 1e6 / 2;
    snprintf(name, sizeof name, "matching %s %d", posted ? "posted" : "unexpected", depth);
    snprintf(more, sizeof more, ", \"depth\": %d", depth);
    if (rank == 0)
        bench_print_more(name, BYTES, 2, batch, "us", n, more);
    free(pending);
    free(ins);
    free(outs);
}

int main(int argc, char **argv)
{
    static const int depths[] = {0, 1, 100, 1000, 10000};
    int size, flag, *most;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        bench_die("needs 2 ranks, has %d", size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &flag);
    for (int posted = 1; posted >= 0; posted--)
        if (argc > 1)
            for (int i = 1; i < argc; i++) {
                long depth = bench_bytes(argv[i]);
                if (flag && depth > *most - SERVE)
                    bench_die("depth %ld is more than there are tags: %d", depth, *most);
                measure((int)depth, posted);
            }
        else
            for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
                measure(depths[i], posted);
    MPI_Finalize();
    return 0;
}
