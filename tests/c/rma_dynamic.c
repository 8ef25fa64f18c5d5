/* Dynamic windows (MPI 5.0, 12.2.4): several regions at a time, attached and detached at will,
 * memory that is freed and comes back at the same address with other contents, displacements by
 * MPI_Get_address and MPI_Aint_add, and a list that grows in the memory of all ranks.
 *
 * argv: rounds, seed. */
#include "rma.h"

#include <sys/mman.h>

enum { REGIONS = 6, MOST = 20000 };

typedef struct {
    unsigned char *memory; /* NULL: not attached */
    int bytes, mapped;
} Region;

/* What a rank tells the others of a region. */
typedef struct {
    MPI_Aint address;
    int bytes, seed;
} Offer;

static void attach(MPI_Win win, Region *r, int bytes, int mapped)
{
    r->bytes = bytes;
    r->mapped = mapped;
    if (mapped)
        r->memory =
            mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        r->memory = test_alloc((size_t)bytes);
    MPI_Win_attach(win, r->memory, bytes);
}

/* The memory goes back to the system or the allocator, which will give it out again. */
static void detach(MPI_Win win, Region *r)
{
    MPI_Win_detach(win, r->memory);
    if (r->mapped)
        munmap(r->memory, (size_t)r->bytes);
    else
        free(r->memory);
    r->memory = NULL;
}

/* Each rank reads parts of all regions of the next, then writes the last byte of each. */
static void visit(MPI_Win win, const Offer *offers, int owner)
{
    unsigned char *in[REGIONS] = {NULL};
    MPI_Win_lock(MPI_LOCK_SHARED, owner, 0, win);
    for (int k = 0; k < REGIONS; k++)
        if (offers[k].bytes > 0) {
            in[k] = test_alloc((size_t)offers[k].bytes);
            MPI_Get(in[k], offers[k].bytes, MPI_BYTE, owner, offers[k].address, offers[k].bytes,
                    MPI_BYTE, win);
        }
    MPI_Win_unlock(owner, win);
    for (int k = 0; k < REGIONS; k++) {
        size_t n = (size_t)offers[k].bytes,
               differs = test_verify(in[k], n, (uint64_t)offers[k].seed);
        CHECK(differs == n, "byte %zu of %zu of region %d of rank %d is 0x%02x", differs, n, k,
              owner, in[k][differs]);
    }
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, owner, 0, win);
    for (int k = 0; k < REGIONS; k++)
        if (offers[k].bytes > 0) { /* the last byte, by arithmetic on addresses */
            MPI_Aint last = MPI_Aint_add(offers[k].address, offers[k].bytes - 1);
            in[k][0] = (unsigned char)(offers[k].seed + 1);
            MPI_Put(in[k], 1, MPI_BYTE, owner, last, 1, MPI_BYTE, win);
        }
    MPI_Win_unlock(owner, win);
    for (int k = 0; k < REGIONS; k++)
        free(in[k]);
}

static void check_visit(MPI_Win win, const Region *regions, const Offer *offers)
{
    MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, win);
    for (int k = 0; k < REGIONS; k++)
        if (regions[k].memory) {
            int last = regions[k].memory[regions[k].bytes - 1];
            size_t n = (size_t)regions[k].bytes - 1;
            CHECK_INT(last, (unsigned char)(offers[k].seed + 1), "byte put to the end of a region");
            CHECK(test_verify(regions[k].memory, n, (uint64_t)offers[k].seed) == n,
                  "region %d of %zu bytes has changed", k, n);
        }
    MPI_Win_unlock(test_rank, win);
}

static void come_and_go(int rounds, uint64_t *random)
{
    Region regions[REGIONS] = {{NULL, 0, 0}};
    Offer mine[REGIONS], *all = test_alloc((size_t)test_size * sizeof mine);
    int next = (test_rank + 1) % test_size;
    MPI_Win win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int round = 0; round < rounds; round++) {
        for (int k = 0; k < REGIONS; k++) {
            Region *r = &regions[k];
            if (r->memory && rma_below(random, 2))
                detach(win, r);
            if (!r->memory && rma_below(random, 3))
                attach(win, r, 1 + rma_below(random, rma_below(random, 4) ? 100 : MOST),
                       rma_below(random, 2));
            mine[k] = (Offer){0, r->memory ? r->bytes : 0, round * 100 + k * 7 + test_rank};
            if (!r->memory)
                continue;
            MPI_Get_address(r->memory, &mine[k].address);
            test_fill(r->memory, (size_t)r->bytes, (uint64_t)mine[k].seed);
        }
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, win); /* the stores become visible */
        MPI_Win_unlock(test_rank, win);
        MPI_Allgather(mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
        visit(win, all + next * REGIONS, next);
        MPI_Barrier(MPI_COMM_WORLD);
        check_visit(win, regions, mine);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int k = 0; k < REGIONS; k++)
        if (regions[k].memory)
            detach(win, &regions[k]);
    MPI_Win_free(&win);
    free(all);
}

/* A part of an array is attached: all of that part can be reached. Attributes say MPI_BOTTOM and 0.
 */
static void attributes(void)
{
    static int array[100];
    MPI_Win win;
    MPI_Aint *bytes = NULL, address;
    int *unit = NULL, *flavor = NULL, flag = 0, seven = 7 + test_rank,
        right = (test_rank + 1) % test_size;
    void *base = &win;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
    CHECK(flag && base == MPI_BOTTOM, "MPI_WIN_BASE of a dynamic window is %p", base);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag);
    CHECK(flag && *bytes == 0, "MPI_WIN_SIZE of a dynamic window is not 0");
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag);
    CHECK(flag && *unit == 1, "MPI_WIN_DISP_UNIT of a dynamic window is not 1");
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_DYNAMIC, "the flavor is not MPI_WIN_FLAVOR_DYNAMIC");
    MPI_Win_attach(win, array + 10, 20 * sizeof(int));
    MPI_Win_attach(win, array + 50, 20 * sizeof(int));
    MPI_Get_address(array + 10, &address);
    MPI_Aint *all = test_alloc((size_t)test_size * sizeof *all);
    MPI_Allgather(&address, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
    MPI_Put(&seven, 1, MPI_INT, right, MPI_Aint_add(all[right], 19 * sizeof(int)), 1, MPI_INT, win);
    MPI_Accumulate(&seven, 1, MPI_INT, right, MPI_Aint_add(all[right], 59 * sizeof(int)), 1,
                   MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    int left = (test_rank + test_size - 1) % test_size;
    for (int i = 0; i < 100; i++)
        CHECK(array[i] == (i == 29 || i == 69 ? 7 + left : 0), "element %d is %d", i, array[i]);
    MPI_Win_detach(win, array + 50);
    MPI_Win_detach(win, array + 10);
    MPI_Win_free(&win);
    free(all);
}

typedef struct {
    MPI_Aint next; /* the address, or 0 */
    int next_rank, value;
} Node;

/* All ranks append nodes of their own to one list, whose links are swapped by MPI, after the
 * example of linked lists in MPI 5.0, 12.8. */
static void linked_list(int each)
{
    Node *nodes = test_alloc((size_t)(each + 1) * sizeof *nodes);
    MPI_Aint tail = 0, mine, *tails;
    MPI_Win win, tail_win;
    /* The tail pointer is a window of its own: address and rank together, swapped under a lock. */
    struct {
        MPI_Aint address;
        MPI_Aint rank;
    } *last, was, now;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_allocate(sizeof *last, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &last, &tail_win);
    MPI_Win_attach(win, nodes, (each + 1) * (MPI_Aint)sizeof *nodes);
    memset(nodes, 0, (size_t)(each + 1) * sizeof *nodes);
    MPI_Get_address(nodes, &mine);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, tail_win);
    last->address = mine;
    last->rank = 0;
    MPI_Win_unlock(test_rank, tail_win);
    tails = test_alloc((size_t)test_size * sizeof *tails);
    MPI_Allgather(&mine, 1, MPI_AINT, tails, 1, MPI_AINT, MPI_COMM_WORLD);
    tail = tails[0];
    MPI_Win_lock_all(0, win);
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i <= each; i++) {
        Node link = {0, test_rank, 0};
        nodes[i].value = test_rank * 1000 + i;
        MPI_Win_sync(win);
        MPI_Get_address(&nodes[i], &link.next);
        now.address = link.next;
        now.rank = test_rank;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, tail_win);
        MPI_Get(&was, sizeof was, MPI_BYTE, 0, 0, sizeof was, MPI_BYTE, tail_win);
        MPI_Win_flush(0, tail_win);
        MPI_Put(&now, sizeof now, MPI_BYTE, 0, 0, sizeof now, MPI_BYTE, tail_win);
        MPI_Win_unlock(0, tail_win);
        MPI_Put(&link, offsetof(Node, value), MPI_BYTE, (int)was.rank, was.address,
                offsetof(Node, value), MPI_BYTE, win);
        MPI_Win_flush((int)was.rank, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int rank = 0, found = 0, *seen = calloc((size_t)test_size, sizeof *seen);
    for (MPI_Aint at = tail; at != 0; found++) {
        Node node;
        MPI_Get(&node, sizeof node, MPI_BYTE, rank, at, sizeof node, MPI_BYTE, win);
        MPI_Win_flush(rank, win);
        if (found > 0 && seen[rank]++ != node.value % 1000 - 1)
            CHECK(0, "node %d of rank %d of the list comes out of order", node.value, rank);
        at = node.next;
        rank = node.next_rank;
    }
    CHECK_INT(found, each * test_size + 1, "nodes in the list");
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, nodes);
    MPI_Win_free(&tail_win);
    MPI_Win_free(&win);
    free(nodes);
    free(tails);
    free(seen);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 30;
    test_init(&argc, &argv);
    uint64_t random = rma_seed(argc > 2 ? (uint64_t)atoll(argv[2]) : 1, (uint64_t)test_rank);
    attributes();
    come_and_go(rounds, &random);
    linked_list(20);
    return test_finish();
}
