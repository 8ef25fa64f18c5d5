/* Calls that do not match: no rank hangs or writes beyond a buffer, and a rank that gets more than
 * it has room for says so.
 *   truncate SIZES   one rank has half of the room that Bcast, Scatter or Gather need: MPI_ERR_TRUNCATE there, and
 *                    the communicators of others still work. SIZES is small, or large for those of several cells too
 *   KIND KIND [N]    rank 0 makes the first collective, the others make the second: the job ends with an error. A KIND
 *                    that begins with i is non-blocking, one that ends with _init is persistent
 *   roots KIND [N]   rank 0 takes rank 1 for the root, the others take rank 0: the same
 *   ownroots KIND [N]   each takes itself for the root: the same, in the next collective at the latest
 *   nextroots KIND [N]  each takes the next one: the same
 *   halfroots KIND [N]  each half of the ranks takes its first for the root: the same
 *   finalize KIND [N]   rank 0 calls MPI_Finalize, the others make the collective: the same
 *   lengths KIND [N] rank 0 takes part with three times as much as the others: the same */
#include "collectives.h"

enum { PAST = 256, MARK = 0x3d };

/* A buffer of `bytes`, and bytes behind it that no call may write. */
static unsigned char *guarded(size_t bytes, unsigned value)
{
    unsigned char *b = test_alloc(bytes + PAST);
    memset(b, (int)value, bytes);
    memset(b + bytes, MARK, PAST);
    return b;
}

static void unguard(unsigned char *b, size_t bytes, const char *what)
{
    CHECK(test_all(b + bytes, PAST, MARK) == PAST, "%s wrote behind a buffer of %zu bytes", what, bytes);
    free(b);
}

static int outcome(int code, const char *what, int cut)
{
    if (cut)
        CHECK_CLASS(code, MPI_ERR_TRUNCATE, what);
    return code;
}

/* Every rank but the one whose buffer is short may get an error or not; it returns. */
static void truncated(int kind, size_t n, int root, int victim)
{
    size_t p = (size_t)test_size;
    int is_root = test_rank == root, cut = test_rank == victim;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    size_t room = cut ? n / 2 : n, many = is_root ? p * room : 0;
    unsigned char *one = guarded(room, (unsigned)test_rank), *all = guarded(many, 7);
    switch (kind) {
    case BCAST:
        outcome(MPI_Bcast(one, (int)room, MPI_BYTE, root, comm), "Bcast into a short buffer", cut);
        break;
    case SCATTER: /* the root sends n to each */
        outcome(MPI_Scatter(all, (int)n, MPI_BYTE, one, (int)room, MPI_BYTE, root, comm), "Scatter into a short buffer",
                cut);
        break;
    default: /* the root has too little room for what each has */
        outcome(MPI_Gather(one, (int)(is_root ? room : n), MPI_BYTE, all, (int)room, MPI_BYTE, root, comm),
                "Gather into a short buffer", cut);
    }
    unguard(one, room, coll_names[kind]);
    unguard(all, many, coll_names[kind]);
    MPI_Comm_free(&comm);
    int sum = 0;
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_INT(sum, test_size, "an allreduce on another communicator after the error");
}

static void truncate_all(int large)
{
    static const size_t sizes[] = {4, 40, 100, 1000, 6000, 30000, 200000, 3000000};
    test_needs(2);
    for (size_t i = 0; i < (large ? 8 : 4); i++)
        for (int root = 0; root < test_size; root += test_size > 4 ? 3 : 1) {
            truncated(BCAST, sizes[i], root, (root + 1) % test_size);
            truncated(SCATTER, sizes[i], root, (root + 1) % test_size);
            truncated(GATHER, sizes[i], root, root);
        }
}

static int named(const char *name, int *form)
{
    char text[64];
    for (int kind = 0; kind < COLL_KINDS; kind++)
        for (*form = BLOCKING; *form <= PERSISTENT; ++*form) {
            snprintf(text, sizeof text, "%s%s%s", *form == NONBLOCKING ? "i" : "", coll_names[kind],
                     *form == PERSISTENT ? "_init" : "");
            if (!strcmp(name, text))
                return kind;
        }
    fprintf(stderr, "err_match: there is no '%s'\n", name);
    MPI_Abort(MPI_COMM_WORLD, 64);
    return 0;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    if (argc < 3)
        MPI_Abort(MPI_COMM_WORLD, 64);
    if (!strcmp(argv[1], "truncate")) {
        truncate_all(!strcmp(argv[2], "large"));
        return test_finish();
    }
    coll_init();
    int n = argc > 3 ? atoi(argv[3]) : 4, root = 0, kind, form;
    if (!strcmp(argv[1], "roots")) {
        kind = named(argv[2], &form);
        root = !test_rank;
    } else if (!strcmp(argv[1], "ownroots")) {
        kind = named(argv[2], &form);
        root = test_rank;
    } else if (!strcmp(argv[1], "nextroots")) {
        kind = named(argv[2], &form);
        root = (test_rank + 1) % test_size;
    } else if (!strcmp(argv[1], "halfroots")) {
        kind = named(argv[2], &form);
        root = test_rank < test_size / 2 ? 0 : test_size / 2;
    } else if (!strcmp(argv[1], "finalize")) {
        kind = named(argv[2], &form);
        if (!test_rank)
            return MPI_Finalize();
    } else if (!strcmp(argv[1], "lengths")) {
        kind = named(argv[2], &form);
        n *= test_rank ? 1 : 3;
    } else
        kind = named(argv[test_rank ? 2 : 1], &form);
    Coll c;
    coll_make(&c, kind, n, root, 1, 0, 0, MPI_COMM_WORLD);
    coll_fill(&c, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    coll_call(&c, form, &request);
    if (form == PERSISTENT)
        MPI_Start(&request);
    if (form != BLOCKING)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* A rank may be through before another notices. */
    MPI_Barrier(MPI_COMM_WORLD);
    coll_drop(&c);
    coll_end();
    return test_finish();
}
