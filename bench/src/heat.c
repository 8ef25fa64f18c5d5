/* Heat: the explicit scheme for the equation of heat on a square, by MPI or by MPI and OpenMP
 * (chai-2009, 4.3.3, asks which: ranks x threads at equal cores).
 *
 * Every step sets each of SIDE x SIDE points to the mean of its four neighbours (Jacobi); the
 * boundary is zero. Blocks and their halos are those of halo.h: 4 messages a step and rank within
 * the square. Every 20 steps MPI_Allreduce sums the squares of all points. A pass is 100 steps.
 * Figures, each the median of 15 passes:
 *
 *     "heat"        milliseconds of a pass on the slowest rank
 *     "heat mpi"    of that inside of MPI, the ranks' mean, which contains waiting for slower ranks
 *     "heat call"   inside of one call, said by key "call"
 *     "heat share"  the same in hundredths of the time inside of MPI
 *
 * The beginning is a sum of two modes, sin(k pi x) sin(l pi y), each of which the scheme multiplies
 * in a step by (cos(k pi h) + cos(l pi h)) / 2. So all points are known after any number of steps:
 * they are checked after every pass (not timed), the sums of squares whenever they are made.
 *
 * Arguments: points of a side (512). `--threads T` needs a program compiled with -fopenmp, and lets
 * T threads of each rank compute; the first one communicates (MPI_THREAD_FUNNELED). */
#include "halo.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { STEPS = 100, SUM_EVERY = 20, PASSES = 15, WARM_UP_PASSES = 3, MODES = 2 };

static const struct mode {
    int k, l;
    double amplitude;
} modes[MODES] = {{1, 1, 1.0}, {3, 2, 0.5}};

static Grid grid;
static double *current, *next;  /* the block before and after a step */
static double *sines[MODES][2]; /* of each mode: along this rank's rows, and its columns */
static double factor[MODES];    /* of each mode: what it is multiplied by after all steps */
static const double pi = 3.14159265358979323846;

/* Angle of `number` half waves over the distance of two points. */
static double angle(int number)
{
    return number * pi / (grid.side + 1);
}

static void modes_begin(void)
{
    for (int m = 0; m < MODES; m++) {
        factor[m] = 1;
        for (int d = 0; d < 2; d++) {
            double per_point = angle(d ? modes[m].l : modes[m].k);
            sines[m][d] = allocate((size_t)grid.count[d] * sizeof(double));
            for (int i = 0; i < grid.count[d]; i++)
                sines[m][d][i] = sin(per_point * (grid.start[d] + i + 1));
        }
    }
}

/* The value of a point of this rank. */
static double expected(int row, int column)
{
    double sum = 0;
    for (int m = 0; m < MODES; m++)
        sum += modes[m].amplitude * factor[m] * sines[m][0][row] * sines[m][1][column];
    return sum;
}

static double *point(double *block, int row, int column)
{
    return block + (size_t)(row + 1) * (size_t)grid.stored[1] + column + 1;
}

/* Modes are orthogonal, and the squares of a sine at all points have the sum (SIDE + 1) / 2. */
static void check_squares(double got)
{
    double half = (grid.side + 1) / 2.0, want = 0;
    for (int m = 0; m < MODES; m++)
        want += modes[m].amplitude * modes[m].amplitude * factor[m] * factor[m] * half * half;
    if (!(fabs(got - want) <= 1e-9 * want))
        bench_die("rank %d: the sum of squares is %.17g, not %.17g", grid.rank, got, want);
}

static void check_points(void)
{
    for (int row = 0; row < grid.count[0]; row++)
        for (int column = 0; column < grid.count[1]; column++) {
            double got = *point(current, row, column), want = expected(row, column);
            if (!(fabs(got - want) <= 1e-11))
                bench_die("rank %d: point %d, %d is %.17g, not %.17g", grid.rank, row, column,
                          got, want);
        }
}

static void compute(void)
{
    int rows = grid.count[0], columns = grid.count[1];
    long stride = grid.stored[1];
    double *from = current, *to = next;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int row = 1; row <= rows; row++) {
        const double *in = from + row * stride;
        double *out = to + row * stride;
        for (int c = 1; c <= columns; c++)
            out[c] = 0.25 * (in[c - 1] + in[c + 1] + in[c - stride] + in[c + stride]);
    }
    current = to;
    next = from;
}

static double squares(void)
{
    int rows = grid.count[0], columns = grid.count[1];
    long stride = grid.stored[1];
    const double *block = current;
    double sum = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(static) reduction(+ : sum)
#endif
    for (int row = 1; row <= rows; row++)
        for (int c = 1; c <= columns; c++)
            sum += block[row * stride + c] * block[row * stride + c];
    return sum;
}

static void pass(void)
{
    for (int step = 1; step <= STEPS; step++) {
        grid_exchange(&grid, current);
        compute();
        for (int m = 0; m < MODES; m++)
            factor[m] *= (cos(angle(modes[m].k)) + cos(angle(modes[m].l))) / 2;
        if (step % SUM_EVERY == 0)
            check_squares(grid_sum(&grid, squares()));
    }
}

/* Sets the number of threads that compute. */
static void use_threads(long threads, int level)
{
#ifdef _OPENMP
    int got = 0;
    if (threads > 1 && level < MPI_THREAD_FUNNELED)
        bench_die("the library gives thread level %d, which is less than MPI_THREAD_FUNNELED",
                  level);
    omp_set_dynamic(0);
    omp_set_num_threads((int)threads);
#pragma omp parallel reduction(+ : got)
    got += 1;
    if (got != threads)
        bench_die("%d threads compute, not %ld", got, threads);
#else
    (void)level;
    if (threads != 1)
        bench_die("--threads needs a program compiled with -fopenmp");
#endif
}

int main(int argc, char **argv)
{
    static PassTimes times;
    int level, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    use_threads(bench_option_bytes(&argc, argv, "--threads", 1), level);
    long side = argc > 1 ? bench_bytes(argv[1]) : 512;
    if (argc > 2 || side < 4 || side > 32768)
        bench_die("expected the points of a side, 4 to 32K");
    grid_make(&grid, 2, (int)side);
    current = allocate(grid.room * sizeof(double));
    next = allocate(grid.room * sizeof(double));
    modes_begin();
    for (int row = 0; row < grid.count[0]; row++)
        for (int column = 0; column < grid.count[1]; column++)
            *point(current, row, column) = expected(row, column);
    for (int p = -WARM_UP_PASSES; p < PASSES; p++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        pass();
        pass_end(&times, now() - start, p >= 0);
        check_points();
    }
    if (rank == 0)
        print_passes("heat", side * side * (long)sizeof(double), grid.ranks, &times, grid_calls,
                     GRID_CALLS);
    grid_free(&grid);
    MPI_Finalize();
    return 0;
}
