/* Shared by every program in this directory: checks that name what differed, and one verdict.
 *
 * A program calls test_init(), any number of CHECK()s, and returns test_finish(). Rank 0 prints
 * "No Errors" when no rank failed; otherwise each failing rank has said on stderr where and what,
 * and every rank exits with 1. */
#ifndef TEST_H
#define TEST_H

#include <mpi.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GNUC__
#define TEST_UNUSED __attribute__((unused))
#define TEST_PRINTF __attribute__((format(printf, 4, 5)))
#else
#define TEST_UNUSED
#define TEST_PRINTF
#endif

static int test_rank = -1;
static int test_size = -1;
static int test_failures = 0;

/* At most this many messages per rank: the first ones tell the story. */
enum { TEST_MAX_MESSAGES = 8 };

#define CHECK(cond, ...)                                                                          \
    do {                                                                                          \
        if (!(cond))                                                                              \
            test_fail(__FILE__, __LINE__, #cond, __VA_ARGS__);                                    \
    } while (0)

static TEST_UNUSED void test_fail(const char *file, int line, const char *cond, const char *format,
                                  ...) TEST_PRINTF;

static TEST_UNUSED void test_fail(const char *file, int line, const char *cond, const char *format,
                                  ...)
{
    char text[1024]; /* one write per message, so that those of several ranks do not mix */
    va_list args;
    if (++test_failures > TEST_MAX_MESSAGES)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s:%d: rank %d of %d: %s [%s]\n", file, line, test_rank, test_size, text, cond);
}

#define CHECK_INT(actual, expected, what)                                                         \
    do {                                                                                          \
        long long actual_ = (long long)(actual), expected_ = (long long)(expected);               \
        CHECK(actual_ == expected_, "%s is %lld, expected %lld", what, actual_, expected_);       \
    } while (0)

/* Checks the error class of a return code, and that its text is there. */
#define CHECK_CLASS(code, expected, what) test_class(__FILE__, __LINE__, code, expected, expected, what)
/* Where MPI leaves the class open between two. */
#define CHECK_EITHER(code, one, other, what) test_class(__FILE__, __LINE__, code, one, other, what)

/* The error class of a return code. */
static TEST_UNUSED int test_class_of(int code)
{
    int cls = -1;
    MPI_Error_class(code, &cls);
    return cls;
}

static TEST_UNUSED void test_class(const char *file, int line, int code, int one, int other,
                                   const char *what)
{
    int cls = test_class_of(code), len = 0;
    char text[MPI_MAX_ERROR_STRING + 1] = "", want[MPI_MAX_ERROR_STRING + 1] = "";
    MPI_Error_string(one, want, &len);
    MPI_Error_string(code, text, &len);
    if (cls != one && cls != other)
        test_fail(file, line, what, "error class is %d (%s), expected %d (%s)", cls, text, one, want);
    if (len <= 0 || (int)strlen(text) != len)
        test_fail(file, line, what, "error string of code %d is empty", code);
}

/* Deterministic bytes. Stream `seed` is made by words of eight, since many programs do little else
 * than fill and compare: word i has bytes 8 i to 8 i + 7, the lowest first, as in memory on all
 * machines that Mica runs on. */
static TEST_UNUSED uint64_t test_word(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    return x ^ (x >> 32);
}

static TEST_UNUSED unsigned char test_byte(uint64_t seed, uint64_t i)
{
    return (unsigned char)(test_word(seed, i / 8) >> (8 * (i % 8)));
}

static TEST_UNUSED void test_fill(void *buf, size_t n, uint64_t seed)
{
    unsigned char *p = buf;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word = test_word(seed, i / 8);
        memcpy(p + i, &word, 8);
    }
    for (; i < n; i++)
        p[i] = test_byte(seed, i);
}

/* Compares `n` bytes with those of stream `seed` from its byte `first` on. Returns the index in
 * `buf` of the first byte that differs, or n. */
static TEST_UNUSED size_t test_verify_from(const void *buf, size_t n, uint64_t seed, uint64_t first)
{
    const unsigned char *p = buf;
    for (size_t i = 0; i < n;) {
        uint64_t word = test_word(seed, (first + i) / 8);
        if ((first + i) % 8 == 0 && i + 8 <= n && memcmp(p + i, &word, 8) == 0)
            i += 8;
        else if (p[i] == test_byte(seed, first + i))
            i++;
        else
            return i;
    }
    return n;
}

/* Index of the first byte that differs from stream `seed`, or n. */
static TEST_UNUSED size_t test_verify(const void *buf, size_t n, uint64_t seed)
{
    return test_verify_from(buf, n, seed, 0);
}

/* Index of the first byte that is not `value`, or n. */
static TEST_UNUSED size_t test_all(const void *buf, size_t n, unsigned char value)
{
    const unsigned char *p = buf;
    /* Each byte is the one before it, and the first one is right: memcmp is faster than a loop. */
    if (n == 0 || (p[0] == value && memcmp(p, p + 1, n - 1) == 0))
        return n;
    size_t i = 0;
    while (p[i] == value)
        i++;
    return i;
}

static TEST_UNUSED void *test_alloc(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p) {
        fprintf(stderr, "rank %d: malloc(%zu) failed\n", test_rank, n);
        exit(2);
    }
    return p;
}

static TEST_UNUSED void test_init(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
}

/* Says why nothing was tested; the harness reports it as skipped. */
static TEST_UNUSED int test_skip(const char *reason)
{
    if (test_rank == 0)
        printf("SKIP: %s\n", reason);
    MPI_Finalize();
    return 0;
}

/* For a program that needs at least `ranks`: a test list that starts it with fewer is wrong. */
static TEST_UNUSED void test_needs(int ranks)
{
    if (test_size < ranks) {
        fprintf(stderr, "%s needs %d ranks, has %d\n", __FILE__, ranks, test_size);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

/* The verdict without MPI_Finalize, for programs that test finalization itself. */
static TEST_UNUSED int test_verdict(void)
{
    int total = 0;
    if (test_failures > TEST_MAX_MESSAGES)
        fprintf(stderr, "rank %d: %d failures in all\n", test_rank, test_failures);
    MPI_Allreduce(&test_failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (test_rank == 0 && total == 0)
        printf("No Errors\n");
    fflush(stdout);
    return total != 0;
}

static TEST_UNUSED int test_finish(void)
{
    int failed = test_verdict();
    MPI_Finalize();
    return failed;
}

/* Sizes from 0 B to `max` around every power of two, where protocols change; returns how many. */
static TEST_UNUSED int test_sizes(size_t *sizes, int capacity, size_t max)
{
    int n = 0;
    sizes[n++] = 0;
    sizes[n++] = 1;
    for (size_t p = 2; p <= max && n + 3 <= capacity; p *= 2) {
        if (p > 2)
            sizes[n++] = p - 1;
        sizes[n++] = p;
        if (p + 1 <= max + 1)
            sizes[n++] = p + 1;
    }
    return n;
}

#endif
