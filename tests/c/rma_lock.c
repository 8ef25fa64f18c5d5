/* Passive target synchronization among all ranks (MPI 5.0, 12.5.3): counters that every rank
 * increments by every means, of which nothing may be lost, complex ones as well; readers and a
 * writer; MPI_Win_lock_all beside MPI_Win_lock; locks of several windows and targets that do not
 * disturb each other.
 *
 * argv: increments of each counter by all ranks together, seed. */
#include "rma.h"

typedef enum { EXCLUSIVE, FETCH, ACCUMULATE, SWAP, MIXED_WIDTH, MEANS } Means;

static const char *const means_names[MEANS] = {"lock, get, put, unlock", "fetch_and_op",
                                               "accumulate", "compare_and_swap",
                                               "two counters by get_accumulate"};

/* One increment of counter 0 (of 64 bits) at rank `to`; the value before, or -1 if that is unknown.
 */
static int64_t increment(MPI_Win win, int to, Means means)
{
    int64_t old = -1, one[2] = {1, 1}, next, got[2];
    if (means == EXCLUSIVE) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Get(&old, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(to, win);
        next = old + 1;
        MPI_Put(&next, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, win);
        MPI_Win_unlock(to, win);
        return old;
    }
    MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
    if (means == FETCH) {
        MPI_Fetch_and_op(one, &old, MPI_INT64_T, to, 0, MPI_SUM, win);
    } else if (means == ACCUMULATE) {
        MPI_Accumulate(one, 1, MPI_INT64_T, to, 0, 1, MPI_INT64_T, MPI_SUM, win);
    } else if (means == MIXED_WIDTH) {
        MPI_Get_accumulate(one, 2, MPI_INT64_T, got, 2, MPI_INT64_T, to, 0, 2, MPI_INT64_T, MPI_SUM,
                           win);
        MPI_Win_flush(to, win);
        old = got[0];
    } else {
        int64_t seen = 0;
        do {
            old = seen;
            next = old + 1;
            MPI_Compare_and_swap(&next, &old, &seen, MPI_INT64_T, to, 0, win);
            MPI_Win_flush(to, win);
        } while (seen != old);
    }
    MPI_Win_unlock(to, win);
    return old;
}

/* Every value before an increment was seen by one rank, and by each rank in ascending order. */
static void check_tickets(const int64_t *tickets, int each, const char *what)
{
    int all = each * test_size, *seen = calloc((size_t)all + 1, sizeof *seen);
    for (int i = 0; i < each; i++) {
        CHECK(i == 0 || tickets[i] > tickets[i - 1], "%s: %lld comes after %lld", what,
              (long long)tickets[i], (long long)tickets[i - 1]);
        if (tickets[i] >= 0 && tickets[i] < all)
            seen[tickets[i]]++;
    }
    MPI_Allreduce(MPI_IN_PLACE, seen, all, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < all; i++)
        if (seen[i] != 1) {
            CHECK(0, "%s: the counter was %d before %d increments", what, i, seen[i]);
            break;
        }
    free(seen);
}

static void counters(RmaKind kind, int total)
{
    RmaWindow w;
    int each = total / test_size > 0 ? total / test_size : 1, to = test_size - 1;
    int64_t *tickets = test_alloc((size_t)each * sizeof *tickets), *counter;
    rma_open(&w, kind, 16, 1, MPI_INFO_NULL);
    counter = (int64_t *)(void *)w.base;
    for (int means = 0; means < MEANS; means++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, w.win);
        counter[0] = counter[1] = 0;
        MPI_Win_unlock(test_rank, w.win);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < each; i++)
            tickets[i] = increment(w.win, to, (Means)means);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, w.win);
        if (test_rank == to) {
            CHECK(counter[0] == (int64_t)each * test_size,
                  "%s (%s): %lld of %lld increments are left", means_names[means], rma_kinds[kind],
                  (long long)counter[0], (long long)each * test_size);
            CHECK_INT(counter[1], means == MIXED_WIDTH ? counter[0] : 0, "the second counter");
        }
        MPI_Win_unlock(test_rank, w.win);
        if (means != ACCUMULATE)
            check_tickets(tickets, each, means_names[means]);
    }
    rma_close(&w);
    free(tickets);
}

enum { COMPLEX = 20 };

/* Elements of 16 bytes that every rank adds to, one at a time and many at a time. */
static void wide_elements(RmaKind kind, int times)
{
    RmaWindow w;
    double ones[2 * COMPLEX], got[2], last = -1, *sums;
    int to = test_size - 1;
    for (int i = 0; i < 2 * COMPLEX; i++)
        ones[i] = i % 2 ? 2 : 1;
    rma_open(&w, kind, sizeof ones, 2 * sizeof(double), MPI_INFO_NULL);
    sums = (double *)(void *)w.base;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, w.win);
    for (int i = 0; i < 2 * COMPLEX; i++)
        sums[i] = 0;
    MPI_Win_unlock(test_rank, w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, w.win);
    for (int n = 0; n < times; n++) {
        if (n % 10 == 0)
            MPI_Accumulate(ones, COMPLEX, MPI_C_DOUBLE_COMPLEX, to, 0, COMPLEX,
                           MPI_C_DOUBLE_COMPLEX, MPI_SUM, w.win);
        MPI_Fetch_and_op(ones, got, MPI_C_DOUBLE_COMPLEX, to, 0, MPI_SUM, w.win);
        MPI_Win_flush(to, w.win);
        CHECK(got[1] == 2 * got[0] && got[0] > last, "complex sum %g + %g i after %g", got[0],
              got[1], last);
        last = got[0];
    }
    MPI_Win_unlock_all(w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, w.win);
    for (int i = 0; test_rank == to && i < COMPLEX; i++) {
        int adds = test_size * ((times + 9) / 10 + (i == 0 ? times : 0));
        CHECK(sums[2 * i] == adds && sums[2 * i + 1] == 2.0 * adds,
              "complex element %d (%s): %g + %g i, expected %d", i, rma_kinds[kind], sums[2 * i],
              sums[2 * i + 1], adds);
    }
    MPI_Win_unlock(test_rank, w.win);
    rma_close(&w);
}

enum { ARRAY = 40 };

/* One rank in an exclusive epoch writes the whole array, in two puts; a rank with a shared lock
 * sees all of it equal. */
static void readers_and_writers(RmaKind kind, int times, uint64_t *random)
{
    RmaWindow w;
    int array[ARRAY], *mine;
    rma_open(&w, kind, ARRAY * sizeof(int), sizeof(int), MPI_INFO_NULL);
    mine = (int *)(void *)w.base;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, w.win);
    for (int i = 0; i < ARRAY; i++)
        mine[i] = -1;
    MPI_Win_unlock(test_rank, w.win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int n = 0; n < times; n++) {
        int writes = rma_below(random, 4) == 0, all = !writes && rma_below(random, 2);
        int to = rma_below(random, 2) ? 0 : rma_below(random, test_size);
        if (all)
            MPI_Win_lock_all(0, w.win);
        else
            MPI_Win_lock(writes ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, to, 0, w.win);
        if (writes) {
            for (int i = 0; i < ARRAY; i++)
                array[i] = test_rank * 1000000 + n;
            MPI_Put(array, ARRAY / 2, MPI_INT, to, 0, ARRAY / 2, MPI_INT, w.win);
            MPI_Win_flush(to, w.win);
            MPI_Put(array + ARRAY / 2, ARRAY / 2, MPI_INT, to, ARRAY / 2, ARRAY / 2, MPI_INT,
                    w.win);
        } else {
            MPI_Get(array, ARRAY, MPI_INT, to, 0, ARRAY, MPI_INT, w.win);
        }
        if (all)
            MPI_Win_unlock_all(w.win);
        else
            MPI_Win_unlock(to, w.win);
        for (int i = 1; i < ARRAY; i++)
            if (array[i] != array[0]) {
                CHECK(0, "%s lock: element %d of rank %d's array is %d, the first is %d",
                      all ? "lock_all" : "shared", i, to, array[i], array[0]);
                break;
            }
    }
    rma_close(&w);
}

/* Two windows on the same memory, used in turns (MPI 5.0, 12.2.1 leaves use at once undefined). */
static void same_memory(int times)
{
    enum { WINDOWS = 3 };
    MPI_Win wins[WINDOWS];
    int64_t counter[2] = {0, 0}, one = 1;
    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_create(counter, sizeof counter, 1 << i, MPI_INFO_NULL, MPI_COMM_WORLD, &wins[i]);
    for (int n = 0; n < times; n++) {
        MPI_Win win = wins[n % WINDOWS];
        MPI_Win_lock_all(0, win);
        MPI_Accumulate(&one, 1, MPI_INT64_T, n % test_size, 8 >> n % WINDOWS, 1, MPI_INT64_T,
                       MPI_SUM, win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (n % 2 && n % test_size == test_rank) { /* and an exclusive epoch of the target itself */
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, win);
            counter[0]++;
            MPI_Win_unlock(test_rank, win);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    int accumulated = 0, stored = 0;
    for (int n = 0; n < times; n++)
        if (n % test_size == test_rank) {
            accumulated += test_size;
            stored += n % 2;
        }
    CHECK_INT(counter[1], accumulated, "counter in the memory of three windows");
    CHECK_INT(counter[0], stored, "counter that its owner increments under locks of three windows");
    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_free(&wins[i]);
}

/* While rank 0 holds locks, rank 1 gets those of other windows and of other targets. */
static void independent(void)
{
    RmaWindow a, b;
    int value = 5, got = 0;
    if (test_size < 2)
        return;
    rma_open(&a, RMA_ALLOCATE, 64, 4, MPI_INFO_NULL);
    rma_open(&b, RMA_ALLOCATE, 64, 4, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (test_rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, a.win);
        MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, a.win);
        MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_unlock(0, a.win);
    } else if (test_rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, a.win);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, b.win);
        MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, a.win);
        MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, b.win);
        MPI_Win_flush(0, b.win);
        MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, b.win);
        MPI_Win_unlock(1, a.win);
        MPI_Win_unlock(0, b.win);
        CHECK_INT(got, value, "value put while another window is locked");
        MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    rma_close(&b);
    rma_close(&a);
}

int main(int argc, char **argv)
{
    int total = argc > 1 ? atoi(argv[1]) : 2000;
    test_init(&argc, &argv);
    uint64_t random = rma_seed(argc > 2 ? (uint64_t)atoll(argv[2]) : 1, (uint64_t)test_rank);
    for (int kind = 0; kind < RMA_DYNAMIC; kind++)
        if (kind != RMA_SHARED || rma_one_node()) {
            counters((RmaKind)kind, total);
            wide_elements((RmaKind)kind, total / test_size / 4);
            readers_and_writers((RmaKind)kind, total / test_size / 2, &random);
        }
    same_memory(total / 20);
    independent();
    return test_finish();
}
