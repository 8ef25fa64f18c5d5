/* The fast path of a collective against its slow path: the same random arguments, right and wrong
 * ones, with a predefined datatype (which alone may take the fast path), with its duplicate (which
 * never does), and by the non-blocking form. All three must return the same error class, and leave
 * the same bytes. argv: rounds, seed. */
#include "test.h"

enum { BARRIER, BCAST, ALLREDUCE, SCAN, REDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, BLOCKS, VECTOR, KINDS };
enum { MISTAKES = 6 }; /* 0 is none */
enum { FAST, SLOW, NONBLOCKING, FORMS };
enum { BYTES_MAX = 1 << 20, MOST = 64 };

static const char *const names[KINDS] = {"Barrier", "Bcast",   "Allreduce", "Scan",    "Reduce",
                                         "Gather",  "Scatter", "Allgather", "Alltoall",
                                         "Reduce_scatter_block", "Reduce_scatter"};
static const char *const forms[FORMS] = {"fast", "slow", "non-blocking"};

static uint64_t state;

static unsigned pick(unsigned n) /* the same on all ranks */
{
    uint64_t z = state += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ z >> 31) % n);
}

typedef struct {
    int kind, count, root, in_place;
    MPI_Datatype send_type, recv_type;
    MPI_Op op;
    MPI_Comm comm;
    const void *send;
    void *recv;
    int counts[MOST]; /* of VECTOR, by rank */
} Call;

static int blocking(const Call *c)
{
    int n = c->count;
    MPI_Datatype s = c->send_type, r = c->recv_type;
    switch (c->kind) {
    case BARRIER: return MPI_Barrier(c->comm);
    case BCAST: return MPI_Bcast(c->recv, n, r, c->root, c->comm);
    case ALLREDUCE: return MPI_Allreduce(c->send, c->recv, n, r, c->op, c->comm);
    case SCAN: return MPI_Scan(c->send, c->recv, n, r, c->op, c->comm);
    case REDUCE: return MPI_Reduce(c->send, c->recv, n, r, c->op, c->root, c->comm);
    case GATHER: return MPI_Gather(c->send, n, s, c->recv, n, r, c->root, c->comm);
    case SCATTER: return MPI_Scatter(c->send, n, s, c->recv, n, r, c->root, c->comm);
    case ALLGATHER: return MPI_Allgather(c->send, n, s, c->recv, n, r, c->comm);
    case BLOCKS: return MPI_Reduce_scatter_block(c->send, c->recv, n, r, c->op, c->comm);
    case VECTOR: return MPI_Reduce_scatter(c->send, c->recv, c->counts, r, c->op, c->comm);
    default: return MPI_Alltoall(c->send, n, s, c->recv, n, r, c->comm);
    }
}

static int nonblocking(const Call *c)
{
    int n = c->count, e;
    MPI_Datatype s = c->send_type, r = c->recv_type;
    MPI_Request q = MPI_REQUEST_NULL;
    switch (c->kind) {
    case BARRIER: e = MPI_Ibarrier(c->comm, &q); break;
    case BCAST: e = MPI_Ibcast(c->recv, n, r, c->root, c->comm, &q); break;
    case ALLREDUCE: e = MPI_Iallreduce(c->send, c->recv, n, r, c->op, c->comm, &q); break;
    case SCAN: e = MPI_Iscan(c->send, c->recv, n, r, c->op, c->comm, &q); break;
    case REDUCE: e = MPI_Ireduce(c->send, c->recv, n, r, c->op, c->root, c->comm, &q); break;
    case GATHER: e = MPI_Igather(c->send, n, s, c->recv, n, r, c->root, c->comm, &q); break;
    case SCATTER: e = MPI_Iscatter(c->send, n, s, c->recv, n, r, c->root, c->comm, &q); break;
    case ALLGATHER: e = MPI_Iallgather(c->send, n, s, c->recv, n, r, c->comm, &q); break;
    case BLOCKS: e = MPI_Ireduce_scatter_block(c->send, c->recv, n, r, c->op, c->comm, &q); break;
    case VECTOR: e = MPI_Ireduce_scatter(c->send, c->recv, c->counts, r, c->op, c->comm, &q); break;
    default: e = MPI_Ialltoall(c->send, n, s, c->recv, n, r, c->comm, &q); break;
    }
    return e != MPI_SUCCESS ? e : MPI_Wait(&q, MPI_STATUS_IGNORE);
}

/* Values that every operator takes without overflow, whatever the order: small non-negative
 * numbers. */
static void fill(unsigned char *bytes, MPI_Datatype type, int elements, unsigned seed)
{
    for (int i = 0; i < elements; i++) {
        int value = (int)((seed + (unsigned)i * 7u) % 3u);
        if (type == MPI_INT)
            ((int *)(void *)bytes)[i] = value;
        else if (type == MPI_DOUBLE)
            ((double *)(void *)bytes)[i] = value;
        else if (type == MPI_INT64_T)
            ((int64_t *)(void *)bytes)[i] = value;
        else if (type == MPI_UINT16_T)
            ((uint16_t *)(void *)bytes)[i] = (uint16_t)value;
        else
            bytes[i] = (unsigned char)value;
    }
}

int main(int argc, char **argv)
{
    static const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_INT64_T, MPI_UINT16_T, MPI_UINT8_T};
    static const int sizes[] = {4, 8, 8, 2, 1}, counts[] = {0, 1, 2, 5, 31, 300, 2000, 9000};
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 1500, met[KINDS][MISTAKES] = {{0}};
    state = argc > 2 ? (unsigned)atoi(argv[2]) : 1u;
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD, MPI_BOR, MPI_LAND};
    MPI_Comm dup, one;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_split(MPI_COMM_WORLD, test_rank, 0, &one);
    MPI_Comm comms[] = {MPI_COMM_WORLD, dup, one, MPI_COMM_NULL};
    for (int i = 0; i < 3; i++)
        MPI_Comm_set_errhandler(comms[i], MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    unsigned char *send = test_alloc(BYTES_MAX), *recv[FORMS];
    for (int f = 0; f < FORMS; f++)
        recv[f] = test_alloc(BYTES_MAX);
    for (int round = 0; round < rounds; round++) {
        int turn = round / KINDS; /* of every collective: each fourth call has one of the mistakes */
        Call c = {.kind = round % KINDS, .count = counts[pick(8)], .op = ops[pick(6)]};
        int t = (int)pick(5), mistake = turn % 4 == 3 ? 1 + turn / 4 % (MISTAKES - 1) : 0;
        MPI_Datatype type = types[t], copy;
        c.comm = comms[pick(3)];
        int size, rank, class[FORMS] = {0};
        MPI_Comm_size(c.comm, &size);
        MPI_Comm_rank(c.comm, &rank);
        c.root = (int)(pick(1000) % (unsigned)size);
        c.in_place = pick(5) == 0;
        while ((size_t)c.count * (size_t)sizes[t] * (size_t)size > BYTES_MAX)
            c.count /= 2;
        for (int i = 0; i < size && i < MOST; i++) /* some of them 0 */
            c.counts[i] = c.count / (1 + (i + round) % 3);
        fill(send, type, c.count * size, (unsigned)(round * 31 + rank));
        MPI_Type_dup(type, &copy);
        for (int f = 0; f < FORMS; f++) {
            memset(recv[f], 0x5a, (size_t)c.count * (size_t)sizes[t] * (size_t)size);
            c.send_type = c.recv_type = f == SLOW ? copy : type;
            c.send = send;
            c.recv = recv[f];
            int at_root = rank == c.root;
            int all = c.kind == ALLREDUCE || c.kind == SCAN || c.kind == ALLGATHER || c.kind == ALLTOALL ||
                      c.kind == BLOCKS || c.kind == VECTOR;
            if (c.kind == BCAST)
                fill(recv[f], type, c.count, (unsigned)(round * 31 + rank));
            if (c.in_place && (all || (at_root && (c.kind == REDUCE || c.kind == GATHER)))) {
                c.send = MPI_IN_PLACE;
                fill(recv[f], type, c.count * size, (unsigned)(round * 31 + rank));
            } else if (c.in_place && at_root && c.kind == SCATTER) {
                c.recv = MPI_IN_PLACE;
            }
            Call bad = c;
            switch (mistake) { /* the same one on all ranks: none communicates */
            case 1: bad.count = bad.counts[0] = -1 - (int)(round % 3); break;
            case 2: bad.root = round % 2 ? size : -7; break;
            case 3: bad.send_type = bad.recv_type = MPI_DATATYPE_NULL; break;
            case 4: bad.op = MPI_OP_NULL; break;
            case 5: bad.comm = MPI_COMM_NULL; break;
            default: break;
            }
            int code = f == NONBLOCKING ? nonblocking(&bad) : blocking(&bad);
            MPI_Error_class(code, &class[f]);
        }
        met[c.kind][mistake]++;
        int fits = type != MPI_DOUBLE || (c.op != MPI_BOR && c.op != MPI_LAND);
        CHECK(mistake || class[FAST] == MPI_SUCCESS || !fits,
              "%s of %d elements fails with class %d", names[c.kind], c.count, class[FAST]);
        for (int f = 1; f < FORMS; f++) {
            size_t bytes = (size_t)c.count * (size_t)sizes[t] * (size_t)size;
            CHECK(class[f] == class[FAST], "%s, mistake %d: the class is %d on the fast path, %d on the %s one",
                  names[c.kind], mistake, class[FAST], class[f], forms[f]);
            CHECK(memcmp(recv[f], recv[FAST], bytes) == 0, "%s of %d elements of type %d, root %d: %s differs from fast",
                  names[c.kind], c.count, t, c.root, forms[f]);
        }
        MPI_Type_free(&copy);
    }
    for (int k = 0; k < KINDS; k++)
        for (int m = 0; m < MISTAKES; m++)
            CHECK(met[k][m] > 0, "%s was never called with mistake %d: too few rounds", names[k], m);
    for (int f = 0; f < FORMS; f++)
        free(recv[f]);
    free(send);
    MPI_Comm_free(&one);
    MPI_Comm_free(&dup);
    return test_finish();
}
