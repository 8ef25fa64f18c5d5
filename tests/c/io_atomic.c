/* Consistency (MPI 5.0, 14.6): in atomic mode, accesses that overlap are as if one came after the
 * other, whatever their file types are, and what was written is seen at once; without it, after
 * sync, barrier, sync.
 *
 * argv: rounds (40), "strict" */
#include "io.h"

enum { BLOCK = 64, BLOCKS = 200, INTS = BLOCK * BLOCKS };

static int rounds = 40;

/* Each access writes one value to all that its view sees. */
typedef enum { WHOLE, STRIDED, PIECES, VIEWS } View;

static const char *const views[VIEWS] = {"contiguous", "every second block", "small pieces"};

/* WHOLE sees all ints, STRIDED each second block, PIECES the last two ints of each eight. */
static int sees(View v, int i)
{
    return v == WHOLE || (v == STRIDED ? i / BLOCK % 2 == 0 : i % 8 >= 6);
}

static int seen_by(View v)
{
    return v == WHOLE ? INTS : v == STRIDED ? INTS / 2 : INTS / 4;
}

/* The view begins where its first int is: file types begin with data. */
static MPI_Offset first(View v)
{
    return v == PIECES ? 6 * (MPI_Offset)sizeof(int) : 0;
}

static MPI_Datatype file_type(View v)
{
    MPI_Datatype whole, t;
    int block = v == WHOLE ? 1 : v == STRIDED ? BLOCK : 2;
    int extent = v == WHOLE ? 1 : v == STRIDED ? 2 * BLOCK : 8;
    MPI_Type_contiguous(block, MPI_INT, &whole);
    MPI_Type_create_resized(whole, 0, extent * (MPI_Aint)sizeof(int), &t);
    MPI_Type_commit(&t);
    MPI_Type_free(&whole);
    return t;
}

static void set_view(MPI_File f, View v)
{
    MPI_Datatype t = file_type(v);
    OK(MPI_File_set_view(f, first(v), MPI_INT, t, "native", MPI_INFO_NULL));
    MPI_Type_free(&t);
}

static int tag(int rank, int round)
{
    return 1 + rank + round * test_size;
}

static void fill(int *b, int n, int value)
{
    for (int i = 0; i < n; i++)
        b[i] = value;
}

static void flags(void)
{
    MPI_File f = io_create();
    int flag = -1;
    OK(MPI_File_get_atomicity(f, &flag));
    CHECK_INT(flag, 0, "the atomicity of a file that was opened");
    OK(MPI_File_set_atomicity(f, 7)); /* any but zero is true */
    OK(MPI_File_get_atomicity(f, &flag));
    CHECK(flag != 0, "atomic mode is not on");
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_get_atomicity(f, &flag));
    CHECK(flag != 0, "a new view ends atomic mode");
    OK(MPI_File_set_atomicity(f, 0));
    OK(MPI_File_get_atomicity(f, &flag));
    CHECK_INT(flag, 0, "the atomicity after it was taken back");
    io_close(&f);
}

/* How an access is made. */
typedef enum { EXPLICIT, NONBLOCKING, COLLECTIVE, HOWS } How;

static void write_all_seen(MPI_File f, How how, const int *b, int n)
{
    MPI_Status s;
    MPI_Request r;
    if (how == EXPLICIT) {
        OK(MPI_File_write_at(f, 0, b, n, MPI_INT, &s));
    } else if (how == NONBLOCKING) {
        OK(MPI_File_iwrite_at(f, 0, b, n, MPI_INT, &r));
        OK(MPI_Wait(&r, &s));
    } else {
        OK(MPI_File_write_at_all(f, 0, b, n, MPI_INT, &s));
    }
    IO_COUNT(&s, MPI_INT, n, "an atomic write");
}

/* Some write and some read the same ints at the same time: a reader sees one writer's value, the
 * same in all ints. */
static void same_view(View v, How how)
{
    MPI_File f = io_create();
    int n = seen_by(v), *b = test_alloc((size_t)n * sizeof *b);
    MPI_Status s;
    set_view(f, WHOLE);
    fill(b, n, 0);
    if (test_rank == 0) {
        int *zeros = test_alloc(INTS * sizeof *zeros);
        fill(zeros, INTS, 0);
        OK(MPI_File_write_at(f, 0, zeros, INTS, MPI_INT, &s));
        free(zeros);
    }
    io_visible(f);
    OK(MPI_File_set_atomicity(f, 1));
    set_view(f, v);
    for (int round = 0; round < rounds; round++) {
        int writes = how == COLLECTIVE || (test_rank + round) % 2 == 0, differs;
        for (int repeat = 0; repeat < (how == COLLECTIVE ? 1 : 3); repeat++) {
            if (writes) {
                fill(b, n, tag(test_rank, round));
                write_all_seen(f, how, b, n);
                continue;
            }
            fill(b, n, -1);
            OK(MPI_File_read_at(f, 0, b, n, MPI_INT, &s));
            IO_COUNT(&s, MPI_INT, n, "an atomic read");
            for (differs = 1; differs < n && b[differs] == b[0];)
                differs++;
            CHECK(differs == n, "%s: a read mixes %d and %d, from int %d on", views[v], b[0],
                  b[differs < n ? differs : 0], differs);
        }
        io_barrier();
        OK(MPI_File_read_at(f, 0, b, n, MPI_INT, &s));
        for (differs = 1; differs < n && b[differs] == b[0];)
            differs++;
        CHECK(differs == n, "%s: the file has %d and %d, from int %d on", views[v], b[0],
              b[differs < n ? differs : 0], differs);
        CHECK(test_size == 1 || b[0] > round * test_size, "%s: round %d: no rank has written",
              views[v], round);
        io_barrier();
    }
    io_close(&f);
    free(b);
}

/* Writers with different views: for each two of them, all the ints that both see are of the same
 * one of the two, or of others that wrote all of these after them. So a view's ints that no rank
 * else sees are of one writer, and the ints of a class (seen by the same views) are equal. */
static void different_views(How how)
{
    MPI_File f = io_create();
    int *b = test_alloc(INTS * sizeof *b), *is = test_alloc(INTS * sizeof *is);
    View mine = (View)(test_rank % VIEWS);
    MPI_Status s;
    OK(MPI_File_set_atomicity(f, 1));
    for (int round = 0; round < rounds; round++) {
        int class_value[8], n = seen_by(mine);
        set_view(f, mine);
        fill(b, n, tag(test_rank, round));
        io_barrier();
        write_all_seen(f, how, b, n);
        io_barrier();
        set_view(f, WHOLE);
        fill(is, INTS, 0);
        OK(MPI_File_read_at(f, 0, is, INTS, MPI_INT, &s));
        for (int i = 0; i < 8; i++)
            class_value[i] = -1;
        for (int i = 0; i < INTS; i++) {
            int class = 1 + 2 * sees(STRIDED, i) + 4 * sees(PIECES, i);
            int rank = (is[i] - 1) % test_size;
            if (class_value[class] < 0)
                class_value[class] = is[i];
            if (is[i] != class_value[class] || !sees((View)(rank % VIEWS), i)) {
                CHECK(0, "round %d: int %d (class %d) is %d, others of the class are %d", round, i,
                      class, is[i], class_value[class]);
                break;
            }
        }
        /* Who wrote last to what only WHOLE sees has also passed over all the rest: there is its
         * value, or one of a narrower view. */
        for (int class = 3; class < 8; class += 2) {
            int rank = (class_value[class] - 1) % test_size;
            CHECK(rank % VIEWS != WHOLE || class_value[class] == class_value[1],
                  "round %d: class %d has %d, and class 1 has %d", round, class, class_value[class],
                  class_value[1]);
        }
        io_barrier();
    }
    io_close(&f);
    free(is);
    free(b);
}

/* In atomic mode what was written is there when the call has returned: a message is enough. */
static void seen_at_once(void)
{
    MPI_File f = io_create();
    int x = 0, token = 0, right = (test_rank + 1) % test_size;
    MPI_Status s;
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_set_atomicity(f, 1));
    for (int round = 0; round < rounds && test_size > 1; round++) {
        if (test_rank == 0) {
            OK(MPI_File_write_at(f, 17, &round, 1, MPI_INT, &s));
            MPI_Send(&token, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_INT, test_size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            OK(MPI_File_read_at(f, 17, &x, 1, MPI_INT, &s));
            CHECK_INT(x, round + test_size - 1, "what came round");
        } else { /* each adds one */
            MPI_Recv(&token, 1, MPI_INT, test_rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            OK(MPI_File_read_at(f, 17, &x, 1, MPI_INT, &s));
            CHECK_INT(x, round + test_rank - 1, "what the rank before has written");
            x++;
            OK(MPI_File_write_at(f, 17, &x, 1, MPI_INT, &s));
            MPI_Send(&token, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
        }
    }
    io_close(&f);
}

/* Sync, barrier, sync: through the same handle, through others, and past the library. */
static void by_sync(void)
{
    enum { N = 5000 };
    MPI_File f = io_create(), alone = MPI_FILE_NULL;
    int *b = test_alloc(N * sizeof *b), raw = -1, right = (test_rank + 1) % test_size;
    MPI_Status s;
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_open(MPI_COMM_SELF, io_name, MPI_MODE_RDWR, MPI_INFO_NULL, &alone));
    for (int round = 0; round < rounds; round++) {
        MPI_File writes = round % 2 ? f : alone, reads = round % 3 ? f : alone;
        MPI_Offset mine = (MPI_Offset)test_rank * N, other = (MPI_Offset)right * N;
        fill(b, N, tag(test_rank, round));
        OK(MPI_File_write_at(writes, writes == f ? mine : mine * 4, b, N, MPI_INT, &s));
        OK(MPI_File_sync(alone));
        io_visible(f);
        OK(MPI_File_sync(alone));
        OK(MPI_File_read_at(reads, reads == f ? other : other * 4, b, N, MPI_INT, &s));
        for (int i = 0; i < N; i++)
            if (b[i] != tag(right, round)) {
                CHECK(0, "round %d: int %d after sync is %d", round, i, b[i]);
                break;
            }
        io_bytes((long long)other * 4 + 400, &raw, 4);
        CHECK_INT(raw, tag(right, round), "an int of the file after sync");
        io_barrier();
    }
    io_close(&alone);
    io_close(&f);
    free(b);
}

int main(int argc, char **argv)
{
    io_begin(&argc, &argv);
    if (argc > 1 && atoi(argv[1]) > 0)
        rounds = atoi(argv[1]);
    flags();
    for (int view = 0; view < VIEWS; view++)
        for (int how = 0; how < HOWS; how++)
            same_view((View)view, (How)how);
    for (int how = 0; how < HOWS; how++)
        different_views((How)how);
    seen_at_once();
    by_sync();
    return io_finish();
}
