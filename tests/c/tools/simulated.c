/* What a program does on a simulated cluster: `simulated ring|clock|deadlock|thread|fork|die|abort|exit|region [bytes] [rounds]`. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Passes a message around, checks it, and ends with collectives of known results. */
static void ring(int bytes, int rounds)
{
    char *out = malloc(bytes), *in = malloc(bytes);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int round = 0; round < rounds; round++) {
        memset(out, rank + round, bytes);
        MPI_Sendrecv(out, bytes, MPI_BYTE, right, round, in, bytes, MPI_BYTE, left, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < bytes; i++)
            if (in[i] != (char)(left + round)) {
                printf("rank %d round %d: byte %d is %d\n", rank, round, i, in[i]);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
    }
    double one = rank + 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (sum != size * (size + 1) / 2.0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("No Errors\n");
    free(out);
    free(in);
}

/* The clocks are simulated, go forward, and agree; a sleep lasts as long as asked. */
static void clocks(void)
{
    double wtime = MPI_Wtime(), monotonic = now(CLOCK_MONOTONIC);
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    wtime = MPI_Wtime() - wtime;
    monotonic = now(CLOCK_MONOTONIC) - monotonic;
    time_t seconds = now(CLOCK_REALTIME);
    struct tm *date = gmtime(&seconds);
    if (rank == 0)
        printf("slept %.0f %.0f ms in %d\n", wtime * 1e3, monotonic * 1e3, date->tm_year + 1900);
}

static void *nothing(void *argument)
{
    return argument;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "ring";
    int bytes = argc > 2 ? atoi(argv[2]) : 1000, rounds = argc > 3 ? atoi(argv[3]) : 5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "ring"))
        ring(bytes, rounds);
    if (!strcmp(what, "clock"))
        clocks();
    if (!strcmp(what, "deadlock") && rank > 0)
        MPI_Recv(&bytes, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(what, "thread") && rank == 1) {
        pthread_t thread;
        pthread_create(&thread, NULL, nothing, NULL);
        pthread_join(thread, NULL);
    }
    if (!strcmp(what, "die") && rank == 1)
        raise(SIGKILL);
    if (!strcmp(what, "abort") && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(what, "exit") && rank == 1)
        exit(4);
    if (!strcmp(what, "fork")) {
        pid_t child = fork();
        if (child == 0)
            _exit(nothing(NULL) != NULL);
        int status;
        waitpid(child, &status, 0);
        ring(bytes, rounds);
    }
    if (!strcmp(what, "region")) {
        ring(bytes, rounds);
        MPI_Pcontrol(1);
        ring(bytes, 1);
        MPI_Pcontrol(0);
    }
    MPI_Finalize();
    return 0;
}
