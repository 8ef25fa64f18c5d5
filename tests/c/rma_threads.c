/* One-sided communication by several threads of each rank (MPI_THREAD_MULTIPLE): each on windows of
 * its own, made and freed at the same time as those of the others, under exclusive locks; and all
 * on one window in an epoch of MPI_Win_lock_all, where each flushes what it needs.
 *
 * argv: increments of each thread, seed. */
#include "rma.h"

#include <pthread.h>

enum { THREADS = 4, SLOTS = 16 };

typedef struct {
    int number, times;
    uint64_t random;
    MPI_Comm comm;
    MPI_Win common; /* of all threads, locked; SLOTS counters on each rank */
    int64_t added[SLOTS];
    int wrong;
} Worker;

static void increment_by_lock(MPI_Win win, int to)
{
    int64_t value;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
    MPI_Get(&value, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, win);
    MPI_Win_flush(to, win);
    value++;
    MPI_Put(&value, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock(to, win);
}

/* Every rank's thread of this number increments one counter after the other. */
static void own_windows(Worker *w)
{
    enum { WINDOWS = 3 };
    for (int n = 0; n < WINDOWS; n++) {
        int64_t *counter, value;
        int to = (w->number + n) % test_size, each = w->times / WINDOWS;
        MPI_Win win;
        MPI_Win_allocate(sizeof *counter, 1, MPI_INFO_NULL, w->comm, &counter, &win);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, win);
        *counter = 0;
        MPI_Win_unlock(test_rank, win);
        MPI_Barrier(w->comm);
        for (int i = 0; i < each; i++)
            increment_by_lock(win, to);
        MPI_Barrier(w->comm);
        MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
        MPI_Get(&value, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, win);
        MPI_Win_unlock(to, win);
        w->wrong += value != (int64_t)each * test_size;
        MPI_Win_free(&win);
    }
}

static void add_by_swap(MPI_Win win, int to, MPI_Aint at, int64_t by)
{
    int64_t seen = 0, old, next;
    do {
        old = seen;
        next = old + by;
        MPI_Compare_and_swap(&next, &old, &seen, MPI_INT64_T, to, at, win);
        MPI_Win_flush(to, win);
    } while (seen != old);
}

/* Slots 0 .. 7 of each rank's memory take sums, 8 .. 15 are swapped. */
static void common_window(Worker *w)
{
    for (int i = 0; i < w->times; i++) {
        int64_t by = 1 + rma_below(&w->random, 5), got = -1;
        int to = rma_below(&w->random, test_size), slot = rma_below(&w->random, SLOTS);
        if (slot >= SLOTS / 2) {
            add_by_swap(w->common, to, slot, by);
        } else if (slot % 2) {
            MPI_Accumulate(&by, 1, MPI_INT64_T, to, slot, 1, MPI_INT64_T, MPI_SUM, w->common);
            MPI_Win_flush_local(to, w->common);
        } else {
            MPI_Request r;
            MPI_Rget_accumulate(&by, 1, MPI_INT64_T, &got, 1, MPI_INT64_T, to, slot, 1, MPI_INT64_T,
                                MPI_SUM, w->common, &r);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
            w->wrong += got < 0;
        }
        w->added[slot] += by;
    }
}

static void *work(void *argument)
{
    Worker *w = argument;
    common_window(w);
    own_windows(w);
    common_window(w);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1, times = argc > 1 ? atoi(argv[1]) : 60;
    uint64_t seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
    pthread_t threads[THREADS];
    Worker workers[THREADS];
    RmaWindow common;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    CHECK_INT(provided, MPI_THREAD_MULTIPLE, "provided thread level");
    rma_open(&common, RMA_ALLOCATE, SLOTS * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL);
    MPI_Win_lock_all(0, common.win);
    memset(common.base, 0, SLOTS * sizeof(int64_t));
    rma_sync_barrier(common.win);
    for (int i = 0; i < THREADS; i++) {
        uint64_t random = rma_seed(seed, (uint64_t)(test_rank * THREADS + i));
        workers[i] = (Worker){.number = i, .times = times, .random = random, .common = common.win};
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 4);
    int64_t added[SLOTS] = {0}, memory[SLOTS];
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        MPI_Comm_free(&workers[i].comm);
        CHECK_INT(workers[i].wrong, 0, "wrong results of a thread");
        for (int k = 0; k < SLOTS; k++)
            added[k] += workers[i].added[k];
    }
    MPI_Win_flush_all(common.win);
    rma_sync_barrier(common.win);
    memcpy(memory, common.base, sizeof memory);
    MPI_Allreduce(MPI_IN_PLACE, added, SLOTS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, memory, SLOTS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int k = 0; k < SLOTS; k++)
        CHECK(memory[k] == added[k], "slot %d of all ranks holds %lld, %lld were added", k,
              (long long)memory[k], (long long)added[k]);
    MPI_Win_unlock_all(common.win);
    rma_close(&common);
    return test_finish();
}
