/* Before MPI_Init, after MPI_Finalize, versions, names, clocks, thread levels (argv[1]: the level
 * asked for, 0 to 3), attributes of MPI_COMM_SELF deleted first at finalization, last one first. */
#include "test.h"

static int order[3], norder, still_usable;

static int at_finalize(MPI_Comm c, int key, void *value, void *extra)
{
    int finalized = -1, size = -1;
    (void)key, (void)extra;
    MPI_Finalized(&finalized);
    MPI_Comm_size(c, &size);
    still_usable += !finalized && size == 1;
    if (norder < 3)
        order[norder++] = (int)(intptr_t)value;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int level = argc > 1 ? atoi(argv[1]) : 0, provided = -1, flag = -1, v = -1, sv = -1, len = -1;
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                 MPI_THREAD_MULTIPLE};
    char lib[MPI_MAX_LIBRARY_VERSION_STRING] = "", name[MPI_MAX_PROCESSOR_NAME] = "";
    MPI_Initialized(&flag);
    CHECK_INT(flag, 0, "Initialized before MPI_Init");
    MPI_Finalized(&flag);
    CHECK_INT(flag, 0, "Finalized before MPI_Init");
    MPI_Get_version(&v, &sv);
    CHECK(v >= 3 && sv >= 0, "version %d.%d", v, sv);
    CHECK(v == MPI_VERSION && sv == MPI_SUBVERSION, "library is %d.%d, mpi.h is %d.%d", v, sv,
          MPI_VERSION, MPI_SUBVERSION);
    MPI_Get_library_version(lib, &len);
    CHECK(len > 0 && (int)strlen(lib) == len, "library version \"%s\", length %d", lib, len);
    /* MPI_Info_create_env and sessions aside, this is all that is allowed before */
    MPI_Init_thread(argc > 2 ? NULL : &argc, argc > 2 ? NULL : &argv, levels[level & 3], &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    CHECK(provided >= levels[level & 3], "asked for thread level %d, got %d", levels[level & 3],
          provided);
    MPI_Initialized(&flag);
    CHECK_INT(flag, 1, "Initialized after MPI_Init");
    CHECK(test_size >= 1 && test_rank >= 0 && test_rank < test_size, "rank %d of %d", test_rank,
          test_size);
    MPI_Get_processor_name(name, &len);
    CHECK(len > 0 && (int)strlen(name) == len, "processor name \"%s\", length %d", name, len);

    double t = MPI_Wtime(), tick = MPI_Wtick();
    CHECK(tick > 0 && tick < 1, "Wtick is %g", tick);
    for (int i = 0; i < 1000; i++) {
        double now = MPI_Wtime();
        CHECK(now >= t, "Wtime went back from %.9f to %.9f", t, now);
        t = now;
    }
    double start = MPI_Wtime();
    while (MPI_Wtime() - start < 0.002) /* it advances */
        ;
    void *mem = NULL;
    MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &mem);
    CHECK(mem != NULL, "Alloc_mem gave no memory");
    memset(mem, 1, 1 << 20);
    MPI_Free_mem(mem);

    int key[3];
    for (int i = 0; i < 3; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key[i], NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key[i], (void *)(intptr_t)(i + 1));
    }
    int failed = test_verdict();
    MPI_Finalize();
    MPI_Finalized(&flag);
    CHECK_INT(flag, 1, "Finalized after MPI_Finalize");
    MPI_Initialized(&flag);
    CHECK_INT(flag, 1, "Initialized after MPI_Finalize");
    CHECK(norder == 3 && order[0] == 3 && order[1] == 2 && order[2] == 1,
          "attributes of MPI_COMM_SELF deleted: %d, order %d %d %d", norder, order[0], order[1],
          order[2]);
    CHECK_INT(still_usable, 3, "delete callbacks that found MPI usable");
    return failed || test_failures > 0;
}
