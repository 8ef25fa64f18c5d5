/* What this hardware allows, without MPI: threads pinned to a core each; medians of 15 batches.
 *
 *   "flag"               a flag bounced on one cache line between two cores: one-way time, us
 *   "memcpy"             memcpy between two warm buffers on one core, us; 1 KiB to 4 MiB
 *   "copy by two cores"  the same copy with each core copying one half, us; 64 KiB, 1 MiB, 4 MiB.
 *                        The second core learns of the copy by a flag and reports by another, as a
 *                        message would have to: the floor of a transfer with one copy that both
 *                        sides share in.
 *   "stream read"        memory bandwidth: 128 MiB read, on one core and on two, MB/s (10^6 bytes)
 *   "stream copy"        the same for memcpy of 128 MiB; bytes read and bytes written both count
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

/* The two flags, each on cache lines of its own. */
static _Alignas(128) atomic_long flag;
static _Alignas(128) atomic_long done;
enum { BOUNCES = 100000 };
static const size_t STREAM = (size_t)128 << 20;

static char *buffer(size_t bytes, int value)
{
    char *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!memory) {
        fprintf(stderr, "floor: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(memory, value, bytes);
    return memory;
}

static pthread_t start_second(void *(*body)(void *), void *arg)
{
    pthread_t second;
    int error = pthread_create(&second, NULL, body, arg);
    if (error) {
        fprintf(stderr, "floor: no second thread: %s\n", strerror(error));
        exit(1);
    }
    return second;
}

static void *echo(void *arg)
{
    (void)arg;
    pin(1);
    for (long i = 0; i < (long)BOUNCES * (BATCHES + 1); i++) {
        while (atomic_load_explicit(&flag, memory_order_acquire) != 2 * i + 1)
            ;
        atomic_store_explicit(&flag, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static void bounce(void)
{
    double batch[BATCHES];
    long i = 0;
    pthread_t second = start_second(echo, NULL);
    for (int b = -1; b < BATCHES; b++) { /* the first batch warms up */
        double start = now();
        for (long end = i + BOUNCES; i < end; i++) {
            atomic_store_explicit(&flag, 2 * i + 1, memory_order_release);
            while (atomic_load_explicit(&flag, memory_order_acquire) != 2 * i + 2)
                ;
        }
        if (b >= 0)
            batch[b] = (now() - start) / BOUNCES / 2 * 1e6;
    }
    pthread_join(second, NULL);
    bench_print("flag", 8, 2, batch, "us", BOUNCES);
}

/* What a core does to its part of the two buffers. */
typedef void Work(char *to, const char *from, size_t bytes);

static void copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to), "r"(from) : "memory"); /* the copy is wanted */
}

static void read_all(char *to, const char *from, size_t bytes)
{
    uint64_t sum[4] = {0}, words[4]; /* four sums, so that no addition waits for another */
    (void)to;
    for (size_t i = 0; i + sizeof words <= bytes; i += sizeof words) {
        memcpy(words, from + i, sizeof words);
        for (int j = 0; j < 4; j++)
            sum[j] += words[j];
    }
    __asm__ volatile("" : : "r"(sum[0] + sum[1] + sum[2] + sum[3])); /* so is the sum */
}

typedef struct {
    Work *work;
    char *to;
    const char *from;
    size_t bytes;
    long times; /* of all batches together */
} Half;

/* The second core: its half each time the flag says so. */
static void *help(void *arg)
{
    const Half *h = arg;
    pin(1);
    for (long i = 1; i <= h->times; i++) {
        while (atomic_load_explicit(&flag, memory_order_acquire) != i)
            ;
        h->work(h->to, h->from, h->bytes);
        atomic_store_explicit(&done, i, memory_order_release);
    }
    return NULL;
}

/* Fills `batch` with seconds per `work` on `bytes` by one core or two; `n` in a batch. */
static void work_on(Work *work, size_t bytes, int by, long n, double *batch)
{
    char *from = buffer(bytes, 1), *to = buffer(bytes, 2);
    size_t mine = by == 2 ? bytes / 2 : bytes;
    Half other = {work, to + mine, from + mine, bytes - mine, n * (BATCHES + 1)};
    pthread_t second = pthread_self(); /* until there is another */
    long i = 0;
    atomic_store(&flag, 0);
    atomic_store(&done, 0);
    if (by == 2)
        second = start_second(help, &other);
    for (int b = -1; b < BATCHES; b++) {
        double start = now();
        for (long end = i + n; i < end;) {
            i++;
            if (by == 2)
                atomic_store_explicit(&flag, i, memory_order_release);
            work(to, from, mine);
            while (by == 2 && atomic_load_explicit(&done, memory_order_acquire) != i)
                ;
        }
        if (b >= 0)
            batch[b] = (now() - start) / (double)n;
    }
    if (by == 2)
        pthread_join(second, NULL);
    if (work == copy && memcmp(to, from, bytes)) {
        fprintf(stderr, "floor: %d cores copied %zu bytes wrongly\n", by, bytes);
        exit(1);
    }
    free(to);
    free(from);
}

static void measure_copy(size_t bytes, int by)
{
    double batch[BATCHES];
    long n = (long)((64u << 20) / bytes);
    work_on(copy, bytes, by, n, batch);
    for (int b = 0; b < BATCHES; b++)
        batch[b] *= 1e6;
    bench_print(by == 2 ? "copy by two cores" : "memcpy", (long)bytes, by, batch, "us", n);
}

static void measure_stream(Work *work, int by)
{
    double batch[BATCHES];
    work_on(work, STREAM, by, 1, batch);
    for (int b = 0; b < BATCHES; b++)
        batch[b] = (double)STREAM * (work == copy ? 2 : 1) / batch[b] / 1e6;
    bench_print(work == copy ? "stream copy" : "stream read", (long)STREAM, by, batch, "MB/s", 1);
}

int main(void)
{
    sched_getaffinity(0, sizeof allowed, &allowed);
    int most = CPU_COUNT(&allowed) < 2 ? 1 : 2;
    pin(0);
    if (most == 2)
        bounce();
    else
        fprintf(stderr, "floor: one core only: no flag, no copy by two cores\n");
    for (size_t bytes = 1024; bytes <= 4 << 20; bytes *= 4)
        measure_copy(bytes, 1);
    if (most == 2) {
        measure_copy(65536, 2);
        measure_copy(1 << 20, 2);
        measure_copy(4 << 20, 2);
    }
    for (int by = 1; by <= most; by++) {
        measure_stream(read_all, by);
        measure_stream(copy, by);
    }
    return 0;
}
