/* Data-moving collectives of equal parts: Bcast, Gather, Scatter, Allgather, Alltoall; every root,
 * counts from 0, every pair of layouts on the two sides, in place. argv[1]: items of a large run.
 */
#include "layouts.h"

static void bcast(int n, const Layout *ls, const Layout *lr, int root, MPI_Comm comm)
{
    const Layout *l = test_rank == root ? ls : lr; /* equal signatures, different maps */
    int *b = lay_alloc(l, n);
    if (test_rank == root)
        lay_put(l, b, 0, n, root, 0);
    MPI_Bcast(b, n, l->type, root, comm);
    lay_touched(l, b, n, lay_check(l, b, 0, n, root, 0, "Bcast"), "Bcast");
    free(b);
}

static void gather(int n, const Layout *ls, const Layout *lr, int root, MPI_Comm comm)
{
    int p = test_size, *s = lay_alloc(ls, n), *r = lay_alloc(lr, n * p);
    lay_put(ls, s, 0, n, test_rank, root);
    for (int in_place = 0; in_place < 2; in_place++) {
        if (in_place && test_rank == root)
            lay_put(lr, r, root * n, n, root, root);
        if (test_rank == root)
            MPI_Gather(in_place ? MPI_IN_PLACE : s, n, ls->type, r, n, lr->type, root, comm);
        else
            MPI_Gather(s, n, ls->type, NULL, -1, MPI_DATATYPE_NULL, root, comm);
        if (test_rank == root) {
            int w = 0;
            for (int i = 0; i < p; i++)
                w += lay_check(lr, r, i * n, n, i, root, "Gather");
            lay_touched(lr, r, n * p, w, "Gather");
            for (int i = 0; i < n * p * lr->extent; i++)
                r[i] = UNTOUCHED;
        }
    }
    free(r);
    free(s);
}

static void scatter(int n, const Layout *ls, const Layout *lr, int root, MPI_Comm comm)
{
    int p = test_size, *s = lay_alloc(ls, n * p), *r = lay_alloc(lr, n);
    for (int i = 0; i < p; i++)
        lay_put(ls, s, i * n, n, root, i);
    for (int in_place = 0; in_place < 2; in_place++) {
        if (test_rank == root)
            MPI_Scatter(s, n, ls->type, in_place ? MPI_IN_PLACE : r, n, lr->type, root, comm);
        else
            MPI_Scatter(NULL, -1, MPI_DATATYPE_NULL, r, n, lr->type, root, comm);
        if (in_place && test_rank == root)
            lay_check(ls, s, root * n, n, root, root, "Scatter in place");
        else
            lay_touched(lr, r, n, lay_check(lr, r, 0, n, root, test_rank, "Scatter"), "Scatter");
        for (int i = 0; i < n * lr->extent; i++)
            r[i] = UNTOUCHED;
    }
    free(r);
    free(s);
}

static void allgather(int n, const Layout *ls, const Layout *lr, MPI_Comm comm)
{
    int p = test_size, *s = lay_alloc(ls, n), *r = lay_alloc(lr, n * p);
    lay_put(ls, s, 0, n, test_rank, 0);
    for (int in_place = 0; in_place < 2; in_place++) {
        int w = 0;
        for (int i = 0; i < n * p * lr->extent; i++)
            r[i] = UNTOUCHED;
        if (in_place) {
            lay_put(lr, r, test_rank * n, n, test_rank, 0);
            MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, r, n, lr->type, comm);
        } else {
            MPI_Allgather(s, n, ls->type, r, n, lr->type, comm);
        }
        for (int i = 0; i < p; i++)
            w += lay_check(lr, r, i * n, n, i, 0, "Allgather");
        lay_touched(lr, r, n * p, w, "Allgather");
    }
    free(r);
    free(s);
}

static void alltoall(int n, const Layout *ls, const Layout *lr, MPI_Comm comm)
{
    int p = test_size, *s = lay_alloc(ls, n * p), *r = lay_alloc(lr, n * p);
    for (int i = 0; i < p; i++)
        lay_put(ls, s, i * n, n, test_rank, i);
    for (int in_place = 0; in_place < 2; in_place++) {
        int w = 0;
        for (int i = 0; i < n * p * lr->extent; i++)
            r[i] = UNTOUCHED;
        if (in_place) {
            for (int i = 0; i < p; i++)
                lay_put(lr, r, i * n, n, test_rank, i);
            MPI_Alltoall(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, r, n, lr->type, comm);
        } else {
            MPI_Alltoall(s, n, ls->type, r, n, lr->type, comm);
        }
        for (int i = 0; i < p; i++)
            w += lay_check(lr, r, i * n, n, i, test_rank, "Alltoall");
        lay_touched(lr, r, n * p, w, "Alltoall");
    }
    free(r);
    free(s);
}

int main(int argc, char **argv)
{
    static const int small[] = {0, 1, 2, 3, 5, 8, 21, 100, 700, 3000};
    test_init(&argc, &argv);
    int large = argc > 1 ? atoi(argv[1]) : 0;
    int ncounts = large ? 1 : (int)(sizeof small / sizeof *small);
    layouts_make();
    for (int c = 0; c < ncounts; c++)
        for (int s = 0; s < LAYOUTS; s++)
            for (int r = 0; r < LAYOUTS; r++) {
                int n = large ? large : small[c];
                if (large && s != r && s + r != 1)
                    continue;
                for (int root = 0; root < test_size; root++) {
                    if (large && root != 0 && root != test_size - 1)
                        continue;
                    bcast(n, &layouts[s], &layouts[r], root, MPI_COMM_WORLD);
                    gather(n, &layouts[s], &layouts[r], root, MPI_COMM_WORLD);
                    scatter(n, &layouts[s], &layouts[r], root, MPI_COMM_WORLD);
                }
                allgather(n, &layouts[s], &layouts[r], MPI_COMM_WORLD);
                alltoall(n, &layouts[s], &layouts[r], MPI_COMM_WORLD);
            }
    layouts_free();
    return test_finish();
}
