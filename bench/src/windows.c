/* What it costs to make windows on memory of the program: N windows (default 100 and 1,000) of 4,000
 * bytes each, all alive at once. In microseconds for one, the median of 15 batches.
 *
 * "window create N", "window free N": MPI_Win_create and MPI_Win_free. "window create first N", "window create
 * last N": of the first tenth of the N windows, when few exist, and of the last.
 *
 * "window attach N", "window detach N": MPI_Win_attach and MPI_Win_detach of N pieces to one dynamic
 * window. "window dynamic N": MPI_Win_create_dynamic.
 *
 * Arguments: numbers of windows. */
#include "bench_mpi.h"

enum { CREATE, FIRST, LAST, FREE, ATTACH, DETACH, DYNAMIC, PARTS, BYTES = 4000 };

static const char *const names[PARTS] = {
    "window create", "window create first", "window create last", "window free", "window attach", "window detach", "window dynamic",
};

typedef struct {
    int part, number;
    MPI_Win *win;
    char **memory;
} Windows;

static double created(Windows *w)
{
    MPI_Barrier(MPI_COMM_WORLD);
    int tenth = w->number / 10;
    double start = MPI_Wtime(), first = 0, last = 0;
    for (int i = 0; i < w->number; i++) {
        if (i == tenth)
            first = MPI_Wtime();
        if (i == w->number - tenth)
            last = MPI_Wtime();
        MPI_Win_create(w->memory[i], BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w->win[i]);
    }
    double middle = MPI_Wtime();
    for (int i = 0; i < w->number; i++)
        MPI_Win_free(&w->win[i]);
    double end = MPI_Wtime();
    switch (w->part) {
    case FIRST: return (first - start) * w->number / tenth;
    case LAST: return (middle - last) * w->number / tenth;
    case CREATE: return middle - start;
    default: return end - middle;
    }
}

static double attached(Windows *w)
{
    MPI_Win win;
    MPI_Barrier(MPI_COMM_WORLD);
    double first = MPI_Wtime();
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    double start = MPI_Wtime();
    for (int i = 0; i < w->number; i++)
        MPI_Win_attach(win, w->memory[i], BYTES);
    double middle = MPI_Wtime();
    for (int i = 0; i < w->number; i++)
        MPI_Win_detach(win, w->memory[i]);
    double end = MPI_Wtime();
    MPI_Win_free(&win);
    return w->part == ATTACH ? middle - start : w->part == DETACH ? end - middle : (start - first) * w->number;
}

static double rounds(void *arg, long n)
{
    Windows *w = arg;
    double counted = 0;
    for (long i = 0; i < n; i++)
        counted += w->part <= FREE ? created(w) : attached(w);
    return counted;
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"100", "1000"};
    double batch[BATCHES];
    char name[40], more[40];
    int rank;
    Windows w;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int count = argc > 1 ? argc - 1 : 2;
    for (int i = 0; i < count; i++) {
        w.number = (int)bench_bytes(argc > 1 ? argv[i + 1] : usual[i]);
        w.win = (MPI_Win *)bench_alloc((size_t)w.number * sizeof *w.win, 0);
        w.memory = (char **)bench_alloc((size_t)w.number * sizeof *w.memory, 0);
        for (int k = 0; k < w.number; k++)
            w.memory[k] = malloc(BYTES);
        for (w.part = 0; w.part < PARTS; w.part++) {
            long n = bench_measure(rounds, &w, 0.02, batch);
            snprintf(name, sizeof name, "%s %d", names[w.part], w.number);
            snprintf(more, sizeof more, ", \"windows\": %d", w.number);
            for (int b = 0; b < BATCHES; b++)
                batch[b] *= 1e6 / w.number;
            if (rank == 0)
                bench_print_more(name, BYTES, 2, batch, "us", n, more);
        }
        for (int k = 0; k < w.number; k++)
            free(w.memory[k]);
        free(w.memory);
        free(w.win);
    }
    MPI_Finalize();
    return 0;
}
