/* Faults that a sanitizer must find, in the library's code: argv[1] says which. "thread": a receive
 * into a buffer that another thread writes; "address": a receive of more bytes than the buffer has.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 64 };
static char *buffer;

static void *write_buffer(void *arg)
{
    for (int i = 0; i < BYTES; i++) /* gcc does not instrument a memset that it inlines */
        ((volatile char *)buffer)[i] = 1;
    return arg;
}

int main(int argc, char **argv)
{
    char out[2 * BYTES] = {0};
    int provided, race = argc > 1 && strcmp(argv[1], "thread") == 0, bytes = race ? BYTES : 2 * BYTES;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    buffer = malloc(BYTES);
    if (race)
        pthread_create(&thread, NULL, write_buffer, NULL);
    MPI_Sendrecv(out, bytes, MPI_BYTE, 0, 0, buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    if (race)
        pthread_join(thread, NULL);
    MPI_Finalize();
    free(buffer);
    return 0;
}
