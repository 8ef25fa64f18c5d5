/* The fast path of a message against its slow path: the same random messages, right and wrong ones,
 * with a predefined datatype (which alone may take the fast path) and with its duplicate (which
 * never does), at either side, by the blocking and the non-blocking calls. Error class, status and
 * bytes must be the same. argv: rounds, seed. */
#include "test.h"

enum { FORMS = 8, ROOM = 1 << 18 }; /* bits of a form: duplicate at the sender, at the receiver; non-blocking */

static uint64_t state;

static unsigned pick(unsigned n) /* the same on all ranks */
{
    uint64_t z = state += 0x9e3779b97f4a7c15u; /* SplitMix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (unsigned)((z ^ z >> 31) % n);
}

typedef struct {
    int count, peer, tag;
    MPI_Datatype type;
    MPI_Comm comm;
    void *buffer;
} Side;

typedef struct {
    int class, source, tag, count, elements;
} Seen;

static int send_message(const Side *s, int synchronous, int nonblocking)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int e;
    if (!nonblocking)
        return test_class_of((synchronous ? MPI_Ssend : MPI_Send)(s->buffer, s->count, s->type, s->peer, s->tag, s->comm));
    e = (synchronous ? MPI_Issend : MPI_Isend)(s->buffer, s->count, s->type, s->peer, s->tag, s->comm, &r);
    return test_class_of(e != MPI_SUCCESS ? e : MPI_Wait(&r, MPI_STATUS_IGNORE));
}

static Seen receive_message(const Side *s, int nonblocking)
{
    Seen seen = {-1, -7, -7, -7, -7};
    MPI_Status st;
    MPI_Request r = MPI_REQUEST_NULL;
    int e;
    st.MPI_SOURCE = st.MPI_TAG = -7;
    if (nonblocking) {
        e = MPI_Irecv(s->buffer, s->count, s->type, s->peer, s->tag, s->comm, &r);
        if (e == MPI_SUCCESS)
            e = MPI_Wait(&r, &st);
    } else {
        e = MPI_Recv(s->buffer, s->count, s->type, s->peer, s->tag, s->comm, &st);
    }
    seen.class = test_class_of(e);
    if (seen.class == MPI_SUCCESS || seen.class == MPI_ERR_TRUNCATE) {
        seen.source = st.MPI_SOURCE;
        seen.tag = st.MPI_TAG;
    }
    if (seen.class == MPI_SUCCESS) {
        MPI_Get_count(&st, s->type, &seen.count);
        MPI_Get_elements(&st, s->type, &seen.elements);
    }
    return seen;
}

/* Makes a mistake in the arguments, which the call must notice before it communicates. */
static void spoil(Side *s, int mistake, int size)
{
    switch (mistake) {
    case 1: s->count = -1; break;
    case 2: s->peer = size + 3; break;
    case 3: s->tag = -1000; break;
    case 4: s->type = MPI_DATATYPE_NULL; break;
    case 5: s->comm = MPI_COMM_NULL; break;
    default: break;
    }
}

int main(int argc, char **argv)
{
    static const MPI_Datatype types[] = {MPI_BYTE, MPI_INT, MPI_DOUBLE, MPI_SHORT, MPI_C_BOOL, MPI_LONG_DOUBLE};
    static const int bytes_of[] = {1, 4, 8, 2, 1, 16};
    static const int counts[] = {0, 1, 3, 5, 10, 40, 41, 500, 2100, 9000};
    test_init(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 300, right = 0, wrong = 0, truncated = 0;
    state = argc > 2 ? (unsigned)atoi(argv[2]) : 1u;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    unsigned char *out = test_alloc(ROOM), *in = test_alloc(ROOM), *first = test_alloc(ROOM);
    for (int round = 0; round < rounds; round++) {
        int t = (int)pick(6), n = counts[pick(10)], tag = (int)pick(5), wildcard = (int)pick(4);
        int from = (int)(pick(100) % (unsigned)test_size), to = (int)(pick(100) % (unsigned)test_size);
        int room = pick(8) == 0 ? n / 2 : n + (int)pick(3) * 5, synchronous = pick(3) == 0;
        int mistake = pick(5) == 0 ? 1 + (int)pick(5) : 0, nowhere = pick(12) == 0;
        if (mistake == 4 && (n == 0 || room == 0))
            mistake = 0; /* without elements a null datatype is no mistake (nor is it in MPICH) */
        Seen seen[FORMS];
        int sent[FORMS] = {0};
        for (int form = 0; form < FORMS; form++) {
            MPI_Datatype copy;
            MPI_Type_dup(types[t], &copy);
            Side s = {n, nowhere ? MPI_PROC_NULL : to, tag, form & 1 ? copy : types[t], MPI_COMM_WORLD, out};
            Side r = {room, nowhere ? MPI_PROC_NULL : wildcard & 1 ? MPI_ANY_SOURCE : from,
                      wildcard & 2 ? MPI_ANY_TAG : tag, form & 2 ? copy : types[t], MPI_COMM_WORLD, in};
            spoil(&s, mistake, test_size);
            spoil(&r, mistake, test_size);
            test_fill(out, (size_t)(n * bytes_of[t]), (uint64_t)(round * 8 + from));
            memset(in, 0x5a, (size_t)(room * bytes_of[t]));
            MPI_Request to_self = MPI_REQUEST_NULL;
            int e = MPI_SUCCESS, own = from == to && !mistake && !nowhere;
            if (test_rank == from && own) {
                /* To itself, a blocking send may wait for its receive. */
                e = (synchronous ? MPI_Issend : MPI_Isend)(s.buffer, s.count, s.type, s.peer, s.tag, s.comm, &to_self);
            } else if (test_rank == from) {
                sent[form] = send_message(&s, synchronous, form & 4);
            }
            if (test_rank == to) {
                seen[form] = receive_message(&r, form & 4);
                const Seen *a = &seen[0], *b = &seen[form];
                CHECK(a->class == b->class, "form %d, mistake %d: receive's class is %d, and %d", form, mistake,
                      a->class, b->class);
                CHECK(memcmp(a, b, sizeof *a) == 0, "form %d: the status is %d %d %d %d, and %d %d %d %d", form,
                      a->source, a->tag, a->count, a->elements, b->source, b->tag, b->count, b->elements);
                if (form == 0)
                    memcpy(first, in, (size_t)(room * bytes_of[t]));
                else if (b->class != MPI_ERR_TRUNCATE)
                    CHECK(memcmp(first, in, (size_t)(room * bytes_of[t])) == 0,
                          "form %d: %d elements of type %d differ", form, n, t);
                right += b->class == MPI_SUCCESS;
                truncated += b->class == MPI_ERR_TRUNCATE;
                wrong += mistake != 0;
                CHECK((b->class == MPI_SUCCESS) == (!mistake && (nowhere || room >= n)),
                      "class %d of %d elements, room for %d, mistake %d", b->class, n, room, mistake);
            }
            if (test_rank == from) {
                if (own)
                    sent[form] = test_class_of(e != MPI_SUCCESS ? e : MPI_Wait(&to_self, MPI_STATUS_IGNORE));
                CHECK(sent[form] == sent[0], "form %d, mistake %d: send's class is %d, and %d", form, mistake, sent[0],
                      sent[form]);
                CHECK((sent[form] == MPI_SUCCESS) == !mistake, "send's class is %d, mistake %d", sent[form], mistake);
            }
            MPI_Type_free(&copy);
            MPI_Barrier(MPI_COMM_WORLD); /* wildcards must not see the next message */
        }
    }
    int total[3], own[3] = {right, wrong, truncated};
    MPI_Allreduce(own, total, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(total[0] && total[1] && total[2], "%d right, %d wrong, %d truncated receives", total[0], total[1], total[2]);
    free(first);
    free(in);
    free(out);
    return test_finish();
}
