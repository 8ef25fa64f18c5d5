/* Spawning (MPI 5.0, 11.8): numbers of children, every root, over MPI_COMM_WORLD and by each rank
 * for itself, arguments, codes, several programs, hints, grandchildren, and who the parents are. */
#include "spawned.h"
#include <sys/stat.h>

static void check_parent(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int len, is_inter = 0;
    MPI_Comm again = MPI_COMM_NULL;
    MPI_Comm_get_name(spawned_parent, name, &len);
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0, "the parent is called \"%s\"", name);
    MPI_Comm_test_inter(spawned_parent, &is_inter);
    CHECK(is_inter, "the parent is no inter-communicator");
    MPI_Comm_get_parent(&again);
    CHECK(again == spawned_parent, "two calls return different handles");
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &len);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0, "the world is called \"%s\"", name);
}

/* Attribute of MPI_COMM_WORLD, or -1. */
static int world_attr(int key)
{
    int *value, flag = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag);
    return flag ? *value : -1;
}

/* What the children of a simple spawn find: child N PARENTS. */
static void child_counted(char **argv)
{
    int size;
    CHECK_INT(test_size, atoi(argv[2]), "size of the children's world");
    MPI_Comm_remote_size(spawned_parent, &size);
    CHECK_INT(size, atoi(argv[3]), "number of parents");
    CHECK_INT(world_attr(MPI_APPNUM), 0, "MPI_APPNUM");
    CHECK(world_attr(MPI_UNIVERSE_SIZE) >= test_size, "MPI_UNIVERSE_SIZE");
}

static void numbers_and_roots(MPI_Comm comm)
{
    int size;
    MPI_Comm_size(comm, &size);
    for (int n = 1; n <= 4; n++)
        for (int root = 0; root < size; root++) {
            if (n > 2 && root != size - 1)
                continue; /* each number, and each root, but not all of both */
            char children[16], parents[16];
            snprintf(children, sizeof children, "%d", n);
            snprintf(parents, sizeof parents, "%d", size);
            MPI_Comm inter = spawn_self(n, "counted", children, parents, root, comm);
            spawned_end(&inter);
        }
}

/* Arguments at the root alone: the others pass nonsense. */
static void arguments(void)
{
    char *words[] = {"arguments", "", "a b", "\"q'\\", "\xc3\xa9=1", "-n", "--", NULL};
    char *program = spawned_program;
    int root = test_size - 1, is_root = test_rank == root, codes[2] = {-1, -1};
    MPI_Comm inter;
    MPI_Comm_spawn(is_root ? program : NULL, is_root ? words : (char **)1, is_root ? 2 : -7,
                   MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter, codes);
    CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS, "codes %d %d", codes[0], codes[1]);
    spawned_end(&inter);
    /* Without arguments, and without codes. */
    MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
                   MPI_ERRCODES_IGNORE);
    spawned_end(&inter);
}

static void child_arguments(int argc, char **argv)
{
    const char *want[] = {"arguments", "", "a b", "\"q'\\", "\xc3\xa9=1", "-n", "--"};
    CHECK_INT(argc, 8, "number of arguments");
    for (int i = 0; i + 1 < argc && i < 7; i++)
        CHECK(strcmp(argv[i + 1], want[i]) == 0, "argument %d is \"%s\"", i, argv[i + 1]);
}

/* Two programs and one without processes in between. */
static void several_programs(void)
{
    char *commands[] = {spawned_program, "/no/such/program", spawned_program};
    char *first[] = {"program", "0", NULL}, *last[] = {"program", "2", NULL};
    char **argvs[] = {first, NULL, last};
    int numbers[] = {1, 0, 2}, codes[3] = {-1, -1, -1}, size;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm inter;
    MPI_Comm_spawn_multiple(3, commands, argvs, numbers, infos, 0, MPI_COMM_WORLD, &inter, codes);
    MPI_Comm_remote_size(inter, &size);
    CHECK_INT(size, 3, "processes of both programs");
    for (int i = 0; i < 3; i++)
        CHECK_INT(codes[i], MPI_SUCCESS, "code of a process");
    spawned_end(&inter);
    /* No arguments for any of them. */
    char *alone[] = {spawned_program, spawned_program};
    int ones[] = {1, 1};
    MPI_Comm_spawn_multiple(2, alone, MPI_ARGVS_NULL, ones, infos, test_size - 1, MPI_COMM_WORLD,
                            &inter, MPI_ERRCODES_IGNORE);
    spawned_end(&inter);
}

static void child_program(char **argv)
{
    int is_last = test_rank > 0;
    CHECK_INT(test_size, 3, "size of the world of both programs");
    CHECK_INT(atoi(argv[2]), is_last ? 2 : 0, "the program's argument");
    CHECK_INT(world_attr(MPI_APPNUM), is_last ? 1 : 0, "MPI_APPNUM counts programs that run");
}

static void hints(void)
{
    char host[MPI_MAX_PROCESSOR_NAME], folder[] = "/tmp/dyn_spawnXXXXXX", link_name[80];
    char *words[] = {"hints", folder, NULL}, *plain[] = {"counted", "2", "1", NULL};
    int len, size;
    MPI_Info info;
    MPI_Comm inter;
    CHECK(mkdtemp(folder) != NULL, "no folder");
    snprintf(link_name, sizeof link_name, "%s/dyn_hinted", folder);
    CHECK(symlink(spawned_program, link_name) == 0, "no link");
    MPI_Get_processor_name(host, &len);
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", folder);
    MPI_Info_set(info, "path", folder);
    MPI_Info_set(info, "env", "DYN_ONE=1\nDYN_TWO=x y=z");
    MPI_Info_set(info, "host", host);
    MPI_Info_set(info, "no_such_hint", "is ignored");
    MPI_Comm_spawn("dyn_hinted", words, 1, info, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE);
    spawned_end(&inter);
    MPI_Info_free(&info);
    unlink(link_name);
    CHECK(rmdir(folder) == 0, "something was left in %s", folder);
    /* Any of these numbers will do; it is two. */
    MPI_Info_create(&info);
    MPI_Info_set(info, "soft", "2");
    MPI_Comm_spawn(spawned_program, plain, 2, info, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(inter, &size);
    CHECK_INT(size, 2, "processes of soft=2");
    spawned_end(&inter);
    MPI_Info_free(&info);
}

static void child_hints(char **argv)
{
    char folder[PATH_MAX];
    const char *one = getenv("DYN_ONE"), *two = getenv("DYN_TWO");
    CHECK(getcwd(folder, sizeof folder) && strcmp(folder, argv[2]) == 0, "it runs in %s", folder);
    CHECK(one && strcmp(one, "1") == 0, "DYN_ONE is %s", one ? one : "not set");
    CHECK(two && strcmp(two, "x y=z") == 0, "DYN_TWO is %s", two ? two : "not set");
}

/* Each generation spawns the next one, and ends after it or before it. */
static void child_tree(char **argv)
{
    int depth = atoi(argv[2]);
    char below[16];
    snprintf(below, sizeof below, "%d", depth - 1);
    if (depth == 0)
        return;
    MPI_Comm inter = spawn_self(1 + depth % 2, "tree", below, NULL, test_size - 1, MPI_COMM_WORLD);
    spawned_end(&inter);
}

/* At once by all ranks, each for itself, twice: the second while the first is connected. */
static void alone(void)
{
    MPI_Comm one = spawn_self(2, "counted", "2", "1", 0, MPI_COMM_SELF);
    MPI_Comm two = spawn_self(1, "counted", "1", "1", 0, MPI_COMM_SELF);
    spawned_end(&one);
    spawned_end(&two);
}

/* Over a communicator whose ranks are others than those of the job. */
static void turned(void)
{
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2, -test_rank, &comm);
    numbers_and_roots(comm);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    spawned_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (spawned_parent == MPI_COMM_NULL) {
        numbers_and_roots(MPI_COMM_WORLD);
        alone();
        turned();
        arguments();
        several_programs();
        hints();
        MPI_Comm inter = spawn_self(2, "tree", "2", NULL, 0, MPI_COMM_WORLD);
        spawned_end(&inter);
        MPI_Comm_get_parent(&inter);
        CHECK(inter == MPI_COMM_NULL, "the first world has a parent");
        return test_finish();
    }
    check_parent();
    const char *role = argc > 1 ? argv[1] : "";
    if (!strcmp(role, "counted"))
        child_counted(argv);
    else if (!strcmp(role, "arguments"))
        child_arguments(argc, argv);
    else if (!strcmp(role, "program"))
        child_program(argv);
    else if (!strcmp(role, "hints"))
        child_hints(argv);
    else if (!strcmp(role, "tree"))
        child_tree(argv);
    else
        CHECK_INT(argc, 1, "number of words without arguments");
    spawned_end(&spawned_parent);
    MPI_Comm gone;
    MPI_Comm_get_parent(&gone);
    CHECK(gone == MPI_COMM_NULL, "there is a parent after MPI_Comm_disconnect");
    return spawned_finish();
}
