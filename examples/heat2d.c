/* Heat in a square plate, by Jacobi's iteration.
 *
 * The plate's upper edge is held at 100 degrees, the others at 0. The grid of NX x NY inner points is
 * cut into horizontal strips, one a rank; before each sweep neighbours exchange the rows that border
 * on each other (ghost rows). Every CHECK sweeps the ranks agree on the largest change. At the end rank 0
 * gathers the plate, computes it again alone, and compares: the answer must be the same to the bit,
 * because every point is computed from the same four neighbours in the same order.
 *
 *   mpicc -O2 heat2d.c -o heat2d -lm
 *   mpiexec -n 4 ./heat2d [NX [NY [SWEEPS]]]
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHECK = 50 };
static const double HOT = 100.0;

/* A strip of `rows` rows of nx points, with a border of one point all around. */
typedef struct {
    int nx, rows;
    double *now, *next;
} Strip;

static double *row(const Strip *s, double *grid, int i)
{
    return grid + (size_t)i * (size_t)(s->nx + 2);
}

static void *allocate(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) {
        fprintf(stderr, "heat2d: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

static Strip make(int nx, int rows, int is_top)
{
    Strip s = {nx, rows, NULL, NULL};
    size_t bytes = (size_t)(nx + 2) * (size_t)(rows + 2) * sizeof(double);
    s.now = allocate(bytes);
    s.next = allocate(bytes);
    for (int j = 0; is_top && j < nx + 2; j++)
        s.now[j] = s.next[j] = HOT;
    return s;
}

/* One sweep; returns the largest change of a point. */
static double sweep(Strip *s)
{
    double change = 0;
    for (int i = 1; i <= s->rows; i++) {
        const double *up = row(s, s->now, i - 1), *here = row(s, s->now, i);
        const double *down = row(s, s->now, i + 1);
        double *out = row(s, s->next, i);
        for (int j = 1; j <= s->nx; j++) {
            out[j] = 0.25 * (up[j] + down[j] + here[j - 1] + here[j + 1]);
            change = fmax(change, fabs(out[j] - here[j]));
        }
    }
    double *swap = s->now;
    s->now = s->next;
    s->next = swap;
    return change;
}

static void exchange_ghost_rows(Strip *s, int above, int below)
{
    MPI_Sendrecv(row(s, s->now, 1) + 1, s->nx, MPI_DOUBLE, above, 0,
                 row(s, s->now, s->rows + 1) + 1, s->nx, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(s, s->now, s->rows) + 1, s->nx, MPI_DOUBLE, below, 1, row(s, s->now, 0) + 1,
                 s->nx, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rank 0 gathers all strips and compares with the serial computation; the largest difference. */
static double compare_with_serial(const Strip *mine, int ny, int sweeps, const int *counts,
                                  const int *displs, int rank)
{
    int nx = mine->nx;
    MPI_Datatype line, full;
    double difference = 0;
    /* the inner points of a row, with the extent of a full row */
    MPI_Type_contiguous(nx, MPI_DOUBLE, &line);
    MPI_Type_create_resized(line, 0, (MPI_Aint)(nx + 2) * (MPI_Aint)sizeof(double), &full);
    MPI_Type_commit(&full);
    Strip serial = {0, 0, NULL, NULL};
    double *whole = NULL;
    if (rank == 0) {
        serial = make(nx, ny, 1);
        whole = allocate((size_t)(nx + 2) * (size_t)(ny + 2) * sizeof(double));
    }
    MPI_Gatherv(row(mine, mine->now, 1) + 1, mine->rows, full, whole ? whole + nx + 3 : NULL, counts,
                displs, full, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = 0; i < sweeps; i++)
            sweep(&serial);
        for (int i = 1; i <= ny; i++)
            for (int j = 1; j <= nx; j++)
                difference = fmax(difference, fabs(row(&serial, serial.now, i)[j] -
                                                   row(&serial, whole, i)[j]));
        free(whole);
        free(serial.now);
        free(serial.next);
    }
    MPI_Type_free(&full);
    MPI_Type_free(&line);
    return difference;
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int nx = argc > 1 ? atoi(argv[1]) : 1000, ny = argc > 2 ? atoi(argv[2]) : nx;
    int sweeps = argc > 3 ? atoi(argv[3]) : 500;
    if (nx < 1 || ny < size || sweeps < 1) {
        if (rank == 0)
            fprintf(stderr, "heat2d: grid %d x %d, %d sweeps, %d ranks: every rank needs a row\n", nx,
                    ny, sweeps, size);
        MPI_Finalize();
        return 2;
    }
    int *counts = allocate((size_t)size * sizeof *counts), *displs = allocate((size_t)size * sizeof *displs);
    for (int r = 0; r < size; r++) { /* the first ny % size ranks have a row more */
        counts[r] = ny / size + (r < ny % size);
        displs[r] = r ? displs[r - 1] + counts[r - 1] : 0;
    }
    int above = rank ? rank - 1 : MPI_PROC_NULL, below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    Strip s = make(nx, counts[rank], rank == 0);
    double residual = 0, start = MPI_Wtime();
    for (int i = 1; i <= sweeps; i++) {
        exchange_ghost_rows(&s, above, below);
        double change = sweep(&s);
        if (i % CHECK == 0 || i == sweeps)
            MPI_Allreduce(&change, &residual, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    double seconds = MPI_Wtime() - start;
    double difference = compare_with_serial(&s, ny, sweeps, counts, displs, rank);
    MPI_Bcast(&difference, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("grid            %d x %d on %d ranks\n", nx, ny, size);
        printf("sweeps          %d\n", sweeps);
        printf("residual        %.6e\n", residual);
        printf("against serial  %.6e (largest difference)\n", difference);
        printf("time            %.3f s\n", seconds);
    }
    free(s.now);
    free(s.next);
    free(counts);
    free(displs);
    MPI_Finalize();
    return difference == 0 ? 0 : 1;
}
