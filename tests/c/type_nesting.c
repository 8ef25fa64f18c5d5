/* Datatypes of many levels: constructors nest without a limit (MPI 5.0, 5.1), so whatever the
 * library does with a datatype takes no stack for its levels. Each kind of chain is made, used and
 * freed, by the first thread and by one whose stack is small.
 *
 * argv: levels. */
#include "test.h"
#include <limits.h>
#include <pthread.h>

enum { DUP, RESIZED, CONTIGUOUS, VECTOR, STRUCT, RAGGED, KINDS };
static const char *const kind_names[KINDS] = {"dup", "resized", "contiguous", "vector", "struct", "ragged struct"};

enum { PIECES = 40 };

static int levels = 100000;

/* The next level around `inner`; a struct is one byte longer, a ragged one PIECES bytes. */
static MPI_Datatype next_level(int kind, MPI_Datatype inner, MPI_Aint end)
{
    MPI_Datatype outer = MPI_DATATYPE_NULL;
    switch (kind) {
    case DUP:
        MPI_Type_dup(inner, &outer);
        break;
    case RESIZED:
        MPI_Type_create_resized(inner, 0, 8, &outer);
        break;
    case CONTIGUOUS:
        MPI_Type_contiguous(1, inner, &outer);
        break;
    case VECTOR:
        MPI_Type_vector(1, 1, 1, inner, &outer);
        break;
    default: {
        int n = kind == STRUCT ? 1 : PIECES, lengths[PIECES + 1];
        MPI_Aint at[PIECES + 1] = {0};
        MPI_Datatype types[PIECES + 1] = {inner};
        lengths[0] = 1;
        for (int i = 1; i <= n; i++) {
            lengths[i] = 1;
            at[i] = end + 2 * i + i % 3; /* at uneven distances, or they would be one loop */
            types[i] = MPI_BYTE;
        }
        MPI_Type_create_struct(n + 1, lengths, at, types, &outer);
    }
    }
    return outer;
}

static void use(int kind, MPI_Datatype t, int depth)
{
    int each = kind == STRUCT ? 1 : kind == RAGGED ? PIECES : 0, size, elements = -1, count = -1, position = 0;
    MPI_Aint lb, extent;
    MPI_Status status;
    MPI_Type_size(t, &size);
    CHECK_INT(size, 4 + each * depth, kind_names[kind]);
    MPI_Type_get_true_extent(t, &lb, &extent);
    unsigned char *out = test_alloc((size_t)extent), *in = test_alloc((size_t)extent);
    unsigned char *packed = test_alloc((size_t)size), *there = test_alloc((size_t)size);
    test_fill(out, (size_t)extent, (uint64_t)kind);
    memset(in, 0, (size_t)extent);
    MPI_Pack(out, 1, t, packed, size, &position, MPI_COMM_SELF);
    MPI_Sendrecv(out, 1, t, 0, kind, in, 1, t, 0, kind, MPI_COMM_SELF, &status);
    MPI_Get_count(&status, t, &count);
    MPI_Get_elements(&status, t, &elements);
    CHECK_INT(count, 1, kind_names[kind]);
    CHECK_INT(elements, 1 + each * depth, kind_names[kind]);
    position = 0;
    MPI_Pack(in, 1, t, there, size, &position, MPI_COMM_SELF);
    CHECK(memcmp(packed, there, (size_t)size) == 0, "a message of a %s of %d levels has other bytes", kind_names[kind], depth);
    if (kind != STRUCT) {
        MPI_Aint external = 0;
        MPI_Pack_external_size("external32", 1, t, &external);
        CHECK_INT(external, size, "bytes in external32");
        external = 0;
        MPI_Pack_external("external32", out, 1, t, there, size, &external);
        CHECK(there[0] == packed[3] && there[3] == packed[0], "the number in external32 begins with %d", there[0]);
    }
    if (each == 0) { /* one number: the machine type of all entries is found */
        int number = 5, target = 2;
        MPI_Win win;
        MPI_Win_create(&target, sizeof target, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
        MPI_Win_fence(0, win);
        CHECK_INT(MPI_Accumulate(&number, 1, t, 0, 0, 1, t, MPI_SUM, win), MPI_SUCCESS, "MPI_Accumulate");
        MPI_Win_fence(0, win);
        CHECK_INT(target, 7, "an accumulated number");
        MPI_Win_free(&win);
    }
    free(out);
    free(in);
    free(packed);
    free(there);
}

static void chain(int kind, int depth)
{
    MPI_Datatype t;
    MPI_Aint end = 4;
    MPI_Type_dup(MPI_INT, &t);
    for (int i = 0; i < depth; i++) {
        MPI_Datatype inner = t;
        MPI_Aint lb;
        t = next_level(kind, inner, end);
        MPI_Type_free(&inner);
        if (kind == STRUCT || kind == RAGGED)
            MPI_Type_get_true_extent(t, &lb, &end);
    }
    MPI_Type_commit(&t);
    use(kind, t, depth);
    MPI_Type_free(&t);
}

static void *all(void *nothing)
{
    for (int kind = 0; kind < KINDS; kind++)
        chain(kind, kind == RAGGED ? levels / 100 : kind == STRUCT ? levels / 5 : levels);
    return nothing;
}

int main(int argc, char **argv)
{
    int provided;
    size_t stack = 64 << 10;
    pthread_attr_t attributes;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    if (argc > 1)
        levels = atoi(argv[1]);
    all(NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    CHECK_INT(pthread_create(&thread, &attributes, all, NULL), 0, "pthread_create");
    pthread_join(thread, NULL);
    return test_finish();
}
