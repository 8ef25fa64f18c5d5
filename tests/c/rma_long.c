/* Long puts, gets and accumulates within a node, of which a target that waits in MPI may copy a
 * part: into windows of every kind, from buffers that come again or are new, at any alignment,
 * while the target waits, computes without a call, or is an origin itself. Every rank knows from
 * the same random numbers what each target's memory holds.
 *
 * argv: rounds, seed, and "helped": a target that waits must help sooner or later, where ranks
 * have cores of their own. */
#include "rma.h"

#include <unistd.h>

enum { WINDOW = 3 << 20, LEAST = 24 << 10, BUFFERS = 3, GUARD = 64 };

typedef enum { WAITS, COMPUTES, IS_ORIGIN, TARGET_STATES } TargetState;
typedef enum { PUT, GET, SUM, REPLACE, OPERATIONS } Operation;

static const char *const states[] = {"waits", "computes", "is an origin"};
static const char *const operations[] = {"put", "get", "sum", "replace"};

static RmaWindow w;
static unsigned char **model; /* what each rank's memory holds */
static unsigned char *buffers[BUFFERS];
static uint64_t numbers; /* the same on all ranks */

typedef struct {
    Operation operation;
    int at, bytes, shift, buffer; /* a buffer begins `shift` bytes into its memory */
    uint64_t seed;
} Step;

static Step random_step(void)
{
    Step s;
    s.operation = (Operation)rma_below(&numbers, OPERATIONS);
    s.bytes = LEAST + 8 * rma_below(&numbers, (WINDOW - LEAST) / 8);
    s.at = 8 * rma_below(&numbers, (WINDOW - s.bytes) / 8 + 1);
    s.shift = 8 * rma_below(&numbers, 600);
    s.buffer = rma_below(&numbers, BUFFERS + 1); /* the last: new memory */
    s.seed = rma_next(&numbers);
    return s;
}

/* What the operation leaves at the target. */
static void apply(const Step *s, unsigned char *memory)
{
    if (s->operation == PUT || s->operation == REPLACE)
        test_fill(memory + s->at, (size_t)s->bytes, s->seed);
    for (int i = 0; s->operation == SUM && i < s->bytes; i += 8) {
        uint64_t value, sum = 0;
        for (int b = 7; b >= 0; b--)
            sum = sum << 8 | test_byte(s->seed, (uint64_t)(i + b));
        memcpy(&value, memory + s->at + i, 8);
        value += sum;
        memcpy(memory + s->at + i, &value, 8);
    }
}

static void carry_out(const Step *s, int target)
{
    size_t bytes = (size_t)s->bytes, room = bytes + (size_t)s->shift + GUARD;
    unsigned char *memory = s->buffer < BUFFERS ? buffers[s->buffer] : test_alloc(room);
    unsigned char *buffer = memory + s->shift;
    MPI_Aint disp = rma_disp(&w, target, s->at);
    memset(memory, 0xa5, room);
    if (s->operation != GET)
        test_fill(buffer, bytes, s->seed);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win);
    if (s->operation == PUT)
        MPI_Put(buffer, s->bytes, MPI_BYTE, target, disp, s->bytes, MPI_BYTE, w.win);
    else if (s->operation == GET)
        MPI_Get(buffer, s->bytes, MPI_BYTE, target, disp, s->bytes, MPI_BYTE, w.win);
    else
        MPI_Accumulate(buffer, s->bytes / 8, MPI_UINT64_T, target, disp, s->bytes / 8, MPI_UINT64_T,
                       s->operation == SUM ? MPI_SUM : MPI_REPLACE, w.win);
    MPI_Win_unlock(target, w.win);
    if (s->operation == GET)
        CHECK(!memcmp(buffer, model[target] + s->at, bytes), "%s of %d bytes at %d of rank %d: %s",
              operations[s->operation], s->bytes, s->at, target, "wrong bytes");
    else
        CHECK(test_verify(buffer, bytes, s->seed) == bytes, "%s of %d bytes changed its buffer",
              operations[s->operation], s->bytes);
    CHECK(test_all(memory, (size_t)s->shift, 0xa5) == (size_t)s->shift &&
              test_all(buffer + bytes, GUARD, 0xa5) == GUARD,
          "%s of %d bytes wrote outside of its buffer", operations[s->operation], s->bytes);
    if (s->buffer == BUFFERS)
        free(memory);
}

/* For about half a millisecond, without a call of MPI. */
static void compute(void)
{
    volatile double x = 1;
    for (int i = 0; i < 200000; i++)
        x = x * 1.0000001 + 1e-9;
}

static void round_of(int from)
{
    TargetState state = (TargetState)rma_below(&numbers, TARGET_STATES);
    Step steps[3];
    int to = (from + 1) % test_size, back = (to + 1) % test_size;
    for (int i = 0; i < 3; i++)
        steps[i] = random_step();
    Step own = random_step();
    int is_apart = back != to && test_size > 1;
    if (test_rank == from)
        for (int i = 0; i < 3; i++) {
            carry_out(&steps[i], to);
            apply(&steps[i], model[to]);
        }
    if (test_rank == to && to != from) {
        if (state == COMPUTES)
            compute();
        else if (state == IS_ORIGIN && is_apart)
            carry_out(&own, back);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* in which the target waits */
    for (int i = 0; i < 3; i++)
        if (test_rank != from)
            apply(&steps[i], model[to]);
    if (state == IS_ORIGIN && is_apart && to != from)
        apply(&own, model[back]);
    MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, w.win);
    CHECK(!memcmp(w.base, model[test_rank], WINDOW),
          "after rank %d's operations on rank %d, which %s, the memory (%s) is not as expected",
          from, to, states[state], rma_kinds[w.kind]);
    MPI_Win_unlock(test_rank, w.win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The counter `mica_window_helps` of this rank, from the first call on. */
static uint64_t helps(void)
{
    static MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
    static MPI_T_pvar_handle handle;
    uint64_t value = 0;
    if (session == MPI_T_PVAR_SESSION_NULL) {
        int provided, index, count = 0;
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        if (MPI_T_pvar_get_index("mica_window_helps", MPI_T_PVAR_CLASS_COUNTER, &index)) {
            CHECK(0, "there is no counter %s", "mica_window_helps");
            return 0;
        }
        MPI_T_pvar_session_create(&session);
        MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count);
        MPI_T_pvar_start(session, handle);
    }
    MPI_T_pvar_read(session, handle, &value);
    return value;
}

/* A target helps while it polls, and soon sleeps where others want its core. So it answers a message
 * before every few puts: it has a core then, and waits for the next message. Whether it still has
 * one at the puts is the system's choice, hence the many tries. */
static void put_until_helped(void)
{
    enum { BYTES = 1 << 20, TRIES = 20000, AT_ONCE = 4 };
    rma_open(&w, RMA_ALLOCATE, BYTES, 1, MPI_INFO_NULL);
    MPI_Win_lock_all(0, w.win);
    int tries = 0, more = 1;
    while (test_rank == 0 && more) {
        more = helps() == 0 && tries < TRIES;
        MPI_Send(&more, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        if (more)
            MPI_Recv(&more, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; more && i < AT_ONCE; i++, tries++) {
            MPI_Put(buffers[0], BYTES, MPI_BYTE, 1, 0, BYTES, MPI_BYTE, w.win);
            MPI_Win_flush(1, w.win);
        }
    }
    while (test_rank == 1 && more) {
        MPI_Recv(&more, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (more)
            MPI_Send(&more, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    CHECK(test_rank || helps(), "no target has helped with %d puts", tries);
    MPI_Win_unlock_all(w.win);
    rma_close(&w);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    int must_help = argc > 3 && !strcmp(argv[3], "helped");
    if (must_help)
        helps();
    numbers = rma_seed(argc > 2 ? (uint64_t)atoi(argv[2]) : 1, 0);
    model = test_alloc((size_t)test_size * sizeof *model);
    for (int r = 0; r < test_size; r++)
        model[r] = test_alloc(WINDOW);
    for (int b = 0; b < BUFFERS; b++)
        buffers[b] = test_alloc(WINDOW + 600 * 8 + GUARD);
    for (int kind = 0; kind < RMA_KINDS; kind++) {
        if (kind == RMA_SHARED && !rma_one_node())
            continue;
        rma_open(&w, (RmaKind)kind, WINDOW, 8, MPI_INFO_NULL);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, w.win);
        memset(w.base, 0, WINDOW);
        MPI_Win_unlock(test_rank, w.win);
        for (int r = 0; r < test_size; r++)
            memset(model[r], 0, WINDOW);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < rounds; i++)
            round_of(i % test_size);
        rma_close(&w);
    }
    if (must_help && sysconf(_SC_NPROCESSORS_ONLN) >= test_size)
        put_until_helped();
    if (must_help)
        MPI_T_finalize();
    for (int b = 0; b < BUFFERS; b++)
        free(buffers[b]);
    for (int r = 0; r < test_size; r++)
        free(model[r]);
    free(model);
    return test_finish();
}
