/* Litmus tests over windows (MPI 5.0, 12.5.4 and 12.7): what the calls that complete operations, and
 * MPI_Win_sync, promise about the order in which others see them. Two ranks act on two cells, each in
 * the memory of another rank, round after round at the same time; each outcome is looked at.
 *
 *   store buffering  write x, read y | write y, read x: both read 0 in no order of the four
 *   message passing  write x, write y | read y, read x: a y without its x
 *   load buffering   read x, write y | read y, write x: both read what was written later
 *   IRIW             write x | write y | read x, read y | read y, read x: the readers disagree
 *
 * argv: rounds of each test, seed. */
#include "rma.h"

#include <stdatomic.h>

enum { CELLS = 256, LINE = 64, MOST_RANKS = 4, SPINS = 2000 };

/* How a cell is reached. */
typedef enum { BY_PUT, BY_ACCUMULATE, BY_STORE } Access;

/* What follows each access. */
typedef enum { FLUSH, FLUSH_ALL, UNLOCK, UNLOCK_ALL, SYNC } Completion;

static const char *const accesses[] = {"put and get", "accumulate", "store and load"};
static const char *const completions[] = {"flush", "flush_all", "unlock", "unlock_all", "sync"};

typedef struct {
    RmaWindow w;
    Access access;
    Completion completion;
    _Atomic int64_t *cells[2]; /* x, y: for loads and stores */
} Subject;

typedef struct {
    const char *name;
    int ranks;
    const char *acts[MOST_RANKS]; /* of each rank: "Wx" writes x, "Rx" reads it */
    int (*is_forbidden)(const signed char read[MOST_RANKS][2]);
} Litmus;

static int store_buffering(const signed char read[MOST_RANKS][2])
{
    return read[0][0] == 0 && read[1][0] == 0;
}

static int message_passing(const signed char read[MOST_RANKS][2])
{
    return read[1][0] == 1 && read[1][1] == 0;
}

static int load_buffering(const signed char read[MOST_RANKS][2])
{
    return read[0][0] == 1 && read[1][0] == 1;
}

static int independent_reads(const signed char read[MOST_RANKS][2])
{
    return read[2][0] == 1 && read[2][1] == 0 && read[3][0] == 1 && read[3][1] == 0;
}

static const Litmus tests[] = {
    {"store buffering", 2, {"WxRy", "WyRx"}, store_buffering},
    {"message passing", 2, {"WxWy", "RyRx"}, message_passing},
    {"load buffering", 2, {"RxWy", "RyWx"}, load_buffering},
    {"IRIW", 4, {"Wx", "Wy", "RxRy", "RyRx"}, independent_reads},
};

/* The rounds that each rank has come to, a line each. */
static _Atomic int64_t *rounds_of[MOST_RANKS];

/* Returns when the other ranks have come to this round as well, or do not come: one that has lost its
 * core is not waited for. */
static void meet(int ranks, int64_t round)
{
    atomic_store(rounds_of[test_rank], round);
    for (int r = 0, spins = 0; r < ranks; r++)
        while (atomic_load(rounds_of[r]) < round && spins < SPINS)
            spins++;
}

static int is_passive(const Subject *s)
{
    return s->completion != UNLOCK && s->completion != UNLOCK_ALL;
}

/* MPI_MODE_NOCHECK, where an access follows another, so that no lock's word orders the two. */
static void begin(const Subject *s, int owner, int assertion)
{
    if (s->completion == UNLOCK)
        MPI_Win_lock(MPI_LOCK_SHARED, owner, assertion, s->w.win);
    if (s->completion == UNLOCK_ALL)
        MPI_Win_lock_all(assertion, s->w.win);
}

static void complete(const Subject *s, int owner)
{
    switch (s->completion) {
    case FLUSH:
        MPI_Win_flush(owner, s->w.win);
        break;
    case FLUSH_ALL:
        MPI_Win_flush_all(s->w.win);
        break;
    case UNLOCK:
        MPI_Win_unlock(owner, s->w.win);
        break;
    case UNLOCK_ALL:
        MPI_Win_unlock_all(s->w.win);
        break;
    case SYNC:
        MPI_Win_sync(s->w.win);
        break;
    }
}

static void write_cell(const Subject *s, int owner, int cell, int assertion)
{
    const int64_t one = 1;
    MPI_Aint at = rma_disp(&s->w, owner, (MPI_Aint)cell * LINE);
    begin(s, owner, assertion);
    if (s->access == BY_PUT)
        MPI_Put(&one, 1, MPI_INT64_T, owner, at, 1, MPI_INT64_T, s->w.win);
    else if (s->access == BY_ACCUMULATE)
        MPI_Accumulate(&one, 1, MPI_INT64_T, owner, at, 1, MPI_INT64_T, MPI_REPLACE, s->w.win);
    else
        atomic_store_explicit(&s->cells[owner][cell * LINE / 8], 1, memory_order_relaxed);
    complete(s, owner);
}

static signed char read_cell(const Subject *s, int owner, int cell, int assertion)
{
    int64_t none = 0, value = -1;
    MPI_Aint at = rma_disp(&s->w, owner, (MPI_Aint)cell * LINE);
    begin(s, owner, assertion);
    if (s->access == BY_PUT)
        MPI_Get(&value, 1, MPI_INT64_T, owner, at, 1, MPI_INT64_T, s->w.win);
    else if (s->access == BY_ACCUMULATE)
        MPI_Get_accumulate(&none, 1, MPI_INT64_T, &value, 1, MPI_INT64_T, owner, at, 1, MPI_INT64_T,
                           MPI_NO_OP, s->w.win);
    else
        value = atomic_load_explicit(&s->cells[owner][cell * LINE / 8], memory_order_relaxed);
    complete(s, owner);
    return (signed char)value;
}

static void act(const Subject *s, const char *acts, int cell, signed char read[2])
{
    int reads = 0;
    for (int assertion = 0; *acts; acts += 2, assertion = MPI_MODE_NOCHECK) {
        if (acts[0] == 'W')
            write_cell(s, acts[1] - 'x', cell, assertion);
        else
            read[reads++] = read_cell(s, acts[1] - 'x', cell, assertion);
    }
}

/* All cells of this rank are 0 when this returns. */
static void clear(const Subject *s)
{
    MPI_Barrier(MPI_COMM_WORLD); /* those of the last rounds are not read any more */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, s->w.win);
    memset(s->w.base, 0, CELLS * LINE);
    MPI_Win_unlock(test_rank, s->w.win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Returns how often the forbidden was seen, on rank 0. */
static int run(const Subject *s, const Litmus *test, int64_t rounds, uint64_t *random, int64_t *met)
{
    static signed char read[CELLS][2], all[MOST_RANKS][CELLS][2];
    int forbidden = 0;
    for (int64_t round = 0; round < rounds; round += CELLS) {
        clear(s);
        if (is_passive(s))
            MPI_Win_lock_all(0, s->w.win);
        for (int cell = 0; cell < CELLS && test_rank < test->ranks; cell++) {
            meet(test->ranks, ++*met);
            for (volatile int pause = rma_below(random, 16); pause > 0; pause--)
                ;
            act(s, test->acts[test_rank], cell, read[cell]);
        }
        if (is_passive(s))
            MPI_Win_unlock_all(s->w.win);
        MPI_Gather(read, sizeof read, MPI_SIGNED_CHAR, all, sizeof read, MPI_SIGNED_CHAR, 0,
                   MPI_COMM_WORLD);
        for (int cell = 0; cell < CELLS && test_rank == 0; cell++) {
            signed char one[MOST_RANKS][2];
            for (int r = 0; r < MOST_RANKS; r++)
                memcpy(one[r], all[r][cell], 2);
            forbidden += test->is_forbidden(one);
        }
    }
    return forbidden;
}

static void run_all(Subject *s, int64_t rounds, uint64_t *random, int64_t *met)
{
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        const Litmus *test = &tests[t];
        if (test_size < test->ranks)
            continue;
        int seen = run(s, test, rounds, random, met);
        CHECK(seen == 0, "%s (%s window) by %s and %s: forbidden %d times in %lld", test->name,
              rma_kinds[s->w.kind], accesses[s->access], completions[s->completion], seen,
              (long long)rounds);
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    if (test_size < 2 || test_size > MOST_RANKS)
        return test_skip("it needs 2 to 4 ranks");
    if (!rma_one_node())
        return test_skip("the ranks meet in shared memory");
    int64_t rounds = argc > 1 ? atoll(argv[1]) : 20000, met = 0;
    uint64_t random = rma_seed(argc > 2 ? (uint64_t)atoll(argv[2]) : 1, (uint64_t)test_rank);
    RmaWindow meeting;
    rma_open(&meeting, RMA_SHARED, LINE, 1, MPI_INFO_NULL);
    for (int r = 0; r < test_size; r++) {
        MPI_Aint bytes;
        int unit;
        MPI_Win_shared_query(meeting.win, r, &bytes, &unit, &rounds_of[r]);
    }
    for (RmaKind kind = 0; kind < RMA_KINDS; kind++) {
        Subject s = {.access = BY_PUT};
        rma_open(&s.w, kind, CELLS * LINE, 1, MPI_INFO_NULL);
        for (s.access = BY_PUT; s.access <= BY_ACCUMULATE; s.access++)
            for (s.completion = FLUSH; s.completion <= UNLOCK_ALL; s.completion++)
                run_all(&s, rounds, &random, &met);
        if (kind == RMA_SHARED) {
            for (int r = 0; r < 2; r++) {
                MPI_Aint bytes;
                int unit;
                MPI_Win_shared_query(s.w.win, r, &bytes, &unit, &s.cells[r]);
            }
            s.access = BY_STORE;
            s.completion = SYNC;
            run_all(&s, rounds, &random, &met);
        }
        rma_close(&s.w);
    }
    rma_close(&meeting);
    return test_finish();
}
