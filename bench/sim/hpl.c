/* The main program of HPL alone, as hpcc 1.5.0 of Debian has it (chai-2009, Figures 2.3 and 2.4): it reads hpccinf.txt
 * and writes as that says. bench/sim_programs.sh compiles it with the package's unchanged sources. The exit status is 0
 * if all solutions pass HPL's own test. */
#include <hpcc.h>
#include <mpi.h>

/* hpcc calls it for an input that is missing or wrong. */
int HPCC_Defaults(HPL_T_test *test, int *ns, int *n, int *nbs, int *nb, HPL_T_ORDER *order, int *grids, int *p, int *q,
                  int *facts, HPL_T_FACT *fact, int *stops, int *stop, int *panels, int *panel, int *recursions,
                  HPL_T_FACT *recursion, int *broadcasts, HPL_T_TOP *broadcast, int *depths, int *depth, HPL_T_SWAP *swap,
                  int *threshold, int *l1, int *u, int *equilibration, int *alignment, MPI_Comm comm)
{
    (void)test, (void)ns, (void)n, (void)nbs, (void)nb, (void)order, (void)grids, (void)p, (void)q, (void)facts;
    (void)fact, (void)stops, (void)stop, (void)panels, (void)panel, (void)recursions, (void)recursion;
    (void)broadcasts, (void)broadcast, (void)depths, (void)depth, (void)swap, (void)threshold, (void)l1, (void)u;
    (void)equilibration, (void)alignment;
    fprintf(stderr, "hpl: hpccinf.txt is missing here, or is for another number of ranks\n");
    MPI_Abort(comm, 1);
    return 1;
}

int main(int argc, char **argv)
{
    HPL_RuntimeData data = {0};
    int failure = 0;
    MPI_Init(&argc, &argv);
    HPL_main(argc, argv, &data, &failure);
    MPI_Finalize();
    return failure != 0;
}
