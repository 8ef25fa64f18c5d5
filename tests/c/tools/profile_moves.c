/* Collectives whose blocks the communication matrix must name: of neighborhoods, persistent ones and
 * reductions (tests/jobs/profile.rs has the numbers). */
#include <mpi.h>
#include <stdlib.h>

enum { MOST = 64 };

static int rank, size, out[MOST], in[MOST * MOST];

/* A line of ranks: 1 int to the one before, 2 to the one after; none at its ends. */
static void line(void) {
    MPI_Comm comm;
    int periods = 0, counts[2] = {1, 2}, from[2] = {2, 1}, places[2] = {0, 2};
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periods, 0, &comm);
    MPI_Neighbor_alltoallv(out, counts, places, MPI_INT, in, from, places, MPI_INT, comm);
    MPI_Comm_free(&comm);
}

/* A ring in one direction: 12 and 8 bytes, and twice 20 by a persistent request. */
static void ring(void) {
    MPI_Comm comm;
    MPI_Request request;
    int next = (rank + 1) % size, last = (rank + size - 1) % size, three = 3, five = 5, zero = 0;
    MPI_Aint begin = 0;
    MPI_Datatype type = MPI_INT;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, MPI_UNWEIGHTED, 1, &next,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    MPI_Neighbor_alltoallw(out, &three, &begin, &type, in, &three, &begin, &type, comm);
    MPI_Neighbor_allgather(out, 8, MPI_BYTE, in, 8, MPI_BYTE, comm);
    MPI_Neighbor_alltoallv_init(out, &five, &zero, MPI_INT, in, &five, &zero, MPI_INT, comm,
                                MPI_INFO_NULL, &request);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&comm);
}

/* Persistent: a double twice to all, and three times as many ints to each rank as its number, plus 1. */
static void persistent(void) {
    MPI_Request requests[2];
    double one = 1, sum;
    int counts[MOST], places[MOST], mine[MOST], at[MOST];
    for (int i = 0; i < size; i++)
        counts[i] = i + 1, places[i] = 0, mine[i] = rank + 1, at[i] = MOST * i;
    MPI_Allreduce_init(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &requests[0]);
    MPI_Alltoallv_init(out, counts, places, MPI_INT, in, mine, at, MPI_INT, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &requests[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Start(&requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void reductions(void) {
    int counts[MOST];
    for (int i = 0; i < size; i++) counts[i] = i + 1;
    MPI_Reduce(out, in, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(in, out, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Scan(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Exscan(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > MOST) MPI_Abort(MPI_COMM_WORLD, 1);
    line();
    ring();
    persistent();
    reductions();
    MPI_Finalize();
    return 0;
}
