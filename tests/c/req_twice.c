/* One request named twice: in one array, or by two threads at a time. That is an error of the
 * program (MPI 5.0, 3.7.5: the requests of a call are active or null; 11.6.2: a request is completed
 * by one thread), and has to be MPI_ERR_REQUEST: one place of an array, and one thread, gets the
 * operation's own outcome, and no other operation's completion is taken. */
#include "test.h"
#include <pthread.h>

enum { RECEIVE, LONG_RECEIVE, SYNCHRONOUS, BARRIER, GENERALIZED, SENDRECV, PUT, KINDS };
static const char *const kind_names[KINDS] = {"Irecv",     "a long Irecv", "Issend",     "Ibarrier",
                                              "a generalized request", "Isendrecv", "Rput"};

enum { WAITALL, TESTALL, WAITSOME, TESTSOME, WAITANY, TESTANY, WAIT, TEST, FORMS };
static const char *const form_names[FORMS] = {"Waitall", "Testall", "Waitsome", "Testsome",
                                              "Waitany", "Testany", "Wait",     "Test"};

enum { LONG = 100000, NEXT = 5, THREADS = 3 };

static MPI_Win win;
static int out[LONG], in[LONG], window_memory[4];
static int freed;

static int query(void *extra, MPI_Status *s)
{
    (void)extra;
    MPI_Status_set_elements(s, MPI_INT, 1);
    MPI_Status_set_cancelled(s, 0);
    return MPI_SUCCESS;
}

static int free_fn(void *extra)
{
    __atomic_add_fetch((int *)extra, 1, __ATOMIC_RELAXED);
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

/* A request of a kind; `complete` lets it complete. */
static MPI_Request make(int kind)
{
    MPI_Request r = MPI_REQUEST_NULL;
    int words = kind == LONG_RECEIVE ? LONG : 1;
    switch (kind) {
    case RECEIVE:
    case LONG_RECEIVE:
        MPI_Irecv(in, words, MPI_INT, 0, kind, MPI_COMM_SELF, &r);
        break;
    case SYNCHRONOUS:
        MPI_Issend(out, 1, MPI_INT, 0, kind, MPI_COMM_SELF, &r);
        break;
    case BARRIER:
        MPI_Ibarrier(MPI_COMM_SELF, &r);
        break;
    case GENERALIZED:
        MPI_Grequest_start(query, free_fn, cancel, &freed, &r);
        break;
    case SENDRECV:
        MPI_Isendrecv(out, 1, MPI_INT, 0, kind, in, 1, MPI_INT, 0, kind, MPI_COMM_SELF, &r);
        break;
    default:
        MPI_Rput(out, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &r);
    }
    return r;
}

static void complete(int kind, MPI_Request r)
{
    if (kind == RECEIVE || kind == LONG_RECEIVE)
        MPI_Send(out, kind == LONG_RECEIVE ? LONG : 1, MPI_INT, 0, kind, MPI_COMM_SELF);
    if (kind == SYNCHRONOUS)
        MPI_Recv(in, 1, MPI_INT, 0, kind, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    if (kind == GENERALIZED)
        MPI_Grequest_complete(r);
}

/* The codes of a call on several requests: its own, or those of the statuses. `n`: completed. */
static void check_codes(int code, const MPI_Status *st, int n, int *good, int *refused, const char *what)
{
    int cls = test_class_of(code);
    CHECK(cls == MPI_SUCCESS || cls == MPI_ERR_REQUEST || cls == MPI_ERR_IN_STATUS, "%s: class %d", what, cls);
    *refused += cls == MPI_ERR_REQUEST;
    for (int i = 0; i < n && cls != MPI_ERR_REQUEST; i++) {
        int each = cls == MPI_SUCCESS ? MPI_SUCCESS : test_class_of(st[i].MPI_ERROR);
        CHECK(each == MPI_SUCCESS || each == MPI_ERR_REQUEST, "%s: class %d of status %d", what, each, i);
        *good += each == MPI_SUCCESS;
        *refused += each == MPI_ERR_REQUEST;
    }
}

/* One call of a form on the `m` requests `r`, all of them the same. */
static void call(int form, int m, MPI_Request *r, int *good, int *refused, const char *what)
{
    MPI_Status st[2];
    int n = 0, flag = 1, at[2], code;
    switch (form) {
    case WAITALL:
        code = MPI_Waitall(m, r, st), n = m;
        break;
    case TESTALL:
        do
            code = MPI_Testall(m, r, &flag, st);
        while (code == MPI_SUCCESS && !flag);
        n = m;
        break;
    case WAITSOME:
        code = MPI_Waitsome(m, r, &n, at, st);
        break;
    case TESTSOME:
        do
            code = MPI_Testsome(m, r, &n, at, st);
        while (code == MPI_SUCCESS && n == 0);
        break;
    case WAITANY:
        code = MPI_Waitany(m, r, at, st), n = 1;
        break;
    case TESTANY:
        do
            code = MPI_Testany(m, r, at, &flag, st);
        while (code == MPI_SUCCESS && !flag);
        n = 1;
        break;
    case WAIT:
        code = MPI_Wait(&r[m > 1 && r[0] == MPI_REQUEST_NULL], st), n = 1;
        break;
    default:
        do
            code = MPI_Test(&r[m > 1 && r[0] == MPI_REQUEST_NULL], &flag, st);
        while (code == MPI_SUCCESS && !flag);
        n = 1;
    }
    check_codes(code, st, n == MPI_UNDEFINED ? 0 : n, good, refused, what);
}

static void in_one_array(int kind, int form)
{
    char what[64];
    int good = 0, refused = 0;
    MPI_Request r[2];
    snprintf(what, sizeof what, "%s of %s", form_names[form], kind_names[kind]);
    out[0] = kind * 100 + form;
    freed = 0;
    r[0] = r[1] = make(kind);
    complete(kind, r[0]);
    for (int calls = 0; calls < 2 && refused == 0 && (r[0] != MPI_REQUEST_NULL || r[1] != MPI_REQUEST_NULL); calls++)
        call(form, 2, r, &good, &refused, what);
    /* An operation that was complete when it began may share its handle with others: nothing to take.
     * A call that is refused as a whole says nothing of what was complete. */
    if (kind == BARRIER || kind == PUT)
        CHECK(good <= 2 && good + refused >= 1, "%s: %d outcomes, %d refusals", what, good, refused);
    else
        CHECK(good <= 1 && refused == 1, "%s: %d outcomes, %d refusals", what, good, refused);
    CHECK_INT(freed, kind == GENERALIZED, what);
    if (kind == RECEIVE || kind == SENDRECV)
        CHECK_INT(in[0], out[0], what);
}

typedef struct {
    MPI_Request request;
    int form, good, refused;
} Thread;

static void *wait_for_it(void *argument)
{
    Thread *t = argument;
    MPI_Request r = t->request;
    call(t->form, 1, &r, &t->good, &t->refused, form_names[t->form]);
    /* The next operation is where the last one was: the others must not take its completion. */
    for (int i = 0; i < NEXT; i++) {
        int x = i, y = -1;
        MPI_Request next;
        MPI_Irecv(&y, 1, MPI_INT, 0, 100 + t->form, MPI_COMM_SELF, &next);
        MPI_Send(&x, 1, MPI_INT, 0, 100 + t->form, MPI_COMM_SELF);
        CHECK_CLASS(MPI_Wait(&next, MPI_STATUS_IGNORE), MPI_SUCCESS, "MPI_Wait for another operation");
        CHECK(y >= 0 && y < NEXT, "another operation received %d", y);
    }
    return NULL;
}

static void in_threads(int kind, unsigned round)
{
    pthread_t threads[THREADS];
    Thread t[THREADS];
    int good = 0, refused = 0;
    MPI_Request r = make(kind);
    freed = 0;
    for (int i = 0; i < THREADS; i++) {
        t[i] = (Thread){.request = r, .form = (int)((round + (unsigned)i * (round / FORMS)) % FORMS)};
        pthread_create(&threads[i], NULL, wait_for_it, &t[i]);
    }
    complete(kind, r);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        good += t[i].good;
        refused += t[i].refused;
    }
    CHECK(good >= 1 && good + refused == THREADS, "threads, %s, round %u: %d outcomes, %d refusals", kind_names[kind],
          round, good, refused);
    if (kind == RECEIVE || kind == LONG_RECEIVE || kind == SYNCHRONOUS || kind == GENERALIZED || kind == SENDRECV)
        CHECK_INT(good, 1, kind_names[kind]);
    CHECK_INT(freed, kind == GENERALIZED, "calls of the free function");
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Win_create(window_memory, sizeof window_memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_lock_all(0, win);
    for (int kind = 0; kind < KINDS; kind++)
        for (int form = 0; form < FORMS; form++)
            in_one_array(kind, form);
    for (unsigned round = 0; provided == MPI_THREAD_MULTIPLE && round < 200; round++)
        in_threads((int)(round % KINDS), round / KINDS);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return test_finish();
}
