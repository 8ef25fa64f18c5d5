/* A pattern whose profile is known by construction (tests/jobs/profile.rs). Lines that the test
 * names carry a mark; it looks for the marks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SENDS = 50, SIZE = 24576, SUMS = 4, LATE_RANK = 1 };

static void pass_on(int to, int from) {
    static char out[SIZE], in[SIZE];
    MPI_Request request;
    MPI_Irecv(in, SIZE, MPI_BYTE, from, 7, MPI_COMM_WORLD, &request);
    MPI_Send(out, SIZE / 8, MPI_DOUBLE, to, 7, MPI_COMM_WORLD); /* site: send */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void come_late(int rank) {
    const struct timespec pause = {0, 50 * 1000 * 1000};
    double one = 1, sum;
    if (rank == LATE_RANK) nanosleep(&pause, NULL);
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* site: late */
    if (sum < 1) abort();
}

/* Ranks of a communicator in the other order: the records must name ranks of the world. */
static void reversed(int rank, int size) {
    MPI_Comm comm;
    MPI_Datatype pair;
    int value[2] = {rank, rank}, got[2];
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &comm);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    /* World rank 0 is the last in `comm`; it sends to the world's last. */
    if (rank == 0) MPI_Send(value, 1, pair, 0, 9, comm); /* site: reversed */
    if (rank == size - 1) MPI_Recv(got, 1, pair, size - 1, 9, comm, MPI_STATUS_IGNORE);
    MPI_Type_free(&pair);
    MPI_Comm_free(&comm);
}

static void persistent(int rank, int size) {
    char out[100], in[100];
    MPI_Request requests[2];
    MPI_Send_init(out, 100, MPI_BYTE, (rank + 1) % size, 11, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in, 100, MPI_BYTE, (rank + size - 1) % size, 11, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests); /* site: start */
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void blocks(int rank, int size) {
    int *out = calloc(size, sizeof(int)), *in = calloc(size, sizeof(int));
    int *counts = malloc(size * sizeof(int)), *places = malloc(size * sizeof(int));
    for (int i = 0; i < size; i++) counts[i] = 1, places[i] = i;
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD);
    /* Arguments that count at the root only: elsewhere they may be anything. */
    MPI_Scatter(rank ? NULL : out, 1, rank ? MPI_DATATYPE_NULL : MPI_INT, in, 1, MPI_INT, 0,
                MPI_COMM_WORLD);
    free(out), free(in), free(counts), free(places);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < SENDS; i++) pass_on((rank + 1) % size, (rank + size - 1) % size);
    for (int i = 0; i < SUMS; i++) come_late(rank);
    reversed(rank, size);
    persistent(rank, size);
    blocks(rank, size);
    MPI_Pcontrol(0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
    if (argc > 1 && !strcmp(argv[1], "wait")) {
        if (rank == 0) puts("waiting"), fflush(stdout);
        pause();
    }
    if (argc > 1 && !strcmp(argv[1], "exit")) exit(3);
    if (argc > 1 && !strcmp(argv[1], "abort") && rank == 0) MPI_Abort(MPI_COMM_WORLD, 5);
    MPI_Finalize();
    return 0;
}
