/* Windows that are freed as soon as MPI allows it: after the epoch, with requests that the program
 * completes later, while other ranks are late, several at a time (MPI 5.0, 12.2.5 and 12.3.5).
 *
 * argv: rounds. */
#include "rma.h"

#include <unistd.h>

enum { WINDOWS = 3, BYTES = 48 << 10, BLOCK = BYTES / 3, REQUESTS = 3 };

/* A window, and what this rank has under way in it: to each rank a put of the first third of its
 * memory, a get of the second, and a sum into the third. */
typedef struct {
    RmaWindow w;
    unsigned char *out, *in;
    MPI_Request *requests;
} Use;

static uint64_t seed_of(const Use *u, int owner)
{
    return (uint64_t)(1000 * u->w.kind + owner + 1);
}

static void open_window(Use *u, RmaKind kind)
{
    rma_open(&u->w, kind, BYTES, 1, MPI_INFO_NULL);
    u->out = test_alloc(BLOCK);
    u->in = test_alloc((size_t)test_size * BLOCK);
    u->requests = test_alloc((size_t)(REQUESTS * test_size) * sizeof *u->requests);
    memset(u->out, 1, BLOCK);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, u->w.win);
    memset(u->w.base, 0, BYTES);
    test_fill(u->w.base + BLOCK, BLOCK, seed_of(u, test_rank));
    MPI_Win_unlock(test_rank, u->w.win);
}

static void operate(Use *u)
{
    MPI_Win win = u->w.win;
    MPI_Request *next = u->requests;
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < test_size; i++) {
        int to = (test_rank + i) % test_size, n = BLOCK;
        MPI_Rput(u->out, n, MPI_BYTE, to, rma_disp(&u->w, to, 0), n, MPI_BYTE, win, next++);
        MPI_Rget(u->in + (size_t)to * BLOCK, n, MPI_BYTE, to, rma_disp(&u->w, to, BLOCK), n,
                 MPI_BYTE, win, next++);
        MPI_Raccumulate(u->out, n, MPI_INT8_T, to, rma_disp(&u->w, to, 2 * BLOCK), n, MPI_INT8_T,
                        MPI_SUM, win, next++);
    }
    MPI_Win_unlock_all(win);
}

/* What the window's memory holds when all ranks have operated; a window that the library has
 * allocated is gone with MPI_Win_free. */
static void check_memory(const Use *u)
{
    const unsigned char *memory = u->w.base;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, u->w.win);
    CHECK(test_all(memory, BLOCK, 1) == BLOCK, "%s: wrong bytes were put", rma_kinds[u->w.kind]);
    CHECK(test_all(memory + 2 * BLOCK, BLOCK, (unsigned char)test_size) == BLOCK,
          "%s: the sums are wrong", rma_kinds[u->w.kind]);
    MPI_Win_unlock(test_rank, u->w.win);
}

static void finish(Use *u)
{
    MPI_Waitall(REQUESTS * test_size, u->requests, MPI_STATUSES_IGNORE);
    for (int from = 0; from < test_size; from++)
        CHECK(test_verify(u->in + (size_t)from * BLOCK, BLOCK, seed_of(u, from)) == BLOCK,
              "%s: wrong bytes were got from rank %d", rma_kinds[u->w.kind], from);
    free(u->out);
    free(u->in);
    free(u->requests);
}

static void free_with_requests(RmaKind kind, int round)
{
    Use uses[WINDOWS];
    for (int i = 0; i < WINDOWS; i++)
        open_window(&uses[i], kind);
    MPI_Barrier(MPI_COMM_WORLD);
    if (test_rank == round % test_size)
        usleep(2000); /* its peers are inside of MPI_Win_free, or their requests wait for it */
    for (int i = 0; i < WINDOWS; i++)
        operate(&uses[i]);
    if (round % 2)
        check_memory(&uses[round % WINDOWS]);
    for (int i = 0; i < WINDOWS; i++)
        rma_close(&uses[(round + i) % WINDOWS].w);
    for (int i = 0; i < WINDOWS; i++)
        finish(&uses[i]);
}

/* The last epoch is a fence's, or that of post and start; the program makes no other call. */
static void free_after_an_epoch(RmaKind kind, int round)
{
    RmaWindow w;
    MPI_Group all;
    unsigned char own = (unsigned char)(test_rank + 1);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    rma_open(&w, kind, 2 * test_size, 1, MPI_INFO_NULL);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win);
    for (int to = 0; to < test_size; to++)
        MPI_Put(&own, 1, MPI_BYTE, to, rma_disp(&w, to, test_rank), 1, MPI_BYTE, w.win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win);
    for (int from = 0; from < test_size; from++)
        CHECK_INT(w.base[from], from + 1, "value put before the last fence");
    if (round % 2) {
        MPI_Win_post(all, 0, w.win);
        MPI_Win_start(all, 0, w.win);
        for (int to = 0; to < test_size; to++)
            MPI_Put(&own, 1, MPI_BYTE, to, rma_disp(&w, to, test_size + test_rank), 1, MPI_BYTE,
                    w.win);
        MPI_Win_complete(w.win);
        MPI_Win_wait(w.win);
        for (int from = 0; from < test_size; from++)
            CHECK_INT(w.base[test_size + from], from + 1, "value put before MPI_Win_complete");
    }
    MPI_Group_free(&all);
    rma_close(&w);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 4, one_node = rma_one_node();
    for (int kind = 0; kind < RMA_KINDS; kind++)
        for (int round = 0; round < rounds; round++) {
            if (kind == RMA_SHARED && !one_node)
                continue;
            free_with_requests((RmaKind)kind, round);
            free_after_an_epoch((RmaKind)kind, round);
        }
    return test_finish();
}
