/* Access patterns over arrays of 32 KiB whose cache misses crates/sim/tests/cachegrind.rs counts, in the model and with valgrind's cachegrind.
   Argument: sweep (a triad over arrays), transpose (strides of a page), chase (a random cycle of pointers), unaligned
   (accesses that straddle lines). Prints a result that depends on every access. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 1 << 12, SIDE = 64 };

static double a[WORDS], b[WORDS], c[WORDS];
static uint32_t next_of[WORDS];

static double sweep(void)
{
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < WORDS; i++)
            a[i] = b[i] + 3 * c[i] + round;
    return a[WORDS - 1];
}

static double transpose(void)
{
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SIDE; i++)
            for (int j = 0; j < SIDE; j++)
                a[i * SIDE + j] += b[j * SIDE + i];
    return a[SIDE];
}

/* Sattolo's shuffle with a linear congruential generator makes one cycle through all words. */
static double chase(void)
{
    uint64_t state = 1;
    for (uint32_t i = 0; i < WORDS; i++)
        next_of[i] = i;
    for (uint32_t i = WORDS - 1; i > 0; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)(state >> 33) % i, kept = next_of[i];
        next_of[i] = next_of[j];
        next_of[j] = kept;
    }
    uint32_t at = 0;
    for (int i = 0; i < 2 * WORDS; i++)
        at = next_of[at];
    return at;
}

static double unaligned(void)
{
    const char *bytes = (const char *)b;
    double sum = 0;
    for (int round = 0; round < 2; round++)
        for (size_t at = 0; at + sizeof(double) < sizeof b; at += 61) {
            double value;
            memcpy(&value, bytes + at, sizeof value);
            sum += value;
        }
    return sum;
}

int main(int argc, char **argv)
{
    const char *pattern = argc > 1 ? argv[1] : "";
    for (int i = 0; i < WORDS; i++)
        b[i] = c[i] = i;
    if (!strcmp(pattern, "sweep"))
        printf("%g\n", sweep());
    else if (!strcmp(pattern, "transpose"))
        printf("%g\n", transpose());
    else if (!strcmp(pattern, "chase"))
        printf("%g\n", chase());
    else if (!strcmp(pattern, "unaligned"))
        printf("%g\n", unaligned());
    else
        return 2;
    return 0;
}
