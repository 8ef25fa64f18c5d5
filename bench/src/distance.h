/* How far apart two ranks' cores lie: the time in which they exchange a line of their caches, there
 * and back. The host of a virtual machine moves its processors while a benchmark runs: two of them
 * share a cache in one launch and not in the next, and what two ranks do together takes two to four
 * times as long, with every library. A figure that says where its ranks were (`line_us`) can be
 * compared with others that were measured there.
 *
 * Both ranks call distance_measure before each batch; the median of the last BATCHES counts, as it
 * does for the figure. The lines lie in a shared window: plain atomics, whatever the library. */
#ifndef DISTANCE_H
#define DISTANCE_H
#include "bench_mpi.h"

#include <sched.h>

enum { LINE_BYTES = 128, LINE_POLLS = 1000 };

struct distance {
    MPI_Win win;        /* MPI_WIN_NULL: not 2 ranks of one node; then nothing is measured */
    long *mine, *other; /* numbers, each alone in its line */
    long number;
    long measured;      /* batches so far */
    double us[BATCHES];
};

/* Collective over the job, as the other calls. */
static inline void distance_open(struct distance *d)
{
    MPI_Comm node;
    int ranks, together, rank, unit;
    MPI_Aint bytes;
    memset(d, 0, sizeof *d);
    d->win = MPI_WIN_NULL;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &together);
    if (ranks == 2 && together == 2) {
        MPI_Comm_rank(node, &rank);
        MPI_Win_allocate_shared(LINE_BYTES, 1, MPI_INFO_NULL, node, &d->mine, &d->win);
        MPI_Win_shared_query(d->win, 1 - rank, &bytes, &unit, &d->other);
        __atomic_store_n(d->mine, 0, __ATOMIC_RELEASE);
        MPI_Barrier(node);
    }
    MPI_Comm_free(&node);
}

static inline void distance_exchange(struct distance *d)
{
    int polls = 0;
    __atomic_store_n(d->mine, ++d->number, __ATOMIC_RELEASE);
    while (__atomic_load_n(d->other, __ATOMIC_ACQUIRE) < d->number) {
        bench_pause();
        if (++polls % LINE_POLLS == 0) /* perhaps both ranks are on one core */
            sched_yield();
    }
}

static inline void distance_measure(struct distance *d)
{
    if (d->win == MPI_WIN_NULL)
        return;
    distance_exchange(d); /* both have come */
    double start = MPI_Wtime();
    for (int i = 0; i < LINE_EXCHANGES; i++)
        distance_exchange(d);
    d->us[d->measured++ % BATCHES] = (MPI_Wtime() - start) / LINE_EXCHANGES * 1e6;
}

/* The key of a figure's line after BATCHES batches at least: for bench_print_more. */
static inline const char *distance_key(struct distance *d, char *text, size_t room)
{
    return d->measured >= BATCHES ? bench_line_key(d->us, text, room) : "";
}

static inline void distance_close(struct distance *d)
{
    if (d->win != MPI_WIN_NULL)
        MPI_Win_free(&d->win);
}

#endif
