/* job VERB ARGS...: what the launcher's and the faults' tests need of a program.
 *
 *   hello                  one line "hello from RANK of SIZE" per rank after an Allreduce that checks
 *   library                rank 0 prints "SIZE ranks on LIBRARY", with what the library calls itself
 *   show NAME...           rank, size, working directory and the values of environment variables
 *   args ...               its arguments, one a line, on rank 0
 *   exit CODE RANK         rank RANK leaves with CODE after MPI_Finalize, the others with 0
 *   early CODE RANK        rank RANK leaves with CODE without MPI_Finalize; the others wait for it
 *   abort CODE RANK        rank RANK calls MPI_Abort(CODE); the others wait
 *   cat                    rank 0 echoes its standard input; others say how many bytes they read
 *   lines N                every rank prints N lines "RANK: line I"
 *   spin                   prints "ready" on rank 0 when all are up, then exchanges for ever
 *   kill SIGNAL RANK BYTES as spin, with large messages; rank RANK kills itself in the middle
 *   silent                 exchanges and prints nothing at all
 *   run PROGRAM ARGS...    every rank starts this program inside MPI and leaves with its exit code
 *   pids                   every rank prints its process id, then as spin
 *   collectives BYTES      every rank prints its process id; "ready" on rank 0; then collectives of all sorts for ever
 *   lock VICTIM            every rank prints its process id; VICTIM computes with the exclusive lock of rank 0's window,
 *                          "ready" on rank 0; the others wait for that lock
 *   puts VICTIM            every rank prints its process id; "ready" on rank 0; then the others put long blocks into
 *                          VICTIM's memory, which waits in MPI and may help to copy
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;

/* All pairs at once, for ever or until `victim` kills itself in the middle of round `rounds`. */
static void exchange(size_t n, int rounds, int victim, int sig)
{
    char *out = malloc(n), *in = malloc(n * (size_t)size);
    MPI_Request *r = malloc(2 * (size_t)size * sizeof *r);
    memset(out, rank, n);
    for (int i = 0; rounds < 0 || i <= rounds; i++) {
        int k = 0;
        for (int p = 0; p < size; p++) {
            MPI_Irecv(in + n * (size_t)p, (int)n, MPI_BYTE, p, 1, MPI_COMM_WORLD, &r[k++]);
            MPI_Isend(out, (int)n, MPI_BYTE, p, 1, MPI_COMM_WORLD, &r[k++]);
        }
        if (i == rounds && rank == victim) {
            int flag;
            MPI_Testall(k, r, &flag, MPI_STATUSES_IGNORE); /* some of it is on its way */
            raise(sig);
        }
        MPI_Waitall(k, r, MPI_STATUSES_IGNORE);
    }
    free(r);
    free(in);
    free(out);
}

/* One after the other, with blocks of up to `n` bytes: by then some ranks are ahead of others. */
static void collectives(size_t n)
{
    char *out = malloc(n * (size_t)size), *in = malloc(n * (size_t)size);
    memset(out, 0, n * (size_t)size);
    for (int i = 0;; i++) {
        int bytes = i % 3 ? (int)n : 8, root = i % size;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Bcast(out, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        MPI_Reduce(out, in, bytes, MPI_BYTE, MPI_BOR, root, MPI_COMM_WORLD);
        MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
        MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        MPI_Allreduce(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        MPI_Reduce_scatter_block(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        MPI_Scan(out, in, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    }
}

/* Before the barrier, which comes before "ready". */
static MPI_Win locked_window(int victim)
{
    MPI_Win win;
    long *memory, one = 1;
    MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (rank == victim) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
    }
    return win;
}

static void wait_for_lock(MPI_Win win, int victim)
{
    long one = 1;
    while (rank == victim)
        pause();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
}

/* Long enough that a target may help, from a buffer that is the same each time. */
static void put_into(int victim)
{
    enum { BYTES = 4 << 20 };
    MPI_Win win;
    char *memory, *buffer = calloc(1, BYTES);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    while (rank != victim) {
        MPI_Put(buffer, BYTES, MPI_BYTE, victim, 0, BYTES, MPI_BYTE, win);
        MPI_Win_flush(victim, win);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* which the others never enter */
}

static void wait_for_ever(void)
{
    int x;
    MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 12345, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *verb = argc > 1 ? argv[1] : "hello";
    int a = argc > 2 ? atoi(argv[2]) : 0, b = argc > 3 ? atoi(argv[3]) : 0, code = 0;
    if (!strcmp(verb, "hello")) {
        long one = rank + 1, sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (sum != (long)size * (size + 1) / 2) {
            fprintf(stderr, "rank %d: sum is %ld\n", rank, sum);
            code = 1;
        }
        printf("hello from %d of %d\n", rank, size);
    } else if (!strcmp(verb, "library")) {
        char library[MPI_MAX_LIBRARY_VERSION_STRING];
        int length;
        MPI_Get_library_version(library, &length);
        if (rank == 0)
            printf("%d ranks on %s\n", size, library);
    } else if (!strcmp(verb, "show")) {
        char dir[4096] = "?", line[8192];
        int n = snprintf(line, sizeof line, "rank=%d size=%d cwd=%s", rank, size,
                         getcwd(dir, sizeof dir));
        for (int i = 2; i < argc && n < (int)sizeof line; i++) {
            const char *v = getenv(argv[i]);
            n += snprintf(line + n, sizeof line - (size_t)n, " %s=%s", argv[i], v ? v : "(unset)");
        }
        puts(line);
    } else if (!strcmp(verb, "args")) {
        for (int i = 2; i < argc && rank == 0; i++)
            puts(argv[i]);
    } else if (!strcmp(verb, "exit")) {
        code = rank == b ? a : 0;
    } else if (!strcmp(verb, "early")) {
        if (rank == b)
            _exit(a);
        wait_for_ever();
    } else if (!strcmp(verb, "abort")) {
        if (rank == b)
            MPI_Abort(MPI_COMM_WORLD, a);
        wait_for_ever();
    } else if (!strcmp(verb, "cat")) {
        long bytes = 0;
        for (int c; (c = getchar()) != EOF; bytes++)
            if (rank == 0)
                putchar(c);
        /* One stream for all: rank 0's text comes in blocks that end anywhere, so the others wait
         * for it. */
        fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank)
            printf("rank %d read %ld bytes\n", rank, bytes);
    } else if (!strcmp(verb, "lines")) {
        for (int i = 0; i < a; i++)
            printf("%d: line %d of a text that is long enough to be cut in two somewhere\n", rank, i);
    } else if (!strcmp(verb, "spin") || !strcmp(verb, "pids") || !strcmp(verb, "collectives") ||
               !strcmp(verb, "lock") || !strcmp(verb, "puts")) {
        MPI_Win win = MPI_WIN_NULL;
        if (verb[0] != 's') {
            printf("pid %d\n", (int)getpid());
            fflush(stdout);
        }
        if (verb[0] == 'l')
            win = locked_window(a);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            puts("ready");
        fflush(stdout);
        if (verb[0] == 'l')
            wait_for_lock(win, a);
        if (verb[0] == 'c')
            collectives((size_t)a);
        if (!strcmp(verb, "puts"))
            put_into(a);
        exchange(a ? (size_t)a : 1 << 20, -1, -1, 0);
    } else if (!strcmp(verb, "kill")) {
        exchange(argc > 4 ? (size_t)strtoul(argv[4], NULL, 0) : 1 << 20, 5, b, a);
    } else if (!strcmp(verb, "run")) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            execv(argv[2], argv + 2);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0)
            code = 126;
        else
            code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    } else if (!strcmp(verb, "silent")) {
        exchange(100000, 3, -1, 0);
    } else {
        fprintf(stderr, "job: unknown verb '%s'\n", verb);
        code = 64;
    }
    MPI_Finalize();
    return code;
}
