/* abi_host: a program that needs a part (tools/abi_part.c), as an object that the loader finds with it. */
#include <mpi.h>
#include <stdio.h>

int PART(void);

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    printf("the part sees %d\n", PART());
    return MPI_Finalize();
}
