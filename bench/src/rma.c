/* One-sided communication, after jiang-2004, figures 3.5 to 3.13 and chapter 4. In microseconds:
 *
 *   rma put, rma get            in an epoch of MPI_Win_lock_all: the operation and MPI_Win_flush
 *   rma accumulate              the same, a sum of doubles
 *   rma fetch_and_op, rma compare_and_swap    the same, 8 bytes
 *   rma lock put unlock         an exclusive lock, one put, unlock
 *   rma fence                   MPI_Win_fence, after a put of 8 bytes to every other rank
 *   rma pscw                    post, start, a put of 8 bytes to every other rank, complete, wait
 *   rma put pingpong            2 ranks: post-wait here, start-put-complete there, in turns: one way
 *   rma counter                 all ranks increment one counter by fetch_and_op: an increment
 *   rma contended lock          all ranks lock-put-unlock at one: an epoch
 *
 * in MB/s, 16 operations in an epoch of post-start-complete-wait between 2 ranks:
 *
 *   rma put bandwidth, rma get bandwidth, rma put bidirectional (both directions together)
 *
 * and as a ratio
 *
 *   rma busy target             2 ranks: time of lock-put-unlock while the target computes for
 *                               0.2 s without a call of MPI, over that while it is in MPI_Barrier
 *
 * With 2 ranks rank 0 is the origin of what stands first in this list (down to lock put unlock),
 * and rank 1 waits in a barrier. With more every rank goes to its right neighbour. Where several
 * ranks are origins, the figure is the time from the first one's start to the last one's end. (A
 * rank's own clock would show less: of ranks that share a core, one may be done before another
 * begins.) With --create the windows are made by MPI_Win_create of memory that malloc gave, and the
 * names end in " created"; with --thread as well each rank has a second thread that sleeps, so that
 * the library cannot know who stores to that memory, and they end in " created, thread".
 *
 * argv: [--create [--thread]] NAME [SIZE...]; NAME is what stands after "rma", with _ for spaces. */
#include "distance.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 16, SLOT = 64 };

struct rma {
    MPI_Win win;
    char *base, *out, *in;
    size_t bytes;
    int rank, ranks, target, is_origin;
    int at_once;      /* operations that are measured together */
    long done;        /* operations of each origin so far */
    MPI_Group others; /* of all ranks but this one */
    struct distance distance;
};

static const char *suffix = "";

/* As bench_stamp and bench_check, for buffers of 8 bytes at least: without a call, which would be
 * a good part of what is measured. */
static inline void stamp(char *out, long number)
{
    memcpy(out, &number, sizeof number);
}

static inline void check_stamp(const char *in, long number)
{
    long found;
    memcpy(&found, in, sizeof found);
    if (found != number)
        bench_die("message %ld is not the one expected but %ld", number, found);
}

/* ---- One operation; `number` counts from 1. */

typedef void Operation(struct rma *r, long number);

static void put(struct rma *r, long number)
{
    stamp(r->out, number);
    MPI_Put(r->out, (int)r->bytes, MPI_BYTE, r->target, 0, (int)r->bytes, MPI_BYTE, r->win);
    MPI_Win_flush(r->target, r->win);
}

static void get(struct rma *r, long number)
{
    (void)number;
    stamp(r->in, -1);
    MPI_Get(r->in, (int)r->bytes, MPI_BYTE, r->target, 0, (int)r->bytes, MPI_BYTE, r->win);
    MPI_Win_flush(r->target, r->win);
    check_stamp(r->in, 0); /* what the memory holds at first */
}

static void accumulate(struct rma *r, long number)
{
    int n = (int)(r->bytes / sizeof(double));
    (void)number;
    MPI_Accumulate(r->out, n, MPI_DOUBLE, r->target, 0, n, MPI_DOUBLE, MPI_SUM, r->win);
    MPI_Win_flush(r->target, r->win);
}

static void fetch_and_op(struct rma *r, long number)
{
    const int64_t one = 1;
    int64_t old = -1;
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, r->target, 0, MPI_SUM, r->win);
    MPI_Win_flush(r->target, r->win);
    if (old != number - 1)
        bench_die("the counter was %lld, not %ld", (long long)old, number - 1);
}

static void compare_and_swap(struct rma *r, long number)
{
    const int64_t next = number, compare = number - 1;
    int64_t old = -1;
    MPI_Compare_and_swap(&next, &compare, &old, MPI_INT64_T, r->target, 0, r->win);
    MPI_Win_flush(r->target, r->win);
    if (old != compare)
        bench_die("the value was %lld, not %lld", (long long)old, (long long)compare);
}

static void lock_put_unlock(struct rma *r, long number)
{
    stamp(r->out, number);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, r->target, 0, r->win);
    MPI_Put(r->out, (int)r->bytes, MPI_BYTE, r->target, 0, (int)r->bytes, MPI_BYTE, r->win);
    MPI_Win_unlock(r->target, r->win);
}

static void put_to_all(struct rma *r, long number)
{
    stamp(r->out, number);
    for (int t = 0; t < r->ranks; t++)
        if (t != r->rank)
            MPI_Put(r->out, 8, MPI_BYTE, t, r->rank * SLOT, 8, MPI_BYTE, r->win);
}

static void fence(struct rma *r, long number)
{
    put_to_all(r, number);
    MPI_Win_fence(0, r->win);
}

static void pscw(struct rma *r, long number)
{
    MPI_Win_post(r->others, 0, r->win);
    MPI_Win_start(r->others, 0, r->win);
    put_to_all(r, number);
    MPI_Win_complete(r->win);
    MPI_Win_wait(r->win);
}

static void put_pingpong(struct rma *r, long number)
{
    for (int turn = 0; turn < 2; turn++)
        if (turn == r->rank) {
            bench_stamp(r->out, r->bytes, number);
            MPI_Win_start(r->others, 0, r->win);
            MPI_Put(r->out, (int)r->bytes, MPI_BYTE, 1 - r->rank, 0, (int)r->bytes, MPI_BYTE,
                    r->win);
            MPI_Win_complete(r->win);
        } else {
            MPI_Win_post(r->others, 0, r->win);
            MPI_Win_wait(r->win);
        }
}

static void counter(struct rma *r, long number)
{
    const int64_t one = 1;
    int64_t old;
    (void)number;
    MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, r->win);
    MPI_Win_flush(0, r->win);
}

static void burst_of_puts(struct rma *r, long number)
{
    int bytes = (int)r->bytes;
    bench_stamp(r->out, r->bytes, number);
    for (int i = 0; i < BURST; i++)
        MPI_Put(r->out, bytes, MPI_BYTE, 1 - r->rank, (MPI_Aint)i * bytes, bytes, MPI_BYTE, r->win);
}

static void put_bandwidth(struct rma *r, long number)
{
    if (r->rank == 0) {
        MPI_Win_start(r->others, 0, r->win);
        burst_of_puts(r, number);
        MPI_Win_complete(r->win);
    } else {
        MPI_Win_post(r->others, 0, r->win);
        MPI_Win_wait(r->win);
    }
}

static void get_bandwidth(struct rma *r, long number)
{
    int bytes = (int)r->bytes;
    (void)number;
    if (r->rank == 0) {
        MPI_Win_start(r->others, 0, r->win);
        for (int i = 0; i < BURST; i++)
            MPI_Get(r->in + (size_t)i * r->bytes, bytes, MPI_BYTE, 1, (MPI_Aint)i * bytes, bytes,
                    MPI_BYTE, r->win);
        MPI_Win_complete(r->win);
    } else {
        MPI_Win_post(r->others, 0, r->win);
        MPI_Win_wait(r->win);
    }
}

static void put_bidirectional(struct rma *r, long number)
{
    MPI_Win_post(r->others, 0, r->win);
    MPI_Win_start(r->others, 0, r->win);
    burst_of_puts(r, number);
    MPI_Win_complete(r->win);
    MPI_Win_wait(r->win);
}

/* ---- What is measured of an operation, and how its result is checked. */

enum epoch { NONE, LOCK_ALL, FENCES };
enum check { STAMP, COUNT, TOTAL, SLOTS, SUMS, GOT };

struct measure {
    const char *name;
    Operation *operation;
    enum epoch epoch;
    enum check check;
    int pair;       /* needs 2 ranks, which both take part */
    int together;   /* all ranks take part, whatever their number */
    int per_second; /* bytes of an operation, in parts of the size: MB/s */
};

static const struct measure measures[] = {
    {"put", put, LOCK_ALL, STAMP, 0, 0, 0},
    {"get", get, LOCK_ALL, GOT, 0, 0, 0},
    {"accumulate", accumulate, LOCK_ALL, SUMS, 0, 0, 0},
    {"fetch_and_op", fetch_and_op, LOCK_ALL, COUNT, 0, 0, 0},
    {"compare_and_swap", compare_and_swap, LOCK_ALL, COUNT, 0, 0, 0},
    {"lock put unlock", lock_put_unlock, NONE, STAMP, 0, 0, 0},
    {"fence", fence, FENCES, SLOTS, 0, 1, 0},
    {"pscw", pscw, NONE, SLOTS, 0, 1, 0},
    {"put pingpong", put_pingpong, NONE, STAMP, 1, 1, 0},
    {"counter", counter, LOCK_ALL, TOTAL, 0, 1, 0},
    {"contended lock", lock_put_unlock, NONE, STAMP, 0, 1, 0},
    {"put bandwidth", put_bandwidth, NONE, STAMP, 1, 1, BURST},
    {"get bandwidth", get_bandwidth, NONE, GOT, 1, 1, BURST},
    {"put bidirectional", put_bidirectional, NONE, STAMP, 1, 1, 2 * BURST},
};

struct task {
    struct rma *r;
    const struct measure *m;
};

/* More ranks than 2 end with a barrier, which where they share cores can take longer than thousands
 * of operations; on a created window an operation, too, can take a slice of the scheduler. */
static int operations_at_once(const struct rma *r, const struct measure *m, int create)
{
    if (r->ranks == 2)
        return 1;
    if (m->epoch != LOCK_ALL || create)
        return 10;
    return r->bytes > 4096 ? 100 : 20000;
}

/* The node's clock, the same for all ranks: MPI_Wtime may count from each rank's start. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double run(void *arg, long n)
{
    struct task *t = arg;
    struct rma *r = t->r;
    Operation *operation = t->m->operation;
    n *= r->at_once;
    distance_measure(&r->distance);
    /* The greatest of the ranks' are the first start, negative, and the last end. */
    double times[2] = {-seconds()};
    if (r->is_origin)
        for (long i = 1; i <= n; i++)
            operation(r, r->done + i);
    times[1] = seconds();
    if (r->ranks > 2 || (t->m->together && !t->m->pair))
        MPI_Allreduce(MPI_IN_PLACE, times, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    r->done += n;
    return times[0] + times[1];
}

/* Whether this rank's memory holds a result that check_result knows. */
static int is_target(const struct rma *r, const struct measure *m)
{
    if (m->check == SLOTS)
        return 1;
    if (m->together && !m->pair)
        return r->rank == 0;
    return r->rank == 1 || r->ranks > 2;
}

static void check_slots(const struct rma *r)
{
    for (int origin = 0; origin < r->ranks; origin++)
        if (origin != r->rank)
            bench_check(r->base + (size_t)origin * SLOT, sizeof(long), r->done);
}

/* Looks at this rank's memory after the last batch. */
static void check_result(const struct rma *r, const struct measure *m)
{
    int64_t count, expected = m->check == TOTAL ? r->done * r->ranks : r->done;
    double sum;
    if (m->check == GOT && r->rank == 0)
        bench_check_rest(r->in, r->bytes, 0);
    if (m->check == GOT || !is_target(r, m))
        return;
    MPI_Win_lock(MPI_LOCK_SHARED, r->rank, 0, r->win);
    memcpy(&count, r->base, sizeof count);
    memcpy(&sum, r->base + r->bytes - sizeof sum, sizeof sum);
    if (m->check == STAMP) {
        bench_check(r->base, r->bytes, r->done);
        bench_check_rest(r->base, r->bytes, 'o');
    } else if (m->check == SLOTS) {
        check_slots(r);
    } else if (m->check == SUMS && sum != (double)r->done) {
        bench_die("the last sum is %g after %ld additions", sum, r->done);
    } else if (m->check != SUMS && count != expected) {
        bench_die("the value is %lld, not %lld", (long long)count, (long long)expected);
    }
    MPI_Win_unlock(r->rank, r->win);
}

static void open_window(struct rma *r, size_t bytes, int create, int fill)
{
    if (create) {
        r->base = bench_alloc(bytes, fill);
        MPI_Win_create(r->base, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &r->win);
    } else {
        MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &r->base, &r->win);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, r->rank, 0, r->win);
    memset(r->base, fill, bytes);
    MPI_Win_unlock(r->rank, r->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void report(struct rma *r, const struct measure *m, double *batch, long n)
{
    char name[64], key[64];
    for (int b = 0; b < BATCHES; b++) {
        batch[b] /= r->at_once;
        if (m->per_second)
            batch[b] = (double)r->bytes * m->per_second / batch[b] / 1e6;
        else
            batch[b] *= 1e6 / (m->operation == put_pingpong ? 2 : 1);
        if (m->check == TOTAL || (m->together && m->operation == lock_put_unlock))
            batch[b] /= r->ranks;
    }
    snprintf(name, sizeof name, "rma %s%s", m->name, suffix);
    if (r->rank == 0)
        bench_print_more(name, (long)r->bytes, r->ranks, batch, m->per_second ? "MB/s" : "us",
                         n * r->at_once, distance_key(&r->distance, key, sizeof key));
}

static void measure(struct rma *r, const struct measure *m, long bytes, int create)
{
    struct task task = {r, m};
    double batch[BATCHES];
    size_t room = (size_t)bytes * BURST, slots = (size_t)r->ranks * SLOT;
    if (bytes < 8 || bytes % 8)
        bench_die("%ld bytes are not a multiple of 8", bytes);
    r->bytes = (size_t)bytes;
    r->done = 0;
    r->at_once = operations_at_once(r, m, create);
    r->is_origin = m->together || r->ranks > 2 || r->rank == 0;
    r->target = m->together ? 0 : (r->rank + 1) % r->ranks;
    r->out = bench_alloc(room, m->check == SUMS ? 0 : 'o');
    r->in = bench_alloc(room, 1);
    if (m->check == SUMS)
        for (size_t i = 0; i < r->bytes / sizeof(double); i++)
            memcpy(r->out + i * sizeof(double), &(double){1.0}, sizeof(double));
    open_window(r, room > slots ? room : slots, create, 0);
    if (m->epoch == LOCK_ALL)
        MPI_Win_lock_all(0, r->win);
    else if (m->epoch == FENCES)
        MPI_Win_fence(MPI_MODE_NOPRECEDE, r->win);
    long n = bench_measure(run, &task, 0.02, batch);
    if (m->epoch == LOCK_ALL)
        MPI_Win_unlock_all(r->win);
    else if (m->epoch == FENCES)
        MPI_Win_fence(MPI_MODE_NOSUCCEED, r->win);
    MPI_Barrier(MPI_COMM_WORLD);
    check_result(r, m);
    report(r, m, batch, n);
    MPI_Win_free(&r->win);
    if (create)
        free(r->base);
    free(r->out);
    free(r->in);
}

/* ---- A target that computes. */

static double epochs(struct rma *r, long n, double compute)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), end;
    if (r->rank == 0)
        for (long i = 1; i <= n; i++)
            lock_put_unlock(r, i);
    else
        while (MPI_Wtime() - start < compute)
            ;
    end = MPI_Wtime();
    MPI_Barrier(MPI_COMM_WORLD);
    return end - start;
}

static void busy_target(struct rma *r, int create)
{
    enum { EPOCHS = 20000 };
    double batch[BATCHES];
    char name[64];
    r->bytes = 8;
    r->target = 1;
    r->out = bench_alloc(r->bytes, 'o');
    open_window(r, r->bytes, create, 0);
    epochs(r, EPOCHS, 0);
    for (int b = 0; b < BATCHES; b++) {
        double idle = epochs(r, EPOCHS, 0);
        batch[b] = epochs(r, EPOCHS, 0.2) / idle;
    }
    snprintf(name, sizeof name, "rma busy target%s", suffix);
    if (r->rank == 0)
        bench_print(name, 8, 2, batch, "x", EPOCHS);
    MPI_Win_free(&r->win);
    if (create)
        free(r->base);
    free(r->out);
}

static const struct measure *find(const char *name)
{
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        char written[64];
        snprintf(written, sizeof written, "%s", measures[i].name);
        for (char *space = written; (space = strchr(space, ' '));)
            *space = '_';
        if (!strcmp(written, name))
            return &measures[i];
    }
    return NULL;
}

static void *sleep_on(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    struct rma r = {0};
    MPI_Group world;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r.ranks);
    int create = bench_option(&argc, argv, "--create");
    int thread = bench_option(&argc, argv, "--thread");
    suffix = !create ? "" : thread ? " created, thread" : " created";
    pthread_t second;
    if (thread && pthread_create(&second, NULL, sleep_on, NULL))
        bench_die("a second thread cannot be started");
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, &r.rank, &r.others);
    MPI_Group_free(&world);
    const char *name = argc > 1 ? argv[1] : "put";
    const struct measure *m = find(name);
    int busy = !strcmp(name, "busy_target");
    if (!m && !busy)
        bench_die("'%s' is none of the measures", name);
    if (r.ranks < 2 || ((busy || m->pair) && r.ranks != 2))
        bench_die("%s: not for %d ranks", name, r.ranks);
    distance_open(&r.distance);
    if (busy)
        busy_target(&r, create);
    else if (argc < 3)
        measure(&r, m, 8, create);
    for (int i = 2; i < argc && !busy; i++)
        measure(&r, m, bench_bytes(argv[i]), create);
    distance_close(&r.distance);
    MPI_Group_free(&r.others);
    MPI_Finalize();
    return 0;
}
