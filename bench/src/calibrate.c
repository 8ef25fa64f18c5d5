/* For `mica tune`: the one-way time of messages between ranks 0 and 1, both waiting, each buffer
 * used again and again.
 *
 * calibrate SECONDS MESSAGE...    a message is BYTES, or BYTES/BLOCK for pieces of BLOCK bytes with gaps as long
 *
 * Prints one JSON line a message, as the benchmark programs do: the median of 15 batches in
 * microseconds, with the least and the greatest, and the quartiles, which say how noisy the machine
 * is. About SECONDS go into each message. Every message carries its number and is checked, so that
 * what is measured has arrived. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALIBRATE_BATCHES = 15 };

struct message {
    long bytes, block; /* block 0: contiguous */
    int count;         /* of `type` */
    size_t extent;     /* bytes of memory */
    MPI_Datatype type;
};

static void fail(const char *what, const char *value)
{
    fprintf(stderr, "calibrate: %s: %s\n", what, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static int order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct message parse(const char *text)
{
    struct message m = {0, 0, 0, 0, MPI_BYTE};
    char *end;
    m.bytes = strtol(text, &end, 10);
    if (*end == '/') {
        m.block = strtol(end + 1, &end, 10);
        if (m.block < 1 || m.bytes % m.block)
            fail("not a number of blocks", text);
    }
    if (*end || m.bytes < 0 || m.bytes > 1L << 30)
        fail("not a message", text);
    m.count = (int)m.bytes;
    m.extent = (size_t)m.bytes;
    if (m.block) {
        MPI_Type_vector((int)(m.bytes / m.block), (int)m.block, (int)(2 * m.block), MPI_BYTE, &m.type);
        MPI_Type_commit(&m.type);
        m.count = 1;
        m.extent *= 2;
    }
    return m;
}

static long number; /* of the round trip */

static double round_trips(int rank, const struct message *m, char *out, char *in, long n)
{
    size_t stamp = m->bytes < (long)sizeof number ? (size_t)m->bytes : sizeof number;
    if (m->block && (size_t)m->block < stamp)
        stamp = (size_t)m->block;
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++, number++) {
        memcpy(out, &number, stamp);
        if (rank == 0) {
            MPI_Send(out, m->count, m->type, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(in, m->count, m->type, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(in, m->count, m->type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, m->count, m->type, 0, 0, MPI_COMM_WORLD);
        }
        if (memcmp(in, &number, stamp))
            fail("another message than the one expected", "wrong number");
    }
    return MPI_Wtime() - start;
}

/* Every byte of the message must be the peer's, but for the number at its start. */
static void check(int rank, const struct message *m, const char *in)
{
    long block = m->block ? m->block : m->bytes;
    for (long i = (long)sizeof number; i < m->bytes; i++)
        if (in[i / block * (m->block ? 2 * block : block) + i % block] != 'a' + (1 - rank))
            fail("a byte of the message is wrong", m->block ? "in pieces" : "contiguous");
}

static void measure(int rank, double seconds, const char *text)
{
    struct message m = parse(text);
    char *out = malloc(m.extent + sizeof number), *in = malloc(m.extent + sizeof number);
    double batch[CALIBRATE_BATCHES], once;
    long n;
    if (!out || !in)
        fail("no memory for a message of", text);
    memset(out, 'a' + rank, m.extent + sizeof number);
    memset(in, 0, m.extent + sizeof number);
    round_trips(rank, &m, out, in, 2);
    once = round_trips(rank, &m, out, in, 2) / 2;
    n = (long)(seconds / 8 / (once > 1e-8 ? once : 1e-8)) + 1;
    MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    once = round_trips(rank, &m, out, in, n) / (double)n; /* warm by now */
    n = (long)(seconds / CALIBRATE_BATCHES / (once > 1e-8 ? once : 1e-8)) + 1;
    MPI_Bcast(&n, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int b = 0; b < CALIBRATE_BATCHES; b++)
        batch[b] = round_trips(rank, &m, out, in, n) / (double)n / 2 * 1e6;
    check(rank, &m, in);
    if (rank == 0) {
        qsort(batch, CALIBRATE_BATCHES, sizeof *batch, order);
        printf("{\"measure\": \"calibrate\", \"bytes\": %ld, \"block\": %ld, \"ranks\": 2, \"value\": %.6g, "
               "\"min\": %.6g, \"max\": %.6g, \"low\": %.6g, \"high\": %.6g, \"unit\": \"us\", "
               "\"iterations\": %ld}\n",
               m.bytes, m.block, batch[CALIBRATE_BATCHES / 2], batch[0], batch[CALIBRATE_BATCHES - 1],
               batch[CALIBRATE_BATCHES / 4], batch[CALIBRATE_BATCHES - 1 - CALIBRATE_BATCHES / 4], n);
        fflush(stdout);
    }
    if (m.block)
        MPI_Type_free(&m.type);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    int rank, size;
    double seconds;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        fail("started with another number of ranks than 2", argv[0]);
    if (argc < 3)
        fail("usage", "calibrate SECONDS BYTES[/BLOCK]...");
    seconds = strtod(argv[1], NULL);
    if (!(seconds > 0 && seconds < 60))
        fail("not a number of seconds", argv[1]);
    for (int i = 2; i < argc; i++)
        measure(rank, seconds, argv[i]);
    MPI_Finalize();
    return 0;
}
