/* attach NAME COUNT: connects COUNT times to the abstract socket NAME as `mica top` does. Of one
 * connection, asks for the job and prints "refused" if nothing comes, or "served"; of several, asks
 * nothing, prints "connected" and stays. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int count, fd = -1;
    if (argc != 3 || strlen(argv[1]) > sizeof address.sun_path - 1)
        return 2;
    count = atoi(argv[2]);
    memcpy(address.sun_path + 1, argv[1], strlen(argv[1]));
    for (int i = 0; i < count; i++) {
        fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(argv[1]);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, length)) {
            perror("connect");
            return 1;
        }
    }
    if (count == 1) {
        char answer[1024];
        ssize_t sent = send(fd, "mica-at\1test", 12, MSG_NOSIGNAL);
        ssize_t got = sent < 0 ? 0 : recv(fd, answer, sizeof answer, MSG_TRUNC);
        puts(got > 0 ? "served" : "refused");
        return 0;
    }
    puts("connected");
    fflush(stdout);
    for (;;)
        pause();
}
