/* Views (MPI 5.0, 14.3): elementary and file types of all kinds, displacements, offsets and the end
 * of the file in a view, what a view must not be, displacements of sequential files, and file types
 * with very many blocks. io_external.c has the data representations. */
#include "io.h"

enum { UNITS = 60, GUARD = -77 };

/* A view says where the k-th elementary type lies, in bytes from the displacement; the types say
 * the same to MPI. The elementary type has no holes, but in "struct with a gap". */
typedef struct {
    const char *name;
    long (*place)(long k);
    void (*types)(MPI_Datatype *etype, MPI_Datatype *filetype); /* committed */
    int ints; /* in an elementary type */
} View;

static MPI_Datatype commit(MPI_Datatype t)
{
    MPI_Type_commit(&t);
    return t;
}

static MPI_Datatype ints(int n)
{
    MPI_Datatype t;
    MPI_Type_contiguous(n, MPI_INT, &t);
    return commit(t);
}

/* `old` in the first bytes of `bytes`. */
static MPI_Datatype resized(MPI_Datatype old, MPI_Aint bytes)
{
    MPI_Datatype t;
    MPI_Type_create_resized(old, 0, bytes, &t);
    return commit(t);
}

static long dense_place(long k)
{
    return 4 * k;
}

static void dense(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    *etype = ints(1);
    *filetype = ints(1);
}

/* Two of every five ints, three times; the extent ends after the last. */
static long vector_place(long k)
{
    return 4 * (k / 6 * 12 + k % 6 / 2 * 5 + k % 2);
}

static void vector(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    MPI_Datatype t;
    *etype = ints(1);
    MPI_Type_vector(3, 2, 5, MPI_INT, &t);
    *filetype = commit(t);
}

/* The middle of 4 x 5 x 6 ints, from (1,2,3), of 2 x 2 x 3. */
static long block_place(long k)
{
    long whole = k / 12, z = k % 12 / 6, y = k % 6 / 3, x = k % 3;
    return 4 * (whole * 120 + (z + 1) * 30 + (y + 2) * 6 + x + 3);
}

static void subarray(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    MPI_Datatype t;
    *etype = ints(1);
    MPI_Type_create_subarray(3, (int[]){4, 5, 6}, (int[]){2, 2, 3}, (int[]){1, 2, 3}, MPI_ORDER_C,
                             MPI_INT, &t);
    *filetype = commit(t);
}

/* Pairs in turn among three processes, of which this is the second: of 18 ints, 6. */
static long cyclic_place(long k)
{
    return 4 * (k / 6 * 18 + k % 6 / 2 * 6 + 2 + k % 2);
}

static void darray(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    MPI_Datatype t;
    *etype = ints(1);
    MPI_Type_create_darray(3, 1, 1, (int[]){18}, (int[]){MPI_DISTRIBUTE_CYCLIC}, (int[]){2},
                           (int[]){3}, MPI_ORDER_C, MPI_INT, &t);
    *filetype = commit(t);
}

/* Blocks of 1, 0, 3 and 2 ints at 2, 3, 4 and 9. */
static long indexed_place(long k)
{
    static const int at[6] = {2, 4, 5, 6, 9, 10};
    return 4 * (k / 6 * 13 + at[k % 6]);
}

static void indexed(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    MPI_Datatype t;
    *etype = ints(1);
    MPI_Type_indexed(4, (int[]){1, 0, 3, 2}, (int[]){2, 3, 4, 9}, MPI_INT, &t);
    *filetype = resized(t, 52);
    MPI_Type_free(&t);
}

/* Pairs of ints as elementary type; holes must be multiples of its extent. */
static long pair_place(long k)
{
    return k / 3 * 48 + k % 3 * 16 + 8;
}

static void pairs(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    MPI_Datatype t;
    *etype = ints(2);
    MPI_Type_create_hindexed(3, (int[]){1, 1, 1}, (MPI_Aint[]){8, 24, 40}, *etype, &t);
    *filetype = resized(t, 48);
    MPI_Type_free(&t);
}

/* Vectors of vectors. */
static long nested_place(long k)
{
    return 4 * (k / 8 * 60 + k % 8 / 4 * 22 + k % 4 / 2 * 7 + k % 2 * 3);
}

static void nested(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    MPI_Datatype a, b, c;
    *etype = ints(1);
    MPI_Type_vector(2, 1, 3, MPI_INT, &a);
    MPI_Type_create_hvector(2, 1, 28, a, &b);
    MPI_Type_create_hvector(2, 1, 88, b, &c);
    *filetype = resized(c, 240);
    MPI_Type_free(&a);
    MPI_Type_free(&b);
    MPI_Type_free(&c);
}

/* A struct of elementary types and what is made of them. */
static long struct_place(long k)
{
    static const int at[4] = {0, 3, 5, 10};
    return 4 * (k / 4 * 11 + at[k % 4]);
}

static void structure(MPI_Datatype *etype, MPI_Datatype *filetype)
{
    MPI_Datatype two, t;
    *etype = ints(1);
    MPI_Type_vector(2, 1, 2, MPI_INT, &two);
    MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){0, 12, 40},
                           (MPI_Datatype[]){MPI_INT, two, MPI_INT}, &t);
    *filetype = commit(t);
    MPI_Type_free(&two);
}

static const View views[] = {
    {"dense", dense_place, dense, 1},       {"vector", vector_place, vector, 1},
    {"subarray", block_place, subarray, 1}, {"darray", cyclic_place, darray, 1},
    {"indexed", indexed_place, indexed, 1}, {"pairs", pair_place, pairs, 2},
    {"nested", nested_place, nested, 1},    {"struct", struct_place, structure, 1},
};

enum { VIEWS = sizeof views / sizeof *views };

/* Each rank has a region of the file, and looks only at that. */
enum { REGION = 6000, DISP = 9 };

static MPI_Offset region(void)
{
    return (MPI_Offset)test_rank * REGION + DISP;
}

static int value(long k, int part)
{
    return (int)(test_rank * 100000 + k * 10 + part + 1);
}

/* What the region must be: zeros, but for units 0 to n - 1. */
static void check_bytes(const View *v, long n, const char *what)
{
    unsigned char *is = test_alloc(REGION), *want = test_alloc(REGION);
    memset(is, 0, REGION);
    memset(want, 0, REGION);
    for (long k = 0; k < n; k++)
        for (int part = 0; part < v->ints; part++) {
            int x = value(k, part);
            memcpy(want + v->place(k) + 4 * part, &x, 4);
        }
    io_bytes(region(), is, REGION - DISP);
    for (int i = 0; i < REGION - DISP; i++)
        if (is[i] != want[i]) {
            CHECK(0, "%s: byte %d of the file is %d, expected %d", what, i, is[i], want[i]);
            break;
        }
    free(is);
    free(want);
}

static void check_ints(const View *v, const int *b, long first, long n, const char *what)
{
    for (long i = 0; i < n * v->ints; i++)
        if (b[i] != value(first + i / v->ints, (int)(i % v->ints))) {
            CHECK(0, "%s: int %ld from unit %ld on is read as %d", what, i, first, b[i]);
            return;
        }
}

/* Offsets and pointers count elementary types, and bytes follow from the types. */
static void check_offsets(MPI_File f, const View *v)
{
    MPI_Offset at = -1, pointer = -1, size = -1;
    long end = 0;
    for (long k = 0; k < UNITS; k += 7) {
        OK(MPI_File_get_byte_offset(f, k, &at));
        CHECK(at == region() + v->place(k), "%s: unit %ld is at byte %lld, expected %lld", v->name,
              k, (long long)at, (long long)(region() + v->place(k)));
    }
    OK(MPI_File_get_size(f, &size));
    while (region() + v->place(end) < size) /* the first unit after the last byte */
        end++;
    OK(MPI_File_seek(f, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(f, &pointer));
    CHECK(pointer == end, "%s: the end is unit %lld, expected %ld", v->name, (long long)pointer,
          end);
    OK(MPI_File_seek(f, 11, MPI_SEEK_SET));
    OK(MPI_File_seek(f, -3, MPI_SEEK_CUR));
    OK(MPI_File_get_position(f, &pointer));
    CHECK(pointer == 8, "%s: unit 11 - 3 is %lld", v->name, (long long)pointer);
}

static void one_view(const View *v)
{
    MPI_Datatype etype, filetype;
    MPI_File f = io_create();
    MPI_Status s;
    MPI_Offset disp = -1;
    char datarep[MPI_MAX_DATAREP_STRING];
    int out[2 * UNITS], in[2 * UNITS + 1];
    v->types(&etype, &filetype);
    OK(MPI_File_set_size(f, (MPI_Offset)test_size * REGION)); /* holes are zeros */
    OK(MPI_File_set_view(f, region(), etype, filetype, "native", MPI_INFO_NULL));
    for (int i = 0; i < UNITS * v->ints; i++)
        out[i] = value(i / v->ints, i % v->ints);
    /* From the middle on, then the beginning, so that accesses begin and end within a file type. */
    OK(MPI_File_write_at(f, 25, out + 25 * v->ints, (UNITS - 25) * v->ints, MPI_INT, &s));
    IO_COUNT(&s, MPI_INT, (UNITS - 25) * v->ints, v->name);
    for (int k = 0; k < 25; k += 5) {
        OK(MPI_File_write(f, out + k * v->ints, 5, etype, &s));
        IO_COUNT(&s, etype, 5, v->name);
    }
    io_visible(f);
    check_bytes(v, UNITS, v->name);
    in[UNITS * v->ints] = GUARD;
    OK(MPI_File_read_at_all(f, 0, in, UNITS, etype, &s));
    IO_COUNT(&s, etype, UNITS, v->name);
    check_ints(v, in, 0, UNITS, v->name);
    OK(MPI_File_read(f, in, 30, etype, &s)); /* the pointer is after the 25 that it has written */
    check_ints(v, in, 25, 30, v->name);
    for (int k = 0; k < UNITS; k++) {
        OK(MPI_File_read_at(f, k, in, v->ints, MPI_INT, &s));
        check_ints(v, in, k, 1, v->name);
    }
    check_offsets(f, v);
    MPI_Type_free(&etype); /* the view keeps them */
    MPI_Type_free(&filetype);
    OK(MPI_File_read_at(f, 3, in, v->ints, MPI_INT, &s));
    check_ints(v, in, 3, 1, v->name);
    OK(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
    CHECK_INT(disp, region(), "the displacement");
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    io_close(&f);
}

/* A read across the end of the file gives what is there, and leaves the rest of memory alone. */
static void short_read(const View *v)
{
    enum { THERE = 31 };
    MPI_Datatype etype, filetype;
    MPI_File f = io_create();
    MPI_Status s;
    int out[2 * UNITS], in[2 * UNITS], n = -1;
    v->types(&etype, &filetype);
    for (int i = 0; i < UNITS * v->ints; i++)
        out[i] = value(i / v->ints, i % v->ints), in[i] = GUARD;
    OK(MPI_File_set_view(f, DISP, etype, filetype, "native", MPI_INFO_NULL));
    if (test_rank == 0)
        OK(MPI_File_write_at(f, 0, out, THERE, etype, &s));
    io_visible(f);
    for (int collective = 0; collective < 2; collective++) {
        if (collective)
            OK(MPI_File_read_at_all(f, 20, in, UNITS - 20, etype, &s));
        else
            OK(MPI_File_read_at(f, 20, in, UNITS - 20, etype, &s));
        if (io_strict || v->place == dense_place) { /* MPICH 5.0.2 counts what it should read */
            IO_COUNT(&s, etype, THERE - 20, v->name);
            for (int i = (THERE - 20) * v->ints; i < (UNITS - 20) * v->ints; i++)
                CHECK(in[i] == GUARD, "%s: int %d beyond the end is read as %d", v->name, i, in[i]);
        }
        CHECK(test_rank || !memcmp(in, out + 20 * v->ints, (THERE - 20) * v->ints * sizeof *in),
              "%s: what is there is read wrongly", v->name);
    }
    OK(MPI_File_read_at(f, THERE, in, 1, etype, &s));
    if (io_strict || v->place == dense_place)
        IO_COUNT(&s, etype, 0, v->name);
    if (v->ints == 2 && io_strict) { /* half a unit is one element, but no whole unit */
        io_barrier();
        OK(MPI_File_set_size(f, DISP + v->place(THERE - 1) + 4));
        OK(MPI_File_read_at(f, THERE - 2, in, 5, etype, &s));
        MPI_Get_elements(&s, etype, &n);
        CHECK_INT(n, 3, "the elements of a unit and a half");
        MPI_Get_count(&s, etype, &n);
        CHECK_INT(n, MPI_UNDEFINED, "the count of a unit and a half");
    }
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    io_close(&f);
}

/* An elementary type with a gap, and memory of the same type: both gaps stay as they are. */
static void struct_with_a_gap(void)
{
    struct {
        char c;
        double d;
    } out[9], in[9];
    unsigned char raw[9 * 48];
    MPI_Datatype t, etype, filetype;
    MPI_Status s;
    MPI_File f = io_create();
    MPI_Offset at = -1;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8},
                           (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE}, &t);
    etype = resized(t, 16);
    filetype = resized(etype, 48);
    memset(in, 0x5a, sizeof in);
    memset(out, 0xa5, sizeof out);
    for (int i = 0; i < 9; i++)
        out[i].c = (char)(i + 'a'), out[i].d = test_rank + i / 10.0;
    OK(MPI_File_set_size(f, (MPI_Offset)test_size * REGION));
    OK(MPI_File_set_view(f, region(), etype, filetype, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(f, out, 9, etype, &s));
    IO_COUNT(&s, etype, 9, "structs with gaps");
    IO_COUNT(&s, MPI_BYTE, 9 * 9, "structs with gaps");
    io_visible(f);
    memset(raw, 1, sizeof raw);
    io_bytes(region(), raw, sizeof raw);
    for (int i = 0; i < (int)sizeof raw; i++) {
        int unit = i / 48, byte = i % 48, data = byte == 0 || (byte >= 8 && byte < 16);
        unsigned char want = data ? ((unsigned char *)&out[unit])[byte] : 0;
        CHECK(raw[i] == want, "byte %d of the file is %d, expected %d", i, raw[i], want);
    }
    OK(MPI_File_read_at(f, 0, in, 9, etype, &s));
    for (int i = 0; i < 9; i++)
        CHECK(in[i].c == out[i].c && in[i].d == out[i].d && ((char *)&in[i])[1] == 0x5a,
              "struct %d is read wrongly, or its gap was written", i);
    OK(MPI_File_get_byte_offset(f, 4, &at));
    CHECK_INT(at, region() + 192, "the byte offset of the fifth struct");
    MPI_Type_free(&t);
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);
    io_close(&f);
}

static int try_view(MPI_File f, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype)
{
    return MPI_File_set_view(f, disp, etype, filetype, "native", MPI_INFO_NULL);
}

/* What must not be a view; the one before stays. */
static void bad_views(void)
{
    MPI_File f = io_create();
    MPI_Datatype two = ints(2), three = ints(3), raw, back, etype, filetype;
    MPI_Offset disp = -1;
    char datarep[MPI_MAX_DATAREP_STRING];
    MPI_Type_contiguous(2, MPI_INT, &raw); /* not committed */
    MPI_Type_indexed(2, (int[]){1, 1}, (int[]){3, 0}, MPI_INT, &back);
    MPI_Type_commit(&back);
    OK(try_view(f, 12, MPI_INT, two));
    CHECK_CLASS(try_view(f, -1000, MPI_INT, MPI_INT), MPI_ERR_ARG, "a negative displacement");
    CHECK_CLASS(try_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT), MPI_ERR_ARG,
                "MPI_DISPLACEMENT_CURRENT without MPI_MODE_SEQUENTIAL");
    CHECK_EITHER(try_view(f, 0, two, three), MPI_ERR_ARG, MPI_ERR_TYPE, "two does not divide 3");
    CHECK_CLASS(try_view(f, 0, MPI_DATATYPE_NULL, MPI_INT), MPI_ERR_TYPE, "no elementary type");
    CHECK_CLASS(try_view(f, 0, MPI_INT, MPI_DATATYPE_NULL), MPI_ERR_TYPE, "no file type");
    CHECK_CLASS(try_view(f, 0, raw, raw), MPI_ERR_TYPE, "an elementary type without commit");
    CHECK_CLASS(try_view(f, 0, MPI_INT, raw), MPI_ERR_TYPE, "a file type without commit");
    CHECK(try_view(f, 0, MPI_INT, back) != MPI_SUCCESS, "displacements that go back are taken");
    CHECK_CLASS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "no such representation", MPI_INFO_NULL),
                MPI_ERR_UNSUPPORTED_DATAREP, "an unknown data representation");
    OK(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
    CHECK_INT(disp, 12, "the displacement after views that were refused");
    CHECK(etype == MPI_INT, "the elementary type after views that were refused is another");
    MPI_Type_free(&filetype);
    MPI_Type_free(&two);
    MPI_Type_free(&three);
    MPI_Type_free(&raw);
    MPI_Type_free(&back);
    io_close(&f);
}

/* Sequential files: a new view begins where the shared pointer is. */
static void sequential(void)
{
    char head[8] = "header\n", got[8] = "";
    int b = 1000 + test_rank, all[64];
    MPI_Status s;
    MPI_File f = io_open(MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    OK(MPI_File_write_ordered(f, head, test_rank ? 0 : 7, MPI_BYTE, &s));
    OK(try_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT));
    OK(MPI_File_write_ordered(f, &b, 1, MPI_INT, &s));
    OK(MPI_File_write_ordered(f, &b, 1, MPI_INT, &s));
    OK(try_view(f, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE));
    OK(MPI_File_write_ordered(f, head, 2, MPI_BYTE, &s));
    io_close(&f);
    io_barrier();
    CHECK_INT(io_length(), 7 + 8 * test_size + 2 * test_size, "the length of a sequential file");
    io_bytes(7, all, 8 * (size_t)test_size);
    for (int i = 0; i < 2 * test_size; i++)
        CHECK_INT(all[i], 1000 + i % test_size, "an int after the header");
    f = io_open(MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    OK(MPI_File_read_ordered(f, got, test_rank ? 0 : 7, MPI_BYTE, &s));
    CHECK(test_rank || !memcmp(got, head, 7), "the header is read wrongly");
    OK(try_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT));
    OK(MPI_File_read_ordered(f, &b, 1, MPI_INT, &s));
    CHECK_INT(b, 1000 + test_rank, "the int after the header");
    io_close(&f);
}

/* A file type of 10^9 blocks: its places are computed, not listed. MPICH 5.0.2 lists them. */
static void very_many_blocks(void)
{
    enum { BLOCKS = 1000000000 };
    MPI_File f = io_create();
    MPI_Datatype t, whole;
    MPI_Offset at = -1, k = 987654320 + test_rank;
    MPI_Status s;
    int b[3] = {test_rank, test_rank + 100, test_rank + 200}, got[3] = {0, 0, 0};
    MPI_Type_vector(BLOCKS, 1, 2, MPI_INT, &t);
    whole = resized(t, 8 * (MPI_Aint)BLOCKS);
    OK(try_view(f, 4, MPI_INT, whole));
    OK(MPI_File_get_byte_offset(f, k, &at));
    CHECK_INT(at, 4 + 8 * k, "the byte offset in many blocks");
    OK(MPI_File_get_byte_offset(f, k + BLOCKS, &at));
    CHECK_INT(at, 4 + 8 * (k + BLOCKS), "the byte offset in the next file type");
    OK(MPI_File_write_at_all(f, k, b, 1, MPI_INT, &s));
    OK(MPI_File_write_at_all(f, BLOCKS - 1 + 4 * test_rank, b, 3, MPI_INT, &s));
    io_visible(f);
    OK(MPI_File_read_at_all(f, BLOCKS - 1 + 4 * test_rank, got, 3, MPI_INT, &s));
    CHECK(!memcmp(b, got, sizeof b), "three ints across two file types are %d %d %d", got[0],
          got[1], got[2]);
    io_bytes(4 + 8 * k, got, 4);
    CHECK_INT(got[0], test_rank, "the int in the middle of many blocks");
    OK(MPI_File_seek(f, 0, MPI_SEEK_END));
    OK(MPI_File_get_position(f, &at));
    CHECK_INT(at, BLOCKS - 1 + 4 * (test_size - 1) + 3, "the end in many blocks");
    MPI_Type_free(&t);
    MPI_Type_free(&whole);
    io_close(&f);
}

int main(int argc, char **argv)
{
    io_begin(&argc, &argv);
    for (int i = 0; i < VIEWS; i++) {
        one_view(&views[i]);
        short_read(&views[i]);
    }
    struct_with_a_gap();
    bad_views();
    sequential();
    if (io_strict)
        very_many_blocks();
    return io_finish();
}
