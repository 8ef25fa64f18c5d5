/* MPI_Comm_join (MPI 5.0, 11.10.3): over sockets of both kinds, between ranks and between parent
 * and child, and what is refused. */
#include "spawned.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A listening socket: TCP on loopback, or an abstract Unix socket. `where` says how to reach it. */
static int listen_at(int family, struct sockaddr_storage *where, socklen_t *len)
{
    int fd = socket(family, SOCK_STREAM, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int bound = family == AF_INET
                    ? bind(fd, (struct sockaddr *)&in, sizeof in)
                    : bind(fd, (struct sockaddr *)&un, sizeof(sa_family_t)); /* any name */
    CHECK(bound == 0 && listen(fd, 8) == 0, "no listening socket: %s", strerror(errno));
    *len = sizeof *where;
    getsockname(fd, (struct sockaddr *)where, len);
    return fd;
}

static int connect_to(const struct sockaddr_storage *where, socklen_t len)
{
    int fd = socket(where->ss_family, SOCK_STREAM, 0);
    CHECK(connect(fd, (const struct sockaddr *)where, len) == 0, "connect: %s", strerror(errno));
    return fd;
}

static void use(MPI_Comm inter)
{
    int theirs = -1, remote;
    unsigned char *out = test_alloc(1 << 20), *in = test_alloc(1 << 20);
    MPI_Comm_remote_size(inter, &remote);
    CHECK_INT(remote, 1, "remote size");
    MPI_Sendrecv(&test_rank, 1, MPI_INT, 0, 1, &theirs, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
    test_fill(out, 1 << 20, (uint64_t)test_rank);
    MPI_Sendrecv(out, 1 << 20, MPI_BYTE, 0, 2, in, 1 << 20, MPI_BYTE, 0, 2, inter,
                 MPI_STATUS_IGNORE);
    CHECK_INT(test_verify(in, 1 << 20, (uint64_t)theirs), 1 << 20, "first byte that differs");
    free(out);
    free(in);
}

/* Joins by the socket, uses the communicator, and the socket afterwards: it is the program's. */
static void join(int fd)
{
    MPI_Comm inter = MPI_COMM_NULL;
    char sent = (char)('a' + test_rank % 20), got = 0;
    CHECK_INT(MPI_Comm_join(fd, &inter), MPI_SUCCESS, "MPI_Comm_join");
    use(inter);
    CHECK_INT(write(fd, &sent, 1), 1, "bytes written");
    while (read(fd, &got, 1) < 0 && errno == EAGAIN)
        usleep(100); /* a socket that does not block */
    CHECK(got >= 'a' && got <= 'z', "read %d, which is not what was written", got);
    MPI_Comm_disconnect(&inter);
}

/* Ranks 2 k and 2 k + 1. */
static void pairs(int family, int nonblocking)
{
    struct sockaddr_storage where;
    socklen_t len;
    int peer = test_rank ^ 1, fd;
    if (peer >= test_size)
        return;
    if (test_rank % 2 == 0) {
        int door = listen_at(family, &where, &len);
        MPI_Send(&len, sizeof len, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        MPI_Send(&where, sizeof where, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        fd = accept(door, NULL, NULL);
        close(door);
    } else {
        MPI_Recv(&len, sizeof len, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&where, sizeof where, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        fd = connect_to(&where, len);
    }
    if (nonblocking)
        fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 3; i++)
        join(fd);
    close(fd);
}

/* A parent and a child, which meet by a socket after they have disconnected. */
static void relatives(void)
{
    struct sockaddr_storage where;
    socklen_t len;
    MPI_Comm inter = spawn_self(1, NULL, NULL, NULL, 0, MPI_COMM_SELF);
    int door = listen_at(AF_UNIX, &where, &len);
    MPI_Send(&len, sizeof len, MPI_BYTE, 0, 0, inter);
    MPI_Send(&where, sizeof where, MPI_BYTE, 0, 0, inter);
    spawned_end(&inter);
    int fd = accept(door, NULL, NULL);
    join(fd);
    close(fd);
    close(door);
}

static void child(void)
{
    struct sockaddr_storage where;
    socklen_t len;
    MPI_Recv(&len, sizeof len, MPI_BYTE, 0, 0, spawned_parent, MPI_STATUS_IGNORE);
    MPI_Recv(&where, sizeof where, MPI_BYTE, 0, 0, spawned_parent, MPI_STATUS_IGNORE);
    spawned_end(&spawned_parent);
    int fd = connect_to(&where, len);
    join(fd);
    close(fd);
}

/* MPI_ERR_ARG, unless another class is better still. */
static void check_refused(int fd, const char *what)
{
    MPI_Comm inter = MPI_COMM_WORLD;
    CHECK_CLASS(MPI_Comm_join(fd, &inter), MPI_ERR_ARG, what);
}

static void refused(void)
{
    int ends[2], file = open("/dev/null", O_RDONLY), closed = dup(file);
    char nonsense[4096];
    MPI_Comm inter;
    close(closed);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check_refused(-1, "a negative descriptor");
    check_refused(closed, "a closed descriptor");
    check_refused(file, "a file that is read only");
    close(file);
    /* The other end is closed, or says something else. */
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0, "socketpair");
    close(ends[1]);
    check_refused(ends[0], "a socket without another end");
    close(ends[0]);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0, "socketpair");
    memset(nonsense, 'x', sizeof nonsense);
    CHECK_INT(write(ends[1], nonsense, sizeof nonsense), (long)sizeof nonsense, "bytes written");
    CHECK(MPI_Comm_join(ends[0], &inter) != MPI_SUCCESS, "nonsense is understood");
    close(ends[0]);
    close(ends[1]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    spawned_init(&argc, &argv, MPI_THREAD_SINGLE);
    signal(SIGPIPE, SIG_IGN); /* as programs with sockets do */
    if (spawned_parent != MPI_COMM_NULL) {
        child();
        return spawned_finish();
    }
    pairs(AF_INET, 0);
    pairs(AF_UNIX, 0);
    pairs(AF_UNIX, 1);
    relatives();
    refused();
    return test_finish();
}
