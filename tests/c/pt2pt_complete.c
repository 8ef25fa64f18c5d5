/* The wait and test families: Wait, Test, Waitall, Testall, Waitany, Testany, Waitsome, Testsome,
 * Request_free, Request_get_status, null and inactive requests, empty lists. */
#include "test.h"

enum { N = 24 };
enum { WAIT, TEST, WAITALL, TESTALL, WAITANY, TESTANY, WAITSOME, TESTSOME, GETSTATUS, FORMS };
static const char *const form_name[FORMS] = {"Wait",    "Test",     "Waitall",  "Testall",
                                             "Waitany", "Testany",  "Waitsome", "Testsome",
                                             "Request_get_status"};

static void one(const MPI_Status *st, int i, int peer, const int *seen)
{
    int count = -1;
    MPI_Get_count(st, MPI_INT, &count);
    CHECK_INT(count, 1 + i, "count of a completed receive");
    CHECK_INT(st->MPI_SOURCE, peer, "source of a completed receive");
    CHECK_INT(st->MPI_TAG, i, "tag of a completed receive");
    CHECK_INT(seen[i], 0, "completions of this receive so far");
}

static void finish(int form, MPI_Request *r, int peer)
{
    int seen[N] = {0}, done = 0, flag, k, out, idx[N];
    MPI_Status st, sts[N];
    switch (form) {
    case WAIT:
        for (int i = N - 1; i >= 0; i--) {
            MPI_Wait(&r[i], &st);
            one(&st, i, peer, seen);
            seen[i]++;
        }
        break;
    case TEST:
        for (int i = 0; i < N; i++) {
            do
                MPI_Test(&r[i], &flag, &st);
            while (!flag);
            one(&st, i, peer, seen);
            seen[i]++;
        }
        break;
    case WAITALL:
    case TESTALL:
        if (form == WAITALL)
            MPI_Waitall(N, r, sts);
        else
            do
                MPI_Testall(N, r, &flag, sts);
            while (!flag);
        for (int i = 0; i < N; i++) {
            one(&sts[i], i, peer, seen);
            seen[i]++;
        }
        break;
    case WAITANY:
    case TESTANY:
        while (done < N) {
            if (form == WAITANY) {
                MPI_Waitany(N, r, &k, &st);
            } else {
                MPI_Testany(N, r, &k, &flag, &st);
                if (!flag) {
                    CHECK_INT(k, MPI_UNDEFINED, "index of an unsuccessful Testany");
                    continue;
                }
            }
            CHECK(k >= 0 && k < N, "%s: index %d", form_name[form], k);
            one(&st, k, peer, seen);
            CHECK(r[k] == MPI_REQUEST_NULL, "completed request %d not null", k);
            seen[k]++;
            done++;
        }
        break;
    case WAITSOME:
    case TESTSOME:
        while (done < N) {
            (form == WAITSOME ? MPI_Waitsome : MPI_Testsome)(N, r, &out, idx, sts);
            CHECK(out >= (form == WAITSOME) && out <= N, "%s: outcount %d", form_name[form], out);
            for (int j = 0; j < out; j++) {
                one(&sts[j], idx[j], peer, seen);
                seen[idx[j]]++;
            }
            done += out;
        }
        break;
    case GETSTATUS:
        for (int i = 0; i < N; i++) {
            do
                MPI_Request_get_status(r[i], &flag, &st);
            while (!flag);
            CHECK(r[i] != MPI_REQUEST_NULL, "Request_get_status freed the request");
            one(&st, i, peer, seen);
            MPI_Wait(&r[i], &st);
            one(&st, i, peer, seen);
            seen[i]++;
        }
        break;
    }
    for (int i = 0; i < N; i++) {
        CHECK_INT(seen[i], 1, "completions of each receive");
        CHECK(r[i] == MPI_REQUEST_NULL, "%s: request %d not null", form_name[form], i);
    }
    /* a list of nulls only */
    flag = -1;
    k = out = -2;
    MPI_Waitany(N, r, &k, &st);
    CHECK_INT(k, MPI_UNDEFINED, "Waitany of null requests");
    MPI_Testany(N, r, &k, &flag, &st);
    CHECK_INT(k, MPI_UNDEFINED, "Testany of null requests");
    CHECK_INT(flag, 1, "flag of Testany of null requests");
    MPI_Waitsome(N, r, &out, idx, sts);
    CHECK_INT(out, MPI_UNDEFINED, "Waitsome of null requests");
    MPI_Testsome(N, r, &out, idx, sts);
    CHECK_INT(out, MPI_UNDEFINED, "Testsome of null requests");
    MPI_Testall(N, r, &flag, sts);
    CHECK_INT(flag, 1, "Testall of null requests");
    MPI_Wait(&r[0], &st);
    CHECK_INT(st.MPI_SOURCE, MPI_ANY_SOURCE, "source of the empty status");
    CHECK_INT(st.MPI_TAG, MPI_ANY_TAG, "tag of the empty status");
}

int main(int argc, char **argv)
{
    test_init(&argc, &argv);
    test_needs(2);
    int peer = test_rank ^ 1;
    if (peer < test_size) {
        for (int form = 0; form < FORMS; form++) {
            int out[N] = {0}, in[N][N + 1], flag = -1;
            MPI_Request r[N], s[N];
            MPI_Status st;
            for (int i = 0; i < N; i++) {
                out[i] = i;
                MPI_Irecv(in[i], N + 1, MPI_INT, peer, i, MPI_COMM_WORLD, &r[i]);
            }
            /* nothing can be complete: the peer sends only after our token */
            MPI_Testall(N, r, &flag, MPI_STATUSES_IGNORE);
            CHECK_INT(flag, 0, "Testall before anything was sent");
            MPI_Test(&r[0], &flag, &st);
            CHECK_INT(flag, 0, "Test before anything was sent");
            MPI_Sendrecv(NULL, 0, MPI_INT, peer, 99, NULL, 0, MPI_INT, peer, 99, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            for (int j = 0; j < N; j++) {
                int i = (j * 7 + 3) % N; /* N and 7 are coprime: a permutation */
                MPI_Isend(out, 1 + i, MPI_INT, peer, i, MPI_COMM_WORLD, &s[j]);
            }
            if (form == WAIT) /* requests freed early still do their work */
                for (int j = 0; j < N; j++)
                    MPI_Request_free(&s[j]);
            finish(form, r, peer);
            for (int i = 0; i < N; i++)
                for (int j = 0; j <= i; j++)
                    CHECK_INT(in[i][j], j, "received value");
            if (form != WAIT)
                MPI_Waitall(N, s, MPI_STATUSES_IGNORE);
            MPI_Sendrecv(NULL, 0, MPI_INT, peer, 98, NULL, 0, MPI_INT, peer, 98, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        }
        int flag = 0;
        MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
        MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE);
        CHECK_INT(flag, 1, "Testall of an empty list");
    }
    return test_finish();
}
