/* Shared by the programs of MPI-IO (MPI 5.0, chapter 14): a folder for the program's files, checks
 * of return codes, and a look at a file's bytes past the library.
 *
 * io_begin() makes the folder below $TMPDIR or /tmp; rank 0 names it and broadcasts the name. Every
 * file of the program lies in it, so that io_end() sees what the library left beside them (files of
 * a shared file pointer, of locks, of a test of the file system).
 *
 * Every program takes the arguments "strict" (also check what MPICH 5.0.2 does otherwise than the
 * standard says) and "key=value,key=value" (hints for the files of io_open()). */
#ifndef IO_H
#define IO_H

#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char io_folder[512];
static char io_name[600]; /* of the file that most programs use */
static int io_strict;     /* also checks what peers do otherwise than the standard says */
static MPI_Info io_hints = MPI_INFO_NULL;

/* Files return errors by default, so each call is checked. */
#define OK(call) io_ok(__FILE__, __LINE__, (call), #call)

static TEST_UNUSED int io_ok(const char *file, int line, int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int len = 0;
    if (code == MPI_SUCCESS)
        return 1;
    MPI_Error_string(code, text, &len);
    test_fail(file, line, call, "error class %d: %s", test_class_of(code), text);
    return 0;
}

static TEST_UNUSED void io_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Hints for io_open() from an argument "key=value,key=value": they force ways of access. */
static TEST_UNUSED void io_take_hints(const char *list)
{
    char copy[512], *key, *rest = copy;
    snprintf(copy, sizeof copy, "%s", list);
    MPI_Info_create(&io_hints);
    while ((key = strsep(&rest, ",")) != NULL) {
        char *value = strchr(key, '=');
        if (value) {
            *value = 0;
            MPI_Info_set(io_hints, key, value + 1);
        }
    }
}

/* The path of another file in the folder. */
static TEST_UNUSED const char *io_path(const char *name)
{
    static char paths[4][800];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", io_folder, name);
    return path;
}

static TEST_UNUSED void io_begin(int *argc, char ***argv)
{
    test_init(argc, argv);
    for (int i = 1; i < *argc; i++) {
        io_strict |= !strcmp((*argv)[i], "strict");
        if (strchr((*argv)[i], '=') && io_hints == MPI_INFO_NULL)
            io_take_hints((*argv)[i]);
    }
    if (test_rank == 0) {
        const char *base = getenv("TMPDIR");
        snprintf(io_folder, sizeof io_folder, "%s/mica-io-XXXXXX", base && *base ? base : "/tmp");
        if (mkdtemp(io_folder) == NULL) {
            fprintf(stderr, "cannot make %s: %s\n", io_folder, strerror(errno));
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Bcast(io_folder, sizeof io_folder, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(io_name, sizeof io_name, "%s/data", io_folder);
}

/* Opens the program's file on all ranks. */
static TEST_UNUSED MPI_File io_open(int amode)
{
    MPI_File f = MPI_FILE_NULL;
    if (!OK(MPI_File_open(MPI_COMM_WORLD, io_name, amode, io_hints, &f))) {
        fflush(stderr);
        MPI_Abort(MPI_COMM_WORLD, 1); /* nothing else would say more */
    }
    return f;
}

/* An empty file, open for reading and writing. */
static TEST_UNUSED MPI_File io_create(void)
{
    io_barrier();
    if (test_rank == 0)
        unlink(io_name);
    io_barrier();
    return io_open(MPI_MODE_CREATE | MPI_MODE_RDWR);
}

static TEST_UNUSED void io_close(MPI_File *f)
{
    OK(MPI_File_close(f));
    CHECK(*f == MPI_FILE_NULL, "the handle is not MPI_FILE_NULL after MPI_File_close");
}

/* Makes what all ranks have written visible to all ranks: the sync-barrier-sync of MPI 5.0,
 * 14.6.11. */
static TEST_UNUSED void io_visible(MPI_File f)
{
    OK(MPI_File_sync(f));
    io_barrier();
    OK(MPI_File_sync(f));
}

/* The length of a file, -1 if there is none. */
static TEST_UNUSED long long io_length_of(const char *path)
{
    struct stat s;
    return stat(path, &s) ? -1 : (long long)s.st_size;
}

static TEST_UNUSED long long io_length(void)
{
    return io_length_of(io_name);
}

/* Bytes of the file past the library; returns how many there are. */
static TEST_UNUSED size_t io_bytes(long long at, void *buf, size_t n)
{
    int fd = open(io_name, O_RDONLY);
    size_t got = 0;
    while (fd >= 0 && got < n) {
        ssize_t k = pread(fd, (char *)buf + got, n - got, (off_t)(at + (long long)got));
        if (k <= 0)
            break;
        got += (size_t)k;
    }
    if (fd >= 0)
        close(fd);
    return got;
}

/* Rank 0 makes a file with these bytes, past the library; no rank may have it open. */
static TEST_UNUSED void io_make(const char *path, const void *bytes, size_t n)
{
    io_barrier();
    if (test_rank == 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        ssize_t written = fd < 0 ? -1 : write(fd, bytes, n);
        CHECK(written == (ssize_t)n, "cannot write %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    io_barrier();
}

/* Checks how many elements of `type` the operation moved, and that nothing was cancelled. */
#define IO_COUNT(status, type, expected, what)                                                    \
    io_count(__FILE__, __LINE__, status, type, expected, what)

static TEST_UNUSED void io_count(const char *file, int line, const MPI_Status *s,
                                 MPI_Datatype type, long long expected, const char *what)
{
    MPI_Count n = -1;
    int cancelled = 1;
    MPI_Get_count_c(s, type, &n);
    MPI_Test_cancelled(s, &cancelled);
    cancelled &= io_strict; /* MPICH 5.0.2 leaves the mark as it was before some calls */
    if (n != expected || cancelled)
        test_fail(file, line, what, "the status counts %lld elements, expected %lld%s",
                  (long long)n, expected, cancelled ? ", and is cancelled" : "");
}

/* Deletes the program's file, if the program has not, looks for what else is in the folder, and
 * takes that away. */
static TEST_UNUSED void io_end(void)
{
    io_barrier();
    if (test_rank == 0) {
        struct dirent *entry;
        DIR *folder;
        if (io_length() >= 0)
            OK(MPI_File_delete(io_name, MPI_INFO_NULL));
        folder = opendir(io_folder);
        CHECK(folder != NULL, "cannot read %s: %s", io_folder, strerror(errno));
        while (folder && (entry = readdir(folder)) != NULL)
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
                CHECK(0, "%s was left in the folder", entry->d_name);
                unlink(io_path(entry->d_name));
            }
        if (folder)
            closedir(folder);
        CHECK(rmdir(io_folder) == 0, "cannot remove %s: %s", io_folder, strerror(errno));
    }
    io_barrier();
}

/* The end of every program. */
static TEST_UNUSED int io_finish(void)
{
    io_end();
    if (io_hints != MPI_INFO_NULL)
        MPI_Info_free(&io_hints);
    return test_finish();
}

#endif
