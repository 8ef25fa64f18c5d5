/* A random mix: non-blocking, blocking and persistent collectives and messages on four
 * communicators. What is started is drawn from a seed that all ranks share; when and how each
 * completes is every rank's own. Arguments: steps, seed. */
#include "collectives.h"

enum { COMMS = 4, SLOTS = 40, KEPT = 6 };

typedef struct {
    Coll c;
    unsigned char *out, *in; /* a message instead */
    size_t bytes;
    uint64_t seed;
    int left;     /* requests that are not complete */
} Slot;

static MPI_Comm comms[COMMS];
static Slot slots[SLOTS];
static MPI_Request requests[2 * SLOTS]; /* two for each slot */
static Coll kept[KEPT];
static MPI_Request kept_requests[KEPT];
static int kept_active[KEPT];
static unsigned all, own; /* generators */

static int among(unsigned *state, int n)
{
    return (int)(coll_random(state) % (unsigned)n);
}

static int draw_count(void)
{
    static const int counts[] = {0, 1, 2, 7, 50, 300, 2100};
    int big = among(&all, 40) == 0;
    return big ? 20000 + among(&all, 9000) : counts[among(&all, 7)];
}

static void draw(Coll *c)
{
    int k = among(&all, COMMS), size;
    unsigned root = coll_random(&all);
    int kind = among(&all, COLL_KINDS), n = draw_count(), stride = 1 + among(&all, 2), in_place = among(&all, 2);
    int user_op = among(&all, 2);
    MPI_Comm_size(comms[k], &size);
    coll_make(c, kind, n, (int)(root % (unsigned)size), stride, in_place, user_op, comms[k]);
}

static void completed(int request)
{
    Slot *s = &slots[request / 2];
    if (--s->left)
        return;
    if (s->out) {
        size_t same = test_verify(s->in, s->bytes, s->seed);
        CHECK(same == s->bytes, "a message of %zu bytes among collectives differs at byte %zu", s->bytes, same);
        free(s->out);
        free(s->in);
        s->out = s->in = NULL;
    } else {
        coll_check(&s->c, "random mix, non-blocking");
        coll_drop(&s->c);
    }
}

static void kept_completed(int i)
{
    kept_active[i] = 0;
    coll_check(&kept[i], "random mix, persistent");
}

/* Completes some of what is under way, in one of several ways. */
static void complete(void)
{
    int n = 2 * SLOTS, done = 0, index = 0, indices[2 * SLOTS];
    switch (among(&own, 6)) {
    case 0:
        index = among(&own, n);
        if (requests[index] != MPI_REQUEST_NULL) {
            MPI_Wait(&requests[index], MPI_STATUS_IGNORE);
            completed(index);
        }
        break;
    case 1:
        index = among(&own, n);
        if (requests[index] != MPI_REQUEST_NULL) {
            MPI_Test(&requests[index], &done, MPI_STATUS_IGNORE);
            if (done)
                completed(index);
        }
        break;
    case 2:
        MPI_Testsome(n, requests, &done, indices, MPI_STATUSES_IGNORE);
        for (int i = 0; i < done; i++)
            completed(indices[i]);
        break;
    case 3:
        MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
        if (index != MPI_UNDEFINED)
            completed(index);
        break;
    case 4:
        index = among(&own, KEPT);
        MPI_Test(&kept_requests[index], &done, MPI_STATUS_IGNORE);
        if (done && kept_active[index])
            kept_completed(index);
        break;
    default:
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &done, MPI_STATUS_IGNORE);
    }
}

static int free_slot(void)
{
    int index, i;
    for (;;) {
        for (i = 0; i < SLOTS; i++)
            if (slots[i].left == 0)
                return i;
        MPI_Waitany(2 * SLOTS, requests, &index, MPI_STATUS_IGNORE);
        if (index == MPI_UNDEFINED)
            return -1;
        completed(index);
    }
}

static void start_collective(unsigned seed)
{
    int i = free_slot();
    draw(&slots[i].c);
    coll_fill(&slots[i].c, seed);
    coll_call(&slots[i].c, NONBLOCKING, &requests[2 * i]);
    slots[i].left = 1;
}

/* Around the ring of the world, any distance. */
static void start_message(unsigned seed, int tag)
{
    Slot *s;
    int i = free_slot(), by = among(&all, test_size), to = (test_rank + by) % test_size;
    int from = (test_rank - by + test_size) % test_size;
    s = &slots[i];
    s->bytes = (size_t)draw_count() * 5;
    s->seed = seed + (unsigned)from;
    s->out = test_alloc(s->bytes);
    s->in = test_alloc(s->bytes);
    s->left = 2;
    test_fill(s->out, s->bytes, seed + (unsigned)test_rank);
    MPI_Irecv(s->in, (int)s->bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &requests[2 * i]);
    MPI_Isend(s->out, (int)s->bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests[2 * i + 1]);
}

static void restart(unsigned seed)
{
    int i = among(&all, KEPT);
    if (kept_active[i]) {
        MPI_Wait(&kept_requests[i], MPI_STATUS_IGNORE);
        kept_completed(i);
    }
    coll_fill(&kept[i], seed);
    MPI_Start(&kept_requests[i]);
    kept_active[i] = 1;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    coll_init();
    int steps = argc > 1 ? atoi(argv[1]) : 600, index;
    all = argc > 2 ? (unsigned)atoi(argv[2]) : 1u;
    own = all * 31u + (unsigned)test_rank + 1u;
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -test_rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2, test_rank, &comms[3]); /* two halves */
    for (int i = 0; i < 2 * SLOTS; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < KEPT; i++) {
        draw(&kept[i]);
        coll_call(&kept[i], PERSISTENT, &kept_requests[i]);
    }
    for (int step = 0; step < steps; step++) {
        unsigned seed = coll_random(&all);
        Coll c;
        switch (among(&all, 8)) {
        case 0:
            draw(&c);
            coll_fill(&c, seed);
            coll_call(&c, BLOCKING, NULL);
            coll_check(&c, "random mix, blocking");
            coll_drop(&c);
            break;
        case 1: case 2:
            start_message(seed, step);
            break;
        case 3:
            restart(seed);
            break;
        default:
            start_collective(seed);
        }
        for (int i = among(&own, 3); i > 0; i--)
            complete();
    }
    for (;;) {
        MPI_Waitany(2 * SLOTS, requests, &index, MPI_STATUS_IGNORE);
        if (index == MPI_UNDEFINED)
            break;
        completed(index);
    }
    for (int i = 0; i < KEPT; i++) {
        MPI_Wait(&kept_requests[i], MPI_STATUS_IGNORE);
        if (kept_active[i])
            kept_completed(i);
        MPI_Request_free(&kept_requests[i]);
        coll_drop(&kept[i]);
    }
    for (int k = 1; k < COMMS; k++)
        MPI_Comm_free(&comms[k]);
    coll_end();
    return test_finish();
}
