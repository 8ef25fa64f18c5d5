/* Message order: messages of one sender on one communicator do not overtake each other, whatever
 * their size, mode and the receive's wildcards; receives match in the order they were posted. */
#include "test.h"

enum { N = 600, MAXLEN = 100000 };

/* Sizes jump between inline, packetized and rendezvous messages. */
static int length(int i)
{
    static const int l[] = {4, 100000, 8, 3000, 65536, 4, 20000, 1024, 4, 50000, 16, 9000};
    return l[i % 12];
}

static int offset(int i)
{
    int sum = 0;
    while (i-- > 0)
        sum += length(i);
    return sum;
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    MPI_Status st;

    /* 1. all ranks flood rank 0, which receives with wildcards, in several forms */
    for (int form = 0; form < 3; form++) {
        if (test_rank) {
            MPI_Request *r = test_alloc(N * sizeof *r);
            unsigned char *b = test_alloc((size_t)offset(N));
            for (int i = 0; i < N; i++) {
                memcpy(b + offset(i), &i, sizeof i);
                (i % 5 == 4 ? MPI_Issend : MPI_Isend)(b + offset(i), length(i), MPI_BYTE, 0, i % 3,
                                                      MPI_COMM_WORLD, &r[i]);
            }
            MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
            free(b);
            free(r);
        } else {
            int *next = calloc((size_t)test_size * 3, sizeof *next);
            unsigned char *b = test_alloc(MAXLEN);
            for (int i = 0; i < test_size * 3; i++)
                next[i] = i % 3;
            for (int k = 0; k < N * (test_size - 1); k++) {
                int source = form == 0 ? MPI_ANY_SOURCE : 1 + k / N, tag = MPI_ANY_TAG, seq, count;
                if (form == 2)
                    tag = (k % N) / (N / 3); /* all of tag 0, then 1, then 2 */
                MPI_Recv(b, MAXLEN, MPI_BYTE, source, tag, MPI_COMM_WORLD, &st);
                memcpy(&seq, b, sizeof seq);
                MPI_Get_count(&st, MPI_BYTE, &count);
                int *want = &next[st.MPI_SOURCE * 3 + st.MPI_TAG];
                CHECK(seq == *want, "form %d: from %d tag %d: message %d came, %d expected", form,
                      st.MPI_SOURCE, st.MPI_TAG, seq, *want);
                CHECK_INT(count, length(seq), "length");
                *want = seq + 3;
                if (form == 1) /* same source, any tag: globally in order too */
                    CHECK_INT(seq, k % N, "message by any tag");
            }
            free(b);
            free(next);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }

    /* 2. posted receives match in order: specific and wildcard receives interleaved */
    if (test_rank == 0) {
        enum { M = 300 };
        int in[M];
        MPI_Request r[M];
        MPI_Status sts[M];
        for (int i = 0; i < M; i++)
            MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : 1, i % 3 ? MPI_ANY_TAG : 5,
                      MPI_COMM_WORLD, &r[i]);
        MPI_Send(NULL, 0, MPI_INT, 1, 6, MPI_COMM_WORLD);
        MPI_Waitall(M, r, sts);
        for (int i = 0; i < M; i++)
            CHECK_INT(in[i], i, "value in the receive posted as number i");
    } else if (test_rank == 1) {
        MPI_Recv(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD, &st);
        for (int i = 0; i < 300; i++)
            MPI_Send(&i, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);

    /* 3. a tag that only a later receive wants passes by those posted before it */
    if (test_rank == 0) {
        int a = -1, b = -1, c = -1;
        MPI_Request r[3];
        MPI_Irecv(&a, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &r[0]);
        MPI_Irecv(&b, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &r[1]);
        MPI_Irecv(&c, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &r[2]);
        MPI_Send(NULL, 0, MPI_INT, 1, 6, MPI_COMM_WORLD);
        MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
        CHECK_INT(b, 20, "any-tag receive: the first message of tag 2");
        CHECK_INT(c, 21, "tag-2 receive: the second message of tag 2");
        CHECK_INT(a, 10, "tag-1 receive");
    } else if (test_rank == 1) {
        int v[3] = {20, 21, 10};
        MPI_Recv(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD, &st);
        MPI_Send(&v[0], 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        MPI_Send(&v[1], 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        MPI_Send(&v[2], 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    return test_finish();
}
