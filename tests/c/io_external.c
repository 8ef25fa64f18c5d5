/* The predefined data representations (MPI 5.0, 14.5): "native", "internal" and "external32", whose
 * bytes are looked at past the library: big endian, of the sizes that 14.5.2 gives, however the
 * file type, the memory's type and the kind of access are.
 *
 * Without "strict" only what MPICH 5.0.2 can: it aborts with types that have another size in
 * external32, counts a read up to the end wrongly, and has no "internal". */
#include "io.h"

#include <stdbool.h>
#include <wchar.h>

enum { N = 8, DISP = 5 };

/* Values of a type in memory, and the bytes of the first one in the file. */
typedef struct {
    const char *name;
    MPI_Datatype type;
    size_t native;
    int external;
    unsigned char first[16];
    const void *values;
} Case;

static const short shorts[N] = {-2, 1, 256, -32768, 5, 6, 7, 8};
static const int integers[N] = {0x01020304, -1, 0, 7, INT32_MIN, 9, 10, 11};
static const long longs[N] = {-16909061, 2, 3, -4, 5, 6, 7, 8}; /* four bytes in the file */
static const long long long_longs[N] = {0x0102030405060708, -1, 3, 4, 5, 6, 7, INT64_MIN};
static const float floats[N] = {-1.5f, 0, 1, 2, 3, 4, 5, 6};
static const double doubles[N] = {1.0 / 3, -0.0, 1, 2, 3, 4, 5, 6};
static const long double long_doubles[N] = {-1.5L, 0, 1, 2, 3, 4, 5, 1.0L / 3};
static const unsigned char bytes[N] = {200, 1, 2, 3, 4, 5, 6, 7};
static const bool bools[N] = {true, false, true, true, false, true, false, false};
static const wchar_t wides[N] = {0x20ac, 'a', 'b', 'c', 'd', 'e', 'f', 'g'};
static const MPI_Aint addresses[N] = {-2, 1, 2, 3, 4, 5, 6, 7};
static const MPI_Offset offsets[N] = {(MPI_Offset)1 << 40, 1, 2, 3, 4, 5, 6, 7};
static const float complexes[2 * N] = {1, -2, 3, 4, 5};

#define CASE(type, external, values, ...)                                                         \
    {#type, type, sizeof(values) / N, external, {__VA_ARGS__}, values}

static int cases_make(Case *out)
{
    const Case all[] = {
        CASE(MPI_SHORT, 2, shorts, 0xff, 0xfe),
        CASE(MPI_INT, 4, integers, 1, 2, 3, 4),
        CASE(MPI_UNSIGNED, 4, integers, 1, 2, 3, 4),
        CASE(MPI_INT32_T, 4, integers, 1, 2, 3, 4),
        CASE(MPI_LONG, 4, longs, 0xfe, 0xfd, 0xfc, 0xfb),
        CASE(MPI_LONG_LONG, 8, long_longs, 1, 2, 3, 4, 5, 6, 7, 8),
        CASE(MPI_UINT64_T, 8, long_longs, 1, 2, 3, 4, 5, 6, 7, 8),
        CASE(MPI_FLOAT, 4, floats, 0xbf, 0xc0, 0, 0),
        CASE(MPI_DOUBLE, 8, doubles, 0x3f, 0xd5, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55),
        CASE(MPI_LONG_DOUBLE, 16, long_doubles, 0xbf, 0xff, 0x80),
        CASE(MPI_CHAR, 1, bytes, 200),
        CASE(MPI_BYTE, 1, bytes, 200),
        CASE(MPI_C_BOOL, 1, bools, 1),
        CASE(MPI_WCHAR, 2, wides, 0x20, 0xac),
        CASE(MPI_AINT, 8, addresses, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe),
        CASE(MPI_OFFSET, 8, offsets, 0, 0, 1, 0, 0, 0, 0, 0),
        CASE(MPI_C_FLOAT_COMPLEX, 8, complexes, 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0),
    };
    int n = (int)(sizeof all / sizeof *all);
    memcpy(out, all, sizeof all);
    return n;
}

static void set_view(MPI_File f, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                     const char *datarep)
{
    OK(MPI_File_set_view(f, disp, etype, filetype, datarep, MPI_INFO_NULL));
}

static void expect_extent(MPI_File f, MPI_Datatype type, long long want, const char *what)
{
    MPI_Aint extent = -1;
    MPI_Count extent_c = -1;
    OK(MPI_File_get_type_extent(f, type, &extent));
    OK(MPI_File_get_type_extent_c(f, type, &extent_c));
    CHECK(extent == want && extent_c == want, "the extent of %s in the file is %lld, expected %lld",
          what, (long long)extent, want);
}

/* Each rank writes N values after those of the ranks before it. */
static void one_type(const Case *c)
{
    MPI_File f = io_create();
    MPI_Status s;
    MPI_Offset at = -1, first = (MPI_Offset)test_rank * N;
    unsigned char raw[16 * N], packed[16 * N], *in = test_alloc(c->native * N);
    MPI_Aint position = 0;
    size_t n = (size_t)c->external * N;
    set_view(f, DISP, c->type, c->type, "external32");
    expect_extent(f, c->type, c->external, c->name);
    OK(MPI_File_get_byte_offset(f, 3, &at));
    CHECK(at == DISP + 3 * c->external, "the fourth %s is at byte %lld", c->name, (long long)at);
    OK(MPI_File_write_at_all(f, first, c->values, N, c->type, &s));
    IO_COUNT(&s, c->type, N, c->name);
    io_visible(f);
    CHECK_INT(io_length(), DISP + test_size * N * c->external, c->name);
    memset(raw, 0, sizeof raw);
    io_bytes(DISP + first * c->external, raw, n);
    CHECK(!memcmp(raw, c->first, (size_t)c->external), "%s is not stored as external32", c->name);
    MPI_Pack_external("external32", c->values, N, c->type, packed, sizeof packed, &position);
    CHECK(position == (MPI_Aint)n && !memcmp(raw, packed, n),
          "%s is stored otherwise than MPI_Pack_external packs it", c->name);
    memset(in, 0, c->native * N);
    OK(MPI_File_read_at(f, first, in, N, c->type, &s));
    IO_COUNT(&s, c->type, N, c->name);
    if (c->type != MPI_LONG_DOUBLE) /* has bytes that mean nothing */
        CHECK(!memcmp(in, c->values, c->native * N), "%s is read wrongly", c->name);
    for (int i = 0; i < N && c->type == MPI_LONG_DOUBLE; i++)
        CHECK(((long double *)in)[i] == long_doubles[i], "a long double is read wrongly");
    /* The last value lacks a byte. */
    io_barrier();
    OK(MPI_File_set_size(f, DISP + (MPI_Offset)test_size * N * c->external - 1));
    if (test_rank == test_size - 1 && io_strict) {
        OK(MPI_File_read_at(f, first, in, N, c->type, &s));
        IO_COUNT(&s, c->type, N - 1, "a read up to the end");
    }
    io_close(&f);
    free(in);
}

static long long from_big_endian(const unsigned char *b, int n)
{
    unsigned long long x = 0;
    for (int i = 0; i < n; i++)
        x = x << 8 | b[i];
    return n == 4 ? (int32_t)x : (long long)x;
}

/* Displacements of portable types (2.4) are scaled: in elements, not in bytes of memory. */
static void portable_types(void)
{
    enum { COUNT = 30 };
    MPI_File f = io_create();
    MPI_Datatype every_third, memory;
    MPI_Status s;
    MPI_Offset at = -1;
    long out[2 * COUNT], in[2 * COUNT];
    unsigned char raw[12 * COUNT];
    MPI_Type_create_indexed_block(2, 1, (int[]){0, 3}, MPI_LONG, &every_third);
    MPI_Type_commit(&every_third);
    MPI_Type_vector(COUNT, 1, 2, MPI_LONG, &memory); /* with gaps in memory */
    MPI_Type_commit(&memory);
    for (int i = 0; i < 2 * COUNT; i++)
        out[i] = -1000 * test_rank - i, in[i] = 99;
    set_view(f, 1000 * test_rank, MPI_LONG, every_third, "external32");
    expect_extent(f, every_third, 16, "two longs three apart");
    OK(MPI_File_get_byte_offset(f, 5, &at));
    CHECK_INT(at, 1000 * test_rank + 2 * 16 + 3 * 4, "the byte offset of the sixth long");
    OK(MPI_File_write_all(f, out, 1, memory, &s));
    IO_COUNT(&s, memory, 1, "longs with gaps");
    io_visible(f);
    memset(raw, 0, sizeof raw);
    io_bytes(1000 * test_rank, raw, 8 * COUNT);
    for (int i = 0; i < COUNT; i++) {
        long long got = from_big_endian(raw + i / 2 * 16 + i % 2 * 12, 4);
        CHECK(got == out[2 * i], "long %d is %lld in the file, expected %ld", i, got, out[2 * i]);
    }
    OK(MPI_File_read_at_all(f, 0, in, 1, memory, &s));
    for (int i = 0; i < 2 * COUNT - 1; i++)
        CHECK(in[i] == (i % 2 ? 99 : out[i]), "long %d of memory is read as %ld", i, in[i]);
    MPI_Type_free(&every_third);
    MPI_Type_free(&memory);
    io_close(&f);
}

typedef struct {
    short s;
    double d;
    long l;
} Mixed;

/* Displacements in bytes are those in the file: 14 bytes without a gap, of 24 in memory. */
static void mixed_types(void)
{
    enum { COUNT = 7, BYTES = 14 };
    MPI_Datatype parts[3] = {MPI_SHORT, MPI_DOUBLE, MPI_LONG}, t, memory, etype;
    MPI_File f = io_create();
    MPI_Status s;
    Mixed out[COUNT], in[COUNT];
    unsigned char raw[COUNT * BYTES];
    MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){0, 2, 10}, parts, &t);
    MPI_Type_create_resized(t, 0, BYTES, &etype);
    MPI_Type_commit(&etype);
    MPI_Type_free(&t);
    MPI_Type_create_struct(
        3, (int[]){1, 1, 1},
        (MPI_Aint[]){offsetof(Mixed, s), offsetof(Mixed, d), offsetof(Mixed, l)}, parts, &t);
    MPI_Type_create_resized(t, 0, sizeof(Mixed), &memory);
    MPI_Type_commit(&memory);
    MPI_Type_free(&t);
    memset(in, 0x5a, sizeof in);
    for (int i = 0; i < COUNT; i++)
        out[i].s = (short)(i + 258), out[i].d = i, out[i].l = -i * 100000 - test_rank;
    set_view(f, 0, etype, etype, "external32");
    OK(MPI_File_write_ordered(f, out, COUNT, memory, &s));
    IO_COUNT(&s, memory, COUNT, "structs");
    io_visible(f);
    CHECK_INT(io_length(), test_size * COUNT * BYTES, "the length of a file of structs");
    memset(raw, 0, sizeof raw);
    io_bytes((long long)test_rank * COUNT * BYTES, raw, sizeof raw);
    for (int i = 0; i < COUNT; i++) {
        const unsigned char *b = raw + i * BYTES;
        CHECK(from_big_endian(b, 2) == out[i].s && from_big_endian(b + 10, 4) == out[i].l &&
                  (i != 1 || from_big_endian(b + 2, 8) == 0x3ff0000000000000),
              "struct %d is not stored as external32", i);
    }
    OK(MPI_File_read_at(f, (MPI_Offset)test_rank * COUNT, in, COUNT, memory, &s));
    for (int i = 0; i < COUNT; i++)
        CHECK(in[i].s == out[i].s && in[i].d == out[i].d && in[i].l == out[i].l,
              "struct %d is read wrongly", i);
    MPI_Type_free(&memory);
    MPI_Type_free(&etype);
    io_close(&f);
}

/* More than a library converts at a time, by each kind of access. */
static void much_data(const char *datarep)
{
    enum { COUNT = 100000, WAYS = 6 };
    MPI_File f = io_create();
    MPI_Status s;
    MPI_Request r;
    double *out = test_alloc(COUNT * sizeof *out), *in = test_alloc(COUNT * sizeof *in);
    for (int way = 0; way < WAYS; way++) {
        int first = (way * test_size + test_rank) * COUNT;
        for (int i = 0; i < COUNT; i++)
            out[i] = first + i + 0.25, in[i] = 0;
        set_view(f, 0, MPI_DOUBLE, MPI_DOUBLE, datarep);
        OK(MPI_File_seek(f, first, MPI_SEEK_SET));
        OK(MPI_File_seek_shared(f, way * test_size * COUNT, MPI_SEEK_SET));
        if (way == 0) {
            OK(MPI_File_write_at(f, first, out, COUNT, MPI_DOUBLE, &s));
        } else if (way == 1) {
            OK(MPI_File_write_all(f, out, COUNT, MPI_DOUBLE, &s));
        } else if (way == 2) {
            OK(MPI_File_iwrite(f, out, COUNT, MPI_DOUBLE, &r));
            OK(MPI_Wait(&r, &s));
        } else if (way == 3) {
            OK(MPI_File_iwrite_at_all(f, first, out, COUNT, MPI_DOUBLE, &r));
            OK(MPI_Wait(&r, &s));
        } else if (way == 4) {
            OK(MPI_File_write_all_begin(f, out, COUNT, MPI_DOUBLE));
            OK(MPI_File_write_all_end(f, out, &s));
        } else {
            OK(MPI_File_write_ordered(f, out, COUNT, MPI_DOUBLE, &s));
        }
        IO_COUNT(&s, MPI_DOUBLE, COUNT, "much data");
        io_visible(f);
        OK(MPI_File_seek(f, first, MPI_SEEK_SET));
        if (way % 3 == 0) {
            OK(MPI_File_read_at_all(f, first, in, COUNT, MPI_DOUBLE, &s));
        } else if (way % 3 == 1) {
            OK(MPI_File_iread_all(f, in, COUNT, MPI_DOUBLE, &r));
            OK(MPI_Wait(&r, &s));
        } else {
            OK(MPI_File_read(f, in, COUNT, MPI_DOUBLE, &s));
        }
        IO_COUNT(&s, MPI_DOUBLE, COUNT, "much data");
        CHECK(!memcmp(in, out, COUNT * sizeof *in), "%s, way %d: data is read wrongly", datarep,
              way);
    }
    io_close(&f);
    free(in);
    free(out);
}

static void names(const char *datarep)
{
    MPI_File f = io_create();
    MPI_Offset disp = -1;
    MPI_Datatype etype, filetype;
    char got[MPI_MAX_DATAREP_STRING + 1] = "";
    MPI_Aint extent = -1;
    OK(MPI_File_get_view(f, &disp, &etype, &filetype, got));
    CHECK(!strcmp(got, "native") && etype == MPI_BYTE && filetype == MPI_BYTE && disp == 0,
          "the first view is not that of bytes in native representation: %s", got);
    set_view(f, 8, MPI_INT, MPI_INT, datarep);
    OK(MPI_File_get_view(f, &disp, &etype, &filetype, got));
    CHECK(!strcmp(got, datarep), "the data representation is %s, expected %s", got, datarep);
    OK(MPI_File_get_type_extent(f, MPI_INT, &extent));
    CHECK(extent >= 4, "the extent of an int in %s is %lld", datarep, (long long)extent);
    io_close(&f);
}

int main(int argc, char **argv)
{
    Case cases[32];
    io_begin(&argc, &argv);
    names("native");
    much_data("native");
    for (int i = 0, n = cases_make(cases); i < n; i++)
        if (io_strict || cases[i].type == MPI_INT || cases[i].type == MPI_DOUBLE)
            one_type(&cases[i]);
    if (io_strict) {
        names("internal");
        names("external32");
        portable_types();
        mixed_types();
        much_data("internal");
        much_data("external32"); /* MPICH 5.0.2 may end with SIGSEGV */
    }
    return io_finish();
}
