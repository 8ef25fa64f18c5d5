/* What a TCP connection between two hosts allows, without MPI: the floor of the network channel
 * over a tcp provider. The two ends are processes pinned to a core each, with TCP_NODELAY, and both
 * poll their sockets without ever sleeping, as a waiting rank would. Medians of 15 batches.
 *
 *   "tcp latency"    ping-pong: half a round trip, us; 8 B to 64 KiB
 *   "tcp bandwidth"  messages one after the other in one direction, answered by a byte when 16 MiB
 *                    have arrived, MB/s (10^6 bytes a second); 64 KiB to 4 MiB
 *
 * Arguments: --hosts A B, names of network namespaces (as `ip netns add` makes them); A and B are
 * also the IPv4 addresses of the two hosts in them. Without it both ends are on 127.0.0.1.
 * First and last byte of what arrives are checked. "ranks" is the number of processes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const size_t MOST = 4 << 20, STREAM = 16 << 20;
static char *memory;

static void die(const char *what)
{
    fprintf(stderr, "tcp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Pins the caller to the first core of the lower or of the upper half of those it may use. */
static void pin(int upper)
{
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    int n = upper ? CPU_COUNT(&allowed) / 2 : 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && n-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

/* Moves the caller into a network namespace. */
static void enter(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        die(path);
    close(fd);
}

static struct sockaddr_in address(const char *host)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1) {
        fprintf(stderr, "tcp: '%s' is no IPv4 address\n", host);
        exit(1);
    }
    return to;
}

static int prepared(int fd)
{
    int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) ||
        fcntl(fd, F_SETFL, O_NONBLOCK))
        die("socket options");
    return fd;
}

static void put(int fd, const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = send(fd, from, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            die("send");
        if (n > 0) {
            from += n;
            bytes -= (size_t)n;
        }
    }
}

static void get(int fd, char *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = recv(fd, to, bytes, 0);
        if (n == 0) {
            fprintf(stderr, "tcp: the other end has gone\n");
            exit(1);
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            die("recv");
        if (n > 0) {
            to += n;
            bytes -= (size_t)n;
        }
    }
}

static void get_marked(int fd, size_t bytes, unsigned char mark)
{
    memory[0] = memory[bytes - 1] = (char)~mark;
    get(fd, memory, bytes);
    if (memory[0] != (char)mark || memory[bytes - 1] != (char)mark) {
        fprintf(stderr, "tcp: %zu bytes arrived wrongly\n", bytes);
        exit(1);
    }
}

static void put_marked(int fd, size_t bytes, unsigned char mark)
{
    memory[0] = memory[bytes - 1] = (char)mark;
    put(fd, memory, bytes);
}

/* Both ends run this, each its part; `first` begins and measures. */
static double ping_pong(int fd, int first, size_t bytes, long n)
{
    double start = now();
    for (long i = 0; i < n; i++)
        if (first) {
            put_marked(fd, bytes, (unsigned char)i);
            get_marked(fd, bytes, (unsigned char)(i + 1));
        } else {
            get_marked(fd, bytes, (unsigned char)i);
            put_marked(fd, bytes, (unsigned char)(i + 1));
        }
    return (now() - start) / (double)n;
}

static double stream(int fd, int first, size_t bytes, long n)
{
    double start = now();
    for (long i = 0; i < n; i++)
        if (first)
            put_marked(fd, bytes, (unsigned char)i);
        else
            get_marked(fd, bytes, (unsigned char)i);
    if (first)
        get(fd, memory, 1);
    else
        put(fd, memory, 1);
    return (now() - start) / (double)n;
}

static void measure(int fd, int first)
{
    double batch[BATCHES];
    for (size_t bytes = 8; bytes <= 65536; bytes = bytes == 8 ? 64 : bytes * 4) {
        long n = bytes < 4096 ? 1000 : 200;
        for (int b = -1; b < BATCHES; b++) { /* the first batch warms up */
            double once = ping_pong(fd, first, bytes, n);
            if (b >= 0)
                batch[b] = once / 2 * 1e6;
        }
        if (first)
            bench_print("tcp latency", (long)bytes, 2, batch, "us", n);
    }
    for (size_t bytes = 65536; bytes <= MOST; bytes *= 4) {
        long n = (long)(STREAM / bytes);
        for (int b = -1; b < BATCHES; b++) {
            double once = stream(fd, first, bytes, n);
            if (b >= 0)
                batch[b] = (double)bytes / once / 1e6;
        }
        if (first)
            bench_print("tcp bandwidth", (long)bytes, 2, batch, "MB/s", n);
    }
}

int main(int argc, char **argv)
{
    int apart = argc == 4 && !strcmp(argv[1], "--hosts"), status;
    if (argc > 1 && !apart) {
        fprintf(stderr, "tcp: expected --hosts A B or nothing\n");
        return 2;
    }
    struct sockaddr_in to = address(apart ? argv[3] : "127.0.0.1");
    socklen_t length = sizeof to;
    memory = aligned_alloc(4096, MOST);
    if (!memory)
        die("memory");
    memset(memory, 1, MOST);
    /* The second end listens before there is a first one. */
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (apart)
        enter(argv[3]);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&to, sizeof to) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&to, &length))
        die("listen");
    if (apart && (own < 0 || setns(own, CLONE_NEWNET)))
        die("setns");
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            return 1;
        pin(1);
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            die("accept");
        measure(prepared(fd), 0);
        return 0;
    }
    close(listener);
    pin(0);
    if (apart)
        enter(argv[2]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to))
        die("connect");
    measure(prepared(fd), 1);
    if (waitpid(child, &status, 0) != child || status)
        die("the other end");
    return 0;
}
