/* Size, extent, lower bound, true extent of every constructor, against values worked out by hand
 * from MPI 4.1 section 5.1 (int is 4 bytes, double 8, aligned at 8). */
#include "test.h"

static void is(MPI_Datatype t, const char *what, long size, long lb, long extent, long true_lb,
               long true_extent)
{
    int n = -1;
    MPI_Count big = -1, clb, cext;
    MPI_Aint l, e, tl, te;
    MPI_Type_size(t, &n);
    MPI_Type_get_extent(t, &l, &e);
    MPI_Type_get_true_extent(t, &tl, &te);
    CHECK(n == size, "%s: size %d, expected %ld", what, n, size);
    CHECK(l == lb, "%s: lb %ld, expected %ld", what, (long)l, lb);
    CHECK(e == extent, "%s: extent %ld, expected %ld", what, (long)e, extent);
    CHECK(tl == true_lb, "%s: true lb %ld, expected %ld", what, (long)tl, true_lb);
    CHECK(te == true_extent, "%s: true extent %ld, expected %ld", what, (long)te, true_extent);
    MPI_Type_size_x(t, &big);
    CHECK(big == size, "%s: size_x %ld", what, (long)big);
    MPI_Type_get_extent_x(t, &clb, &cext);
    CHECK(clb == lb && cext == extent, "%s: extent_x %ld %ld", what, (long)clb, (long)cext);
}

/* Checks and frees. */
static void gone(MPI_Datatype t, const char *what, long size, long lb, long extent, long true_lb,
                 long true_extent)
{
    MPI_Datatype d;
    is(t, what, size, lb, extent, true_lb, true_extent);
    MPI_Type_dup(t, &d);
    MPI_Type_commit(&t);
    MPI_Type_free(&t);
    CHECK(t == MPI_DATATYPE_NULL, "%s: handle after free is not null", what);
    is(d, what, size, lb, extent, true_lb, true_extent); /* a dup lives on */
    MPI_Type_free(&d);
}

static void predefined(void)
{
#define IS(T, M) is(M, #M, (long)sizeof(T), 0, (long)sizeof(T), 0, (long)sizeof(T))
    IS(char, MPI_CHAR);
    IS(signed char, MPI_SIGNED_CHAR);
    IS(unsigned char, MPI_UNSIGNED_CHAR);
    IS(char, MPI_BYTE);
    IS(wchar_t, MPI_WCHAR);
    IS(short, MPI_SHORT);
    IS(unsigned short, MPI_UNSIGNED_SHORT);
    IS(int, MPI_INT);
    IS(unsigned, MPI_UNSIGNED);
    IS(long, MPI_LONG);
    IS(unsigned long, MPI_UNSIGNED_LONG);
    IS(long long, MPI_LONG_LONG_INT);
    IS(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    IS(float, MPI_FLOAT);
    IS(double, MPI_DOUBLE);
    IS(long double, MPI_LONG_DOUBLE);
    IS(_Bool, MPI_C_BOOL);
    IS(int8_t, MPI_INT8_T);
    IS(int16_t, MPI_INT16_T);
    IS(int32_t, MPI_INT32_T);
    IS(int64_t, MPI_INT64_T);
    IS(uint8_t, MPI_UINT8_T);
    IS(uint16_t, MPI_UINT16_T);
    IS(uint32_t, MPI_UINT32_T);
    IS(uint64_t, MPI_UINT64_T);
    IS(float _Complex, MPI_C_FLOAT_COMPLEX);
    IS(double _Complex, MPI_C_DOUBLE_COMPLEX);
    IS(long double _Complex, MPI_C_LONG_DOUBLE_COMPLEX);
    IS(MPI_Aint, MPI_AINT);
    IS(MPI_Offset, MPI_OFFSET);
    IS(MPI_Count, MPI_COUNT);
    is(MPI_PACKED, "MPI_PACKED", 1, 0, 1, 0, 1);
    struct { float v; int i; } fi;
    struct { double v; int i; } di;
    struct { long v; int i; } li;
    struct { short v; int i; } si;
    struct { long double v; int i; } ldi;
#define PAIR(S, M) /* data to the end of the int; extent as the compiler's struct */              \
    is(M, #M, (long)(sizeof S.v + sizeof S.i), 0, (long)sizeof S, 0,                              \
       (long)((char *)&S.i - (char *)&S + (long)sizeof S.i))
    PAIR(fi, MPI_FLOAT_INT);
    PAIR(di, MPI_DOUBLE_INT);
    PAIR(li, MPI_LONG_INT);
    PAIR(si, MPI_SHORT_INT);
    PAIR(ldi, MPI_LONG_DOUBLE_INT);
    is(MPI_2INT, "MPI_2INT", 8, 0, 8, 0, 8);
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    MPI_Datatype t, u;
    predefined();

    MPI_Type_contiguous(5, MPI_INT, &t);
    gone(t, "contiguous(5, int)", 20, 0, 20, 0, 20);
    MPI_Type_contiguous(0, MPI_INT, &t);
    gone(t, "contiguous(0, int)", 0, 0, 0, 0, 0);
    MPI_Type_vector(3, 2, 4, MPI_INT, &t);
    gone(t, "vector(3, 2, 4, int)", 24, 0, 40, 0, 40);
    MPI_Type_vector(3, 2, -4, MPI_INT, &t);
    gone(t, "vector(3, 2, -4, int)", 24, -32, 40, -32, 40);
    MPI_Type_vector(1, 7, 100, MPI_INT, &t);
    gone(t, "vector(1, 7, 100, int)", 28, 0, 28, 0, 28);
    MPI_Type_create_hvector(3, 1, 10, MPI_CHAR, &t);
    gone(t, "hvector(3, 1, 10, char)", 3, 0, 21, 0, 21);

    /* Nested, at displacements that do not fit the alignment: each part ends at its own upper
     * bound. MPICH leaves the epsilon out where there is no structure; both agree that a datatype
     * is no shorter than its parts laid end to end. */
    MPI_Datatype inner;
    MPI_Type_create_hvector(3, 4, 25, MPI_INT, &inner);
    is(inner, "hvector(3, 4, 25, int)", 48, 0, 68, 0, 66);
    MPI_Type_create_hvector(2, 3, 4 * 68 + 1, inner, &t);
    gone(t, "hvector(2, 3, 273, hvector(3, 4, 25, int))", 288, 0, 480, 0, 273 + 2 * 68 + 66);
    int lengths[2] = {3, 3};
    MPI_Aint at[2] = {0, 273};
    MPI_Type_create_hindexed(2, lengths, at, inner, &t);
    gone(t, "hindexed of hvectors", 288, 0, 480, 0, 475);
    MPI_Type_contiguous(3, inner, &t);
    gone(t, "contiguous(3, hvector(3, 4, 25, int))", 144, 0, 204, 0, 202);
    MPI_Type_free(&inner);

    int bl[3] = {2, 0, 1}, d[3] = {5, 100, 1};
    MPI_Type_indexed(3, bl, d, MPI_INT, &t);
    gone(t, "indexed", 12, 4, 24, 4, 24);
    MPI_Aint hd[3] = {16, 400, -8};
    MPI_Type_create_hindexed(3, bl, hd, MPI_INT, &t);
    gone(t, "hindexed", 12, -8, 32, -8, 32);
    int ibd[3] = {4, 0, 9};
    MPI_Type_create_indexed_block(3, 2, ibd, MPI_SHORT, &t);
    gone(t, "indexed_block", 12, 0, 22, 0, 22);
    MPI_Aint hbd[2] = {100, 3};
    MPI_Type_create_hindexed_block(2, 3, hbd, MPI_CHAR, &t);
    gone(t, "hindexed_block", 6, 3, 100, 3, 100);

    /* struct with padding: {double, char}: extent rounded up to the double's alignment */
    int sbl[2] = {1, 1};
    MPI_Aint sd[2] = {0, 8};
    MPI_Datatype st[2] = {MPI_DOUBLE, MPI_CHAR};
    MPI_Type_create_struct(2, sbl, sd, st, &t);
    is(t, "struct {double, char}", 9, 0, 16, 0, 9);
    MPI_Type_contiguous(3, t, &u);
    gone(u, "contiguous(3, struct)", 27, 0, 48, 0, 41);
    MPI_Type_vector(2, 2, 3, t, &u);
    gone(u, "vector(2, 2, 3, struct)", 36, 0, 80, 0, 73);
    /* resized: bounds move, data does not; nested resized wins over alignment */
    MPI_Type_create_resized(t, -4, 40, &u);
    is(u, "resized(-4, 40)", 9, -4, 40, 0, 9);
    MPI_Type_free(&t);
    MPI_Type_contiguous(2, u, &t);
    gone(t, "contiguous(2, resized)", 18, -4, 80, 0, 49);
    MPI_Type_create_hvector(2, 1, 100, u, &t);
    gone(t, "hvector(2, 1, 100, resized)", 18, -4, 140, 0, 109);
    MPI_Datatype st2[2] = {u, MPI_INT};
    MPI_Aint sd2[2] = {8, 200};
    MPI_Type_create_struct(2, sbl, sd2, st2, &t);
    MPI_Aint lb, ext;
    MPI_Type_get_extent(t, &lb, &ext);
    CHECK_INT(lb, 4, "lb of struct with a resized member");
    MPI_Type_free(&t);
    MPI_Type_free(&u);

    /* subarray: a 2x3 corner of a 6x8 array of ints, both orders */
    int sizes[2] = {6, 8}, sub[2] = {2, 3}, start[2] = {1, 4};
    MPI_Type_create_subarray(2, sizes, sub, start, MPI_ORDER_C, MPI_INT, &t);
    gone(t, "subarray C", 24, 0, 192, 48, 44);
    MPI_Type_create_subarray(2, sizes, sub, start, MPI_ORDER_FORTRAN, MPI_INT, &t);
    gone(t, "subarray Fortran", 24, 0, 192, 100, 56);

    /* names */
    char name[MPI_MAX_OBJECT_NAME];
    int len = -1;
    MPI_Type_get_name(MPI_DOUBLE, name, &len);
    CHECK(strcmp(name, "MPI_DOUBLE") == 0 && len == 10, "name of MPI_DOUBLE is \"%s\"", name);
    MPI_Type_get_name(MPI_DATATYPE_NULL, name, &len); /* the null handle has a name (MPI 4.1, 6.8) */
    CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0, "name of MPI_DATATYPE_NULL is \"%s\"", name);
    MPI_Type_contiguous(2, MPI_INT, &t);
    MPI_Type_get_name(t, name, &len);
    CHECK(len == 0 && !*name, "a new type has the name \"%s\"", name);
    MPI_Type_set_name(t, "pair of ints");
    MPI_Type_get_name(t, name, &len);
    CHECK(strcmp(name, "pair of ints") == 0 && len == 12, "name after set_name is \"%s\"", name);
    MPI_Type_free(&t);

    /* addresses */
    double place[4];
    MPI_Aint a, b;
    MPI_Get_address(&place[1], &a);
    MPI_Get_address(&place[3], &b);
    CHECK_INT(MPI_Aint_diff(b, a), 16, "MPI_Aint_diff");
    CHECK(MPI_Aint_add(a, 16) == b, "MPI_Aint_add");
    return test_finish();
}
