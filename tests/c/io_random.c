/* Random access of all kinds against a model: every rank draws the same numbers, so it knows what
 * all ranks do, keeps the bytes that the file must have, and compares them, and what it reads,
 * after each operation.
 *
 * argv: seed, operations, hints as "key=value,key=value", and "strict": files that grow and are
 * cut, reads across their ends, which MPICH 5.0.2 counts wrongly. */
#include "io_model.h"

enum { FILE_MAX = 1 << 15, GUARD = 0xa5 };

static int operation;

static struct {
    MPI_File f;
    const Etype *e;
    View *views; /* of all ranks */
    int common;  /* they are the same: shared pointers may be used */
    MPI_Offset *pointers, shared;
    int atomic;
    unsigned char *bytes; /* of the file */
    long size;
    char what[400];
} run;

/* Where byte n of unit k of the rank is in the file. */
static long place(int rank, long k, int n)
{
    return view_place(&run.views[rank], run.e, k, n);
}

/* A common view, one that divides the file among the ranks in turn, or any for each rank. */
static void views_draw(void)
{
    int kind = draw(3);
    MPI_Datatype t;
    run.e = &etypes[draw(ETYPES)];
    run.views[0] = view_draw(run.e);
    for (int rank = 1; rank < test_size; rank++)
        run.views[rank] = kind == 2 ? view_draw(run.e) : run.views[0];
    if (kind == 1) {
        View v = {.shape = CONTIGUOUS, .a = 1 + draw(4), .disp = draw(100)};
        for (int i = 0; i < v.a; i++)
            add_unit(&v, run.e, i);
        v.extent = (long)test_size * v.a * run.e->extent;
        for (int rank = 0; rank < test_size; rank++) {
            run.views[rank] = v;
            run.views[rank].disp += (long)rank * v.a * run.e->extent;
        }
    }
    run.common = kind == 0;
    t = view_type(&run.views[test_rank], run.e);
    OK(MPI_File_set_view(run.f, run.views[test_rank].disp, run.e->type, t, "native", io_hints));
    MPI_Type_free(&t);
    memset(run.pointers, 0, (size_t)test_size * sizeof *run.pointers);
    run.shared = 0;
}

/* What one rank does in an operation, known to all. */
typedef struct {
    MPI_Offset offset; /* in units */
    int count, memory;
    uint64_t stream; /* of what it writes */
} Part;

typedef enum { EXPLICIT, INDIVIDUAL, SHARED, POINTERS } Pointer;
typedef enum { BLOCKING, NONBLOCKING, COLLECTIVE, SPLIT, COLLECTIVE_I, MODES } Mode;

static const char *const pointers[POINTERS] = {"explicit", "individual", "shared"};
static const char *const modes[MODES] = {"blocking", "nonblocking", "collective", "split",
                                         "nonblocking collective"};

#define EITHER(r, w) OK(writes ? (w) : (r))

/* The call itself; the status of a rank that takes part. */
static void access_file(Pointer p, Mode m, int writes, MPI_Offset o, void *b, int n,
                        MPI_Datatype t, MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_File f = run.f;
    if (p == EXPLICIT && m == BLOCKING) {
        EITHER(MPI_File_read_at(f, o, b, n, t, s), MPI_File_write_at(f, o, b, n, t, s));
    } else if (p == EXPLICIT && m == NONBLOCKING) {
        EITHER(MPI_File_iread_at(f, o, b, n, t, &r), MPI_File_iwrite_at(f, o, b, n, t, &r));
    } else if (p == EXPLICIT && m == COLLECTIVE) {
        EITHER(MPI_File_read_at_all(f, o, b, n, t, s), MPI_File_write_at_all(f, o, b, n, t, s));
    } else if (p == EXPLICIT && m == SPLIT) {
        EITHER(MPI_File_read_at_all_begin(f, o, b, n, t),
               MPI_File_write_at_all_begin(f, o, b, n, t));
        EITHER(MPI_File_read_at_all_end(f, b, s), MPI_File_write_at_all_end(f, b, s));
    } else if (p == EXPLICIT) {
        EITHER(MPI_File_iread_at_all(f, o, b, n, t, &r),
               MPI_File_iwrite_at_all(f, o, b, n, t, &r));
    } else if (p == INDIVIDUAL && m == BLOCKING) {
        EITHER(MPI_File_read(f, b, n, t, s), MPI_File_write(f, b, n, t, s));
    } else if (p == INDIVIDUAL && m == NONBLOCKING) {
        EITHER(MPI_File_iread(f, b, n, t, &r), MPI_File_iwrite(f, b, n, t, &r));
    } else if (p == INDIVIDUAL && m == COLLECTIVE) {
        EITHER(MPI_File_read_all(f, b, n, t, s), MPI_File_write_all(f, b, n, t, s));
    } else if (p == INDIVIDUAL && m == SPLIT) {
        EITHER(MPI_File_read_all_begin(f, b, n, t), MPI_File_write_all_begin(f, b, n, t));
        EITHER(MPI_File_read_all_end(f, b, s), MPI_File_write_all_end(f, b, s));
    } else if (p == INDIVIDUAL) {
        EITHER(MPI_File_iread_all(f, b, n, t, &r), MPI_File_iwrite_all(f, b, n, t, &r));
    } else if (m == BLOCKING) {
        EITHER(MPI_File_read_shared(f, b, n, t, s), MPI_File_write_shared(f, b, n, t, s));
    } else if (m == NONBLOCKING) {
        EITHER(MPI_File_iread_shared(f, b, n, t, &r), MPI_File_iwrite_shared(f, b, n, t, &r));
    } else if (m == SPLIT) {
        EITHER(MPI_File_read_ordered_begin(f, b, n, t), MPI_File_write_ordered_begin(f, b, n, t));
        EITHER(MPI_File_read_ordered_end(f, b, s), MPI_File_write_ordered_end(f, b, s));
    } else {
        EITHER(MPI_File_read_ordered(f, b, n, t, s), MPI_File_write_ordered(f, b, n, t, s));
    }
    if (r != MPI_REQUEST_NULL)
        OK(MPI_Wait(&r, s));
}

static unsigned char datum(const Part *part, int unit, int n)
{
    return test_byte(part->stream, (uint64_t)(unit * 8 + n));
}

/* No more units than lie in the file that is modelled; without "strict", than there are. */
static void clip(Part *part, int rank, int writes)
{
    long end = writes || io_strict ? FILE_MAX : run.size;
    while (part->count > 0 &&
           place(rank, (long)part->offset + part->count - 1, size_of(run.e) - 1) >= end)
        part->count--;
}

/* Writes of two ranks to the same bytes need atomic mode, and then two are enough. Marks the bytes
 * with the rank + 1 that writes them, with -1 those that two write. */
static int conflicts(Part *parts, int *owner, int allowed[2])
{
    int n = 0;
    memset(owner, 0, FILE_MAX * sizeof *owner);
    for (int rank = 0; rank < test_size; rank++) {
        int with = 0;
        for (int i = 0; i < parts[rank].count * size_of(run.e) && with >= 0; i++) {
            int is = owner[place(rank, (long)parts[rank].offset + i / size_of(run.e),
                                 i % size_of(run.e))];
            if (is != 0 && (!run.atomic || n > 0 || (with != 0 && is != with)))
                with = -1; /* not allowed */
            else if (is != 0)
                with = is;
        }
        if (with < 0) {
            parts[rank].count = 0;
            continue;
        }
        if (with > 0)
            allowed[0] = with - 1, allowed[1] = rank, n++;
        for (int i = 0; i < parts[rank].count * size_of(run.e); i++) {
            int *is = &owner[place(rank, (long)parts[rank].offset + i / size_of(run.e),
                                   i % size_of(run.e))];
            *is = *is ? -1 : rank + 1;
        }
    }
    return n > 0;
}

static void store(const Part *part, int rank)
{
    for (int i = 0; i < part->count * size_of(run.e); i++) {
        int unit = i / size_of(run.e), n = i % size_of(run.e);
        long at = place(rank, (long)part->offset + unit, n);
        run.bytes[at] = datum(part, unit, n);
        run.size = at + 1 > run.size ? at + 1 : run.size;
    }
}

/* Compares the file with the model: the model of the one order, or of the other. */
static void check_file(const Part *parts, const int winners[2], int either)
{
    static unsigned char is[FILE_MAX + 1];
    size_t n = io_bytes(0, is, sizeof is);
    if (n == (size_t)run.size && memcmp(is, run.bytes, n) == 0)
        return;
    if (either) {
        store(&parts[winners[0]], winners[0]); /* the first of the two came last */
        if (n == (size_t)run.size && memcmp(is, run.bytes, n) == 0)
            return;
    }
    CHECK(n == (size_t)run.size, "%s: the file has %zu bytes, expected %ld", run.what, n, run.size);
    for (long i = 0; i < run.size && i < (long)n; i++)
        if (is[i] != run.bytes[i]) {
            CHECK(0, "%s: byte %ld of the file is 0x%02x, expected 0x%02x", run.what, i, is[i],
                  run.bytes[i]);
            return;
        }
}

/* The bytes of memory after a read: data up to the end of the file, the rest as it was. */
static void check_read(const Part *part, const unsigned char *b, long room, const MPI_Status *s)
{
    unsigned char *want = test_alloc((size_t)room);
    int whole = 0, there = 0, got = -1;
    memset(want, GUARD, (size_t)room);
    for (int i = 0; i < part->count * size_of(run.e); i++) {
        int unit = i / size_of(run.e), n = i % size_of(run.e);
        long at = place(test_rank, (long)part->offset + unit, n);
        long in = memory_place(run.e, (Memory)part->memory, part->count, unit) + byte_of(run.e, n);
        if (at >= run.size)
            break;
        there++;
        if (n == size_of(run.e) - 1)
            whole = there;
        want[in] = run.bytes[at];
    }
    for (int i = whole; i < there; i++) { /* of a unit that is cut, no byte is certain */
        long in = memory_place(run.e, (Memory)part->memory, part->count, i / size_of(run.e)) +
                  byte_of(run.e, i % size_of(run.e));
        want[in] = b[in];
    }
    MPI_Get_count(s, MPI_BYTE, &got);
    CHECK(got >= whole && got <= there, "%s: %d bytes are counted, expected %d to %d", run.what,
          got, whole, there);
    for (long i = 0; i < room; i++)
        if (b[i] != want[i]) {
            CHECK(0, "%s: byte %ld of memory is 0x%02x, expected 0x%02x", run.what, i, b[i],
                  want[i]);
            break;
        }
    free(want);
}

static void check_pointers(void)
{
    MPI_Offset at = -1;
    OK(MPI_File_get_position(run.f, &at));
    CHECK(at == run.pointers[test_rank], "%s: the pointer is at %lld, expected %lld", run.what,
          (long long)at, (long long)run.pointers[test_rank]);
    if (!run.common)
        return;
    OK(MPI_File_get_position_shared(run.f, &at));
    CHECK(at == run.shared, "%s: the shared pointer is at %lld, expected %lld", run.what,
          (long long)at, (long long)run.shared);
}

/* How many units a read moves a pointer by is how many it has read; where that is not certain, the
 * pointer is put where it is known to be. */
static int moves(const Part *part, int rank, int writes, int *certain)
{
    int n = 0;
    if (writes)
        return part->count;
    while (n < part->count && place(rank, (long)part->offset + n, size_of(run.e) - 1) < run.size)
        n++;
    *certain &= n == part->count;
    return n;
}

static void one_access(Part *parts, int *owner)
{
    Pointer p = (Pointer)draw(run.common ? POINTERS : SHARED);
    Mode m = (Mode)draw(p == SHARED ? COLLECTIVE_I : MODES);
    int writes = draw(2), alone = draw(test_size), either = 0, winners[2] = {0, 0}, certain = 1;
    int takes_part = p != SHARED || m >= COLLECTIVE || alone == test_rank;
    MPI_Offset next = run.shared;
    Part *mine = &parts[test_rank];
    MPI_Status s;
    for (int rank = 0; rank < test_size; rank++) {
        Part *part = &parts[rank];
        part->count = draw(5) ? draw(COUNT_MAX) : 0;
        part->memory = draw(MEMORIES);
        part->offset = draw(4) ? draw(200) : draw(20);
        part->stream = seed * 1000003 + drawn;
        if (p == INDIVIDUAL)
            part->offset = run.pointers[rank];
        if (p == SHARED && m < COLLECTIVE && rank != alone)
            part->count = 0; /* who races for the pointer is not certain: one rank alone */
        if (p == SHARED)
            part->offset = next;
        clip(part, rank, writes);
        next = part->offset + part->count;
    }
    if (writes)
        either = conflicts(parts, owner, winners);
    snprintf(run.what, sizeof run.what,
             "seed %llu, operation %d: %s, %s %s%s, etype %s, filetype %s from %ld on, memory %d, "
             "%d units from %lld on",
             (unsigned long long)seed, operation, writes ? "write" : "read", modes[m], pointers[p],
             run.atomic ? ", atomic" : "", run.e->name, shapes[run.views[test_rank].shape],
             run.views[test_rank].disp, mine->memory, mine->count, (long long)mine->offset);
    long room = (long)(2 * mine->count + 2) * (run.e->extent + 3);
    unsigned char *b = test_alloc((size_t)room);
    MPI_Datatype t = memory_type(run.e, (Memory)mine->memory, mine->count);
    int one = mine->memory == REVERSED || mine->memory == SPREAD, n = one ? 1 : mine->count;
    memset(b, GUARD, (size_t)room);
    for (int i = 0; i < mine->count * size_of(run.e) && writes; i++) {
        int unit = i / size_of(run.e), k = i % size_of(run.e);
        b[memory_place(run.e, (Memory)mine->memory, mine->count, unit) + byte_of(run.e, k)] =
            datum(mine, unit, k);
    }
    if (takes_part)
        access_file(p, m, writes, mine->offset, b, mine->count ? n : 0, t, &s);
    if (takes_part && !writes)
        check_read(mine, b, room, &s);
    if (takes_part && writes)
        IO_COUNT(&s, MPI_BYTE, mine->count * size_of(run.e), run.what);
    for (int rank = 0; rank < test_size; rank++) {
        int by = moves(&parts[rank], rank, writes, &certain);
        if (p == INDIVIDUAL)
            run.pointers[rank] += by;
        if (p == SHARED)
            run.shared += m >= COLLECTIVE ? parts[rank].count : by;
        if (writes)
            store(&parts[rank], rank);
    }
    io_visible(run.f);
    check_file(parts, winners, either);
    if (!certain) { /* a short read */
        if (p == INDIVIDUAL)
            OK(MPI_File_seek(run.f, run.pointers[test_rank], MPI_SEEK_SET));
        else if (p == SHARED)
            OK(MPI_File_seek_shared(run.f, run.shared, MPI_SEEK_SET));
    }
    MPI_Type_free(&t);
    free(b);
}

/* Pointers, modes and sizes change between accesses. */
static void one_change(void)
{
    int kind = draw(6), to = draw(150);
    snprintf(run.what, sizeof run.what, "seed %llu, operation %d: change %d to %d",
             (unsigned long long)seed, operation, kind, to);
    if (kind <= 1) {
        views_draw();
    } else if (kind == 2) {
        for (int rank = 0; rank < test_size; rank++) {
            MPI_Offset by = draw(60) - (run.pointers[rank] < 30 ? run.pointers[rank] : 30);
            if (rank == test_rank)
                OK(MPI_File_seek(run.f, by, MPI_SEEK_CUR));
            run.pointers[rank] += by;
        }
    } else if (kind == 3 && run.common) {
        OK(MPI_File_seek_shared(run.f, to, MPI_SEEK_SET));
        run.shared = to;
    } else if (kind == 4) {
        run.atomic = !run.atomic;
        OK(MPI_File_set_atomicity(run.f, run.atomic));
    } else if (kind == 5 && io_strict) {
        long size = draw(3) ? run.size - draw(300) : draw(FILE_MAX);
        size = size < 0 ? 0 : size;
        OK(MPI_File_set_size(run.f, size));
        if (size < run.size)
            memset(run.bytes + size, 0, (size_t)(run.size - size));
        run.size = size;
    }
}

int main(int argc, char **argv)
{
    int operations = 300, failed = 0, *owner = test_alloc(FILE_MAX * sizeof *owner);
    Part *parts;
    io_begin(&argc, &argv);
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    operations = argc > 2 ? atoi(argv[2]) : operations;
    parts = test_alloc((size_t)test_size * sizeof *parts);
    run.views = test_alloc((size_t)test_size * sizeof *run.views);
    run.pointers = test_alloc((size_t)test_size * sizeof *run.pointers);
    run.bytes = test_alloc(FILE_MAX);
    memset(run.bytes, 0, FILE_MAX);
    etypes_make();
    run.f = io_create();
    if (!io_strict) { /* so that no hole lies beyond the end, where MPICH 5.0.2 leaves anything */
        run.size = FILE_MAX;
        OK(MPI_File_set_size(run.f, run.size));
    }
    views_draw();
    for (operation = 0; operation < operations && !failed; operation++) {
        if (draw(4) == 0)
            one_change();
        else
            one_access(parts, owner);
        io_barrier();
        check_pointers();
        MPI_Allreduce(&test_failures, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    if (failed && test_rank == 0)
        fprintf(stderr, "again by: io_random %llu %d\n", (unsigned long long)seed, operation);
    io_close(&run.f);
    etypes_free();
    free(run.bytes);
    free(run.pointers);
    free(run.views);
    free(parts);
    free(owner);
    return io_finish();
}
