/* Shared by the kernels on a grid (heat, cg): a cube of `side` points in 2 or 3 dimensions, cut
 * into one block a rank by MPI_Dims_create and MPI_Cart_create, with a layer of halo around each
 * block. Outside of the cube everything is zero (Dirichlet): such halos are never written.
 *
 * Blocks are stored with the last dimension contiguous. A face is described by a datatype
 * (MPI_Type_create_subarray), so nothing is packed by hand. The time inside of MPI is counted by
 * call, as calls.h says. */
#ifndef BENCH_HALO_H
#define BENCH_HALO_H
#include "calls.h"

enum { IRECV, ISEND, WAITALL, ALLREDUCE, GRID_CALLS };
static const char *const grid_calls[GRID_CALLS] = {"Irecv", "Isend", "Waitall", "Allreduce"};

enum { MOST_DIMS = 3, MOST_FACES = 2 * MOST_DIMS };

typedef struct {
    MPI_Comm comm;
    int dims, side, ranks, rank;
    int start[MOST_DIMS], count[MOST_DIMS]; /* this rank's points, without halo */
    int stored[MOST_DIMS];                  /* with halo: count + 2 */
    size_t room;                            /* numbers stored in all */
    int peers[MOST_FACES];                  /* face 2 d is below in dimension d, 2 d + 1 above */
    MPI_Datatype inner[MOST_FACES], outer[MOST_FACES]; /* a face's own points; its halo */
} Grid;

/* The datatype of the layer at `at` in dimension `across`, without the halo of the others. */
static inline MPI_Datatype grid_layer(const Grid *g, int across, int at)
{
    int sizes[MOST_DIMS], starts[MOST_DIMS];
    MPI_Datatype type;
    for (int d = 0; d < g->dims; d++) {
        sizes[d] = d == across ? 1 : g->count[d];
        starts[d] = d == across ? at : 1;
    }
    MPI_Type_create_subarray(g->dims, g->stored, sizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static inline void grid_make(Grid *g, int dims, int side)
{
    int blocks[MOST_DIMS] = {0}, periods[MOST_DIMS] = {0}, at[MOST_DIMS];
    g->dims = dims;
    g->side = side;
    MPI_Comm_size(MPI_COMM_WORLD, &g->ranks);
    MPI_Dims_create(g->ranks, dims, blocks);
    MPI_Cart_create(MPI_COMM_WORLD, dims, blocks, periods, 1, &g->comm);
    MPI_Comm_rank(g->comm, &g->rank);
    MPI_Cart_coords(g->comm, g->rank, dims, at);
    g->room = 1;
    for (int d = 0; d < dims; d++) {
        g->start[d] = (int)((long)side * at[d] / blocks[d]);
        g->count[d] = (int)((long)side * (at[d] + 1) / blocks[d]) - g->start[d];
        if (side < blocks[d])
            bench_die("%d points cannot be cut into %d blocks", side, blocks[d]);
        g->stored[d] = g->count[d] + 2;
        g->room *= (size_t)g->stored[d];
    }
    for (int d = 0; d < dims; d++) {
        MPI_Cart_shift(g->comm, d, 1, &g->peers[2 * d], &g->peers[2 * d + 1]);
        g->inner[2 * d] = grid_layer(g, d, 1);
        g->outer[2 * d] = grid_layer(g, d, 0);
        g->inner[2 * d + 1] = grid_layer(g, d, g->count[d]);
        g->outer[2 * d + 1] = grid_layer(g, d, g->count[d] + 1);
    }
}

static inline void grid_free(Grid *g)
{
    for (int f = 0; f < 2 * g->dims; f++) {
        MPI_Type_free(&g->inner[f]);
        MPI_Type_free(&g->outer[f]);
    }
    MPI_Comm_free(&g->comm);
}

/* Fills the halo of a block with the neighbours' points. A message's tag is the face that sends. */
static inline void grid_exchange(Grid *g, double *block)
{
    MPI_Request requests[2 * MOST_FACES];
    int faces = 2 * g->dims;
    for (int f = 0; f < faces; f++)
        IN_CALL(IRECV, MPI_Irecv(block, 1, g->outer[f], g->peers[f], f ^ 1, g->comm,
                                 &requests[f]));
    for (int f = 0; f < faces; f++)
        IN_CALL(ISEND, MPI_Isend(block, 1, g->inner[f], g->peers[f], f, g->comm,
                                 &requests[faces + f]));
    IN_CALL(WAITALL, MPI_Waitall(2 * faces, requests, MPI_STATUSES_IGNORE));
}

/* The sum over all ranks. */
static inline double grid_sum(Grid *g, double mine)
{
    double sum = 0;
    IN_CALL(ALLREDUCE, MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, g->comm));
    return sum;
}

#endif
