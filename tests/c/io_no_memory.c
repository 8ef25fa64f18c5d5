/* A rank gets no memory in the middle of a collective access: that is an error at every rank, and
 * none waits forever. The file works afterwards.
 *
 * argv: the rank without memory (0) */
#include "io.h"

#include "allocator.h"

enum { PIECES = 6000, LONGEST = 7 }; /* in a window of 64 KiB there are some thousand */

static int lengths[PIECES], places[PIECES], bytes;

/* Pieces of no regular length or distance, so that no list of them is short. */
static MPI_Datatype irregular(void)
{
    MPI_Datatype view;
    unsigned state = 12345;
    for (int i = 0, at = 0; i < PIECES; i++) {
        state = state * 1103515245u + 12345u;
        lengths[i] = 1 + (int)(state >> 16) % LONGEST;
        places[i] = at + LONGEST * test_rank;
        at += LONGEST * test_size + (int)(state >> 20) % 3;
        bytes += lengths[i];
    }
    MPI_Type_indexed(PIECES, lengths, places, MPI_BYTE, &view);
    MPI_Type_commit(&view);
    return view;
}

static char value(int round, int rank, int i)
{
    return (char)(round * 31 + rank * 7 + i);
}

/* All ranks agree whether the call has failed; returns whether it has. */
static int failed_alike(int code, const char *call, int round)
{
    int own = code != MPI_SUCCESS, all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(all == 0 || all == test_size, "%s, round %d: it failed at %d of %d ranks", call, round,
          all, test_size);
    return all > 0;
}

static void write_and_read(MPI_File f, int round, int left, int victim, int *any_failed)
{
    char *b = test_alloc((size_t)bytes), *back = test_alloc((size_t)bytes);
    int code, wrote;
    for (int i = 0; i < bytes; i++)
        b[i] = value(round, test_rank, i);
    for (int reads = 0; reads < 2; reads++) {
        char *at = reads ? back : b;
        if (left >= 0 && test_rank == victim)
            fail_blocks(left, 0);
        code = reads ? MPI_File_read_at_all(f, 0, at, bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                     : MPI_File_write_at_all(f, 0, at, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        if (left >= 0 && test_rank == victim && end_failures() > 0 && code != MPI_SUCCESS)
            CHECK_CLASS(code, MPI_ERR_NO_MEM, reads ? "a read" : "a write");
        wrote = !failed_alike(code, reads ? "MPI_File_read_at_all" : "MPI_File_write_at_all", round);
        *any_failed |= !wrote;
        if (!wrote)
            break;
        if (reads)
            CHECK(!memcmp(b, back, (size_t)bytes), "round %d: what was read is wrong", round);
    }
    free(back);
    free(b);
}

int main(int argc, char **argv)
{
    int victim = argc > 1 ? atoi(argv[1]) : 0, failures = 0;
    MPI_Datatype view;
    MPI_File f;
    io_begin(&argc, &argv);
    victim %= test_size;
    view = irregular();
    f = io_create();
    OK(MPI_File_set_view(f, 0, MPI_BYTE, view, "native", MPI_INFO_NULL));
    write_and_read(f, 0, -1, victim, &failures);
    CHECK_INT(failures, 0, "failures with memory");
    for (int left = 0; left < 12; left++) {
        int failed = 0;
        write_and_read(f, left + 1, left, victim, &failed);
        failures += failed;
        failed = 0;
        write_and_read(f, 100 + left, -1, victim, &failed);
        CHECK_INT(failed, 0, "failures after one");
    }
    CHECK(failures > 0, "no call has failed for want of memory");
    io_close(&f);
    MPI_Type_free(&view);
    return io_finish();
}
