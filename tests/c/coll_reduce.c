/* Reduce, Allreduce, Reduce_scatter, Reduce_scatter_block, Scan, Exscan, Reduce_local, Barrier:
 * every root, counts from 0, in place, against sums done here. argv[1]: elements of a large run. */
#include "test.h"

static long value(int rank, int i)
{
    return (long)(rank + 1) * (i % 1000 + 3) + i;
}

/* Sum of value(0..last, i). */
static long sum(int last, int i)
{
    long s = 0;
    for (int r = 0; r <= last; r++)
        s += value(r, i);
    return s;
}

static void put(long *b, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = value(test_rank, i);
}

static void is(const long *b, int n, int last, int from, const char *what)
{
    for (int i = 0; i < n; i++) {
        long want = sum(last, from + i);
        CHECK(b[i] == want, "%s, %d elements: element %d is %ld, expected %ld", what, n, i, b[i],
              want);
        if (b[i] != want)
            return;
    }
}

static void rooted(int n, int root)
{
    long *s = test_alloc(sizeof(long) * (size_t)n), *r = test_alloc(sizeof(long) * (size_t)(n + 1));
    put(s, n);
    memset(r, 0, sizeof(long) * (size_t)n);
    r[n] = -5;
    if (test_rank == root)
        MPI_Reduce(s, r, n, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD);
    else
        MPI_Reduce(s, NULL, n, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD);
    if (test_rank == root) {
        is(r, n, test_size - 1, 0, "Reduce");
        CHECK_INT(r[n], -5, "element after the result of Reduce");
        MPI_Reduce(MPI_IN_PLACE, s, n, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD);
        is(s, n, test_size - 1, 0, "Reduce in place");
    } else {
        MPI_Reduce(s, NULL, n, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            CHECK_INT(s[i], value(test_rank, i), "send buffer after Reduce");
    }
    free(r);
    free(s);
}

static void all(int n)
{
    int p = test_size, me = test_rank;
    size_t bytes = sizeof(long) * (size_t)(n + 1);
    long *s = test_alloc(bytes), *r = test_alloc(bytes);
    put(s, n);
    memset(r, 0, bytes);
    MPI_Allreduce(s, r, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    is(r, n, p - 1, 0, "Allreduce");
    memcpy(r, s, bytes);
    MPI_Allreduce(MPI_IN_PLACE, r, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    is(r, n, p - 1, 0, "Allreduce in place");

    MPI_Scan(s, r, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    is(r, n, me, 0, "Scan");
    memcpy(r, s, bytes);
    MPI_Scan(MPI_IN_PLACE, r, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    is(r, n, me, 0, "Scan in place");

    for (int i = 0; i < n; i++)
        r[i] = -77;
    MPI_Exscan(s, r, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (me) /* on rank 0 the result is undefined */
        is(r, n, me - 1, 0, "Exscan");
    memcpy(r, s, bytes);
    MPI_Exscan(MPI_IN_PLACE, r, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (me)
        is(r, n, me - 1, 0, "Exscan in place");

    memcpy(r, s, bytes);
    MPI_Reduce_local(s, r, n, MPI_LONG, MPI_SUM);
    for (int i = 0; i < n; i++)
        CHECK_INT(r[i], 2 * s[i], "Reduce_local");
    free(r);
    free(s);
}

static void scattered(int n)
{
    int p = test_size, me = test_rank, total = 0, mine_at = 0;
    int *c = test_alloc(sizeof(int) * (size_t)p);
    /* block form: n elements each */
    long *s = test_alloc(sizeof(long) * (size_t)(n * p + 1));
    long *r = test_alloc(sizeof(long) * (size_t)(n + 1));
    put(s, n * p);
    r[n] = -5;
    MPI_Reduce_scatter_block(s, r, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    is(r, n, p - 1, me * n, "Reduce_scatter_block");
    CHECK_INT(r[n], -5, "element after the result of Reduce_scatter_block");
    MPI_Reduce_scatter_block(MPI_IN_PLACE, s, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    is(s, n, p - 1, me * n, "Reduce_scatter_block in place");
    free(r);
    free(s);
    /* general form: uneven, some empty */
    for (int i = 0; i < p; i++) {
        c[i] = i % 3 == 1 ? 0 : n + i;
        if (i < me)
            mine_at += c[i];
        total += c[i];
    }
    s = test_alloc(sizeof(long) * (size_t)(total + 1));
    r = test_alloc(sizeof(long) * (size_t)(c[me] + 1));
    put(s, total);
    r[c[me]] = -5;
    MPI_Reduce_scatter(s, r, c, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    is(r, c[me], p - 1, mine_at, "Reduce_scatter");
    CHECK_INT(r[c[me]], -5, "element after the result of Reduce_scatter");
    MPI_Reduce_scatter(MPI_IN_PLACE, s, c, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    is(s, c[me], p - 1, mine_at, "Reduce_scatter in place");
    free(r);
    free(s);
    free(c);
}

/* No rank leaves a barrier before the last has entered: a message sent before it is there after. */
static void barrier(void)
{
    for (int i = 0; i < 50; i++) {
        int last = i % test_size, flag = 0;
        MPI_Request r;
        if (test_size < 2)
            break;
        int to = (last + 1) % test_size;
        if (test_rank == last)
            MPI_Issend(&i, 1, MPI_INT, to, 3, MPI_COMM_WORLD, &r);
        MPI_Barrier(MPI_COMM_WORLD);
        if (test_rank == to) {
            int x = -1;
            MPI_Recv(&x, 1, MPI_INT, last, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_INT(x, i, "message around the barrier");
        }
        if (test_rank == last)
            while (!flag)
                MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    static const int small[] = {0, 1, 2, 3, 4, 7, 8, 9, 31, 100, 511, 1025, 5000};
    test_init(&argc, &argv);
    int large = argc > 1 ? atoi(argv[1]) : 0;
    for (int c = 0; c < (large ? 1 : (int)(sizeof small / sizeof *small)); c++) {
        int n = large ? large : small[c];
        for (int root = 0; root < test_size; root++)
            if (!large || root == 0 || root == test_size - 1)
                rooted(n, root);
        all(n);
        scattered(large ? n / test_size : n);
    }
    barrier();
    return test_finish();
}
