/* Every predefined operator on every C datatype that MPI allows it on (MPI 4.1 section 6.9.2), by
 * Allreduce, Reduce and Scan over several lengths (vector code has tails), against plain C.
 * Values are small, so floating sums and products are exact in any order. */
#include "test.h"

#include <complex.h>
#include <stdbool.h>

enum { MAXN = 77 };
static const int lengths[] = {1, 9, 77};

static int raw(int rank, int i)
{
    return (rank * 5 + i * 3) % 4 + 1;
}

/* For each C type: fill, fold by each operator, compare. */
#define FOLD(T, NAME, MPITYPE, OPNAME, MPIOP, VALUE, EXPR)                                        \
    static void NAME##_##OPNAME(void)                                                             \
    {                                                                                             \
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {                           \
            int n = lengths[l];                                                                   \
            T s[MAXN], r[MAXN], c[MAXN], w[MAXN];                                                 \
            memset(r, 0, sizeof r);                                                               \
            memset(c, 0, sizeof c);                                                               \
            for (int i = 0; i < n; i++)                                                           \
                s[i] = (T)(VALUE(test_rank, i));                                                  \
            MPI_Allreduce(s, r, n, MPITYPE, MPIOP, MPI_COMM_WORLD);                               \
            MPI_Scan(s, c, n, MPITYPE, MPIOP, MPI_COMM_WORLD);                                    \
            for (int i = 0; i < n; i++) {                                                         \
                T b = (T)(VALUE(0, i));                                                           \
                T scan = b;                                                                       \
                for (int k = 1; k < test_size; k++) {                                             \
                    T a = b;                                                                      \
                    b = (T)(VALUE(k, i));                                                         \
                    b = (T)(EXPR);                                                                \
                    if (k == test_rank)                                                           \
                        scan = b;                                                                 \
                }                                                                                 \
                w[i] = b;                                                                         \
                CHECK(r[i] == b, "Allreduce %s on %s, %d elements: element %d differs", #MPIOP,   \
                      #MPITYPE, n, i);                                                            \
                CHECK(c[i] == scan, "Scan %s on %s, %d elements: element %d differs", #MPIOP,     \
                      #MPITYPE, n, i);                                                            \
            }                                                                                     \
            int root = n % test_size;                                                             \
            memset(r, 0, sizeof r);                                                               \
            MPI_Reduce(s, r, n, MPITYPE, MPIOP, root, MPI_COMM_WORLD);                            \
            for (int i = 0; i < n && test_rank == root; i++)                                      \
                CHECK(r[i] == w[i], "Reduce %s on %s, %d elements: element %d differs", #MPIOP,   \
                      #MPITYPE, n, i);                                                            \
        }                                                                                         \
    }

#define SIGNED_VALUE(r, i) (raw(r, i) - 2)
#define PLAIN_VALUE(r, i) raw(r, i)
#define TRUTH_VALUE(r, i) ((raw(r, i) + (r)) % 3 != 0)
#define BITS_VALUE(r, i) (0x5A ^ (raw(r, i) * 0x1B))

#define ARITH(T, N, M)                                                                            \
    FOLD(T, N, M, sum, MPI_SUM, PLAIN_VALUE, a + b)                                               \
    FOLD(T, N, M, prod, MPI_PROD, PLAIN_VALUE, a *b)
#define ORDER(T, N, M)                                                                            \
    FOLD(T, N, M, max, MPI_MAX, PLAIN_VALUE, a > b ? a : b)                                       \
    FOLD(T, N, M, min, MPI_MIN, PLAIN_VALUE, a < b ? a : b)
#define LOGIC(T, N, M)                                                                            \
    FOLD(T, N, M, land, MPI_LAND, TRUTH_VALUE, a &&b)                                             \
    FOLD(T, N, M, lor, MPI_LOR, TRUTH_VALUE, a || b)                                              \
    FOLD(T, N, M, lxor, MPI_LXOR, TRUTH_VALUE, !a != !b)
#define BITS(T, N, M)                                                                             \
    FOLD(T, N, M, band, MPI_BAND, BITS_VALUE, a &b)                                               \
    FOLD(T, N, M, bor, MPI_BOR, BITS_VALUE, a | b)                                                \
    FOLD(T, N, M, bxor, MPI_BXOR, BITS_VALUE, a ^ b)
#define INTEGER(T, N, M) ARITH(T, N, M) ORDER(T, N, M) LOGIC(T, N, M) BITS(T, N, M)
#define REAL(T, N, M) ARITH(T, N, M) ORDER(T, N, M)

#define INTEGERS(X)                                                                               \
    X(int, c_int, MPI_INT)                                                                        \
    X(long, c_long, MPI_LONG)                                                                     \
    X(short, c_short, MPI_SHORT)                                                                  \
    X(unsigned short, c_ushort, MPI_UNSIGNED_SHORT)                                               \
    X(unsigned, c_uint, MPI_UNSIGNED)                                                             \
    X(unsigned long, c_ulong, MPI_UNSIGNED_LONG)                                                  \
    X(long long, c_llong, MPI_LONG_LONG)                                                          \
    X(unsigned long long, c_ullong, MPI_UNSIGNED_LONG_LONG)                                       \
    X(signed char, c_schar, MPI_SIGNED_CHAR)                                                      \
    X(char, c_char, MPI_CHAR) /* not by the standard, but by MPICH and all that follow it */      \
    X(unsigned char, c_uchar, MPI_UNSIGNED_CHAR)                                                  \
    X(int8_t, c_i8, MPI_INT8_T)                                                                   \
    X(int16_t, c_i16, MPI_INT16_T)                                                                \
    X(int32_t, c_i32, MPI_INT32_T)                                                                \
    X(int64_t, c_i64, MPI_INT64_T)                                                                \
    X(uint8_t, c_u8, MPI_UINT8_T)                                                                 \
    X(uint16_t, c_u16, MPI_UINT16_T)                                                              \
    X(uint32_t, c_u32, MPI_UINT32_T)                                                              \
    X(uint64_t, c_u64, MPI_UINT64_T)
/* MPI's own integer types take arithmetic, order and bits, not logic. */
#define MPI_INTEGERS(X)                                                                           \
    X(MPI_Aint, m_aint, MPI_AINT)                                                                 \
    X(MPI_Offset, m_offset, MPI_OFFSET)                                                           \
    X(MPI_Count, m_count, MPI_COUNT)
#define MULTI(T, N, M) ARITH(T, N, M) ORDER(T, N, M) BITS(T, N, M)
#define REALS(X)                                                                                  \
    X(float, c_float, MPI_FLOAT)                                                                  \
    X(double, c_double, MPI_DOUBLE)                                                               \
    X(long double, c_ldouble, MPI_LONG_DOUBLE)
#define COMPLEXES(X)                                                                              \
    X(float _Complex, c_fcomplex, MPI_C_COMPLEX)                                                  \
    X(float _Complex, c_fcomplex2, MPI_C_FLOAT_COMPLEX)                                           \
    X(double _Complex, c_dcomplex, MPI_C_DOUBLE_COMPLEX)                                          \
    X(long double _Complex, c_lcomplex, MPI_C_LONG_DOUBLE_COMPLEX)

#define COMPLEX_VALUE(r, i) (raw(r, i) - 2 + (raw(i, r) - 1) * I)
#define COMPLEX(T, N, M)                                                                          \
    FOLD(T, N, M, sum, MPI_SUM, COMPLEX_VALUE, a + b)                                             \
    FOLD(T, N, M, prod, MPI_PROD, COMPLEX_VALUE, a *b)

INTEGERS(INTEGER)
MPI_INTEGERS(MULTI)
REALS(REAL)
COMPLEXES(COMPLEX)
LOGIC(bool, c_bool, MPI_C_BOOL)
BITS(unsigned char, m_byte, MPI_BYTE)
LOGIC(int, f_logical, MPI_LOGICAL)
INTEGER(char, f_character, MPI_CHARACTER)
FOLD(int, c_int, MPI_INT, signed_min, MPI_MIN, SIGNED_VALUE, a < b ? a : b)
FOLD(signed char, c_schar, MPI_SIGNED_CHAR, signed_max, MPI_MAX, SIGNED_VALUE, a > b ? a : b)
FOLD(double, c_double, MPI_DOUBLE, signed_min, MPI_MIN, SIGNED_VALUE, a < b ? a : b)

/* Pairs for MPI_MAXLOC and MPI_MINLOC: ties go to the lower index. */
#define PAIR(T, NAME, MPITYPE)                                                                    \
    static void pair_##NAME(void)                                                                 \
    {                                                                                             \
        typedef struct {                                                                          \
            T v;                                                                                  \
            int i;                                                                                \
        } P;                                                                                      \
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {                           \
            int n = lengths[l];                                                                   \
            P s[MAXN], hi[MAXN], lo[MAXN];                                                        \
            memset(s, 0, sizeof s);                                                               \
            for (int k = 0; k < n; k++) {                                                         \
                s[k].v = (T)SIGNED_VALUE(test_rank, k);                                           \
                s[k].i = (test_size - test_rank) * 10; /* the last rank has the lowest index */   \
            }                                                                                     \
            MPI_Allreduce(s, hi, n, MPITYPE, MPI_MAXLOC, MPI_COMM_WORLD);                         \
            MPI_Allreduce(s, lo, n, MPITYPE, MPI_MINLOC, MPI_COMM_WORLD);                         \
            for (int k = 0; k < n; k++) {                                                         \
                int hi_rank = 0, lo_rank = 0;                                                     \
                for (int r = 1; r < test_size; r++) {                                             \
                    if (SIGNED_VALUE(r, k) >= SIGNED_VALUE(hi_rank, k))                           \
                        hi_rank = r;                                                              \
                    if (SIGNED_VALUE(r, k) <= SIGNED_VALUE(lo_rank, k))                           \
                        lo_rank = r;                                                              \
                }                                                                                 \
                CHECK(hi[k].v == (T)SIGNED_VALUE(hi_rank, k), "MAXLOC %s: value %d differs",      \
                      #MPITYPE, k);                                                               \
                CHECK(hi[k].i == (test_size - hi_rank) * 10, "MAXLOC %s: index %d is %d",         \
                      #MPITYPE, k, hi[k].i);                                                      \
                CHECK(lo[k].v == (T)SIGNED_VALUE(lo_rank, k), "MINLOC %s: value %d differs",      \
                      #MPITYPE, k);                                                               \
                CHECK(lo[k].i == (test_size - lo_rank) * 10, "MINLOC %s: index %d is %d",         \
                      #MPITYPE, k, lo[k].i);                                                      \
            }                                                                                     \
        }                                                                                         \
    }
PAIR(float, float, MPI_FLOAT_INT)
PAIR(double, double, MPI_DOUBLE_INT)
PAIR(long, long, MPI_LONG_INT)
PAIR(short, short, MPI_SHORT_INT)
PAIR(int, int, MPI_2INT)
PAIR(long double, ldouble, MPI_LONG_DOUBLE_INT)

#define RUN_ARITH(T, N, M) N##_sum(), N##_prod();
#define RUN_ORDER(T, N, M) N##_max(), N##_min();
#define RUN_LOGIC(T, N, M) N##_land(), N##_lor(), N##_lxor();
#define RUN_BITS(T, N, M) N##_band(), N##_bor(), N##_bxor();
#define RUN_INTEGER(T, N, M) RUN_MULTI(T, N, M) RUN_LOGIC(T, N, M)
#define RUN_MULTI(T, N, M) RUN_REAL(T, N, M) RUN_BITS(T, N, M)
#define RUN_REAL(T, N, M) RUN_ARITH(T, N, M) RUN_ORDER(T, N, M)

/* Reduce_local must leave its first argument alone and compute inout = in op inout. */
static void local(void)
{
    double a[5] = {1, 2, 3, 4, 5}, b[5] = {10, 20, 30, 40, 50};
    MPI_Reduce_local(a, b, 5, MPI_DOUBLE, MPI_SUM);
    for (int i = 0; i < 5; i++) {
        CHECK(b[i] == 11.0 * (i + 1), "Reduce_local MPI_SUM: element %d is %g", i, b[i]);
        CHECK(a[i] == i + 1, "Reduce_local changed its input");
    }
}

/* The other reductions on MPI_CHAR, values with a sign if char has one. */
static void characters(void)
{
    enum { N = 100 };
    char s[N * 8], r[N * 8], x[N];
    int counts[8], blocks = test_size < 8 ? test_size : 0;
    MPI_Request request;
    for (int i = 0; i < N * 8; i++)
        s[i] = (char)(test_rank + i - 50);
    memset(x, 0, sizeof x);
    MPI_Exscan(s, x, N, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N && test_rank > 0; i++) {
        char want = 0;
        for (int k = 0; k < test_rank; k++)
            want = (char)(want + k + i - 50);
        CHECK_INT(x[i], want, "Exscan of MPI_SUM on MPI_CHAR");
    }
    MPI_Iallreduce(s, r, N, MPI_CHAR, MPI_MIN, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++) {
        char want = (char)(i - 50);
        for (int k = 1; k < test_size; k++)
            want = (char)(k + i - 50) < want ? (char)(k + i - 50) : want;
        CHECK_INT(r[i], want, "Iallreduce of MPI_MIN on MPI_CHAR");
    }
    MPI_Reduce_local(s, memcpy(r, s, sizeof r), N, MPI_CHAR, MPI_SUM);
    for (int i = 0; i < N; i++)
        CHECK_INT(r[i], (char)(2 * s[i]), "Reduce_local of MPI_SUM on MPI_CHAR");
    if (blocks == 0)
        return;
    for (int i = 0; i < blocks; i++)
        counts[i] = N;
    for (int form = 0; form < 2; form++) {
        memset(r, 0, sizeof r);
        if (form == 0)
            MPI_Reduce_scatter_block(s, r, N, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
        else
            MPI_Reduce_scatter(s, r, counts, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < N; i++) {
            char want = 0;
            for (int k = 0; k < test_size; k++)
                want = (char)(want + (char)(k + test_rank * N + i - 50));
            CHECK_INT(r[i], want, form ? "Reduce_scatter" : "Reduce_scatter_block");
        }
    }
}

/* Those that every call refuses. */
static void refused(void)
{
    long long a[4] = {0}, b[4] = {0};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm w = MPI_COMM_WORLD;
    CHECK_CLASS(MPI_Allreduce(a, b, 1, MPI_WCHAR, MPI_SUM, w), MPI_ERR_OP, "SUM on MPI_WCHAR");
    CHECK_CLASS(MPI_Allreduce(a, b, 1, MPI_PACKED, MPI_BAND, w), MPI_ERR_OP, "BAND on MPI_PACKED");
    CHECK_CLASS(MPI_Allreduce(a, b, 1, MPI_CHAR, MPI_MAXLOC, w), MPI_ERR_OP, "MAXLOC on MPI_CHAR");
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    INTEGERS(RUN_INTEGER)
    MPI_INTEGERS(RUN_MULTI)
    REALS(RUN_REAL)
    COMPLEXES(RUN_ARITH)
    RUN_LOGIC(, c_bool, )
    RUN_BITS(, m_byte, )
    int logical = 0; /* a Fortran type: there may be none, or one of another size */
    if (MPI_LOGICAL != MPI_DATATYPE_NULL && MPI_Type_size(MPI_LOGICAL, &logical) == MPI_SUCCESS &&
        logical == sizeof(int)) {
        RUN_LOGIC(, f_logical, )
    }
    int character = 0;
    if (MPI_CHARACTER != MPI_DATATYPE_NULL &&
        MPI_Type_size(MPI_CHARACTER, &character) == MPI_SUCCESS && character == 1) {
        RUN_INTEGER(, f_character, )
    }
    c_int_signed_min();
    c_schar_signed_max();
    c_double_signed_min();
    pair_float();
    pair_double();
    pair_long();
    pair_short();
    pair_int();
    pair_ldouble();
    local();
    characters();
    refused();
    return test_finish();
}
