/* The v and w forms: Gatherv, Scatterv, Allgatherv, Alltoallv, Alltoallw; parts of different sizes
 * (some empty), displacements out of order and with gaps, every root, in place, every layout. */
#include <stddef.h>
#include <stdint.h>
#include "layouts.h"

static int *counts, *displs;

/* Part i has (i * 5 + base) % 7 (times scale) items; parts lie in reverse order with gaps of two.
 */
static int plan(int base, int scale)
{
    int at = 1;
    for (int i = test_size - 1; i >= 0; i--) {
        counts[i] = (i * 5 + base) % 7 * scale;
        displs[i] = at;
        at += counts[i] + 2;
    }
    return at;
}

static void rooted(const Layout *ls, const Layout *lr, int base, int scale)
{
    int total = plan(base, scale), p = test_size, me = test_rank;
    for (int root = 0; root < p; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            int *part = lay_alloc(ls, counts[me]), *all = lay_alloc(lr, total), w = 0;
            lay_put(ls, part, 0, counts[me], me, root);
            if (me == root) {
                if (in_place)
                    lay_put(lr, all, displs[me], counts[me], me, root);
                MPI_Gatherv(in_place ? MPI_IN_PLACE : part, counts[me], ls->type, all, counts,
                            displs, lr->type, root, MPI_COMM_WORLD);
                for (int i = 0; i < p; i++)
                    w += lay_check(lr, all, displs[i], counts[i], i, root, "Gatherv");
                lay_touched(lr, all, total, w, "Gatherv");
            } else {
                MPI_Gatherv(part, counts[me], ls->type, NULL, NULL, NULL, MPI_DATATYPE_NULL, root,
                            MPI_COMM_WORLD);
            }
            free(part);
            part = lay_alloc(ls, counts[me]);
            if (me == root) {
                for (int i = 0; i < p; i++)
                    lay_put(lr, all, displs[i], counts[i], root, i);
                MPI_Scatterv(all, counts, displs, lr->type, in_place ? MPI_IN_PLACE : part,
                             counts[me], ls->type, root, MPI_COMM_WORLD);
            } else {
                MPI_Scatterv(NULL, NULL, NULL, MPI_DATATYPE_NULL, part, counts[me], ls->type, root,
                             MPI_COMM_WORLD);
            }
            if (!(in_place && me == root)) {
                w = lay_check(ls, part, 0, counts[me], root, me, "Scatterv");
                lay_touched(ls, part, counts[me], w, "Scatterv");
            }
            free(all);
            free(part);
        }
}

static void allgatherv(const Layout *ls, const Layout *lr, int base, int scale)
{
    int total = plan(base, scale), p = test_size, me = test_rank;
    for (int in_place = 0; in_place < 2; in_place++) {
        int *part = lay_alloc(ls, counts[me]), *all = lay_alloc(lr, total), w = 0;
        lay_put(ls, part, 0, counts[me], me, 0);
        if (in_place)
            lay_put(lr, all, displs[me], counts[me], me, 0);
        MPI_Allgatherv(in_place ? MPI_IN_PLACE : part, counts[me], ls->type, all, counts, displs,
                       lr->type, MPI_COMM_WORLD);
        for (int i = 0; i < p; i++)
            w += lay_check(lr, all, displs[i], counts[i], i, 0, "Allgatherv");
        lay_touched(lr, all, total, w, "Allgatherv");
        free(all);
        free(part);
    }
}

/* How much rank i sends to rank j. */
static int pair(int i, int j, int base, int scale)
{
    return (i * 3 + j * 5 + base) % 6 * scale;
}

/* Symmetric counts, which in place requires. */
static int pair_sym(int i, int j, int base, int scale)
{
    return i < j ? pair(i, j, base, scale) : pair(j, i, base, scale);
}

static void alltoall(const Layout *ls, const Layout *lr, int base, int scale, int w_form)
{
    int p = test_size, me = test_rank;
    int *sc = test_alloc(sizeof(int) * (size_t)p), *sd = test_alloc(sizeof(int) * (size_t)p);
    int *rc = test_alloc(sizeof(int) * (size_t)p), *rd = test_alloc(sizeof(int) * (size_t)p);
    MPI_Datatype *st = test_alloc(sizeof *st * (size_t)p), *rt = test_alloc(sizeof *rt * (size_t)p);
    for (int in_place = 0; in_place < 2; in_place++) {
        int s_at = 0, r_at = 2, w = 0;
        for (int i = 0; i < p; i++) {
            sc[i] = in_place ? pair_sym(me, i, base, scale) : pair(me, i, base, scale);
            sd[i] = s_at;
            s_at += sc[i] + 1;
            st[i] = ls->type;
        }
        for (int i = p - 1; i >= 0; i--) {
            rc[i] = in_place ? pair_sym(i, me, base, scale) : pair(i, me, base, scale);
            rd[i] = r_at;
            r_at += rc[i] + 2;
            rt[i] = lr->type;
        }
        int *s = lay_alloc(ls, s_at), *r = lay_alloc(lr, r_at);
        for (int i = 0; i < p; i++)
            if (in_place)
                lay_put(lr, r, rd[i], rc[i], me, i);
            else
                lay_put(ls, s, sd[i], sc[i], me, i);
        if (w_form) { /* displacements in bytes */
            int *sb = test_alloc(sizeof(int) * (size_t)p), *rb = test_alloc(sizeof(int) * (size_t)p);
            for (int i = 0; i < p; i++) {
                sb[i] = sd[i] * ls->extent * (int)sizeof(int);
                rb[i] = rd[i] * lr->extent * (int)sizeof(int);
            }
            MPI_Alltoallw(in_place ? MPI_IN_PLACE : s, sc, sb, st, r, rc, rb, rt, MPI_COMM_WORLD);
            free(rb);
            free(sb);
        } else {
            MPI_Alltoallv(in_place ? MPI_IN_PLACE : s, sc, sd, ls->type, r, rc, rd, lr->type,
                          MPI_COMM_WORLD);
        }
        const char *what = w_form ? "Alltoallw" : "Alltoallv";
        for (int i = 0; i < p; i++)
            w += lay_check(lr, r, rd[i], rc[i], i, me, what);
        lay_touched(lr, r, r_at, w, what);
        free(r);
        free(s);
    }
    free(rt);
    free(st);
    free(rd);
    free(rc);
    free(sd);
    free(sc);
}

/* Each rank sends ints to even peers, doubles to odd ones, all by one Alltoallw. */
static void mixed_types(void)
{
    int p = test_size, me = test_rank;
    int *c = test_alloc(sizeof(int) * (size_t)p), *d = test_alloc(sizeof(int) * (size_t)p);
    int *rd = test_alloc(sizeof(int) * (size_t)p);
    MPI_Datatype *st = test_alloc(sizeof *st * (size_t)p), *rt = test_alloc(sizeof *rt * (size_t)p);
    double *s = test_alloc(sizeof *s * (size_t)p), *r = test_alloc(sizeof *r * (size_t)p);
    for (int i = 0; i < p; i++) {
        c[i] = 1;
        d[i] = rd[i] = i * (int)sizeof(double);
        int s_int = (me + i) % 2 == 0;
        st[i] = rt[i] = s_int ? MPI_INT : MPI_DOUBLE;
        int iv = me * 100 + i;
        double dv = me + i / 1000.0;
        memcpy(&s[i], s_int ? (void *)&iv : (void *)&dv, s_int ? sizeof iv : sizeof dv);
    }
    MPI_Alltoallw(s, c, d, st, r, c, rd, rt, MPI_COMM_WORLD);
    for (int i = 0; i < p; i++) {
        int iv;
        memcpy(&iv, &r[i], sizeof iv);
        if ((me + i) % 2 == 0)
            CHECK_INT(iv, i * 100 + me, "int by Alltoallw");
        else
            CHECK(r[i] == i + me / 1000.0, "double by Alltoallw is %g", r[i]);
    }
    free(r);
    free(s);
    free(rt);
    free(st);
    free(rd);
    free(d);
    free(c);
}

/* A block without elements may have any displacement; one with elements that no address can reach
 * is a mistake. */
static void far_displacements(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    size_t n = (size_t)test_size;
    MPI_Count *counts = test_alloc(n * sizeof *counts);
    MPI_Aint *displs = test_alloc(n * sizeof *displs);
    double one = 1;
    for (int i = 0; i < test_size; i++) {
        counts[i] = 0;
        displs[i] = PTRDIFF_MAX;
    }
    CHECK_INT(MPI_Alltoallv_c(&one, counts, displs, MPI_DOUBLE, &one, counts, displs, MPI_DOUBLE, comm), MPI_SUCCESS,
              "an alltoallv of nothing, with displacements out of reach");
    counts[test_size - 1] = 1;
    CHECK_CLASS(MPI_Alltoallv_c(&one, counts, displs, MPI_DOUBLE, &one, counts, displs, MPI_DOUBLE, comm), MPI_ERR_ARG,
                "an alltoallv with a displacement out of reach");
    free(counts);
    free(displs);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int large = argc > 1 ? atoi(argv[1]) : 0;
    counts = test_alloc(sizeof(int) * (size_t)test_size);
    displs = test_alloc(sizeof(int) * (size_t)test_size);
    layouts_make();
    for (int base = 0; base < (large ? 1 : 7); base++)
        for (int scale = large ? large : 1; scale <= (large ? large : 500); scale *= 22)
            for (int s = 0; s < LAYOUTS; s++)
                for (int r = 0; r < LAYOUTS; r++) {
                    const Layout *ls = &layouts[s], *lr = &layouts[r];
                    rooted(ls, lr, base, scale);
                    allgatherv(ls, lr, base, scale);
                    alltoall(ls, lr, base, scale, 0);
                    alltoall(ls, lr, base, scale, 1);
                }
    mixed_types();
    layouts_free();
    free(displs);
    free(counts);
    far_displacements();
    return test_finish();
}
