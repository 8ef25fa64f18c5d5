/* Nonblocking access of single ranks (MPI 5.0, 14.4.2 and 14.4.3): requests of files among those of
 * messages, in every call that completes requests; many outstanding; requests that are freed.
 *
 * argv: operations outstanding (200), "strict" */
#include "io.h"

enum { N = 1000 };

static int outstanding = 200;

static int value(int rank, int op, int i)
{
    return rank * 10000000 + op * N + i;
}

static int *numbers(int rank, int op)
{
    int *b = test_alloc(N * sizeof *b);
    for (int i = 0; i < N; i++)
        b[i] = value(rank, op, i);
    return b;
}

static int is_right(const int *b, int rank, int op)
{
    for (int i = 0; i < N; i++)
        if (b[i] != value(rank, op, i))
            return 0;
    return 1;
}

static MPI_Offset place(int rank, int op)
{
    return ((MPI_Offset)rank * outstanding + op) * N;
}

static MPI_File create(void)
{
    MPI_File f = io_create();
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    return f;
}

/* Writes and reads that are all under way at once, half of them by the individual pointer, which
 * moves when the operation starts. */
static void many_at_once(void)
{
    MPI_File f = create();
    MPI_Request *r = test_alloc((size_t)outstanding * sizeof *r);
    MPI_Status *s = test_alloc((size_t)outstanding * sizeof *s);
    int **b = test_alloc((size_t)outstanding * sizeof *b);
    MPI_Offset at = -1;
    int right = (test_rank + 1) % test_size;
    OK(MPI_File_seek(f, place(test_rank, 0), MPI_SEEK_SET));
    for (int op = 0; op < outstanding; op++) {
        b[op] = numbers(test_rank, op);
        if (op < outstanding / 2)
            OK(MPI_File_iwrite(f, b[op], N, MPI_INT, &r[op]));
        else
            OK(MPI_File_iwrite_at(f, place(test_rank, op), b[op], N, MPI_INT, &r[op]));
    }
    OK(MPI_File_get_position(f, &at));
    CHECK_INT(at, place(test_rank, outstanding / 2), "the pointer after all have started");
    OK(MPI_Waitall(outstanding, r, s));
    for (int op = 0; op < outstanding; op++) {
        CHECK(r[op] == MPI_REQUEST_NULL, "request %d is not null after MPI_Waitall", op);
        IO_COUNT(&s[op], MPI_INT, N, "a write among many");
        memset(b[op], 0, N * sizeof(int));
    }
    io_visible(f);
    OK(MPI_File_seek(f, place(right, 0), MPI_SEEK_SET));
    for (int op = 0; op < outstanding; op++)
        if (op < outstanding / 2)
            OK(MPI_File_iread(f, b[op], N, MPI_INT, &r[op]));
        else
            OK(MPI_File_iread_at(f, place(right, op), b[op], N, MPI_INT, &r[op]));
    for (int done = 0, i = -1; done < outstanding; done++) {
        OK(MPI_Waitany(outstanding, r, &i, &s[0]));
        IO_COUNT(&s[0], MPI_INT, N, "a read among many");
        CHECK(i >= 0 && i < outstanding && is_right(b[i], right, i), "read %d gives wrong numbers",
              i);
    }
    for (int op = 0; op < outstanding; op++)
        free(b[op]);
    io_close(&f);
    free(b);
    free(s);
    free(r);
}

/* Requests of both sorts in one array: a message that comes late does not keep the file's back. */
static void with_messages(void)
{
    enum { PAIRS = 6 };
    MPI_File f = create();
    MPI_Request r[2 * PAIRS];
    MPI_Status s[2 * PAIRS];
    int *out[PAIRS], got[PAIRS], index[2 * PAIRS], left = 2 * PAIRS;
    int right = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size;
    int seen_files = 0, seen_messages = 0;
    for (int i = 0; i < PAIRS; i++) {
        out[i] = numbers(test_rank, i);
        got[i] = -1;
        MPI_Irecv(&got[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &r[2 * i]);
        OK(MPI_File_iwrite_at(f, place(test_rank, i), out[i], N, MPI_INT, &r[2 * i + 1]));
    }
    while (seen_files < PAIRS) { /* no message was sent yet */
        int n = 0;
        OK(MPI_Testsome(2 * PAIRS, r, &n, index, s));
        for (int k = 0; k < n; k++) {
            CHECK(index[k] % 2 == 1, "message %d is complete before it was sent", index[k] / 2);
            IO_COUNT(&s[k], MPI_INT, N, "a write among receives");
        }
        seen_files += n;
        left -= n;
    }
    io_barrier(); /* after this one all have seen that */
    for (int i = 0; i < PAIRS; i++)
        MPI_Send(&out[i][7], 1, MPI_INT, right, i, MPI_COMM_WORLD);
    while (left > 0) {
        int n = 0;
        OK(MPI_Waitsome(2 * PAIRS, r, &n, index, s));
        seen_messages += n;
        left -= n;
    }
    CHECK_INT(seen_messages, PAIRS, "the messages");
    io_visible(f);
    for (int i = 0; i < PAIRS; i++)
        CHECK_INT(got[i], value(from, i, 7), "an int that came by message");
    for (int i = 0; i < PAIRS; i++) { /* now both at once, with whatever is ready first */
        memset(out[i], 0, N * sizeof(int));
        OK(MPI_File_iread_at(f, place(from, i), out[i], N, MPI_INT, &r[2 * i]));
        MPI_Isend(&got[i], 1, MPI_INT, right, 100 + i, MPI_COMM_WORLD, &r[2 * i + 1]);
    }
    for (int i = 0; i < PAIRS; i++) {
        int x = -1;
        MPI_Recv(&x, 1, MPI_INT, from, 100 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_INT(x, value((from + test_size - 1) % test_size, i, 7), "an int passed on");
    }
    if (!io_strict) /* MPICH 5.0.2 now and then finds an error in MPI_Testall */
        OK(MPI_Waitall(2 * PAIRS, r, s));
    for (int flag = !io_strict; !flag;)
        OK(MPI_Testall(2 * PAIRS, r, &flag, s));
    for (int i = 0; i < PAIRS; i++) {
        IO_COUNT(&s[2 * i], MPI_INT, N, "a read among sends");
        CHECK(is_right(out[i], from, i), "read %d among sends is wrong", i);
        free(out[i]);
    }
    io_close(&f);
}

/* MPI_Test, MPI_Testany and MPI_Request_get_status see the end without other calls. */
static void tests(void)
{
    MPI_File f = create();
    MPI_Request r[2];
    MPI_Status s;
    int *b = numbers(test_rank, 3), flag = 0, i = -1;
    OK(MPI_File_iwrite_at(f, place(test_rank, 3), b, N, MPI_INT, &r[0]));
    if (io_strict) { /* after it MPICH 5.0.2 aborts in MPI_Test */
        while (!flag)
            OK(MPI_Request_get_status(r[0], &flag, &s));
        IO_COUNT(&s, MPI_INT, N, "a write by MPI_Request_get_status");
        CHECK(r[0] != MPI_REQUEST_NULL, "MPI_Request_get_status has freed the request");
        OK(MPI_Test(&r[0], &flag, &s));
        CHECK(flag, "MPI_Test after MPI_Request_get_status");
    }
    while (!flag)
        OK(MPI_Test(&r[0], &flag, &s));
    CHECK(flag && r[0] == MPI_REQUEST_NULL, "MPI_Test after the end");
    IO_COUNT(&s, MPI_INT, N, "a write by MPI_Test");
    memset(b, 0, N * sizeof *b);
    OK(MPI_File_iread_at(f, place(test_rank, 3), b, N, MPI_INT, &r[1]));
    for (flag = 0; !flag;)
        OK(MPI_Testany(2, r, &i, &flag, &s));
    CHECK_INT(i, 1, "the index that MPI_Testany gives");
    CHECK(is_right(b, test_rank, 3), "a read that MPI_Testany has completed is wrong");
    OK(MPI_File_iread_at(f, place(test_size, 0) + N, b, N, MPI_INT, &r[0])); /* beyond the end */
    OK(MPI_Wait(&r[0], &s));
    IO_COUNT(&s, MPI_INT, 0, "a nonblocking read beyond the end");
    OK(MPI_File_iwrite(f, b, 0, MPI_INT, &r[0])); /* nothing is an operation, too */
    OK(MPI_Wait(&r[0], &s));
    IO_COUNT(&s, MPI_INT, 0, "a nonblocking write of nothing");
    io_close(&f);
    free(b);
}

/* A request that is freed, after the operation's end and before it: what it writes is written. The
 * program must know that the operation has ended before it closes the file (14.2.2). */
static void freed_requests(void)
{
    MPI_File f = create();
    MPI_Request r;
    MPI_Status s;
    int *b = numbers(test_rank, 0), *c = numbers(test_rank, 1), flag = 0, got = -1;
    OK(MPI_File_iwrite_at(f, place(test_rank, 0), b, N, MPI_INT, &r));
    while (!flag)
        OK(MPI_Request_get_status(r, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&r)); /* after its end */
    CHECK(r == MPI_REQUEST_NULL, "the request is not null after MPI_Request_free");
    OK(MPI_File_iwrite_at(f, place(test_rank, 1), c, N, MPI_INT, &r));
    OK(MPI_Request_free(&r)); /* maybe before its end */
    for (int i = 0; i < 1000000 && got != value(test_rank, 1, N - 1); i++)
        OK(MPI_File_read_at(f, place(test_rank, 1) + N - 1, &got, 1, MPI_INT, &s));
    CHECK_INT(got, value(test_rank, 1, N - 1), "the last int whose request was freed");
    io_visible(f);
    memset(b, 0, N * sizeof *b);
    OK(MPI_File_read_at(f, place(test_rank, 0), b, N, MPI_INT, &s));
    CHECK(is_right(b, test_rank, 0), "what was written by a request that was freed is wrong");
    io_close(&f);
    free(c);
    free(b);
}

/* Types that are freed while an operation uses them. */
static void types_are_kept(void)
{
    enum { OPS = 5 };
    MPI_File f = io_create();
    MPI_Request r;
    MPI_Datatype turns, gaps;
    int out[2 * OPS * 10], in[10];
    for (int i = 0; i < 2 * OPS * 10; i++)
        out[i] = i % 2 ? -1 : test_rank * 1000 + i / 2;
    for (int op = 0; op < OPS; op++) {
        MPI_Type_create_resized(MPI_INT, 0, test_size * (MPI_Aint)sizeof(int), &turns);
        MPI_Type_commit(&turns);
        MPI_Type_vector(10, 1, 2, MPI_INT, &gaps);
        MPI_Type_commit(&gaps);
        OK(MPI_File_set_view(f, test_rank * (MPI_Offset)sizeof(int), MPI_INT, turns, "native",
                             MPI_INFO_NULL));
        OK(MPI_File_iwrite_at(f, 10 * op, out + 20 * op, 1, gaps, &r));
        MPI_Type_free(&turns);
        MPI_Type_free(&gaps);
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE)); /* before the next view (14.3) */
    }
    io_visible(f);
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int op = 0; op < OPS; op++)
        for (int i = 0; i < 10; i++) {
            OK(MPI_File_read_at(f, (10 * op + i) * test_size + test_rank, in, 1, MPI_INT,
                                MPI_STATUS_IGNORE));
            CHECK_INT(in[0], test_rank * 1000 + 10 * op + i, "an int of a type that was freed");
        }
    io_close(&f);
}

int main(int argc, char **argv)
{
    io_begin(&argc, &argv);
    if (argc > 1 && atoi(argv[1]) > 1)
        outstanding = atoi(argv[1]);
    many_at_once();
    with_messages();
    tests();
    if (io_strict) /* MPICH 5.0.2 aborts */
        freed_requests();
    types_are_kept();
    return io_finish();
}
