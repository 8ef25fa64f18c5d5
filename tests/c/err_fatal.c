/* With the default handler an error ends the job: this must not print its last line. The harness
 * expects a failure, and a message that names the call. */
#include "test.h"

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    int x = 0;
    MPI_Send(&x, 1, MPI_INT, test_size + 7, 0, MPI_COMM_WORLD);
    printf("No Errors\n");
    return test_finish();
}
