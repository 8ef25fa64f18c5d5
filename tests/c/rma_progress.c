/* Ranks of one node reach a window whose owner never calls MPI: rank 0 spins on its own memory
 * until all others have done their operations there, passive target epochs of every kind. A library
 * that needs the target's calls for progress hangs here, which MPI permits (12.7.3): the figures of
 * bench/src/rma.c are void without it, so that Mica promises it within a node.
 *
 * argv: operations of each rank, the least and the greatest kind of window (as rma_random), and
 * "calls" for a target that calls MPI as it spins, which any library must finish; or MiB that the
 * window has beyond what is used. */
#include "rma.h"

#include <sched.h>

enum { BLOCK = 20000, DONE = 0, COUNTER = 8, SWAPPED = 16, DATA = 64 };

static void increment_by_lock(const RmaWindow *w)
{
    int64_t value;
    MPI_Aint at = rma_disp(w, 0, COUNTER);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win);
    MPI_Get(&value, 1, MPI_INT64_T, 0, at, 1, MPI_INT64_T, w->win);
    MPI_Win_flush(0, w->win);
    value++;
    MPI_Put(&value, 1, MPI_INT64_T, 0, at, 1, MPI_INT64_T, w->win);
    MPI_Win_unlock(0, w->win);
}

static void increment_by_swap(const RmaWindow *w)
{
    int64_t seen = 0, old, next;
    MPI_Win_lock_all(0, w->win);
    do {
        old = seen;
        next = old + 1;
        MPI_Compare_and_swap(&next, &old, &seen, MPI_INT64_T, 0, rma_disp(w, 0, SWAPPED), w->win);
        MPI_Win_flush(0, w->win);
    } while (seen != old);
    MPI_Win_unlock_all(w->win);
}

/* A block of this rank's own, there and back. */
static void move_block(const RmaWindow *w, int n)
{
    static unsigned char out[BLOCK], in[BLOCK];
    MPI_Aint at = rma_disp(w, 0, DATA + (MPI_Aint)test_rank * BLOCK);
    test_fill(out, BLOCK, (uint64_t)(test_rank * 1000 + n));
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win);
    MPI_Put(out, BLOCK, MPI_BYTE, 0, at, BLOCK, MPI_BYTE, w->win);
    MPI_Win_flush(0, w->win);
    MPI_Get(in, BLOCK, MPI_BYTE, 0, at, BLOCK, MPI_BYTE, w->win);
    MPI_Win_unlock(0, w->win);
    CHECK(!memcmp(in, out, BLOCK), "block %d differs after put and get", n);
}

static void origin(const RmaWindow *w, int times)
{
    const int64_t one = 1;
    int64_t old;
    for (int n = 0; n < times; n++) {
        increment_by_lock(w);
        increment_by_swap(w);
        move_block(w, n);
    }
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win);
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, rma_disp(w, 0, DONE), MPI_SUM, w->win);
    MPI_Win_unlock(0, w->win);
}

static void target(const RmaWindow *w, int calls)
{
    int flag;
    volatile int64_t *done = (volatile int64_t *)(void *)(w->base + DONE);
    while (*done < test_size - 1) /* a computation of unknown length, without any call of MPI */
        if (calls)
            MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        else
            sched_yield();
}

static void target_computes(RmaKind kind, int times, MPI_Aint more, int calls)
{
    RmaWindow w;
    MPI_Aint bytes = test_rank == 0 ? DATA + (MPI_Aint)test_size * BLOCK + more : 0;
    rma_open(&w, kind, bytes, 1, MPI_INFO_NULL);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, w.win);
    if (test_rank == 0)
        memset(w.base, 0, DATA);
    MPI_Win_unlock(test_rank, w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (test_rank == 0)
        target(&w, calls);
    else
        origin(&w, times);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, w.win);
    if (test_rank == 0) {
        int64_t counters[2];
        memcpy(counters, w.base + COUNTER, sizeof counters);
        CHECK(counters[0] == (int64_t)times * (test_size - 1), "%s: counter by locks is %lld",
              rma_kinds[kind], (long long)counters[0]);
        CHECK(counters[1] == (int64_t)times * (test_size - 1), "%s: counter by swaps is %lld",
              rma_kinds[kind], (long long)counters[1]);
        for (int r = 1; r < test_size; r++) {
            const unsigned char *block = w.base + DATA + (size_t)r * BLOCK;
            size_t differs = test_verify(block, BLOCK, (uint64_t)(r * 1000 + times - 1));
            CHECK(differs == BLOCK, "%s: byte %zu of the block of rank %d differs", rma_kinds[kind],
                  differs, r);
        }
    }
    MPI_Win_unlock(test_rank, w.win);
    rma_close(&w);
}

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 50;
    int least = argc > 2 ? atoi(argv[2]) : RMA_ALLOCATE,
        most = argc > 3 ? atoi(argv[3]) : RMA_SHARED;
    int calls = argc > 4 && !strcmp(argv[4], "calls");
    MPI_Aint more = argc > 4 ? (MPI_Aint)atoll(argv[4]) << 20 : 0;
    test_init(&argc, &argv);
    test_needs(2);
    for (int kind = least; kind <= most; kind++)
        target_computes((RmaKind)kind, times, more, calls);
    return test_finish();
}
