/* MPI_ERROR of a status (MPI 5.0, 3.2.5): a call that completes one operation leaves it alone,
 * whatever kind of operation it is; Waitall, Testall, Waitsome and Testsome set it if and only if
 * they return MPI_ERR_IN_STATUS. The empty status of a null or inactive request has MPI_SUCCESS
 * there (3.7.3), as with MPICH. */
#include "test.h"

/* The first forms of blocking() receive a message that is under way. */
enum { SENDRECV_FORMS = 7 };

enum { UNTOUCHED = 7777, MANY = 4, LARGE = 300000, WORDS = LARGE / (int)sizeof(int) };

static int peer;
static int big_out[WORDS], big_in[WORDS];

static void fresh(MPI_Status *st, int n)
{
    for (int i = 0; i < n; i++) {
        memset(&st[i], 0x55, sizeof *st);
        st[i].MPI_ERROR = UNTOUCHED;
    }
}

static void untouched(const MPI_Status *st, int n, const char *call)
{
    for (int i = 0; i < n; i++)
        CHECK(st[i].MPI_ERROR == UNTOUCHED, "%s set MPI_ERROR of status %d to %d", call, i, st[i].MPI_ERROR);
}

/* A message of `words` integers from the peer must arrive by each blocking call, with a right
 * status. */
static void blocking(int words)
{
    MPI_Request r;
    MPI_Status st;
    MPI_Message m;
    int count, flag;
    for (int form = 0; form < 9; form++) {
        const char *call = "?";
        r = MPI_REQUEST_NULL;
        if (form < SENDRECV_FORMS)
            MPI_Isend(big_out, words, MPI_INT, peer, form, MPI_COMM_WORLD, &r);
        fresh(&st, 1);
        switch (form) {
        case 0:
            MPI_Recv(big_in, words, MPI_INT, peer, form, MPI_COMM_WORLD, &st);
            call = "Recv";
            break;
        case 1:
            MPI_Recv(big_in, words, MPI_INT, MPI_ANY_SOURCE, form, MPI_COMM_WORLD, &st);
            call = "Recv from any source";
            break;
        case 2:
            MPI_Probe(peer, form, MPI_COMM_WORLD, &st);
            untouched(&st, 1, "Probe");
            MPI_Recv(big_in, words, MPI_INT, peer, form, MPI_COMM_WORLD, &st);
            call = "Recv after Probe";
            break;
        case 3:
            do
                MPI_Iprobe(peer, form, MPI_COMM_WORLD, &flag, &st);
            while (!flag);
            untouched(&st, 1, "Iprobe");
            MPI_Recv(big_in, words, MPI_INT, st.MPI_SOURCE, form, MPI_COMM_WORLD, &st);
            call = "Recv after Iprobe";
            break;
        case 4:
            MPI_Mprobe(peer, form, MPI_COMM_WORLD, &m, &st);
            untouched(&st, 1, "Mprobe");
            MPI_Mrecv(big_in, words, MPI_INT, &m, &st);
            call = "Mrecv";
            break;
        case 5:
            do
                MPI_Improbe(peer, form, MPI_COMM_WORLD, &flag, &m, &st);
            while (!flag);
            untouched(&st, 1, "Improbe");
            MPI_Mrecv(big_in, words, MPI_INT, &m, &st);
            call = "Mrecv after Improbe";
            break;
        case 6: {
            MPI_Datatype single; /* not contiguous: another path of the receive */
            MPI_Type_vector(words, 1, 1, MPI_INT, &single);
            MPI_Type_commit(&single);
            MPI_Recv(big_in, 1, single, peer, form, MPI_COMM_WORLD, &st);
            MPI_Type_free(&single);
            call = "Recv of a vector";
            break;
        }
        case 7:
            MPI_Sendrecv(big_out, words, MPI_INT, peer, form, big_in, words, MPI_INT, peer, form, MPI_COMM_WORLD, &st);
            call = "Sendrecv";
            break;
        default:
            MPI_Sendrecv_replace(big_in, words, MPI_INT, peer, form, peer, form, MPI_COMM_WORLD, &st);
            call = "Sendrecv_replace";
        }
        untouched(&st, 1, call);
        MPI_Get_count(&st, MPI_INT, &count);
        CHECK_INT(count, words, call);
        CHECK_INT(st.MPI_SOURCE, peer, call);
        CHECK_INT(st.MPI_TAG, form, call);
        MPI_Test_cancelled(&st, &flag);
        CHECK_INT(flag, 0, call);
        if (form >= SENDRECV_FORMS)
            continue;
        fresh(&st, 1);
        MPI_Wait(&r, &st);
        untouched(&st, 1, "Wait for a send");
        MPI_Test_cancelled(&st, &flag);
        CHECK_INT(flag, 0, "Test_cancelled of a send");
    }
    fresh(&st, 1);
    MPI_Recv(big_in, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &st);
    untouched(&st, 1, "Recv from MPI_PROC_NULL");
    MPI_Probe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &st);
    untouched(&st, 1, "Probe of MPI_PROC_NULL");
}

enum { IRECV, PERSISTENT, PARTITIONED, SENDRECV, CANCELLED, INACTIVE, NULLS, KINDS };
static const char *const kind_names[KINDS] = {"Irecv",     "a persistent receive", "a partitioned receive",
                                              "Isendrecv", "a cancelled receive",  "an inactive request",
                                              "a null request"};

/* MANY active requests of a kind, and their sends. */
static void make(int kind, int words, MPI_Request *r, MPI_Request *sends)
{
    for (int i = 0; i < MANY; i++) {
        int *out = big_out + i * words, *in = big_in + i * words;
        sends[i] = r[i] = MPI_REQUEST_NULL;
        switch (kind) {
        case IRECV:
            MPI_Irecv(in, words, MPI_INT, peer, i, MPI_COMM_WORLD, &r[i]);
            MPI_Isend(out, words, MPI_INT, peer, i, MPI_COMM_WORLD, &sends[i]);
            break;
        case PERSISTENT:
            MPI_Recv_init(in, words, MPI_INT, peer, i, MPI_COMM_WORLD, &r[i]);
            MPI_Start(&r[i]);
            MPI_Isend(out, words, MPI_INT, peer, i, MPI_COMM_WORLD, &sends[i]);
            break;
        case PARTITIONED:
            MPI_Precv_init(in, 1, words, MPI_INT, peer, i, MPI_COMM_WORLD, MPI_INFO_NULL, &r[i]);
            MPI_Psend_init(out, 1, words, MPI_INT, peer, i, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]);
            MPI_Start(&r[i]);
            MPI_Start(&sends[i]);
            MPI_Pready(0, sends[i]);
            break;
        case SENDRECV:
            MPI_Isendrecv(out, words, MPI_INT, peer, i, in, words, MPI_INT, peer, i, MPI_COMM_WORLD, &r[i]);
            break;
        case CANCELLED:
            MPI_Irecv(in, words, MPI_INT, peer, 100 + i, MPI_COMM_WORLD, &r[i]); /* no message has this tag */
            MPI_Cancel(&r[i]);
            break;
        case INACTIVE:
            MPI_Recv_init(in, words, MPI_INT, peer, i, MPI_COMM_WORLD, &r[i]);
            break;
        default:
            break;
        }
    }
}

static void end(int kind, MPI_Request *r, MPI_Request *sends)
{
    MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) {
        if ((kind == PERSISTENT || kind == PARTITIONED || kind == INACTIVE) && r[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&r[i]);
        if (kind == PARTITIONED)
            MPI_Request_free(&sends[i]);
    }
}

enum { WAIT, TEST, WAITANY, TESTANY, GET, GET_ANY, GET_ALL, GET_SOME, WAITALL, TESTALL, WAITSOME, TESTSOME, FORMS };
static const char *const form_names[FORMS] = {"Wait",
                                              "Test",
                                              "Waitany",
                                              "Testany",
                                              "Request_get_status",
                                              "Request_get_status_any",
                                              "Request_get_status_all",
                                              "Request_get_status_some",
                                              "Waitall",
                                              "Testall",
                                              "Waitsome",
                                              "Testsome"};

/* How many statuses of null or inactive requests a call sets. */
static int empties(int form)
{
    if (form == GET_SOME || form == WAITSOME || form == TESTSOME)
        return 0; /* the count is MPI_UNDEFINED */
    return form == GET_ANY ? 1 : MANY;
}

static void complete(int form, MPI_Request *r, int empty, const char *call)
{
    MPI_Status st[MANY];
    int flag = 0, out = 0, index[MANY], done = 0;
    fresh(st, MANY);
    switch (form) {
    case WAIT:
        for (int i = 0; i < MANY; i++)
            MPI_Wait(&r[i], &st[i]);
        break;
    case TEST:
        for (int i = 0; i < MANY; i++)
            do
                MPI_Test(&r[i], &flag, &st[i]);
            while (!flag);
        break;
    case WAITANY:
        for (int i = 0; i < MANY; i++)
            MPI_Waitany(MANY, r, &out, &st[i]);
        break;
    case TESTANY:
        for (int i = 0; i < MANY; i++)
            do
                MPI_Testany(MANY, r, &out, &flag, &st[i]);
            while (!flag);
        break;
    case GET:
        for (int i = 0; i < MANY; i++)
            do
                MPI_Request_get_status(r[i], &flag, &st[i]);
            while (!flag);
        break;
    case GET_ANY:
        do
            MPI_Request_get_status_any(MANY, r, &out, &flag, &st[0]);
        while (!flag);
        break;
    case GET_ALL:
        do
            MPI_Request_get_status_all(MANY, r, &flag, st);
        while (!flag);
        break;
    case GET_SOME:
        do
            MPI_Request_get_status_some(MANY, r, &out, index, st);
        while (out == 0);
        break;
    case WAITALL:
        MPI_Waitall(MANY, r, st);
        break;
    case TESTALL:
        do
            MPI_Testall(MANY, r, &flag, st);
        while (!flag);
        break;
    default:
        while (done < MANY) {
            (form == WAITSOME ? MPI_Waitsome : MPI_Testsome)(MANY, r, &out, index, st);
            untouched(st, MANY, call);
            if (out == MPI_UNDEFINED)
                break;
            done += out;
        }
    }
    for (int i = 0; i < empty; i++)
        CHECK_INT(st[i].MPI_ERROR, MPI_SUCCESS, call);
    untouched(st + empty, MANY - empty, call);
    MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE); /* what the looks have left */
}

static int query(void *state, MPI_Status *st)
{
    MPI_Status_set_elements(st, MPI_INT, 3);
    MPI_Status_set_cancelled(st, 0);
    st->MPI_SOURCE = st->MPI_TAG = 5;
    return *(int *)state;
}

static int free_fn(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int cancel_fn(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static void generalized(void)
{
    int ok = MPI_SUCCESS, bad = MPI_ERR_ASSERT, flag = 0;
    MPI_Request r[2];
    MPI_Status st[2];
    MPI_Grequest_start(query, free_fn, cancel_fn, &ok, &r[0]);
    MPI_Grequest_complete(r[0]);
    fresh(st, 2);
    MPI_Request_get_status(r[0], &flag, st);
    untouched(st, 1, "Request_get_status of a generalized request");
    MPI_Wait(&r[0], st);
    untouched(st, 1, "Wait for a generalized request");
    CHECK_INT(st[0].MPI_TAG, 5, "the tag that query_fn has set");

    MPI_Grequest_start(query, free_fn, cancel_fn, &bad, &r[0]);
    MPI_Grequest_complete(r[0]);
    CHECK_INT(MPI_Wait(&r[0], st), MPI_ERR_ASSERT, "Wait returns the error of query_fn");
    untouched(st, 1, "a failing Wait for a generalized request");

    MPI_Grequest_start(query, free_fn, cancel_fn, &ok, &r[0]);
    MPI_Grequest_start(query, free_fn, cancel_fn, &bad, &r[1]);
    MPI_Grequest_complete(r[0]);
    MPI_Grequest_complete(r[1]);
    CHECK_INT(MPI_Waitall(2, r, st), MPI_ERR_IN_STATUS, "Waitall with a failing query_fn");
    CHECK_INT(st[0].MPI_ERROR, MPI_SUCCESS, "the request that succeeded");
    CHECK_INT(st[1].MPI_ERROR, MPI_ERR_ASSERT, "the request that failed");
}

/* The third of four messages is too long for its buffer. */
static void failing(int words)
{
    enum { BAD = 2 };
    for (int form = 0; form < FORMS; form++) {
        MPI_Request r[MANY], sends[MANY];
        MPI_Status st[MANY];
        int code = MPI_SUCCESS, flag = 0, out = 0, index[MANY], done = 0;
        for (int i = 0; i < MANY; i++)
            MPI_Irecv(big_in + i * words, words - (i == BAD), MPI_INT, peer, i, MPI_COMM_WORLD, &r[i]);
        for (int i = 0; i < MANY; i++)
            MPI_Isend(big_out + i * words, words, MPI_INT, peer, i, MPI_COMM_WORLD, &sends[i]);
        fresh(st, MANY);
        switch (form) {
        case WAITALL:
        case TESTALL:
            if (form == WAITALL)
                code = MPI_Waitall(MANY, r, st);
            else
                do
                    code = MPI_Testall(MANY, r, &flag, st);
                while (code == MPI_SUCCESS && !flag);
            CHECK_CLASS(code, MPI_ERR_IN_STATUS, form_names[form]);
            for (int i = 0; i < MANY; i++)
                if (i == BAD)
                    CHECK_CLASS(st[i].MPI_ERROR, MPI_ERR_TRUNCATE, "the message that does not fit");
                else
                    CHECK_INT(st[i].MPI_ERROR, MPI_SUCCESS, "a message that fits");
            break;
        case WAITSOME:
        case TESTSOME:
            while (done < MANY) {
                fresh(st, MANY);
                code = (form == WAITSOME ? MPI_Waitsome : MPI_Testsome)(MANY, r, &out, index, st);
                int failed = 0;
                for (int i = 0; i < out; i++)
                    failed += index[i] == BAD;
                if (failed)
                    CHECK_CLASS(code, MPI_ERR_IN_STATUS, form_names[form]);
                else
                    CHECK_INT(code, MPI_SUCCESS, form_names[form]);
                for (int i = 0; i < out; i++)
                    if (index[i] == BAD)
                        CHECK_CLASS(st[i].MPI_ERROR, MPI_ERR_TRUNCATE, "the message that does not fit");
                    else
                        CHECK_INT(st[i].MPI_ERROR, failed ? MPI_SUCCESS : UNTOUCHED, "a message that fits");
                untouched(st + out, MANY - out, "a status beyond outcount");
                done += out;
            }
            break;
        case WAIT:
        case TEST:
            for (int i = 0; i < MANY; i++) {
                if (form == WAIT)
                    code = MPI_Wait(&r[i], &st[i]);
                else
                    do
                        code = MPI_Test(&r[i], &flag, &st[i]);
                    while (code == MPI_SUCCESS && !flag);
                CHECK_CLASS(code, i == BAD ? MPI_ERR_TRUNCATE : MPI_SUCCESS, form_names[form]);
            }
            untouched(st, MANY, form_names[form]);
            break;
        case WAITANY:
        case TESTANY:
            for (int i = 0; i < MANY; i++) {
                if (form == WAITANY)
                    code = MPI_Waitany(MANY, r, &out, &st[i]);
                else
                    do
                        code = MPI_Testany(MANY, r, &out, &flag, &st[i]);
                    while (code == MPI_SUCCESS && !flag);
                CHECK_CLASS(code, out == BAD ? MPI_ERR_TRUNCATE : MPI_SUCCESS, form_names[form]);
            }
            untouched(st, MANY, form_names[form]);
            break;
        default:
            MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
        }
        MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE);
    }
    /* The blocking calls. */
    MPI_Status st;
    MPI_Request send;
    MPI_Message m;
    for (int form = 0; form < 3; form++) {
        int code;
        fresh(&st, 1);
        send = MPI_REQUEST_NULL;
        if (form < 2)
            MPI_Isend(big_out, words, MPI_INT, peer, 9, MPI_COMM_WORLD, &send);
        if (form == 0) {
            code = MPI_Recv(big_in, words - 1, MPI_INT, peer, 9, MPI_COMM_WORLD, &st);
        } else if (form == 1) {
            MPI_Mprobe(peer, 9, MPI_COMM_WORLD, &m, MPI_STATUS_IGNORE);
            code = MPI_Mrecv(big_in, words - 1, MPI_INT, &m, &st);
        } else {
            code = MPI_Sendrecv(big_out, words, MPI_INT, peer, 9, big_in, words - 1, MPI_INT, peer, 9,
                                MPI_COMM_WORLD, &st);
        }
        CHECK_CLASS(code, MPI_ERR_TRUNCATE, "a blocking receive of what does not fit");
        untouched(&st, 1, "a failing blocking receive");
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    peer = test_size - 1 - test_rank;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    static const int sizes[] = {2, 4000, WORDS / MANY};
    for (int s = 0; s < 3; s++) {
        if (test_size == 1 && s > 0)
            break; /* a rank cannot send itself a large message before it receives it */
        for (int kind = 0; kind < KINDS; kind++)
            for (int form = 0; form < FORMS; form++) {
                MPI_Request r[MANY], sends[MANY];
                char call[100];
                snprintf(call, sizeof call, "%s of %s", form_names[form], kind_names[kind]);
                make(kind, sizes[s], r, sends);
                complete(form, r, kind >= INACTIVE ? empties(form) : 0, call);
                end(kind, r, sends);
            }
        blocking(sizes[s]);
        failing(sizes[s]);
    }
    generalized();
    return test_finish();
}
