/* Large counts, extents and offsets (MPI 5.0, 14.4, the functions whose names end in _c): memory
 * and file types whose elements are gigabytes apart, offsets beyond 2^40, counts beyond 2^31. The
 * file is sparse, and of memory little is touched, so a run takes less than 300 MB of either. Each
 * kind of access is called in far_apart().
 *
 * argv: "strict" also checks what MPICH 5.0.2 does otherwise */
#include "io.h"

#include <sys/mman.h>
#include <sys/resource.h>

enum { KINDS = 14, N = 5, MEBI = 1 << 20 };

static const long long GIBI = 1LL << 30;
static const long long FAR = 1LL << 40; /* where the view begins */
static const long long MANY = 3000000000;

static const char *const kinds[KINDS] = {
    "at",     "individual", "all",       "at_all",  "shared",    "ordered",      "i.. at",
    "i..",    "i..all",     "i..at_all", "i..shared", "all_begin", "at_all_begin", "ordered_begin"};

static void put(MPI_File f, int kind, MPI_Offset at, const void *b, MPI_Count n, MPI_Datatype t,
                MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    switch (kind) {
    case 0: OK(MPI_File_write_at_c(f, at, b, n, t, s)); break;
    case 1: OK(MPI_File_write_c(f, b, n, t, s)); break;
    case 2: OK(MPI_File_write_all_c(f, b, n, t, s)); break;
    case 3: OK(MPI_File_write_at_all_c(f, at, b, n, t, s)); break;
    case 4: OK(MPI_File_write_shared_c(f, b, n, t, s)); break;
    case 5: OK(MPI_File_write_ordered_c(f, b, n, t, s)); break;
    case 6: OK(MPI_File_iwrite_at_c(f, at, b, n, t, &r)); break;
    case 7: OK(MPI_File_iwrite_c(f, b, n, t, &r)); break;
    case 8: OK(MPI_File_iwrite_all_c(f, b, n, t, &r)); break;
    case 9: OK(MPI_File_iwrite_at_all_c(f, at, b, n, t, &r)); break;
    case 10: OK(MPI_File_iwrite_shared_c(f, b, n, t, &r)); break;
    case 11: OK(MPI_File_write_all_begin_c(f, b, n, t)); break;
    case 12: OK(MPI_File_write_at_all_begin_c(f, at, b, n, t)); break;
    default: OK(MPI_File_write_ordered_begin_c(f, b, n, t));
    }
    if (r != MPI_REQUEST_NULL)
        OK(MPI_Wait(&r, s));
    if (kind == 11)
        OK(MPI_File_write_all_end(f, b, s));
    else if (kind == 12)
        OK(MPI_File_write_at_all_end(f, b, s));
    else if (kind == 13)
        OK(MPI_File_write_ordered_end(f, b, s));
}

static void get(MPI_File f, int kind, MPI_Offset at, void *b, MPI_Count n, MPI_Datatype t,
                MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    switch (kind) {
    case 0: OK(MPI_File_read_at_c(f, at, b, n, t, s)); break;
    case 1: OK(MPI_File_read_c(f, b, n, t, s)); break;
    case 2: OK(MPI_File_read_all_c(f, b, n, t, s)); break;
    case 3: OK(MPI_File_read_at_all_c(f, at, b, n, t, s)); break;
    case 4: OK(MPI_File_read_shared_c(f, b, n, t, s)); break;
    case 5: OK(MPI_File_read_ordered_c(f, b, n, t, s)); break;
    case 6: OK(MPI_File_iread_at_c(f, at, b, n, t, &r)); break;
    case 7: OK(MPI_File_iread_c(f, b, n, t, &r)); break;
    case 8: OK(MPI_File_iread_all_c(f, b, n, t, &r)); break;
    case 9: OK(MPI_File_iread_at_all_c(f, at, b, n, t, &r)); break;
    case 10: OK(MPI_File_iread_shared_c(f, b, n, t, &r)); break;
    case 11: OK(MPI_File_read_all_begin_c(f, b, n, t)); break;
    case 12: OK(MPI_File_read_at_all_begin_c(f, at, b, n, t)); break;
    default: OK(MPI_File_read_ordered_begin_c(f, b, n, t));
    }
    if (r != MPI_REQUEST_NULL)
        OK(MPI_Wait(&r, s));
    if (kind == 11)
        OK(MPI_File_read_all_end(f, b, s));
    else if (kind == 12)
        OK(MPI_File_read_at_all_end(f, b, s));
    else if (kind == 13)
        OK(MPI_File_read_ordered_end(f, b, s));
}

static int is_racing(int kind)
{
    return kind == 4 || kind == 10;
}

/* Addresses without memory: zeros, and pages where something is written. */
static char *reserve(long long bytes)
{
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "cannot reserve %lld bytes of addresses: %s\n", bytes, strerror(errno));
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return p;
}

static MPI_Datatype apart(MPI_Datatype old, long long extent)
{
    MPI_Datatype t;
    MPI_Type_create_resized(old, 0, (MPI_Aint)extent, &t);
    MPI_Type_commit(&t);
    return t;
}

static int value(int kind, int rank, int i)
{
    return 1 + kind * 10000 + rank * 100 + i;
}

/* The place of a record of N ints, in elementary types. */
static MPI_Offset place(int kind, int rank)
{
    return ((MPI_Offset)kind * test_size + rank) * N;
}

/* The rank whose record the ints are, or -1. */
static int owner(int kind, const int *x)
{
    for (int rank = 0; rank < test_size; rank++) {
        int i = 0;
        while (i < N && x[i] == value(kind, rank, i))
            i++;
        if (i == N)
            return rank;
    }
    return -1;
}

static void aim(MPI_File f, MPI_Offset mine, MPI_Offset shared)
{
    OK(MPI_File_seek(f, mine, MPI_SEEK_SET));
    OK(MPI_File_seek_shared(f, shared, MPI_SEEK_SET));
}

/* Ints 3 GiB apart in memory go to ints 5 GiB apart in the file, and back. */
static void far_apart(void)
{
    const long long in_memory = 3 * GIBI, in_file = 5 * GIBI;
    MPI_File f = io_create();
    MPI_Datatype memory = apart(MPI_INT, in_memory), filetype = apart(MPI_INT, in_file);
    MPI_Status s;
    MPI_Offset at = -1;
    MPI_Count extent = -1;
    char *b = reserve(N * in_memory);
    int record[N];
    OK(MPI_File_set_view(f, FAR, MPI_INT, filetype, "native", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent_c(f, filetype, &extent));
    CHECK_INT(extent, in_file, "the extent of the file type");
    OK(MPI_File_get_byte_offset(f, 1000, &at));
    CHECK_INT(at, FAR + 1000 * in_file, "the byte offset of the 1000th int");
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < N; i++)
            *(int *)(b + i * in_memory) = value(kind, test_rank, i);
        aim(f, place(kind, test_rank), place(kind, 0));
        put(f, kind, place(kind, test_rank), b, N, memory, &s);
        IO_COUNT(&s, MPI_INT, N, kinds[kind]);
        io_barrier();
    }
    io_visible(f);
    for (int kind = 0; kind < KINDS; kind++) {
        int rank;
        for (int i = 0; i < N; i++)
            if (io_bytes(FAR + (place(kind, test_rank) + i) * in_file, &record[i], 4) != 4)
                record[i] = -1;
        rank = owner(kind, record);
        CHECK(rank >= 0 && (is_racing(kind) || rank == test_rank),
              "%s: the file has the record of rank %d (-1: of none)", kinds[kind], rank);
        for (int i = 0; i < N; i++)
            *(int *)(b + i * in_memory) = -1;
        aim(f, place(kind, test_rank), place(kind, 0));
        get(f, kind, place(kind, test_rank), b, N, memory, &s);
        IO_COUNT(&s, MPI_INT, N, kinds[kind]);
        for (int i = 0; i < N; i++)
            record[i] = *(int *)(b + i * in_memory);
        rank = owner(kind, record);
        CHECK(rank >= 0 && (is_racing(kind) || rank == test_rank),
              "%s: the record of rank %d is read (-1: of none)", kinds[kind], rank);
        io_barrier();
    }
    OK(MPI_File_seek(f, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(f, &at));
    CHECK_INT(at, place(KINDS, 0), "the end of the file in ints");
    munmap(b, (size_t)(N * in_memory));
    MPI_Type_free(&memory);
    MPI_Type_free(&filetype);
    io_close(&f);
}

/* More than 2^31 bytes are asked for, and few are there. */
static void beyond_the_end(void)
{
    enum { BYTES = 5000 };
    MPI_File f = io_create();
    MPI_Status s;
    unsigned char out[BYTES];
    char *b = reserve(MANY);
    test_fill(out, BYTES, 9);
    OK(MPI_File_set_view(f, FAR, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    if (test_rank == 0)
        OK(MPI_File_write_at_c(f, 0, out, BYTES, MPI_BYTE, &s));
    io_visible(f);
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Count n = -1, total = 0;
        int shares = is_racing(kind) || kind == 5 || kind == 13, mine = 7 * test_rank;
        memset(b, 0, BYTES);
        aim(f, mine, 0);
        get(f, kind, mine, b, MANY, MPI_BYTE, &s);
        MPI_Get_count_c(&s, MPI_BYTE, &n);
        MPI_Allreduce(&n, &total, 1, MPI_COUNT, MPI_SUM, MPI_COMM_WORLD);
        if (shares) /* the first has all */
            CHECK(total == BYTES && (n == 0 || n == BYTES), "%s: %lld bytes of %lld are read",
                  kinds[kind], (long long)n, (long long)total);
        else
            CHECK(n == BYTES - mine, "%s: %lld bytes are read", kinds[kind], (long long)n);
        CHECK(n <= 0 || !memcmp(b, out + (shares ? 0 : mine), (size_t)n),
              "%s: bytes are read wrongly", kinds[kind]);
        CHECK(b[BYTES] == 0 && b[MANY - 1] == 0, "%s: bytes beyond the end were written",
              kinds[kind]);
        io_barrier();
    }
    munmap(b, (size_t)MANY);
    io_close(&f);
}

/* Addresses whose pages are those of one mebibyte again and again, so that what is read from holes
 * takes no memory. To MPI they are different places: types for reading may not overlap (14.4.1). */
static char *same_pages(long long bytes)
{
    char *b = reserve(bytes);
    int fd = memfd_create("io_large", 0);
    if (fd < 0 || ftruncate(fd, MEBI) != 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (long long at = 0; at < bytes; at += MEBI)
        if (mmap(b + at, MEBI, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != b + at) {
            fprintf(stderr, "cannot map a page at %lld once more: %s\n", at, strerror(errno));
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    close(fd);
    return b;
}

/* More than 2^31 bytes of holes. */
static void many_bytes_are_read(void)
{
    const MPI_Count bytes = 2049LL * MEBI;
    MPI_File f = io_create();
    MPI_Status s;
    int n = 0;
    char *b = same_pages(bytes);
    OK(MPI_File_set_size(f, FAR));
    for (int collective = 0; collective < 2; collective++) {
        int reads = test_rank == (collective ? test_size - 1 : 0);
        memset(b, 0x5a, MEBI);
        if (collective)
            OK(MPI_File_read_at_all_c(f, FAR / 2 + 11, b, reads ? bytes : 0, MPI_BYTE, &s));
        else if (reads)
            OK(MPI_File_read_at_c(f, FAR / 2 + 11, b, bytes, MPI_BYTE, &s));
        if (!reads)
            continue;
        IO_COUNT(&s, MPI_BYTE, bytes, "many bytes");
        MPI_Get_count(&s, MPI_BYTE, &n);
        CHECK_INT(n, MPI_UNDEFINED, "the count as int");
        CHECK(test_all(b, MEBI, 0) == MEBI, "a hole is read as something");
    }
    munmap(b, (size_t)bytes);
    io_close(&f);
}

/* /dev/null takes more than 2^31 bytes without keeping them. */
static void many_bytes_are_written(void)
{
    static const int some[] = {0, 3, 4, 6, 9};
    MPI_File f = MPI_FILE_NULL;
    MPI_Status s;
    char *b = reserve(MANY);
    if (!OK(MPI_File_open(MPI_COMM_WORLD, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &f)))
        return;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        MPI_Count n = test_rank == 0 ? MANY : 0;
        put(f, some[i], 0, b, n, MPI_BYTE, &s);
        IO_COUNT(&s, MPI_BYTE, n, kinds[some[i]]);
    }
    io_close(&f);
    munmap(b, (size_t)MANY);
}

/* 2^40 elements without a byte. */
static void empty_elements(void)
{
    MPI_File f = io_create();
    MPI_Datatype empty;
    MPI_Status s;
    MPI_Offset at = -1;
    char b = 'x';
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    for (int kind = 0; kind < KINDS; kind++) {
        aim(f, FAR, FAR);
        put(f, kind, FAR, &b, 1LL << 40, empty, &s);
        IO_COUNT(&s, MPI_BYTE, 0, kinds[kind]);
        get(f, kind, FAR, &b, 1LL << 40, empty, &s);
        IO_COUNT(&s, MPI_BYTE, 0, kinds[kind]);
        OK(MPI_File_get_position(f, &at));
        CHECK_INT(at, FAR, "the pointer after elements without a byte");
        OK(MPI_File_get_position_shared(f, &at));
        CHECK_INT(at, FAR, "the shared pointer after elements without a byte");
        io_barrier();
    }
    CHECK(b == 'x', "a byte was written");
    OK(MPI_File_get_size(f, &at));
    CHECK_INT(at, 0, "the size after elements without a byte");
    MPI_Type_free(&empty);
    io_close(&f);
}

/* What the program and the library have taken, of memory and of the disk. */
static void check_frugality(long long blocks)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    CHECK(use.ru_maxrss < 300 * 1024, "the rank has used %ld KiB of memory", use.ru_maxrss);
    CHECK(blocks < 300 * 2048, "the sparse file takes %lld KiB", blocks / 2);
}

static int same_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    MPI_Aint low;
    (void)state;
    return MPI_Type_get_extent(type, &low, extent);
}

/* Pointers and sizes in elementary types that are large themselves. */
static void large_units(void)
{
    MPI_File f = io_create();
    MPI_Datatype unit;
    MPI_Offset at = -1;
    MPI_Count extent = -1;
    MPI_Type_contiguous_c(3 * GIBI, MPI_BYTE, &unit);
    MPI_Type_commit(&unit);
    OK(MPI_File_set_size(f, FAR));
    OK(MPI_File_get_size(f, &at));
    CHECK_INT(at, FAR, "the size");
    OK(MPI_File_set_view(f, 1, unit, unit, "native", MPI_INFO_NULL));
    OK(MPI_File_get_type_extent_c(f, unit, &extent));
    CHECK_INT(extent, 3 * GIBI, "the extent of a large unit");
    OK(MPI_File_seek(f, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(f, &at));
    CHECK_INT(at, (FAR - 1 + 3 * GIBI - 1) / (3 * GIBI), "the end in large units");
    OK(MPI_File_seek_shared(f, 1000, MPI_SEEK_SET));
    OK(MPI_File_get_position_shared(f, &at));
    CHECK_INT(at, 1000, "the shared pointer in large units");
    OK(MPI_File_get_byte_offset(f, 1000, &at));
    CHECK_INT(at, 1 + 3000 * GIBI, "the byte offset in large units");
    MPI_Type_free(&unit);
    io_close(&f);
    OK(MPI_Register_datarep_c("mica io_large", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C,
                              same_extent, NULL));
}

int main(int argc, char **argv)
{
    struct stat sparse = {0};
    io_begin(&argc, &argv);
    far_apart();
    stat(io_name, &sparse);
    empty_elements();
    large_units();
    if (io_strict) { /* beyond 2^31 bytes MPICH 5.0.2 reports success for something else */
        beyond_the_end();
        many_bytes_are_written();
        check_frugality((long long)sparse.st_blocks);
        many_bytes_are_read(); /* whose pages are counted as often as they are mapped */
    }
    return io_finish();
}
