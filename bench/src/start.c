/* How long a job takes to start and to end beside what it does: the launcher, the library's start,
 * and the launcher's end. The job does nothing but one reduction. Any number of ranks, all on one
 * node, as their clocks are compared.
 *
 *   "job start"  from the launch of mpiexec until the last rank has left MPI_Init
 *   "job end"    from when rank 0 enters MPI_Finalize, all having been in a barrier, until
 *                mpiexec has ended
 *
 * Both in ms. `mica bench` gives `--launched NS`, the time of the launch by CLOCK_MONOTONIC, and
 * knows when mpiexec ended: this program prints when rank 0 enters MPI_Finalize, in ms since the
 * launch, and `mica bench` replaces that by what is left until the end. By hand, `--launched 0`
 * gives times since the machine's start. */
#include "bench_mpi.h"

#include <time.h>

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    double launched, started, last, ending;
    MPI_Init(&argc, &argv);
    started = now_ms();
    if (argc != 3 || strcmp(argv[1], "--launched"))
        bench_die("wants --launched NANOSECONDS");
    launched = strtod(argv[2], NULL) / 1e6;
    started -= launched;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Reduce(&started, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    /* No rank has left the barrier before the last one has entered it. */
    MPI_Barrier(MPI_COMM_WORLD);
    ending = now_ms() - launched;
    if (rank == 0) {
        bench_line("job start", 0, ranks, last, last, last, "ms", 1, "");
        bench_line("job end", 0, ranks, ending, ending, ending, "ms", 1, "");
    }
    MPI_Finalize();
    return 0;
}
