/* hang SCENE: every rank comes to where it stays, for the tests of the hang report. Rank 0 prints
 * "ready" before.
 *
 *   messages     6 ranks: a Waitall of 20, an Iprobe loop, a Recv, a loop of Tests, one that computes, an Ssend
 *   collectives  4 ranks: a Wait for an Iallreduce, an Allreduce, a Waitany, one that computes
 *   ended        3 ranks: two end after MPI_Finalize, the other computes
 *   threads      2 ranks: two threads of rank 0 wait, each for another tag
 *   cycle        4 ranks: the first three receive from the next of them, and rank 1 has a message that nobody receives
 *   locks        3 ranks: rank 2 has the lock of rank 0 and computes, rank 1 waits for it
 *   fence        3 ranks: two are in a fence, the last computes */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void compute(void)
{
    for (;;)
        pause();
}

static void messages(void)
{
    MPI_Comm ring, plain;
    MPI_Request r[20];
    int in[20], flag;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &ring);
    MPI_Comm_dup(MPI_COMM_WORLD, &plain);
    MPI_Comm_set_name(ring, rank % 2 ? "odd" : "halo \033ring");
    MPI_Barrier(MPI_COMM_WORLD);
    switch (rank) {
    case 0:
        for (int i = 0; i < 20; i++)
            MPI_Irecv(&in[i], 1, MPI_INT, 1, 100 + i, ring, &r[i]);
        MPI_Waitall(20, r, MPI_STATUSES_IGNORE);
        break;
    case 1:
        do
            MPI_Iprobe(MPI_ANY_SOURCE, 33, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        while (!flag);
        break;
    case 2:
        MPI_Recv(in, 20, MPI_INT, 2, MPI_ANY_TAG, ring, MPI_STATUS_IGNORE);
        break;
    case 3:
        MPI_Irecv(in, 2, MPI_INT, 0, 5, plain, &r[0]);
        MPI_Irecv(in + 2, 2, MPI_INT, 1, 6, plain, &r[1]);
        for (int i = 0;; i ^= 1)
            MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
    case 5:
        MPI_Ssend(in, 3, MPI_INT, 4, 77, MPI_COMM_WORLD);
        break;
    default:
        compute();
    }
}

static void collectives(void)
{
    int one = 1, sum, got;
    MPI_Comm part, plain;
    MPI_Request r[2];
    /* All but the last rank. */
    MPI_Comm_dup(MPI_COMM_WORLD, &plain);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 3, rank, &part);
    switch (rank) {
    case 0:
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, part, &r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        break;
    case 1:
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case 2:
        MPI_Ibarrier(plain, &r[0]);
        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &r[1]);
        MPI_Waitany(2, r, &got, MPI_STATUS_IGNORE);
        break;
    default:
        compute();
    }
}

static void cycle(void)
{
    int in = rank;
    if (rank == 0)
        MPI_Send(&in, 1, MPI_INT, 1, 42, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 3)
        compute();
    MPI_Recv(&in, 1, MPI_INT, (rank + 1) % 3, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* site: cycle */
}

static void locks(void)
{
    MPI_Win win;
    int *base, one = 1;
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_name(win, "table");
    if (rank == 2) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    }
    compute();
}

static void fence(void)
{
    MPI_Win win;
    int *base;
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_name(win, "table");
    if (rank < 2)
        MPI_Win_fence(0, win);
    compute();
}

static void *wait_for(void *tag)
{
    int in;
    MPI_Recv(&in, 1, MPI_INT, 1, *(int *)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static void threads(void)
{
    int tags[2] = {8, 9};
    pthread_t other;
    if (rank == 1)
        compute();
    pthread_create(&other, NULL, wait_for, &tags[1]);
    wait_for(&tags[0]);
}

int main(int argc, char **argv)
{
    const char *scene = argc > 1 ? argv[1] : "";
    int provided, in;
    MPI_Init_thread(&argc, &argv,
                    strcmp(scene, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        puts("ready");
        fflush(stdout);
    }
    if (strcmp(scene, "messages") == 0)
        messages();
    else if (strcmp(scene, "collectives") == 0)
        collectives();
    else if (strcmp(scene, "cycle") == 0)
        cycle();
    else if (strcmp(scene, "locks") == 0)
        locks();
    else if (strcmp(scene, "fence") == 0)
        fence();
    else if (strcmp(scene, "threads") == 0)
        threads();
    else if (strcmp(scene, "ended") == 0) {
        MPI_Finalize();
        if (rank == 0)
            compute();
    } else if (rank == 0)
        MPI_Recv(&in, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        compute();
    return 0;
}
