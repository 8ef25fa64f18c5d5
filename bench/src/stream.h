/* One window of messages from a rank to its partner, shared by bandwidth.c and message_rate.c: the
 * sender starts WINDOW non-blocking sends, the receiver as many receives, both wait for all, and
 * the receiver acknowledges with an empty message. In both directions at once each rank does both,
 * and each acknowledges.
 *
 * Buffers: STREAM_ONE sends all messages of a window from one buffer and receives them into one, as
 * the OSU benchmarks do; MPI wants buffers of pending receives apart, but all messages carry the
 * same bytes, so the order in which they land does not show. STREAM_EACH has a buffer for each
 * message of a window and uses them again in every window. STREAM_NEW takes the next buffers of a
 * region of at least 64 MiB in every window.
 *
 * Messages are numbered and checked; the numbers are written and read within the measured time (one
 * store and one comparison each). With `touch` the sender rewrites all of its bytes before a window
 * and the receiver reads all after it; then only the time from the first send or receive to the
 * acknowledgement counts, and an exchange of empty messages goes before. */
#ifndef STREAM_H
#define STREAM_H
#include "bench_mpi.h"

enum { MOST_WINDOW = 128 };
typedef enum { STREAM_ONE, STREAM_EACH, STREAM_NEW } StreamBuffers;

typedef struct {
    int rank, partner, sends, receives, window, touch;
    int bytes;
    StreamBuffers buffers;
    long slots, stride; /* buffers, and bytes from one to the next */
    char *outs, *ins;
    long windows; /* done so far, the number of the next */
} Stream;

/* The memory of all streams, one at a time: a region takes longer to get than to measure with. */
static char *stream_outs, *stream_ins;
static size_t stream_room;

/* Ranks i and i + n/2 are partners, the lower one sends; in both directions if `both`. */
static inline Stream stream_open(int bytes, int window, StreamBuffers buffers, int touch, int both)
{
    Stream s = {0};
    int size;
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size % 2)
        bench_die("needs an even number of ranks, has %d", size);
    int low = s.rank < size / 2;
    s.partner = low ? s.rank + size / 2 : s.rank - size / 2;
    s.sends = low || both;
    s.receives = !low || both;
    s.bytes = bytes;
    s.window = window;
    s.buffers = buffers;
    s.touch = touch;
    s.stride = ((long)bytes + 63) / 64 * 64;
    s.slots = buffers == STREAM_ONE ? 1 : window;
    if (buffers == STREAM_NEW)
        while (s.slots * s.stride < 64L << 20)
            s.slots += window;
    size_t all = (size_t)(s.slots * s.stride);
    if (all > stream_room) {
        free(stream_outs);
        free(stream_ins);
        stream_outs = bench_alloc(all, 0);
        stream_ins = bench_alloc(all, 0);
        stream_room = all;
    }
    s.outs = memset(stream_outs, 'a' + s.rank % 16, all);
    s.ins = memset(stream_ins, 0, all);
    return s;
}

/* Where the i-th message of the next window is in a region, and the number that it carries. */
static inline long stream_at(const Stream *s, int i)
{
    return (s->windows * s->window + i) % s->slots * s->stride;
}

static inline long stream_number(const Stream *s, int i)
{
    return s->buffers == STREAM_ONE ? s->windows : s->windows * s->window + i;
}

static inline int stream_fill(const Stream *s, int rank)
{
    return s->touch ? (int)(s->windows + rank) & 127 : 'a' + rank % 16;
}

static inline void stream_window(Stream *s)
{
    MPI_Request requests[2 * MOST_WINDOW];
    int started = 0, checked = s->buffers == STREAM_ONE ? 1 : s->window;
    size_t bytes = (size_t)s->bytes;
    if (s->receives)
        for (int i = 0; i < s->window; i++)
            MPI_Irecv(s->ins + stream_at(s, i), s->bytes, MPI_BYTE, s->partner, 1, MPI_COMM_WORLD,
                      &requests[started++]);
    if (s->sends)
        for (int i = 0; i < s->window; i++) {
            if (i < checked)
                bench_stamp(s->outs + stream_at(s, i), bytes, stream_number(s, i));
            MPI_Isend(s->outs + stream_at(s, i), s->bytes, MPI_BYTE, s->partner, 1, MPI_COMM_WORLD,
                      &requests[started++]);
        }
    MPI_Waitall(started, requests, MPI_STATUSES_IGNORE);
    if (s->receives) {
        for (int i = 0; i < checked; i++)
            bench_check(s->ins + stream_at(s, i), bytes, stream_number(s, i));
        MPI_Send(NULL, 0, MPI_BYTE, s->partner, 2, MPI_COMM_WORLD);
    }
    if (s->sends)
        MPI_Recv(NULL, 0, MPI_BYTE, s->partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static inline void stream_check_rest(const Stream *s)
{
    for (int i = 0; s->receives && i < (s->buffers == STREAM_ONE ? 1 : s->window); i++)
        bench_check_rest(s->ins + stream_at(s, i), (size_t)s->bytes, stream_fill(s, s->partner));
}

/* A BenchRun: `n` windows. The time is that of the slowest pair. */
static inline double stream_run(void *arg, long n)
{
    Stream *s = arg;
    double sum = 0, slowest, start = MPI_Wtime();
    for (long i = 0; i < n; i++, s->windows++) {
        if (s->touch) {
            if (s->sends)
                memset(s->outs, stream_fill(s, s->rank), (size_t)(s->slots * s->stride));
            MPI_Sendrecv(NULL, 0, MPI_BYTE, s->partner, 3, NULL, 0, MPI_BYTE, s->partner, 3,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            start = MPI_Wtime();
        }
        stream_window(s);
        if (s->touch) {
            sum += MPI_Wtime() - start;
            stream_check_rest(s);
        }
    }
    if (!s->touch) {
        sum = MPI_Wtime() - start;
        s->windows--; /* the last one: all bytes of it */
        stream_check_rest(s);
        s->windows++;
    }
    MPI_Allreduce(&sum, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

#endif
