/* FFT by transposes: a kernel of our own in the manner of NAS FT (chai-2009, chapters 2 and 6).
 *
 * An n x n matrix of complex doubles lies on the ranks by rows. One transform is the
 * two-dimensional FFT: an FFT of each local row (radix 2, in place), a transpose of the distributed
 * matrix by MPI_Alltoall, and an FFT of each row again; the result is the transform transposed.
 * "fft transpose S", "M", "L" (n = 256, 512, 1024) are milliseconds of a transform on the slowest
 * rank from a barrier on, the median of the transforms; "fft transpose S mpi" and so on are the
 * time inside of MPI_Alltoall, the ranks' mean, which contains waiting for slower ranks. The
 * transpose is
 *
 *     packed (default)    blocks are transposed into a buffer, MPI_Alltoall moves contiguous
 *                         blocks, rows are put together from a second buffer; the time inside
 *                         of MPI_Alltoall contains neither loop
 *     --datatype          MPI_Alltoall from matrix to matrix: the send type walks down the columns
 *                         of a block, the receive type along its rows; the measures end in
 *                         " datatype"
 *
 * Not timed: after every transform, the inverse transform by the same path must give back the input
 * within 1e-12 x log2 n; and one coefficient (another one each time) must equal its defining sum
 * over the whole matrix, which also tells a transform that is wrong in a way its inverse undoes.
 * Arguments: [--datatype], any of S, M, L (default all). The number of ranks must divide n. Needs
 * -lm. */
#include "compute.h"

#include <math.h>

struct complex_number {
    double re, im;
};
typedef struct complex_number number;

enum { MOST_TRANSFORMS = 64 };
static const struct shape {
    const char *name;
    int n, transforms;
} shapes[] = {{"S", 256, 61}, {"M", 512, 31}, {"L", 1024, 15}};

static int rank, size, by_datatype;
static double in_mpi; /* seconds of this rank inside of MPI_Alltoall in this transform */

struct grid {
    int n, rows;                 /* the matrix is n x n, this rank has `rows` of its rows */
    number *roots;               /* exp(-2 pi i k / n), k < n / 2 */
    number *to, *from;           /* blocks in order of ranks, n x rows, for the packed transpose */
    MPI_Datatype point;          /* a complex number */
    MPI_Datatype columns, lines; /* a block, column by column and row by row */
};

static number times(number a, number b)
{
    return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static double distance(number a, number b)
{
    return hypot(a.re - b.re, a.im - b.im);
}

/* The FFT of one row in place; `sign` is -1 forward, +1 inverse (not scaled). */
static void fft(const struct grid *g, number *row, int sign)
{
    int n = g->n;
    for (int i = 1, j = 0; i < n; i++) { /* j is i with its bits reversed */
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            number t = row[i];
            row[i] = row[j];
            row[j] = t;
        }
    }
    for (int half = 1; half < n; half *= 2)
        for (int start = 0; start < n; start += 2 * half)
            for (int k = 0; k < half; k++) {
                number w = g->roots[k * (n / 2 / half)], *a = row + start + k, *b = a + half;
                w.im *= -sign;
                number t = times(w, *b);
                *b = (number){a->re - t.re, a->im - t.im};
                *a = (number){a->re + t.re, a->im + t.im};
            }
}

static void alltoall(const void *out, MPI_Datatype out_type, void *in, MPI_Datatype in_type,
                     int count)
{
    double start = now();
    MPI_Alltoall(out, count, out_type, in, count, in_type, MPI_COMM_WORLD);
    in_mpi += now() - start;
}

/* The transpose of the distributed matrix `a` into `b`. */
static void transpose(const struct grid *g, const number *a, number *b)
{
    int n = g->n, rows = g->rows;
    if (by_datatype) {
        alltoall(a, g->columns, b, g->lines, 1);
        return;
    }
    for (int r = 0; r < rows; r++) /* element (r, c) goes to row c, place r of its block */
        for (int c = 0; c < n; c++)
            g->to[(size_t)c * rows + r] = a[(size_t)r * n + c];
    alltoall(g->to, g->point, g->from, g->point, rows * rows);
    for (int s = 0; s < size; s++)
        for (int r = 0; r < rows; r++)
            memcpy(b + (size_t)r * n + s * rows, g->from + ((size_t)s * rows + r) * rows,
                   sizeof(number) * rows);
}

static void transform(const struct grid *g, number *a, number *b, int sign)
{
    for (int r = 0; r < g->rows; r++)
        fft(g, a + (size_t)r * g->n, sign);
    transpose(g, a, b);
    for (int r = 0; r < g->rows; r++)
        fft(g, b + (size_t)r * g->n, sign);
}

/* Coefficient (u, v) of the input by its definition, on all ranks; with the root's index exact. */
static number coefficient(const struct grid *g, const number *input, int u, int v)
{
    number sum = {0, 0};
    for (int r = 0; r < g->rows; r++)
        for (int c = 0; c < g->n; c++) {
            int k = (int)(((long)u * (rank * g->rows + r) + (long)v * c) % g->n), half = g->n / 2;
            number w = g->roots[k % half], t = times(input[(size_t)r * g->n + c], w);
            sum.re += k < half ? t.re : -t.re;
            sum.im += k < half ? t.im : -t.im;
        }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* `result` is the transform of `input`, transposed; it is destroyed, and so is `scratch`. */
static void verify(const struct grid *g, const number *input, number *result, number *scratch,
                   int which)
{
    int n = g->n, u = which * 37 % n, v = (which * 101 + 1) % n;
    double bound = 1e-12 * log2(n);
    number want = coefficient(g, input, u, v);
    if (v / g->rows == rank) {
        number got = result[(size_t)(v % g->rows) * n + u];
        if (!(distance(got, want) <= bound * n)) /* n: the size of coefficients */
            bench_die("coefficient (%d, %d) is %.15g%+.15gi, its sum is %.15g%+.15gi", u, v, got.re,
                      got.im, want.re, want.im);
    }
    transform(g, result, scratch, +1);
    double scale = 1.0 / n / n;
    for (size_t i = 0; i < (size_t)g->rows * n; i++) {
        number was = input[i], is = {scratch[i].re * scale, scratch[i].im * scale};
        if (!(distance(is, was) <= bound))
            bench_die("rank %d: element %zu was %.15g%+.15gi, the inverse gave %.15g%+.15gi", rank,
                      i, was.re, was.im, is.re, is.im);
    }
}

static void resized(MPI_Datatype *type, MPI_Aint extent)
{
    MPI_Datatype raw = *type;
    MPI_Type_create_resized(raw, 0, extent, type);
    MPI_Type_free(&raw);
    MPI_Type_commit(type);
}

static void plan(struct grid *g, int n)
{
    g->n = n;
    g->rows = n / size;
    size_t bytes = (size_t)g->rows * n * sizeof(number);
    g->roots = allocate((size_t)n / 2 * sizeof(number));
    for (int k = 0; k < n / 2; k++) {
        double angle = -2 * 3.14159265358979323846 * k / n;
        g->roots[k] = (number){cos(angle), sin(angle)};
    }
    g->to = allocate(bytes);
    g->from = allocate(bytes);
    MPI_Type_contiguous(2, MPI_DOUBLE, &g->point);
    MPI_Type_commit(&g->point);
    MPI_Datatype column;
    MPI_Type_vector(g->rows, 1, n, g->point, &column);
    resized(&column, sizeof(number));
    MPI_Type_contiguous(g->rows, column, &g->columns);
    resized(&g->columns, g->rows * (MPI_Aint)sizeof(number));
    MPI_Type_free(&column);
    MPI_Type_vector(g->rows, g->rows, n, g->point, &g->lines);
    resized(&g->lines, g->rows * (MPI_Aint)sizeof(number));
}

static void discard(struct grid *g)
{
    MPI_Type_free(&g->point);
    MPI_Type_free(&g->columns);
    MPI_Type_free(&g->lines);
    free(g->roots);
    free(g->to);
    free(g->from);
}

static void measure(const struct shape *shape)
{
    struct grid g;
    double ms[MOST_TRANSFORMS], mpi_ms[MOST_TRANSFORMS];
    if (shape->n % size)
        bench_die("%d ranks do not divide %d rows", size, shape->n);
    plan(&g, shape->n);
    size_t points = (size_t)g.rows * g.n;
    number *input = allocate(points * sizeof(number)), *a = allocate(points * sizeof(number));
    number *b = allocate(points * sizeof(number));
    for (size_t i = 0; i < points; i++) { /* from -1 to 1, and other values on every rank */
        uint64_t x = ((uint64_t)rank * points + i + 1) * 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
        input[i].re = (double)(x >> 32) / 2147483648.0 - 1;
        input[i].im = (double)(x & 0xffffffffu) / 2147483648.0 - 1;
    }
    for (int i = -2; i < shape->transforms; i++) {
        memcpy(a, input, points * sizeof(number));
        in_mpi = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        double time = now(), slowest, sum;
        transform(&g, a, b, -1);
        time = now() - time;
        MPI_Reduce(&time, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        MPI_Reduce(&in_mpi, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        verify(&g, input, b, a, i + 3);
        if (i >= 0 && rank == 0) {
            ms[i] = slowest * 1e3;
            mpi_ms[i] = sum / size * 1e3;
        }
    }
    if (rank == 0) {
        const char *by = by_datatype ? " datatype" : "";
        long bytes = (long)(points * sizeof(number)) * size;
        char name[64];
        snprintf(name, sizeof name, "fft transpose %s%s", shape->name, by);
        figure(name, bytes, size, ms, shape->transforms, "ms", shape->transforms, "");
        snprintf(name, sizeof name, "fft transpose %s%s mpi", shape->name, by);
        figure(name, bytes, size, mpi_ms, shape->transforms, "ms", shape->transforms, "");
    }
    free(input);
    free(a);
    free(b);
    discard(&g);
}

int main(int argc, char **argv)
{
    const size_t n = sizeof shapes / sizeof *shapes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    by_datatype = bench_option(&argc, argv, "--datatype");
    for (int i = 1; i < argc; i++) {
        size_t which = 0;
        while (which < n && strcmp(argv[i], shapes[which].name))
            which++;
        if (which == n)
            bench_die("unknown argument '%s': known are --datatype, S, M, L", argv[i]);
        measure(&shapes[which]);
    }
    for (size_t i = 0; i < n && argc == 1; i++)
        measure(&shapes[i]);
    MPI_Finalize();
    return 0;
}
