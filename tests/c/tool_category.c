/* MPI_T categories: a tree in which each variable and event is once; and every error. */
#include "test.h"

enum { MOST = 512 };

static int met[3][MOST];

static void visit(int category, int depth)
{
    char name[64], desc[256];
    int name_len = sizeof name, desc_len = sizeof desc, n[4] = {-1, -1, -1, -1}, index = -1;
    int indices[MOST], cut = -1;
    CHECK_INT(MPI_T_category_get_info(category, name, &name_len, desc, &desc_len, &n[0], &n[1],
                                      &n[3]),
              MPI_SUCCESS, "category_get_info");
    CHECK_INT(MPI_T_category_get_num_events(category, &n[2]), MPI_SUCCESS, "get_num_events");
    CHECK(name_len == (int)strlen(name) + 1 && desc_len == (int)strlen(desc) + 1, "%s", name);
    CHECK_INT(MPI_T_category_get_index(name, &index), MPI_SUCCESS, name);
    CHECK_INT(index, category, name);
    CHECK(depth < 4, "%s is %d levels deep", name, depth);
    static int (*const get[])(int, int, int *) = {MPI_T_category_get_cvars, MPI_T_category_get_pvars,
                                                  MPI_T_category_get_events};
    CHECK_INT(MPI_T_category_get_cvars(category, 0, NULL), MPI_SUCCESS, "no room");
    CHECK_INT(MPI_T_category_get_pvars(category, 0, NULL), MPI_SUCCESS, "no room");
    CHECK_INT(MPI_T_category_get_events(category, 0, NULL), MPI_SUCCESS, "no room");
    for (int kind = 0; kind < 3; kind++) {
        memset(indices, -1, sizeof indices);
        CHECK_INT(get[kind](category, MOST, indices), MPI_SUCCESS, name);
        for (int i = 0; i < n[kind]; i++) {
            CHECK(indices[i] >= 0 && indices[i] < MOST, "index %d of %s", indices[i], name);
            met[kind][indices[i]]++;
        }
        CHECK_INT(indices[n[kind]], -1, "beyond the last");
        if (n[kind] > 0) {
            int two[2] = {-1, -7};
            CHECK_INT(get[kind](category, 1, two), MPI_SUCCESS, "room for one");
            CHECK(two[0] == indices[0] && two[1] == -7, "first of %s", name);
            CHECK_INT(get[kind](category, 1, NULL), MPI_T_ERR_INVALID, "NULL");
        }
        CHECK_INT(get[kind](category, -1, indices), MPI_T_ERR_INVALID, "length -1");
        CHECK_INT(get[kind](-1, 1, &cut), MPI_T_ERR_INVALID_INDEX, "category -1");
    }
    CHECK_INT(MPI_T_category_get_categories(category, MOST, indices), MPI_SUCCESS, name);
    for (int i = 0; i < n[3]; i++)
        visit(indices[i], depth + 1);
}

int main(int argc, char **argv)
{
    int num = -1, all[3] = {-1, -1, -1}, index = -1, stamp = -1, later = -2;
    MPI_T_init_thread(MPI_THREAD_SINGLE, NULL);
    test_init(&argc, &argv);
    CHECK_INT(MPI_Pcontrol(1), MPI_SUCCESS, "Pcontrol");
    CHECK_INT(MPI_Pcontrol(7, "more", 1.5), MPI_SUCCESS, "Pcontrol");
    CHECK_INT(MPI_T_category_changed(&stamp), MPI_SUCCESS, "category_changed");
    CHECK_INT(MPI_T_category_get_num(&num), MPI_SUCCESS, "category_get_num");
    CHECK_INT(MPI_T_category_get_index("mica", &index), MPI_SUCCESS, "the root");
    visit(index, 0);
    MPI_T_cvar_get_num(&all[0]);
    MPI_T_pvar_get_num(&all[1]);
    MPI_T_event_get_num(&all[2]);
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < MOST; i++)
            CHECK_INT(met[kind][i], i < all[kind], "times that it is in a category");
    CHECK_INT(MPI_T_category_changed(&later), MPI_SUCCESS, "category_changed");
    CHECK_INT(later, stamp, "stamp");
    CHECK_INT(MPI_T_category_changed(NULL), MPI_T_ERR_INVALID, "NULL");
    CHECK_INT(MPI_T_category_get_index("none", &index), MPI_T_ERR_INVALID_NAME, "no such name");
    CHECK_INT(MPI_T_category_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
              MPI_T_ERR_INVALID_INDEX, "no such category");
    CHECK_INT(MPI_T_category_get_num_events(num, &index), MPI_T_ERR_INVALID_INDEX, "no such one");
    MPI_T_finalize();
    CHECK_INT(MPI_T_category_get_num(&num), MPI_T_ERR_NOT_INITIALIZED, "after finalize");
    return test_finish();
}
