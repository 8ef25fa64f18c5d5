/* Worlds that meet: children of several spawns reach each other, by inter-communicators that their
 * parents help to make, by ports of their own, and by what is merged; connections end in any order,
 * and a parent may come late. */
#include "spawned.h"

/* Sum over the other side, and over all. */
static void check(MPI_Comm inter, int expected_remote)
{
    int remote, size;
    long one = 1, sum = 0;
    MPI_Comm all;
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_size(inter, &size);
    CHECK_INT(remote, expected_remote, "size of the other side");
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, inter);
    CHECK_INT(sum, remote, "sum over the other side");
    MPI_Intercomm_merge(inter, 0, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, all);
    CHECK_INT(sum, remote + size, "sum over all");
    MPI_Comm_disconnect(&all);
}

/* Two worlds of children, connected through one communicator of all: side 0 is the parents with
 * the first world, side 1 the second world. */
static void siblings(void)
{
    MPI_Comm first = spawn_self(2, "sibling", "0", NULL, 0, MPI_COMM_WORLD);
    MPI_Comm both, second, all, join;
    MPI_Intercomm_merge(first, 0, &both);
    int size;
    MPI_Comm_size(both, &size);
    CHECK_INT(size, test_size + 2, "parents and first children");
    /* All of them spawn. */
    second = spawn_self(2, "sibling", "1", NULL, size - 1, both);
    MPI_Intercomm_merge(second, 0, &all);
    /* Over the communicator of all, the two worlds of children make one without the parents. */
    MPI_Comm_split(all, MPI_UNDEFINED, 0, &join);
    CHECK(join == MPI_COMM_NULL, "a communicator without a colour");
    MPI_Comm_disconnect(&all);
    spawned_end(&second);
    MPI_Comm_disconnect(&both);
    spawned_end(&first);
}

static void sibling(char **argv)
{
    int is_second = atoi(argv[2]);
    MPI_Comm both, second, all, children, halves;
    if (is_second) {
        MPI_Intercomm_merge(spawned_parent, 1, &all);
    } else {
        int size;
        MPI_Intercomm_merge(spawned_parent, 1, &both);
        MPI_Comm_size(both, &size);
        second = spawn_self(2, "sibling", "1", NULL, size - 1, both);
        MPI_Intercomm_merge(second, 0, &all);
    }
    MPI_Comm_split(all, 1, 0, &children);
    /* Parents come first, then the first children, then the second. */
    int rank, size;
    MPI_Comm_rank(children, &rank);
    MPI_Comm_size(children, &size);
    CHECK_INT(size, 4, "children of both worlds");
    CHECK_INT(rank, 2 * is_second + test_rank, "rank among them");
    MPI_Intercomm_create(MPI_COMM_WORLD, 0, children, is_second ? 0 : 2, 5, &halves);
    check(halves, 2);
    MPI_Comm_disconnect(&all);
    if (!is_second) {
        spawned_end(&second);
        MPI_Comm_disconnect(&both);
    } else {
        spawned_end(&spawned_parent);
    }
    /* No communicator with the parents' world is left to the second children. */
    check(halves, 2);
    MPI_Comm_disconnect(&children);
    MPI_Comm_disconnect(&halves);
}

/* Children of two separate spawns connect by a port, whose name the parents pass on. */
static void by_port(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm one = spawn_self(2, "accepts", NULL, NULL, 0, MPI_COMM_WORLD);
    MPI_Comm two = spawn_self(1, "connects", NULL, NULL, 0, MPI_COMM_WORLD);
    if (test_rank == 0) {
        MPI_Recv(port, sizeof port, MPI_CHAR, 0, 3, one, MPI_STATUS_IGNORE);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 3, two);
    }
    spawned_end(&two);
    spawned_end(&one);
}

static void accepts(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    if (test_rank == 1) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 4, MPI_COMM_WORLD);
    } else {
        MPI_Recv(port, sizeof port, MPI_CHAR, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(port, sizeof port, MPI_CHAR, 0, 3, spawned_parent);
    }
    MPI_Comm_accept(port, MPI_INFO_NULL, 1, MPI_COMM_WORLD, &other);
    if (test_rank == 1)
        MPI_Close_port(port);
    spawned_end(&spawned_parent);
    check(other, 1);
    MPI_Comm_disconnect(&other);
}

static void connects(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm other;
    MPI_Recv(port, sizeof port, MPI_CHAR, 0, 3, spawned_parent, MPI_STATUS_IGNORE);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    spawned_end(&spawned_parent);
    check(other, 2);
    MPI_Comm_disconnect(&other);
}

/* The parents leave first; two worlds below each other, which stay connected. */
static void orphans(void)
{
    MPI_Comm inter = spawn_self(2, "orphan", NULL, NULL, 0, MPI_COMM_WORLD);
    spawned_end(&inter);
}

static void orphan(void)
{
    spawned_end(&spawned_parent);
    MPI_Comm below = spawn_self(2, "leaf", NULL, NULL, 1, MPI_COMM_WORLD);
    check(below, 2);
    spawned_end(&below);
}

/* A parent that comes to the spawn late, polling meanwhile, while the children have sent it more
 * than those before them, who had the same numbers. All messages come once, in order. */
static void late(void)
{
    int last = test_size - 1;
    for (int round = 0; round < 4; round++) {
        int count = 20 + 30 * round, flag;
        char number[16];
        snprintf(number, sizeof number, "%d", count);
        for (int i = 0; test_rank == last && i < 300; i++) {
            MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
            usleep(100); /* 30 ms: longer than most children need to start and send */
        }
        MPI_Comm inter = spawn_self(1, "sends", number, NULL, 0, MPI_COMM_WORLD);
        for (int i = 0; test_rank == last && i < count; i++) {
            int got = -1;
            MPI_Recv(&got, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE);
            CHECK_INT(got, i, "the next message");
        }
        spawned_end(&inter);
    }
}

static void sends(int count)
{
    int last;
    MPI_Comm_remote_size(spawned_parent, &last);
    for (int i = 0; i < count; i++)
        MPI_Send(&i, 1, MPI_INT, last - 1, 3, spawned_parent);
}

int main(int argc, char **argv)
{
    spawned_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (spawned_parent == MPI_COMM_NULL) {
        siblings();
        by_port();
        orphans();
        siblings();
        late();
        return test_finish();
    }
    if (!strcmp(argv[1], "sibling"))
        sibling(argv);
    else if (!strcmp(argv[1], "accepts"))
        accepts();
    else if (!strcmp(argv[1], "connects"))
        connects();
    else if (!strcmp(argv[1], "orphan"))
        orphan();
    else if (!strcmp(argv[1], "sends"))
        sends(atoi(argv[2]));
    else
        check(spawned_parent, 2);
    return spawned_finish();
}
