/* Conjugate gradient: solves A x = b, where A is the 7-point Laplacian on a cube of SIDE points
 * each way with zero outside, as the solvers do that use the method (NAS CG has a random sparse
 * matrix, which chai-2009 and ma-2011 do not look at).
 *
 * Blocks and their halos are those of halo.h: 6 messages an iteration and rank within the cube, and
 * two sums by MPI_Allreduce. A pass solves from x = 0 until the residual is 1e-10 of b. Figures,
 * each the median of 15 passes:
 *
 *     "cg"        milliseconds of a pass on the slowest rank
 *     "cg mpi"    of that inside of MPI, the ranks' mean, which contains waiting for slower ranks
 *     "cg call"   inside of one call, said by key "call"
 *     "cg share"  the same in hundredths of the time inside of MPI
 *
 * The solution is known: a random number for each point, whatever the number of ranks, from which
 * b is made. After every pass (not timed) the residual b - A x is computed anew and compared with
 * the one that the iteration carried along, and every point with the solution. Argument: SIDE
 * (48). */
#include "halo.h"

#include <math.h>

enum { PASSES = 15, WARM_UP_PASSES = 2, MOST_ITERATIONS_PER_POINT = 8 };
static const double tolerance = 1e-10;

static Grid grid;
static double *x, *r, *p, *ap, *b, *solution; /* blocks with halo */

/* Does something at every point of this rank; `i` is its place in a block. */
#define EACH_POINT(body)                                                                  \
    for (int plane = 1; plane <= grid.count[0]; plane++)                                  \
        for (int row = 1; row <= grid.count[1]; row++) {                                  \
            size_t row_start = ((size_t)plane * (size_t)grid.stored[1] + (size_t)row) *   \
                               (size_t)grid.stored[2];                                    \
            for (size_t i = row_start + 1; i <= row_start + (size_t)grid.count[2]; i++) { \
                body;                                                                     \
            }                                                                             \
        }

/* The number of a point in [0, 1), by its place in the cube. */
static double random_at(long at)
{
    uint64_t z = ((uint64_t)at + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* out = A in, after the exchange of the halo of `in`. */
static void apply(double *in, double *out)
{
    size_t down = (size_t)grid.stored[2], back = down * (size_t)grid.stored[1];
    grid_exchange(&grid, in);
    EACH_POINT(out[i] = 6 * in[i] - in[i - 1] - in[i + 1] - in[i - down] - in[i + down] -
                        in[i - back] - in[i + back]);
}

static double dot(const double *u, const double *v)
{
    double sum = 0;
    EACH_POINT(sum += u[i] * v[i]);
    return grid_sum(&grid, sum);
}

/* One pass; the function is the benchmark. Returns the residual's square that it ended with. */
static double solve(double target)
{
    EACH_POINT(x[i] = 0; r[i] = p[i] = b[i]);
    double rr = dot(r, r);
    int most = MOST_ITERATIONS_PER_POINT * grid.side;
    for (int iteration = 0; rr > target; iteration++) {
        if (iteration == most)
            bench_die("no solution after %d iterations: the residual is %g, not %g", most,
                      sqrt(rr), sqrt(target));
        apply(p, ap);
        double alpha = rr / dot(p, ap);
        EACH_POINT(x[i] += alpha * p[i]; r[i] -= alpha * ap[i]);
        double before = rr;
        rr = dot(r, r);
        double beta = rr / before;
        EACH_POINT(p[i] = r[i] + beta * p[i]);
    }
    return rr;
}

static void check(double carried, double bb)
{
    apply(x, ap);
    EACH_POINT(ap[i] = b[i] - ap[i]);
    double residual = sqrt(dot(ap, ap) / bb);
    if (!(fabs(residual - sqrt(carried / bb)) <= tolerance / 10) || residual > 2 * tolerance)
        bench_die("the residual is %g of b, the iteration carried %g", residual,
                  sqrt(carried / bb));
    EACH_POINT(if (!(fabs(x[i] - solution[i]) <= 1e-6))
                   bench_die("rank %d: a point is %.12g, not %.12g", grid.rank, x[i],
                             solution[i]));
}

/* The solution and b. */
static void prepare(void)
{
    double **blocks[] = {&x, &r, &p, &ap, &b, &solution};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
        *blocks[k] = allocate(grid.room * sizeof(double));
    EACH_POINT(long z = (long)(i - row_start) - 1 + grid.start[2];
               long y = row - 1 + grid.start[1];
               solution[i] = random_at(((long)(plane - 1 + grid.start[0]) * grid.side + y) *
                                       grid.side + z));
    apply(solution, b);
}

int main(int argc, char **argv)
{
    static PassTimes times;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    long side = argc > 1 ? bench_bytes(argv[1]) : 48;
    if (argc > 2 || side < 4 || side > 1024)
        bench_die("expected the points of a side, 4 to 1K");
    grid_make(&grid, 3, (int)side);
    prepare();
    double bb = dot(b, b);
    for (int n = -WARM_UP_PASSES; n < PASSES; n++) {
        memset(call_seconds, 0, sizeof call_seconds); /* what checks took */
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        double carried = solve(tolerance * tolerance * bb);
        pass_end(&times, now() - start, n >= 0);
        check(carried, bb);
    }
    if (rank == 0)
        print_passes("cg", side * side * side * (long)sizeof(double), grid.ranks, &times,
                     grid_calls, GRID_CALLS);
    grid_free(&grid);
    MPI_Finalize();
    return 0;
}
