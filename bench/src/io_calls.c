/* Calls on files that are more than their bytes. Arguments: NAME --scratch DIR [SIZE...]
 *
 *   write_shared      "io write_shared": 100,000 calls of MPI_File_write_shared of 64 bytes, of all
 *                     ranks together: us of one call, from the first rank's start to the last
 *                     one's end after a barrier, over the number of calls. The file is there
 *                     before, and each time the shared pointer is set back to its begin. SIZE is
 *                     the number of calls (100000), the key `calls`.
 *   open_close        "io open and close": MPI_File_open of a file that is there, by all ranks, and
 *                     MPI_File_close: us of the two
 *   iwrite_all        "io iwrite_all hidden": SIZE bytes of all ranks (32M) in blocks of 4 KiB in
 *                     turn, by MPI_File_iwrite_all and MPI_Wait, with a computation between them
 *                     that takes as long as the write: percent of the write's time that vanishes
 *                     behind it, 100 * (1 - (total - compute) / write), with the times of overlap.c
 *                     (keys write_us, compute_us, total_us). A core has to be free, or nothing
 *                     can: the suite binds both ranks to one of two cores. Computations of ranks
 *                     on one core take turns, and their sum is as long as the write.
 *
 * Median of 15 batches, or of as many as take 2 s, at least 3. All bytes written are checked at the
 * end by POSIX calls: of write_shared that each record is there once, and those of a rank in the
 * order of its calls. A call that fails, or moves too few bytes, ends the job with MPI's reason.
 * The key `file_system` says where DIR lies. */
#include "io.h"
#include "overlap.h"

enum { RECORD = 64, WORDS = RECORD / 8 };
static const double BATCH = 0.02, LIMIT = 2; /* seconds: of a batch, of all */
static const double ONE_CALL = 1e-9;         /* seconds of a batch that is one operation */

static int rank, ranks;
static char path[PATH_ROOM], file_system[64];

static MPI_File open_file(void)
{
    MPI_File file;
    io_check(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL,
                           &file),
             "MPI_File_open");
    return file;
}

static void make_file(long bytes)
{
    if (rank == 0)
        free(io_make(path, bytes));
    io_quiet_barrier();
}

/* Seconds from the first rank's start to the last one's end. */
static double span(double start, double end)
{
    double times[2] = {-start, end};
    MPI_Allreduce(MPI_IN_PLACE, times, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return times[0] + times[1];
}

static void scale(double *values, int n, double factor)
{
    for (int i = 0; i < n; i++)
        values[i] *= factor;
}

/* ---- The shared file pointer. */

struct shared {
    MPI_File file;
    long calls; /* of this rank */
    long pass;
};

/* A record says who wrote it, in which pass, by which call; its other words depend on that. */
static void fill_record(uint64_t *record, long pass, int from, long call)
{
    record[0] = (uint64_t)pass;
    record[1] = (uint64_t)from;
    record[2] = (uint64_t)call;
    for (int w = 3; w < WORDS; w++)
        record[w] = io_word(8L * w, (unsigned)(call * ranks + from));
}

static double write_shared(void *arg, long n)
{
    struct shared *s = arg;
    double sum = 0;
    for (long i = 0; i < n; i++) {
        uint64_t record[WORDS];
        s->pass++;
        io_check(MPI_File_seek_shared(s->file, 0, MPI_SEEK_SET), "MPI_File_seek_shared");
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        for (long call = 0; call < s->calls; call++) {
            MPI_Status status;
            fill_record(record, s->pass, rank, call);
            io_check_moved(MPI_File_write_shared(s->file, record, RECORD, MPI_BYTE, &status),
                           &status, RECORD, "MPI_File_write_shared");
        }
        sum += span(start, now());
    }
    return sum;
}

static void check_records(const struct shared *s)
{
    long *next = calloc((size_t)ranks, sizeof *next), all = s->calls * ranks;
    char *whole = bench_alloc((size_t)all * RECORD, 0);
    int fd = io_open_plain(path, O_RDONLY);
    io_read_plain(fd, whole, all * RECORD, 0);
    for (long i = 0; i < all; i++) {
        uint64_t found[WORDS], expected[WORDS];
        memcpy(found, whole + i * RECORD, RECORD);
        if (found[0] != (uint64_t)s->pass || found[1] >= (uint64_t)ranks)
            bench_die("wrong data: record %ld is not of the last pass", i);
        int from = (int)found[1];
        fill_record(expected, s->pass, from, next[from]++);
        if (memcmp(found, expected, RECORD))
            bench_die("wrong data: record %ld is call %lld of rank %d, not its call %ld", i,
                      (long long)found[2], from, next[from] - 1);
    }
    close(fd);
    free(whole);
    free(next);
}

static void measure_shared(long calls)
{
    double batch[BATCHES];
    struct shared s = {.calls = calls / ranks};
    int batches;
    char more[96];
    if (s.calls * ranks != calls)
        bench_die("%ld calls are not as many of each of %d ranks", calls, ranks);
    make_file(calls * RECORD);
    s.file = open_file();
    bench_measure_within(write_shared, &s, ONE_CALL, LIMIT, batch, &batches);
    io_check(MPI_File_close(&s.file), "MPI_File_close");
    io_quiet_barrier();
    if (rank > 0)
        return;
    check_records(&s);
    scale(batch, batches, 1e6 / (double)calls);
    snprintf(more, sizeof more, ", \"calls\": %ld%s", calls, file_system);
    figure("io write_shared", RECORD, ranks, batch, batches, "us", calls, more);
}

/* ---- Open and close. */

static double open_and_close(void *arg, long n)
{
    const long *bytes = arg;
    double start = now();
    for (long i = 0; i < n; i++) {
        MPI_File file = open_file();
        if (i == 0) {
            MPI_Offset size;
            io_check(MPI_File_get_size(file, &size), "MPI_File_get_size");
            if (size != *bytes)
                bench_die("the file has %lld bytes, not %ld", (long long)size, *bytes);
        }
        io_check(MPI_File_close(&file), "MPI_File_close");
    }
    return span(start, now());
}

static void measure_open(void)
{
    double batch[BATCHES];
    int batches;
    long bytes = 4096;
    make_file(bytes);
    long n = bench_measure_within(open_and_close, &bytes, BATCH, LIMIT, batch, &batches);
    scale(batch, batches, 1e6);
    if (rank == 0)
        figure("io open and close", 0, ranks, batch, batches, "us", n, file_system);
}

/* ---- A write behind a computation. */

struct hidden {
    struct layout layout;
    MPI_File file;
    char *memory;
    int bytes;
    long done;
};

/* Microseconds of one of n writes with `units` of work in each. */
static double writes(struct hidden *h, long units, int n)
{
    static double starts[MOST], ends[MOST];
    for (int i = 0; i < n; i++) {
        MPI_Request request;
        MPI_Status status;
        bench_stamp(h->memory, sizeof h->done, ++h->done);
        MPI_Barrier(MPI_COMM_WORLD);
        starts[i] = now();
        io_check(MPI_File_seek(h->file, 0, MPI_SEEK_SET), "MPI_File_seek");
        io_check(MPI_File_iwrite_all(h->file, h->memory, h->bytes, MPI_BYTE, &request),
                 "MPI_File_iwrite_all");
        work(units);
        io_check_moved(MPI_Wait(&request, &status), &status, h->bytes, "MPI_Wait");
        ends[i] = now();
    }
    return together(starts, ends, n);
}

static void report_hidden(const struct hidden *h, double times[3][BATCHES], int batches, int n)
{
    double hidden[BATCHES];
    char more[192];
    for (int b = 0; b < batches; b++)
        hidden[b] = 100 * (1 - (times[2][b] - times[1][b]) / times[0][b]);
    snprintf(more, sizeof more,
             ", \"write_us\": %.6g, \"compute_us\": %.6g, \"total_us\": %.6g%s",
             median(times[0], batches), median(times[1], batches), median(times[2], batches),
             file_system);
    figure("io iwrite_all hidden", h->layout.file_bytes, ranks, hidden, batches, "%", n, more);
}

static void measure_hidden(long bytes)
{
    double times[3][BATCHES]; /* of the write, of the computation, of both together */
    struct hidden h = {.layout = io_layout("interleaved", bytes)};
    h.bytes = (int)io_bytes(&h.layout);
    h.memory = bench_alloc((size_t)h.bytes, 0);
    io_fill_pieces(&h.layout, h.memory, WRITTEN);
    make_file(bytes);
    h.file = open_file();
    io_check(MPI_File_set_view(h.file, h.layout.start, MPI_BYTE, h.layout.view, "native",
                               MPI_INFO_NULL),
             "MPI_File_set_view");
    writes(&h, 0, 3);
    for (int i = 0; i < 5; i++)
        times[0][i] = writes(&h, 0, 1);
    double once = median(times[0], 5), fit = BATCH * 1e6 / once, most = LIMIT * 1e6 / (4 * once);
    int n = fit < 1 ? 1 : fit > MOST ? MOST : (int)fit;
    int batches = most / n < 3 ? 3 : most / n > BATCHES ? BATCHES : (int)most / n;
    long units = calibrate(once, n);
    for (int b = 0; b < batches; b++) {
        times[0][b] = writes(&h, 0, n);
        times[1][b] = computations(units, n);
        times[2][b] = writes(&h, units, n);
    }
    io_check(MPI_File_close(&h.file), "MPI_File_close");
    io_quiet_barrier();
    io_check_file(&h.layout, path, h.done);
    io_quiet_barrier();
    if (rank == 0)
        report_hidden(&h, times, batches, n);
    io_layout_free(&h.layout);
    free(h.memory);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    io_path(&argc, argv, "io_calls.data", path);
    const char *name = argc > 1 ? argv[1] : "";
    long size = argc > 2 ? bench_bytes(argv[2]) : 0;
    make_file(8);
    io_file_system(path, file_system, sizeof file_system);
    if (!strcmp(name, "write_shared"))
        measure_shared(size ? size : 100000);
    else if (!strcmp(name, "open_close"))
        measure_open();
    else if (!strcmp(name, "iwrite_all"))
        measure_hidden(size ? size : 32L << 20);
    else
        bench_die("wants write_shared, open_close or iwrite_all, not '%s'", name);
    if (rank == 0)
        unlink(path);
    MPI_Finalize();
    return 0;
}
