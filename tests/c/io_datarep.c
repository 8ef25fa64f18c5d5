/* Data representations of users (MPI 5.0, 14.5.3): conversion functions in both directions are
 * called with the right arguments, on every kind of access and in portions; the extent function
 * decides where things lie in the file; MPI_CONVERSION_FN_NULL; names that are taken or unknown;
 * errors that a function returns.
 *
 * Without "strict" only what MPICH 5.0.2 can: it knows no representations of users. */
#include "io.h"

/* In the file an int takes six bytes: a mark, its size, its bytes complemented; a double ten. */
enum { INT_BYTES = 6, DOUBLE_BYTES = 10, MARK = 0xe7 };

typedef struct {
    long calls, items, wrong;
    MPI_Datatype type;  /* what the program has passed to the call */
    size_t (*place)(long item); /* of the item in memory */
    int (*is_double)(long item);
    int fail;
} Memory;

static Memory memory;
static long extent_calls; /* of all views: a library may keep what it was told */

static void expect_memory(MPI_Datatype type, size_t (*place)(long), int (*is_double)(long))
{
    memset(&memory, 0, sizeof memory);
    memory.type = type;
    memory.place = place;
    memory.is_double = is_double;
}

/* A type that is equivalent to the one of the call: its size and bounds are those. */
static int is_equivalent(MPI_Datatype type)
{
    MPI_Count size[2], low[2], extent[2];
    MPI_Datatype both[2] = {type, memory.type};
    for (int i = 0; i < 2; i++) {
        if (MPI_Type_size_c(both[i], &size[i]) != MPI_SUCCESS)
            return 0;
        MPI_Type_get_extent_c(both[i], &low[i], &extent[i]);
    }
    return size[0] == size[1] && low[0] == low[1] && extent[0] == extent[1];
}

/* Items `position` to `position + count - 1` of the tiled type, from or to the dense `filebuf`. */
static int convert(char *user, MPI_Datatype type, MPI_Count count, unsigned char *file,
                   MPI_Offset position, void *state, int reads)
{
    if (state != &memory || !is_equivalent(type) || count < 0 || position != memory.items)
        memory.wrong++;
    memory.calls++;
    memory.items += count;
    for (MPI_Count i = 0; i < count; i++) {
        long item = (long)(position + i);
        size_t n = memory.is_double(item) ? 8 : 4;
        char *at = user + memory.place(item);
        if (reads && file[0] != MARK)
            memory.wrong++;
        file[0] = MARK;
        file[1] = (unsigned char)n;
        for (size_t b = 0; b < n; b++)
            if (reads)
                at[b] = (char)~file[2 + b];
            else
                file[2 + b] = (unsigned char)~at[b];
        file += n + 2;
    }
    return memory.fail ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int reading(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                   void *state)
{
    return convert(user, type, count, file, position, state, 1);
}

static int writing(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                   void *state)
{
    return convert(user, type, count, file, position, state, 0);
}

static int reading_c(void *user, MPI_Datatype type, MPI_Count count, void *file,
                     MPI_Offset position, void *state)
{
    return convert(user, type, count, file, position, state, 1);
}

static int writing_c(void *user, MPI_Datatype type, MPI_Count count, void *file,
                     MPI_Offset position, void *state)
{
    return convert(user, type, count, file, position, state, 0);
}

/* It is called for predefined types alone. */
static int extent_in_file(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    int ints, addresses, types, combiner = -1;
    MPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED || state != &memory)
        memory.wrong++;
    extent_calls++;
    *extent = type == MPI_INT ? INT_BYTES : type == MPI_DOUBLE ? DOUBLE_BYTES : 1;
    return MPI_SUCCESS;
}

static size_t dense(long item)
{
    return 4 * (size_t)item;
}

static size_t gaps(long item)
{
    return 12 * (size_t)item;
}

static int only_ints(long item)
{
    (void)item;
    return 0;
}

static void set_view(MPI_File f, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                     const char *datarep)
{
    OK(MPI_File_set_view(f, disp, etype, filetype, datarep, MPI_INFO_NULL));
}

/* All items went through the functions, in order, each once. */
static void expect_items(long n, const char *what)
{
    CHECK(memory.items == n, "%s: %ld items were converted, expected %ld", what, memory.items, n);
    CHECK(memory.wrong == 0, "%s: %ld wrong arguments", what, memory.wrong);
    CHECK(memory.calls > 0 || n == 0, "%s: no call", what);
    memory.items = memory.calls = 0;
}

/* Ints of the file, without the library. */
static void check_raw(long long at, int first, int n, const char *what)
{
    unsigned char *b = test_alloc((size_t)n * INT_BYTES);
    memset(b, 0, (size_t)n * INT_BYTES);
    io_bytes(at, b, (size_t)n * INT_BYTES);
    for (int i = 0; i < n; i++) {
        int x = 0;
        memcpy(&x, b + i * INT_BYTES + 2, 4);
        if (b[i * INT_BYTES] != MARK || ~x != first + i) {
            CHECK(0, "%s: int %d in the file is %d, expected %d, its mark is 0x%x", what, i, ~x,
                  first + i, b[i * INT_BYTES]);
            break;
        }
    }
    free(b);
}

/* Every kind of access, with much more data than a library may convert at a time. */
static void accesses(const char *datarep, int count)
{
    enum { WAYS = 7 };
    static const char *const ways[WAYS] = {"at",     "all",     "individual", "iat_all",
                                           "i..at", "ordered", "split"};
    MPI_File f = io_create();
    int *b = test_alloc((size_t)count * sizeof *b);
    MPI_Status s;
    MPI_Request r;
    expect_memory(MPI_INT, dense, only_ints);
    set_view(f, 3, MPI_INT, MPI_INT, datarep);
    for (int way = 0; way < WAYS; way++) {
        MPI_Offset first = ((MPI_Offset)way * test_size + test_rank) * count;
        for (int reads = 0; reads < 2; reads++) {
            for (int i = 0; i < count; i++)
                b[i] = reads ? 0 : (int)first + i;
            if (way == 0)
                OK(reads ? MPI_File_read_at(f, first, b, count, MPI_INT, &s)
                         : MPI_File_write_at(f, first, b, count, MPI_INT, &s));
            OK(MPI_File_seek(f, first, MPI_SEEK_SET));
            OK(MPI_File_seek_shared(f, (MPI_Offset)way * test_size * count, MPI_SEEK_SET));
            if (way == 1)
                OK(reads ? MPI_File_read_all(f, b, count, MPI_INT, &s)
                         : MPI_File_write_all(f, b, count, MPI_INT, &s));
            if (way == 2)
                OK(reads ? MPI_File_read(f, b, count, MPI_INT, &s)
                         : MPI_File_write(f, b, count, MPI_INT, &s));
            if (way == 3)
                OK(reads ? MPI_File_iread_at_all(f, first, b, count, MPI_INT, &r)
                         : MPI_File_iwrite_at_all(f, first, b, count, MPI_INT, &r));
            if (way == 4)
                OK(reads ? MPI_File_iread_at(f, first, b, count, MPI_INT, &r)
                         : MPI_File_iwrite_at(f, first, b, count, MPI_INT, &r));
            if (way == 3 || way == 4)
                OK(MPI_Wait(&r, &s));
            if (way == 5)
                OK(reads ? MPI_File_read_ordered(f, b, count, MPI_INT, &s)
                         : MPI_File_write_ordered(f, b, count, MPI_INT, &s));
            if (way == 6) {
                OK(reads ? MPI_File_read_all_begin(f, b, count, MPI_INT)
                         : MPI_File_write_all_begin(f, b, count, MPI_INT));
                OK(reads ? MPI_File_read_all_end(f, b, &s) : MPI_File_write_all_end(f, b, &s));
            }
            expect_items(count, ways[way]);
            IO_COUNT(&s, MPI_INT, count, ways[way]);
            io_visible(f);
            check_raw(3 + first * INT_BYTES, (int)first, count, ways[way]);
        }
        for (int i = 0; i < count; i++)
            if (b[i] != (int)first + i) {
                CHECK(0, "%s: int %d is read as %d", ways[way], i, b[i]);
                break;
            }
    }
    CHECK_INT(io_length(), 3 + (long long)WAYS * test_size * count * INT_BYTES, "the length");
    io_close(&f);
    free(b);
}

/* A file type with holes, which the extent function scales, and memory with gaps. */
static void holes_and_gaps(const char *datarep)
{
    enum { COUNT = 40 };
    MPI_File f = io_create();
    MPI_Datatype every_second, sparse;
    MPI_Status s;
    MPI_Offset at = -1;
    MPI_Aint extent = -1;
    int b[3 * COUNT];
    MPI_Type_vector(2, 1, 2, MPI_INT, &every_second); /* portable: three ints of the file long */
    MPI_Type_commit(&every_second);
    MPI_Type_create_resized(MPI_INT, 0, 12, &sparse);
    MPI_Type_commit(&sparse);
    expect_memory(sparse, gaps, only_ints);
    set_view(f, 1000 * test_rank, MPI_INT, every_second, datarep);
    OK(MPI_File_get_type_extent(f, MPI_INT, &extent));
    CHECK_INT(extent, INT_BYTES, "the extent of an int");
    OK(MPI_File_get_type_extent(f, MPI_DOUBLE, &extent));
    CHECK_INT(extent, DOUBLE_BYTES, "the extent of a double");
    OK(MPI_File_get_type_extent(f, every_second, &extent));
    CHECK_INT(extent, 3 * INT_BYTES, "the extent of two of three ints");
    CHECK(extent_calls > 0, "the extent function was not called");
    OK(MPI_File_get_byte_offset(f, 5, &at));
    CHECK_INT(at, 1000 * test_rank + 8 * INT_BYTES, "the byte offset of the sixth int");
    for (int i = 0; i < 3 * COUNT; i++)
        b[i] = i % 3 ? -1 : 100 * test_rank + i / 3;
    OK(MPI_File_write_all(f, b, COUNT, sparse, &s));
    expect_items(COUNT, "holes and gaps");
    IO_COUNT(&s, MPI_INT, COUNT, "holes and gaps");
    io_visible(f);
    for (int i = 0; i < COUNT; i++)
        check_raw(1000 * test_rank + (i / 2 * 3 + i % 2 * 2) * INT_BYTES, 100 * test_rank + i, 1,
                  "holes and gaps");
    for (int i = 0; i < 3 * COUNT; i++)
        b[i] = -1;
    OK(MPI_File_read_at_all(f, 2, b, COUNT - 2, sparse, &s));
    expect_items(COUNT - 2, "holes and gaps");
    for (int i = 0; i < 3 * (COUNT - 2); i++)
        CHECK_INT(b[i], i % 3 ? -1 : 100 * test_rank + i / 3 + 2, "an int in memory");
    MPI_Type_free(&every_second);
    MPI_Type_free(&sparse);
    io_close(&f);
}

typedef struct {
    int i;
    double d;
} Pair;

static size_t pair_place(long item)
{
    return (size_t)(item / 2) * sizeof(Pair) + (item % 2 ? offsetof(Pair, d) : 0);
}

static int pair_double(long item)
{
    return item % 2 == 1;
}

/* Items are the entries of the type map, whatever type each has. */
static void mixed_types(const char *datarep)
{
    enum { COUNT = 25, BYTES = INT_BYTES + DOUBLE_BYTES };
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE}, t, pair, etype;
    MPI_File f = io_create();
    MPI_Status s;
    Pair out[COUNT], in[COUNT];
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, offsetof(Pair, d)}, parts, &t);
    MPI_Type_create_resized(t, 0, sizeof(Pair), &pair);
    MPI_Type_commit(&pair);
    MPI_Type_free(&t);
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, INT_BYTES}, parts, &t);
    MPI_Type_create_resized(t, 0, BYTES, &etype);
    MPI_Type_commit(&etype);
    MPI_Type_free(&t);
    expect_memory(pair, pair_place, pair_double);
    set_view(f, 0, etype, etype, datarep);
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    for (int i = 0; i < COUNT; i++)
        out[i].i = test_rank * 100 + i, out[i].d = i + 0.5;
    OK(MPI_File_write_at_all(f, (MPI_Offset)test_rank * COUNT, out, COUNT, pair, &s));
    expect_items(2 * COUNT, "pairs");
    IO_COUNT(&s, pair, COUNT, "pairs");
    io_visible(f);
    CHECK_INT(io_length(), (long long)test_size * COUNT * BYTES, "the length of pairs");
    check_raw((long long)test_rank * COUNT * BYTES, test_rank * 100, 1, "pairs");
    OK(MPI_File_read_at_all(f, (MPI_Offset)test_rank * COUNT, in, COUNT, pair, &s));
    expect_items(2 * COUNT, "pairs");
    for (int i = 0; i < COUNT; i++)
        CHECK(in[i].i == out[i].i && in[i].d == out[i].d, "pair %d is %d, %g", i, in[i].i, in[i].d);
    MPI_Type_free(&pair);
    MPI_Type_free(&etype);
    io_close(&f);
}

/* A function that fails fails the access. */
static void failing(const char *datarep)
{
    MPI_File f = io_create();
    MPI_Status s;
    int b[4] = {1, 2, 3, 4};
    expect_memory(MPI_INT, dense, only_ints);
    set_view(f, 0, MPI_INT, MPI_INT, datarep);
    memory.fail = 1;
    CHECK_CLASS(MPI_File_write_at(f, 4 * test_rank, b, 4, MPI_INT, &s), MPI_ERR_CONVERSION,
                "a write whose conversion fails");
    memory.fail = 0;
    memory.items = 0;
    OK(MPI_File_write_at(f, 4 * test_rank, b, 4, MPI_INT, &s));
    memory.items = 0;
    memory.fail = 1;
    CHECK_CLASS(MPI_File_read_at(f, 4 * test_rank, b, 4, MPI_INT, &s), MPI_ERR_CONVERSION,
                "a read whose conversion fails");
    io_close(&f);
}

static int native_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    MPI_Aint low;
    (void)state;
    return MPI_Type_get_extent(type, &low, extent);
}

/* One direction is converted, the other is not. */
static int doubling(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                    void *state)
{
    (void)type, (void)state;
    for (int i = 0; i < count; i++) {
        int x;
        memcpy(&x, (char *)file + 4 * i, 4);
        ((int *)user)[position + i] = 2 * x;
    }
    return MPI_SUCCESS;
}

static void one_direction(void)
{
    MPI_File f = io_create();
    MPI_Status s;
    int b[2] = {21 + test_rank, -4}, got[2] = {0, 0};
    set_view(f, 8 * test_rank, MPI_INT, MPI_INT, "mica doubled");
    OK(MPI_File_write_at_all(f, 0, b, 2, MPI_INT, &s));
    io_visible(f);
    io_bytes(8 * test_rank, got, 8);
    CHECK(!memcmp(b, got, 8), "MPI_CONVERSION_FN_NULL stores %d %d", got[0], got[1]);
    OK(MPI_File_read_at_all(f, 0, got, 2, MPI_INT, &s));
    CHECK(got[0] == 42 + 2 * test_rank && got[1] == -8, "%d %d are read", got[0], got[1]);
    io_close(&f);
}

static int dup_class;

static void note(MPI_File *f, int *code, ...)
{
    dup_class = *f == MPI_FILE_NULL ? test_class_of(*code) : -2;
}

static void names(void)
{
    char longest[MPI_MAX_DATAREP_STRING + 2];
    MPI_Errhandler h;
    MPI_File f = io_create();
    MPI_Datarep_conversion_function *none = MPI_CONVERSION_FN_NULL;
    MPI_Datarep_conversion_function_c *none_c = MPI_CONVERSION_FN_NULL_C;
    CHECK_CLASS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "mica unknown", MPI_INFO_NULL),
                MPI_ERR_UNSUPPORTED_DATAREP, "a representation that is not registered");
    if (!io_strict) {
        io_close(&f);
        return;
    }
    CHECK_CLASS(MPI_Register_datarep("mica six", none, none, native_extent, NULL),
                MPI_ERR_DUP_DATAREP, "a name that is taken");
    CHECK_CLASS(MPI_Register_datarep_c("mica six", none_c, none_c, native_extent, NULL),
                MPI_ERR_DUP_DATAREP, "a name that is taken, by MPI_Register_datarep_c");
    for (int i = 0; i < 3; i++) {
        const char *const predefined[3] = {"native", "internal", "external32"};
        CHECK_CLASS(MPI_Register_datarep(predefined[i], none, none, native_extent, NULL),
                    MPI_ERR_DUP_DATAREP, predefined[i]);
    }
    memset(longest, 'x', sizeof longest);
    longest[MPI_MAX_DATAREP_STRING + 1] = 0;
    CHECK(MPI_Register_datarep(longest, none, none, native_extent, NULL) != MPI_SUCCESS,
          "a name that is too long");
    OK(MPI_File_create_errhandler(note, &h));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, h));
    MPI_Register_datarep("mica six", none, none, native_extent, NULL);
    CHECK_INT(dup_class, MPI_ERR_DUP_DATAREP, "the class that the handler of MPI_FILE_NULL saw");
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    MPI_Errhandler_free(&h);
    io_close(&f);
}

int main(int argc, char **argv)
{
    io_begin(&argc, &argv);
    if (io_strict) {
        OK(MPI_Register_datarep("mica six", reading, writing, extent_in_file, &memory));
        OK(MPI_Register_datarep_c("mica six c", reading_c, writing_c, extent_in_file, &memory));
        OK(MPI_Register_datarep("mica doubled", doubling, MPI_CONVERSION_FN_NULL, native_extent,
                                NULL));
    }
    names();
    for (int i = 0; i < 2 && io_strict; i++) {
        const char *datarep = i ? "mica six c" : "mica six";
        accesses(datarep, 7);
        accesses(datarep, 300000);
        holes_and_gaps(datarep);
        mixed_types(datarep);
        failing(datarep);
    }
    if (io_strict)
        one_direction();
    return io_finish();
}
