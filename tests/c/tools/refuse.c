/* refuse WHAT PROGRAM ARGS...: runs a program from which WHAT (see refusals.h) is taken away. Exits
 * with 77 where this process may not do that. */
#include "../refusals.h"

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: refuse WHAT PROGRAM ARGS...\n");
        return 2;
    }
    int error = refusals_begin(argv[1]);
    if (error) {
        fprintf(stderr, "refuse: cannot take away '%s': %s\n", argv[1], strerror(error));
        return 77;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "refuse: %s: %s\n", argv[2], strerror(errno));
    return 127;
}
