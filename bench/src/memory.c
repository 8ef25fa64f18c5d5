/* How much memory the library holds per rank: the growth of a rank's memory from before MPI_Init
 * until it has talked to its neighbours; means over the ranks in KiB, "min" and "max" the extremes
 * among them. Any number of ranks, all on one node (chai Figure 3.5).
 *
 * Traffic: a barrier, then 8 exchanges with each neighbour in a ring by MPI_Sendrecv for each of
 * the sizes 8 B, 4 KiB and 64 KiB, then a barrier. With --all every pair of ranks then exchanges
 * one message of each size, and the measures end in " all pairs". All messages are checked.
 *
 *   "memory shared"  memory in shared mappings
 *   "memory total"   this and the private memory
 *
 * Both are read from /proc/self/smaps. Shared counts "Pss:" of mappings that are shared (the letter
 * s in their permissions), whatever backs them: memfd, System V, /dev/shm, a file in /tmp. Only
 * pages that were touched count, and one that k processes map counts 1/k in each, so n times the
 * mean is what the job holds (the launcher's share left out). Private counts "Anonymous:" of all
 * other mappings. The text of programs and libraries counts nowhere: the file cache has it only
 * once, and its Pss before MPI_Init would depend on which ranks have started. Memory that no
 * process maps any longer is not seen. The buffers of this program are touched before the first
 * look.
 *
 * The line of "memory total" also has "private", and "shared_touched": the mean of "Rss:" of shared
 * mappings, where a page counts fully in each process that touched it. */
#include "bench_mpi.h"

enum { SIZES = 3, REPEAT = 8, SHARED = 0, TOUCHED, PRIVATE, KINDS };

static const int sizes[SIZES] = {8, 4096, 65536};
static char out[65536], in[65536];
static long number;

/* This process's memory in KiB. */
static void look(double kib[KINDS])
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[4096], permissions[8] = "";
    long value;
    if (!maps) {
        perror("memory: /proc/self/smaps");
        exit(1);
    }
    kib[SHARED] = kib[TOUCHED] = kib[PRIVATE] = 0;
    while (fgets(line, sizeof line, maps)) {
        int shared = permissions[3] == 's';
        if (sscanf(line, "%*[0-9a-f]-%*[0-9a-f] %7s", permissions) == 1)
            continue;
        if (shared && sscanf(line, "Pss: %ld kB", &value) == 1)
            kib[SHARED] += (double)value;
        else if (shared && sscanf(line, "Rss: %ld kB", &value) == 1)
            kib[TOUCHED] += (double)value;
        else if (!shared && sscanf(line, "Anonymous: %ld kB", &value) == 1)
            kib[PRIVATE] += (double)value;
    }
    fclose(maps);
}

/* Sends to one rank and receives from another. */
static void exchange(int rank, int to, int from)
{
    for (int i = 0; i < SIZES; i++, number++) {
        memset(out, (int)(number + rank) & 127, (size_t)sizes[i]);
        bench_stamp(out, (size_t)sizes[i], number);
        MPI_Sendrecv(out, sizes[i], MPI_BYTE, to, 0, in, sizes[i], MPI_BYTE, from, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        bench_check(in, (size_t)sizes[i], number);
        bench_check_rest(in, (size_t)sizes[i], (int)(number + from) & 127);
    }
}

int main(int argc, char **argv)
{
    double before[KINDS], grown[KINDS + 1], sum[KINDS + 1], least[KINDS + 1], most[KINDS + 1];
    char name[64], more[96];
    int rank, size;
    memset(out, 1, sizeof out);
    memset(in, 1, sizeof in);
    look(before); /* once for what reading a file takes itself */
    look(before);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int all = bench_option(&argc, argv, "--all");
    if (argc > 1)
        bench_die("unknown argument '%s'", argv[1]);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < REPEAT; i++) {
        exchange(rank, right, left);
        exchange(rank, left, right);
    }
    for (int step = 1; all && step < size; step++)
        exchange(rank, (rank + step) % size, (rank + size - step) % size);
    MPI_Barrier(MPI_COMM_WORLD);
    look(grown);
    MPI_Barrier(MPI_COMM_WORLD); /* no rank goes on to touch more while another looks */
    for (int i = 0; i < KINDS; i++)
        grown[i] -= before[i];
    grown[KINDS] = grown[SHARED] + grown[PRIVATE];
    MPI_Reduce(grown, sum, KINDS + 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(grown, least, KINDS + 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(grown, most, KINDS + 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        snprintf(name, sizeof name, "memory shared%s", all ? " all pairs" : "");
        bench_line(name, 0, size, sum[SHARED] / size, least[SHARED], most[SHARED], "KiB", 1, "");
        snprintf(name, sizeof name, "memory total%s", all ? " all pairs" : "");
        snprintf(more, sizeof more, ", \"private\": %.6g, \"shared_touched\": %.6g",
                 sum[PRIVATE] / size, sum[TOUCHED] / size);
        bench_line(name, 0, size, sum[KINDS] / size, least[KINDS], most[KINDS], "KiB", 1, more);
    }
    MPI_Finalize();
    return 0;
}
