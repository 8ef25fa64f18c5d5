/* Polling where ranks share cores: what a test or probe that finds nothing costs a program that has
 * other work, and how soon a rank that only polls lets its neighbour on the same core go on.
 *
 *   poll round     every rank computes (argument --compute NS, 300 unless given) and tests a receive
 *                  that is not complete: microseconds a round, all ranks at once
 *   poll test      the part of that round that is not computation, in microseconds: rounds with the
 *                  test less rounds without
 *   poll table     random updates of a table that is spread over the ranks, in the manner of HPCC's
 *                  RandomAccess: each rank tests its receive after every update, and exchanges buckets
 *                  of 64 updates; microseconds for an update of each rank. All updates are counted.
 *   ring test      a message is passed around the ring of ranks by MPI_Isend and MPI_Irecv; a rank
 *                  that waits for it calls MPI_Test: microseconds a hop
 *   ring iprobe    the same with MPI_Iprobe and MPI_Recv
 *
 * argv: [--compute NS] [round] [table] [ring]; all three unless one is named.
 *
 * All times are wall clock from a barrier to the end of the last rank, so ranks that share a core
 * count for each other. */
#include "compute.h"

enum { TAG_NEVER = 1, TAG_UPDATES, TAG_END, TAG_TOKEN };
enum { BUCKET = 64, TABLE = 1 << 18 };

static int rank, ranks;

/* ---- Computation between tests. */

struct rounds {
    long units;       /* of work in a round */
    MPI_Request *never; /* tested in each round; NULL: not */
};

static double rounds(void *arg, long n)
{
    const struct rounds *r = arg;
    int flag = 0;
    double start = now();
    for (long i = 0; i < n; i++) {
        work(r->units);
        if (r->never) {
            MPI_Test(r->never, &flag, MPI_STATUS_IGNORE);
            if (flag)
                bench_die("a receive is complete without a message");
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return now() - start;
}

/* Units of work that take this time where nothing else runs: the shortest of several attempts. */
static long units_of(double seconds)
{
    const long tried = 20000;
    double least = 1e9;
    for (int i = 0; i < 20; i++) {
        double start = now();
        work(tried);
        double took = now() - start;
        least = took < least ? took : least;
    }
    long units = (long)(seconds / (least / (double)tried) + 0.5);
    MPI_Bcast(&units, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return units < 1 ? 1 : units;
}

static void poll_round(double compute)
{
    double with[BATCHES], without[BATCHES], difference[BATCHES];
    int token = 0;
    MPI_Request never;
    struct rounds r = {units_of(compute), NULL};
    long n = 100000;
    MPI_Irecv(&token, 1, MPI_INT, (rank + 1) % ranks, TAG_NEVER, MPI_COMM_WORLD, &never);
    for (int b = -1; b < BATCHES; b++) {
        double seconds[2];
        for (int tests = 0; tests <= 1; tests++) {
            r.never = tests ? &never : NULL;
            MPI_Barrier(MPI_COMM_WORLD);
            seconds[tests] = rounds(&r, n) / (double)n * 1e6;
        }
        if (b < 0)
            continue; /* warms up */
        without[b] = seconds[0];
        with[b] = seconds[1];
        difference[b] = with[b] - without[b];
    }
    MPI_Send(&rank, 1, MPI_INT, (rank + ranks - 1) % ranks, TAG_NEVER, MPI_COMM_WORLD);
    MPI_Wait(&never, MPI_STATUS_IGNORE);
    if (token != (rank + 1) % ranks)
        bench_die("the receive that was tested got %d", token);
    if (rank == 0) {
        bench_print("poll round", 0, ranks, with, "us", n);
        bench_print("poll test", 0, ranks, difference, "us", n);
    }
}

/* ---- Updates of a table. */

struct table {
    uint64_t *words; /* TABLE of them */
    uint64_t state;  /* of the random numbers */
    uint64_t in[BUCKET];
    uint64_t (*out)[BUCKET]; /* a bucket for each rank */
    uint64_t (*sent)[BUCKET];
    int *filled;
    MPI_Request receive, *sends;
    long applied;
    int ended; /* ranks that have said that no more will come from them */
};

static void apply(struct table *t, const uint64_t *updates, int n)
{
    for (int i = 0; i < n; i++)
        t->words[updates[i] % TABLE] ^= updates[i];
    t->applied += n;
}

/* Takes in a bucket if one has come, and starts the next receive. */
static void take_in(struct table *t)
{
    MPI_Status status;
    int flag, n;
    MPI_Test(&t->receive, &flag, &status);
    if (!flag)
        return;
    MPI_Get_count(&status, MPI_UINT64_T, &n);
    apply(t, t->in, n);
    t->ended += status.MPI_TAG == TAG_END;
    MPI_Irecv(t->in, BUCKET, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
              &t->receive);
}

static void send_bucket(struct table *t, int to, int tag)
{
    for (int flag = 0; !flag;) {
        MPI_Test(&t->sends[to], &flag, MPI_STATUS_IGNORE);
        if (!flag)
            take_in(t);
    }
    memcpy(t->sent[to], t->out[to], sizeof t->out[to]);
    MPI_Isend(t->sent[to], t->filled[to], MPI_UINT64_T, to, tag, MPI_COMM_WORLD, &t->sends[to]);
    t->filled[to] = 0;
}

static double updates(void *arg, long n)
{
    struct table *t = arg;
    t->applied = 0;
    t->ended = 0;
    MPI_Irecv(t->in, BUCKET, MPI_UINT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
              &t->receive);
    double start = now();
    for (long i = 0; i < n; i++) {
        t->state = t->state * 6364136223846793005u + 1442695040888963407u;
        uint64_t value = t->state >> 17;
        int to = (int)((t->state >> 40) % (uint64_t)ranks);
        if (to == rank) {
            apply(t, &value, 1);
        } else {
            t->out[to][t->filled[to]++] = value;
            if (t->filled[to] == BUCKET)
                send_bucket(t, to, TAG_UPDATES);
        }
        take_in(t);
    }
    for (int to = 0; to < ranks; to++)
        if (to != rank)
            send_bucket(t, to, TAG_END);
    while (t->ended < ranks - 1)
        take_in(t);
    MPI_Cancel(&t->receive);
    MPI_Wait(&t->receive, MPI_STATUS_IGNORE);
    MPI_Waitall(ranks, t->sends, MPI_STATUSES_IGNORE);
    long sum = 0;
    MPI_Allreduce(&t->applied, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    double seconds = now() - start;
    if (sum != n * ranks)
        bench_die("%ld updates were made, of %ld", sum, n * ranks);
    return seconds;
}

static void poll_table(void)
{
    double batch[BATCHES];
    struct table t = {0};
    const long n = 100000;
    t.words = allocate(TABLE * sizeof *t.words);
    t.out = allocate((size_t)ranks * sizeof *t.out);
    t.sent = allocate((size_t)ranks * sizeof *t.sent);
    t.filled = allocate((size_t)ranks * sizeof *t.filled);
    t.sends = allocate((size_t)ranks * sizeof *t.sends);
    t.state = 88172645463325252u + (uint64_t)rank;
    for (int i = 0; i < ranks; i++)
        t.sends[i] = MPI_REQUEST_NULL;
    for (int b = -1; b < BATCHES; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double seconds = updates(&t, n);
        if (b >= 0)
            batch[b] = seconds / (double)n * 1e6;
    }
    if (rank == 0)
        bench_print("poll table", TABLE * 8L, ranks, batch, "us", n);
    free(t.words);
    free(t.out);
    free(t.sent);
    free(t.filled);
    free(t.sends);
}

/* ---- Ranks that only poll. */

static void await_test(long *token, int from)
{
    MPI_Request request;
    int flag = 0;
    MPI_Irecv(token, 1, MPI_LONG, from, TAG_TOKEN, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

static void await_iprobe(long *token, int from)
{
    int flag = 0;
    while (!flag)
        MPI_Iprobe(from, TAG_TOKEN, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    MPI_Recv(token, 1, MPI_LONG, from, TAG_TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void pass_on(long token, int to)
{
    MPI_Request request;
    int flag = 0;
    MPI_Isend(&token, 1, MPI_LONG, to, TAG_TOKEN, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

static double laps(void *arg, long n)
{
    void (*await)(long *, int) = *(void (**)(long *, int))arg;
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    long token = 0;
    double start = now();
    for (long i = 0; i < n; i++) {
        if (rank == 0)
            pass_on(token + 1, next);
        await(&token, last);
        if (token != i * ranks + (rank == 0 ? ranks : rank))
            bench_die("the token is %ld in lap %ld", token, i);
        if (rank > 0)
            pass_on(token + 1, next);
    }
    return now() - start;
}

static void ring(const char *measure, void (*await)(long *, int))
{
    double batch[BATCHES];
    int batches;
    long n = bench_measure_within(laps, &await, 0.05, 10, batch, &batches);
    for (int b = 0; b < batches; b++)
        batch[b] *= 1e6 / ranks;
    if (rank == 0)
        figure(measure, 8, ranks, batch, batches, "us", n, "");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long compute = bench_option_bytes(&argc, argv, "--compute", 300);
    int all = argc < 2;
    if (ranks < 2)
        bench_die("wants 2 ranks or more");
    if (all || bench_option(&argc, argv, "round"))
        poll_round(1e-9 * (double)compute);
    if (all || bench_option(&argc, argv, "table"))
        poll_table();
    if (all || bench_option(&argc, argv, "ring")) {
        ring("ring test", await_test);
        ring("ring iprobe", await_iprobe);
    }
    if (argc > 1)
        bench_die("'%s' is none of round, table and ring", argv[1]);
    MPI_Finalize();
    return 0;
}
