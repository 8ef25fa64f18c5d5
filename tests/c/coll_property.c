/* Random collectives against what plain C says they must give. All seventeen, in their three forms,
 * on communicators that come and go, with any lengths, types, operators and roots, in place and
 * not, in memory that is reused, moved and fresh; several under way at once, completed in any
 * order, among messages; and some ranks come late. Arguments: steps, seed, what (all, move, reduce,
 * or the name of one). A failure names its seed and step. */
#include "property_moves.h"
#include "property_reduce.h"

enum { MOST = 6, MESSAGES = 3 };

typedef struct {
    int kind;
    unsigned step;
    Move move;
    Reduction reduction;
} Case;

static int kinds[COLL_KINDS], kinds_known, kinds_met[COLL_KINDS];
static unsigned first_seed, step_now;
static unsigned all, own; /* generators: shared by all ranks, and of this one */

static int case_moves(const Case *c)
{
    return c->kind < REDUCE;
}

static size_t case_bytes(const Case *c)
{
    return case_moves(c) ? c->move.length * (size_t)(c->move.granule * c->move.element->bytes)
                         : c->reduction.length * c->reduction.number->bytes;
}

/* Each in its turn in each form; to be asked by all ranks of the world, as every draw. */
static int next_kind(int form)
{
    static unsigned turns[3];
    int kind = kinds[(first_seed * 7u + turns[form]++ * 5u) % (unsigned)kinds_known];
    kinds_met[kind] = 1;
    return kind;
}

static void case_make(Case *c, int kind, unsigned seed, MPI_Comm comm)
{
    c->kind = kind;
    c->step = step_now;
    if (case_moves(c))
        move_make(&c->move, c->kind, coll_hash(seed), comm, &own);
    else
        reduce_make(&c->reduction, c->kind, coll_hash(seed), comm, &own);
}

static void case_fill(Case *c, unsigned seed)
{
    if (case_moves(c))
        move_fill(&c->move, seed);
    else
        reduce_fill(&c->reduction, seed);
}

static void case_call(Case *c, int form, MPI_Request *request)
{
    int code = case_moves(c) ? move_call(&c->move, form, request) : reduce_call(&c->reduction, form, request);
    CHECK_INT(code, MPI_SUCCESS, coll_names[c->kind]);
}

static void case_check(Case *c, const char *how)
{
    char text[500];
    if (!(case_moves(c) ? move_check(&c->move, text, sizeof text) : reduce_check(&c->reduction, text, sizeof text)))
        CHECK(0, "seed %u, step %u, %s: %s", first_seed, c->step, how, text);
}

static void case_drop(Case *c)
{
    if (case_moves(c))
        move_drop(&c->move);
    else
        reduce_drop(&c->reduction);
}

/* One rank, drawn for all, comes late now and then. */
static void late(unsigned seed)
{
    unsigned s = seed;
    if (among(&s, 12) == 0 && among(&s, test_size) == test_rank)
        sleep_us(100 + among(&s, 900));
}

/* Messages around the ring, any distance, while collectives are under way. */
typedef struct {
    unsigned char *out, *in;
    size_t bytes;
    uint64_t seed;
    MPI_Request requests[2];
} Message;

static void message_start(Message *m, unsigned seed, int tag)
{
    unsigned s = seed;
    int by = among(&s, test_size), to = (test_rank + by) % test_size, from = (test_rank - by + test_size) % test_size;
    m->bytes = draw_bytes(&s, 300000);
    m->out = test_alloc(2 * m->bytes);
    m->in = m->out + m->bytes;
    m->seed = seed + (uint64_t)from;
    test_fill(m->out, m->bytes, seed + (uint64_t)test_rank);
    MPI_Irecv(m->in, (int)m->bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &m->requests[0]);
    MPI_Isend(m->out, (int)m->bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &m->requests[1]);
}

static void message_end(Message *m)
{
    MPI_Waitall(2, m->requests, MPI_STATUSES_IGNORE);
    size_t same = test_verify(m->in, m->bytes, m->seed);
    CHECK(same == m->bytes, "seed %u, step %u: a message of %zu bytes among collectives differs at byte %zu", first_seed,
          step_now, m->bytes, same);
    free(m->out);
}

/* Completes them in an order and in ways that are this rank's own. */
static void complete(int n, MPI_Request *requests)
{
    int index, done, left = n, indices[MOST];
    switch (among(&own, 4)) {
    case 0:
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        return;
    case 1: {
        int start = among(&own, n);
        for (int i = 0; i < n; i++)
            MPI_Wait(&requests[(start + i) % n], MPI_STATUS_IGNORE);
        return;
    }
    case 2: {
        int finished[MOST] = {0};
        while (left) {
            int i = among(&own, n);
            if (finished[i])
                continue;
            MPI_Test(&requests[i], &finished[i], MPI_STATUS_IGNORE);
            left -= finished[i];
        }
        return;
    }
    default:
        while (left > 0) {
            if (among(&own, 2)) {
                MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE);
                left -= index != MPI_UNDEFINED;
            } else {
                MPI_Testsome(n, requests, &done, indices, MPI_STATUSES_IGNORE);
                left -= done == MPI_UNDEFINED ? left : done;
            }
        }
    }
}

/* One case again and again, with new contents: nothing but the collective itself holds ranks
 * together. */
static void blocking(unsigned seed)
{
    unsigned s = seed;
    MPI_Comm comm = comms[among(&s, COMMS)];
    unsigned drawn = coll_random(&s);
    int often = among(&s, 2), kind = next_kind(BLOCKING);
    Case c;
    if (comm == MPI_COMM_NULL)
        return;
    case_make(&c, kind, drawn, comm);
    int rounds = !often ? 1 : case_bytes(&c) < 5000 ? 12 : 4, first = comm_first(comm);
    for (int round = 0; round < rounds; round++) {
        case_fill(&c, coll_random(&s) + (unsigned)first);
        late(coll_random(&s));
        case_call(&c, BLOCKING, NULL);
        case_check(&c, "blocking");
        if (among(&own, 6) == 0) { /* other memory from now on */
            if (case_moves(&c))
                move_relocate(&c.move, &own);
            else
                reduce_relocate(&c.reduction, &own);
        }
    }
    case_drop(&c);
}

/* Several under way. */
static void outstanding(unsigned seed)
{
    unsigned s = seed;
    int n = 1 + among(&s, MOST), made = 0, messages = among(&s, MESSAGES);
    Case c[MOST];
    MPI_Request requests[MOST];
    Message m[MESSAGES];
    for (int i = 0; i < messages; i++)
        message_start(&m[i], coll_random(&s), i);
    for (int i = 0; i < n; i++) {
        MPI_Comm comm = comms[among(&s, COMMS)];
        int kind = next_kind(NONBLOCKING);
        unsigned drawn = coll_random(&s), contents = coll_random(&s);
        if (comm == MPI_COMM_NULL)
            continue;
        case_make(&c[made], kind, drawn, comm);
        case_fill(&c[made], contents + (unsigned)comm_first(comm));
        late(contents);
        case_call(&c[made], NONBLOCKING, &requests[made]);
        if (case_moves(&c[made]) && among(&own, 3) == 0)
            move_forget_types(&c[made].move);
        made++;
    }
    if (made)
        complete(made, requests);
    for (int i = 0; i < messages; i++)
        message_end(&m[i]);
    for (int i = 0; i < made; i++) {
        case_check(&c[i], "non-blocking");
        case_drop(&c[i]);
    }
}

/* Several prepared, and started again and again: in an order that is this rank's own, or all at
 * once. */
static void persistent(unsigned seed)
{
    unsigned s = seed;
    int n = 1 + among(&s, MOST), made = 0, rounds = 1 + among(&s, 5), between = among(&s, 2), firsts[MOST];
    MPI_Request requests[MOST];
    Case c[MOST];
    unsigned plain = coll_random(&s);
    for (int i = 0; i < n; i++) {
        MPI_Comm comm = comms[among(&s, COMMS)];
        int kind = next_kind(PERSISTENT);
        unsigned drawn = coll_random(&s);
        if (comm == MPI_COMM_NULL)
            continue;
        case_make(&c[made], kind, drawn, comm);
        firsts[made] = comm_first(comm) * 1000 + i;
        case_call(&c[made], PERSISTENT, &requests[made]);
        if (case_moves(&c[made]) && among(&own, 3) == 0)
            move_forget_types(&c[made].move);
        made++;
    }
    for (int round = 0; round < rounds; round++) {
        unsigned contents = coll_random(&s);
        late(contents);
        for (int i = 0; i < made; i++)
            case_fill(&c[i], contents + (unsigned)firsts[i]);
        if (made && among(&own, 2)) {
            MPI_Startall(made, requests);
        } else {
            int start = made ? among(&own, made) : 0;
            for (int i = 0; i < made; i++)
                MPI_Start(&requests[(start + i) % made]);
        }
        if (between) /* others, while these are under way */
            blocking(plain + (unsigned)round);
        if (made)
            complete(made, requests);
        for (int i = 0; i < made; i++)
            case_check(&c[i], "persistent");
    }
    for (int i = 0; i < made; i++) {
        MPI_Request_free(&requests[i]);
        case_drop(&c[i]);
    }
}

/* Many communicators, used once or not at all, one after the other and all at once. */
static void passing(unsigned seed)
{
    enum { ALIVE = 8 };
    unsigned s = seed;
    MPI_Comm alive[ALIVE];
    for (int i = 0; i < ALIVE; i++)
        alive[i] = MPI_COMM_NULL;
    for (int n = 10 + among(&s, 20); n > 0; n--) {
        int i = among(&s, ALIVE), used = among(&s, 4), kind = next_kind(BLOCKING);
        unsigned comm = coll_random(&s), drawn = coll_random(&s), contents = coll_random(&s);
        if (alive[i] != MPI_COMM_NULL)
            MPI_Comm_free(&alive[i]);
        alive[i] = comm_draw(comm);
        if (alive[i] != MPI_COMM_NULL && used) {
            Case c;
            case_make(&c, kind, drawn, alive[i]);
            case_fill(&c, contents + (unsigned)comm_first(alive[i]));
            case_call(&c, BLOCKING, NULL);
            case_check(&c, "on a new communicator");
            case_drop(&c);
        }
    }
    for (int i = 0; i < ALIVE; i++)
        if (alive[i] != MPI_COMM_NULL)
            MPI_Comm_free(&alive[i]);
}

static void choose(const char *what)
{
    for (int kind = 0; kind < COLL_KINDS; kind++)
        if (!strcmp(what, "all") || !strcmp(what, kind < REDUCE ? "move" : "reduce") || !strcmp(what, coll_names[kind]))
            kinds[kinds_known++] = kind;
    if (!kinds_known) {
        fprintf(stderr, "coll_property: there is no '%s'\n", what);
        MPI_Abort(MPI_COMM_WORLD, 64);
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    coll_init();
    reduce_init();
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    first_seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1u;
    choose(argc > 3 ? argv[3] : "all");
    all = coll_hash(first_seed);
    own = all * 31u + (unsigned)test_rank + 1u;
    comms_make(coll_random(&all));
    for (int step = 0; step < steps; step++) {
        unsigned seed = coll_random(&all);
        int slot = 1 + among(&all, COMMS - 1);
        step_now = (unsigned)step;
        switch (among(&all, 16)) {
        case 0: case 1:
            comm_remake(slot, seed);
            break;
        case 2:
            passing(seed);
            break;
        case 3: case 4: case 5: case 6:
            outstanding(seed);
            break;
        case 7: case 8:
            persistent(seed);
            break;
        default:
            blocking(seed);
        }
    }
    for (int i = 0; i < kinds_known; i++)
        CHECK(kinds_met[kinds[i]], "%d steps from seed %u do not make %s: take another", steps, first_seed,
              coll_names[kinds[i]]);
    comms_free();
    memory_end();
    reduce_end();
    coll_end();
    return test_finish();
}
