/* Random sequences of sends, receives, probes, matched probes and cancels with wildcards, against
 * MPI's matching rules: a receive that got message q of a sender proves that every earlier message
 * of that sender which also fits it was taken by a receive posted earlier (MPI 5.0, 3.5). All
 * messages arrive once and whole; what nothing is left for is cancelled.
 *
 * argv: rounds, seed, threads (each with a communicator and random numbers of its own). */
#include "test.h"

#include <pthread.h>

enum { MESSAGES = 24, TAGS = 3, MOST = 70000, THREADS_MAX = 8 };

typedef struct {
    MPI_Comm comm;
    uint64_t random;
    int rounds, bad;
    char text[256];
} Run;

static uint64_t next(uint64_t *r)
{
    *r ^= *r << 13;
    *r ^= *r >> 7;
    *r ^= *r << 17;
    return *r;
}

static int below(uint64_t *r, int n) { return (int)(next(r) % (uint64_t)n); }

/* Tag, size and mode of message q from s to d: known to all ranks without talking. */
typedef struct {
    int tag, size, sync;
} Message;

static Message message(uint64_t round, int s, int d, int q)
{
    static const int sizes[] = {0, 1, 8, 39, 40, 41, 100, 4095, 4097, 8193, 20000, 65537, MOST};
    uint64_t r = (round * 131071 + (uint64_t)s * 8191 + (uint64_t)d * 127 + (uint64_t)q) * 0x9e3779b97f4a7c15u + 1;
    next(&r), next(&r);
    Message m = {below(&r, TAGS), sizes[below(&r, 13)], below(&r, 4) == 0};
    return m;
}

typedef struct {
    int source, tag; /* the pattern */
    int from, q;     /* what it got; from = -1: cancelled */
} Receive;

#define FAIL(...)                                                                                  \
    do {                                                                                           \
        if (run->bad++ == 0)                                                                       \
            snprintf(run->text, sizeof run->text, __VA_ARGS__);                                    \
    } while (0)

/* Notes what a receive got: the message says its number in the first byte, if it has one. */
static void note(Run *run, uint64_t round, int me, Receive *r, const unsigned char *bytes, MPI_Status *st,
                 char *taken)
{
    int count = -1, q;
    MPI_Get_count(st, MPI_BYTE, &count);
    r->from = st->MPI_SOURCE;
    if (r->source != MPI_ANY_SOURCE && r->source != r->from)
        FAIL("round %d: asked for rank %d, got %d", (int)round, r->source, r->from);
    /* A message without bytes is the first one of its sender and tag that is not taken yet and has
     * none. */
    if (count > 0)
        q = bytes[0];
    else
        for (q = 0; q < MESSAGES; q++) {
            Message m = message(round, r->from, me, q);
            if (m.size == 0 && m.tag == st->MPI_TAG && !taken[r->from * MESSAGES + q])
                break;
        }
    if (q >= MESSAGES) {
        FAIL("round %d: a message that was not sent, from %d", (int)round, r->from);
        q = 0;
    }
    r->q = q;
    Message m = message(round, r->from, me, q);
    if (m.tag != st->MPI_TAG || m.size != count || (r->tag != MPI_ANY_TAG && r->tag != m.tag))
        FAIL("round %d: message %d of %d: tag %d size %d, sent as %d %d", (int)round, q, r->from,
             st->MPI_TAG, count, m.tag, m.size);
    for (int i = 0; i < count; i++)
        if (bytes[i] != (unsigned char)(q + i * 7)) {
            FAIL("round %d: message %d of %d: byte %d", (int)round, q, r->from, i);
            break;
        }
    if (taken[r->from * MESSAGES + q]++)
        FAIL("round %d: message %d of %d came twice", (int)round, q, r->from);
}

static void one_round(Run *run, uint64_t round)
{
    int me, n;
    MPI_Comm c = run->comm;
    MPI_Comm_rank(c, &me);
    MPI_Comm_size(c, &n);
    int all = n * MESSAGES, posted = 0, arrived = 0;
    MPI_Request *out = test_alloc((size_t)all * sizeof *out), *in = test_alloc((size_t)all * sizeof *in);
    Receive *log = test_alloc((size_t)all * 2 * sizeof *log);
    int *where = test_alloc((size_t)all * sizeof *where), logged = 0;
    unsigned char *room = test_alloc((size_t)all * MOST), *data = test_alloc((size_t)all * MOST), *one = test_alloc(MOST);
    char *taken = calloc((size_t)all, 1);
    MPI_Status st;
    int *sent = calloc((size_t)n, sizeof *sent), nsent = 0;
    while (nsent < all || arrived < all) {
        int what = below(&run->random, 8);
        if (nsent < all && what < 4) { /* send the next message to some rank */
            int d = below(&run->random, n);
            while (sent[d] == MESSAGES)
                d = (d + 1) % n;
            int q = sent[d]++;
            Message m = message(round, me, d, q);
            unsigned char *b = data + (size_t)nsent * MOST;
            for (int i = 0; i < m.size; i++)
                b[i] = (unsigned char)(q + i * 7);
            if (m.sync)
                MPI_Issend(b, m.size, MPI_BYTE, d, m.tag, c, &out[nsent++]);
            else
                MPI_Isend(b, m.size, MPI_BYTE, d, m.tag, c, &out[nsent++]);
        } else if (posted < all && what < 6) { /* post a receive */
            Receive r = {below(&run->random, 3) ? below(&run->random, n) : MPI_ANY_SOURCE,
                         below(&run->random, 3) ? below(&run->random, TAGS) : MPI_ANY_TAG, -1, -1};
            MPI_Irecv(room + (size_t)posted * MOST, MOST, MPI_BYTE, r.source, r.tag, c, &in[posted]);
            where[posted++] = logged;
            log[logged++] = r;
        } else if (what == 6 || nsent == all) { /* probe, and receive what was found */
            int flag = 0, matched = below(&run->random, 2);
            MPI_Message handle;
            Receive r = {MPI_ANY_SOURCE, below(&run->random, 2) ? below(&run->random, TAGS) : MPI_ANY_TAG, -1, -1};
            if (matched)
                MPI_Improbe(MPI_ANY_SOURCE, r.tag, c, &flag, &handle, &st);
            else
                MPI_Iprobe(MPI_ANY_SOURCE, r.tag, c, &flag, &st);
            if (flag && logged < all * 2) {
                int source = st.MPI_SOURCE, tag = st.MPI_TAG;
                if (matched)
                    MPI_Mrecv(one, MOST, MPI_BYTE, &handle, &st);
                else
                    MPI_Recv(one, MOST, MPI_BYTE, source, tag, c, &st);
                if (st.MPI_SOURCE != source || st.MPI_TAG != tag)
                    FAIL("round %d: probed %d/%d, received %d/%d", (int)round, source, tag, st.MPI_SOURCE, st.MPI_TAG);
                note(run, round, me, &r, one, &st, taken);
                log[logged++] = r;
                arrived++;
            }
        }
        /* See what has come; in order of posting, so that messages without bytes are distinguished.
         */
        for (int i = 0; i < posted; i++) {
            int done = 0;
            if (in[i] == MPI_REQUEST_NULL)
                continue;
            MPI_Test(&in[i], &done, &st);
            if (done) {
                note(run, round, me, &log[where[i]], room + (size_t)i * MOST, &st, taken);
                arrived++;
            }
        }
    }
    MPI_Waitall(nsent, out, MPI_STATUSES_IGNORE);
    for (int i = 0; i < posted; i++)
        if (in[i] != MPI_REQUEST_NULL) {
            int cancelled = 0;
            MPI_Cancel(&in[i]);
            MPI_Wait(&in[i], &st);
            MPI_Test_cancelled(&st, &cancelled);
            if (!cancelled)
                FAIL("round %d: a receive got a message too many", (int)round);
        }
    /* The rule. Messages without bytes cannot be distinguished and are left out. */
    for (int i = 0; i < logged; i++) {
        if (log[i].from < 0 || message(round, log[i].from, me, log[i].q).size == 0)
            continue;
        for (int q = 0; q < log[i].q; q++) {
            Message m = message(round, log[i].from, me, q);
            if (m.size == 0 || (log[i].tag != MPI_ANY_TAG && log[i].tag != m.tag))
                continue;
            int earlier = 0;
            for (int j = 0; j < i; j++)
                earlier |= log[j].from == log[i].from && log[j].q == q;
            if (!earlier)
                FAIL("round %d: receive %d got message %d of %d and passed over %d", (int)round, i, log[i].q,
                     log[i].from, q);
        }
    }
    free(out), free(in), free(log), free(where), free(room), free(data), free(one), free(taken), free(sent);
    MPI_Barrier(c);
}

static void *work(void *arg)
{
    Run *run = arg;
    uint64_t base = run->random;
    int me;
    MPI_Comm_rank(run->comm, &me);
    run->random = base * 77 + (uint64_t)me * 1234567 + 1;
    for (int i = 0; i < run->rounds; i++)
        one_round(run, base * 1000 + (uint64_t)i);
    return NULL;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 5, threads = argc > 3 ? atoi(argv[3]) : 1, provided;
    uint64_t seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
    Run runs[THREADS_MAX] = {0};
    pthread_t id[THREADS_MAX];
    MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    for (int t = 0; t < threads; t++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &runs[t].comm);
        runs[t].random = seed * 100 + (uint64_t)t;
        runs[t].rounds = rounds;
    }
    for (int t = 1; t < threads; t++)
        pthread_create(&id[t], NULL, work, &runs[t]);
    work(&runs[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(id[t], NULL);
    for (int t = 0; t < threads; t++) {
        CHECK(runs[t].bad == 0, "thread %d: %d errors; first: %s", t, runs[t].bad, runs[t].text);
        MPI_Comm_free(&runs[t].comm);
    }
    return test_finish();
}
