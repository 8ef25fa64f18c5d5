/* Reads and writes of a file by all ranks. Arguments: LAYOUT CALL [--disk] --scratch DIR SIZE...
 *
 *   layout         which bytes of the file are a rank's           SIZE
 *   interleaved    blocks of 4 KiB, in turn, by a view            of the whole file
 *   subarray       a block of a 3-D array in 16,384 pieces        of each rank
 *   contiguous     SIZE bytes after those of the rank before      of each rank
 *   strided        64 of each 128 bytes, in a part of its own     of each rank
 *
 * CALL is write_all, read_all, write_at, read_at, write_at_all or read_at_all. The measure
 * "io LAYOUT CALL", in ms, is the time of one call on all ranks: after a barrier, from the first
 * rank's start to the last one's end, by the node's clock. View, file and data are there before.
 * Median of 15 batches, or of as many as take 2 s, at least 3.
 *
 *   "io pwrite", "io pread"    the floor: rank 0 moves the bytes of the whole file by one call,
 *                              contiguous, while the others sleep; 3 to 15 times, in 0.5 s.
 *                              Not for strided.
 *
 * What is written is there already, in the page cache: no write makes a file longer, and no read
 * waits for a disk. With --disk the names end in " disk": MPI_File_sync belongs to a write (fsync
 * to pwrite), and before a read the file is closed, moved out of the page cache and opened again,
 * which is not timed.
 *
 * Every write begins with a number, and of every read the first and the last word are checked; at
 * the end all bytes are, those of a write by POSIX calls after the file was closed, with what
 * lies between the pieces. A call that fails, or moves too few bytes, ends the job with MPI's
 * reason. The key `file_system` says where DIR lies. */
#include "io.h"

/* Seconds: of a batch, of all, of all of the floor. */
static const double BATCH = 0.02, LIMIT = 2, FLOOR_LIMIT = 0.5;

struct io {
    struct layout layout;
    const struct call *call;
    char path[PATH_ROOM];
    MPI_File file;
    char *memory;
    int bytes; /* of this rank */
    int disk;
    long done; /* calls so far */
};

/* ---- The calls. */

struct call {
    const char *name;
    int (*run)(struct io *f, MPI_Status *status);
    int writes;
};

static int write_all(struct io *f, MPI_Status *status)
{
    MPI_File_seek(f->file, f->layout.at, MPI_SEEK_SET);
    return MPI_File_write_all(f->file, f->memory, f->bytes, MPI_BYTE, status);
}

static int read_all(struct io *f, MPI_Status *status)
{
    MPI_File_seek(f->file, f->layout.at, MPI_SEEK_SET);
    return MPI_File_read_all(f->file, f->memory, f->bytes, MPI_BYTE, status);
}

static int write_at(struct io *f, MPI_Status *status)
{
    return MPI_File_write_at(f->file, f->layout.at, f->memory, f->bytes, MPI_BYTE, status);
}

static int read_at(struct io *f, MPI_Status *status)
{
    return MPI_File_read_at(f->file, f->layout.at, f->memory, f->bytes, MPI_BYTE, status);
}

static int write_at_all(struct io *f, MPI_Status *status)
{
    return MPI_File_write_at_all(f->file, f->layout.at, f->memory, f->bytes, MPI_BYTE, status);
}

static int read_at_all(struct io *f, MPI_Status *status)
{
    return MPI_File_read_at_all(f->file, f->layout.at, f->memory, f->bytes, MPI_BYTE, status);
}

static const struct call calls[] = {
    {"write_all", write_all, 1},       {"read_all", read_all, 0},
    {"write_at", write_at, 1},         {"read_at", read_at, 0},
    {"write_at_all", write_at_all, 1}, {"read_at_all", read_at_all, 0},
};

static const struct call *find_call(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(name, calls[i].name))
            return &calls[i];
    bench_die("'%s' is no call that this program measures", name);
    return NULL;
}

/* One call, checked in little. */
static void one_call(struct io *f)
{
    MPI_Status status;
    long last = f->bytes - 8, end = f->layout.offset(&f->layout, f->layout.pieces - 1);
    f->done++;
    if (f->call->writes) {
        bench_stamp(f->memory, sizeof f->done, f->done);
    } else {
        memset(f->memory, 0, 8);
        memset(f->memory + last, 0, 8);
    }
    io_check_moved(f->call->run(f, &status), &status, f->bytes, f->call->name);
    if (!f->call->writes) {
        io_check_bytes(f->memory, f->layout.offset(&f->layout, 0), 8, MADE);
        io_check_bytes(f->memory + last, end + f->layout.length - 8, 8, MADE);
    }
}

/* ---- Files. */

static void open_file(struct io *f)
{
    int mode = f->call->writes ? MPI_MODE_RDWR : MPI_MODE_RDONLY;
    const struct layout *l = &f->layout;
    io_check(MPI_File_open(MPI_COMM_WORLD, f->path, mode, MPI_INFO_NULL, &f->file),
             "MPI_File_open");
    if (l->view != MPI_BYTE)
        io_check(MPI_File_set_view(f->file, l->start, MPI_BYTE, l->view, "native", MPI_INFO_NULL),
                 "MPI_File_set_view");
}

static void close_file(struct io *f)
{
    io_check(MPI_File_close(&f->file), "MPI_File_close");
    io_quiet_barrier();
}

static void reopen_cold(struct io *f)
{
    close_file(f);
    if (f->layout.rank == 0)
        io_drop_cache(f->path, f->layout.file_bytes);
    io_quiet_barrier();
    open_file(f);
}

/* n calls; from the disk n is 1. */
static double run(void *arg, long n)
{
    struct io *f = arg;
    if (f->disk && !f->call->writes)
        reopen_cold(f);
    MPI_Barrier(MPI_COMM_WORLD);
    /* The greatest of the ranks' are the first start, negative, and the last end. */
    double times[2] = {-now()};
    for (long i = 0; i < n; i++) {
        one_call(f);
        if (f->disk && f->call->writes)
            io_check(MPI_File_sync(f->file), "MPI_File_sync");
    }
    times[1] = now();
    MPI_Allreduce(MPI_IN_PLACE, times, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return times[0] + times[1];
}

/* ---- Figures. */

static void report(const struct io *f, const char *name, long bytes, double *seconds, int batches,
                   long n)
{
    char full[96], key[64];
    for (int b = 0; b < batches; b++)
        seconds[b] *= 1e3;
    snprintf(full, sizeof full, "io %s%s", name, f->disk ? " disk" : "");
    figure(full, bytes, f->layout.ranks, seconds, batches, "ms", n,
           io_file_system(f->path, key, sizeof key));
}

/* The floor, by rank 0 alone: all bytes of the file, which are `whole`, by one call. */
static void measure_floor(const struct io *f, char *whole, long bytes)
{
    double batch[BATCHES], spent = 0;
    int batches = 0;
    long all = f->layout.file_bytes;
    /* The first one warms up. */
    for (int b = -1; b < BATCHES && (b < 3 || spent < FLOOR_LIMIT); b++) {
        if (f->disk && !f->call->writes)
            io_drop_cache(f->path, all);
        int fd = io_open_plain(f->path, O_RDWR);
        double start = now();
        if (f->call->writes)
            io_write_plain(fd, whole, all);
        else
            io_read_plain(fd, whole, all, 0);
        if (f->disk && f->call->writes && fsync(fd))
            bench_die("fsync: %s", strerror(errno));
        start = now() - start;
        close(fd);
        spent += start;
        if (b >= 0)
            batch[batches++] = start;
    }
    io_check_bytes(whole, 0, all, MADE);
    report(f, f->call->writes ? "pwrite" : "pread", bytes, batch, batches, 1);
}

static void measure(struct io *f, const char *layout, long bytes)
{
    double batch[BATCHES];
    int batches;
    char name[64];
    f->layout = io_layout(layout, bytes);
    f->bytes = (int)io_bytes(&f->layout);
    f->memory = bench_alloc((size_t)f->bytes, 0);
    f->done = 0;
    if (f->call->writes)
        io_fill_pieces(&f->layout, f->memory, WRITTEN);
    if (f->layout.rank == 0) {
        char *whole = io_make(f->path, f->layout.file_bytes);
        if (!f->layout.gap)
            measure_floor(f, whole, bytes);
        free(whole);
    }
    io_quiet_barrier();
    open_file(f);
    /* A batch that cannot be so short has one call. */
    double seconds = f->disk ? 1e-9 : BATCH;
    long n = bench_measure_within(run, f, seconds, LIMIT, batch, &batches);
    close_file(f);
    if (f->call->writes)
        io_check_file(&f->layout, f->path, f->done);
    else
        io_check_pieces(&f->layout, f->memory, MADE);
    io_quiet_barrier(); /* no figure of data that another rank finds wrong */
    snprintf(name, sizeof name, "%s %s", layout, f->call->name);
    if (f->layout.rank == 0) {
        report(f, name, bytes, batch, batches, n);
        unlink(f->path);
    }
    io_layout_free(&f->layout);
    free(f->memory);
}

int main(int argc, char **argv)
{
    static struct io f;
    MPI_Init(&argc, &argv);
    io_path(&argc, argv, "io.data", f.path);
    f.disk = bench_option(&argc, argv, "--disk");
    if (argc < 4)
        bench_die("wants a layout, a call and sizes");
    f.call = find_call(argv[2]);
    for (int i = 3; i < argc; i++)
        measure(&f, argv[1], bench_bytes(argv[i]));
    MPI_Finalize();
    return 0;
}
