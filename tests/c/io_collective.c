/* Collective access (MPI 5.0, 14.4.2 to 14.4.5): patterns of the ranks' parts, by each kind of
 * call, to a file whose other bytes must stay; overlapping reads; split collectives with access
 * between begin and end; nonblocking ones, several at once. */
#include "io.h"

enum { GUARD = -77, SPREAD = 4096, MOST_RANKS = 64 };

/* A pattern says how many ints a rank has, and where in the file its k-th is, in ints from the
 * view's displacement. The file type puts the same into words for MPI. */
typedef struct {
    const char *name;
    int (*count)(int rank);
    long (*place)(int rank, int k);
    MPI_Datatype (*type)(void); /* committed, of this rank */
    long (*first)(int rank);    /* in ints, where the rank's view begins */
} Pattern;

static long at_zero(int rank)
{
    (void)rank;
    return 0;
}

static long at_rank(int rank)
{
    return rank;
}

static MPI_Datatype plain(void)
{
    MPI_Datatype t;
    MPI_Type_contiguous(1, MPI_INT, &t);
    MPI_Type_commit(&t);
    return t;
}

/* Blocks of different lengths, one after the other; nothing for every third rank. */
static int block_count(int rank)
{
    return rank % 3 == 1 ? 0 : 1000 + 37 * rank;
}

static long block_first(int rank)
{
    long n = 0;
    for (int i = 0; i < rank; i++)
        n += block_count(i);
    return n;
}

static long block_place(int rank, int k)
{
    return block_first(rank) + k;
}

/* The last rank's block is first. */
static int equal_count(int rank)
{
    (void)rank;
    return 3000;
}

static long reverse_first(int rank)
{
    return (long)(test_size - 1 - rank) * 3000;
}

static long reverse_place(int rank, int k)
{
    return reverse_first(rank) + k;
}

/* Int by int in turn; every third group alone in the pattern with holes. */
static int turn_count(int rank)
{
    return 500 + 3 * (rank % 2);
}

static long turn_place(int rank, int k)
{
    return (long)k * test_size + rank;
}

static long hole_place(int rank, int k)
{
    return 3L * k * test_size + rank;
}

static MPI_Datatype strided(int block, int stride)
{
    MPI_Datatype whole, t;
    MPI_Type_contiguous(block, MPI_INT, &whole);
    MPI_Type_create_resized(whole, 0, (MPI_Aint)stride * (MPI_Aint)sizeof(int), &t);
    MPI_Type_commit(&t);
    MPI_Type_free(&whole);
    return t;
}

static MPI_Datatype turn_type(void)
{
    return strided(1, test_size);
}

static MPI_Datatype hole_type(void)
{
    return strided(1, 3 * test_size);
}

/* Many pieces of 16 bytes in turn. */
enum { PIECE = 4, PIECES = 20000 };

static int piece_count(int rank)
{
    (void)rank;
    return PIECE * PIECES;
}

static long piece_place(int rank, int k)
{
    return ((long)(k / PIECE) * test_size + rank) * PIECE + k % PIECE;
}

static long piece_first(int rank)
{
    return rank * PIECE;
}

static MPI_Datatype piece_type(void)
{
    return strided(PIECE, PIECE * test_size);
}

/* Columns of a matrix. */
enum { ROWS = 90, WIDTH = 7 };

static int tile_count(int rank)
{
    (void)rank;
    return ROWS * WIDTH;
}

static long tile_place(int rank, int k)
{
    return (long)(k / WIDTH) * WIDTH * test_size + rank * WIDTH + k % WIDTH;
}

static MPI_Datatype tile_type(void)
{
    MPI_Datatype t;
    MPI_Type_create_subarray(2, (int[]){ROWS, WIDTH * test_size}, (int[]){ROWS, WIDTH},
                             (int[]){0, test_rank * WIDTH}, MPI_ORDER_C, MPI_INT, &t);
    MPI_Type_commit(&t);
    return t;
}

/* Each int of some thousand belongs to a random rank or to none. */
static int drawn(long i)
{
    return (int)(test_word(5, (uint64_t)i) % (uint64_t)(test_size + 1));
}

static int random_count(int rank)
{
    int n = 0;
    for (long i = 0; i < SPREAD; i++)
        n += drawn(i) == rank;
    return n;
}

static long random_place(int rank, int k)
{
    static long places[MOST_RANKS][SPREAD]; /* the k-th int of each rank */
    static char filled[MOST_RANKS];
    if (!filled[rank]) {
        int n = 0;
        for (long i = 0; i < SPREAD; i++)
            if (drawn(i) == rank)
                places[rank][n++] = i;
        filled[rank] = 1;
    }
    return places[rank][k];
}

static MPI_Datatype random_type(void)
{
    MPI_Datatype t;
    int n = random_count(test_rank), *at = test_alloc((size_t)n * sizeof *at);
    for (int k = 0; k < n; k++)
        at[k] = (int)random_place(test_rank, k);
    MPI_Type_create_indexed_block(n, 1, at, MPI_INT, &t);
    MPI_Type_commit(&t);
    free(at);
    return t;
}

static int only_last(int rank)
{
    return rank == test_size - 1 ? 777 : 0;
}

static long from_zero(int rank, int k)
{
    (void)rank;
    return k;
}

static int nothing(int rank)
{
    (void)rank;
    return 0;
}

static const Pattern patterns[] = {
    {"blocks", block_count, block_place, plain, block_first},
    {"blocks in reverse", equal_count, reverse_place, plain, reverse_first},
    {"in turn", turn_count, turn_place, turn_type, at_rank},
    {"in turn with holes", turn_count, hole_place, hole_type, at_rank},
    {"pieces of 16 bytes", piece_count, piece_place, piece_type, piece_first},
    {"columns", tile_count, tile_place, tile_type, at_zero},
    {"random", random_count, random_place, random_type, at_zero},
    {"one rank", only_last, from_zero, plain, at_zero},
    {"no rank", nothing, from_zero, plain, at_zero},
};

enum { PATTERNS = sizeof patterns / sizeof *patterns };

typedef enum { ALL, AT_ALL, SPLIT_ALL, SPLIT_AT_ALL, IALL, IAT_ALL, WAYS } Way;

static const char *const ways[WAYS] = {"all",  "at_all", "all_begin", "at_all_begin",
                                       "iall", "iat_all"};

static int value(const Pattern *p, int rank, int k)
{
    return (int)(p - patterns) * 100000000 + rank * 1000000 + k + 1;
}

/* Memory: ints side by side; every second int; one element that takes the halves in the other
 * order. */
typedef enum { DENSE, GAPS, SWAPPED, MEMORIES } Memory;

static long memory_place(Memory m, int n, int k)
{
    return m == DENSE ? k : m == GAPS ? 2L * k : k < n / 2 ? n - n / 2 + k : k - n / 2;
}

static MPI_Datatype memory_type(Memory m, int n)
{
    MPI_Datatype t;
    if (m == DENSE)
        return plain();
    if (m == GAPS)
        return strided(1, 2);
    MPI_Type_indexed(2, (int[]){n / 2, n - n / 2}, (int[]){n - n / 2, 0}, MPI_INT, &t);
    MPI_Type_commit(&t);
    return t;
}

typedef struct {
    int *ints, count;
    long room;
    MPI_Datatype type;
} Buffer;

static Buffer buffer_make(Memory m, int n)
{
    Buffer b = {NULL, m == SWAPPED ? n > 0 : n, 2L * n + 8, memory_type(m, n)};
    b.ints = test_alloc((size_t)b.room * sizeof(int));
    for (long i = 0; i < b.room; i++)
        b.ints[i] = GUARD;
    return b;
}

static void buffer_drop(Buffer *b)
{
    free(b->ints);
    MPI_Type_free(&b->type);
}

#define EITHER(r, w) OK(writes ? (w) : (r))

static void transfer(MPI_File f, Way way, int writes, const Buffer *b, MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Datatype t = b->type;
    int *at = b->ints, n = b->count;
    if (way == ALL) {
        EITHER(MPI_File_read_all(f, at, n, t, s), MPI_File_write_all(f, at, n, t, s));
    } else if (way == AT_ALL) {
        EITHER(MPI_File_read_at_all(f, 0, at, n, t, s), MPI_File_write_at_all(f, 0, at, n, t, s));
    } else if (way == SPLIT_ALL) {
        EITHER(MPI_File_read_all_begin(f, at, n, t), MPI_File_write_all_begin(f, at, n, t));
        EITHER(MPI_File_read_all_end(f, at, s), MPI_File_write_all_end(f, at, s));
    } else if (way == SPLIT_AT_ALL) {
        EITHER(MPI_File_read_at_all_begin(f, 0, at, n, t),
               MPI_File_write_at_all_begin(f, 0, at, n, t));
        EITHER(MPI_File_read_at_all_end(f, at, s), MPI_File_write_at_all_end(f, at, s));
    } else if (way == IALL) {
        EITHER(MPI_File_iread_all(f, at, n, t, &r), MPI_File_iwrite_all(f, at, n, t, &r));
    } else {
        EITHER(MPI_File_iread_at_all(f, 0, at, n, t, &r),
               MPI_File_iwrite_at_all(f, 0, at, n, t, &r));
    }
    if (r != MPI_REQUEST_NULL)
        OK(MPI_Wait(&r, s));
}

/* The whole file after the pattern was written `lead` ints from its begin; the ints no rank wrote
 * are those of stream 3. */
static void check_file(const Pattern *p, int lead, size_t ints, const char *what)
{
    int *want = test_alloc(ints * sizeof *want), *is = test_alloc(ints * sizeof *is);
    test_fill(want, ints * sizeof *want, 3);
    for (int rank = 0; rank < test_size; rank++)
        for (int k = 0, n = p->count(rank); k < n; k++)
            want[lead + p->place(rank, k)] = value(p, rank, k);
    CHECK_INT(io_length(), ints * sizeof *is, what);
    CHECK(io_bytes(0, is, ints * sizeof *is) == ints * sizeof *is, "%s: the file is short", what);
    for (size_t i = 0; i < ints; i++)
        if (is[i] != want[i]) {
            CHECK(0, "%s: int %zu of the file is %d, expected %d", what, i, is[i], want[i]);
            break;
        }
    free(is);
    free(want);
}

/* Ints from the view's begin to the end of what the pattern has. */
static long span(const Pattern *p)
{
    long end = 0;
    for (int rank = 0; rank < test_size; rank++)
        for (int n = p->count(rank), k = n > 0 ? n - 1 : n; k < n; k++)
            end = p->place(rank, k) + 1 > end ? p->place(rank, k) + 1 : end;
    return end;
}

static void exchange(const Pattern *p, Way way, Memory memory)
{
    enum { LEAD = 5, TAIL = 100 };
    int n = p->count(test_rank);
    size_t ints = (size_t)(LEAD + span(p) + TAIL);
    Buffer out = buffer_make(memory, n), in = buffer_make(memory, n);
    int *background = test_alloc(ints * sizeof *background);
    MPI_Datatype type = p->type();
    MPI_Status s;
    MPI_File f;
    char what[100];
    snprintf(what, sizeof what, "%s, %s, memory %d", p->name, ways[way], memory);
    test_fill(background, ints * sizeof *background, 3);
    io_make(io_name, background, ints * sizeof *background);
    f = io_open(MPI_MODE_RDWR);
    OK(MPI_File_set_view(f, (LEAD + p->first(test_rank)) * (MPI_Offset)sizeof(int), MPI_INT, type,
                         "native", MPI_INFO_NULL));
    for (int k = 0; k < n; k++)
        out.ints[memory_place(memory, n, k)] = value(p, test_rank, k);
    transfer(f, way, 1, &out, &s);
    IO_COUNT(&s, MPI_INT, n, what);
    io_visible(f);
    check_file(p, LEAD, ints, what);
    OK(MPI_File_seek(f, 0, MPI_SEEK_SET));
    transfer(f, (Way)((way + 1) % WAYS), 0, &in, &s);
    IO_COUNT(&s, MPI_INT, n, what);
    for (long i = 0; i < in.room; i++)
        if (in.ints[i] != out.ints[i]) { /* the gaps among them */
            CHECK(0, "%s: int %ld of memory is read as %d, expected %d", what, i, in.ints[i],
                  out.ints[i]);
            break;
        }
    io_close(&f);
    MPI_Type_free(&type);
    free(background);
    buffer_drop(&in);
    buffer_drop(&out);
}

/* All ranks read the same bytes, and windows that overlap, beyond the end of the file, too. */
static void overlapping_reads(void)
{
    enum { INTS = 30000, STEP = 1000 };
    int *b = test_alloc((INTS + STEP) * sizeof *b), *all = test_alloc(INTS * sizeof *all);
    MPI_Status s;
    MPI_File f;
    test_fill(all, INTS * sizeof *all, 4);
    io_make(io_name, all, INTS * sizeof *all);
    f = io_open(MPI_MODE_RDONLY);
    OK(MPI_File_read_all(f, b, INTS, MPI_INT, &s));
    IO_COUNT(&s, MPI_INT, INTS, "all read all");
    CHECK(!memcmp(b, all, INTS * sizeof *all), "what all read is wrong");
    for (int round = 0; round < 6; round++) {
        int first = (round * 3 + test_rank) * STEP, left = first < INTS ? INTS - first : 0;
        int want = left < 5 * STEP ? left : 5 * STEP;
        OK(MPI_File_read_at_all(f, first * (MPI_Offset)sizeof *b, b, 5 * STEP, MPI_INT, &s));
        IO_COUNT(&s, MPI_INT, want, "windows that overlap");
        CHECK(!memcmp(b, all + first, (size_t)want * sizeof *b), "a window is read wrongly");
    }
    OK(MPI_File_read_at_all(f, (INTS - 500) * (MPI_Offset)sizeof *b, b, STEP, MPI_INT, &s));
    IO_COUNT(&s, MPI_INT, 500, "a read beyond the end");
    CHECK(!memcmp(b, all + INTS - 500, 500 * sizeof *b), "the end is read wrongly");
    OK(MPI_File_read_at_all(f, (MPI_Offset)1 << 33, b, STEP, MPI_INT, &s));
    IO_COUNT(&s, MPI_INT, 0, "a read far beyond the end");
    io_close(&f);
    free(all);
    free(b);
}

/* Between begin and end a rank may use the file by itself, and send messages. */
static void split_with_access_between(void)
{
    enum { N = 5000 };
    MPI_File f = io_create();
    int *b = test_alloc(N * sizeof *b), mine = 4711 + test_rank, got = -1, next = -1;
    MPI_Offset apart = (MPI_Offset)test_size * N + test_rank;
    MPI_Status s;
    for (int i = 0; i < N; i++)
        b[i] = test_rank * N + i;
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_write_at_all_begin(f, (MPI_Offset)test_rank * N, b, N, MPI_INT));
    OK(MPI_File_write_at(f, apart, &mine, 1, MPI_INT, &s));
    OK(MPI_File_read_at(f, apart, &got, 1, MPI_INT, &s));
    MPI_Sendrecv(&mine, 1, MPI_INT, (test_rank + 1) % test_size, 0, &next, 1, MPI_INT,
                 (test_rank + test_size - 1) % test_size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_File_write_at_all_end(f, b, &s));
    IO_COUNT(&s, MPI_INT, N, "a split write");
    CHECK_INT(got, mine, "the int that was written between begin and end");
    CHECK_INT(next, 4711 + (test_rank + test_size - 1) % test_size, "the neighbour's int");
    io_visible(f);
    memset(b, 0, N * sizeof *b);
    OK(MPI_File_seek(f, (MPI_Offset)((test_rank + 1) % test_size) * N, MPI_SEEK_SET));
    OK(MPI_File_read_all_begin(f, b, N, MPI_INT));
    OK(MPI_File_read_at(f, apart, &got, 1, MPI_INT, &s));
    OK(MPI_File_read_all_end(f, b, &s));
    IO_COUNT(&s, MPI_INT, N, "a split read");
    for (int i = 0; i < N; i++)
        CHECK(b[i] == (test_rank + 1) % test_size * N + i, "int %d is read as %d", i, b[i]);
    CHECK_INT(got, mine, "the int that was read between begin and end");
    io_close(&f);
    free(b);
}

/* Several nonblocking collectives at once, with collectives of the communicator and computation
 * between them, completed in any order. */
static void several_at_once(void)
{
    enum { OPS = 6, N = 3000 };
    MPI_File f = io_create();
    MPI_Datatype type = turn_type();
    MPI_Request r[OPS];
    MPI_Status s[OPS];
    int *b = test_alloc(OPS * N * sizeof *b), sum = 0, flag = 0;
    volatile double x = 1;
    OK(MPI_File_set_view(f, test_rank * (MPI_Offset)sizeof(int), MPI_INT, type, "native",
                         MPI_INFO_NULL));
    for (int i = 0; i < OPS * N; i++)
        b[i] = test_rank * OPS * N + i;
    for (int writes = 1; writes >= 0; writes--) {
        OK(MPI_File_seek(f, 0, MPI_SEEK_SET));
        for (int op = 0; op < OPS; op++) {
            int *at = b + op * N, pointer = op < OPS / 2; /* the others by explicit offsets */
            if (writes && pointer)
                OK(MPI_File_iwrite_all(f, at, N, MPI_INT, &r[op]));
            else if (writes)
                OK(MPI_File_iwrite_at_all(f, op * N, at, N, MPI_INT, &r[op]));
            else if (pointer)
                OK(MPI_File_iread_all(f, at, N, MPI_INT, &r[op]));
            else
                OK(MPI_File_iread_at_all(f, op * N, at, N, MPI_INT, &r[op]));
            for (int i = 0; i < 100000; i++)
                x = x * 1.0000001;
            MPI_Allreduce(&op, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK_INT(sum, op * test_size, "a sum while files are written");
            MPI_Test(&r[0], &flag, &s[0]);
            if (!io_strict) /* MPICH 5.0.2 may wait for ever if there are several at once */
                OK(MPI_Wait(&r[op], &s[op]));
        }
        for (int op = OPS - 1; op > OPS - 3 && io_strict; op--) {
            OK(MPI_Wait(&r[op], &s[op]));
            IO_COUNT(&s[op], MPI_INT, N, "a nonblocking collective that others are before");
        }
        OK(MPI_Waitall(OPS, r, MPI_STATUSES_IGNORE));
        for (int i = 0; i < OPS * N; i++)
            if (b[i] != test_rank * OPS * N + i) {
                CHECK(0, "int %d is %d", i, b[i]);
                break;
            }
        io_visible(f);
        if (writes)
            memset(b, 0, OPS * N * sizeof *b);
    }
    CHECK_INT(io_length(), OPS * N * test_size * (long long)sizeof(int), "the length of the file");
    MPI_Type_free(&type);
    io_close(&f);
    free(b);
}

int main(int argc, char **argv)
{
    io_begin(&argc, &argv);
    if (test_size > MOST_RANKS)
        return test_skip("too many ranks for its tables");
    for (int i = 0; i < PATTERNS; i++)
        for (int way = 0; way < WAYS; way++)
            exchange(&patterns[i], (Way)way, (Memory)((i + way) % MEMORIES));
    overlapping_reads();
    split_with_access_between();
    several_at_once();
    return io_finish();
}
