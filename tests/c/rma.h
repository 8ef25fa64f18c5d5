/* Shared by the programs about one-sided communication (MPI 5.0, chapter 12): windows of every
 * kind behind one face, random numbers, info objects. */
#ifndef RMA_H
#define RMA_H
#include "test.h"

typedef enum { RMA_CREATE, RMA_ALLOCATE, RMA_SHARED, RMA_DYNAMIC, RMA_KINDS } RmaKind;

static TEST_UNUSED const char *const rma_kinds[] = {"create", "allocate", "allocate_shared",
                                                    "dynamic"};

typedef struct {
    RmaKind kind;
    MPI_Win win;
    unsigned char *base; /* this rank's memory, 8-byte aligned */
    MPI_Aint bytes;
    MPI_Aint *bases; /* of all ranks: displacements in a dynamic window are addresses */
    int *units;      /* of all ranks */
} RmaWindow;

/* xorshift64*: the same sequence on all ranks for the same seed, which is not 0. */
static TEST_UNUSED uint64_t rma_next(uint64_t *random)
{
    *random ^= *random >> 12;
    *random ^= *random << 25;
    *random ^= *random >> 27;
    return *random * 0x2545f4914f6cdd1du;
}

static TEST_UNUSED int rma_below(uint64_t *random, int n)
{
    return (int)(rma_next(random) >> 33) % n;
}

static TEST_UNUSED uint64_t rma_seed(uint64_t a, uint64_t b)
{
    uint64_t random = (a + 1) * 0x9e3779b97f4a7c15u ^ (b + 1) * 0xbf58476d1ce4e5b9u;
    random = random ? random : 1;
    rma_next(&random);
    rma_next(&random);
    return random ? random : 1;
}

/* Whether all ranks of the job share memory; collective. */
static TEST_UNUSED int rma_one_node(void)
{
    MPI_Comm node;
    int size;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &size);
    MPI_Comm_free(&node);
    return size == test_size;
}

static TEST_UNUSED MPI_Info rma_info(const char *key, const char *value)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    return info;
}

/* A window over MPI_COMM_WORLD with `bytes` on this rank and displacement unit `unit`, which is 1
 * in a dynamic window whatever is asked for. `info` may be MPI_INFO_NULL. */
static TEST_UNUSED void rma_open(RmaWindow *w, RmaKind kind, MPI_Aint bytes, int unit,
                                 MPI_Info info)
{
    MPI_Aint address;
    w->kind = kind;
    w->bytes = bytes;
    w->base = NULL;
    if (kind == RMA_CREATE || kind == RMA_DYNAMIC)
        w->base = test_alloc((size_t)bytes);
    if (kind == RMA_CREATE) {
        MPI_Win_create(w->base, bytes, unit, info, MPI_COMM_WORLD, &w->win);
    } else if (kind == RMA_ALLOCATE) {
        MPI_Win_allocate(bytes, unit, info, MPI_COMM_WORLD, &w->base, &w->win);
    } else if (kind == RMA_SHARED) {
        MPI_Win_allocate_shared(bytes, unit, info, MPI_COMM_WORLD, &w->base, &w->win);
    } else {
        MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &w->win);
        if (bytes > 0)
            MPI_Win_attach(w->win, w->base, bytes);
        unit = 1;
    }
    w->bases = test_alloc((size_t)test_size * sizeof *w->bases);
    w->units = test_alloc((size_t)test_size * sizeof *w->units);
    MPI_Get_address(w->base, &address);
    MPI_Allgather(&address, 1, MPI_AINT, w->bases, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Allgather(&unit, 1, MPI_INT, w->units, 1, MPI_INT, MPI_COMM_WORLD);
}

/* The displacement of byte `byte`, a multiple of the target's unit. */
static TEST_UNUSED MPI_Aint rma_disp(const RmaWindow *w, int target, MPI_Aint byte)
{
    if (w->kind == RMA_DYNAMIC)
        return MPI_Aint_add(w->bases[target], byte);
    return byte / w->units[target];
}

static TEST_UNUSED void rma_close(RmaWindow *w)
{
    if (w->kind == RMA_DYNAMIC) {
        MPI_Barrier(MPI_COMM_WORLD); /* all accesses are over */
        if (w->bytes > 0)
            MPI_Win_detach(w->win, w->base);
    }
    MPI_Win_free(&w->win);
    CHECK(w->win == MPI_WIN_NULL, "MPI_Win_free of a window (%s) leaves the handle",
          rma_kinds[w->kind]);
    if (w->kind == RMA_CREATE || w->kind == RMA_DYNAMIC)
        free(w->base);
    free(w->bases);
    free(w->units);
}

/* All stores of this rank become visible, and those of others before the barrier, in a shared
 * window that is locked by MPI_Win_lock_all (MPI 5.0, 12.7, example with MPI_Win_sync). */
static TEST_UNUSED void rma_sync_barrier(MPI_Win win)
{
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
}

#endif
