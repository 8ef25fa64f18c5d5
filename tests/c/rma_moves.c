/* Memory of the program in a window, created or attached, is migrated while it is in use: when
 * origins have used it often, their target moves it in whatever call makes progress. No store of
 * any rank is lost on the way, nor read late, whether it comes from its owner or from the others.
 *
 * Argument `moved`: all of the memory is migrated here, after which operations are loads and
 * stores. */
#include "rma.h"
#include <unistd.h>

enum { WINDOWS = 24, OPERATIONS = 400, COUNTER = 0, SUM = 1, OWN = 2, FIRST = 3 };

static const int sizes[] = {4000, 256, 70000, 8192};

typedef struct {
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
} Count;

/* Counts from now on what `name` counts of this rank. */
static Count begin(const char *name)
{
    Count count;
    int index, values;
    CHECK_INT(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index), MPI_SUCCESS, name);
    MPI_T_pvar_session_create(&count.session);
    CHECK_INT(MPI_T_pvar_handle_alloc(count.session, index, NULL, &count.handle, &values), MPI_SUCCESS, name);
    MPI_T_pvar_start(count.session, count.handle);
    return count;
}

static unsigned long long counted(Count count)
{
    unsigned long long value = 0;
    MPI_T_pvar_read(count.session, count.handle, &value);
    return value;
}

static unsigned long long end(Count count)
{
    unsigned long long value = counted(count);
    MPI_T_pvar_handle_free(count.session, &count.handle);
    MPI_T_pvar_session_free(&count.session);
    return value;
}

/* The owner of the memory stores to a word of its own, beside those of the others. */
static void own(volatile int64_t *memory)
{
    int done = 0, others = test_size - 1;
    for (int64_t k = 1; others > 0; k++) {
        memory[OWN] = k;
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
        CHECK(memory[OWN] == k, "the owner's store %lld is gone: %lld", (long long)k, (long long)memory[OWN]);
        if (done) {
            MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            others--;
        }
    }
}

static void use(MPI_Win win, MPI_Aint base, int unit, int last)
{
    int64_t one = 1, old, seen = 0;
    MPI_Aint word[] = {base + COUNTER * unit, base + SUM * unit, base + (FIRST + test_rank) * unit, base + last * unit};
    for (int64_t k = 1; k <= OPERATIONS; k++) {
        MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, word[0], MPI_SUM, win);
        MPI_Put(&k, 1, MPI_INT64_T, 0, word[2], 1, MPI_INT64_T, win);
        MPI_Accumulate(&k, 1, MPI_INT64_T, 0, word[1], 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_flush(0, win);
        MPI_Get(&seen, 1, MPI_INT64_T, 0, word[2], 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        CHECK(seen == k, "a get sees %lld after a put of %lld", (long long)seen, (long long)k);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, word[3], 1, MPI_INT64_T, MPI_SUM, win);
    }
    MPI_Win_flush(0, win);
}

/* Reads the memory until that is a load: the owner, which waits for this rank's message, moves it
 * before long, however seldom it has a core. Returns the number of reads. */
static int read_until_moved(MPI_Win win, MPI_Aint base, Count by_memory)
{
    int64_t seen;
    int reads = 0;
    for (; counted(by_memory) == 0; reads++) {
        MPI_Get(&seen, 1, MPI_INT64_T, 0, base, 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
    }
    return reads;
}

static unsigned long long all_by_kernel;

static void round_of(int number, int is_dynamic, int must_move)
{
    int bytes = sizes[number % 4], last = bytes / 8 - 1, unit = is_dynamic ? 8 : 1;
    int reads = 0;
    int64_t *memory = malloc(bytes);
    MPI_Aint base = 0;
    MPI_Win win;
    Count by_kernel = {0}, by_memory = {0};
    if (must_move) {
        by_kernel = begin("mica_window_kernel_operations");
        by_memory = begin("mica_window_memory_operations");
    }
    memset(memory, 0, bytes);
    if (is_dynamic) {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        CHECK_INT(MPI_Win_attach(win, memory, bytes), MPI_SUCCESS, "MPI_Win_attach");
        MPI_Get_address(memory, &base);
        MPI_Bcast(&base, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    } else {
        MPI_Win_create(memory, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    if (test_rank == 0) {
        own(memory);
    } else {
        use(win, base, unit, last);
        if (must_move)
            reads = read_until_moved(win, base, by_memory);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (test_rank == 0) {
        int64_t others = test_size - 1, each = OPERATIONS;
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        CHECK_INT(memory[COUNTER], others * each, "fetch_and_op");
        CHECK_INT(memory[SUM], others * each * (each + 1) / 2, "a sum");
        CHECK_INT(memory[last], others * each, "a sum at the end");
        for (int rank = 1; rank < test_size; rank++)
            CHECK_INT(memory[FIRST + rank], each, "the last put");
        MPI_Win_unlock(0, win);
    } else if (must_move) {
        unsigned long long kernel = end(by_kernel), stores = end(by_memory);
        CHECK_INT(kernel + stores, 5 * OPERATIONS + reads, "operations that the window has counted");
        all_by_kernel += kernel;
    }
    if (is_dynamic)
        MPI_Win_detach(win, memory);
    /* Not freed: the next round is to have memory that has not been migrated. */
    MPI_Win_free(&win);
}

/* The owner is asked when it frees the window already: what it announces then is not taken for the
 * place of the next window's memory. */
static void late_requests(void)
{
    enum { ROUNDS = 100, PUTS = 9, BYTES = 9000 };
    int owner = test_size - 1;
    for (int n = 0; n < ROUNDS; n++) {
        int64_t *memory = calloc(1, BYTES), value = n * PUTS;
        MPI_Win win;
        MPI_Win_create(memory, BYTES, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_lock_all(0, win);
        if (test_rank == 0)
            usleep(200); /* the others wait in MPI_Win_free by then */
        for (int i = 0; i < PUTS && test_rank == 0; i++, value++)
            MPI_Put(&value, 1, MPI_INT64_T, owner, 0, 1, MPI_INT64_T, win);
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
        CHECK(test_rank != owner || memory[0] == n * PUTS + PUTS - 1, "window %d has %lld", n, (long long)memory[0]);
        /* Not freed, so that the next has another address. */
    }
}

int main(int argc, char **argv)
{
    int provided;
    test_init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    for (int number = 0; number < WINDOWS; number++) {
        round_of(number, 0, argc > 1);
        round_of(number, 1, argc > 1);
    }
    late_requests();
    MPI_Allreduce(MPI_IN_PLACE, &all_by_kernel, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(argc == 1 || all_by_kernel > 0, "no window has been used before it was moved");
    MPI_T_finalize();
    return test_finish();
}
