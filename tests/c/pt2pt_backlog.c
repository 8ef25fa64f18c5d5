/* The memory that a rank needs for messages without a receive stays within MICA_UNEXPECTED_MAX and
 * what is on its way, however many come: `pt2pt_backlog HOW BYTES TOTAL` has TOTAL MiB of messages
 * of BYTES bytes sent to rank 0 that it does not ask for, while it receives others and makes
 * progress; then it receives all and checks their order and contents.
 *
 *   send       every other rank floods rank 0 with MPI_Send
 *   isend      the same with windows of MPI_Isend
 *   both       two ranks flood each other with MPI_Isend, and wait for the sends only after the last receive
 *   self       rank 0 floods itself with MPI_Isend
 *   buffered   as send, with MPI_Bsend from a small buffer that is flushed when full
 *   probed     as send; rank 0 takes all by MPI_Mprobe
 *
 * Afterwards the memory is given back. The limit is taken from the environment; without it nothing
 * is checked but order. */
#include "test.h"
#include <time.h>

enum { FLOOD = 1, OTHER, NEVER };
enum { WINDOW = 64, EARLY = 50 };

static const char *how;
static int bytes, count;
static MPI_Comm other;

/* A figure of /proc/self/status, in KiB. */
static long status(const char *name)
{
    char line[256];
    long value = -1;
    FILE *f = fopen("/proc/self/status", "r");
    if (f == NULL)
        return -1;
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name) + 1);
    fclose(f);
    return value;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill(char *buf, int from, int i)
{
    for (int k = 0; k + 8 <= bytes; k += 8) {
        int word[2] = {from * 1000003 + i, k};
        memcpy(buf + k, word, 8);
    }
}

static void check(const char *buf, int from, int i)
{
    int word[2];
    memcpy(word, buf, 8);
    CHECK_INT(word[0], from * 1000003 + i, "which message of the flood it is");
    memcpy(word, buf + (bytes - 8) / 8 * 8, 8);
    CHECK_INT(word[0], from * 1000003 + i, "the end of a message of the flood");
}

/* One message among those of the flood that rank 0 does wait for: it must be found behind them. */
static void send_other(int to, int i)
{
    if (i == EARLY)
        MPI_Send(&i, 1, MPI_INT, to, OTHER, other);
}

static void flood(int to, MPI_Request *all)
{
    char *bufs = malloc((size_t)WINDOW * (size_t)bytes), *attached = NULL;
    MPI_Request r[WINDOW];
    int n = 0, size = 0;
    if (strcmp(how, "buffered") == 0) {
        size = 8 * (bytes + MPI_BSEND_OVERHEAD);
        attached = malloc((size_t)size);
        MPI_Buffer_attach(attached, size);
    }
    for (int i = 0; i < count; i++) {
        char *buf = bufs + (size_t)(i % WINDOW) * (size_t)bytes;
        if (all != NULL) {
            /* One buffer for all: the first message's contents. */
            if (i == 0)
                fill(bufs, test_rank, 0);
            MPI_Isend(bufs, bytes, MPI_BYTE, to, FLOOD, MPI_COMM_WORLD, &all[i]);
            continue;
        }
        if (strcmp(how, "isend") == 0) {
            if (n == WINDOW) {
                MPI_Waitall(WINDOW, r, MPI_STATUSES_IGNORE);
                n = 0;
            }
            fill(buf, test_rank, i);
            MPI_Isend(buf, bytes, MPI_BYTE, to, FLOOD, MPI_COMM_WORLD, &r[n++]);
        } else if (attached != NULL) {
            fill(buf, test_rank, i);
            if (i % 8 == 0 && i > 0)
                MPI_Buffer_flush();
            MPI_Bsend(buf, bytes, MPI_BYTE, to, FLOOD, MPI_COMM_WORLD);
        } else {
            fill(buf, test_rank, i);
            MPI_Send(buf, bytes, MPI_BYTE, to, FLOOD, MPI_COMM_WORLD);
        }
        send_other(to, i);
    }
    if (all == NULL)
        MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
    if (attached != NULL)
        MPI_Buffer_detach(&attached, &size);
    free(attached);
    if (all == NULL)
        free(bufs);
}

/* Receives what is waited for behind the flood, and makes progress for a while. */
static void meet_others(int senders)
{
    int value, flag;
    for (int i = 0; i < senders; i++) {
        MPI_Status s;
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, OTHER, other, &s);
        CHECK_INT(value, EARLY, "the message among those of the flood");
    }
    for (double end = now() + 1.5; now() < end;) {
        MPI_Iprobe(MPI_ANY_SOURCE, NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK_INT(flag, 0, "a message that no rank sends");
    }
}

static void drain(int senders, int same)
{
    char *buf = malloc((size_t)bytes);
    int *next = calloc((size_t)test_size, sizeof *next);
    for (long i = 0; i < (long)senders * count; i++) {
        MPI_Status s;
        if (strcmp(how, "probed") == 0) {
            MPI_Message m;
            int got;
            MPI_Mprobe(MPI_ANY_SOURCE, FLOOD, MPI_COMM_WORLD, &m, &s);
            MPI_Get_count(&s, MPI_BYTE, &got);
            CHECK_INT(got, bytes, "bytes of the message that was probed");
            MPI_Mrecv(buf, bytes, MPI_BYTE, &m, &s);
        } else {
            /* With wildcards and without. */
            int tag = i % 2 ? MPI_ANY_TAG : FLOOD;
            MPI_Recv(buf, bytes, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &s);
        }
        check(buf, s.MPI_SOURCE, same ? 0 : next[s.MPI_SOURCE]);
        next[s.MPI_SOURCE]++;
    }
    free(next);
    free(buf);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    how = argc > 1 ? argv[1] : "send";
    bytes = argc > 2 ? atoi(argv[2]) : 1024;
    long total = argc > 3 ? atol(argv[3]) : 64;
    const char *set = getenv("MICA_UNEXPECTED_MAX");
    long limit = set == NULL ? 0 : atol(set) << 10;
    /* KiB for what is on its way and what else there is. A network's provider has pools of its own,
     * which only grow. */
    long slack = getenv("MICA_NET") == NULL ? 24 << 10 : 64 << 10;
    int both = strcmp(how, "both") == 0, self = strcmp(how, "self") == 0;
    int senders = both || self ? 1 : test_size - 1;
    count = (int)((total << 20) / bytes / senders);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Request *all = both || self ? malloc((size_t)count * sizeof *all) : NULL;
    if (all != NULL)
        memset(all, 0, (size_t)count * sizeof *all);
    MPI_Barrier(MPI_COMM_WORLD);
    long before = status("RssAnon:"), before_all = status("VmRSS:");
    if (both && test_rank < 2) {
        flood(1 - test_rank, all);
        double end = now() + 1.0;
        for (int flag = 0; now() < end;)
            MPI_Iprobe(MPI_ANY_SOURCE, NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    } else if (self && test_rank == 0) {
        flood(0, all);
    } else if (!both && !self && test_rank > 0) {
        flood(0, NULL);
    } else if (!both && !self) {
        meet_others(senders);
    }
    int receives = test_rank == 0 || (both && test_rank < 2);
    long full = status("RssAnon:");
    if (receives)
        drain(senders, all != NULL);
    if (all != NULL && receives)
        MPI_Waitall(count, all, MPI_STATUSES_IGNORE);
    /* What pending sends need is the program's; at most half a KiB each here, and as much at the
     * receiver. */
    long pending = all != NULL ? count : 0;
    if (receives && limit > 0) {
        long most = status("VmHWM:") - before_all, after = status("RssAnon:");
        CHECK(most <= limit + slack + pending,
              "rank %d grew by %ld KiB where %ld KiB of unexpected messages are allowed", test_rank,
              most, limit);
        CHECK(after - before <= slack + pending,
              "rank %d keeps %ld of %ld KiB after the last message", test_rank, after - before,
              full - before);
    }
    free(all);
    MPI_Comm_free(&other);
    return test_finish();
}
