/* Random one-sided operations under random synchronization, against a model that every rank
 * computes from the same random numbers. In each phase the memory of every target is divided into
 * parts, and the use of each part makes the result certain: it is only read, one origin puts to it,
 * one origin accumulates to it in order, or several origins accumulate with one commutative
 * operator.
 *
 * argv: rounds (each a window with PHASES phases), seed, the least and the greatest kind of window
 * (0 create, 1 allocate, 2 allocate_shared, 3 dynamic), and "nocheck": locks with MPI_MODE_NOCHECK,
 * too, after which MPICH 5.0.2 waits for ever in the next lock. */
#include "rma_model.h"

enum { PHASES = 5, PARTS = 12, PART_MAX = 9000, LOCAL = 4, GUARD = 0x5a };

typedef enum { IDLE, READ, PUT, ORDERED, COMMON, USES } Use;
typedef enum { BY_FENCE, BY_PSCW, BY_LOCK, BY_SHARED_LOCKS, BY_LOCK_ALL, SYNCS } Sync;
typedef enum { OP_PUT, OP_GET, OP_ACC, OP_GET_ACC, OP_FETCH, OP_CAS } Call;

static const char *const uses[] = {"idle", "read", "put", "ordered", "common"};
static const char *const syncs[] = {"fence", "post/start", "lock", "shared locks", "lock_all"};
static const char *const calls[] = {
    "put", "get", "accumulate", "get_accumulate", "fetch_and_op", "compare_and_swap"};

typedef struct {
    int at, bytes; /* multiples of 16 */
    Use use;
    int owner;
    const Element *e;
    OpName op; /* of COMMON */
} Part;

typedef struct {
    Call call;
    int origin, target, at, n, flush; /* flush: a number of flush calls' kinds, see flush() */
    const Part *part;
    const Element *e;
    OpName op;
    int request;
    uint64_t seed;
    unsigned char *value, *compare; /* of the origin, only on that rank */
    unsigned char *result, *expected;
} Step;

static struct {
    RmaWindow w;
    Sync sync;
    int passive, locks, nocheck; /* locks: the window was not made with no_locks */
    int round, phase, window_bytes;
    uint64_t random; /* the same on all ranks */
    unsigned char **model;
    Part (*parts)[PARTS];
    int *part_count;
    Step *steps;
    int step_count, step_room;
    unsigned char **touched; /* touched[target][origin]: has operations to it */
    MPI_Request *requests;
    int request_count;
} run;

static int below(int n)
{
    return rma_below(&run.random, n);
}

static int round_up(int x, int to)
{
    return (x + to - 1) / to * to;
}

static void divide(int target)
{
    int at = 0, k = 0;
    for (; k < PARTS; k++) {
        int bytes = round_up(1 + below(below(4) ? 200 : PART_MAX), 16);
        if (at + bytes > run.window_bytes)
            break;
        Part *p = &run.parts[target][k];
        p->at = at;
        p->bytes = bytes;
        p->use = (Use)below(USES);
        p->owner = below(test_size);
        p->e = &elements[below(ELEMENTS)];
        p->op = op_random(&run.random, p->e, 1);
        at += bytes + 16 * below(3);
    }
    run.part_count[target] = k;
}

static Step *add(Call call, int origin, int target, const Part *p)
{
    if (run.step_count == run.step_room) {
        run.step_room = run.step_room ? 2 * run.step_room : 256;
        run.steps = realloc(run.steps, (size_t)run.step_room * sizeof *run.steps);
        if (!run.steps)
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    Step *s = &run.steps[run.step_count++];
    memset(s, 0, sizeof *s);
    s->call = call;
    s->origin = origin;
    s->target = target;
    s->part = p;
    s->e = p->e;
    s->op = NO_OP;
    s->seed = rma_next(&run.random);
    s->request = run.passive && call <= OP_GET_ACC && below(3) == 0;
    run.touched[target][origin] = 1;
    return s;
}

/* A random range of elements of the part, on a multiple of the target's displacement unit. */
static void choose_range(Step *s)
{
    int step = s->e->size > run.w.units[s->target] ? s->e->size : run.w.units[s->target];
    int first = below(s->part->bytes / step) * step;
    int most = (s->part->bytes - first) / s->e->size;
    s->at = s->part->at + first;
    s->n = s->call == OP_FETCH || s->call == OP_CAS ? 1 : below(12) == 0 ? 0 : 1 + below(most);
}

static void plan_reads(const Part *p, int target)
{
    for (int i = below(4); i >= 0; i--) {
        int call = below(3);
        Step *s = add(call == 0   ? OP_GET
                      : call == 1 ? OP_GET_ACC
                                  : OP_FETCH,
                      below(test_size), target, p);
        choose_range(s);
    }
}

/* Disjoint puts; what was put may be read back after a flush. */
static void plan_puts(const Part *p, int target)
{
    for (int at = 0; at < p->bytes;) {
        int bytes = round_up(1 + below(p->bytes - at), 16);
        Step *s = add(OP_PUT, p->owner, target, p);
        s->at = p->at + at;
        s->n = bytes / s->e->size;
        at += bytes + 16 * below(2);
    }
    if (run.passive && below(2)) {
        Step *s = add(OP_GET, p->owner, target, p);
        choose_range(s);
        s->flush = 1 + below(2);
    }
}

/* Accumulates of one origin to one part are ordered (MPI 5.0, 12.7.2). */
static void plan_ordered(const Part *p, int target)
{
    int cas = p->e - elements < CAS_ELEMENTS;
    for (int i = below(6); i >= 0; i--) {
        Step *s = add(OP_ACC + below(cas ? 4 : 3), p->owner, target, p);
        s->op = s->call == OP_CAS ? REPLACE : op_random(&run.random, p->e, 0);
        if (s->call == OP_ACC && s->op == NO_OP)
            s->op = REPLACE;
        choose_range(s);
        s->flush = run.passive && below(8) == 0 ? 1 + below(4) : 0;
    }
}

static void plan_common(const Part *p, int target)
{
    for (int origin = 0; origin < test_size; origin++)
        for (int i = below(3); i > 0; i--) {
            Step *s = add(OP_ACC + below(3), origin, target, p);
            s->op = s->call != OP_ACC && below(4) == 0 ? NO_OP : p->op;
            choose_range(s);
        }
}

static void plan(void)
{
    run.step_count = 0;
    for (int t = 0; t < test_size; t++) {
        memset(run.touched[t], 0, (size_t)test_size);
        divide(t);
        for (int k = 0; k < run.part_count[t]; k++) {
            const Part *p = &run.parts[t][k];
            if (p->use == READ)
                plan_reads(p, t);
            else if (p->use == PUT)
                plan_puts(p, t);
            else if (p->use == ORDERED)
                plan_ordered(p, t);
            else if (p->use == COMMON)
                plan_common(p, t);
        }
    }
}

/* The targets store to some of their own parts, to all whose old bits an operator would not treat
 * exactly among them. */
static void store_locally(void)
{
    int lock = run.locks;
    if (lock)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, run.w.win);
    for (int t = 0; t < test_size; t++)
        for (int k = 0; k < run.part_count[t]; k++) {
            const Part *p = &run.parts[t][k];
            uint64_t seed = rma_next(&run.random);
            if (any_bits(p->e) && below(LOCAL))
                continue;
            fill(p->e, run.model[t] + p->at, p->bytes / p->e->size, seed);
            if (t == test_rank)
                fill(p->e, run.w.base + p->at, p->bytes / p->e->size, seed);
        }
    if (lock)
        MPI_Win_unlock(test_rank, run.w.win);
}

/* What the step does to the model, and what this rank will give to it and must get from it. */
static void foresee(Step *s)
{
    size_t bytes = (size_t)(s->n * s->e->size);
    unsigned char *at = run.model[s->target] + s->at, *value = test_alloc(bytes),
                  *compare = test_alloc(bytes);
    int mine = s->origin == test_rank, sets = 1;
    fill(s->e, value, s->n, s->seed);
    memcpy(compare, at, bytes);
    if (s->call == OP_CAS && s->seed % 2) { /* a comparison that fails */
        compare[0] ^= 1;
        sets = 0;
    }
    if (mine && s->call != OP_PUT && s->call != OP_ACC) {
        s->result = test_alloc(bytes);
        memset(s->result, GUARD, bytes);
        s->expected = test_alloc(bytes);
        memcpy(s->expected, at, bytes);
    }
    if (s->call == OP_PUT)
        memcpy(at, value, bytes);
    else if (s->call != OP_GET && sets)
        apply(s->e, s->op, at, value, s->n);
    s->value = mine ? value : NULL;
    s->compare = mine ? compare : NULL;
    if (!mine)
        free(value), free(compare);
}

static void flush(int kind, int target)
{
    /* 1 and 2 complete at the target; after 3 and 4 the order of accumulates must do. */
    if (kind == 1)
        MPI_Win_flush(target, run.w.win);
    else if (kind == 2)
        MPI_Win_flush_all(run.w.win);
    else if (kind == 3)
        MPI_Win_flush_local(target, run.w.win);
    else if (kind == 4)
        MPI_Win_flush_local_all(run.w.win);
}

static void perform_by_request(Step *s)
{
    MPI_Aint disp = rma_disp(&run.w, s->target, s->at);
    MPI_Datatype t = s->e->type;
    MPI_Win win = run.w.win;
    MPI_Request *r = &run.requests[run.request_count++];
    if (s->call == OP_PUT)
        MPI_Rput(s->value, s->n, t, s->target, disp, s->n, t, win, r);
    else if (s->call == OP_GET)
        MPI_Rget(s->result, s->n, t, s->target, disp, s->n, t, win, r);
    else if (s->call == OP_ACC)
        MPI_Raccumulate(s->value, s->n, t, s->target, disp, s->n, t, op_handle(s->op), win, r);
    else
        MPI_Rget_accumulate(s->value, s->n, t, s->result, s->n, t, s->target, disp, s->n, t,
                            op_handle(s->op), win, r);
    if (s->seed % 3 == 0) { /* most have their result at the end of the epoch, some at once */
        MPI_Wait(r, MPI_STATUS_IGNORE);
        run.request_count--;
        if (s->result)
            CHECK(!memcmp(s->result, s->expected, (size_t)(s->n * s->e->size)) ||
                      s->part->use == COMMON,
                  "round %d phase %d: the result of a completed %s by request is not there",
                  run.round, run.phase, calls[s->call]);
    }
}

static void perform(Step *s)
{
    MPI_Aint disp = rma_disp(&run.w, s->target, s->at);
    MPI_Datatype t = s->e->type;
    MPI_Win win = run.w.win;
    flush(s->flush, s->target);
    if (s->request)
        perform_by_request(s);
    else if (s->call == OP_PUT)
        MPI_Put(s->value, s->n, t, s->target, disp, s->n, t, win);
    else if (s->call == OP_GET)
        MPI_Get(s->result, s->n, t, s->target, disp, s->n, t, win);
    else if (s->call == OP_ACC)
        MPI_Accumulate(s->value, s->n, t, s->target, disp, s->n, t, op_handle(s->op), win);
    else if (s->call == OP_GET_ACC)
        MPI_Get_accumulate(s->value, s->n, t, s->result, s->n, t, s->target, disp, s->n, t,
                           op_handle(s->op), win);
    else if (s->call == OP_FETCH)
        MPI_Fetch_and_op(s->value, s->result, t, s->target, disp, op_handle(s->op), win);
    else
        MPI_Compare_and_swap(s->value, s->compare, s->result, t, s->target, disp, win);
}

/* All steps of this rank, or those to one target. */
static void perform_all(int target)
{
    for (int i = 0; i < run.step_count; i++)
        if (run.steps[i].origin == test_rank && (target < 0 || run.steps[i].target == target))
            perform(&run.steps[i]);
}

static void complete_requests(void)
{
    MPI_Waitall(run.request_count, run.requests, MPI_STATUSES_IGNORE);
    run.request_count = 0;
}

static int is_updated(int target)
{
    for (int k = 0; k < run.part_count[target]; k++)
        if (run.parts[target][k].use > READ)
            return 1;
    return 0;
}

static void by_fence(void)
{
    int noput = below(2) && !is_updated(test_rank) ? MPI_MODE_NOPUT : 0;
    MPI_Win_fence((below(2) ? MPI_MODE_NOPRECEDE : 0) | noput, run.w.win);
    perform_all(-1);
    MPI_Win_fence((below(2) ? MPI_MODE_NOSUCCEED : 0) | (below(2) ? MPI_MODE_NOSTORE : 0),
                  run.w.win);
}

/* The group of the ranks of `has`, in an order that differs from theirs. */
static MPI_Group group_of(const unsigned char *has, int stride)
{
    MPI_Group world, group;
    int *ranks = test_alloc((size_t)test_size * sizeof *ranks), n = 0;
    for (int r = test_size - 1; r >= 0; r--)
        if (has[r * stride])
            ranks[n++] = r;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, n, ranks, &group);
    MPI_Group_free(&world);
    free(ranks);
    return group;
}

static void by_pscw(void)
{
    int check = below(2), by_test = below(2), done = 0;
    MPI_Group origins, targets;
    for (int t = 0; t < test_size; t++) /* some expose and access for nothing */
        for (int o = 0; o < test_size; o++)
            run.touched[t][o] |= below(6) == 0;
    origins = group_of(run.touched[test_rank], 1);
    targets = group_of(run.touched[0] + test_rank, test_size);
    MPI_Win_post(origins, (check ? 0 : MPI_MODE_NOCHECK) | (below(2) ? MPI_MODE_NOSTORE : 0),
                 run.w.win);
    if (!check)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_start(targets, check ? 0 : MPI_MODE_NOCHECK, run.w.win);
    MPI_Group_free(&targets);
    MPI_Group_free(&origins);
    perform_all(-1);
    MPI_Win_complete(run.w.win);
    while (by_test && !done)
        MPI_Win_test(run.w.win, &done);
    if (!by_test)
        MPI_Win_wait(run.w.win);
}

static void by_lock(void)
{
    for (int i = 0; i < test_size; i++) {
        int target = (test_rank + i) % test_size;
        int type = rma_seed(run.random, (uint64_t)(test_rank * test_size + i)) % 2
                       ? MPI_LOCK_SHARED
                       : MPI_LOCK_EXCLUSIVE;
        MPI_Win_lock(type, target, 0, run.w.win);
        perform_all(target);
        if (i % 2)
            complete_requests();
        MPI_Win_unlock(target, run.w.win);
    }
    complete_requests();
}

static void by_shared_locks(void)
{
    int assertion = below(2) && run.nocheck ? MPI_MODE_NOCHECK : 0;
    for (int t = 0; t < test_size; t++)
        MPI_Win_lock(MPI_LOCK_SHARED, t, assertion, run.w.win);
    perform_all(-1);
    complete_requests();
    for (int i = 0; i < test_size; i++)
        MPI_Win_unlock((test_rank + i) % test_size, run.w.win);
}

static void by_lock_all(void)
{
    MPI_Win_lock_all(below(2) && run.nocheck ? MPI_MODE_NOCHECK : 0, run.w.win);
    perform_all(-1);
    if (below(2))
        complete_requests();
    flush(below(5), test_rank);
    MPI_Win_unlock_all(run.w.win);
    complete_requests();
}

static void check_results(void)
{
    for (int i = 0; i < run.step_count; i++) {
        Step *s = &run.steps[i];
        if (s->result && s->part->use != COMMON)
            for (int b = 0; b < s->n * s->e->size; b++)
                if (s->result[b] != s->expected[b]) {
                    CHECK(0,
                          "round %d phase %d (%s, %s): %s%s of %d x %s (%s) at byte %d of rank %d, "
                          "a part in use '%s': byte %d of the result is 0x%02x, expected 0x%02x",
                          run.round, run.phase, rma_kinds[run.w.kind], syncs[run.sync],
                          calls[s->call], s->request ? " by request" : "", s->n, s->e->name,
                          op_names[s->op], s->at, s->target, uses[s->part->use], b, s->result[b],
                          s->expected[b]);
                    break;
                }
        free(s->value), free(s->compare), free(s->result), free(s->expected);
    }
}

static const Part *part_at(int byte)
{
    for (int k = 0; k < run.part_count[test_rank]; k++) {
        const Part *p = &run.parts[test_rank][k];
        if (byte >= p->at && byte < p->at + p->bytes)
            return p;
    }
    return NULL;
}

static void check_memory(void)
{
    if (run.locks)
        MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, run.w.win);
    for (int b = 0; b < run.window_bytes; b++)
        if (run.w.base[b] != run.model[test_rank][b]) {
            const Part *p = part_at(b);
            CHECK(0,
                  "round %d phase %d (%s, %s): byte %d of the window is 0x%02x, expected 0x%02x; "
                  "it is byte %d of a part of %d bytes in use '%s' by rank %d as %s (%s)",
                  run.round, run.phase, rma_kinds[run.w.kind], syncs[run.sync], b, run.w.base[b],
                  run.model[test_rank][b], p ? b - p->at : -1, p ? p->bytes : 0,
                  p ? uses[p->use] : "none", p ? p->owner : -1, p ? p->e->name : "-",
                  p ? op_names[p->op] : "-");
            break;
        }
    if (run.locks)
        MPI_Win_unlock(test_rank, run.w.win);
}

static void phase(void)
{
    static void (*const run_by[SYNCS])(void) = {by_fence, by_pscw, by_lock, by_shared_locks,
                                                by_lock_all};
    run.sync = (Sync)below(run.locks ? SYNCS : BY_LOCK);
    run.passive = run.sync >= BY_LOCK;
    plan();
    run.requests = test_alloc(((size_t)run.step_count + 1) * sizeof *run.requests);
    run.request_count = 0;
    store_locally();
    for (int i = 0; i < run.step_count; i++)
        foresee(&run.steps[i]);
    if (run.passive)
        MPI_Barrier(MPI_COMM_WORLD); /* the targets have stored */
    run_by[run.sync]();
    if (run.passive)
        MPI_Barrier(MPI_COMM_WORLD); /* the origins have ended their epochs */
    check_results();
    check_memory();
    free(run.requests);
    MPI_Barrier(MPI_COMM_WORLD); /* no rank reads this phase's random order any more */
}

static void one_round(RmaKind kind)
{
    uint64_t first = rma_next(&run.random);
    int unit = 1;
    for (int r = 0; r <= test_rank; r++)
        unit = (int[]){1, 4, 8}[rma_seed(first, (uint64_t)r) % 3];
    run.window_bytes = 16 * (20 + below(1500));
    run.locks = below(5) != 0;
    MPI_Info info = run.locks ? MPI_INFO_NULL : rma_info("no_locks", "true");
    rma_open(&run.w, kind, run.window_bytes, unit, info);
    if (!run.locks)
        MPI_Info_free(&info);
    for (int r = 0; r < test_size; r++)
        test_fill(run.model[r], (size_t)run.window_bytes, first + (uint64_t)r);
    memcpy(run.w.base, run.model[test_rank], (size_t)run.window_bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (run.phase = 0; run.phase < PHASES; run.phase++)
        phase();
    rma_close(&run.w);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 8, least = argc > 3 ? atoi(argv[3]) : 0;
    int kinds = (argc > 4 ? atoi(argv[4]) : RMA_KINDS - 1) - least + 1;
    run.nocheck = argc > 5 && !strcmp(argv[5], "nocheck");
    test_init(&argc, &argv);
    elements_make();
    run.random = rma_seed(argc > 2 ? (uint64_t)atoll(argv[2]) : 1, 12);
    int one_node = rma_one_node();
    size_t n = (size_t)test_size;
    run.model = test_alloc(n * sizeof *run.model);
    run.parts = test_alloc(n * sizeof *run.parts);
    run.part_count = test_alloc(n * sizeof *run.part_count);
    run.touched = test_alloc(n * sizeof *run.touched);
    run.touched[0] = test_alloc(n * n); /* one block: rows by target, columns by origin */
    for (int r = 0; r < test_size; r++) {
        run.model[r] = test_alloc(16 * 1520);
        run.touched[r] = run.touched[0] + (size_t)r * n;
    }
    for (run.round = 0; run.round < rounds; run.round++) {
        RmaKind kind = (RmaKind)(least + run.round % kinds);
        one_round(kind == RMA_SHARED && !one_node ? RMA_ALLOCATE : kind);
    }
    for (int r = 0; r < test_size; r++)
        free(run.model[r]);
    free(run.touched[0]);
    free(run.touched), free(run.part_count), free(run.parts), free(run.model), free(run.steps);
    return test_finish();
}
