/* Messages and nothing else, for counting instructions and cache misses per message under valgrind
 * (chai-2009, 3.3.2 and 6.2.3). Not a timing program.
 *
 *     cache_walk MESSAGES BYTES [BUFFERS]      (default 1000 messages of 4096 bytes, 1 buffer)
 *
 * Two ranks send each other MESSAGES messages by turns, as in a ping-pong, by MPI_Send and
 * MPI_Recv. The sender writes every byte of the buffer before, the receiver reads and checks every
 * word of it after, as a program would; both use BUFFERS buffers of their own for each direction in
 * turn (1: all is reused; many: nothing is in the cache). All that lies between the calls is in the
 * function `walk`:
 *
 *     mpiexec -n 2 valgrind -q --tool=callgrind --cache-sim=yes --toggle-collect=walk
 *         --D1=49152,12,64 --LL=1048576,16,64 --callgrind-out-file=out.%p cache_walk 1000 4096
 *
 * Tools without such a switch (cachegrind) count start and end, too: take the difference between
 * two numbers of messages. Valgrind simulates two levels of cache, by default this machine's first
 * and last; give them, as above (48 KiB and a second level of 1 MiB), for figures that can be
 * compared between machines. Every process has caches of its own there: what the ranks do to each
 * other's is not counted. Cache misses per message repeat well. Instructions do not, because a rank
 * that waits for the other spins; tests/c/tools/instructions.c counts without waiting.
 *
 * Prints how many messages each rank sent (and received), and the process ids in rank order, which
 * name valgrind's files. */
#include "compute.h"

#include <unistd.h>

#if defined __GNUC__
__attribute__((noinline))
#endif
void walk(int rank, uint64_t *out, uint64_t *in, long messages, long words, long buffers)
{
    for (long i = 0; i < messages; i++) {
        uint64_t *to = out + i % buffers * words, *from = in + i % buffers * words;
        for (int turn = 0; turn < 2; turn++)
            if (turn == rank) {
                for (long w = 0; w < words; w++)
                    to[w] = (uint64_t)(i * 2 + rank);
                MPI_Send(to, (int)words, MPI_UINT64_T, 1 - rank, 0, MPI_COMM_WORLD);
            } else {
                MPI_Recv(from, (int)words, MPI_UINT64_T, 1 - rank, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
                for (long w = 0; w < words; w++)
                    if (from[w] != (uint64_t)(i * 2 + 1 - rank))
                        bench_die("message %ld: word %ld of %ld is wrong", i, w, words);
            }
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        bench_die("needs 2 ranks, has %d", size);
    long messages = argc > 1 ? bench_bytes(argv[1]) : 1000;
    long bytes = argc > 2 ? bench_bytes(argv[2]) : 4096;
    long buffers = argc > 3 ? bench_bytes(argv[3]) : 1, pid = (long)getpid(), pids[2];
    if (bytes % 8 || bytes < 8 || buffers < 1)
        bench_die("%ld buffers of %ld bytes: wants at least 1 of a multiple of 8", buffers, bytes);
    size_t all = (size_t)bytes * (size_t)buffers;
    uint64_t *out = allocate(all), *in = allocate(all);
    MPI_Barrier(MPI_COMM_WORLD);
    walk(rank, out, in, messages, bytes / 8, buffers);
    MPI_Gather(&pid, 1, MPI_LONG, pids, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        char name[64], extra[64];
        double value = (double)messages;
        snprintf(name, sizeof name, "cache walk %ld buffers", buffers);
        snprintf(extra, sizeof extra, ", \"pids\": [%ld, %ld]", pids[0], pids[1]);
        figure(name, bytes, 2, &value, 1, "messages", messages, extra);
    }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
