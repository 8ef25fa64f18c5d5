/* Services (MPI 5.0, 11.9.4): publish, look up, take back, by this process and by others, and what
 * is refused. Errors of these functions are raised on MPI_COMM_SELF. */
#include "spawned.h"

enum { SERVICES = 64 };

static char port[MPI_MAX_PORT_NAME];

static void check_lookup(const char *service, const char *want)
{
    char found[MPI_MAX_PORT_NAME] = "nothing";
    int code = MPI_Lookup_name(service, MPI_INFO_NULL, found);
    if (!want) {
        CHECK_CLASS(code, MPI_ERR_NAME, "lookup of what is not published");
        return;
    }
    CHECK_INT(code, MPI_SUCCESS, "MPI_Lookup_name");
    CHECK(strcmp(found, want) == 0, "%s is \"%s\", not \"%s\"", service, found, want);
}

/* One process alone. */
static void own(void)
{
    char longest[1024], name[32];
    int count = 0;
    check_lookup("one", NULL);
    CHECK_CLASS(MPI_Unpublish_name("one", MPI_INFO_NULL, port), MPI_ERR_SERVICE, "unpublish");
    CHECK_INT(MPI_Publish_name("one", MPI_INFO_NULL, port), MPI_SUCCESS, "publish");
    CHECK_CLASS(MPI_Publish_name("one", MPI_INFO_NULL, port), MPI_ERR_SERVICE, "publish twice");
    CHECK_INT(MPI_Publish_name("two", MPI_INFO_NULL, port), MPI_SUCCESS, "a port's second name");
    check_lookup("one", port);
    check_lookup("two", port);
    check_lookup("on", NULL);
    check_lookup("one ", NULL);
    CHECK_CLASS(MPI_Unpublish_name("one", MPI_INFO_NULL, "x"), MPI_ERR_SERVICE, "another port");
    check_lookup("one", port);
    CHECK_INT(MPI_Unpublish_name("one", MPI_INFO_NULL, port), MPI_SUCCESS, "unpublish");
    check_lookup("one", NULL);
    CHECK_CLASS(MPI_Unpublish_name("one", MPI_INFO_NULL, port), MPI_ERR_SERVICE, "twice");
    CHECK_INT(MPI_Unpublish_name("two", MPI_INFO_NULL, port), MPI_SUCCESS, "unpublish");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    CHECK_CLASS(MPI_Publish_name(longest, MPI_INFO_NULL, port), MPI_ERR_SERVICE, "too long");
    check_lookup(longest, NULL);
    /* As many as there can be, and one more. */
    for (; count <= SERVICES; count++) {
        snprintf(name, sizeof name, "service %d", count);
        int code = MPI_Publish_name(name, MPI_INFO_NULL, port);
        if (code != MPI_SUCCESS) {
            CHECK_CLASS(code, MPI_ERR_OTHER, "one too many");
            break;
        }
    }
    CHECK_INT(count, SERVICES, "services at a time");
    check_lookup("service 63", port);
    while (count > 0) {
        snprintf(name, sizeof name, "service %d", --count);
        CHECK_INT(MPI_Unpublish_name(name, MPI_INFO_NULL, port), MPI_SUCCESS, "unpublish");
    }
}

static void between_ranks(void)
{
    char name[32], others[MPI_MAX_PORT_NAME];
    snprintf(name, sizeof name, "rank %d", test_rank);
    MPI_Publish_name(name, MPI_INFO_NULL, port);
    MPI_Barrier(MPI_COMM_WORLD);
    int next = (test_rank + 1) % test_size;
    snprintf(name, sizeof name, "rank %d", next);
    MPI_Sendrecv(port, MPI_MAX_PORT_NAME, MPI_CHAR, (test_rank + test_size - 1) % test_size, 0,
                 others, MPI_MAX_PORT_NAME, MPI_CHAR, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_lookup(name, others);
    if (test_size > 1) {
        CHECK_CLASS(MPI_Publish_name(name, MPI_INFO_NULL, port), MPI_ERR_SERVICE, "another's name");
        int code = MPI_Unpublish_name(name, MPI_INFO_NULL, others);
        CHECK_CLASS(code, MPI_ERR_SERVICE, "unpublish of another's");
        check_lookup(name, others);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    snprintf(name, sizeof name, "rank %d", test_rank);
    CHECK_INT(MPI_Unpublish_name(name, MPI_INFO_NULL, port), MPI_SUCCESS, "unpublish");
    /* All publish one name: one of them has it. */
    int is_mine = MPI_Publish_name("contended", MPI_INFO_NULL, port) == MPI_SUCCESS, owners = 0;
    MPI_Allreduce(&is_mine, &owners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_INT(owners, 1, "owners of one name");
    if (is_mine)
        MPI_Unpublish_name("contended", MPI_INFO_NULL, port);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A child finds its parents' service, and the parents a child's; what a process that has ended
 * had published is gone. */
static void across_worlds(void)
{
    MPI_Comm inter, met;
    if (test_rank == 0)
        MPI_Publish_name("of a parent", MPI_INFO_NULL, port);
    inter = spawn_self(1, "child", NULL, NULL, 0, MPI_COMM_WORLD);
    if (test_rank == 0) {
        char theirs[MPI_MAX_PORT_NAME];
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met);
        MPI_Comm_disconnect(&met);
        MPI_Recv(theirs, 1, MPI_CHAR, 0, 0, inter, MPI_STATUS_IGNORE);
        CHECK_INT(MPI_Lookup_name("of a child", MPI_INFO_NULL, theirs), MPI_SUCCESS, "lookup");
        MPI_Comm_connect(theirs, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met);
        MPI_Comm_disconnect(&met);
        MPI_Unpublish_name("of a parent", MPI_INFO_NULL, port);
    }
    spawned_end(&inter);
}

static void child(void)
{
    char theirs[MPI_MAX_PORT_NAME];
    MPI_Comm met;
    CHECK_INT(MPI_Lookup_name("of a parent", MPI_INFO_NULL, theirs), MPI_SUCCESS, "lookup");
    MPI_Comm_connect(theirs, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met);
    MPI_Comm_disconnect(&met);
    MPI_Publish_name("of a child", MPI_INFO_NULL, port);
    MPI_Send(theirs, 1, MPI_CHAR, 0, 0, spawned_parent);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &met);
    MPI_Comm_disconnect(&met);
    MPI_Unpublish_name("of a child", MPI_INFO_NULL, port);
}

int main(int argc, char **argv)
{
    spawned_init(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Open_port(MPI_INFO_NULL, port);
    if (spawned_parent != MPI_COMM_NULL) {
        child();
    } else {
        if (test_rank == 0)
            own();
        MPI_Barrier(MPI_COMM_WORLD);
        between_ranks();
        across_worlds();
    }
    MPI_Close_port(port);
    return spawned_parent != MPI_COMM_NULL ? spawned_finish() : test_finish();
}
