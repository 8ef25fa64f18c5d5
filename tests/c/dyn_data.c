/* Messages and collectives between parents and children: over the inter-communicator, over the
 * merged intra-communicator, and over what is made of them. Both sides run the same code.
 *
 *     dyn_data CHILDREN */
#include "spawned.h"

enum { LONGEST = 8 << 20, MIDDLE = 3000, ALL_PAIRS = 1000 /* a tag */ };

static int me, local, remote, is_child;

/* Seed of what process `rank` of a side sends for `what`. */
static uint64_t seed_of(int child, int rank, int what)
{
    return (uint64_t)(child * 1000 + rank) * 1000 + (uint64_t)what;
}

static void verify(const void *buf, size_t n, uint64_t seed, const char *what)
{
    size_t bad = test_verify(buf, n, seed);
    CHECK(bad == n, "%s: byte %zu of %zu differs", what, bad, n);
}

/* Of each size one way, then the other way; `mode` is the kind of call. */
static void ping(MPI_Comm inter, size_t n, int mode, int what, unsigned char *buf)
{
    int peer = me;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    if (peer >= remote)
        return;
    for (int way = 0; way < 2; way++) {
        int sends = is_child == way, count = -1;
        if (sends)
            test_fill(buf, n, seed_of(is_child, me, what));
        else
            memset(buf, 0xee, n);
        if (mode == 0 && sends)
            MPI_Send(buf, (int)n, MPI_BYTE, peer, what, inter);
        else if (mode == 0)
            MPI_Recv(buf, (int)n, MPI_BYTE, peer, what, inter, &status);
        else if (mode == 1 && sends)
            MPI_Isend(buf, (int)n, MPI_BYTE, peer, what, inter, &request);
        else if (mode == 1)
            MPI_Irecv(buf, (int)n, MPI_BYTE, MPI_ANY_SOURCE, what, inter, &request);
        else if (sends)
            MPI_Send_init(buf, (int)n, MPI_BYTE, peer, what, inter, &request);
        else
            MPI_Recv_init(buf, (int)n, MPI_BYTE, peer, MPI_ANY_TAG, inter, &request);
        if (mode == 2)
            MPI_Start(&request);
        if (mode > 0)
            MPI_Wait(&request, &status);
        if (mode == 2)
            MPI_Request_free(&request);
        if (!sends) {
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_INT(count, n, "bytes received");
            CHECK_INT(status.MPI_SOURCE, peer, "source");
            CHECK_INT(status.MPI_TAG, what, "tag");
            verify(buf, n, seed_of(!is_child, peer, what), "a message");
        }
    }
}

static void messages(MPI_Comm inter)
{
    const size_t sizes[] = {0, 1, 8, 9, 100, 1024, 4096, 8193, 65536, 300001, 1 << 20, LONGEST};
    unsigned char *buf = test_alloc(LONGEST);
    int what = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int mode = 0; mode < 3; mode++)
            ping(inter, sizes[i], mode, what++, buf);
    free(buf);
}

/* Every process exchanges with every one of the other side at once. */
static void all_pairs(MPI_Comm inter, size_t n)
{
    unsigned char *out = test_alloc(n), *in = test_alloc(n * (size_t)remote);
    MPI_Request *requests = test_alloc(2 * (size_t)remote * sizeof *requests);
    test_fill(out, n, seed_of(is_child, me, 900));
    for (int peer = 0; peer < remote; peer++) {
        MPI_Irecv(in + n * (size_t)peer, (int)n, MPI_BYTE, peer, ALL_PAIRS, inter,
                  &requests[2 * peer]);
        MPI_Isend(out, (int)n, MPI_BYTE, peer, ALL_PAIRS, inter, &requests[2 * peer + 1]);
    }
    MPI_Waitall(2 * remote, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < remote; peer++)
        verify(in + n * (size_t)peer, n, seed_of(!is_child, peer, 900), "one of all messages");
    free(requests);
    free(in);
    free(out);
}

/* Every process of a world with all of it, itself included. */
static void own_world(size_t n)
{
    unsigned char *out = test_alloc(n), *in = test_alloc(n * (size_t)test_size);
    MPI_Request *requests = test_alloc(2 * (size_t)test_size * sizeof *requests);
    test_fill(out, n, seed_of(is_child, me, 901));
    for (int peer = 0; peer < test_size; peer++) {
        unsigned char *place = in + n * (size_t)peer;
        MPI_Isend(out, (int)n, MPI_BYTE, peer, 8, MPI_COMM_WORLD, &requests[2 * peer]);
        MPI_Irecv(place, (int)n, MPI_BYTE, peer, 8, MPI_COMM_WORLD, &requests[2 * peer + 1]);
    }
    MPI_Waitall(2 * test_size, requests, MPI_STATUSES_IGNORE);
    for (int peer = 0; peer < test_size; peer++)
        verify(in + n * (size_t)peer, n, seed_of(is_child, peer, 901), "a message of this world");
    free(requests);
    free(in);
    free(out);
}

/* The root argument if the root is process `rank` of the children or of the parents. */
static int root_in(int children, int rank)
{
    if (children != is_child)
        return rank;
    return rank == me ? MPI_ROOT : MPI_PROC_NULL;
}

static long value(int child, int rank, int to, int i)
{
    return ((child * 64L + rank) * 64 + to) * 100000 + i;
}

static void fill(long *v, int n, int to)
{
    for (int i = 0; i < n; i++)
        v[i] = value(is_child, me, to, i);
}

static void expect(const long *v, int n, int child, int rank, int to, const char *what)
{
    for (int i = 0; i < n; i++)
        if (v[i] != value(child, rank, to, i)) {
            CHECK(0, "%s: element %d of %d from %d of side %d is %ld", what, i, n, rank, child,
                  v[i]);
            return;
        }
}

/* Sum over the other side of element 0 for all. */
static void expect_sum(const long *v, int n, const char *what)
{
    for (int i = 0; i < n; i++) {
        long sum = 0;
        for (int rank = 0; rank < remote; rank++)
            sum += value(!is_child, rank, 0, i);
        if (v[i] != sum) {
            CHECK_INT(v[i], sum, what);
            return;
        }
    }
}

static void rooted(MPI_Comm inter, int n, long *out, long *in)
{
    for (int children = 0; children < 2; children++)
        for (int rank = 0; rank < (children == is_child ? local : remote); rank++) {
            int root = root_in(children, rank);
            if (root == MPI_ROOT)
                fill(out, n, 0);
            MPI_Bcast(root == MPI_ROOT ? out : in, n, MPI_LONG, root, inter);
            if (children != is_child)
                expect(in, n, children, rank, 0, "bcast");
            fill(out, n, 0);
            MPI_Gather(out, n, MPI_LONG, in, n, MPI_LONG, root, inter);
            for (int i = 0; root == MPI_ROOT && i < remote; i++)
                expect(in + (long)n * i, n, !is_child, i, 0, "gather");
            for (int i = 0; root == MPI_ROOT && i < remote; i++)
                fill(out + (long)n * i, n, i);
            MPI_Scatter(out, n, MPI_LONG, in, n, MPI_LONG, root, inter);
            if (children != is_child)
                expect(in, n, children, rank, me, "scatter");
            fill(out, n, 0);
            MPI_Reduce(out, in, n, MPI_LONG, MPI_SUM, root, inter);
            if (root == MPI_ROOT)
                expect_sum(in, n, "reduce");
        }
}

static void unrooted(MPI_Comm inter, int n, long *out, long *in)
{
    MPI_Request request;
    MPI_Barrier(inter);
    fill(out, n, 0);
    MPI_Allreduce(out, in, n, MPI_LONG, MPI_SUM, inter);
    expect_sum(in, n, "allreduce");
    MPI_Iallreduce(out, in, n, MPI_LONG, MPI_SUM, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect_sum(in, n, "iallreduce");
    MPI_Allgather(out, n, MPI_LONG, in, n, MPI_LONG, inter);
    for (int i = 0; i < remote; i++)
        expect(in + (long)n * i, n, !is_child, i, 0, "allgather");
    for (int i = 0; i < remote; i++)
        fill(out + (long)n * i, n, i);
    MPI_Alltoall(out, n, MPI_LONG, in, n, MPI_LONG, inter);
    for (int i = 0; i < remote; i++)
        expect(in + (long)n * i, n, !is_child, i, me, "alltoall");
    MPI_Ialltoall(out, n, MPI_LONG, in, n, MPI_LONG, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < remote; i++)
        expect(in + (long)n * i, n, !is_child, i, me, "ialltoall");
    /* Blocks of one element for each process of this side, summed over the other. */
    fill(out, local * remote, 0);
    MPI_Reduce_scatter_block(out, in, remote, MPI_LONG, MPI_SUM, inter);
    for (int i = 0; i < remote; i++) {
        long sum = 0;
        for (int rank = 0; rank < remote; rank++)
            sum += value(!is_child, rank, 0, me * remote + i);
        CHECK_INT(in[i], sum, "reduce_scatter_block");
    }
}

/* Of the merged communicator, against what every rank can compute. */
static void merged(MPI_Comm all, int n, long *out, long *in)
{
    int rank, size;
    long before = 0, sum = 0;
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    CHECK_INT(size, local + remote, "size of the merged communicator");
    CHECK_INT(rank, is_child ? remote + me : me, "rank in it, parents first");
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < n; i++)
            in[i] = rank == root ? value(5, root, 0, i) : -1;
        MPI_Bcast(in, n, MPI_LONG, root, all);
        expect(in, n, 5, root, 0, "bcast of all");
        for (int i = 0; i < n; i++)
            out[i] = value(6, rank, 0, i);
        MPI_Gather(out, n, MPI_LONG, in, n, MPI_LONG, root, all);
        for (int i = 0; rank == root && i < size; i++)
            expect(in + (long)n * i, n, 6, i, 0, "gather of all");
    }
    MPI_Allgather(out, n, MPI_LONG, in, n, MPI_LONG, all);
    for (int i = 0; i < size; i++)
        expect(in + (long)n * i, n, 6, i, 0, "allgather of all");
    for (int to = 0; to < size; to++)
        for (int i = 0; i < n; i++)
            out[to * n + i] = value(7, rank, to, i);
    MPI_Alltoall(out, n, MPI_LONG, in, n, MPI_LONG, all);
    for (int i = 0; i < size; i++)
        expect(in + (long)n * i, n, 7, i, rank, "alltoall of all");
    for (int i = 0; i < size; i++) {
        sum += i + 1;
        before += i <= rank ? i + 1 : 0;
    }
    for (int i = 0; i < n; i++)
        out[i] = (rank + 1) * (i + 1L);
    MPI_Allreduce(out, in, n, MPI_LONG, MPI_SUM, all);
    CHECK_INT(in[n - 1], sum * n, "allreduce of all");
    MPI_Scan(out, in, n, MPI_LONG, MPI_SUM, all);
    CHECK_INT(in[n - 1], before * n, "scan of all");
    MPI_Exscan(out, in, n, MPI_LONG, MPI_SUM, all);
    if (rank > 0)
        CHECK_INT(in[n - 1], (before - rank - 1) * n, "exscan of all");
    MPI_Reduce_scatter_block(out, in, n / size, MPI_LONG, MPI_SUM, all);
    CHECK_INT(in[0], sum * (rank * (n / size) + 1), "reduce_scatter_block of all");
    MPI_Barrier(all);
}

static void collectives(MPI_Comm inter, MPI_Comm all, int n)
{
    int size = local + remote;
    long *out = test_alloc((size_t)n * (size_t)size * sizeof *out);
    long *in = test_alloc((size_t)n * (size_t)size * sizeof *in);
    rooted(inter, n, out, in);
    unrooted(inter, n, out, in);
    merged(all, n, out, in);
    free(in);
    free(out);
}

/* A duplicate, and one half of each side. */
static void made_of_it(MPI_Comm inter)
{
    MPI_Comm twin, half, idle;
    MPI_Request request;
    int mine, theirs, result;
    MPI_Comm_dup(inter, &twin);
    MPI_Comm_compare(inter, twin, &result);
    CHECK_INT(result, MPI_CONGRUENT, "comparison with the duplicate");
    all_pairs(twin, 100);
    MPI_Comm_idup(inter, &idle, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_split(twin, me % 2, -me, &half);
    int expected = me % 2 ? remote / 2 : (remote + 1) / 2;
    if (expected == 0) {
        CHECK(half == MPI_COMM_NULL, "half of nothing");
    } else {
        MPI_Comm_remote_size(half, &theirs);
        MPI_Comm_size(half, &mine);
        CHECK_INT(theirs, expected, "remote size of a half");
        long one = me + 1, sum = 0, want = 0;
        for (int i = me % 2; i < remote; i += 2)
            want += i + 1;
        MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, half);
        CHECK_INT(sum, want, "sum over a half");
        MPI_Comm_free(&half);
    }
    MPI_Barrier(idle);
    MPI_Comm_disconnect(&idle);
    MPI_Comm_free(&twin);
}

int main(int argc, char **argv)
{
    spawned_init(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm inter = spawned_parent, all;
    is_child = inter != MPI_COMM_NULL;
    if (!is_child)
        inter = spawn_self(atoi(argv[1]), argv[1], NULL, NULL, test_size - 1, MPI_COMM_WORLD);
    MPI_Comm_rank(inter, &me);
    MPI_Comm_size(inter, &local);
    MPI_Comm_remote_size(inter, &remote);
    own_world(8);
    own_world(70000);
    messages(inter);
    all_pairs(inter, 50);
    all_pairs(inter, 20000);
    all_pairs(inter, 1 << 20);
    MPI_Intercomm_merge(inter, is_child, &all);
    collectives(inter, all, 12);
    collectives(inter, all, MIDDLE);
    collectives(inter, all, 40000);
    MPI_Comm_free(&all);
    made_of_it(inter);
    if (is_child)
        return spawned_finish();
    spawned_end(&inter);
    return test_finish();
}
