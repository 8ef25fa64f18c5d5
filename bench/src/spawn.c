/* What it costs to start processes, and to connect with others, while the job runs. Any number of
 * ranks, all of which spawn together.
 *
 *   "spawn N"       from MPI_Comm_spawn of N processes until it returns: they are in MPI_Init
 *   "merge N"       MPI_Intercomm_merge with them
 *   "disconnect N"  MPI_Comm_disconnect of both communicators
 *   "connect"       MPI_Comm_accept here and MPI_Comm_connect by one spawned process, until both have
 *                   the communicator; MPI_Comm_disconnect is not counted
 *   "ranks"         half a round trip of 8 bytes to 1 MiB between rank 0 and rank 1, in a job of several
 *   "children"      the same between a rank and a process that it has spawned, in a job of one: in what
 *                   it differs from "ranks" of 2 is the price of being spawned
 *
 * In ms ("spawn") and us. The median of the rounds, of which each but the first counts.
 *
 * Arguments: what to measure: numbers of processes to start, "connect", "messages". */
#include "bench_mpi.h"

enum { ROUNDS = 16, CONNECTS = 200, LAPS = 2000, WARM = 200 };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, int bytes, int ranks, double *samples, int n, const char *unit)
{
    qsort(samples, (size_t)n, sizeof *samples, by_size);
    bench_line(name, bytes, ranks, samples[n / 2], samples[0], samples[n - 1], unit, n, "");
}

/* Half round trips with `peer`; the first side counts. */
static void ping_pong(MPI_Comm comm, int peer, int first, int bytes, double *samples)
{
    char *out = bench_alloc((size_t)bytes, 1), *in = bench_alloc((size_t)bytes, 0);
    for (int batch = 0; batch < ROUNDS; batch++) {
        int laps = (bytes > 1 << 16 ? LAPS / 20 : LAPS) + (batch ? 0 : WARM);
        double start = MPI_Wtime();
        for (int i = 0; i < laps; i++) {
            bench_stamp(out, (size_t)bytes, i);
            if (first)
                MPI_Send(out, bytes, MPI_BYTE, peer, 1, comm);
            MPI_Recv(in, bytes, MPI_BYTE, peer, 1, comm, MPI_STATUS_IGNORE);
            bench_check(in, (size_t)bytes, i);
            if (!first)
                MPI_Send(out, bytes, MPI_BYTE, peer, 1, comm);
        }
        samples[batch] = (MPI_Wtime() - start) / laps / 2 * 1e6;
    }
    free(in);
    free(out);
}

static const int sizes[] = {8, 4096, 65536, 1 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void child(MPI_Comm parent, const char *task)
{
    MPI_Comm all, met;
    double samples[ROUNDS];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(task, "connect")) {
        char port[MPI_MAX_PORT_NAME];
        MPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, parent, MPI_STATUS_IGNORE);
        for (int i = 0; i < CONNECTS; i++) {
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &met);
            MPI_Comm_disconnect(&met);
        }
    } else if (!strcmp(task, "talk")) {
        for (int i = 0; i < SIZES; i++)
            ping_pong(parent, 0, 0, sizes[i], samples);
    } else {
        MPI_Intercomm_merge(parent, 1, &all);
        MPI_Comm_disconnect(&all);
    }
    MPI_Comm_disconnect(&parent);
}

static MPI_Comm spawn(const char *self, const char *task, int n)
{
    char word[16], *words[] = {word, NULL}, program[4096];
    MPI_Comm children;
    snprintf(word, sizeof word, "%s", task);
    snprintf(program, sizeof program, "%s", self);
    if (MPI_Comm_spawn(program, words, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE))
        bench_die("MPI_Comm_spawn of %d processes failed", n);
    return children;
}

static void starts(const char *self, int rank, int ranks, int n)
{
    double spawned[ROUNDS], merged[ROUNDS], left[ROUNDS];
    char name[40];
    for (int i = -1; i < ROUNDS; i++) {
        MPI_Comm children, all;
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        children = spawn(self, "start", n);
        double there = MPI_Wtime();
        MPI_Intercomm_merge(children, 0, &all);
        double one = MPI_Wtime();
        MPI_Comm_disconnect(&all);
        MPI_Comm_disconnect(&children);
        double end = MPI_Wtime();
        if (i < 0)
            continue;
        spawned[i] = (there - start) * 1e3;
        merged[i] = (one - there) * 1e6;
        left[i] = (end - one) * 1e6;
    }
    if (rank)
        return;
    snprintf(name, sizeof name, "spawn %d", n);
    report(name, 0, ranks, spawned, ROUNDS, "ms");
    snprintf(name, sizeof name, "merge %d", n);
    report(name, 0, ranks, merged, ROUNDS, "us");
    snprintf(name, sizeof name, "disconnect %d", n);
    report(name, 0, ranks, left, ROUNDS, "us");
}

static void connects(const char *self, int rank, int ranks)
{
    double samples[CONNECTS];
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm children = spawn(self, "connect", 1), met;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 0, children);
    }
    for (int i = 0; i < CONNECTS; i++) {
        double start = MPI_Wtime();
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &met);
        samples[i] = (MPI_Wtime() - start) * 1e6;
        MPI_Comm_disconnect(&met);
    }
    if (rank == 0) {
        MPI_Close_port(port);
        report("connect", 0, ranks, samples, CONNECTS, "us");
    }
    MPI_Comm_disconnect(&children);
}

static void talks(const char *self, int rank, int ranks)
{
    double samples[SIZES][ROUNDS];
    for (int i = 0; i < SIZES && ranks > 1 && rank < 2; i++)
        ping_pong(MPI_COMM_WORLD, 1 - rank, rank == 0, sizes[i], samples[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (ranks == 1) {
        MPI_Comm children = spawn(self, "talk", 1);
        for (int i = 0; i < SIZES; i++)
            ping_pong(children, 0, 1, sizes[i], samples[i]);
        MPI_Comm_disconnect(&children);
    }
    for (int i = 0; i < SIZES && rank == 0; i++)
        report(ranks > 1 ? "ranks" : "children", sizes[i], ranks, samples[i], ROUNDS, "us");
}

int main(int argc, char **argv)
{
    char self[4096];
    int rank, ranks;
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        child(parent, argc > 1 ? argv[1] : "");
        MPI_Finalize();
        return 0;
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        bench_die("/proc/self/exe cannot be read");
    self[length] = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "connect"))
            connects(self, rank, ranks);
        else if (!strcmp(argv[i], "messages"))
            talks(self, rank, ranks);
        else
            starts(self, rank, ranks, (int)bench_bytes(argv[i]));
    }
    MPI_Finalize();
    return 0;
}
