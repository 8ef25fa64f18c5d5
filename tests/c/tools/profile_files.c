/* profile_files: accesses of two files, whose numbers the tests of `mica profile` know. argv: a
 * folder
 *
 *   one     each rank writes 10 blocks of 4,096 bytes one after another by offset, and reads the
 *           third and the first of them by the individual pointer
 *   shared  each rank writes 5 records of 100 bytes by the shared pointer, split and all together */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static MPI_File opened(const char *folder, const char *name)
{
    char path[1024];
    MPI_File file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file))
        MPI_Abort(MPI_COMM_WORLD, 1);
    return file;
}

int main(int argc, char **argv)
{
    static char block[4096];
    int rank;
    MPI_File one, shared;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    one = opened(argv[1], "one");
    for (int i = 0; i < 10; i++)
        MPI_File_write_at(one, (MPI_Offset)(10 * rank + i) * 4096, block, 4096, MPI_BYTE,
                          MPI_STATUS_IGNORE);
    for (int i = 2; i >= 0; i -= 2) {
        MPI_File_seek(one, (MPI_Offset)(10 * rank + i) * 4096, MPI_SEEK_SET);
        MPI_File_read(one, block, 4096, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&one);
    shared = opened(argv[1], "shared");
    for (int i = 0; i < 5; i++) {
        MPI_File_write_ordered_begin(shared, block, 100, MPI_BYTE);
        MPI_File_write_ordered_end(shared, block, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&shared);
    MPI_Finalize();
    return 0;
}
