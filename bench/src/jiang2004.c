/* The experiments of jiang-2004, by the numbers of its figures; those that rma.c has are named in
 * docs/bench.md. The origin of a pair is rank 0, its target rank 1, unless said otherwise.
 *
 *   bidirectional SIZE...  3.6: both ranks put and fence, in us; and MPI_Isend, MPI_Irecv,
 *                          MPI_Waitall of the same bytes
 *   synchronization        3.9: start and complete at one origin, post and wait at all other ranks,
 *                          without operations, in us
 *   overlap LOOPS...       3.10: an epoch of 16 puts of 64 KiB, each followed by LOOPS times 1,000
 *                          increments, in us
 *   skew LOOPS...          3.11: the origin's time for 16 puts of 64 KiB, in us, while the target
 *                          counts LOOPS times 10,000 between post and wait
 *   origins                3.12: 16 puts of 64 KiB by each rank to the last one, in MB/s together
 *   operand COUNT...       3.13: an accumulate (sum) of COUNT ints, in us
 *   lock                   4.4: lock and unlock without operations, and the part of each, in us
 *   delay                  4.5: 3 ranks: from the unlock of one origin until another one, which
 *                          waits, has the lock of rank 2, in us
 *   concurrency            4.6: each rank locks and unlocks a window of its own at the last one:
 *                          the slowest, in us
 *   threads COUNT...       4.8: lock and unlock at a target with COUNT threads that compute, in us;
 *                          and how much slower these are meanwhile, as a ratio
 *   pairs                  4.9: 4 ranks: two origins lock at two targets which compute, in us
 *
 * Figure 4.7 counts messages; the library's counters have them (MICA_STATS), and the time under
 * contention is rma.c's "contended lock". */
#include "bench_mpi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { BURST = 16, LONG = 64 << 10 };

static int rank, ranks, target;
static MPI_Win win;
static MPI_Group others, partner;
static char *base, *out;

/* The same clock in all processes of the node, which MPI_Wtime need not be. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void count_to(long n)
{
    for (volatile long counter = 0; counter < n;)
        counter++;
}

static void open_window(size_t bytes)
{
    MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, bytes);
    out = bench_alloc(bytes, 1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void close_window(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    free(out);
}

static void report(const char *name, long parameter, double *batch, double factor,
                   const char *unit, long n)
{
    for (int b = 0; b < BATCHES; b++)
        batch[b] *= factor;
    if (rank == 0)
        bench_print(name, parameter, ranks, batch, unit, n);
}

static void time_us(const char *name, long parameter, BenchRun *run, void *arg)
{
    double batch[BATCHES];
    long n = bench_measure(run, arg, 0.02, batch);
    report(name, parameter, batch, 1e6, "us", n);
}

/* ---- 3.6 */

static double put_and_fence(void *arg, long n)
{
    int bytes = (int)*(long *)arg;
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++) {
        MPI_Put(out, bytes, MPI_BYTE, 1 - rank, 0, bytes, MPI_BYTE, win);
        MPI_Win_fence(0, win);
    }
    return MPI_Wtime() - start;
}

static double send_and_receive(void *arg, long n)
{
    int bytes = (int)*(long *)arg;
    MPI_Request requests[2];
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++) {
        MPI_Irecv(base, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    return MPI_Wtime() - start;
}

static void bidirectional(long bytes)
{
    open_window((size_t)bytes);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
    time_us("figure 3.6 put and fence", bytes, put_and_fence, &bytes);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (bytes > 0 && base[0] != 1)
        bench_die("nothing was put");
    time_us("figure 3.6 isend and irecv", bytes, send_and_receive, &bytes);
    close_window();
}

/* ---- 3.9 to 3.12: epochs of start and complete at the origins, post and wait at the target. */

struct epoch {
    int bytes, operations;
    long origin_loops, target_loops; /* increments after each put; between post and wait */
    int is_origin, is_target;
    MPI_Group targets, origins;
};

static double epochs(void *arg, long n)
{
    const struct epoch *e = arg;
    double start = MPI_Wtime();
    for (long i = 0; i < n; i++) {
        if (e->is_target) {
            MPI_Win_post(e->origins, 0, win);
            count_to(e->target_loops);
            MPI_Win_wait(win);
        }
        if (e->is_origin) {
            MPI_Win_start(e->targets, 0, win);
            for (int op = 0; op < e->operations; op++) {
                MPI_Put(out, e->bytes, MPI_BYTE, target, (MPI_Aint)op * e->bytes, e->bytes,
                        MPI_BYTE, win);
                count_to(e->origin_loops);
            }
            MPI_Win_complete(win);
        }
    }
    return MPI_Wtime() - start;
}

/* The time of the origin alone: what its target does afterwards is not counted. */
static double origin_epochs(void *arg, long n)
{
    double spent = 0;
    for (long i = 0; i < n; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        spent += epochs(arg, 1);
    }
    return spent;
}

static struct epoch epoch_of_pair(int operations)
{
    struct epoch e = {LONG, operations, 0, 0, rank == 0, rank == 1, partner, partner};
    return e;
}

static void synchronization(void)
{
    MPI_Group world, first;
    const int zero = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &zero, &first);
    struct epoch e = {0, 0, 0, 0, rank == 0, rank != 0, others, first};
    open_window(8);
    time_us("figure 3.9 synchronization", ranks, epochs, &e);
    close_window();
    MPI_Group_free(&first);
    MPI_Group_free(&world);
}

static void overlap(long loops)
{
    struct epoch e = epoch_of_pair(BURST);
    e.origin_loops = 1000 * loops;
    open_window(BURST * (size_t)LONG);
    time_us("figure 3.10 overlap", loops, epochs, &e);
    close_window();
}

static void skew(long loops)
{
    struct epoch e = epoch_of_pair(BURST);
    e.target_loops = 10000 * loops;
    open_window(BURST * (size_t)LONG);
    time_us("figure 3.11 skew", loops, origin_epochs, &e);
    close_window();
}

static void origins(void)
{
    MPI_Group world, last, rest;
    double batch[BATCHES];
    target = ranks - 1;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &target, &last);
    MPI_Group_excl(world, 1, &target, &rest);
    struct epoch e = {LONG, BURST, 0, 0, rank != target, rank == target, last, rest};
    open_window(BURST * (size_t)LONG);
    long n = bench_measure(epochs, &e, 0.02, batch);
    for (int b = 0; b < BATCHES; b++)
        batch[b] = (double)(ranks - 1) * BURST * LONG / batch[b] / 1e6;
    report("figure 3.12 origins", LONG, batch, 1, "MB/s", n);
    close_window();
    MPI_Group_free(&rest);
    MPI_Group_free(&last);
    MPI_Group_free(&world);
}

/* ---- 3.13 */

static double accumulates(void *arg, long n)
{
    int count = (int)*(long *)arg;
    double start = MPI_Wtime();
    if (rank == 0)
        for (long i = 0; i < n; i++) {
            MPI_Accumulate(out, count, MPI_INT, 1, 0, count, MPI_INT, MPI_SUM, win);
            MPI_Win_flush(1, win);
        }
    double spent = MPI_Wtime() - start;
    MPI_Barrier(MPI_COMM_WORLD);
    return spent;
}

static void operand(long count)
{
    open_window((size_t)count * sizeof(int));
    MPI_Win_lock_all(0, win);
    time_us("figure 3.13 accumulate", count * (long)sizeof(int), accumulates, &count);
    MPI_Win_unlock_all(win);
    close_window();
}

/* ---- 4.4, 4.6, 4.9 */

struct locker {
    MPI_Win win;
    int is_origin, target;
    double lock, unlock; /* seconds spent so far in each call */
};

static double lock_and_unlock(void *arg, long n)
{
    const struct locker *l = arg;
    double start = MPI_Wtime();
    if (l->is_origin)
        for (long i = 0; i < n; i++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, l->target, 0, l->win);
            MPI_Win_unlock(l->target, l->win);
        }
    double spent = MPI_Wtime() - start;
    MPI_Barrier(MPI_COMM_WORLD);
    return spent;
}

/* What the clock costs is in both. */
static void parts_of(struct locker *l, long n)
{
    for (long i = 0; i < n; i++) {
        double start = now();
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, l->target, 0, l->win);
        double between = now();
        MPI_Win_unlock(l->target, l->win);
        l->unlock += now() - between;
        l->lock += between - start;
    }
}

static void lock(void)
{
    enum { EPOCHS = 20000 };
    double locks[BATCHES], unlocks[BATCHES];
    open_window(8);
    struct locker l = {win, rank == 0, 1, 0, 0};
    time_us("figure 4.4 lock and unlock", 0, lock_and_unlock, &l);
    for (int b = 0; b < BATCHES; b++) {
        l.lock = l.unlock = 0;
        if (rank == 0)
            parts_of(&l, EPOCHS);
        MPI_Barrier(MPI_COMM_WORLD);
        locks[b] = l.lock / EPOCHS;
        unlocks[b] = l.unlock / EPOCHS;
    }
    report("figure 4.4 lock", 0, locks, 1e6, "us", EPOCHS);
    report("figure 4.4 unlock", 0, unlocks, 1e6, "us", EPOCHS);
    close_window();
}

static double slowest(void *arg, long n)
{
    double spent = lock_and_unlock(arg, n), most = 0;
    MPI_Reduce(&spent, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    return most;
}

static void concurrency(void)
{
    MPI_Win *windows = malloc((size_t)ranks * sizeof *windows);
    char *memory;
    for (int w = 0; w < ranks; w++)
        MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &windows[w]);
    struct locker l = {windows[rank], rank != ranks - 1, ranks - 1, 0, 0};
    time_us("figure 4.6 concurrency", ranks - 1, slowest, &l);
    for (int w = 0; w < ranks; w++)
        MPI_Win_free(&windows[w]);
    free(windows);
}

/* The targets compute until both origins are done, which a message says. */
static double pairs_of(void *arg, long n)
{
    const struct locker *l = arg;
    int done = 0;
    MPI_Request request;
    if (l->is_origin) {
        double start = MPI_Wtime();
        for (long i = 0; i < n; i++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, l->target, 0, l->win);
            MPI_Win_unlock(l->target, l->win);
        }
        double spent = MPI_Wtime() - start;
        MPI_Send(&done, 1, MPI_INT, l->target, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        return spent;
    }
    MPI_Irecv(&done, 1, MPI_INT, rank - 2, 0, MPI_COMM_WORLD, &request);
    for (int arrived = 0; !arrived;) {
        count_to(20000);
        MPI_Test(&request, &arrived, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}

static void pairs(void)
{
    open_window(8);
    struct locker l = {win, rank < 2, rank + 2, 0, 0};
    time_us("figure 4.9 pairs", 2, pairs_of, &l);
    close_window();
}

/* ---- 4.5 */

/* A lock that is certainly held when this returns. */
static void take(void)
{
    long value;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win);
    MPI_Get(&value, 1, MPI_LONG, 2, 0, 1, MPI_LONG, win);
    MPI_Win_flush(2, win);
}

/* Origin `first` holds the lock, the other one comes and waits. Returns the delay at both. */
static double one_delay(int first)
{
    const double hold = 2e-4;
    double given = 0, got = 0;
    if (rank == first) {
        take();
        MPI_Send(NULL, 0, MPI_BYTE, 1 - first, 1, MPI_COMM_WORLD);
        for (double start = now(); now() - start < hold;)
            ;
        given = now();
        MPI_Win_unlock(2, win);
        MPI_Recv(&got, 1, MPI_DOUBLE, 1 - first, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&given, 1, MPI_DOUBLE, 1 - first, 2, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, first, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        take();
        got = now();
        MPI_Win_unlock(2, win);
        MPI_Send(&got, 1, MPI_DOUBLE, first, 2, MPI_COMM_WORLD);
        MPI_Recv(&given, 1, MPI_DOUBLE, first, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return got - given;
}

static void delay(void)
{
    enum { OPERATION_SLOTS = 200 };
    double batch[BATCHES];
    open_window(8);
    for (int b = 0; b < BATCHES; b++) {
        double sum = 0;
        for (int turn = 0; turn < OPERATION_SLOTS && rank < 2; turn++)
            sum += one_delay(turn % 2);
        MPI_Barrier(MPI_COMM_WORLD);
        batch[b] = sum / OPERATION_SLOTS;
    }
    report("figure 4.5 delay", 0, batch, 1e6, "us", OPERATION_SLOTS);
    close_window();
}

/* ---- 4.8 */

static atomic_int stop;

struct worker {
    pthread_t thread;
    atomic_long counted;
};

static void *compute(void *arg)
{
    struct worker *w = arg;
    while (!atomic_load(&stop)) {
        count_to(10000);
        atomic_fetch_add(&w->counted, 1);
    }
    return NULL;
}

static long counted(struct worker *workers, long n)
{
    long sum = 0;
    for (long t = 0; t < n; t++)
        sum += atomic_load(&workers[t].counted);
    return sum;
}

/* Rank 1 only waits, in a sleep, so that its threads have its core. */
static double counts_per_second(struct worker *workers, long n, double seconds)
{
    const struct timespec nap = {0, (long)(seconds * 1e9)};
    long before = counted(workers, n);
    double start = now();
    nanosleep(&nap, NULL);
    return (double)(counted(workers, n) - before) / (now() - start);
}

static void threads(long n)
{
    double batch[BATCHES], slower[BATCHES];
    struct worker *workers = calloc((size_t)n + 1, sizeof *workers);
    long epochs_done = 0;
    open_window(8);
    atomic_store(&stop, 0);
    for (long t = 0; t < n && rank == 1; t++)
        pthread_create(&workers[t].thread, NULL, compute, &workers[t]);
    for (int b = 0; b < BATCHES; b++) {
        double alone = 0, beside = 0, start, spent = 0;
        long done = 0;
        if (rank == 1 && n > 0)
            alone = counts_per_second(workers, n, 0.05);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            beside = counts_per_second(workers, n, 0.05);
        } else {
            for (start = now(); (spent = now() - start) < 0.045; done++) {
                MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
                MPI_Win_unlock(1, win);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double ratio = beside > 0 ? alone / beside : 1;
        MPI_Bcast(&ratio, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
        batch[b] = done > 0 ? spent / (double)done : 0;
        slower[b] = ratio;
        epochs_done = done;
    }
    atomic_store(&stop, 1);
    for (long t = 0; t < n && rank == 1; t++)
        pthread_join(workers[t].thread, NULL);
    report("figure 4.8 lock and unlock", n, batch, 1e6, "us", epochs_done);
    if (n > 0)
        report("figure 4.8 computing threads", n, slower, 1, "x", epochs_done);
    close_window();
    free(workers);
}

/* ---- Which */

struct experiment {
    const char *name;
    int ranks; /* exactly; 0: 2 at least */
    void (*run)(void);
    void (*run_with)(long parameter);
};

static const struct experiment experiments[] = {
    {"bidirectional", 2, NULL, bidirectional},
    {"synchronization", 0, synchronization, NULL},
    {"overlap", 2, NULL, overlap},
    {"skew", 2, NULL, skew},
    {"origins", 0, origins, NULL},
    {"operand", 2, NULL, operand},
    {"lock", 2, lock, NULL},
    {"delay", 3, delay, NULL},
    {"concurrency", 0, concurrency, NULL},
    {"threads", 2, NULL, threads},
    {"pairs", 4, pairs, NULL},
};

int main(int argc, char **argv)
{
    MPI_Group world;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int other = rank == 0;
    target = 1;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, &rank, &others);
    MPI_Group_incl(world, 1, &other, &partner);
    MPI_Group_free(&world);
    const struct experiment *found = NULL;
    for (size_t i = 0; i < sizeof experiments / sizeof *experiments; i++)
        if (argc > 1 && !strcmp(argv[1], experiments[i].name))
            found = &experiments[i];
    if (!found || ranks < 2 || (found->ranks && found->ranks != ranks))
        bench_die("%s on %d ranks is no experiment", argc > 1 ? argv[1] : "nothing", ranks);
    if (found->run)
        found->run();
    for (int i = 2; i < argc && found->run_with; i++)
        found->run_with(bench_bytes(argv[i]));
    MPI_Group_free(&partner);
    MPI_Group_free(&others);
    MPI_Finalize();
    return 0;
}
