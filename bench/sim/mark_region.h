/* Marks one function of a program that is not ours as the region of interest, without a change of
 * its sources: the linker's --wrap=NAME gives its callers __wrap_NAME, which marks the region by
 * MPI_Pcontrol and calls __real_NAME. All ranks meet before and after, so that the region's time is
 * that of the slowest rank and has no other phase's imbalance in it. */
#ifndef MARK_REGION_H
#define MARK_REGION_H
#include <mpi.h>

static inline void region_begin(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
}

static inline void region_end(void)
{
    MPI_Pcontrol(0);
    MPI_Barrier(MPI_COMM_WORLD);
}

#endif
