/* What this hardware allows, without MPI: a flag bounced on one cache line between two threads, each
 * pinned to a core of its own (one-way time), and memcpy between warm buffers on one core. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static _Alignas(128) atomic_long flag;
enum { BOUNCES = 200000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Pins the caller to the n-th core that this process may use. */
static int pin(int n)
{
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && n-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            return pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        }
    return -1;
}

static void *echo(void *cpu)
{
    pin(*(int *)cpu);
    for (long i = 0; i < (long)BOUNCES * (BATCHES + 1); i++) {
        while (atomic_load_explicit(&flag, memory_order_acquire) != 2 * i + 1)
            ;
        atomic_store_explicit(&flag, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static void bounce(void)
{
    pthread_t other;
    cpu_set_t allowed;
    double batch[BATCHES];
    long i = 0;
    static int second = 1;
    sched_getaffinity(0, sizeof allowed, &allowed);
    if (CPU_COUNT(&allowed) < 2) {
        fprintf(stderr, "floor: the flag needs two cores\n");
        return;
    }
    pthread_create(&other, NULL, echo, &second);
    pin(0);
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
    pthread_join(other, NULL);
    bench_print("flag", 8, 2, batch, "us", BOUNCES);
}

static void copy(size_t bytes)
{
    char *from = aligned_alloc(4096, bytes), *to = aligned_alloc(4096, bytes);
    double batch[BATCHES];
    long n = (long)((256u << 20) / bytes);
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int b = -1; b < BATCHES; b++) {
        double start = now();
        for (long i = 0; i < n; i++) {
            memcpy(to, from, bytes);
            __asm__ volatile("" : : "r"(to), "r"(from) : "memory"); /* the copy is wanted */
        }
        if (b >= 0)
            batch[b] = (now() - start) / (double)n * 1e6;
    }
    bench_print("memcpy", (long)bytes, 1, batch, "us", n);
    free(to);
    free(from);
}

int main(void)
{
    bounce();
    pin(0);
    copy(65536);
    copy(1048576);
    return 0;
}
