/* What one-sided operations do to memory, computed without MPI: element types, reduction operators,
 * random values. Used by rma_random. */
#ifndef RMA_MODEL_H
#define RMA_MODEL_H
#include "rma.h"

/* Which operators an element type has (MPI 5.0, 6.9.2). */
typedef enum { SIGNED, UNSIGNED, MULTI, BYTES, REAL, COMPLEX, PAIR } TypeClass;

typedef struct {
    MPI_Datatype type;
    const char *name;
    TypeClass class;
    int size;
} Element;

/* Integers come first, then what compare_and_swap does not take. */
enum { ELEMENTS = 22, CAS_ELEMENTS = 17 };
static Element elements[ELEMENTS];

static void elements_make(void)
{
    const Element all[ELEMENTS] = {
        {MPI_INT8_T, "int8", SIGNED, 1},
        {MPI_INT16_T, "int16", SIGNED, 2},
        {MPI_INT32_T, "int32", SIGNED, 4},
        {MPI_INT64_T, "int64", SIGNED, 8},
        {MPI_UINT8_T, "uint8", UNSIGNED, 1},
        {MPI_UINT16_T, "uint16", UNSIGNED, 2},
        {MPI_UINT32_T, "uint32", UNSIGNED, 4},
        {MPI_UINT64_T, "uint64", UNSIGNED, 8},
        {MPI_INT, "int", SIGNED, sizeof(int)},
        {MPI_LONG, "long", SIGNED, sizeof(long)},
        {MPI_SHORT, "short", SIGNED, sizeof(short)},
        {MPI_UNSIGNED_CHAR, "unsigned char", UNSIGNED, 1},
        {MPI_LONG_LONG, "long long", SIGNED, sizeof(long long)},
        {MPI_AINT, "aint", MULTI, sizeof(MPI_Aint)},
        {MPI_COUNT, "count", MULTI, sizeof(MPI_Count)},
        {MPI_OFFSET, "offset", MULTI, sizeof(MPI_Offset)},
        {MPI_BYTE, "byte", BYTES, 1},
        {MPI_FLOAT, "float", REAL, sizeof(float)},
        {MPI_DOUBLE, "double", REAL, sizeof(double)},
        {MPI_C_FLOAT_COMPLEX, "float complex", COMPLEX, 2 * sizeof(float)},
        {MPI_C_DOUBLE_COMPLEX, "double complex", COMPLEX, 2 * sizeof(double)},
        {MPI_2INT, "2int", PAIR, 2 * sizeof(int)},
    };
    memcpy(elements, all, sizeof all);
}

/* Whether memory of any bits is a value that operators treat exactly. */
static int any_bits(const Element *e)
{
    return e->class != REAL && e->class != COMPLEX;
}

typedef enum {
    SUM,
    PROD,
    MIN,
    MAX,
    BAND,
    BOR,
    BXOR,
    LAND,
    LOR,
    LXOR,
    MINLOC,
    MAXLOC,
    REPLACE,
    NO_OP,
    OPS
} OpName;

static const char *const op_names[OPS] = {"sum",    "prod",   "min",     "max",  "band",
                                          "bor",    "bxor",   "land",    "lor",  "lxor",
                                          "minloc", "maxloc", "replace", "no_op"};

static MPI_Op op_handle(OpName op)
{
    const MPI_Op handles[OPS] = {MPI_SUM,    MPI_PROD,   MPI_MIN,     MPI_MAX,  MPI_BAND,
                                 MPI_BOR,    MPI_BXOR,   MPI_LAND,    MPI_LOR,  MPI_LXOR,
                                 MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP};
    return handles[op];
}

/* Whether the type has the operator, and partial results of random values stay exact. */
static int op_fits(const Element *e, OpName op)
{
    if (op == REPLACE || op == NO_OP)
        return 1;
    switch (e->class) {
    case SIGNED:
    case UNSIGNED:
        return op <= LXOR;
    case MULTI:
        return op <= BXOR;
    case BYTES:
        return op >= BAND && op <= BXOR;
    case REAL:
        return op <= MAX;
    case COMPLEX:
        return op == SUM;
    default:
        return op == MINLOC || op == MAXLOC;
    }
}

/* A random operator of the type; `shared` is one with which several ranks may update an element in
 * any order with the same result. */
static OpName op_random(uint64_t *random, const Element *e, int shared)
{
    OpName op;
    do
        op = (OpName)rma_below(random, OPS);
    while (!op_fits(e, op) ||
           (shared && (op == REPLACE || op == NO_OP || (op == PROD && e->class == REAL))));
    return op;
}

static uint64_t wide(const Element *e, const unsigned char *p)
{
    int64_t v = 0;
    int bits = 8 * e->size;
    memcpy(&v, p, (size_t)e->size); /* little-endian, as all machines that Mica runs on */
    if (e->class != UNSIGNED && e->class != BYTES && bits < 64)
        v = (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
    return (uint64_t)v;
}

static uint64_t whole(const Element *e, OpName op, uint64_t a, uint64_t b)
{
    int less = e->class == UNSIGNED ? a < b : (int64_t)a < (int64_t)b;
    switch (op) {
    case SUM:
        return a + b;
    case PROD:
        return a * b;
    case MIN:
        return less ? a : b;
    case MAX:
        return less ? b : a;
    case BAND:
        return a & b;
    case BOR:
        return a | b;
    case BXOR:
        return a ^ b;
    case LAND:
        return a && b;
    case LOR:
        return a || b;
    default: /* LXOR */
        return !a != !b;
    }
}

static double real(OpName op, double a, double b)
{
    switch (op) {
    case SUM:
        return a + b;
    case PROD:
        return a * b;
    case MIN:
        return a < b ? a : b;
    default: /* MAX */
        return a < b ? b : a;
    }
}

/* `reals` floating-point numbers of `size` bytes each. */
static void apply_reals(OpName op, int size, int reals, unsigned char *to,
                        const unsigned char *from)
{
    for (int i = 0; i < reals; i++, to += size, from += size)
        if (size == sizeof(float)) {
            float a, b;
            memcpy(&a, to, sizeof a), memcpy(&b, from, sizeof b);
            a = (float)real(op, a, b);
            memcpy(to, &a, sizeof a);
        } else {
            double a, b;
            memcpy(&a, to, sizeof a), memcpy(&b, from, sizeof b);
            a = real(op, a, b);
            memcpy(to, &a, sizeof a);
        }
}

static void apply_pair(OpName op, unsigned char *to, const unsigned char *from)
{
    int a[2], b[2];
    memcpy(a, to, sizeof a), memcpy(b, from, sizeof b);
    int better = op == MINLOC ? b[0] < a[0] : b[0] > a[0];
    if (better || (b[0] == a[0] && b[1] < a[1]))
        memcpy(to, b, sizeof b);
}

/* to[i] = to[i] op from[i] for `n` elements. */
static void apply(const Element *e, OpName op, unsigned char *to, const unsigned char *from, int n)
{
    if (op == REPLACE)
        memcpy(to, from, (size_t)n * (size_t)e->size);
    if (op == REPLACE || op == NO_OP)
        return;
    for (int i = 0; i < n; i++, to += e->size, from += e->size)
        if (e->class == REAL) {
            apply_reals(op, e->size, 1, to, from);
        } else if (e->class == COMPLEX) {
            apply_reals(op, e->size / 2, 2, to, from);
        } else if (e->class == PAIR) {
            apply_pair(op, to, from);
        } else {
            uint64_t v = whole(e, op, wide(e, to), wide(e, from));
            memcpy(to, &v, (size_t)e->size);
        }
}

/* Random values: any bits, but small positive whole numbers in floating point, so that all results
 * are exact and none is a zero, of which there are two. */
static void fill(const Element *e, unsigned char *to, int n, uint64_t seed)
{
    if (any_bits(e)) {
        test_fill(to, (size_t)n * (size_t)e->size, seed);
        return;
    }
    int size = e->class == COMPLEX ? e->size / 2 : e->size;
    for (int i = 0; i < n * (e->size / size); i++, to += size) {
        double d = test_byte(seed, (uint64_t)i) % 8 + 1;
        float f = (float)d;
        memcpy(to, size == sizeof f ? (void *)&f : (void *)&d, (size_t)size);
    }
}

#endif
