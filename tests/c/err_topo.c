/* Wrong arguments of topology calls and neighbourhood collectives: each has its error class, and
 * the communicator lives on. With the argument `strict` also those that MPICH lets pass or gives
 * another class. */
#include "test.h"

static int strict;

/* Where MPI names no class, and libraries take another or do not look. */
#define REFUSED(call, one, other, what)                                                           \
    do {                                                                                          \
        if (strict)                                                                               \
            CHECK_EITHER(call, one, other, what);                                                 \
    } while (0)

int main(int argc, char **argv)
{
    int dims[2], periods[2] = {1, 0}, a[4] = {0}, b[4] = {0}, x, y, n, zero = 0;
    int index[2] = {1, 2}, edges[2] = {0, 0}, bad_index[2] = {2, 1}, far, minus = -1;
    MPI_Comm world, cart, graph, dist, none = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    test_init(&argc, &argv);
    strict = argc > 1 && !strcmp(argv[1], "strict");
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    far = test_size;

    n = 6;
    dims[0] = 4, dims[1] = 0;
    REFUSED(MPI_Dims_create(n, 2, dims), MPI_ERR_DIMS, MPI_ERR_DIMS, "6 nodes in 4 x ?");
    dims[0] = 2, dims[1] = 2;
    REFUSED(MPI_Dims_create(n, 2, dims), MPI_ERR_DIMS, MPI_ERR_DIMS, "6 nodes in 2 x 2");
    dims[0] = -1, dims[1] = 0;
    REFUSED(MPI_Dims_create(n, 2, dims), MPI_ERR_DIMS, MPI_ERR_DIMS, "length -1");
    dims[0] = 0;
    REFUSED(MPI_Dims_create(0, 2, dims), MPI_ERR_ARG, MPI_ERR_ARG, "no nodes");

    dims[0] = test_size, dims[1] = 2;
    REFUSED(MPI_Cart_create(world, 2, dims, periods, 0, &none), MPI_ERR_DIMS, MPI_ERR_DIMS, "too large a grid");
    dims[1] = -1;
    REFUSED(MPI_Cart_create(world, 2, dims, periods, 0, &none), MPI_ERR_DIMS, MPI_ERR_DIMS, "length -1");
    REFUSED(MPI_Cart_create(world, -1, dims, periods, 0, &none), MPI_ERR_ARG, MPI_ERR_DIMS, "-1 dimensions");
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_NULL, 1, dims, periods, 0, &none), MPI_ERR_COMM, "no communicator");
    if (strict)
        CHECK_CLASS(MPI_Cart_create(world, 1, NULL, periods, 0, &none), MPI_ERR_ARG, "no dims");
    CHECK(none == MPI_COMM_NULL, "a refused call made a communicator");

    CHECK_CLASS(MPI_Cartdim_get(world, &x), MPI_ERR_TOPOLOGY, "Cartdim_get without a grid");
    CHECK_CLASS(MPI_Graphdims_get(world, &x, &y), MPI_ERR_TOPOLOGY, "Graphdims_get without a graph");
    CHECK_CLASS(MPI_Dist_graph_neighbors_count(world, &x, &y, &n), MPI_ERR_TOPOLOGY, "count without a graph");
    CHECK_CLASS(MPI_Neighbor_allgather(a, 1, MPI_INT, b, 1, MPI_INT, world), MPI_ERR_TOPOLOGY, "no topology");
    CHECK_CLASS(MPI_Ineighbor_alltoall(a, 1, MPI_INT, b, 1, MPI_INT, world, &request), MPI_ERR_TOPOLOGY,
                "no topology");

    dims[0] = test_size, dims[1] = 1;
    MPI_Cart_create(world, 2, dims, periods, 0, &cart);
    MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Graphdims_get(cart, &x, &y), MPI_ERR_TOPOLOGY, "Graphdims_get of a grid");
    CHECK_CLASS(MPI_Cart_coords(cart, test_size, 2, a), MPI_ERR_RANK, "coordinates of no rank");
    CHECK_CLASS(MPI_Cart_coords(cart, -1, 2, a), MPI_ERR_RANK, "coordinates of rank -1");
    REFUSED(MPI_Cart_coords(cart, 0, 1, a), MPI_ERR_ARG, MPI_ERR_DIMS, "room for 1 of 2 coordinates");
    REFUSED(MPI_Cart_get(cart, 1, a, a, a), MPI_ERR_ARG, MPI_ERR_DIMS, "room for 1 of 2 dimensions");
    a[0] = 0, a[1] = 1;
    REFUSED(MPI_Cart_rank(cart, a, &x), MPI_ERR_ARG, MPI_ERR_RANK, "coordinates outside");
    REFUSED(MPI_Cart_shift(cart, 2, 1, &x, &y), MPI_ERR_DIMS, MPI_ERR_ARG, "no such direction");
    REFUSED(MPI_Cart_shift(cart, -1, 1, &x, &y), MPI_ERR_DIMS, MPI_ERR_ARG, "direction -1");
    REFUSED(MPI_Neighbor_allgather(a, -1, MPI_INT, b, 1, MPI_INT, cart), MPI_ERR_COUNT, MPI_ERR_COUNT, "count -1");
    if (strict) {
        CHECK_CLASS(MPI_Neighbor_alltoall(MPI_IN_PLACE, 1, MPI_INT, b, 1, MPI_INT, cart), MPI_ERR_BUFFER, "in place");
        CHECK_CLASS(MPI_Neighbor_allgather(a, 1, MPI_INT, a, 1, MPI_INT, cart), MPI_ERR_BUFFER, "one buffer");
        CHECK_CLASS(MPI_Neighbor_allgather(a, 1, MPI_DATATYPE_NULL, b, 1, MPI_INT, cart), MPI_ERR_TYPE, "no type");
    }

    REFUSED(MPI_Graph_create(world, 2, bad_index, edges, 0, &none), MPI_ERR_ARG, MPI_ERR_ARG, "falling index");
    edges[1] = 2;
    if (test_size > 1)
        REFUSED(MPI_Graph_create(world, 2, index, edges, 0, &none), MPI_ERR_ARG, MPI_ERR_ARG, "edge to no node");
    REFUSED(MPI_Graph_create(world, -1, index, edges, 0, &none), MPI_ERR_ARG, MPI_ERR_ARG, "-1 nodes");
    edges[1] = 0;
    MPI_Graph_create(world, 1, index, edges, 0, &graph);
    if (graph != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Cart_coords(graph, 0, 2, a), MPI_ERR_TOPOLOGY, "coordinates in a graph");
        CHECK_CLASS(MPI_Graph_neighbors_count(graph, 1, &x), MPI_ERR_RANK, "neighbours of no rank");
        REFUSED(MPI_Graph_neighbors(graph, 0, 0, a), MPI_ERR_ARG, MPI_ERR_ARG, "no room for the neighbour");
        REFUSED(MPI_Graph_get(graph, 1, 0, a, b), MPI_ERR_ARG, MPI_ERR_ARG, "no room for the edge");
        MPI_Comm_free(&graph);
    }

    REFUSED(MPI_Dist_graph_create_adjacent(world, 1, &far, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                           &none),
            MPI_ERR_RANK, MPI_ERR_RANK, "source that is no rank");
    x = 0;
    REFUSED(MPI_Dist_graph_create_adjacent(world, 1, &x, &minus, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &none),
            MPI_ERR_ARG, MPI_ERR_ARG, "negative weight");
    REFUSED(MPI_Dist_graph_create_adjacent(world, 1, &x, MPI_UNWEIGHTED, 1, &x, &x, MPI_INFO_NULL, 0, &none),
            MPI_ERR_ARG, MPI_ERR_ARG, "weights on one side only");
    REFUSED(MPI_Dist_graph_create_adjacent(world, 1, &x, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0,
                                           &none),
            MPI_ERR_ARG, MPI_ERR_ARG, "no weight for an edge");
    REFUSED(MPI_Dist_graph_create(world, 1, &zero, &minus, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &none), MPI_ERR_ARG,
            MPI_ERR_ARG, "degree -1");
    MPI_Dist_graph_create_adjacent(world, 1, &x, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &dist);
    MPI_Comm_set_errhandler(dist, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Graph_neighbors_count(dist, 0, &y), MPI_ERR_TOPOLOGY, "graph call on a distributed graph");
    MPI_Comm_free(&dist);

    a[0] = test_rank; /* the grid still works */
    MPI_Neighbor_allgather(a, 1, MPI_INT, b, 1, MPI_INT, cart);
    CHECK_INT(b[0], (test_rank + test_size - 1) % test_size, "neighbour after errors");
    MPI_Comm_free(&cart);
    MPI_Comm_free(&world);
    return test_finish();
}
