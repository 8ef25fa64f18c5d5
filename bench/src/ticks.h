/* Times of many short calls: the processor's counter of ticks, which costs less than MPI_Wtime
 * and touches no memory, where the kernel itself keeps its time by it, so that it is steady and the
 * same on all cores; else MPI_Wtime.
 *
 * tick_clock_start, then tick_clock_now for each time, then tick_clock_stop, and seconds on the
 * clock of MPI_Wtime by tick_clock_seconds: between both ends it is interpolated. */
#ifndef TICKS_H
#define TICKS_H
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int counts;         /* ticks are counted; else they are seconds of MPI_Wtime */
    double first, from; /* the same moment in ticks and on the clock of MPI_Wtime */
    double seconds_per_tick;
} TickClock;

static inline double tick_counter(void)
{
#if defined __x86_64__
    return (double)__builtin_ia32_rdtsc(); /* exact below 2^53: a month of ticks */
#elif defined __aarch64__
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return (double)ticks;
#else
    return 0;
#endif
}

static inline double tick_clock_now(const TickClock *clock)
{
    return clock->counts ? tick_counter() : MPI_Wtime();
}

/* The same moment on both clocks: of several readings the one in which the least time passes. */
static double tick_clock_pair(const TickClock *clock, double *wall)
{
    double least = 1e30, ticks = 0;
    for (int i = 0; i < 20; i++) {
        double before = tick_clock_now(clock), between = MPI_Wtime();
        double after = tick_clock_now(clock);
        if (after - before >= least)
            continue;
        least = after - before;
        ticks = before + (after - before) / 2;
        *wall = between;
    }
    return ticks;
}

static void tick_clock_start(TickClock *clock)
{
    char source[32] = "";
    FILE *f = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    if (f && !fgets(source, sizeof source, f))
        source[0] = 0;
    if (f)
        fclose(f);
    clock->counts = !strcmp(source, "tsc\n") || !strcmp(source, "arch_sys_counter\n");
    clock->first = tick_clock_pair(clock, &clock->from);
}

static void tick_clock_stop(TickClock *clock)
{
    double wall = clock->from, last = tick_clock_pair(clock, &wall);
    double ticks = last - clock->first;
    clock->seconds_per_tick = ticks > 0 ? (wall - clock->from) / ticks : 0;
}

static inline double tick_clock_seconds(const TickClock *clock, double ticks)
{
    return clock->from + (ticks - clock->first) * clock->seconds_per_tick;
}
#endif
