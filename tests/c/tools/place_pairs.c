/* Ranks r and r + n/2 exchange long messages, each rank and the next a few short ones: by default
 * every pair is on two nodes. No argument. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 64 << 10, ROUNDS = 20 };

static char out[BYTES], in[BYTES];

static void exchange(int to, int from, int bytes)
{
    memset(in, 0, sizeof in);
    MPI_Sendrecv(out, bytes, MPI_CHAR, to, 7, in, bytes, MPI_CHAR, from, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; i++) {
        if (in[i] != (char)(from + 1)) {
            fprintf(stderr, "byte %d of a message from %d is wrong\n", i, from);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(out, rank + 1, sizeof out);
    int partner = (rank + size / 2) % size;
    for (int round = 0; round < ROUNDS; round++)
        exchange(partner, partner, BYTES);
    exchange((rank + 1) % size, (rank + size - 1) % size, 8);
    MPI_Finalize();
    return 0;
}
