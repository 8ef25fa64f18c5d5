/* Nonblocking collective writes go on while no rank calls MPI, where a core is free: the ranks bind
 * themselves to one processor, and look at the file past the library until all bytes are there.
 * Operators of the program are called by its own thread alone meanwhile.
 *
 * argv: rounds (20) */
#include "io.h"

#include <pthread.h>
#include <sched.h>

enum { BLOCK = 256, BLOCKS = 400, N = BLOCK * BLOCKS };

static pthread_t own;
static int calls, foreign_calls;

static int value(int round, int rank, int i)
{
    return (round * 64 + rank) * N + i;
}

static void sum(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    calls++;
    foreign_calls += !pthread_equal(own, pthread_self());
    for (int i = 0; i < *n; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* Whether others are left for the library's thread. */
static int take_one_processor(void)
{
    cpu_set_t all, one;
    int first = 0;
    if (sched_getaffinity(0, sizeof all, &all))
        return 0;
    while (first < CPU_SETSIZE && !CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 && CPU_COUNT(&all) > 1;
}

static int is_there(int round, int *file)
{
    size_t bytes = (size_t)test_size * N * sizeof *file;
    if (io_bytes(0, file, bytes) != bytes)
        return 0;
    for (int rank = 0; rank < test_size; rank++)
        for (int i = 0; i < N; i++)
            if (file[(i / BLOCK * test_size + rank) * BLOCK + i % BLOCK] != value(round, rank, i))
                return 0;
    return 1;
}

static void write_meanwhile(MPI_File f, MPI_Op op, int round, int is_free)
{
    int *b = test_alloc(N * sizeof *b), *sums = test_alloc(N * sizeof *b);
    int *file = test_alloc((size_t)test_size * N * sizeof *file);
    MPI_Request r[2];
    MPI_Status s[2];
    for (int i = 0; i < N; i++)
        b[i] = value(round, test_rank, i);
    MPI_Iallreduce(b, sums, N, MPI_INT, op, MPI_COMM_WORLD, &r[0]);
    OK(MPI_File_iwrite_at_all(f, 0, b, N, MPI_INT, &r[1]));
    while (is_free && !is_there(round, file))
        usleep(200); /* the processor is shared with the other ranks */
    MPI_Waitall(2, r, s);
    IO_COUNT(&s[1], MPI_INT, N, "a write meanwhile");
    io_barrier();
    CHECK(is_there(round, file), "round %d: wrong bytes in the file", round);
    for (int i = 0; i < N; i++) {
        int expected = 0;
        for (int rank = 0; rank < test_size; rank++)
            expected += value(round, rank, i);
        if (sums[i] != expected) {
            CHECK(0, "round %d: sum %d is %d, expected %d", round, i, sums[i], expected);
            break;
        }
    }
    io_barrier();
    free(file);
    free(sums);
    free(b);
}

int main(int argc, char **argv)
{
    int is_free = take_one_processor();
    int rounds = argc > 1 ? atoi(argv[1]) : 20;
    MPI_Datatype blocks, view;
    MPI_Op op;
    MPI_File f;
    io_begin(&argc, &argv);
    own = pthread_self();
    MPI_Op_create(sum, 1, &op);
    f = io_create();
    MPI_Type_contiguous(BLOCK, MPI_INT, &blocks);
    MPI_Type_create_resized(blocks, 0, (MPI_Aint)sizeof(int) * BLOCK * test_size, &view);
    MPI_Type_commit(&view);
    OK(MPI_File_set_view(f, (MPI_Offset)sizeof(int) * BLOCK * test_rank, MPI_INT, view, "native",
                         MPI_INFO_NULL));
    for (int round = 0; round < rounds; round++)
        write_meanwhile(f, op, round, is_free);
    CHECK(test_size == 1 || calls > 0, "the operator was not called");
    CHECK(foreign_calls == 0, "%d calls of the operator by another thread", foreign_calls);
    io_close(&f);
    MPI_Type_free(&view);
    MPI_Type_free(&blocks);
    MPI_Op_free(&op);
    return io_finish();
}
