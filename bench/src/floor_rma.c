/* What this hardware allows a library for one-sided communication in shared memory, without MPI and
 * without any check of arguments. Each call goes through a pointer to a function, as one into a
 * shared library does. Medians of 15 batches, in microseconds:
 *
 *   "rma put"       a call that stores 8 bytes, and one that does nothing (the flush)
 *   "rma get"       the same for a load
 *   "rma atomic"    a call with an atomic addition that returns the previous value, and an empty
 *                   one
 *   "rma lock"      three calls: compare-and-swap of a free lock, a store, compare-and-swap back
 *   "rma exchange"  two cores: each stores a number in a line of its own and waits for the other's
 *   "rma fence"     two cores: a call that stores 8 bytes in the other's window, and one that
 *                   exchanges
 *   "rma pscw"      two cores: two empty calls (post, start), one that leaves 8 bytes beside the
 *                   number (a buffered put), one that stores the number, one that waits for the
 *                   other's
 *   "rma contended lock"   two cores: a lock taken by compare-and-swap, a store, the lock free
 *   "rma copy"      a copy of 64 KiB or 1 MiB from private memory to memory that another process
 *                   could map, as a put into an allocated window does: by one core, and by 8
 *                   processes on 2 cores, each its own; from the first one's start to the last
 *                   one's end, as rma.c
 *   "rma sum"       the same for a sum of doubles, by the widest vectors
 *   "rma shared sum"   two cores: each sums one half of 64 KiB or 1 MiB, and they exchange, as
 *                   origin and target do that share an accumulate
 *
 * "ranks" is the number of cores, or of processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"
#include "floor.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 1000000, EXCHANGES = 100000, PROCESSES = 8, UNROLLED = 16 };

static _Alignas(64) int64_t window[8];
static _Alignas(64) atomic_long lock;

/* What a core announces, alone in two lines: a number, and the bytes of a buffered put. */
struct line {
    _Alignas(128) atomic_long number;
    int64_t bytes;
};
static struct line line[2];
static _Alignas(128) int64_t part[2][16]; /* of a window, for each core */

/* ---- Calls with the arguments of MPI's. */

typedef int Move(void *origin, int n, void *type, int rank, long disp, int there, void *its,
                 void *win);
typedef int Fetch(const void *origin, void *result, void *type, int rank, long disp, void *op,
                  void *win);
typedef int Lock(int mode, int rank, int assertions, void *win);
typedef int Flush(int rank, void *win);

static int put(void *origin, int n, void *type, int rank, long disp, int there, void *its,
               void *win)
{
    (void)n, (void)type, (void)rank, (void)there, (void)its;
    memcpy((char *)win + disp, origin, 8);
    return 0;
}

static int get(void *origin, int n, void *type, int rank, long disp, int there, void *its,
               void *win)
{
    (void)n, (void)type, (void)rank, (void)there, (void)its;
    memcpy(origin, (char *)win + disp, 8);
    return 0;
}

static int fetch(const void *origin, void *result, void *type, int rank, long disp, void *op,
                 void *win)
{
    int64_t old, by;
    (void)type, (void)rank, (void)op;
    memcpy(&by, origin, sizeof by);
    old = __atomic_fetch_add((int64_t *)((char *)win + disp), by, __ATOMIC_SEQ_CST);
    memcpy(result, &old, sizeof old);
    return 0;
}

static int take(int mode, int rank, int assertions, void *win)
{
    long free = 0;
    (void)rank, (void)assertions, (void)win;
    return !atomic_compare_exchange_strong(&lock, &free, mode);
}

static int give_back(int rank, void *win)
{
    long held = 1;
    (void)rank, (void)win;
    return !atomic_compare_exchange_strong(&lock, &held, 0);
}

static int nothing(int rank, void *win)
{
    (void)rank, (void)win;
    return 0;
}

/* Volatile: the compiler must not know what is called. */
static Move *volatile put_call = put, *volatile get_call = get;
static Fetch *volatile fetch_call = fetch;
static Lock *volatile lock_call = take;
static Flush *volatile flush_call = nothing, *volatile unlock_call = give_back;

typedef void Operation(int64_t number);

static void put_and_flush(int64_t number)
{
    put_call(&number, 8, NULL, 1, 0, 8, NULL, window);
    flush_call(1, window);
}

static void get_and_flush(int64_t number)
{
    get_call(&number, 8, NULL, 1, 0, 8, NULL, window);
    flush_call(1, window);
}

static void fetch_and_flush(int64_t number)
{
    const int64_t one = 1;
    fetch_call(&one, &number, NULL, 1, 0, NULL, window);
    flush_call(1, window);
}

static void lock_put_unlock(int64_t number)
{
    if (lock_call(1, 1, 0, window))
        exit(1);
    put_call(&number, 8, NULL, 1, 0, 8, NULL, window);
    if (unlock_call(1, window))
        exit(1);
}

static void measure_calls(const char *name, Operation *operation)
{
    double batch[BATCHES];
    for (int b = -1; b < BATCHES; b++) { /* the first batch warms up */
        double start = now();
        for (int64_t i = 0; i < CALLS; i++)
            operation(i);
        if (b >= 0)
            batch[b] = (now() - start) / CALLS * 1e6;
    }
    bench_print(name, 8, 1, batch, "us", CALLS);
}

/* ---- Two cores. */

static int store_number(int number, void *mine)
{
    atomic_store_explicit(&((struct line *)mine)->number, number, memory_order_release);
    return 0;
}

static int await_number(int number, void *other)
{
    while (atomic_load_explicit(&((struct line *)other)->number, memory_order_acquire) < number)
        bench_pause();
    return 0;
}

static int exchange_number(int number, void *mine)
{
    store_number(number, mine);
    return await_number(number, mine == &line[0] ? &line[1] : &line[0]);
}

static Flush *volatile store_call = store_number, *volatile await_call = await_number;
static Flush *volatile exchange_call = exchange_number;

/* What core `me` does in an epoch; `number` counts from 1. */
typedef void Epoch(int me, int64_t number);

static void exchange(int me, int64_t number)
{
    exchange_number((int)number, &line[me]);
}

static void fence(int me, int64_t number)
{
    put_call(&number, 8, NULL, 1 - me, 0, 8, NULL, part[1 - me]);
    exchange_call((int)number, &line[me]);
}

static void post_to_wait(int me, int64_t number)
{
    flush_call(0, window);
    flush_call(0, window);
    put_call(&number, 8, NULL, 1 - me, 0, 8, NULL, &line[me].bytes);
    store_call((int)number, &line[me]);
    await_call((int)number, &line[1 - me]);
}

static void contended_lock(int me, int64_t number)
{
    (void)me;
    while (lock_call(1, 1, 0, window))
        bench_pause();
    put_call(&number, 8, NULL, 1, 0, 8, NULL, window);
    if (unlock_call(1, window))
        exit(1);
}

static Epoch *epoch;
static long epochs; /* in a batch */

/* How far apart the two cores lie meanwhile, as distance.h measures it between ranks. */
static struct line distance[2];

static void exchange_distance(int me, int number)
{
    store_number(number, &distance[me]);
    await_number(number, &distance[1 - me]);
}

/* Microseconds of an exchange before this batch. */
static double measure_distance(int me, int batch)
{
    int number = batch * (LINE_EXCHANGES + 1);
    exchange_distance(me, ++number); /* both have come */
    double start = now();
    for (int i = 0; i < LINE_EXCHANGES; i++)
        exchange_distance(me, ++number);
    return (now() - start) / LINE_EXCHANGES * 1e6;
}

static void run_epochs(int me, int batch)
{
    int64_t before = (int64_t)batch * epochs;
    for (int64_t i = 1; i <= epochs; i++)
        epoch(me, before + i);
}

static void *second(void *arg)
{
    (void)arg;
    pin(1);
    for (int b = 0; b <= BATCHES; b++) {
        measure_distance(1, b);
        run_epochs(1, b);
        exchange_number((int)((b + 1) * epochs + 1), &line[1]); /* both have ended the batch */
    }
    return NULL;
}

static void measure_epochs(const char *name, Epoch *measured, size_t bytes, long n)
{
    double batch[BATCHES], apart[BATCHES];
    char key[64];
    pthread_t other;
    epoch = measured;
    epochs = n;
    memset(line, 0, sizeof line);
    memset(distance, 0, sizeof distance);
    if (pthread_create(&other, NULL, second, NULL)) {
        fprintf(stderr, "floor_rma: no second thread\n");
        exit(1);
    }
    for (int b = 0; b <= BATCHES; b++) { /* the first batch warms up */
        double line_us = measure_distance(0, b), start = now();
        run_epochs(0, b);
        exchange_number((int)((b + 1) * epochs + 1), &line[0]);
        if (b > 0) {
            batch[b - 1] = (now() - start) / (double)n * 1e6;
            apart[b - 1] = line_us;
        }
    }
    pthread_join(other, NULL);
    bench_print_more(name, (long)bytes, 2, batch, "us", n,
                     bench_line_key(apart, key, sizeof key));
}

/* ---- Long operations. */

typedef void Transfer(char *to, const char *from, size_t bytes);

static void copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to), "r"(from) : "memory"); /* the copy is wanted */
}

#if defined __GNUC__ && !defined __clang__
__attribute__((optimize("O3"))) /* which vectorizes */
#endif
#ifdef __x86_64__
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void sum(char *to, const char *from, size_t bytes)
{
    double *a = (double *)to;
    const double *b = (const double *)from;
    /* Several vectors an iteration: where another thread shares the core, one takes twice as long,
     * or not, as the loop happens to lie. */
    for (size_t i = 0; i < bytes / sizeof *a; i += UNROLLED)
        for (size_t j = i; j < i + UNROLLED; j++)
            a[j] += b[j];
}

/* What two cores sum, each one half. */
static struct {
    char *from, *to;
    size_t bytes;
} shared_sum;

static void sum_half(int me, int64_t number)
{
    size_t half = shared_sum.bytes / 2, at = (size_t)me * half;
    sum(shared_sum.to + at, shared_sum.from + at, half);
    exchange_number((int)number, &line[me]);
}

/* Of the processes that measure together; in memory that they share. */
struct together {
    atomic_int arrived;
    double start[PROCESSES], end[PROCESSES];
};

static void meet(struct together *all, int processes, int meeting)
{
    atomic_fetch_add(&all->arrived, 1);
    while (atomic_load(&all->arrived) < processes * meeting)
        sched_yield();
}

static void *shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "floor_rma: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static void measure_shared_sum(size_t bytes)
{
    shared_sum.from = aligned_alloc(4096, bytes);
    shared_sum.to = shared(bytes);
    shared_sum.bytes = bytes;
    if (!shared_sum.from)
        exit(1);
    memset(shared_sum.from, 0, bytes);
    measure_epochs("rma shared sum", sum_half, bytes, (long)((64u << 20) / bytes));
    munmap(shared_sum.to, bytes);
    free(shared_sum.from);
}

static void measure_transfer(const char *name, Transfer *transfer, size_t bytes, int processes)
{
    double batch[BATCHES];
    long n = (long)((64u << 20) / bytes);
    char *from = aligned_alloc(4096, bytes), *to = shared(bytes * (size_t)processes);
    struct together *all = shared(sizeof *all);
    int me = 0, meeting = 0;
    if (!from)
        exit(1);
    fflush(stdout);
    for (int child = 1; child < processes && me == 0; child++) {
        pid_t pid = fork();
        if (pid < 0)
            exit(1);
        if (pid == 0)
            me = child;
    }
    pin(me % CPU_COUNT(&allowed));
    to += bytes * (size_t)me;
    memset(from, 0, bytes);
    memset(to, 0, bytes);
    for (int b = -1; b < BATCHES; b++) {
        double first, last;
        meet(all, processes, ++meeting);
        all->start[me] = now();
        for (long i = 0; i < n; i++)
            transfer(to, from, bytes);
        all->end[me] = now();
        meet(all, processes, ++meeting);
        first = all->start[0], last = all->end[0];
        for (int p = 1; p < processes; p++) {
            first = all->start[p] < first ? all->start[p] : first;
            last = all->end[p] > last ? all->end[p] : last;
        }
        if (b >= 0)
            batch[b] = (last - first) / (double)n * 1e6;
    }
    if (me > 0)
        _exit(0);
    while (wait(NULL) > 0)
        ;
    bench_print(name, (long)bytes, processes, batch, "us", n);
    munmap(to, bytes * (size_t)processes);
    munmap(all, sizeof *all);
    free(from);
}

int main(void)
{
    sched_getaffinity(0, sizeof allowed, &allowed);
    pin(0);
    measure_calls("rma put", put_and_flush);
    measure_calls("rma get", get_and_flush);
    measure_calls("rma atomic", fetch_and_flush);
    measure_calls("rma lock", lock_put_unlock);
    if (CPU_COUNT(&allowed) > 1) {
        measure_epochs("rma exchange", exchange, 8, EXCHANGES);
        measure_epochs("rma fence", fence, 8, EXCHANGES);
        measure_epochs("rma pscw", post_to_wait, 8, EXCHANGES);
        measure_epochs("rma contended lock", contended_lock, 8, EXCHANGES);
    }
    for (size_t bytes = 65536; bytes <= 1 << 20; bytes *= 16)
        for (int processes = 1; processes <= PROCESSES; processes *= PROCESSES) {
            measure_transfer("rma copy", copy, bytes, processes);
            measure_transfer("rma sum", sum, bytes, processes);
        }
    /* Last: what has been mapped before lies apart in physical memory, and fits the caches less. */
    for (size_t bytes = 65536; bytes <= 1 << 20 && CPU_COUNT(&allowed) > 1; bytes *= 16)
        measure_shared_sum(bytes);
    return 0;
}
