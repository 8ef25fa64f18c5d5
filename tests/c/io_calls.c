/* Every function of MPI 5.0, chapter 14, and its form for large counts, with the simplest arguments
 * that are right, and a check of its result. The list is that of the names MPI_File_* and
 * MPI_Register_datarep* in the standard's ABI; the handle conversions and error handlers of files
 * are among them. */
#include "io.h"

enum { N = 6 };

/* Whether the calls with a count are those with MPI_Count. */
static int large;

#define CALL(f, ...)                                                                              \
    (large ? io_ok(__FILE__, __LINE__, f##_c(__VA_ARGS__), #f "_c")                               \
           : io_ok(__FILE__, __LINE__, f(__VA_ARGS__), #f))

typedef enum {
    AT,
    AT_ALL,
    IAT,
    IAT_ALL,
    SPLIT_AT_ALL,
    INDIVIDUAL,
    ALL,
    INDIVIDUAL_I,
    IALL,
    SPLIT_ALL,
    SHARED,
    ISHARED,
    ORDERED,
    SPLIT_ORDERED,
    WAYS
} Way;

static const char *const ways[WAYS] = {
    "at",  "at_all", "i..at",   "i..at_all", "at_all_begin", "individual", "all", "i.. individual",
    "i..all", "all_begin", "shared", "i..shared", "ordered", "ordered_begin"};

static int value(Way way, int rank, int i)
{
    return (int)way * 10000 + rank * 100 + i + large * 1000000;
}

/* Where the ways' records begin, in ints. */
static MPI_Offset place(Way way, int rank)
{
    return ((MPI_Offset)way * test_size + rank) * N;
}

/* Puts the pointer that the way moves to its place. */
static void aim(MPI_File f, Way way)
{
    if (way >= INDIVIDUAL && way <= SPLIT_ALL)
        OK(MPI_File_seek(f, place(way, test_rank), MPI_SEEK_SET));
    else if (way >= SHARED)
        OK(MPI_File_seek_shared(f, place(way, 0), MPI_SEEK_SET));
}

static void check_pointer(MPI_File f, Way way)
{
    MPI_Offset at = -1;
    if (way >= INDIVIDUAL && way <= SPLIT_ALL) {
        OK(MPI_File_get_position(f, &at));
        CHECK(at == place(way, test_rank + 1), "%s%s leaves the pointer at %lld, expected %lld",
              ways[way], large ? "_c" : "", (long long)at, (long long)place(way, test_rank + 1));
    } else if (way >= SHARED) {
        io_barrier(); /* the pointer has passed all records when all ranks are here */
        OK(MPI_File_get_position_shared(f, &at));
        CHECK(at == place(way + 1, 0), "%s%s leaves the shared pointer at %lld, expected %lld",
              ways[way], large ? "_c" : "", (long long)at, (long long)place(way + 1, 0));
        io_barrier(); /* before the next way moves it */
    }
}

static void put(MPI_File f, Way way, const int *b, MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Offset at = place(way, test_rank);
    if (way == AT)
        CALL(MPI_File_write_at, f, at, b, N, MPI_INT, s);
    else if (way == AT_ALL)
        CALL(MPI_File_write_at_all, f, at, b, N, MPI_INT, s);
    else if (way == IAT)
        CALL(MPI_File_iwrite_at, f, at, b, N, MPI_INT, &r);
    else if (way == IAT_ALL)
        CALL(MPI_File_iwrite_at_all, f, at, b, N, MPI_INT, &r);
    else if (way == SPLIT_AT_ALL)
        CALL(MPI_File_write_at_all_begin, f, at, b, N, MPI_INT);
    else if (way == INDIVIDUAL)
        CALL(MPI_File_write, f, b, N, MPI_INT, s);
    else if (way == ALL)
        CALL(MPI_File_write_all, f, b, N, MPI_INT, s);
    else if (way == INDIVIDUAL_I)
        CALL(MPI_File_iwrite, f, b, N, MPI_INT, &r);
    else if (way == IALL)
        CALL(MPI_File_iwrite_all, f, b, N, MPI_INT, &r);
    else if (way == SPLIT_ALL)
        CALL(MPI_File_write_all_begin, f, b, N, MPI_INT);
    else if (way == SHARED)
        CALL(MPI_File_write_shared, f, b, N, MPI_INT, s);
    else if (way == ISHARED)
        CALL(MPI_File_iwrite_shared, f, b, N, MPI_INT, &r);
    else if (way == ORDERED)
        CALL(MPI_File_write_ordered, f, b, N, MPI_INT, s);
    else
        CALL(MPI_File_write_ordered_begin, f, b, N, MPI_INT);
    if (r != MPI_REQUEST_NULL)
        OK(MPI_Wait(&r, s));
    if (way == SPLIT_AT_ALL)
        OK(MPI_File_write_at_all_end(f, b, s));
    else if (way == SPLIT_ALL)
        OK(MPI_File_write_all_end(f, b, s));
    else if (way == SPLIT_ORDERED)
        OK(MPI_File_write_ordered_end(f, b, s));
}

static void get(MPI_File f, Way way, int *b, MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Offset at = place(way, test_rank);
    if (way == AT)
        CALL(MPI_File_read_at, f, at, b, N, MPI_INT, s);
    else if (way == AT_ALL)
        CALL(MPI_File_read_at_all, f, at, b, N, MPI_INT, s);
    else if (way == IAT)
        CALL(MPI_File_iread_at, f, at, b, N, MPI_INT, &r);
    else if (way == IAT_ALL)
        CALL(MPI_File_iread_at_all, f, at, b, N, MPI_INT, &r);
    else if (way == SPLIT_AT_ALL)
        CALL(MPI_File_read_at_all_begin, f, at, b, N, MPI_INT);
    else if (way == INDIVIDUAL)
        CALL(MPI_File_read, f, b, N, MPI_INT, s);
    else if (way == ALL)
        CALL(MPI_File_read_all, f, b, N, MPI_INT, s);
    else if (way == INDIVIDUAL_I)
        CALL(MPI_File_iread, f, b, N, MPI_INT, &r);
    else if (way == IALL)
        CALL(MPI_File_iread_all, f, b, N, MPI_INT, &r);
    else if (way == SPLIT_ALL)
        CALL(MPI_File_read_all_begin, f, b, N, MPI_INT);
    else if (way == SHARED)
        CALL(MPI_File_read_shared, f, b, N, MPI_INT, s);
    else if (way == ISHARED)
        CALL(MPI_File_iread_shared, f, b, N, MPI_INT, &r);
    else if (way == ORDERED)
        CALL(MPI_File_read_ordered, f, b, N, MPI_INT, s);
    else
        CALL(MPI_File_read_ordered_begin, f, b, N, MPI_INT);
    if (r != MPI_REQUEST_NULL)
        OK(MPI_Wait(&r, s));
    if (way == SPLIT_AT_ALL)
        OK(MPI_File_read_at_all_end(f, b, s));
    else if (way == SPLIT_ALL)
        OK(MPI_File_read_all_end(f, b, s));
    else if (way == SPLIT_ORDERED)
        OK(MPI_File_read_ordered_end(f, b, s));
}

/* The rank whose record these ints are, -1 if they are of none. */
static int owner(Way way, const int *b)
{
    for (int rank = 0; rank < test_size; rank++) {
        int i = 0;
        while (i < N && b[i] == value(way, rank, i))
            i++;
        if (i == N)
            return rank;
    }
    return -1;
}

/* Each rank's record is once where the way puts it: among the others at any place if they race for
 * the shared pointer, else in the order of ranks. */
static void check_records(Way way)
{
    int *b = test_alloc((size_t)(test_size * N) * sizeof *b);
    size_t bytes = (size_t)(test_size * N) * sizeof *b;
    char *seen = test_alloc((size_t)test_size);
    memset(seen, 0, (size_t)test_size);
    memset(b, 0xff, bytes);
    CHECK(io_bytes(place(way, 0) * (MPI_Offset)sizeof(int), b, bytes) == bytes,
          "the file ends before the records of %s", ways[way]);
    for (int i = 0; i < test_size; i++) {
        int rank = owner(way, b + i * N), racing = way == SHARED || way == ISHARED;
        CHECK(rank >= 0 && !seen[rank] && (racing || rank == i),
              "%s%s: record %d in the file is that of rank %d (-1: of none)%s", ways[way],
              large ? "_c" : "", i, rank, rank >= 0 && seen[rank] ? ", once more" : "");
        if (rank >= 0)
            seen[rank] = 1;
    }
    free(seen);
    free(b);
}

static void data_access(void)
{
    MPI_File f = io_create();
    MPI_Status s;
    int b[N];
    OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int way = 0; way < WAYS; way++) {
        for (int i = 0; i < N; i++)
            b[i] = value(way, test_rank, i);
        aim(f, way);
        put(f, way, b, &s);
        IO_COUNT(&s, MPI_INT, N, ways[way]);
        check_pointer(f, way);
    }
    io_visible(f);
    for (int way = 0; way < WAYS; way++)
        check_records(way);
    for (int way = 0; way < WAYS; way++) {
        int rank, racing = way == SHARED || way == ISHARED, all = 0;
        memset(b, 0xff, sizeof b);
        aim(f, way);
        get(f, way, b, &s);
        IO_COUNT(&s, MPI_INT, N, ways[way]);
        check_pointer(f, way);
        rank = owner(way, b);
        CHECK(rank >= 0 && (racing || rank == test_rank),
              "%s%s reads the record of rank %d (-1: of none)", ways[way], large ? "_c" : "", rank);
        if (racing) { /* each record has one reader */
            MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK_INT(all, test_size * (test_size - 1) / 2, "the sum of the owners");
        }
    }
    io_close(&f);
}

static void size_and_views(void)
{
    MPI_File f = io_create();
    MPI_Offset n = -1;
    MPI_Datatype pairs, etype, filetype;
    MPI_Aint extent = -1;
    MPI_Count extent_c = -1;
    char datarep[MPI_MAX_DATAREP_STRING + 1] = "";
    OK(MPI_File_set_size(f, 1000));
    OK(MPI_File_get_size(f, &n));
    CHECK_INT(n, 1000, "the size after MPI_File_set_size");
    CHECK_INT(io_length(), 1000, "the length of the file");
    io_barrier();
    OK(MPI_File_preallocate(f, 4000));
    OK(MPI_File_get_size(f, &n));
    CHECK_INT(n, 4000, "the size after MPI_File_preallocate");
    MPI_Type_vector(5, 1, 2, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    OK(MPI_File_set_view(f, 16, MPI_INT, pairs, "native", MPI_INFO_NULL));
    OK(MPI_File_get_view(f, &n, &etype, &filetype, datarep));
    CHECK_INT(n, 16, "the displacement");
    CHECK(etype == MPI_INT, "the elementary type is not MPI_INT");
    CHECK(filetype != MPI_DATATYPE_NULL, "there is no file type");
    CHECK(!strcmp(datarep, "native"), "the data representation is %s", datarep);
    OK(MPI_File_get_byte_offset(f, 3, &n));
    CHECK_INT(n, 16 + 3 * 8, "the byte offset of the fourth int of every second one");
    OK(MPI_File_get_type_extent(f, pairs, &extent));
    CHECK_INT(extent, 9 * (int)sizeof(int), "the extent in the file");
    OK(MPI_File_get_type_extent_c(f, pairs, &extent_c));
    CHECK_INT(extent_c, extent, "the extent in the file by MPI_File_get_type_extent_c");
    MPI_Type_free(&filetype);
    MPI_Type_free(&pairs);
    io_close(&f);
}

static void attributes(void)
{
    MPI_File f = io_create(), same;
    MPI_Group world, group;
    MPI_Info info;
    int n = -1, amode = 0;
    OK(MPI_File_get_amode(f, &amode));
    CHECK_INT(amode, MPI_MODE_CREATE | MPI_MODE_RDWR, "the access mode");
    OK(MPI_File_get_group(f, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(world, group, &n);
    CHECK_INT(n, MPI_IDENT, "the file's group compared with the world's");
    MPI_Group_free(&world);
    MPI_Group_free(&group);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "1");
    OK(MPI_File_set_info(f, info));
    MPI_Info_free(&info);
    OK(MPI_File_get_info(f, &info));
    CHECK(info != MPI_INFO_NULL, "MPI_File_get_info gives no info");
    MPI_Info_free(&info);
    OK(MPI_File_get_atomicity(f, &n));
    CHECK_INT(n, 0, "the atomicity at first");
    OK(MPI_File_set_atomicity(f, 1));
    OK(MPI_File_get_atomicity(f, &n));
    CHECK(n != 0, "the atomicity after it was set is %d", n);
    same = MPI_File_fromint(MPI_File_toint(f));
    CHECK(same == f, "the handle is another one after MPI_File_toint and MPI_File_fromint");
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL,
          "MPI_FILE_NULL does not stay itself");
    io_close(&f);
}

static int calls;
static MPI_File seen_file;

static void note(MPI_File *f, int *code, ...)
{
    calls += *code == MPI_ERR_FILE;
    seen_file = *f;
}

static void error_handlers(void)
{
    MPI_File f = io_create();
    MPI_Errhandler h, got;
    OK(MPI_File_get_errhandler(f, &got));
    CHECK(got == MPI_ERRORS_RETURN, "a file's first error handler is not MPI_ERRORS_RETURN");
    MPI_Errhandler_free(&got);
    OK(MPI_File_create_errhandler(note, &h));
    OK(MPI_File_set_errhandler(f, h));
    OK(MPI_File_get_errhandler(f, &got));
    CHECK(got == h, "MPI_File_get_errhandler gives another handler");
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&h);
    MPI_File_call_errhandler(f, MPI_ERR_FILE);
    CHECK_INT(calls, 1, "calls of the handler");
    CHECK(seen_file == f, "the handler saw another file");
    io_close(&f);
}

static int same_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    MPI_Aint low;
    (void)state;
    return MPI_Type_get_extent(type, &low, extent);
}

/* A data representation without conversions stores what is in memory. */
static void data_representations(void)
{
    const char *const names[2] = {"mica io_calls", "mica io_calls c"};
    int b[2] = {1, 2}, got[2] = {0, 0};
    OK(MPI_Register_datarep(names[0], MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, same_extent,
                            NULL));
    OK(MPI_Register_datarep_c(names[1], MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C,
                              same_extent, NULL));
    for (int i = 0; i < 2 && io_strict; i++) { /* MPICH 5.0.2 refuses them in MPI_File_set_view */
        MPI_File f = io_create();
        MPI_Offset n;
        MPI_Datatype etype, filetype;
        char datarep[MPI_MAX_DATAREP_STRING + 1] = "";
        OK(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, names[i], MPI_INFO_NULL));
        OK(MPI_File_get_view(f, &n, &etype, &filetype, datarep));
        CHECK(!strcmp(datarep, names[i]), "the data representation is %s", datarep);
        OK(MPI_File_write_at(f, 2 * test_rank, b, 2, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(f, 2 * test_rank, got, 2, MPI_INT, MPI_STATUS_IGNORE));
        CHECK(!memcmp(b, got, sizeof b), "%d %d were written, %d %d read", b[0], b[1], got[0],
              got[1]);
        CHECK(io_bytes(2 * test_rank * (int)sizeof(int), got, sizeof got) == sizeof got &&
                  !memcmp(b, got, sizeof b),
              "the bytes in the file are not those in memory");
        io_close(&f);
    }
}

static void files(void)
{
    MPI_File f = io_create();
    io_close(&f);
    OK(MPI_File_open(MPI_COMM_SELF, io_name, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
    OK(MPI_File_close(&f));
    CHECK(f == MPI_FILE_NULL, "the handle after MPI_File_close is not MPI_FILE_NULL");
    io_barrier();
    if (test_rank == 0) {
        OK(MPI_File_delete(io_name, MPI_INFO_NULL));
        CHECK(io_length() < 0, "the file is there after MPI_File_delete");
    }
    io_barrier();
}

int main(int argc, char **argv)
{
    io_begin(&argc, &argv);
    for (large = 0; large < 2; large++)
        data_access();
    size_and_views();
    attributes();
    error_handlers();
    data_representations();
    files();
    return io_finish();
}
