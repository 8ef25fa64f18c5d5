/* Graph and distributed graph topologies: what was given comes back, in order, with weights,
 * reordered or not. With the argument `strict`, also the first edges only, for which MPICH wants
 * room for all. */
#include "test.h"

static int strict;

static int same(const int *a, const int *b, int n)
{
    return n == 0 || !memcmp(a, b, (size_t)n * sizeof *a);
}

static void check_graph(MPI_Comm graph, int nodes, const int *index, const int *edges)
{
    int kind, n = -1, m = -1, total = nodes ? index[nodes - 1] : 0;
    int *gi = test_alloc((size_t)nodes * sizeof *gi), *ge = test_alloc((size_t)total * sizeof *ge);
    MPI_Topo_test(graph, &kind);
    CHECK_INT(kind, MPI_GRAPH, "Topo_test");
    MPI_Graphdims_get(graph, &n, &m);
    CHECK_INT(n, nodes, "nodes");
    CHECK_INT(m, total, "edges");
    MPI_Graph_get(graph, nodes, total, gi, ge);
    CHECK(same(gi, index, nodes), "index differs");
    CHECK(same(ge, edges, total), "edges differ");
    for (int r = 0; r < nodes; r++) {
        int first = r ? index[r - 1] : 0, count = -1;
        MPI_Graph_neighbors_count(graph, r, &count);
        CHECK_INT(count, index[r] - first, "neighbours");
        MPI_Graph_neighbors(graph, r, total, ge);
        CHECK(same(ge, edges + first, count), "neighbours of %d differ", r);
    }
    free(gi);
    free(ge);
}

/* A ring in which node 0 also has itself and node 1 again as neighbours. */
static void graphs(int nodes, int reorder)
{
    int *index = test_alloc((size_t)nodes * sizeof *index), *edges, m = 0, rank, map = -7;
    MPI_Comm graph = MPI_COMM_NULL, copy;
    edges = test_alloc((size_t)(2 * nodes + 2) * sizeof *edges);
    for (int r = 0; r < nodes; r++) {
        edges[m++] = (r + 1) % nodes;
        edges[m++] = (r + nodes - 1) % nodes;
        if (r == 0) {
            edges[m++] = 0;
            edges[m++] = 1 % nodes;
        }
        index[r] = m;
    }
    MPI_Graph_create(MPI_COMM_WORLD, nodes, index, edges, reorder, &graph);
    MPI_Graph_map(MPI_COMM_WORLD, nodes, index, edges, &map);
    if (graph == MPI_COMM_NULL) {
        CHECK(test_rank >= nodes, "no place in a graph of %d", nodes);
        CHECK_INT(map, MPI_UNDEFINED, "Graph_map outside the graph");
    } else {
        MPI_Comm_rank(graph, &rank);
        CHECK_INT(reorder ? map : test_rank, rank, "rank in the graph");
        check_graph(graph, nodes, index, edges);
        MPI_Comm_dup(graph, &copy);
        MPI_Comm_free(&graph);
        check_graph(copy, nodes, index, edges);
        MPI_Comm_free(&copy);
    }
    free(index);
    free(edges);
}

/* Checks a communicator's edges against lists; `weighted` without weights means all are equal. */
static void check_dist(MPI_Comm comm, int in, const int *sources, const int *sw, int out,
                       const int *dests, const int *dw, int weighted)
{
    int gi = -1, go = -1, gw = -1, kind, room = in > out ? in : out;
    int *a = test_alloc((size_t)room * sizeof *a), *b = test_alloc((size_t)room * sizeof *b);
    int *c = test_alloc((size_t)room * sizeof *c), *d = test_alloc((size_t)room * sizeof *d);
    MPI_Topo_test(comm, &kind);
    CHECK_INT(kind, MPI_DIST_GRAPH, "Topo_test");
    MPI_Dist_graph_neighbors_count(comm, &gi, &go, &gw);
    CHECK_INT(gi, in, "indegree");
    CHECK_INT(go, out, "outdegree");
    CHECK_INT(!!gw, weighted, "weighted");
    if (gi == in && go == out) {
        if (weighted)
            MPI_Dist_graph_neighbors(comm, in, a, b, out, c, d);
        else
            MPI_Dist_graph_neighbors(comm, in, a, MPI_UNWEIGHTED, out, c, MPI_UNWEIGHTED);
        CHECK(same(a, sources, in), "sources differ");
        CHECK(same(c, dests, out), "destinations differ");
        if (weighted) {
            CHECK(same(b, sw, in), "weights of sources differ");
            CHECK(same(d, dw, out), "weights of destinations differ");
        }
        if (strict && in > 1 && out > 0) { /* only the first, where there is no room for more */
            a[1] = -5;
            MPI_Dist_graph_neighbors(comm, 1, a, MPI_UNWEIGHTED, 0, c, MPI_UNWEIGHTED);
            CHECK_INT(a[0], sources[0], "first source");
            CHECK_INT(a[1], -5, "memory after the first source");
        }
    }
    free(a);
    free(b);
    free(c);
    free(d);
}

/* Edges of node r: to r + 1, r + 2 and itself; their weights tell where they start. */
static void adjacent(int weighted, int reorder)
{
    MPI_Comm comm, copy;
    int p = test_size, r = test_rank, rank, *w = NULL;
    for (int step = 0; step < 2; step++) {
        int s[3] = {(r + p - 1) % p, (r + 2 * p - 2) % p, r}, sw[3] = {s[0] + 1, s[1] + 2, s[2] + 3};
        int d[3] = {(r + 1) % p, (r + 2) % p, r}, dw[3] = {r + 1, r + 2, r + 3};
        if (step == 0) {
            MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, s, weighted ? sw : MPI_UNWEIGHTED, 3, d,
                                           weighted ? dw : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &comm);
            MPI_Comm_rank(comm, &rank);
            if (!reorder)
                CHECK_INT(rank, test_rank, "rank without reordering");
            r = rank; /* the lists of the node that this process became */
        } else {
            check_dist(comm, 3, s, sw, 3, d, dw, weighted);
            MPI_Comm_dup(comm, &copy);
            MPI_Comm_free(&comm);
            check_dist(copy, 3, s, sw, 3, d, dw, weighted);
            MPI_Comm_free(&copy);
        }
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, weighted ? MPI_WEIGHTS_EMPTY : MPI_UNWEIGHTED, 0,
                                   NULL, weighted ? MPI_WEIGHTS_EMPTY : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder,
                                   &comm);
    check_dist(comm, 0, w, w, 0, w, w, weighted);
    MPI_Comm_free(&comm);
}

/* Rank 0 gives all edges; the others nothing. */
static void from_one(int weighted, int reorder)
{
    int p = test_size, rank, *sources = test_alloc((size_t)p * sizeof(int));
    int *degrees = test_alloc((size_t)p * sizeof(int)), *dests = test_alloc(2 * (size_t)p * sizeof(int));
    int *weights = test_alloc(2 * (size_t)p * sizeof(int)), n = 0, none = 0;
    MPI_Comm comm;
    if (test_rank == 0)
        for (; n < p; n++) {
            sources[n] = n;
            degrees[n] = 2;
            dests[2 * n] = (n + 1) % p;
            dests[2 * n + 1] = (n + 1) % p; /* twice the same */
            weights[2 * n] = weights[2 * n + 1] = n + 10;
        }
    MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, dests,
                          !weighted ? MPI_UNWEIGHTED : n ? weights : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL,
                          reorder, &comm);
    MPI_Comm_rank(comm, &rank);
    {
        int before = (rank + p - 1) % p, after = (rank + 1) % p;
        int s[2] = {before, before}, sw[2] = {before + 10, before + 10};
        int d[2] = {after, after}, dw[2] = {rank + 10, rank + 10};
        check_dist(comm, 2, s, sw, 2, d, dw, weighted);
    }
    MPI_Comm_free(&comm);
    /* No edges at all, one source without edges. */
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &test_rank, &none, NULL, weighted ? MPI_WEIGHTS_EMPTY : MPI_UNWEIGHTED,
                          MPI_INFO_NULL, reorder, &comm);
    check_dist(comm, 0, NULL, NULL, 0, NULL, NULL, weighted);
    MPI_Comm_free(&comm);
    free(sources);
    free(degrees);
    free(dests);
    free(weights);
}

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Whether edge e, which rank e % p gives, is there, and its ends: the same on every rank. */
static int edge(int e, int round, int *from, int *to)
{
    *from = test_byte((uint64_t)round, 3 * (uint64_t)e) % test_size;
    *to = test_byte((uint64_t)round, 3 * (uint64_t)e + 1) % test_size;
    return test_byte((uint64_t)round, 3 * (uint64_t)e + 2) % 3 != 0;
}

/* Random edges, each given by another rank than it may belong to; their order is the library's. */
static void random_edges(int round, int reorder)
{
    int total = 6 * test_size, n = 0, in = 0, out = 0, gi, go, gw, rank, from, to;
    int *s = test_alloc((size_t)total * sizeof *s), *g = test_alloc((size_t)total * sizeof *g);
    int *d = test_alloc((size_t)total * sizeof *d), *w = test_alloc((size_t)total * sizeof *w);
    int *a = test_alloc((size_t)total * sizeof *a), *b = test_alloc((size_t)total * sizeof *b);
    MPI_Comm comm;
    for (int e = test_rank; e < total; e += test_size)
        if (edge(e, round, &from, &to)) {
            s[n] = from;
            g[n] = 1;
            d[n] = to;
            w[n++] = e;
        }
    MPI_Dist_graph_create(MPI_COMM_WORLD, n, s, g, d, n ? w : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, reorder, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Dist_graph_neighbors_count(comm, &gi, &go, &gw);
    MPI_Dist_graph_neighbors(comm, gi, s, a, go, d, b);
    for (int i = 0; i < gi; i++) {
        CHECK(edge(a[i], round, &from, &to) && from == s[i] && to == rank, "source %d: no edge %d", s[i], a[i]);
    }
    for (int i = 0; i < go; i++) {
        CHECK(edge(b[i], round, &from, &to) && from == rank && to == d[i], "destination %d: no edge %d", d[i], b[i]);
    }
    qsort(a, (size_t)gi, sizeof *a, by_value);
    qsort(b, (size_t)go, sizeof *b, by_value);
    for (int e = 0; e < total; e++)
        if (edge(e, round, &from, &to)) {
            if (to == rank) {
                CHECK(in < gi && a[in] == e, "edge %d from %d is missing", e, from);
                in++;
            }
            if (from == rank) {
                CHECK(out < go && b[out] == e, "edge %d to %d is missing", e, to);
                out++;
            }
        }
    CHECK_INT(gi, in, "indegree");
    CHECK_INT(go, out, "outdegree");
    MPI_Comm_free(&comm);
    free(s);
    free(g);
    free(d);
    free(w);
    free(a);
    free(b);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    strict = argc > 1 && !strcmp(argv[1], "strict");
    for (int reorder = 0; reorder < 2; reorder++) {
        graphs(test_size, reorder);
        if (test_size > 1)
            graphs(test_size - 1, reorder);
        for (int weighted = 0; weighted < 2; weighted++) {
            adjacent(weighted, reorder);
            from_one(weighted, reorder);
        }
        for (int round = 0; round < 10; round++)
            random_edges(round, reorder);
    }
    return test_finish();
}
