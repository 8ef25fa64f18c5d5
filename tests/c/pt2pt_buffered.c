/* Buffered sends: MPI_Bsend returns although no rank receives, detach and flush wait for delivery,
 * a full buffer is MPI_ERR_BUFFER, and a communicator's own buffer is used before the process's. */
#include "test.h"

enum { MESSAGES = 24, LARGE = 3000000 };

/* Also that a flush's request waits for delivery, as the standard says and MPICH 5.0 does not do.
 */
static int strict;

static size_t length(int i)
{
    static const size_t lengths[] = {0, 1, 100, 5000, 70000, 300000};
    return lengths[(size_t)i % (sizeof lengths / sizeof *lengths)];
}

/* Every rank sends to its neighbour before any receives: with standard sends this could hang. */
static void ring(MPI_Comm comm)
{
    int rank, size, bytes = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < MESSAGES; i++)
        bytes += (int)length(i) + MPI_BSEND_OVERHEAD;
    void *buffer = test_alloc((size_t)bytes), *back = NULL;
    int back_size = -1;
    MPI_Buffer_attach(buffer, bytes);
    for (int i = 0; i < MESSAGES; i++) {
        unsigned char *b = test_alloc(length(i));
        test_fill(b, length(i), (uint64_t)(rank * 100 + i));
        if (i % 2) {
            MPI_Request r;
            MPI_Ibsend(b, (int)length(i), MPI_BYTE, to, i, comm, &r);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        } else {
            MPI_Bsend(b, (int)length(i), MPI_BYTE, to, i, comm);
        }
        memset(b, 0xEE, length(i)); /* the message is in the buffer by now */
        free(b);
    }
    for (int i = MESSAGES - 1; i >= 0; i--) {
        unsigned char *b = test_alloc(length(i));
        MPI_Recv(b, (int)length(i), MPI_BYTE, from, i, comm, MPI_STATUS_IGNORE);
        CHECK_INT(test_verify(b, length(i), (uint64_t)(from * 100 + i)), length(i),
                  "first differing byte of a buffered message");
        free(b);
    }
    MPI_Buffer_detach(&back, &back_size);
    CHECK(back == buffer, "detach gives another address than was attached");
    CHECK_INT(back_size, bytes, "size that detach gives");
    free(buffer);
}

/* After detach the memory is the program's again: what was in it is delivered, though it is
 * overwritten at once. */
static void detach_delivers(void)
{
    unsigned char *b = test_alloc(LARGE);
    if (test_rank == 0) {
        void *buffer = test_alloc(LARGE + MPI_BSEND_OVERHEAD), *back;
        int size;
        test_fill(b, LARGE, 5);
        MPI_Buffer_attach(buffer, LARGE + MPI_BSEND_OVERHEAD);
        MPI_Bsend(b, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        memset(b, 0, LARGE);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        MPI_Buffer_detach(&back, &size);
        memset(buffer, 0, LARGE + MPI_BSEND_OVERHEAD);
        free(buffer);
    } else if (test_rank == 1) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(b, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_INT(test_verify(b, LARGE, 5), LARGE, "first differing byte");
    }
    free(b);
}

/* Large messages that are not received yet fill the buffer; after they are received it is free
 * again. */
static void full_buffer(void)
{
    unsigned char *b = test_alloc(LARGE);
    int room = LARGE + MPI_BSEND_OVERHEAD;
    if (test_rank == 0) {
        void *buffer = test_alloc((size_t)room), *back;
        int size;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Bsend(b, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER,
                    "Bsend without a buffer");
        MPI_Buffer_attach(buffer, room);
        CHECK_CLASS(MPI_Bsend(b, LARGE, MPI_UINT16_T, 1, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER,
                    "Bsend of more than the buffer holds");
        test_fill(b, LARGE, 6);
        CHECK_INT(MPI_Bsend(b, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD), MPI_SUCCESS,
                  "Bsend that just fits");
        CHECK_CLASS(MPI_Bsend(b, LARGE, MPI_BYTE, 1, 2, MPI_COMM_WORLD), MPI_ERR_BUFFER,
                    "Bsend into a full buffer");
        MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD); /* now receive */
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Bsend(b, LARGE, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        MPI_Buffer_detach(&back, &size);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        free(buffer);
    } else if (test_rank == 1) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int tag = 1; tag <= 2; tag++) {
            memset(b, 0, LARGE);
            MPI_Recv(b, LARGE, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_INT(test_verify(b, LARGE, 6), LARGE, "first differing byte");
            if (tag == 1)
                MPI_Send(NULL, 0, MPI_BYTE, 0, 4, MPI_COMM_WORLD);
        }
    }
    free(b);
}

/* A datatype with gaps, to itself and to MPI_PROC_NULL; Bsend_init several times. */
static void layouts(void)
{
    MPI_Datatype every_other;
    int out[20], in[20];
    void *buffer = test_alloc(10000), *back;
    int size;
    MPI_Request r;
    MPI_Type_vector(10, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Buffer_attach(buffer, 10000);
    MPI_Bsend(out, 1, every_other, MPI_PROC_NULL, 1, MPI_COMM_SELF);
    MPI_Bsend_init(out, 1, every_other, 0, 1, MPI_COMM_SELF, &r);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 20; i++)
            out[i] = round * 100 + i, in[i] = -1;
        MPI_Start(&r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        CHECK(r != MPI_REQUEST_NULL, "a persistent request is gone after MPI_Wait");
        memset(out, 0, sizeof out);
        MPI_Recv(in, 1, every_other, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        for (int i = 0; i < 20; i++)
            CHECK_INT(in[i], i % 2 ? -1 : round * 100 + i, "element");
    }
    MPI_Request_free(&r);
    MPI_Buffer_detach(&back, &size);
    MPI_Type_free(&every_other);
    free(buffer);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
/* A communicator's own buffer, an automatic one, flush. */
static void per_communicator(void)
{
    MPI_Comm comm;
    int small = MPI_BSEND_OVERHEAD + 16, size = -1;
    void *of_process = test_alloc((size_t)small), *of_comm = test_alloc(100000), *back = NULL;
    unsigned char b[4096];
    MPI_Request r;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Buffer_attach(of_process, small);
    CHECK_CLASS(MPI_Bsend(b, sizeof b, MPI_BYTE, 0, 1, comm), MPI_ERR_BUFFER,
                "Bsend that the process's buffer cannot hold");
    MPI_Comm_attach_buffer(comm, of_comm, 100000);
    for (int i = 0; i < 10; i++) {
        test_fill(b, sizeof b, (uint64_t)i);
        CHECK_INT(MPI_Bsend(b, sizeof b, MPI_BYTE, 0, i, comm), MPI_SUCCESS,
                  "Bsend with the communicator's buffer");
    }
    for (int i = 0; i < 10; i++) {
        memset(b, 0, sizeof b);
        MPI_Recv(b, sizeof b, MPI_BYTE, 0, i, comm, MPI_STATUS_IGNORE);
        CHECK_INT(test_verify(b, sizeof b, (uint64_t)i), sizeof b, "first differing byte");
    }
    MPI_Comm_flush_buffer(comm);
    MPI_Comm_iflush_buffer(comm, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(r == MPI_REQUEST_NULL, "a flush's request stays after MPI_Wait");
    MPI_Comm_detach_buffer(comm, &back, &size);
    CHECK(back == of_comm, "detach gives another address than was attached");
    CHECK_INT(size, 100000, "size that detach gives");
    MPI_Buffer_flush();
    MPI_Buffer_detach(&back, &size);
    CHECK(back == of_process, "detach gives another address than was attached");

    MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0);
    for (int i = 0; i < 100; i++)
        MPI_Bsend(b, sizeof b, MPI_BYTE, 0, i, comm);
    for (int i = 0; i < 100; i++)
        MPI_Recv(b, sizeof b, MPI_BYTE, 0, i, comm, MPI_STATUS_IGNORE);
    MPI_Comm_detach_buffer(comm, &back, &size);
    CHECK(back == MPI_BUFFER_AUTOMATIC, "detach does not give MPI_BUFFER_AUTOMATIC back");
    MPI_Comm_free(&comm);
    free(of_process);
    free(of_comm);
}

/* A session's buffer is used by the communicators that come from it, and by no others. */
static void per_session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    void *buffer = test_alloc(100000), *back = NULL;
    int size = -1;
    unsigned char b[5000], in[5000];
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    MPI_Comm_create_from_group(group, "buffered", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    MPI_Session_attach_buffer(session, buffer, 100000);
    test_fill(b, sizeof b, 12);
    CHECK_INT(MPI_Bsend(b, sizeof b, MPI_BYTE, 0, 1, comm), MPI_SUCCESS, "Bsend with the session's buffer");
    CHECK_CLASS(MPI_Bsend(b, sizeof b, MPI_BYTE, 0, 1, MPI_COMM_SELF), MPI_ERR_BUFFER,
                "Bsend on MPI_COMM_SELF where only a session has a buffer");
    MPI_Recv(in, sizeof in, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE);
    CHECK_INT(test_verify(in, sizeof in, 12), sizeof in, "first differing byte");
    MPI_Session_flush_buffer(session);
    MPI_Session_detach_buffer(session, &back, &size);
    CHECK(back == buffer && size == 100000, "detach gives %p, %d", back, size);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    free(buffer);
}

/* An iflush is complete when what was sent before it is received, whatever is sent after. */
static void flush_waits(void)
{
    unsigned char *b = test_alloc(LARGE);
    if (test_rank == 0) {
        MPI_Request r;
        void *back;
        int flag = 0, size;
        test_fill(b, LARGE, 8);
        MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
        MPI_Bsend(b, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        MPI_Buffer_iflush(&r);
        for (int i = 0; i < 1000 && !flag; i++)
            MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
        CHECK(!strict || !flag, "a flush is complete before its message of %d bytes is received", LARGE);
        MPI_Bsend(b, LARGE, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
        MPI_Buffer_flush();
        MPI_Buffer_detach(&back, &size);
    } else if (test_rank == 1) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(b, LARGE, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_INT(test_verify(b, LARGE, 8), LARGE, "first differing byte");
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memset(b, 0, LARGE);
        MPI_Recv(b, LARGE, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_INT(test_verify(b, LARGE, 8), LARGE, "first differing byte");
    }
    free(b);
}
#endif

/* What is still in the buffer when a rank enters MPI_Finalize arrives nevertheless. */
static void finish_with_messages(void)
{
    static char buffer[200000 + 4 * MPI_BSEND_OVERHEAD];
    static unsigned char b[200000];
    int last = test_size - 1;
    if (test_rank == 0) {
        MPI_Buffer_attach(buffer, (int)sizeof buffer);
        test_fill(b, sizeof b, 9);
        MPI_Bsend(b, (int)sizeof b, MPI_BYTE, last, 77, MPI_COMM_WORLD);
        memset(b, 0, sizeof b);
    }
    if (test_rank == last) {
        MPI_Recv(b, (int)sizeof b, MPI_BYTE, 0, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (test_verify(b, sizeof b, 9) != sizeof b) {
            fprintf(stderr, "rank %d: a message buffered before MPI_Finalize differs\n", test_rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    strict = argc > 1;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    ring(MPI_COMM_WORLD);
    layouts();
    if (test_size > 1) {
        detach_delivers();
        full_buffer();
    }
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    per_communicator();
    per_session();
    if (test_size > 1)
        flush_waits();
#endif
    int failed = test_verdict();
    finish_with_messages();
    MPI_Finalize();
    return failed;
}
