/* Shared by the programs that measure what the hardware allows: the clock, and cores. They define
 * _GNU_SOURCE first. */
#ifndef FLOOR_H
#define FLOOR_H
#include <pthread.h>
#include <sched.h>
#include <time.h>

static cpu_set_t allowed; /* the cores of this process, before any thread is pinned */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Pins the caller to the n-th core that this process may use. */
static void pin(int n)
{
    cpu_set_t one;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && n-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            pthread_setaffinity_np(pthread_self(), sizeof one, &one);
            return;
        }
}
#endif
