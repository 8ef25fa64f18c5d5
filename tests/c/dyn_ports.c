/* Ports (MPI 5.0, 11.9): groups of one job that connect, one and several processes a side, every
 * root, again and again; and what is refused. */
#include "spawned.h"

enum { ROUNDS = 20, PORTS = 14 };

/* Process `from` gives all a port's name. */
static void share(char *port, int from)
{
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, from, MPI_COMM_WORLD);
}

/* The ranks below `bound` accept, the others connect. */
static void groups(int bound)
{
    MPI_Comm half, inter;
    char port[MPI_MAX_PORT_NAME] = "";
    int accepts = test_rank < bound, size;
    MPI_Comm_split(MPI_COMM_WORLD, accepts, test_rank, &half);
    MPI_Comm_size(half, &size);
    int root = size - 1, opener = bound - 1, remote = test_size - size, got = -1;
    if (test_rank == opener)
        MPI_Open_port(MPI_INFO_NULL, port);
    share(port, opener);
    for (int round = 0; round < ROUNDS; round++) {
        /* The name counts at the root alone. */
        int is_root = test_rank == opener || test_rank == bound + root;
        const char *name = is_root || round % 2 ? port : NULL;
        if (accepts)
            MPI_Comm_accept(name, MPI_INFO_NULL, root, half, &inter);
        else
            MPI_Comm_connect(name, MPI_INFO_NULL, root, half, &inter);
        MPI_Comm_remote_size(inter, &got);
        CHECK_INT(got, remote, "size of the other side");
        long one = test_rank + 1, sum = 0, want = 0;
        for (int i = accepts ? bound : 0; i < (accepts ? test_size : bound); i++)
            want += i + 1;
        MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, inter);
        CHECK_INT(sum, want, "sum over the other side");
        MPI_Comm_disconnect(&inter);
    }
    if (test_rank == opener)
        CHECK_INT(MPI_Close_port(port), MPI_SUCCESS, "MPI_Close_port");
    MPI_Comm_free(&half);
}

/* Several callers of one port are accepted one after the other. */
static void callers(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    if (test_rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    share(port, 0);
    long seen = 0;
    for (int i = 1; test_rank == 0 && i < test_size; i++) {
        int caller = -1;
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        MPI_Recv(&caller, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
        seen |= 1L << caller;
        MPI_Comm_disconnect(&inter);
    }
    if (test_rank > 0) {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        MPI_Send(&test_rank, 1, MPI_INT, 0, 0, inter);
        MPI_Comm_disconnect(&inter);
    } else {
        CHECK_INT(seen, (1L << test_size) - 2, "callers");
        MPI_Close_port(port);
    }
}

/* One process with two ports: what calls one does not come to the other. */
static void two_ports(void)
{
    char port[2][MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    if (test_size < 3)
        return;
    for (int i = 0; i < 2; i++) {
        if (test_rank == 0)
            MPI_Open_port(MPI_INFO_NULL, port[i]);
        share(port[i], 0);
    }
    CHECK(strcmp(port[0], port[1]) != 0, "two ports have one name");
    for (int i = 1; i >= 0; i--) {
        int from = -1;
        if (test_rank == 0) {
            MPI_Comm_accept(port[i], MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
            MPI_Recv(&from, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
            CHECK_INT(from, i + 1, "caller of a port");
            MPI_Comm_disconnect(&inter);
            MPI_Close_port(port[i]);
        } else if (test_rank == i + 1) {
            MPI_Comm_connect(port[i], MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
            MPI_Send(&test_rank, 1, MPI_INT, 0, 0, inter);
            MPI_Comm_disconnect(&inter);
        }
    }
}

static int connect_error(const char *port)
{
    MPI_Comm inter = MPI_COMM_WORLD;
    int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    return code;
}

/* The error's text has the reason. */
static void check_text(int code, const char *reason)
{
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(code, text, &len);
    CHECK(strstr(text, reason) != NULL, "no \"%s\" in: %s", reason, text);
}

static void refused(void)
{
    char port[MPI_MAX_PORT_NAME], names[PORTS + 1][MPI_MAX_PORT_NAME];
    const char *wrong[] = {"", "x", "mica:", "mica:1:2:3:4:5", "tag#0$", "mica::0:1"};
    MPI_Comm inter;
    int code, count = 0;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_CLASS(connect_error(wrong[i]), MPI_ERR_PORT, wrong[i]);
        code = MPI_Comm_accept(wrong[i], MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        CHECK_CLASS(code, MPI_ERR_PORT, "accept at a wrong name");
        CHECK_CLASS(MPI_Close_port(wrong[i]), MPI_ERR_PORT, "close of a wrong name");
    }
    MPI_Open_port(MPI_INFO_NULL, port);
    code = connect_error(port);
    CHECK_CLASS(code, MPI_ERR_PORT, "connection with itself");
    check_text(code, "itself");
    code = MPI_Comm_accept(port, MPI_INFO_NULL, 1, MPI_COMM_SELF, &inter);
    CHECK_CLASS(code, MPI_ERR_ROOT, "accept by a root that is not there");
    code = MPI_Comm_connect(port, MPI_INFO_NULL, -1, MPI_COMM_SELF, &inter);
    CHECK_CLASS(code, MPI_ERR_ROOT, "connect by a root that is not there");
    CHECK_INT(MPI_Close_port(port), MPI_SUCCESS, "MPI_Close_port");
    CHECK_CLASS(MPI_Close_port(port), MPI_ERR_PORT, "close of a closed port");
    code = connect_error(port);
    CHECK_CLASS(code, MPI_ERR_PORT, "connection with a closed port");
    check_text(code, "closed");
    code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    CHECK_CLASS(code, MPI_ERR_PORT, "accept at a closed port");
    /* As many as there can be, and one more. */
    while (count <= PORTS && MPI_Open_port(MPI_INFO_NULL, names[count]) == MPI_SUCCESS)
        count++;
    CHECK_INT(count, PORTS, "ports at a time");
    while (count > 0)
        CHECK_INT(MPI_Close_port(names[--count]), MPI_SUCCESS, "MPI_Close_port");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* The port of another rank is not this one's to accept at or to close; one that is closed while
 * a process waits refuses the caller, who can call another one afterwards. */
static void of_another(void)
{
    char port[MPI_MAX_PORT_NAME] = "", second[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    int code, ready = 1;
    if (test_size < 2)
        return;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (test_rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Open_port(MPI_INFO_NULL, second);
    }
    share(port, 0);
    share(second, 0);
    if (test_rank == 1) {
        code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        CHECK_CLASS(code, MPI_ERR_PORT, "accept at another's port");
        CHECK_CLASS(MPI_Close_port(port), MPI_ERR_PORT, "close of another's port");
        MPI_Send(&ready, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
        /* Refused as it waits, or at once: rank 0 does not accept before it closes. */
        code = connect_error(port);
        CHECK_CLASS(code, MPI_ERR_PORT, "connection with a port that is closed meanwhile");
        check_text(code, "closed");
        MPI_Comm_connect(second, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        MPI_Comm_disconnect(&inter);
    } else if (test_rank == 0) {
        MPI_Recv(&ready, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(20000); /* most often the caller waits by then */
        MPI_Close_port(port);
        MPI_Comm_accept(second, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        MPI_Comm_disconnect(&inter);
        MPI_Close_port(second);
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* An error at the root is one for all of its side, and the next call works. */
static void errors_are_everyones(void)
{
    MPI_Comm comm, inter = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int code = MPI_Comm_connect("nowhere", MPI_INFO_NULL, test_size - 1, comm, &inter);
    CHECK_CLASS(code, MPI_ERR_PORT, "connection with nothing");
    code = MPI_Comm_accept("nowhere", MPI_INFO_NULL, 0, comm, &inter);
    CHECK_CLASS(code, MPI_ERR_PORT, "accept at nothing");
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    spawned_init(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    for (int bound = 1; bound < test_size; bound++)
        groups(bound);
    callers();
    two_ports();
    refused();
    of_another();
    errors_are_everyones();
    return test_finish();
}
