/* MPI_Info_create_env gives the same keys and values before, between and after MPI_Init and
 * MPI_Finalize, whatever the program does to its directory in between, and those of MPI_INFO_ENV
 * (MPI 5.0, 10 and 11.2.1). */
#include "test.h"
#include <limits.h>
#include <unistd.h>

enum { ROOM = 16384 };

static int failed;

/* All pairs as text. */
static void dump(MPI_Info info, char *to)
{
    int n = 0, len, flag;
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    *to = 0;
    MPI_Info_get_nkeys(info, &n);
    for (int i = 0; i < n; i++) {
        MPI_Info_get_nthkey(info, i, key);
        len = sizeof value;
        MPI_Info_get_string(info, key, &len, value, &flag);
        size_t used = strlen(to);
        snprintf(to + used, ROOM - used, "%s=%s\n", key, flag ? value : "?");
    }
}

/* Checks without MPI, which may be over. */
static void same(const char *when, const char *pairs, const char *first)
{
    if (strcmp(pairs, first) != 0) {
        fprintf(stderr, "%s:\n%sbefore MPI_Init:\n%s", when, pairs, first);
        failed = 1;
    }
}

static void has(const char *pairs, const char *key, const char *value)
{
    char line[PATH_MAX + 100];
    snprintf(line, sizeof line, "%s=%s\n", key, value);
    if (!strstr(pairs, line)) {
        fprintf(stderr, "no %sin:\n%s", line, pairs);
        failed = 1;
    }
}

static void create(int argc, char **argv, char *to)
{
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create_env(argc, argv, &info);
    dump(info, to);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    static char first[ROOM], now[ROOM];
    char directory[PATH_MAX], number[20];
    int provided, size, rank;
    if (!getcwd(directory, sizeof directory))
        return 2;
    create(argc, argv, first);
    create(0, NULL, now);
    same("without arguments, before MPI_Init", now, first);

    /* The level that MPI_Init_thread is asked for is none that was asked for before the program
     * started. */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    create(argc, argv, now);
    same("after MPI_Init", now, first);
    dump(MPI_INFO_ENV, now);
    same("MPI_INFO_ENV", now, first);
    if (chdir("/") != 0)
        return 2;
    create(argc, argv, now);
    same("in another directory", now, first);
    MPI_Finalize();
    create(argc, argv, now);
    same("after MPI_Finalize", now, first);

    snprintf(number, sizeof number, "%d", size);
    has(first, "command", argv[0]);
    if (argc > 2) {
        char rest[100];
        snprintf(rest, sizeof rest, "%s %s", argv[1], argv[2]);
        has(first, "argv", rest);
    }
    has(first, "maxprocs", number);
    has(first, "wdir", directory);
    has(first, "mpi_memory_alloc_kinds", "mpi,system");
    /* Those that the command line does not have. */
    if (strstr(first, "\nsoft=") || strstr(first, "\nhost=") || strstr(first, "\narch=")
        || strstr(first, "\nfile=") || strstr(first, "\nthread_level="))
        failed = 1;
    if (!failed && rank == 0)
        printf("No Errors\n");
    return failed;
}
