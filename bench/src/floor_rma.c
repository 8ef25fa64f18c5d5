/* What this hardware allows a library for one-sided communication in shared memory, without MPI and
 * without any check of arguments. Each call goes through a pointer to a function, as one into a
 * shared library does. Medians of 15 batches, in microseconds:
 *
 *   "rma put"       a call that stores 8 bytes, and one that does nothing (the flush)
 *   "rma get"       the same for a load
 *   "rma atomic"    a call with an atomic addition that returns the previous value, and an empty
 *                   one
 *   "rma lock"      three calls: compare-and-swap of a free lock, a store, compare-and-swap back
 *   "rma exchange"  two cores: each stores a number in a line of its own and waits for the other's.
 *                   A fence takes one; post-start-complete-wait two, or one if puts are buffered
 *   "rma copy"      one core copies 64 KiB or 1 MiB from private memory to memory that another
 *                   process could map, as a put into an allocated window does
 *
 * "ranks" is the number of cores. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"
#include "floor.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { CALLS = 1000000, EXCHANGES = 100000 };

static _Alignas(64) int64_t window[8];
static _Alignas(64) atomic_long lock;
static _Alignas(128) atomic_long line[2][16];

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

static void exchange(int me, long from)
{
    for (long i = from; i < from + EXCHANGES; i++) {
        atomic_store_explicit(&line[me][0], i + 1, memory_order_release);
        while (atomic_load_explicit(&line[1 - me][0], memory_order_acquire) < i + 1)
            ;
    }
}

static void *second(void *arg)
{
    (void)arg;
    pin(1);
    for (int b = -1; b < BATCHES; b++)
        exchange(1, (long)(b + 1) * EXCHANGES);
    return NULL;
}

static void measure_exchange(void)
{
    double batch[BATCHES];
    pthread_t other;
    if (pthread_create(&other, NULL, second, NULL)) {
        fprintf(stderr, "floor_rma: no second thread\n");
        exit(1);
    }
    for (int b = -1; b < BATCHES; b++) {
        double start = now();
        exchange(0, (long)(b + 1) * EXCHANGES);
        if (b >= 0)
            batch[b] = (now() - start) / EXCHANGES * 1e6;
    }
    pthread_join(other, NULL);
    bench_print("rma exchange", 8, 2, batch, "us", EXCHANGES);
}

/* ---- Long operations. */

static void copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to), "r"(from) : "memory"); /* the copy is wanted */
}

static void measure_copy(size_t bytes)
{
    double batch[BATCHES];
    long n = (long)((64u << 20) / bytes);
    char *from = aligned_alloc(4096, bytes);
    char *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!from || to == MAP_FAILED) {
        fprintf(stderr, "floor_rma: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(from, 0, bytes);
    memset(to, 0, bytes);
    for (int b = -1; b < BATCHES; b++) {
        double start = now();
        for (long i = 0; i < n; i++)
            copy(to, from, bytes);
        if (b >= 0)
            batch[b] = (now() - start) / (double)n * 1e6;
    }
    bench_print("rma copy", (long)bytes, 1, batch, "us", n);
    munmap(to, bytes);
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
    if (CPU_COUNT(&allowed) > 1)
        measure_exchange();
    for (size_t bytes = 65536; bytes <= 1 << 20; bytes *= 16)
        measure_copy(bytes);
    return 0;
}
