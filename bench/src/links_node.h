/* What links.c learns about the node that a rank runs on: counters of the kernel's event sources,
 * the processor and the memory domain of the rank, and where its pages are. Linux only; elsewhere
 * all of it is absent.
 *
 * Counters: `mica links run` finds the events (mica_links::counters) and lists them in a file, a
 * line each: TYPE CONFIG CPU, numbers of perf_event_open(2); CPU -1 is this thread. One rank of each
 * node opens them. A counter that the kernel refuses reads as 0, and the refusal is reported. */
#ifndef LINKS_NODE_H
#define LINKS_NODE_H
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { COUNTERS_MAX = 512 };

typedef struct {
    int count;
    int descriptors[COUNTERS_MAX]; /* -1: refused */
    int errors[COUNTERS_MAX];      /* the errno of a refusal, or 0 */
} Counters;

static int counter_open(unsigned type, unsigned long long config, int cpu)
{
#ifdef __linux__
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.type = type;
    attributes.size = sizeof attributes;
    attributes.config = config;
    attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &attributes, cpu < 0 ? 0 : -1, cpu, -1,
                        PERF_FLAG_FD_CLOEXEC);
#else
    (void)type, (void)config, (void)cpu;
    errno = ENOSYS;
    return -1;
#endif
}

/* Opens the events that the file lists; returns 0 if it cannot be read. */
static int counters_open(Counters *counters, const char *file)
{
    unsigned type;
    unsigned long long config;
    int cpu;
    FILE *f = fopen(file, "r");
    if (!f)
        return 0;
    while (counters->count < COUNTERS_MAX && fscanf(f, "%u %llu %d", &type, &config, &cpu) == 3) {
        int descriptor = counter_open(type, config, cpu);
        counters->errors[counters->count] = descriptor < 0 ? errno : 0;
        counters->descriptors[counters->count++] = descriptor;
    }
    fclose(f);
    return 1;
}

/* The count so far, scaled by the time that the event was counted; events may have taken turns. */
static double counter_read(int descriptor)
{
#ifdef __linux__
    unsigned long long value[3]; /* count, time open, time counted */
    if (descriptor >= 0 && read(descriptor, value, sizeof value) == (ssize_t)sizeof value) {
        if (value[1] == value[2])
            return (double)value[0];
        return value[2] ? (double)value[0] * ((double)value[1] / (double)value[2]) : 0;
    }
#else
    (void)descriptor;
#endif
    return 0;
}

/* The processor and the memory domain on which this thread runs; -1 if nobody says. */
static void where_now(int *cpu, int *domain)
{
    *cpu = *domain = -1;
#ifdef __linux__
    unsigned at[2];
    if (!syscall(SYS_getcpu, &at[0], &at[1], NULL)) {
        *cpu = (int)at[0];
        *domain = (int)at[1];
    }
#endif
}

/* The text of a file, allocated; empty if it cannot be read. */
static char *text_of(const char *file, long *bytes)
{
    size_t room = 1 << 16, used = 0, got;
    char *text = malloc(room);
    FILE *f = fopen(file, "r");
    while (text && f && (got = fread(text + used, 1, room - used, f)) > 0)
        if ((used += got) == room)
            text = realloc(text, room *= 2);
    if (f)
        fclose(f);
    *bytes = text ? (long)used : 0;
    return text;
}
#endif
