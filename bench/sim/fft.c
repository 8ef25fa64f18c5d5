/* MPIFFT of the HPC Challenge suite (leon-2009, 4.3.2) as a program of its own: hpcc's main runs all
 * seven benchmarks. The benchmark's sources are hpcc's and unchanged; this file has the main
 * program, the function by which hpcc chooses the length of the vector, and the region of interest:
 * the forward transform, HPCC_fftw_mpi, linked with --wrap=HPCC_fftw_mpi.
 *
 * Weak scaling as in the thesis: each rank has 65536 complex numbers, or as many as the argument
 * says, a power of two. The number of ranks is one, too. Ends with 1 if the inverse transform does
 * not give back what went in. */
#include <hpcc.h>

#include "hpccfft.h"
#include "wrapmpifftw.h"

#include "mark_region.h"

static int local_elements = 65536;

void __real_HPCC_fftw_mpi(hpcc_fftw_mpi_plan plan, int fields, fftw_complex *data,
                          fftw_complex *work);
void __wrap_HPCC_fftw_mpi(hpcc_fftw_mpi_plan plan, int fields, fftw_complex *data,
                          fftw_complex *work);

void __wrap_HPCC_fftw_mpi(hpcc_fftw_mpi_plan plan, int fields, fftw_complex *data,
                          fftw_complex *work)
{
    if (plan->dir != FFTW_FORWARD) {
        __real_HPCC_fftw_mpi(plan, fields, data, work);
        return;
    }
    region_begin();
    __real_HPCC_fftw_mpi(plan, fields, data, work);
    region_end();
}

/* hpcc derives it from the memory that HPL uses. The vector has this times the square of the number
 * of ranks. */
int HPCC_LocalVectorSize(HPCC_Params *params, int vectors, size_t size, int power_of_two)
{
    int ranks;
    (void)params, (void)vectors, (void)size, (void)power_of_two;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return local_elements / ranks;
}

int main(int argc, char **argv)
{
    static HPCC_Params params;
    int ranks, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1)
        local_elements = atoi(argv[1]);
    if (local_elements < ranks || local_elements & (local_elements - 1) || ranks & (ranks - 1)) {
        fprintf(stderr, "fft: expected powers of two of ranks and of numbers for each rank\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    params.test.thrsh = 16.0;
    snprintf(params.outFname, sizeof params.outFname, "/dev/null");
    HPCC_MPIFFT(&params);
    if (rank == 0)
        printf("{\"measure\": \"fft\", \"bytes\": %ld, \"ranks\": %d, \"value\": %.6g, "
               "\"unit\": \"Gflop/s\"}\n",
               (long)(local_elements * sizeof(fftw_complex)), ranks, params.MPIFFTGflops);
    MPI_Finalize();
    return params.Failure;
}
