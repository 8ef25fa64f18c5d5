/* Generalized requests: the callbacks are called when the standard says, once each where it says
 * once, and their statuses and errors reach the caller of wait and test. */
#include "test.h"
#include <pthread.h>

typedef struct {
    int queried, freed, cancelled, was_complete;
    int query_code, free_code;
} Counts;

static int query(void *extra, MPI_Status *status)
{
    Counts *c = extra;
    c->queried++;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, c->cancelled);
    status->MPI_SOURCE = 7;
    status->MPI_TAG = 8;
    return c->query_code;
}

static int free_fn(void *extra)
{
    Counts *c = extra;
    c->freed++;
    return c->free_code;
}

static int cancel(void *extra, int complete)
{
    Counts *c = extra;
    c->cancelled++;
    c->was_complete = complete;
    return MPI_SUCCESS;
}

static void check_status(const MPI_Status *s, int cancelled, const char *what)
{
    int count = -1, flag = -1;
    MPI_Get_count(s, MPI_INT, &count);
    MPI_Test_cancelled(s, &flag);
    CHECK(count == 3 && s->MPI_SOURCE == 7 && s->MPI_TAG == 8, "%s: status (%d, %d, %d elements)", what,
          s->MPI_SOURCE, s->MPI_TAG, count);
    CHECK_INT(!!flag, cancelled, "cancelled");
}

static void life(void)
{
    Counts c = {0};
    MPI_Request r, copy;
    MPI_Status s;
    int flag = -1;
    MPI_Grequest_start(query, free_fn, cancel, &c, &r);
    copy = r;
    MPI_Test(&r, &flag, &s);
    CHECK(!flag, "a generalized request is complete before MPI_Grequest_complete");
    CHECK_INT(c.queried, 0, "calls of the query function");
    MPI_Grequest_complete(r);
    CHECK_INT(c.freed, 0, "calls of the free function");
    MPI_Request_get_status(r, &flag, &s);
    CHECK(flag, "MPI_Request_get_status says false");
    check_status(&s, 0, "MPI_Request_get_status");
    CHECK(c.queried == 1 && c.freed == 0, "%d queries, %d frees", c.queried, c.freed);
    CHECK(r == copy, "MPI_Request_get_status changes the request");
    MPI_Wait(&r, &s);
    check_status(&s, 0, "MPI_Wait");
    CHECK(c.queried == 2 && c.freed == 1, "%d queries, %d frees", c.queried, c.freed);
    CHECK(r == MPI_REQUEST_NULL, "the request is not null after MPI_Wait");

    memset(&c, 0, sizeof c); /* no status wanted: the query function gets one nevertheless */
    MPI_Grequest_start(query, free_fn, cancel, &c, &r);
    MPI_Grequest_complete(r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    CHECK(c.queried == 1 && c.freed == 1, "%d queries, %d frees", c.queried, c.freed);
}

static void cancelling(void)
{
    Counts c = {0};
    MPI_Request r;
    MPI_Status s;
    MPI_Grequest_start(query, free_fn, cancel, &c, &r);
    MPI_Cancel(&r);
    CHECK(c.cancelled == 1 && !c.was_complete, "%d cancels, complete %d", c.cancelled, c.was_complete);
    MPI_Grequest_complete(r);
    MPI_Wait(&r, &s);
    check_status(&s, 1, "MPI_Wait after MPI_Cancel");

    memset(&c, 0, sizeof c);
    MPI_Grequest_start(query, free_fn, cancel, &c, &r);
    MPI_Grequest_complete(r);
    MPI_Cancel(&r);
    CHECK(c.cancelled == 1 && c.was_complete, "%d cancels, complete %d", c.cancelled, c.was_complete);
    MPI_Wait(&r, &s);
}

static void freeing(void)
{
    Counts c = {0};
    MPI_Request r, copy;
    MPI_Grequest_start(query, free_fn, cancel, &c, &r);
    copy = r;
    MPI_Request_free(&r);
    CHECK(r == MPI_REQUEST_NULL, "the request is not null after MPI_Request_free");
    CHECK_INT(c.freed, 0, "calls of the free function before completion");
    MPI_Grequest_complete(copy);
    CHECK_INT(c.freed, 1, "calls of the free function");
    memset(&c, 0, sizeof c);
    MPI_Grequest_start(query, free_fn, cancel, &c, &r);
    MPI_Grequest_complete(r);
    MPI_Request_free(&r);
    CHECK(c.freed == 1 && c.queried == 0, "%d queries, %d frees", c.queried, c.freed);
}

/* Among others, in every call on several. */
static void among_others(void)
{
    for (int call = 0; call < 6; call++) {
        Counts c = {0};
        int x = 1, y = 0, index = -1, count = 0, indices[3], flag = 0;
        MPI_Request r[3];
        MPI_Status s[3];
        MPI_Irecv(&y, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r[0]);
        MPI_Grequest_start(query, free_fn, cancel, &c, &r[1]);
        r[2] = MPI_REQUEST_NULL;
        MPI_Testall(3, r, &flag, s);
        CHECK(!flag, "MPI_Testall says true");
        MPI_Grequest_complete(r[1]);
        MPI_Testall(3, r, &flag, s);
        CHECK(!flag && c.freed == 0, "MPI_Testall says %d, %d frees", flag, c.freed);
        switch (call) {
        case 0:
            MPI_Waitany(3, r, &index, &s[1]);
            break;
        case 1:
            MPI_Testany(3, r, &index, &flag, &s[1]);
            CHECK(flag, "MPI_Testany says false");
            break;
        case 2:
            MPI_Waitsome(3, r, &count, indices, s);
            break;
        case 3:
            MPI_Testsome(3, r, &count, indices, s);
            break;
        default:
            MPI_Send(&x, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
            if (call == 4)
                MPI_Waitall(3, r, s);
            else
                for (flag = 0; !flag;)
                    MPI_Testall(3, r, &flag, s);
        }
        if (call == 2 || call == 3) {
            CHECK(count == 1 && indices[0] == 1, "%d complete", count);
            s[1] = s[0];
        } else if (call < 2) {
            CHECK_INT(index, 1, "index");
        }
        check_status(&s[1], 0, "several");
        CHECK(c.freed == 1, "%d frees", c.freed);
        CHECK(r[1] == MPI_REQUEST_NULL, "the request is not null");
        if (call < 4) {
            MPI_Send(&x, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
            MPI_Wait(&r[0], MPI_STATUS_IGNORE);
        }
        CHECK_INT(y, 1, "value");
    }
}

/* Codes that the callbacks return come back. */
static void codes(void)
{
    Counts c = {.query_code = MPI_ERR_BUFFER}, d = {.free_code = MPI_ERR_IO};
    MPI_Request r[2];
    MPI_Status s[2];
    MPI_Grequest_start(query, free_fn, cancel, &c, &r[0]);
    MPI_Grequest_complete(r[0]);
    CHECK_CLASS(MPI_Wait(&r[0], &s[0]), MPI_ERR_BUFFER, "MPI_Wait where the query function fails");
    MPI_Grequest_start(query, free_fn, cancel, &d, &r[0]);
    MPI_Grequest_complete(r[0]);
    CHECK_CLASS(MPI_Wait(&r[0], &s[0]), MPI_ERR_IO, "MPI_Wait where the free function fails");
    c.query_code = MPI_SUCCESS;
    MPI_Grequest_start(query, free_fn, cancel, &c, &r[0]);
    MPI_Grequest_start(query, free_fn, cancel, &d, &r[1]);
    MPI_Grequest_complete(r[0]);
    MPI_Grequest_complete(r[1]);
    CHECK_CLASS(MPI_Waitall(2, r, s), MPI_ERR_IN_STATUS, "MPI_Waitall where a free function fails");
    CHECK_INT(s[0].MPI_ERROR, MPI_SUCCESS, "error in the status of the request that did not fail");
    CHECK_CLASS(s[1].MPI_ERROR, MPI_ERR_IO, "error in the status of the request that failed");
}

static void *complete(void *request)
{
    int note;
    MPI_Recv(&note, 1, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Grequest_complete(*(MPI_Request *)request);
    return NULL;
}

/* A thread waits, another completes. */
static void threads(void)
{
    Counts c = {0};
    MPI_Request r, copy;
    MPI_Status s;
    pthread_t thread;
    int note = 1;
    MPI_Grequest_start(query, free_fn, cancel, &c, &r);
    copy = r;
    pthread_create(&thread, NULL, complete, &copy);
    MPI_Send(&note, 1, MPI_INT, 0, 9, MPI_COMM_SELF);
    MPI_Wait(&r, &s);
    check_status(&s, 0, "MPI_Wait while another thread completes");
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    life();
    cancelling();
    freeing();
    among_others();
    if (argc > 1)
        codes();
    if (provided == MPI_THREAD_MULTIPLE)
        for (int i = 0; i < 50; i++)
            threads();
    return test_finish();
}
