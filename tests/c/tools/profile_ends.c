/* Two ranks whose ends are known (tests/jobs/profile.rs). Both exchange messages and meet; then rank 1
 * ends as the argument says, and rank 0 waits for a message that never comes. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXCHANGES = 300 };

/* Ends the rank within a call. */
static int die(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return raise(SIGKILL);
}

static void end_inside(void) {
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, die, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Comm_delete_attr(MPI_COMM_SELF, key); /* site: inside */
}

static void end(const char *how) {
    if (!strcmp(how, "inside")) end_inside();
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "crash")) raise(SIGSEGV);
    if (!strcmp(how, "_exit")) _exit(3);
    if (!strcmp(how, "exit")) exit(3);
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 5);
}

int main(int argc, char **argv) {
    int rank, value = 0, got;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < EXCHANGES; i++)
        MPI_Sendrecv(&value, 1, MPI_INT, 1 - rank, 1, &got, 1, MPI_INT, 1 - rank, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* site: exchange */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) puts("waiting"), fflush(stdout);
    if (rank == 1) end(argv[1]);
    MPI_Recv(&got, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* site: wait */
    MPI_Finalize();
    return 0;
}
