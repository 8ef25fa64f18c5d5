/* io_killed: 4 ranks that write to one file until they are killed. argv: file, base
 *
 * In round k (from 1 on) each word of the file gets the value (base + k) * 64 + rank:
 *
 *   first part    collective writes in blocks of 3,000 bytes in turn, by exchange
 *   second part   each rank's words, every other one, by data sieving
 *   third part    blocks in turn, in atomic mode
 *
 * After MPI_File_sync rank 0 says "round k". */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RANKS = 4, BLOCK = 375, BLOCKS = 50, WORDS = BLOCK * BLOCKS }; /* words of 8 bytes */

static int rank;

static void check(int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", call, code);
    MPI_Abort(MPI_COMM_WORLD, 1);
}
#define CHECK(call) check(call, #call)

static MPI_File opened(const char *path, const char *key, int part, MPI_Datatype view, int start)
{
    MPI_File f;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, "enable");
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "ind_wr_buffer_size", "65536");
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
    CHECK(MPI_File_set_view(f, (MPI_Offset)8 * (part * 2 * RANKS * WORDS + start), MPI_INT64_T,
                            view, "native", MPI_INFO_NULL));
    MPI_Info_free(&info);
    return f;
}

int main(int argc, char **argv)
{
    int64_t *words = malloc(WORDS * sizeof *words);
    int64_t base = argc > 2 ? atoll(argv[2]) : 0;
    MPI_Datatype block, blocks, every_other;
    MPI_File exchanged, sieved, atomic;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_contiguous(BLOCK, MPI_INT64_T, &block);
    MPI_Type_create_resized(block, 0, 8 * BLOCK * RANKS, &blocks);
    MPI_Type_commit(&blocks);
    MPI_Type_create_resized(MPI_INT64_T, 0, 16, &every_other);
    MPI_Type_commit(&every_other);
    exchanged = opened(argv[1], "romio_cb_write", 0, blocks, BLOCK * rank);
    sieved = opened(argv[1], "romio_ds_write", 1, every_other, 2 * WORDS * rank);
    atomic = opened(argv[1], "romio_ds_read", 2, blocks, BLOCK * rank);
    CHECK(MPI_File_set_atomicity(atomic, 1));
    for (int64_t round = 1;; round++) {
        for (int i = 0; i < WORDS; i++)
            words[i] = (base + round) * 64 + rank;
        CHECK(MPI_File_write_at_all(exchanged, 0, words, WORDS, MPI_INT64_T, MPI_STATUS_IGNORE));
        CHECK(MPI_File_write_at(sieved, 0, words, WORDS, MPI_INT64_T, MPI_STATUS_IGNORE));
        CHECK(MPI_File_write_at(atomic, 0, words, WORDS, MPI_INT64_T, MPI_STATUS_IGNORE));
        CHECK(MPI_File_sync(exchanged));
        if (rank == 0) {
            printf("round %lld\n", (long long)round);
            fflush(stdout);
        }
    }
}
