/* unkillable: what a program that changes its user (sudo, su) is to the user who started it.
 * Installed setuid root, it becomes root altogether, says "up", and stays. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    if (setresuid(0, 0, 0)) {
        perror("unkillable: setresuid");
        return 2;
    }
    puts("up");
    fflush(stdout);
    for (;;)
        pause();
}
