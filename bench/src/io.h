/* Shared by the programs that use files (io.c, io_calls.c): the scratch folder, what a file holds,
 * which of its bytes are a rank's, the checks of calls and of data, the cache of the kernel, and a
 * wait that leaves the cores to others. Include it before other headers.
 *
 * A file's words say where they lie and which version of the data they are: a piece at a wrong
 * place, one that was not written, and one of an earlier version are all found. Files are made and
 * checked by POSIX calls, not by the library that is measured. */
#ifndef BENCH_IO_H
#define BENCH_IO_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mincore */
#endif
#include "compute.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    PATH_ROOM = 4096,
    CHUNK = 1 << 20,     /* bytes that a check reads at a time */
    NAP_NS = 200 * 1000, /* between two looks of a rank that waits quietly */
    ROWS = 128,          /* a block of a 3-D array has 128 x 128 pieces: 16,384 */
};

/* Versions of a file's data. */
enum { MADE = 1 /* by io_make */, WRITTEN /* by what is measured */ };

/* ---- The scratch folder. */

/* Takes `--scratch DIR` out of the arguments; the path of the file `name` in DIR. */
static inline void io_path(int *argc, char **argv, const char *name, char path[PATH_ROOM])
{
    for (int i = 1; i + 1 < *argc; i++)
        if (!strcmp(argv[i], "--scratch")) {
            snprintf(path, PATH_ROOM, "%s/%s", argv[i + 1], name);
            for (int j = i; j + 2 <= *argc; j++)
                argv[j] = argv[j + 2];
            *argc -= 2;
            return;
        }
    bench_die("wants --scratch DIR, a folder for its files");
}

/* The file system of a path, as the key `file_system` of a figure. */
static inline const char *io_file_system(const char *path, char *text, size_t room)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {{0xef53, "ext4"},      {0x58465342, "xfs"},     {0x9123683e, "btrfs"},
                 {0x01021994, "tmpfs"}, {0x794c7630, "overlay"}, {0x6969, "nfs"}};
    struct statfs s;
    if (statfs(path, &s))
        bench_die("statfs %s: %s", path, strerror(errno));
    unsigned long magic = (unsigned long)s.f_type & 0xffffffff;
    snprintf(text, room, ", \"file_system\": \"%#lx\"", magic);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].magic == magic)
            snprintf(text, room, ", \"file_system\": \"%s\"", known[i].name);
    return text;
}

/* ---- Calls of MPI: errors of files are returned, not raised. */

static inline void io_check(int error, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (error == MPI_SUCCESS)
        return;
    MPI_Error_string(error, text, &length);
    bench_die("%s: %s", call, text);
}

/* Also that all bytes were moved. */
static inline void io_check_moved(int error, MPI_Status *status, long bytes, const char *call)
{
    int moved;
    io_check(error, call);
    MPI_Get_count(status, MPI_BYTE, &moved);
    if (moved != bytes)
        bench_die("%s moved %d of %ld bytes", call, moved, bytes);
}

/* A barrier in which the ranks that wait sleep: rank 0 may measure meanwhile. */
static inline void io_quiet_barrier(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
}

/* ---- The same bytes by POSIX calls, for rank 0. */

static inline int io_open_plain(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    if (fd < 0)
        bench_die("open %s: %s", path, strerror(errno));
    return fd;
}

static inline void io_write_plain(int fd, const char *from, long bytes)
{
    for (long at = 0, n; at < bytes; at += n)
        if ((n = pwrite(fd, from + at, (size_t)(bytes - at), at)) <= 0)
            bench_die("pwrite at %ld: %s", at, strerror(errno));
}

static inline void io_read_plain(int fd, char *to, long bytes, long from)
{
    for (long at = 0, n; at < bytes; at += n)
        if ((n = pread(fd, to + at, (size_t)(bytes - at), from + at)) <= 0)
            bench_die("pread at %ld: %s", from + at, n ? strerror(errno) : "the file ends");
}

/* ---- What a file holds. */

static inline uint64_t io_word(long at, unsigned version)
{
    return ((uint64_t)at / 8 + (uint64_t)version * 1000003) * 0x9e3779b97f4a7c15u;
}

/* The bytes of a file from `at` on; both numbers are multiples of 8. */
static inline void io_fill(char *memory, long at, long bytes, unsigned version)
{
    for (long i = 0; i < bytes; i += 8) {
        uint64_t word = io_word(at + i, version);
        memcpy(memory + i, &word, 8);
    }
}

static inline void io_check_bytes(const char *memory, long at, long bytes, unsigned version)
{
    for (long i = 0; i < bytes; i += 8) {
        uint64_t word = io_word(at + i, version), found;
        memcpy(&found, memory + i, 8);
        if (found != word)
            bench_die("wrong data: at offset %ld is %#llx, not %#llx%s", at + i,
                      (unsigned long long)found, (unsigned long long)word,
                      found == io_word(at + i, MADE) ? ", the word before the write" : "");
    }
}

/* Makes the file, of `bytes` of data MADE, all of it in the page cache. Rank 0 alone; returns the
 * data. */
static inline char *io_make(const char *path, long bytes)
{
    char *whole = bench_alloc((size_t)bytes, 0);
    int fd = io_open_plain(path, O_RDWR | O_CREAT | O_TRUNC);
    io_fill(whole, 0, bytes, MADE);
    io_write_plain(fd, whole, bytes);
    close(fd);
    return whole;
}

/* Moves the file to the disk and out of the page cache. Rank 0 alone, while no rank has it open. */
static inline void io_drop_cache(const char *path, long bytes)
{
    size_t pages = ((size_t)bytes + 4095) / 4096, left = 0;
    unsigned char *resident = malloc(pages);
    int fd = io_open_plain(path, O_RDWR);
    if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
        bench_die("fsync and posix_fadvise: %s", strerror(errno));
    void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (!resident || map == MAP_FAILED || mincore(map, (size_t)bytes, resident))
        bench_die("cannot see which pages are in the cache: %s", strerror(errno));
    for (size_t i = 0; i < pages; i++)
        left += resident[i] & 1;
    if (left > pages / 100)
        bench_die("%zu of %zu pages stay in the page cache (tmpfs?): reads are not from a disk",
                  left, pages);
    munmap(map, (size_t)bytes);
    close(fd);
    free(resident);
}

/* ---- Which bytes of the file are this rank's: `pieces` of `length` bytes in the order of its
 * memory, each followed by `gap` bytes that no rank writes. */

struct layout {
    int rank, ranks;
    long pieces, length, gap, file_bytes;
    long (*offset)(const struct layout *l, long piece);
    MPI_Datatype view; /* MPI_BYTE: none is set */
    MPI_Offset start;  /* of the view */
    MPI_Offset at;     /* in the view */
    int grid[3], coordinates[3];
};

static inline long io_bytes(const struct layout *l)
{
    return l->pieces * l->length;
}

static inline long io_offset_interleaved(const struct layout *l, long piece)
{
    return (piece * l->ranks + l->rank) * l->length;
}

static inline long io_offset_apart(const struct layout *l, long piece)
{
    return (l->rank * l->pieces + piece) * (l->length + l->gap);
}

static inline long io_offset_subarray(const struct layout *l, long piece)
{
    long plane = l->coordinates[0] * ROWS + piece / ROWS;
    long row = l->coordinates[1] * ROWS + piece % ROWS;
    return ((plane * l->grid[1] * ROWS + row) * l->grid[2] + l->coordinates[2]) * l->length;
}

/* The file of `bytes` in blocks of 4 KiB, in turn of one rank after the other. */
static inline void io_interleaved(struct layout *l, long bytes)
{
    l->length = 4096;
    l->pieces = bytes / l->length / l->ranks;
    l->offset = io_offset_interleaved;
    l->file_bytes = bytes;
    l->start = l->rank * l->length;
    if (l->pieces * l->length * l->ranks != bytes)
        bench_die("%ld bytes are not blocks of 4 KiB for %d ranks", bytes, l->ranks);
    MPI_Type_vector((int)l->pieces, 4096, 4096 * l->ranks, MPI_BYTE, &l->view);
}

/* `bytes` of each rank, one after the other. */
static inline void io_contiguous(struct layout *l, long bytes)
{
    l->length = bytes;
    l->pieces = 1;
    l->offset = io_offset_apart;
    l->file_bytes = bytes * l->ranks;
    l->at = (MPI_Offset)bytes * l->rank;
    l->view = MPI_BYTE;
}

/* `bytes` of each rank, 64 of each 128 in a part of the file that is this rank's. */
static inline void io_strided(struct layout *l, long bytes)
{
    l->length = l->gap = 64;
    l->pieces = bytes / l->length;
    l->offset = io_offset_apart;
    l->file_bytes = 2 * bytes * l->ranks;
    l->start = (MPI_Offset)2 * bytes * l->rank;
    MPI_Type_vector((int)l->pieces, 64, 128, MPI_BYTE, &l->view);
}

/* A 3-D array, cut among a grid of ranks; `bytes` of each rank in 16,384 pieces. The dimension in
 * which elements follow each other is cut first. */
static inline void io_subarray(struct layout *l, long bytes)
{
    int whole[3], part[3], from[3], grid[3] = {0};
    l->pieces = (long)ROWS * ROWS;
    l->length = bytes / l->pieces;
    l->offset = io_offset_subarray;
    l->file_bytes = bytes * l->ranks;
    if (l->length * l->pieces != bytes || l->length % 8)
        bench_die("%ld bytes are not 16,384 pieces of a multiple of 8", bytes);
    MPI_Dims_create(l->ranks, 3, grid);
    for (int d = 0; d < 3; d++)
        l->grid[d] = grid[2 - d]; /* the greatest comes first */
    l->coordinates[2] = l->rank % l->grid[2];
    l->coordinates[1] = l->rank / l->grid[2] % l->grid[1];
    l->coordinates[0] = l->rank / l->grid[2] / l->grid[1];
    for (int d = 0; d < 3; d++) {
        part[d] = d < 2 ? ROWS : (int)l->length;
        whole[d] = part[d] * l->grid[d];
        from[d] = part[d] * l->coordinates[d];
    }
    MPI_Type_create_subarray(3, whole, part, from, MPI_ORDER_C, MPI_BYTE, &l->view);
}

static const struct {
    const char *name;
    void (*make)(struct layout *l, long bytes);
} io_layouts[] = {{"interleaved", io_interleaved},
                  {"contiguous", io_contiguous},
                  {"strided", io_strided},
                  {"subarray", io_subarray}};

/* The layout of this name for `bytes`, which are of the whole file if it is interleaved, else of
 * each rank. */
static inline struct layout io_layout(const char *name, long bytes)
{
    struct layout l = {0};
    MPI_Comm_rank(MPI_COMM_WORLD, &l.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &l.ranks);
    for (size_t i = 0; i < sizeof io_layouts / sizeof *io_layouts; i++)
        if (!strcmp(name, io_layouts[i].name)) {
            io_layouts[i].make(&l, bytes);
            if (l.view != MPI_BYTE)
                MPI_Type_commit(&l.view);
            return l;
        }
    bench_die("'%s' is no layout: interleaved, contiguous, strided, subarray", name);
    return l;
}

static inline void io_layout_free(struct layout *l)
{
    if (l->view != MPI_BYTE)
        MPI_Type_free(&l->view);
}

/* This rank's memory as its pieces of the file are. */
static inline void io_fill_pieces(const struct layout *l, char *memory, unsigned version)
{
    for (long p = 0; p < l->pieces; p++)
        io_fill(memory + p * l->length, l->offset(l, p), l->length, version);
}

static inline void io_check_pieces(const struct layout *l, const char *memory, unsigned version)
{
    for (long p = 0; p < l->pieces; p++)
        io_check_bytes(memory + p * l->length, l->offset(l, p), l->length, version);
}

/* Checks that this rank's pieces of the file are WRITTEN and begin with the number of the last
 * write, that the gaps are as they were, and the file's length. */
static inline void io_check_file(const struct layout *l, const char *path, long number)
{
    static char chunk[CHUNK];
    struct stat s;
    int fd = io_open_plain(path, O_RDONLY);
    if (fstat(fd, &s) || s.st_size != l->file_bytes)
        bench_die("the file has %lld bytes, not %ld", (long long)s.st_size, l->file_bytes);
    for (long p = 0; p < l->pieces; p++)
        for (long done = 0, n; done < l->length; done += n) {
            long at = l->offset(l, p) + done;
            n = l->length - done < CHUNK - l->gap ? l->length - done : CHUNK - l->gap;
            io_read_plain(fd, chunk, n + l->gap, at);
            if (p == 0 && done == 0) {
                bench_check(chunk, sizeof number, number);
                io_fill(chunk, at, sizeof number, WRITTEN);
            }
            io_check_bytes(chunk, at, n, WRITTEN);
            io_check_bytes(chunk + n, at + n, l->gap, MADE);
        }
    close(fd);
}

#endif
