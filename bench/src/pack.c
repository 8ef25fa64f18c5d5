/* MPI_Pack and MPI_Unpack of regular layouts against hand-written loops: a column of a matrix, the
 * three faces of a cube. Nanoseconds; the value is the library's time over the loop's. */
#include "bench.h"

#include <mpi.h>
#include <string.h>

enum { N = 128, ROWS = 1024 };
static double *data, *packed;

/* `outer` runs of `middle` blocks of `inner` doubles, with these strides. */
typedef struct {
    const char *name;
    int outer, middle, inner, outer_stride, middle_stride;
} Shape;

__attribute__((noinline)) static void loop_pack(const Shape *s)
{
    double *to = packed;
    for (int i = 0; i < s->outer; i++)
        for (int j = 0; j < s->middle; j++) {
            const double *from = data + (long)i * s->outer_stride + (long)j * s->middle_stride;
            for (int k = 0; k < s->inner; k++)
                *to++ = from[k];
        }
}

__attribute__((noinline)) static void loop_unpack(const Shape *s)
{
    const double *from = packed;
    for (int i = 0; i < s->outer; i++)
        for (int j = 0; j < s->middle; j++) {
            double *to = data + (long)i * s->outer_stride + (long)j * s->middle_stride;
            for (int k = 0; k < s->inner; k++)
                to[k] = *from++;
        }
}

int main(int argc, char **argv)
{
    static const Shape shapes[] = {
        {"column", 1, ROWS, 1, 0, ROWS},
        {"face x", N, N, 1, N * N, N},
        {"face y", N, 1, N, N * N, 0},
        {"face z", 1, N, N, 0, N},
    };
    MPI_Init(&argc, &argv);
    data = calloc((size_t)N * N * N, sizeof *data);
    packed = calloc((size_t)N * N, sizeof *packed);
    for (int f = 0; f < 4; f++)
        for (int unpack = 0; unpack < 2; unpack++) {
            const Shape *s = &shapes[f];
            MPI_Datatype row, all;
            double batch[BATCHES];
            char name[64];
            int bytes = s->outer * s->middle * s->inner * 8, repeat = 20000000 / bytes + 1;
            MPI_Type_vector(s->middle, s->inner, s->middle_stride, MPI_DOUBLE, &row);
            MPI_Type_create_hvector(s->outer, 1, (MPI_Aint)s->outer_stride * 8, row, &all);
            MPI_Type_commit(&all);
            for (int b = 0; b < BATCHES; b++) {
                double start = MPI_Wtime();
                for (int r = 0; r < repeat; r++)
                    unpack ? loop_unpack(s) : loop_pack(s);
                double middle = MPI_Wtime();
                for (int r = 0; r < repeat; r++) {
                    int at = 0;
                    if (unpack)
                        MPI_Unpack(packed, bytes, &at, data, 1, all, MPI_COMM_WORLD);
                    else
                        MPI_Pack(data, 1, all, packed, bytes, &at, MPI_COMM_WORLD);
                }
                batch[b] = (MPI_Wtime() - middle) / (middle - start);
            }
            snprintf(name, sizeof name, "%s %s", unpack ? "unpack" : "pack", s->name);
            bench_print(name, bytes, 1, batch, "of the loop's time", repeat);
            MPI_Type_free(&row);
            MPI_Type_free(&all);
        }
    MPI_Finalize();
    return 0;
}
