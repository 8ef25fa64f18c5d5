/* dynamic VERB N ARGS...: what the tests of dynamic processes need of a program (tests/jobs/dynamic.rs).
 * The first world spawns N processes of it, over all its ranks.
 *
 *   exchange     every process prints "WORLD RANK pid PID" (WORLD is parent, child or last), rank 0 of
 *                the parents "ready"; then messages and collectives between the two for ever
 *   children     the same; but the parents wait for what never comes of child 0, and the children compute
 *   apart        the two disconnect; then each process prints its line, rank 0 of the parents "ready";
 *                each world exchanges for ever among its ranks
 *   leave N FILE as apart; but the parents end, and the children print "child RANK still here" when FILE
 *                is there
 *   lost N FILE  as apart; but the children wait for ever, and the parents, when FILE is there, spawn one
 *                more and end
 *   abort N CODE child 0 calls MPI_Abort(CODE), the others wait for it
 *   chain        a child spawns a last one; then as exchange, between the parents and the child
 *   early        the children never call MPI_Init, print their line and wait for ever
 *   fails        the spawn fails: rank 0 prints the error's class and text, and all go on
 *   count        rank 0 prints how many processes are in the merged communicator
 *   rounds N     N times two children, work, disconnect; rank 0 prints what it holds after the tenth and
 *                after the last
 */
#include <dirent.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, size, is_child;
static const char *world = "parent";
static char program[4096];
static MPI_Comm parent;

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void say_pid(void)
{
    printf("%s %d pid %ld\n", world, rank, (long)getpid());
    fflush(stdout);
}

static void wait_for_file(const char *name)
{
    while (access(name, F_OK) != 0)
        usleep(1000); /* any moment after the file was made will do */
}

static MPI_Comm spawn(int n, char **argv)
{
    MPI_Comm inter;
    MPI_Comm_spawn(program, argv, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    return inter;
}

/* Messages of each with each, and collectives, for ever. */
static void exchange(MPI_Comm comm)
{
    int mine, peers;
    enum { MOST = 200000 };
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &peers);
    char *out = calloc(1, MOST), *in = calloc((size_t)peers, MOST);
    MPI_Request *r = malloc(2 * (size_t)peers * sizeof *r);
    for (int i = 0;; i++) {
        int n = i % 3 == 0 ? 8 : i % 3 == 1 ? 3000 : MOST, k = 0;
        for (int p = 0; p < peers; p++) {
            MPI_Irecv(in + (size_t)MOST * (size_t)p, n, MPI_BYTE, p, 1, comm, &r[k++]);
            MPI_Isend(out, n, MPI_BYTE, p, 1, comm, &r[k++]);
        }
        MPI_Waitall(k, r, MPI_STATUSES_IGNORE);
        MPI_Allreduce(out, in, n, MPI_BYTE, MPI_BOR, comm);
        MPI_Bcast(in, n, MPI_BYTE, i % peers, comm);
        MPI_Barrier(comm);
    }
}

static void exchange_with(MPI_Comm inter)
{
    MPI_Comm all;
    MPI_Intercomm_merge(inter, is_child, &all);
    say_pid();
    MPI_Barrier(all);
    if (!is_child && rank == 0)
        say("ready");
    exchange(all);
}

static void never_comes(MPI_Comm comm, int source)
{
    int x;
    MPI_Recv(&x, 1, MPI_INT, source, 12345, comm, MPI_STATUS_IGNORE);
}

/* Entries of a folder of /proc/self, or its lines. */
static int count_entries(const char *name)
{
    DIR *folder = opendir(name);
    int n = 0;
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static int count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    int n = 0, c;
    while ((c = getc(maps)) != EOF)
        n += c == '\n';
    fclose(maps);
    return n;
}

/* 512-byte blocks of the job segment: the memfd whose size is beyond any other's. */
static long segment_blocks(void)
{
    struct stat status;
    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 1L << 40)
            return (long)status.st_blocks;
    return -1;
}

/* Whether the file NAME of a process in /proc has `text` in it. */
static int process_has(const char *process, const char *name, const char *text)
{
    char path[300], data[65536];
    snprintf(path, sizeof path, "/proc/%s/%s", process, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t n = fread(data, 1, sizeof data, file);
    fclose(file);
    return memmem(data, n, text, strlen(text)) != NULL;
}

/* Launchers of this job's spawned processes that have not ended: they give memory back last. */
static int count_launchers(void)
{
    const char *mark = getenv("MICA_TEST_JOB");
    struct dirent *entry;
    DIR *folder = opendir("/proc");
    int n = 0;
    while ((entry = readdir(folder)))
        n += entry->d_name[0] >= '0' && entry->d_name[0] <= '9' &&
             process_has(entry->d_name, "cmdline", "--spawned") &&
             process_has(entry->d_name, "environ", mark ? mark : "MICA_TEST_JOB");
    closedir(folder);
    return n;
}

static void held(int round)
{
    while (count_launchers() > 0)
        usleep(1000); /* they are no children of this process */
    printf("%d: descriptors %d mappings %d threads %d blocks %ld\n", round,
           count_entries("/proc/self/fd"), count_mappings(), count_entries("/proc/self/task"),
           segment_blocks());
    fflush(stdout);
}

/* What a round does with the two children, on both sides. */
static void work(MPI_Comm inter)
{
    enum { BYTES = 300000 };
    static char out[BYTES], in[BYTES];
    MPI_Comm all;
    MPI_Win win;
    int next, of, me;
    char *memory;
    MPI_Intercomm_merge(inter, is_child, &all);
    MPI_Comm_rank(all, &me);
    MPI_Comm_size(all, &of);
    next = (me + 1) % of;
    for (int n = 8; n <= BYTES; n *= 33)
        MPI_Sendrecv(out, n, MPI_BYTE, next, 0, in, n, MPI_BYTE, (me + of - 1) % of, 0, all,
                     MPI_STATUS_IGNORE);
    MPI_Allreduce(out, in, 1000, MPI_BYTE, MPI_BOR, all);
    MPI_Win_allocate(4096, 1, MPI_INFO_NULL, all, &memory, &win);
    MPI_Win_fence(0, win);
    MPI_Put(out, 100, MPI_BYTE, next, 0, 100, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_free(&all);
}

static void rounds(int n, char **argv)
{
    for (int round = 1; round <= n; round++) {
        MPI_Comm inter = spawn(2, argv);
        work(inter);
        MPI_Comm_disconnect(&inter);
        if (round == 10 || round == n) {
            /* The other parents hold nothing for a moment, either. */
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0)
                held(round);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
}

static void fails(int n, char **argv)
{
    MPI_Comm inter = MPI_COMM_WORLD;
    int codes[64], code, class, len, sum = 0, one = 1;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Comm_spawn(program, argv, n, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &len);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s: %s\n", class == MPI_ERR_SPAWN ? "MPI_ERR_SPAWN" : "another class", text);
        printf("%d go on\n", inter == MPI_COMM_NULL ? sum : -1);
        fflush(stdout);
    }
}

static void count(MPI_Comm inter)
{
    MPI_Comm all;
    int of;
    MPI_Intercomm_merge(inter, is_child, &all);
    MPI_Comm_size(all, &of);
    if (!is_child && rank == 0)
        printf("%d processes\n", of);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
}

/* The middle of a chain connects the first and the last. */
static void chain(char **argv)
{
    char *last[] = {"exchange", "0", NULL};
    MPI_Comm below = MPI_COMM_NULL, all, half;
    if (!is_child)
        exchange_with(spawn(1, argv));
    MPI_Intercomm_merge(parent, 1, &all);
    say_pid();
    below = spawn(1, last);
    MPI_Intercomm_merge(below, 0, &half);
    MPI_Barrier(half);
    MPI_Barrier(all);
    exchange(all);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "count";
    int n = argc > 2 ? atoi(argv[2]) : 1;
    const char *word = argc > 3 ? argv[3] : "";
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    program[len > 0 ? len : 0] = 0;
    if (!strcmp(verb, "early") && argc > 3 && !strcmp(word, "child")) {
        printf("child 0 pid %ld\n", (long)getpid());
        say("ready");
        for (;;)
            pause();
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    is_child = parent != MPI_COMM_NULL;
    if (is_child)
        world = n > 0 ? "child" : "last";
    MPI_Comm inter = parent;
    char **words = argv + 1; /* children get the same, and their parent's */
    char *early[] = {"early", "1", "child", NULL};
    if (!strcmp(verb, "early"))
        spawn(n, early);
    if (!strcmp(verb, "rounds")) {
        if (is_child) {
            work(parent);
            MPI_Comm_disconnect(&parent);
        } else {
            rounds(n, words);
        }
    } else if (!strcmp(verb, "fails")) {
        fails(n, words);
    } else if (!strcmp(verb, "chain")) {
        chain(words);
    } else {
        if (!is_child)
            inter = spawn(n, words);
        if (!strcmp(verb, "exchange")) {
            exchange_with(inter);
        } else if (!strcmp(verb, "count")) {
            count(inter);
        } else if (!strcmp(verb, "children")) {
            say_pid();
            MPI_Barrier(inter);
            if (!is_child && rank == 0)
                say("ready");
            for (volatile long i = 0; is_child; i++)
                ;
            never_comes(inter, 0);
        } else if (!strcmp(verb, "abort")) {
            if (is_child && rank == 0)
                MPI_Abort(MPI_COMM_WORLD, atoi(word));
            never_comes(MPI_COMM_WORLD, MPI_ANY_SOURCE);
        } else {
            int all_there;
            MPI_Barrier(inter);
            MPI_Comm_disconnect(&inter);
            say_pid();
            MPI_Allreduce(&rank, &all_there, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (!is_child && rank == 0)
                say("ready");
            if (!strcmp(verb, "apart")) {
                exchange(MPI_COMM_WORLD);
            } else if (!strcmp(verb, "leave") && is_child) {
                wait_for_file(word);
                printf("child %d still here\n", rank);
            } else if (!strcmp(verb, "lost") && is_child) {
                never_comes(MPI_COMM_WORLD, MPI_ANY_SOURCE);
            } else if (!strcmp(verb, "lost")) {
                char *again[] = {"count", "1", NULL};
                wait_for_file(word);
                count(spawn(1, again));
            }
        }
    }
    MPI_Finalize();
    return 0;
}
