/* Individual and shared file pointers (MPI 5.0, 14.4.3 and 14.4.4): what moves them and what does
 * not, seeks, records that all ranks write and read by the shared pointer, ordered access, views.
 *
 * argv: records of each rank (40), "strict" */
#include "io.h"

enum { HEAD = 3, BODY = 40, MAGIC = 0x7a110 };

static int records = 40;

static void expect_position(MPI_File f, MPI_Offset want, const char *what)
{
    MPI_Offset at = -1;
    OK(MPI_File_get_position(f, &at));
    CHECK(at == want, "%s: the individual pointer is at %lld, expected %lld", what, (long long)at,
          (long long)want);
}

/* Collective, so that no rank moves the shared pointer while others still read it. */
static void expect_shared(MPI_File f, MPI_Offset want, const char *what)
{
    MPI_Offset at = -1;
    io_barrier();
    OK(MPI_File_get_position_shared(f, &at));
    CHECK(at == want, "%s: the shared pointer is at %lld, expected %lld", what, (long long)at,
          (long long)want);
    io_barrier();
}

/* Individual pointers: each rank's moves by what the rank moves, and by nothing else. */
static void individual(void)
{
    MPI_File f = io_create();
    MPI_Status s;
    int b[4], got[4], room = 100;
    for (int i = 0; i < 4; i++)
        b[i] = test_rank * 10 + i;
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    expect_position(f, 0, "after MPI_File_set_view");
    OK(MPI_File_seek(f, test_rank * room, MPI_SEEK_SET));
    OK(MPI_File_write(f, b, 4, MPI_INT, &s));
    expect_position(f, test_rank * room + 4, "after a write");
    OK(MPI_File_write(f, b, 0, MPI_INT, &s));
    expect_position(f, test_rank * room + 4, "after a write of nothing");
    OK(MPI_File_write_at(f, test_rank * room + 50, b, 4, MPI_INT, &s));
    OK(MPI_File_read_at(f, test_rank * room + 50, got, 4, MPI_INT, &s));
    expect_position(f, test_rank * room + 4, "after access at explicit offsets");
    expect_shared(f, 0, "after access without it");
    OK(MPI_File_write_ordered(f, b, 0, MPI_INT, &s));
    OK(MPI_File_seek_shared(f, 7, MPI_SEEK_SET));
    expect_position(f, test_rank * room + 4, "after the shared one moved");
    OK(MPI_File_seek(f, -3, MPI_SEEK_CUR));
    expect_position(f, test_rank * room + 1, "after MPI_SEEK_CUR");
    OK(MPI_File_read(f, got, 3, MPI_INT, &s));
    CHECK(!memcmp(got, b + 1, 3 * sizeof *b), "the last three ints are read wrongly");
    expect_position(f, test_rank * room + 4, "after a read");
    io_visible(f);
    OK(MPI_File_seek(f, -4, MPI_SEEK_END));
    expect_position(f, (test_size - 1) * room + 50, "after MPI_SEEK_END");
    OK(MPI_File_read(f, got, 4, MPI_INT, &s));
    CHECK_INT(got[3], (test_size - 1) * 10 + 3, "the last int");
    OK(MPI_File_read(f, got, 4, MPI_INT, &s));
    IO_COUNT(&s, MPI_INT, 0, "a read at the end"); /* moves by what was read (14.6.10) */
    expect_position(f, (test_size - 1) * room + 54, "after a read at the end");
    OK(MPI_File_seek(f, 1000, MPI_SEEK_END)); /* beyond the end is allowed */
    expect_position(f, (test_size - 1) * room + 1054, "beyond the end");
    OK(MPI_File_seek(f, 5, MPI_SEEK_SET));
    CHECK(MPI_File_seek(f, -6, MPI_SEEK_CUR) != MPI_SUCCESS, "a seek to before the beginning");
    CHECK(MPI_File_seek(f, -1, MPI_SEEK_SET) != MPI_SUCCESS, "a seek to before the beginning");
    CHECK(MPI_File_seek(f, 0, 12345) != MPI_SUCCESS, "whence is 12345");
    expect_position(f, 5, "after seeks that failed");
    OK(MPI_File_set_view(f, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    expect_position(f, 0, "after another view");
    expect_shared(f, 0, "after another view");
    io_close(&f);
}

static void seeks_of_the_shared_pointer(void)
{
    MPI_File f = io_create();
    OK(MPI_File_set_size(f, 1000));
    expect_shared(f, 0, "of a new file");
    OK(MPI_File_seek_shared(f, 300, MPI_SEEK_SET));
    expect_shared(f, 300, "after MPI_SEEK_SET");
    OK(MPI_File_seek_shared(f, -50, MPI_SEEK_CUR));
    expect_shared(f, 250, "after MPI_SEEK_CUR");
    OK(MPI_File_seek_shared(f, -10, MPI_SEEK_END));
    expect_shared(f, 990, "after MPI_SEEK_END");
    OK(MPI_File_seek_shared(f, (MPI_Offset)1 << 41, MPI_SEEK_SET));
    expect_shared(f, (MPI_Offset)1 << 41, "far away");
    if (io_strict) { /* in MPICH 5.0.2 the ranks then call different collectives */
        CHECK(MPI_File_seek_shared(f, -1, MPI_SEEK_SET) != MPI_SUCCESS,
              "a seek to before the beginning");
        CHECK(MPI_File_seek_shared(f, 0, 12345) != MPI_SUCCESS, "whence is 12345");
    }
    expect_shared(f, (MPI_Offset)1 << 41, "after seeks that failed");
    expect_position(f, 0, "after all that");
    io_close(&f);
}

static int body(int rank, int seq)
{
    return (int)(test_word(7, (uint64_t)(rank * 1000 + seq)) % (BODY + 1));
}

static int word(int rank, int seq, int i)
{
    return (int)(test_word((uint64_t)(rank * 1000 + seq), (uint64_t)i) % 1000000);
}

/* Makes a record; returns how many ints it has. */
static int make_record(int *b, int rank, int seq)
{
    int n = body(rank, seq);
    b[0] = MAGIC + n;
    b[1] = rank;
    b[2] = seq;
    for (int i = 0; i < n; i++)
        b[HEAD + i] = word(rank, seq, i);
    return HEAD + n;
}

/* Walks through the ints of the file: each record once, whole, those of a rank in order if they
 * were written one after the other. */
static void check_log(const int *b, long long n, int in_order, const char *what)
{
    char *seen = test_alloc((size_t)(test_size * records));
    int *last = test_alloc((size_t)test_size * sizeof *last), found = 0;
    int expected[HEAD + BODY];
    memset(seen, 0, (size_t)(test_size * records));
    for (int i = 0; i < test_size; i++)
        last[i] = -1;
    for (long long at = 0; at < n;) {
        int rank = at + HEAD <= n ? b[at + 1] : -1, seq = at + HEAD <= n ? b[at + 2] : -1, len;
        if (rank < 0 || rank >= test_size || seq < 0 || seq >= records) {
            CHECK(0, "%s: no record begins at int %lld of %lld", what, at, n);
            break;
        }
        len = make_record(expected, rank, seq);
        if (at + len > n || memcmp(b + at, expected, (size_t)len * sizeof *b)) {
            CHECK(0, "%s: record %d of rank %d at int %lld is not whole", what, seq, rank, at);
            break;
        }
        CHECK(!seen[rank * records + seq], "%s: record %d of rank %d is there twice", what, seq,
              rank);
        CHECK(!in_order || seq > last[rank], "%s: record %d of rank %d comes after its record %d",
              what, seq, rank, last[rank]);
        seen[rank * records + seq] = 1;
        last[rank] = seq;
        at += len;
        found++;
    }
    CHECK_INT(found, test_size * records, what);
    free(last);
    free(seen);
}

typedef enum { BLOCKING, NONBLOCKING, MIXED, HOWS } How;

static const char *const hows[HOWS] = {"write_shared", "iwrite_shared", "both"};

/* All ranks append records of all lengths; `filetype` has holes or not. */
static void shared_log(How how, MPI_Datatype filetype, int stride, const char *name)
{
    MPI_File f = io_create();
    MPI_Request *r = test_alloc((size_t)records * sizeof *r);
    int *b = test_alloc((size_t)records * (HEAD + BODY) * sizeof *b), n = 0, *whole, *raw;
    long long total = 0, mine = 0;
    char what[100];
    snprintf(what, sizeof what, "%s, %s", hows[how], name);
    OK(MPI_File_set_view(f, 0, MPI_INT, filetype, "native", MPI_INFO_NULL));
    for (int seq = 0; seq < records; seq++) {
        int *at = b + seq * (HEAD + BODY), len = make_record(at, test_rank, seq);
        MPI_Status s;
        mine += len;
        if (how == NONBLOCKING || (how == MIXED && seq % 3 == 1)) {
            OK(MPI_File_iwrite_shared(f, at, len, MPI_INT, &r[n++]));
        } else {
            OK(MPI_File_write_shared(f, at, len, MPI_INT, &s));
            IO_COUNT(&s, MPI_INT, len, what);
        }
    }
    OK(MPI_Waitall(n, r, MPI_STATUSES_IGNORE));
    MPI_Allreduce(&mine, &total, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    expect_shared(f, total, what);
    io_visible(f);
    whole = test_alloc((size_t)total * sizeof *whole);
    OK(MPI_File_read_at_all(f, 0, whole, (int)total, MPI_INT, MPI_STATUS_IGNORE));
    check_log(whole, total, how == BLOCKING, what);
    raw = test_alloc((size_t)(total * stride) * sizeof *raw);
    memset(raw, 0, (size_t)(total * stride) * sizeof *raw);
    io_bytes(0, raw, (size_t)(total * stride) * sizeof *raw);
    for (long long i = 0; i < total * stride; i++)
        /* Holes of a new file are zeros on POSIX; MPICH 5.0.2 writes what was in its buffer. */
        if (i % stride ? raw[i] && io_strict : raw[i] != whole[i / stride]) {
            CHECK(0, "%s: int %lld of the file is %d", what, i, raw[i]);
            break;
        }
    io_close(&f);
    free(raw);
    free(whole);
    free(b);
    free(r);
}

/* Each record of a file goes to one reader; all read until nothing is left. */
static void shared_reading(int nonblocking)
{
    enum { LEN = 5 };
    MPI_File f = io_create();
    int count = records * test_size, b[LEN], *seen, *all, reads = 0;
    MPI_Datatype record;
    seen = test_alloc((size_t)count * sizeof *seen);
    all = test_alloc((size_t)count * sizeof *all);
    memset(seen, 0, (size_t)count * sizeof *seen);
    MPI_Type_contiguous(LEN, MPI_INT, &record);
    MPI_Type_commit(&record);
    OK(MPI_File_set_view(f, 8, record, record, "native", MPI_INFO_NULL));
    for (int i = test_rank; i < count; i += test_size) {
        for (int k = 0; k < LEN; k++)
            b[k] = i * 10 + k;
        OK(MPI_File_write_at(f, i, b, 1, record, MPI_STATUS_IGNORE));
    }
    io_visible(f);
    for (;;) {
        MPI_Status s;
        MPI_Request r;
        int n = -1, whole = 1;
        memset(b, 0xff, sizeof b);
        if (nonblocking) {
            OK(MPI_File_iread_shared(f, b, 1, record, &r));
            OK(MPI_Wait(&r, &s));
        } else {
            OK(MPI_File_read_shared(f, b, 1, record, &s));
        }
        MPI_Get_count(&s, record, &n);
        if (n != 1 || reads > count)
            break;
        reads++;
        for (int k = 1; k < LEN; k++)
            whole &= b[k] == b[0] + k;
        CHECK(whole && b[0] >= 0 && b[0] / 10 < count, "a record that is none, or not whole: %d",
              b[0]);
        if (whole && b[0] >= 0 && b[0] / 10 < count)
            seen[b[0] / 10]++;
    }
    MPI_Allreduce(seen, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        CHECK(all[i] == 1, "record %d was read %d times", i, all[i]);
    MPI_Type_free(&record);
    io_close(&f);
    free(all);
    free(seen);
}

/* What ranks before this one write if rank r writes count(r) ints. */
static int count(int rank, int round)
{
    return (rank * 7 + round * 5) % 11 * (rank % 3 != 1); /* nothing for some */
}

static int before(int rank, int round)
{
    int n = 0;
    for (int i = 0; i < rank; i++)
        n += count(i, round);
    return n;
}

/* Ordered access is in the order of ranks, however late they come, blocking or split. */
static void ordered(MPI_Datatype filetype, int stride)
{
    enum { ROUNDS = 12, MOST = 11 };
    MPI_File f = io_create();
    MPI_Offset base = 0;
    MPI_Status s;
    int b[MOST], got[MOST];
    OK(MPI_File_set_view(f, 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
    for (int round = 0; round < ROUNDS; round++) {
        int n = count(test_rank, round);
        for (int i = 0; i < n; i++)
            b[i] = round * 10000 + test_rank * 100 + i;
        if ((round + test_rank) % 3 == 0)
            usleep(2000); /* ranks come at different times */
        if (round % 2) {
            OK(MPI_File_write_ordered_begin(f, b, n, MPI_INT));
            OK(MPI_File_write_ordered_end(f, b, &s));
        } else {
            OK(MPI_File_write_ordered(f, b, n, MPI_INT, &s));
        }
        IO_COUNT(&s, MPI_INT, n, "an ordered write");
        base += before(test_size, round);
        expect_shared(f, base, "after an ordered write");
    }
    io_visible(f);
    CHECK_INT(io_length(), base ? 4 + 4 * (stride * (base - 1) + 1) : 0, "the length of the file");
    OK(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
    for (int round = 0; round < ROUNDS; round++) {
        int n = count(test_rank, round);
        memset(got, 0xff, sizeof got);
        if (round % 2 == 0) {
            OK(MPI_File_read_ordered_begin(f, got, n, MPI_INT));
            OK(MPI_File_read_ordered_end(f, got, &s));
        } else {
            OK(MPI_File_read_ordered(f, got, n, MPI_INT, &s));
        }
        IO_COUNT(&s, MPI_INT, n, "an ordered read");
        for (int i = 0; i < n; i++)
            CHECK(got[i] == round * 10000 + test_rank * 100 + i, "round %d: int %d is %d", round, i,
                  got[i]);
    }
    /* More than there is: the end of the file divides the ranks' parts. */
    OK(MPI_File_seek_shared(f, -(MPI_Offset)before(test_size, ROUNDS - 1), MPI_SEEK_END));
    OK(MPI_File_read_ordered(f, got, count(test_rank, ROUNDS - 1), MPI_INT, &s));
    IO_COUNT(&s, MPI_INT, count(test_rank, ROUNDS - 1), "an ordered read up to the end");
    OK(MPI_File_read_ordered(f, got, 3, MPI_INT, &s));
    if (io_strict || stride == 1) /* MPICH 5.0.2 counts what is not there in views with holes */
        IO_COUNT(&s, MPI_INT, 0, "an ordered read after the end");
    io_close(&f);
}

/* Each open has pointers of its own, of the same file, too. */
static void several_files(void)
{
    MPI_File f = io_create(), g = io_open(MPI_MODE_RDWR), alone = MPI_FILE_NULL;
    MPI_Offset at = -1;
    char b = 'f';
    OK(MPI_File_open(MPI_COMM_SELF, io_name, MPI_MODE_RDWR, MPI_INFO_NULL, &alone));
    io_barrier();
    OK(MPI_File_write_ordered(f, &b, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_write_ordered(f, &b, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    b = 'g';
    OK(MPI_File_write_ordered(g, &b, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    expect_shared(f, 2 * test_size, "of the first handle");
    expect_shared(g, test_size, "of the second handle");
    OK(MPI_File_read_shared(alone, &b, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(b == 'g', "the first byte is %c, the second handle wrote g", b);
    OK(MPI_File_get_position_shared(alone, &at));
    CHECK_INT(at, 1, "the shared pointer of a handle of this rank alone");
    io_close(&alone);
    io_close(&g);
    expect_shared(f, 2 * test_size, "after the other handle was closed");
    io_close(&f);
}

int main(int argc, char **argv)
{
    MPI_Datatype holes;
    io_begin(&argc, &argv);
    if (argc > 1 && atoi(argv[1]) > 0)
        records = atoi(argv[1]);
    MPI_Type_create_resized(MPI_INT, 0, 3 * (int)sizeof(int), &holes);
    MPI_Type_commit(&holes);
    individual();
    seeks_of_the_shared_pointer();
    for (int how = 0; how < HOWS; how++) {
        shared_log((How)how, MPI_INT, 1, "no holes");
        shared_log((How)how, holes, 3, "holes");
    }
    shared_reading(0);
    shared_reading(1);
    ordered(MPI_INT, 1);
    ordered(holes, 3);
    if (io_strict) /* MPICH 5.0.2 may give files opened in the same second one pointer */
        several_files();
    MPI_Type_free(&holes);
    return io_finish();
}
