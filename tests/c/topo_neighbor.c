/* Neighbourhood collectives, blocking, non-blocking, persistent and large-count: grids with short
 * rings and ends, graphs with repeated edges and edges to oneself, blocks of different sizes (some
 * empty) and layouts.
 *
 * A block that leaves a grid's cell on one side arrives at the neighbour on the other side; edges
 * of a graph between two processes match in order (MPI 5.0, 8.6). */
#include "layouts.h"

enum { BLOCKING, NONBLOCKING, PERSISTENT, LARGE, FORMS };

static MPI_Comm comm;
static int rank, size, in, out;
static int *sources, *dests;
static int *match; /* number of the block, among those its sender sends, that source i's is */

/* A call's two starts, for persistent requests; receive buffers are the same. */
static void complete(int form, MPI_Request *request)
{
    if (form == NONBLOCKING) {
        MPI_Wait(request, MPI_STATUS_IGNORE);
    } else if (form == PERSISTENT) {
        for (int start = 0; start < 3; start++) {
            MPI_Start(request);
            MPI_Wait(request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(request);
    }
}

/* Items in block k of process r: different, some none. */
static int items(int r, int k)
{
    return (r * 3 + k * 5) % 4;
}

static void same_size(int form, const Layout *ls, const Layout *lr)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int n = 2, w = 0;
    int *send = lay_alloc(ls, n * out), *recv = lay_alloc(lr, n * in);
    MPI_Datatype st = ls->type, rt = lr->type;
    for (int k = 0; k < out; k++)
        lay_put(ls, send, n * k, n, rank, k);
    if (form == BLOCKING)
        MPI_Neighbor_alltoall(send, n, st, recv, n, rt, comm);
    else if (form == NONBLOCKING)
        MPI_Ineighbor_alltoall(send, n, st, recv, n, rt, comm, &request);
    else if (form == PERSISTENT)
        MPI_Neighbor_alltoall_init(send, n, st, recv, n, rt, comm, MPI_INFO_NULL, &request);
    else
        MPI_Neighbor_alltoall_c(send, n, st, recv, n, rt, comm);
    complete(form, &request);
    for (int i = 0; i < in; i++)
        if (sources[i] != MPI_PROC_NULL)
            w += lay_check(lr, recv, n * i, n, sources[i], match[i], "Neighbor_alltoall");
    lay_touched(lr, recv, n * in, w, "Neighbor_alltoall");
    free(send);
    free(recv);

    send = lay_alloc(ls, n);
    recv = lay_alloc(lr, n * in);
    lay_put(ls, send, 0, n, rank, 77);
    request = MPI_REQUEST_NULL;
    if (form == BLOCKING)
        MPI_Neighbor_allgather(send, n, st, recv, n, rt, comm);
    else if (form == NONBLOCKING)
        MPI_Ineighbor_allgather(send, n, st, recv, n, rt, comm, &request);
    else if (form == PERSISTENT)
        MPI_Neighbor_allgather_init(send, n, st, recv, n, rt, comm, MPI_INFO_NULL, &request);
    else
        MPI_Neighbor_allgather_c(send, n, st, recv, n, rt, comm);
    complete(form, &request);
    w = 0;
    for (int i = 0; i < in; i++)
        if (sources[i] != MPI_PROC_NULL)
            w += lay_check(lr, recv, n * i, n, sources[i], 77, "Neighbor_allgather");
    lay_touched(lr, recv, n * in, w, "Neighbor_allgather");
    free(send);
    free(recv);
}

/* Blocks lie in reverse order with gaps of two; returns the items that hold them. */
static int plan(int n, const int *counts, int *displs)
{
    int at = 1;
    for (int i = n - 1; i >= 0; i--) {
        displs[i] = at;
        at += counts[i] + 2;
    }
    return at;
}

static MPI_Count *widened(int n, const int *values)
{
    MPI_Count *wide = test_alloc((size_t)n * sizeof *wide);
    for (int i = 0; i < n; i++)
        wide[i] = values[i];
    return wide;
}

static MPI_Aint *addresses(int n, const int *values, int scale)
{
    MPI_Aint *wide = test_alloc((size_t)n * sizeof *wide);
    for (int i = 0; i < n; i++)
        wide[i] = (MPI_Aint)values[i] * scale;
    return wide;
}

static void own_size(int form, const Layout *ls, const Layout *lr)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int *sc = test_alloc((size_t)out * sizeof *sc), *sd = test_alloc((size_t)out * sizeof *sd);
    int *rc = test_alloc((size_t)in * sizeof *rc), *rd = test_alloc((size_t)in * sizeof *rd);
    int stotal, rtotal, w = 0, *send, *recv;
    MPI_Datatype st = ls->type, rt = lr->type;
    for (int k = 0; k < out; k++)
        sc[k] = items(rank, k);
    for (int i = 0; i < in; i++)
        rc[i] = sources[i] == MPI_PROC_NULL ? 2 : items(sources[i], match[i]);
    stotal = plan(out, sc, sd);
    rtotal = plan(in, rc, rd);
    send = lay_alloc(ls, stotal);
    recv = lay_alloc(lr, rtotal);
    for (int k = 0; k < out; k++)
        lay_put(ls, send, sd[k], sc[k], rank, k);
    if (form == LARGE) {
        MPI_Count *wsc = widened(out, sc), *wrc = widened(in, rc);
        MPI_Aint *wsd = addresses(out, sd, 1), *wrd = addresses(in, rd, 1);
        MPI_Neighbor_alltoallv_c(send, wsc, wsd, st, recv, wrc, wrd, rt, comm);
        free(wsc);
        free(wsd);
        free(wrc);
        free(wrd);
    } else if (form == BLOCKING) {
        MPI_Neighbor_alltoallv(send, sc, sd, st, recv, rc, rd, rt, comm);
    } else if (form == NONBLOCKING) {
        MPI_Ineighbor_alltoallv(send, sc, sd, st, recv, rc, rd, rt, comm, &request);
    } else {
        MPI_Neighbor_alltoallv_init(send, sc, sd, st, recv, rc, rd, rt, comm, MPI_INFO_NULL, &request);
    }
    complete(form, &request);
    for (int i = 0; i < in; i++)
        if (sources[i] != MPI_PROC_NULL)
            w += lay_check(lr, recv, rd[i], rc[i], sources[i], match[i], "Neighbor_alltoallv");
    lay_touched(lr, recv, rtotal, w, "Neighbor_alltoallv");
    free(send);
    free(recv);

    for (int i = 0; i < in; i++)
        rc[i] = sources[i] == MPI_PROC_NULL ? 2 : items(sources[i], 0);
    rtotal = plan(in, rc, rd);
    send = lay_alloc(ls, items(rank, 0));
    recv = lay_alloc(lr, rtotal);
    lay_put(ls, send, 0, items(rank, 0), rank, 77);
    request = MPI_REQUEST_NULL;
    if (form == LARGE) {
        MPI_Count *wrc = widened(in, rc);
        MPI_Aint *wrd = addresses(in, rd, 1);
        MPI_Neighbor_allgatherv_c(send, items(rank, 0), st, recv, wrc, wrd, rt, comm);
        free(wrc);
        free(wrd);
    } else if (form == BLOCKING) {
        MPI_Neighbor_allgatherv(send, items(rank, 0), st, recv, rc, rd, rt, comm);
    } else if (form == NONBLOCKING) {
        MPI_Ineighbor_allgatherv(send, items(rank, 0), st, recv, rc, rd, rt, comm, &request);
    } else {
        MPI_Neighbor_allgatherv_init(send, items(rank, 0), st, recv, rc, rd, rt, comm, MPI_INFO_NULL, &request);
    }
    complete(form, &request);
    w = 0;
    for (int i = 0; i < in; i++)
        if (sources[i] != MPI_PROC_NULL)
            w += lay_check(lr, recv, rd[i], rc[i], sources[i], 77, "Neighbor_allgatherv");
    lay_touched(lr, recv, rtotal, w, "Neighbor_allgatherv");
    free(send);
    free(recv);
    free(sc);
    free(sd);
    free(rc);
    free(rd);
}

/* Each block has a layout of its own: block k sent has layout k, block i received has layout i + 1,
 * and so on in turn. */
static void own_type(int form)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int *sc = test_alloc((size_t)out * sizeof *sc), *so = test_alloc((size_t)out * sizeof *so);
    int *rc = test_alloc((size_t)in * sizeof *rc), *ro = test_alloc((size_t)in * sizeof *ro);
    MPI_Datatype *st = test_alloc((size_t)out * sizeof *st), *rt = test_alloc((size_t)in * sizeof *rt);
    int ints = 5, *send, *recv, w = 0, touched = 0;
    MPI_Aint *sd, *rd;
    for (int k = 0; k < out; k++) {
        const Layout *l = &layouts[k % LAYOUTS];
        sc[k] = items(rank, k);
        so[k] = ints;
        st[k] = l->type;
        ints += sc[k] * l->extent + 3;
    }
    send = test_alloc((size_t)ints * sizeof *send);
    for (int k = 0; k < out; k++)
        lay_put(&layouts[k % LAYOUTS], send + so[k], 0, sc[k], rank, k);
    ints = 7;
    for (int i = 0; i < in; i++) {
        const Layout *l = &layouts[(i + 1) % LAYOUTS];
        rc[i] = sources[i] == MPI_PROC_NULL ? 2 : items(sources[i], match[i]);
        ro[i] = ints;
        rt[i] = l->type;
        ints += rc[i] * l->extent + 3;
    }
    recv = test_alloc((size_t)ints * sizeof *recv);
    for (int i = 0; i < ints; i++)
        recv[i] = UNTOUCHED;
    sd = addresses(out, so, sizeof(int));
    rd = addresses(in, ro, sizeof(int));
    if (form == LARGE) {
        MPI_Count *wsc = widened(out, sc), *wrc = widened(in, rc);
        MPI_Neighbor_alltoallw_c(send, wsc, sd, st, recv, wrc, rd, rt, comm);
        free(wsc);
        free(wrc);
    } else if (form == BLOCKING) {
        MPI_Neighbor_alltoallw(send, sc, sd, st, recv, rc, rd, rt, comm);
    } else if (form == NONBLOCKING) {
        MPI_Ineighbor_alltoallw(send, sc, sd, st, recv, rc, rd, rt, comm, &request);
    } else {
        MPI_Neighbor_alltoallw_init(send, sc, sd, st, recv, rc, rd, rt, comm, MPI_INFO_NULL, &request);
    }
    complete(form, &request);
    for (int i = 0; i < in; i++)
        if (sources[i] != MPI_PROC_NULL)
            w += lay_check(&layouts[(i + 1) % LAYOUTS], recv + ro[i], 0, rc[i], sources[i], match[i],
                           "Neighbor_alltoallw");
    for (int i = 0; i < ints; i++)
        touched += recv[i] != UNTOUCHED;
    CHECK_INT(touched, w, "ints written by Neighbor_alltoallw");
    free(send);
    free(recv);
    free(sc);
    free(so);
    free(sd);
    free(st);
    free(rc);
    free(ro);
    free(rd);
    free(rt);
}

/* All calls with the lists in `sources` and `dests`; `grid`: opposite sides match, otherwise the
 * order of edges. */
static void check_all(int grid)
{
    int widest, *all, *mine;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&out, &widest, 1, MPI_INT, MPI_MAX, comm);
    all = test_alloc((size_t)(widest * size) * sizeof *all);
    mine = test_alloc((size_t)widest * sizeof *mine);
    for (int k = 0; k < widest; k++)
        mine[k] = k < out ? dests[k] : MPI_PROC_NULL;
    MPI_Allgather(mine, widest, MPI_INT, all, widest, MPI_INT, comm);
    match = test_alloc((size_t)in * sizeof *match);
    for (int i = 0; i < in; i++) {
        int before = 0;
        match[i] = i ^ 1;
        if (grid || sources[i] == MPI_PROC_NULL)
            continue;
        for (int j = 0; j < i; j++)
            before += sources[j] == sources[i];
        for (int k = 0; k < widest; k++)
            if (all[sources[i] * widest + k] == rank && before-- == 0)
                match[i] = k;
    }
    for (int form = 0; form < FORMS; form++) {
        own_type(form);
        for (int l = 0; l < LAYOUTS; l++) {
            same_size(form, &layouts[l], &layouts[(l + form) % LAYOUTS]);
            own_size(form, &layouts[l], &layouts[(l + form + 1) % LAYOUTS]);
        }
    }
    free(all);
    free(mine);
    free(match);
}

static void grid(int n, const int *dims, int ring, int reorder)
{
    int periods[4] = {0};
    for (int i = 0; i < n; i++)
        periods[i] = ring;
    MPI_Cart_create(MPI_COMM_WORLD, n, dims, periods, reorder, &comm);
    if (comm == MPI_COMM_NULL)
        return;
    in = out = 2 * n;
    sources = test_alloc((size_t)in * sizeof *sources);
    for (int i = 0; i < n; i++)
        MPI_Cart_shift(comm, i, 1, &sources[2 * i], &sources[2 * i + 1]);
    dests = sources;
    check_all(1);
    free(sources);
    MPI_Comm_free(&comm);
}

/* A graph whose edges are the same in both directions: a star with a ring and loops. */
static void graph(void)
{
    int p = test_size, m = 0, *index = test_alloc((size_t)p * sizeof *index);
    int *edges = test_alloc((size_t)(5 * p + 2) * sizeof *edges);
    for (int r = 0; r < p; r++) {
        for (int other = 0; other < p; other++)
            if (other != r && (r == 0 || other == 0))
                edges[m++] = other;
        edges[m++] = (r + 1) % p;
        edges[m++] = r;
        edges[m++] = (r + p - 1) % p;
        index[r] = m;
    }
    MPI_Graph_create(MPI_COMM_WORLD, p, index, edges, 0, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Graph_neighbors_count(comm, rank, &in);
    out = in;
    sources = test_alloc((size_t)in * sizeof *sources);
    MPI_Graph_neighbors(comm, rank, in, sources);
    dests = sources;
    check_all(0);
    free(sources);
    MPI_Comm_free(&comm);
    free(index);
    free(edges);
}

/* Random edges, `most` at most from one process to another. */
static void dist_graph(int round, int most, int reorder)
{
    int p = test_size, n = 0, weighted, *edges = test_alloc((size_t)(p * most) * sizeof *edges);
    for (int to = 0; to < p; to++) {
        int many = test_byte((uint64_t)round, (uint64_t)(test_rank * p + to)) % (most + 1);
        while (many-- > 0)
            edges[n++] = to;
    }
    for (int i = n - 1; i > 0; i--) { /* shuffled */
        int j = test_byte((uint64_t)round + 1000, (uint64_t)(test_rank * 64 + i)) % (i + 1), e = edges[i];
        edges[i] = edges[j];
        edges[j] = e;
    }
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &test_rank, &n, edges, MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &comm);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    sources = test_alloc((size_t)in * sizeof *sources);
    dests = test_alloc((size_t)out * sizeof *dests);
    MPI_Dist_graph_neighbors(comm, in, sources, MPI_UNWEIGHTED, out, dests, MPI_UNWEIGHTED);
    check_all(0);
    free(sources);
    free(dests);
    free(edges);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    int one[4] = {1, 1, 1, 1};
    test_init(&argc, &argv);
    layouts_make();
    for (int n = 1; n <= 3; n++) {
        int dims[3] = {0, 0, 0}, reversed[3];
        MPI_Dims_create(test_size, n, dims);
        for (int i = 0; i < n; i++)
            reversed[n - 1 - i] = dims[i];
        for (int reorder = 0; reorder < 2; reorder++) {
            grid(n, dims, 0, reorder);
            grid(n, dims, 1, reorder);
            grid(n, reversed, 1, reorder);
        }
    }
    grid(0, NULL, 0, 0);
    grid(1, one, 1, 0);
    grid(4, one, 1, 0);
    graph();
    for (int round = 0; round < 6; round++)
        dist_graph(round, 1 + round % 3, round % 2);
    layouts_free();
    return test_finish();
}
