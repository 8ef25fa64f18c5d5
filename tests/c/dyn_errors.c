/* What cannot be spawned: the error's class, its text, the codes of the processes, at every rank;
 * and the job goes on and can spawn afterwards. */
#include "spawned.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

static MPI_Comm comm;
static char folder[] = "/tmp/dyn_errorsXXXXXX";

/* Checks the error of a spawn: its class, its text, the codes of all processes. */
static void check_error(int code, const char *reason, const int *codes, int n, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;
    CHECK_CLASS(code, MPI_ERR_SPAWN, what);
    MPI_Error_string(code, text, &len);
    CHECK(strstr(text, reason) != NULL, "%s: no \"%s\" in: %s", what, reason, text);
    for (int i = 0; i < n; i++)
        CHECK(test_class_of(codes[i]) == MPI_ERR_SPAWN, "%s: code %d of process %d", what, codes[i],
              i);
}

/* As after each error: the job is whole. */
static void goes_on(void)
{
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_INT(sum, test_size, "sum after an error");
}

/* `n` processes of a program cannot be started, because of `reason`. */
static void fails(const char *program, char **argv, int n, MPI_Info info, const char *reason)
{
    MPI_Comm inter = MPI_COMM_WORLD;
    int codes[128], root = test_size - 1;
    memset(codes, 0, sizeof codes);
    int code = MPI_Comm_spawn(program, argv, n, info, root, comm, &inter, codes);
    check_error(code, reason, codes, n, program);
    CHECK(inter == MPI_COMM_NULL, "%s: there is a communicator", program);
    goes_on();
}

static void programs(void)
{
    char text[80];
    char *code_0[] = {"-c", "exit 0", NULL}, *code_5[] = {"-c", "exit 5", NULL};
    char *killed[] = {"-c", "kill -KILL $$", NULL};
    fails("/no/such/program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, "/no/such/program");
    fails("no_such_program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, "no_such_program");
    snprintf(text, sizeof text, "%s/plain", folder);
    fails(text, MPI_ARGV_NULL, 1, MPI_INFO_NULL, text);
    fails("/tmp", MPI_ARGV_NULL, 1, MPI_INFO_NULL, "/tmp");
    fails("/bin/sh", code_0, 2, MPI_INFO_NULL, "exited with code 0");
    fails("/bin/sh", code_5, 1, MPI_INFO_NULL, "5");
    fails("/bin/sh", killed, 2, MPI_INFO_NULL, "SIGKILL");
}

/* One process of several ends before MPI_Init, while the others are in it. */
static void one_of_several(void)
{
    char *words[] = {"one of several", NULL};
    fails(spawned_program, words, 3, MPI_INFO_NULL, "process 1");
}

static void hints(void)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", "/no/such/folder");
    fails(spawned_program, MPI_ARGV_NULL, 1, info, "/no/such/folder");
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", "far.invalid");
    fails(spawned_program, MPI_ARGV_NULL, 1, info, "far.invalid");
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    MPI_Info_set(info, "env", "=x");
    int code = -1, root = test_size - 1;
    MPI_Comm inter;
    MPI_Comm_spawn(spawned_program, MPI_ARGV_NULL, 1, info, root, comm, &inter, &code);
    CHECK_CLASS(code, MPI_ERR_INFO_VALUE, "a variable without a name");
    MPI_Info_free(&info);
    goes_on();
}

static void arguments(void)
{
    MPI_Comm inter;
    char *none[] = {"", spawned_program};
    int numbers[] = {1, -1}, codes[2];
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    int code = MPI_Comm_spawn(spawned_program, MPI_ARGV_NULL, -1, MPI_INFO_NULL, 0, comm, &inter,
                              codes);
    CHECK_CLASS(code, MPI_ERR_ARG, "maxprocs of -1");
    code = MPI_Comm_spawn(spawned_program, MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, comm, &inter, codes);
    CHECK_CLASS(code, MPI_ERR_ARG, "maxprocs of 0");
    code = MPI_Comm_spawn("", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, comm, &inter, codes);
    CHECK_CLASS(code, MPI_ERR_ARG, "a program without a name");
    for (int root = -1; root <= test_size; root += test_size + 1) {
        code = MPI_Comm_spawn(spawned_program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, root, comm, &inter,
                              codes);
        CHECK_CLASS(code, MPI_ERR_ROOT, "a root that is not there");
    }
    code = MPI_Comm_spawn_multiple(2, none, MPI_ARGVS_NULL, numbers, infos, 0, comm, &inter, codes);
    CHECK_CLASS(code, MPI_ERR_ARG, "one program without a name, -1 of the other");
    code = MPI_Comm_spawn_multiple(0, none, MPI_ARGVS_NULL, numbers, infos, 0, comm, &inter, codes);
    CHECK_CLASS(code, MPI_ERR_COUNT, "no programs");
    goes_on();
}

/* Of two programs the second is to blame: none is started. */
static void second_program(void)
{
    MPI_Comm inter;
    char *commands[] = {spawned_program, "/no/such/second"};
    int numbers[] = {2, 1}, codes[3] = {0, 0, 0};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    int code = MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, numbers, infos, 0, comm, &inter,
                                       codes);
    check_error(code, "/no/such/second", codes, 3, "the second program");
    goes_on();
}

/* More than MICA_SPARE_RANKS allows; then as many as it does. */
static void too_many(void)
{
    fails(spawned_program, MPI_ARGV_NULL, 65 - test_size, MPI_INFO_NULL, "MICA_SPARE_RANKS");
}

static void inside_a_finalized_child(void)
{
    MPI_Comm inter = spawn_self(1, "well", NULL, NULL, 0, comm);
    spawned_end(&inter);
}

int main(int argc, char **argv)
{
    /* Before MPI_Init: one of several ends, as the launcher numbers them for all programs. */
    const char *local = getenv("MPI_LOCALRANKID");
    if (argc > 1 && !strcmp(argv[1], "one of several") && local && atoi(local) == 1)
        return 3;
    spawned_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (spawned_parent != MPI_COMM_NULL)
        return spawned_finish();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK(test_rank != test_size - 1 || mkdtemp(folder), "no folder");
    MPI_Bcast(folder, sizeof folder, MPI_CHAR, test_size - 1, comm);
    char plain[80];
    snprintf(plain, sizeof plain, "%s/plain", folder);
    if (test_rank == test_size - 1)
        close(open(plain, O_CREAT | O_WRONLY, 0644)); /* not executable */
    programs();
    inside_a_finalized_child();
    one_of_several();
    hints();
    arguments();
    second_program();
    too_many();
    inside_a_finalized_child();
    if (test_rank == test_size - 1) {
        unlink(plain);
        rmdir(folder);
    }
    MPI_Comm_free(&comm);
    return test_finish();
}
