/* Shared by the programs that spawn themselves (dyn_*.c). A child tells its parents at the end how
 * many of its checks failed, so that the verdict of the first world counts them. */
#ifndef SPAWNED_H
#define SPAWNED_H

#include "test.h"
#include <limits.h>
#include <unistd.h>

/* This program's path, whatever the working directory. */
static char spawned_program[PATH_MAX];
/* The inter-communicator with the parents; MPI_COMM_NULL in the first world. */
static MPI_Comm spawned_parent = MPI_COMM_NULL;

/* As test_init, with a thread level; to be called by both parents and children. */
static TEST_UNUSED void spawned_init(int *argc, char ***argv, int level)
{
    int provided;
    ssize_t n = readlink("/proc/self/exe", spawned_program, sizeof spawned_program - 1);
    spawned_program[n > 0 ? n : 0] = 0;
    MPI_Init_thread(argc, argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    CHECK_INT(provided, level, "thread level");
    MPI_Comm_get_parent(&spawned_parent);
}

/* Starts `n` processes of this program with up to three arguments (null: no more of them). */
static TEST_UNUSED MPI_Comm spawn_self(int n, const char *a, const char *b, const char *c, int root,
                                       MPI_Comm comm)
{
    char *words[] = {(char *)a, (char *)b, (char *)c, NULL};
    MPI_Comm inter = MPI_COMM_NULL;
    int codes[64], size = 0;
    memset(codes, 0xff, sizeof codes);
    CHECK_INT(MPI_Comm_spawn(spawned_program, words, n, MPI_INFO_NULL, root, comm, &inter, codes),
              MPI_SUCCESS, "MPI_Comm_spawn");
    for (int i = 0; i < n; i++)
        CHECK_INT(codes[i], MPI_SUCCESS, "code of a process");
    MPI_Comm_remote_size(inter, &size);
    CHECK_INT(size, n, "size of the remote group");
    return inter;
}

/* Ends a connection. The parents learn whether their children have failed. */
static TEST_UNUSED void spawned_end(MPI_Comm *inter)
{
    int theirs = -1;
    MPI_Allreduce(&test_failures, &theirs, 1, MPI_INT, MPI_SUM, *inter);
    if (*inter != spawned_parent)
        CHECK_INT(theirs, 0, "failed checks of the children");
    MPI_Comm_disconnect(inter);
    CHECK(*inter == MPI_COMM_NULL, "MPI_Comm_disconnect leaves a handle");
}

/* The end of a child. */
static TEST_UNUSED int spawned_finish(void)
{
    if (spawned_parent != MPI_COMM_NULL)
        spawned_end(&spawned_parent);
    MPI_Finalize();
    return 0;
}

#endif
