/* What the random collectives of coll_property.c stand on: memory that is reused, moved or fresh,
 * buffers whose whole image is known beforehand, communicators that come and go, lengths. Ranks
 * draw from generators that they share where they must agree, and from their own where they need
 * not. */
#ifndef PROPERTY_H
#define PROPERTY_H

#include "collectives.h"

#include <limits.h>
#include <sys/mman.h>
#include <time.h>

enum { GUARD = 64, GAP = 0xc3 };

static int among(unsigned *state, int n)
{
    return (int)(coll_random(state) % (unsigned)n);
}

static TEST_UNUSED void sleep_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* Memory: blocks that are used again and again, so that a library may do more for them; blocks from
 * malloc, which come back at the same address with other pages; mappings that are gone afterwards.
 */
enum { REUSED, FRESH, MAPPED, MEMORIES, REUSED_BLOCKS = 32 };

static struct {
    unsigned char *at;
    size_t bytes;
    int taken;
} reused[REUSED_BLOCKS];

typedef struct {
    unsigned char *at;
    size_t bytes;
    int how, block;
} Memory;

static Memory memory_take(size_t bytes, int how)
{
    Memory m = {NULL, bytes, how, 0};
    if (how == REUSED) {
        while (m.block < REUSED_BLOCKS && reused[m.block].taken)
            m.block++;
        if (m.block == REUSED_BLOCKS)
            m.how = how = FRESH;
    }
    if (how == MAPPED) {
        m.at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (m.at == MAP_FAILED) {
            perror("mmap");
            exit(2);
        }
    } else if (how == FRESH) {
        m.at = test_alloc(bytes);
    } else {
        if (reused[m.block].bytes < bytes) {
            free(reused[m.block].at);
            reused[m.block].bytes = bytes + bytes / 2;
            reused[m.block].at = test_alloc(reused[m.block].bytes);
        }
        reused[m.block].taken = 1;
        m.at = reused[m.block].at;
    }
    return m;
}

static void memory_give(Memory *m)
{
    if (m->how == MAPPED)
        munmap(m->at, m->bytes);
    else if (m->how == FRESH)
        free(m->at);
    else
        reused[m->block].taken = 0;
    m->at = NULL;
}

static TEST_UNUSED void memory_end(void)
{
    for (int i = 0; i < REUSED_BLOCKS; i++)
        free(reused[i].at);
}

/* A buffer, and what it must look like when all is done, from guard to guard. */
typedef struct {
    Memory memory, want;
    size_t origin;          /* where the address points that MPI is given */
    size_t from, to;        /* bytes whose content is not defined */
} Buffer;

/* For elements at `low` to `high` bytes from the address. */
static TEST_UNUSED void buffer_make(Buffer *b, long low, long high, int odd, int how)
{
    size_t bytes = (size_t)(high - low) + 2 * GUARD + 16;
    b->memory = memory_take(bytes, how);
    b->want = memory_take(bytes, FRESH);
    b->origin = (size_t)(GUARD - low + odd);
    b->from = b->to = 0;
}

static TEST_UNUSED void buffer_clear(Buffer *b)
{
    memset(b->memory.at, GAP, b->memory.bytes);
    memset(b->want.at, GAP, b->want.bytes);
}

static TEST_UNUSED void buffer_drop(Buffer *b)
{
    if (b->memory.at == NULL)
        return;
    memory_give(&b->memory);
    memory_give(&b->want);
}

/* The same buffer elsewhere in memory; its contents must be made anew. */
static TEST_UNUSED void buffer_move(Buffer *b, int how)
{
    size_t bytes = b->memory.bytes;
    if (b->memory.at == NULL)
        return;
    memory_give(&b->memory);
    b->memory = memory_take(bytes, how);
}

static TEST_UNUSED void *buffer_address(const Buffer *b)
{
    return b->memory.at ? b->memory.at + b->origin : NULL;
}

/* Place of the first byte that differs, relative to the address; LONG_MIN if none does. */
static TEST_UNUSED long buffer_differs(const Buffer *b)
{
    const unsigned char *is = b->memory.at, *must = b->want.at;
    if (is == NULL || (b->from == b->to && memcmp(is, must, b->want.bytes) == 0))
        return LONG_MIN;
    for (size_t i = 0; i < b->want.bytes; i++)
        if ((i < b->from || i >= b->to) && is[i] != must[i])
            return (long)i - (long)b->origin;
    return LONG_MIN;
}

/* Communicators: the world for ever; the others are made from it or from each other, and remade. */
enum { COMMS = 6 };

static MPI_Comm comms[COMMS];

static void comm_drop(int i)
{
    if (comms[i] != MPI_COMM_NULL)
        MPI_Comm_free(&comms[i]);
}

/* A communicator of some sort; MPI_COMM_NULL on ranks that are left out. Collective over the world.
 */
static MPI_Comm comm_draw(unsigned seed)
{
    unsigned all = seed;
    MPI_Comm made = MPI_COMM_NULL, parent = comms[among(&all, 3) ? 0 : among(&all, COMMS)];
    int rank, size;
    if (parent == MPI_COMM_NULL)
        return made;
    MPI_Comm_rank(parent, &rank);
    MPI_Comm_size(parent, &size);
    switch (among(&all, 8)) {
    case 0: case 1:
        MPI_Comm_dup(parent, &made);
        break;
    case 2: /* the other way round */
        MPI_Comm_split(parent, 0, -rank, &made);
        break;
    case 3: /* odd and even ones */
        MPI_Comm_split(parent, rank % 2, rank, &made);
        break;
    case 4: /* neighbours */
        MPI_Comm_split(parent, rank / 3, -rank, &made);
        break;
    case 5: { /* all but one */
        int out = among(&all, size);
        MPI_Comm_split(parent, rank == out && size > 1 ? MPI_UNDEFINED : 0, (rank * 5) % size, &made);
        break;
    }
    case 6: { /* the second half and one more, by a group */
        int range[1][3] = {{size - 1, size / 3, -1}};
        MPI_Group whole, part;
        MPI_Comm_group(parent, &whole);
        MPI_Group_range_incl(whole, 1, range, &part);
        MPI_Comm_create(parent, part, &made);
        MPI_Group_free(&whole);
        MPI_Group_free(&part);
        break;
    }
    default:
        MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made);
    }
    return made;
}

static TEST_UNUSED void comm_remake(int i, unsigned seed)
{
    MPI_Comm made = comm_draw(seed);
    comm_drop(i);
    comms[i] = made;
}

static TEST_UNUSED void comms_make(unsigned seed)
{
    for (int i = 0; i < COMMS; i++)
        comms[i] = MPI_COMM_WORLD;
    for (int i = 1; i < COMMS; i++)
        comms[i] = comm_draw(seed + (unsigned)i);
}

static TEST_UNUSED void comms_free(void)
{
    for (int i = 1; i < COMMS; i++)
        comm_drop(i);
}

/* The lowest rank in the world that is in the communicator: tells apart those that were split at
 * once. */
static int comm_first(MPI_Comm comm)
{
    MPI_Group group, world;
    int size, least = test_size;
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < size; i++) {
        int there;
        MPI_Group_translate_ranks(group, 1, &i, world, &there);
        least = there < least ? there : least;
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    return least;
}

/* How long a block is, in bytes: lengths at which libraries change their ways, and those around
 * them. */
static size_t draw_bytes(unsigned *all, size_t most)
{
    static const int edges[] = {40, 48, 56, 64, 128, 256, 512, 1024, 2048, 4096};
    static const int cells[] = {4096, 8192, 16384, 32768, 65536};
    size_t bytes;
    switch (among(all, 40)) {
    case 0: case 1:
        bytes = 0;
        break;
    case 2: case 3: case 4: case 5: case 6: case 7: case 8: case 9: case 10: case 11: case 12: case 13: case 14:
        bytes = (size_t)among(all, 80);
        break;
    case 15: case 16: case 17: case 18: case 19: case 20: case 21: case 22: case 23: case 24:
        bytes = (size_t)(edges[among(all, 10)] - 8 + among(all, 17));
        break;
    case 25: case 26: case 27: case 28: case 29: case 30:
        bytes = (size_t)among(all, 12000);
        break;
    case 31: case 32: case 33: case 34: case 35: case 36:
        bytes = (size_t)(cells[among(all, 5)] * (1 + among(all, 2)) - 8 + among(all, 17));
        break;
    case 37: case 38:
        bytes = (size_t)among(all, 400000);
        break;
    default:
        bytes = (size_t)1 << 20 << among(all, 3);
    }
    return bytes < most ? bytes : most - (size_t)among(all, 9);
}

#endif
