/* What must fail with an error class, and change nothing, end nothing and keep no rank waiting:
 * access that the mode forbids, bad arguments, handles that are closed, split collectives that do
 * not match, limits of size, a device that is full, folders and FIFOs (MPI 5.0, 14.7, 14.8 and what
 * the calls say).
 *
 * argv: "strict" also checks what MPICH 5.0.2 does otherwise */
#include "io.h"

#include <signal.h>
#include <sys/resource.h>

enum { N = 16, MEBI = 1 << 20 };

/* Every kind of access; `kind` counts from 0. A nonblocking one may fail when it starts or when it
 * completes, a split one in begin or in end. */
enum { KINDS = 14 };

static const char *const kinds[KINDS] = {
    "at",     "individual", "all",       "at_all",  "shared",    "ordered",      "i.. at",
    "i..",    "i..all",     "i..at_all", "i..shared", "all_begin", "at_all_begin", "ordered_begin"};

static int is_collective(int kind)
{
    return kind == 2 || kind == 3 || kind == 5 || kind == 8 || kind == 9 || kind >= 11;
}

static int is_nonblocking(int kind)
{
    return kind >= 6 && kind <= 10;
}

static int is_ordered(int kind)
{
    return kind == 5 || kind == 13;
}

static int completed(int code, MPI_Request *r)
{
    int later = *r == MPI_REQUEST_NULL ? MPI_SUCCESS : MPI_Wait(r, MPI_STATUS_IGNORE);
    return code != MPI_SUCCESS ? code : later;
}

static int put(MPI_File f, int kind, MPI_Offset at, const void *b, int n, MPI_Datatype t)
{
    MPI_Status s;
    MPI_Request r = MPI_REQUEST_NULL;
    int code;
    switch (kind) {
    case 0: return MPI_File_write_at(f, at, b, n, t, &s);
    case 1: return MPI_File_write(f, b, n, t, &s);
    case 2: return MPI_File_write_all(f, b, n, t, &s);
    case 3: return MPI_File_write_at_all(f, at, b, n, t, &s);
    case 4: return MPI_File_write_shared(f, b, n, t, &s);
    case 5: return MPI_File_write_ordered(f, b, n, t, &s);
    case 6: return code = MPI_File_iwrite_at(f, at, b, n, t, &r), completed(code, &r);
    case 7: return code = MPI_File_iwrite(f, b, n, t, &r), completed(code, &r);
    case 8: return code = MPI_File_iwrite_all(f, b, n, t, &r), completed(code, &r);
    case 9: return code = MPI_File_iwrite_at_all(f, at, b, n, t, &r), completed(code, &r);
    case 10: return code = MPI_File_iwrite_shared(f, b, n, t, &r), completed(code, &r);
    case 11: code = MPI_File_write_all_begin(f, b, n, t);
        return code ? code : MPI_File_write_all_end(f, b, &s);
    case 12: code = MPI_File_write_at_all_begin(f, at, b, n, t);
        return code ? code : MPI_File_write_at_all_end(f, b, &s);
    default: code = MPI_File_write_ordered_begin(f, b, n, t);
        return code ? code : MPI_File_write_ordered_end(f, b, &s);
    }
}

static int get(MPI_File f, int kind, MPI_Offset at, void *b, int n, MPI_Datatype t)
{
    MPI_Status s;
    MPI_Request r = MPI_REQUEST_NULL;
    int code;
    switch (kind) {
    case 0: return MPI_File_read_at(f, at, b, n, t, &s);
    case 1: return MPI_File_read(f, b, n, t, &s);
    case 2: return MPI_File_read_all(f, b, n, t, &s);
    case 3: return MPI_File_read_at_all(f, at, b, n, t, &s);
    case 4: return MPI_File_read_shared(f, b, n, t, &s);
    case 5: return MPI_File_read_ordered(f, b, n, t, &s);
    case 6: return code = MPI_File_iread_at(f, at, b, n, t, &r), completed(code, &r);
    case 7: return code = MPI_File_iread(f, b, n, t, &r), completed(code, &r);
    case 8: return code = MPI_File_iread_all(f, b, n, t, &r), completed(code, &r);
    case 9: return code = MPI_File_iread_at_all(f, at, b, n, t, &r), completed(code, &r);
    case 10: return code = MPI_File_iread_shared(f, b, n, t, &r), completed(code, &r);
    case 11: code = MPI_File_read_all_begin(f, b, n, t);
        return code ? code : MPI_File_read_all_end(f, b, &s);
    case 12: code = MPI_File_read_at_all_begin(f, at, b, n, t);
        return code ? code : MPI_File_read_at_all_end(f, b, &s);
    default: code = MPI_File_read_ordered_begin(f, b, n, t);
        return code ? code : MPI_File_read_ordered_end(f, b, &s);
    }
}

static void expect(int code, int one, int other, const char *kind, const char *what)
{
    int class = test_class_of(code);
    CHECK(class == one || class == other, "%s, %s: error class %d, expected %d or %d", what, kind,
          class, one, other);
}

/* Without "strict", any error will do. */
static void expect_error(int code, int one, int other, const char *kind, const char *what)
{
    if (io_strict)
        expect(code, one, other, kind, what);
    CHECK(code != MPI_SUCCESS, "%s, %s: no error", what, kind);
}

/* Without "strict": MPICH 5.0.2 waits for ever for nonblocking access that has failed, and lets
 * ordered reads pass that read nothing. */
static void forbidden_access(void)
{
    unsigned char b[N];
    MPI_File f;
    test_fill(b, N, 1);
    io_make(io_name, b, N);
    f = io_open(MPI_MODE_RDONLY);
    for (int kind = 0; kind < KINDS; kind++)
        if (io_strict || !is_nonblocking(kind))
            expect_error(put(f, kind, 0, "xyz", 3, MPI_BYTE), MPI_ERR_READ_ONLY, MPI_ERR_ACCESS,
                         kinds[kind], "a write to a file that is open for reading");
    io_close(&f);
    io_bytes(0, b, N);
    CHECK(test_verify(b, N, 1) == N && io_length() == N, "a file open for reading was written");
    f = io_open(MPI_MODE_WRONLY);
    for (int kind = 0; kind < KINDS; kind++)
        if (io_strict || (!is_nonblocking(kind) && !is_ordered(kind)))
            expect_error(get(f, kind, 0, b, 3, MPI_BYTE), MPI_ERR_ACCESS,
                         MPI_ERR_UNSUPPORTED_OPERATION, kinds[kind],
                         "a read of a file that is open for writing");
    io_close(&f);
}

static void bad_arguments(void)
{
    MPI_File f = io_create();
    MPI_Datatype raw;
    int b[N] = {0};
    MPI_Offset n = -5;
    MPI_Type_contiguous(2, MPI_INT, &raw); /* not committed */
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int kind = 0; kind < KINDS; kind++) {
        int explicit_offset = kind == 0 || kind == 3 || kind == 6 || kind == 9 || kind == 12;
        if (kind == 10 && !io_strict) /* MPICH 5.0.2 checks nothing before it takes the pointer */
            continue;
        expect_error(put(f, kind, 0, b, -1, MPI_INT), MPI_ERR_COUNT, MPI_ERR_ARG, kinds[kind],
                     "count -1");
        expect_error(get(f, kind, 0, b, -1, MPI_INT), MPI_ERR_COUNT, MPI_ERR_ARG, kinds[kind],
                     "count -1");
        expect_error(put(f, kind, 0, b, 1, MPI_DATATYPE_NULL), MPI_ERR_TYPE, MPI_ERR_TYPE,
                     kinds[kind], "MPI_DATATYPE_NULL");
        expect_error(put(f, kind, 0, b, 1, raw), MPI_ERR_TYPE, MPI_ERR_TYPE, kinds[kind],
                     "a type without commit");
        if (explicit_offset)
            expect_error(put(f, kind, -1, b, 1, MPI_INT), MPI_ERR_ARG, MPI_ERR_ARG, kinds[kind],
                         "offset -1");
        if (io_strict) { /* which MPICH 5.0.2 writes, or crashes with */
            expect(put(f, kind, 0, NULL, 1, MPI_INT), MPI_ERR_BUFFER, MPI_ERR_ARG, kinds[kind],
                   "no buffer");
            CHECK(put(f, kind, 0, b, 3, MPI_BYTE) != MPI_SUCCESS,
                  "%s: three bytes are no multiple of the elementary type", kinds[kind]);
        }
    }
    CHECK_INT(io_length(), 0, "the length of a file after bad arguments");
    OK(MPI_File_get_position_shared(f, &n));
    CHECK_INT(n, 0, "the shared pointer after bad arguments");
    OK(MPI_File_get_position(f, &n));
    CHECK_INT(n, 0, "the pointer after bad arguments");
    CHECK(MPI_File_get_byte_offset(f, -1, &n) != MPI_SUCCESS, "the byte of offset -1");
    if (io_strict) {
        CHECK_CLASS(MPI_File_get_size(f, NULL), MPI_ERR_ARG, "size = NULL");
        CHECK_CLASS(MPI_File_get_position(f, NULL), MPI_ERR_ARG, "offset = NULL");
        CHECK_CLASS(MPI_File_get_amode(f, NULL), MPI_ERR_ARG, "amode = NULL");
        CHECK_CLASS(MPI_File_get_info(f, NULL), MPI_ERR_ARG, "info = NULL");
    }
    MPI_Type_free(&raw);
    io_close(&f);
}

/* A null handle; one that was closed and kept. */
static void bad_handles(void)
{
    MPI_File f = io_create(), kept = f, none = MPI_FILE_NULL;
    MPI_Offset n;
    int b[N] = {0};
    io_close(&f);
    for (int closed = 0; closed < 1 + io_strict; closed++) { /* MPICH 5.0.2 reads freed memory */
        MPI_File g = closed ? kept : none;
        const char *what = closed ? "a closed file" : "MPI_FILE_NULL";
        for (int kind = 0; kind < KINDS; kind++) {
            expect_error(put(g, kind, 0, b, 1, MPI_INT), MPI_ERR_FILE, MPI_ERR_FILE, kinds[kind],
                         what);
            expect_error(get(g, kind, 0, b, 1, MPI_INT), MPI_ERR_FILE, MPI_ERR_FILE, kinds[kind],
                         what);
        }
        CHECK_CLASS(MPI_File_get_size(g, &n), MPI_ERR_FILE, what);
        CHECK_CLASS(MPI_File_set_size(g, 0), MPI_ERR_FILE, what);
        CHECK_CLASS(MPI_File_sync(g), MPI_ERR_FILE, what);
        CHECK_CLASS(MPI_File_seek(g, 0, MPI_SEEK_SET), MPI_ERR_FILE, what);
        CHECK_CLASS(MPI_File_set_view(g, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL),
                    MPI_ERR_FILE, what);
        CHECK_CLASS(MPI_File_close(&g), MPI_ERR_FILE, what);
    }
}

/* One split collective at a time, ended by its own end (14.4.5). */
static void split_collectives(void)
{
    MPI_File f = io_create();
    MPI_Status s;
    int b[N] = {0}, c[N] = {0};
    CHECK(MPI_File_write_all_end(f, b, &s) != MPI_SUCCESS, "write_all_end without begin");
    CHECK(MPI_File_read_all_end(f, b, &s) != MPI_SUCCESS, "read_all_end without begin");
    CHECK(MPI_File_write_at_all_end(f, b, &s) != MPI_SUCCESS, "write_at_all_end without begin");
    CHECK(MPI_File_read_at_all_end(f, b, &s) != MPI_SUCCESS, "read_at_all_end without begin");
    CHECK(MPI_File_write_ordered_end(f, b, &s) != MPI_SUCCESS, "write_ordered_end without begin");
    CHECK(MPI_File_read_ordered_end(f, b, &s) != MPI_SUCCESS, "read_ordered_end without begin");
    OK(MPI_File_write_at_all_begin(f, test_rank * (MPI_Offset)sizeof b, b, N, MPI_INT));
    CHECK(MPI_File_write_at_all_begin(f, 0, c, N, MPI_INT) != MPI_SUCCESS, "two begins");
    CHECK(MPI_File_read_all_begin(f, c, N, MPI_INT) != MPI_SUCCESS, "two begins of two sorts");
    CHECK(MPI_File_write_ordered_begin(f, c, N, MPI_INT) != MPI_SUCCESS, "two begins of two sorts");
    if (io_strict) { /* MPICH 5.0.2 takes any end and any collective */
        CHECK(MPI_File_read_at_all_end(f, c, &s) != MPI_SUCCESS, "the end of another sort");
        CHECK(MPI_File_write_all_end(f, b, &s) != MPI_SUCCESS, "the end of another sort");
        CHECK(MPI_File_write_all(f, c, N, MPI_INT, &s) != MPI_SUCCESS, "a collective between");
    }
    OK(MPI_File_write_at_all_end(f, b, &s));
    IO_COUNT(&s, MPI_INT, N, "a split write after errors");
    CHECK(MPI_File_write_at_all_end(f, b, &s) != MPI_SUCCESS, "the end once more");
    OK(MPI_File_write_at_all(f, test_rank * (MPI_Offset)sizeof b, b, N, MPI_INT, &s));
    io_close(&f);
}

static int is_space(int code)
{
    int class = test_class_of(code);
    return class == MPI_ERR_NO_SPACE || class == MPI_ERR_QUOTA || class == MPI_ERR_IO;
}

/* RLIMIT_FSIZE: the kernel would end the process by SIGXFSZ. */
static void size_limit(void)
{
    MPI_File f = io_create();
    struct rlimit old, limit;
    struct sigaction before, after;
    char *b = test_alloc(MEBI);
    MPI_Offset n = -1;
    memset(b, 'x', MEBI);
    sigaction(SIGXFSZ, NULL, &before);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 64 * MEBI; /* what the library has for itself may be larger than the file's */
    io_barrier();
    setrlimit(RLIMIT_FSIZE, &limit);
    OK(MPI_File_write_at(f, (MPI_Offset)test_rank * MEBI, b, MEBI, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int kind = 0; kind < KINDS; kind++) {
        int code;
        OK(MPI_File_seek(f, (MPI_Offset)(70 + test_rank) * MEBI, MPI_SEEK_SET));
        OK(MPI_File_seek_shared(f, (MPI_Offset)80 * MEBI, MPI_SEEK_SET));
        io_barrier();
        code = put(f, kind, (MPI_Offset)(70 + test_rank) * MEBI, b, MEBI, MPI_BYTE);
        CHECK(is_space(code), "%s beyond the limit of size: error class %d", kinds[kind],
              test_class_of(code));
        io_barrier();
    }
    CHECK(is_space(MPI_File_set_size(f, (MPI_Offset)100 * MEBI)), "a size beyond the limit");
    CHECK(is_space(MPI_File_preallocate(f, (MPI_Offset)100 * MEBI)), "space beyond the limit");
    /* One that begins below the limit and ends above it. */
    CHECK(is_space(MPI_File_write_at(f, (MPI_Offset)64 * MEBI - MEBI / 2, b, MEBI, MPI_BYTE,
                                     MPI_STATUS_IGNORE)),
          "a write across the limit");
    io_barrier();
    setrlimit(RLIMIT_FSIZE, &old);
    sigaction(SIGXFSZ, NULL, &after);
    CHECK(before.sa_handler == after.sa_handler, "the library has changed what SIGXFSZ does");
    OK(MPI_File_get_size(f, &n));
    CHECK(n >= (MPI_Offset)test_size * MEBI && n <= (MPI_Offset)64 * MEBI, "the size is %lld",
          (long long)n);
    io_close(&f);
    free(b);
}

/* All writes to /dev/full fail with ENOSPC. Of a collective write each rank that gave data must
 * hear of it, as far as "strict" says. */
static void full_device(void)
{
    MPI_File f = MPI_FILE_NULL;
    char b[4096];
    int failed, all = 0;
    memset(b, 'x', sizeof b);
    if (access("/dev/full", W_OK) != 0)
        return;
    OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &f));
    for (int kind = 0; kind < KINDS && f != MPI_FILE_NULL; kind++) {
        int code;
        if (!io_strict && kind != 0 && kind != 3) /* MPICH 5.0.2 makes files in /dev, or hangs */
            continue;
        code = put(f, kind, (MPI_Offset)test_rank * (MPI_Offset)sizeof b, b, sizeof b, MPI_BYTE);
        failed = code != MPI_SUCCESS;
        CHECK(!failed || test_class_of(code) == MPI_ERR_NO_SPACE || !io_strict,
              "%s to a full device: error class %d", kinds[kind], test_class_of(code));
        MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all == test_size || (is_collective(kind) && !io_strict && all > 0),
              "%s to a full device: %d of %d ranks have an error", kinds[kind], all, test_size);
    }
    if (f != MPI_FILE_NULL)
        MPI_File_close(&f);
}

static void late(int signal)
{
    static const char text[] = "io_errors: MPI_File_open of a FIFO does not return\n";
    ssize_t n = write(2, text, sizeof text - 1);
    (void)signal, (void)n;
    _exit(9);
}

/* open(2) of a FIFO waits for the other end. MPI_File_open may refuse it or not, but not wait. */
static void fifo(int amode, const char *what)
{
    MPI_File f = MPI_FILE_NULL;
    const char *path = io_path("fifo");
    io_barrier();
    if (test_rank == 0)
        CHECK(mkfifo(path, 0600) == 0, "mkfifo: %s", strerror(errno));
    io_barrier();
    signal(SIGALRM, late);
    alarm(20);
    if (MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &f) == MPI_SUCCESS)
        OK(MPI_File_close(&f));
    alarm(0);
    signal(SIGALRM, SIG_DFL);
    CHECK(f == MPI_FILE_NULL, "%s: the handle is not null", what);
    io_barrier();
    if (test_rank == 0)
        unlink(path);
    io_barrier();
}

/* A folder is no file: opening it for reading fails, or reading does. */
static void folder(void)
{
    MPI_File f = MPI_FILE_NULL;
    char b[8];
    int code = MPI_File_open(MPI_COMM_WORLD, io_folder, MPI_MODE_RDONLY, MPI_INFO_NULL, &f);
    if (code == MPI_SUCCESS) {
        CHECK(MPI_File_read_at(f, 0, b, 8, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS,
              "a folder is read as a file");
        OK(MPI_File_close(&f));
    }
    CHECK(MPI_File_open(MPI_COMM_WORLD, io_folder, MPI_MODE_RDWR, MPI_INFO_NULL, &f) != MPI_SUCCESS,
          "a folder is opened for writing");
}

/* A file needs an intracommunicator. */
static void intercommunicator(void)
{
    MPI_Comm half, inter;
    MPI_File f = MPI_FILE_NULL;
    int other = test_rank < test_size / 2 ? test_size / 2 : 0;
    if (test_size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, test_rank < test_size / 2, test_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other, 3, &inter);
    CHECK_CLASS(MPI_File_open(inter, io_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f),
                MPI_ERR_COMM, "an intercommunicator");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    io_begin(&argc, &argv);
    forbidden_access();
    bad_arguments();
    bad_handles();
    split_collectives();
    full_device();
    folder();
    intercommunicator();
    if (io_strict) { /* MPICH 5.0.2 waits for the FIFO's other end, and SIGXFSZ ends it */
        fifo(MPI_MODE_RDONLY, "reading");
        fifo(MPI_MODE_WRONLY, "writing");
        fifo(MPI_MODE_RDWR, "both");
        fifo(MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, "reading in sequence");
        fifo(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, "writing in sequence");
        size_limit();
    }
    return io_finish();
}
