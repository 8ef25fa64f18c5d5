/* A get finds what the same origin has accumulated and put at the same place before, with no more
 * than MPI_Win_flush_local between them: beyond what the standard promises, but ARMCI-MPI's default,
 * and so Global Arrays', relies on it. Short gets and long ones, which may take other ways between
 * nodes. */
#include "test.h"

enum { LONG = 20000 };

static double ones[LONG], got[LONG];

static int differ(int n, double expected)
{
    int bad = 0;
    for (int i = 0; i < n; i++)
        bad += got[i] != expected;
    return bad;
}

/* Rounds of `each` accumulates of `n` elements and a get. */
static void accumulates(MPI_Win win, int target, int n, int each, int rounds)
{
    for (int k = 1; k <= rounds; k++) {
        for (int i = 0; i < each; i++)
            MPI_Accumulate(ones, n, MPI_DOUBLE, target, 0, n, MPI_DOUBLE, MPI_SUM, win);
        MPI_Win_flush_local(target, win);
        MPI_Get(got, n, MPI_DOUBLE, target, 0, n, MPI_DOUBLE, win);
        MPI_Win_flush_local(target, win);
        CHECK_INT(differ(n, (double)k * each), 0, "elements that a get found without the last accumulates");
        if (k % 50 == 0)
            MPI_Win_flush(target, win);
    }
}

/* Every other element, which goes by requests where contiguous puts do not. */
static void puts_apart(MPI_Win win, int target, int n)
{
    MPI_Datatype apart;
    MPI_Type_vector(n / 2, 1, 2, MPI_DOUBLE, &apart);
    MPI_Type_commit(&apart);
    MPI_Put(ones, n / 2, MPI_DOUBLE, target, 0, 1, apart, win);
    MPI_Win_flush_local(target, win);
    MPI_Get(got, n, MPI_DOUBLE, target, 0, n, MPI_DOUBLE, win);
    MPI_Win_flush_local(target, win);
    for (int i = 0; i < n; i += 2)
        CHECK(got[i] == 1, "element %d is %g after a put", i, got[i]);
    MPI_Type_free(&apart);
}

int main(int argc, char **argv)
{
    static const int elements[] = {16, 1000, LONG}, rounds[] = {400, 400, 30};
    double *base;
    MPI_Win win;
    test_init(&argc, &argv);
    for (int i = 0; i < LONG; i++)
        ones[i] = 1;
    for (int i = 0; i < 3; i++) {
        int target = test_size - 1;
        MPI_Win_allocate(LONG * (MPI_Aint)sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
        memset(base, 0, LONG * sizeof *base);
        MPI_Win_lock_all(0, win);
        MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (test_rank == 0) {
            accumulates(win, target, elements[i], elements[i] == 16 ? 30 : 3, rounds[i]);
            puts_apart(win, target, elements[i]);
        }
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
    }
    return test_finish();
}
