/* The region of AMG (leon-2009, 4.3.1): the solve phase, that is HYPRE_PCGSolve as hypre's driver ij
 * calls it. Linked with --wrap=HYPRE_PCGSolve. */
#include "mark_region.h"

/* As in krylov/HYPRE_krylov.h: structures by pointer. */
typedef struct hypre_Solver_struct *Solver;
typedef struct hypre_Matrix_struct *Matrix;
typedef struct hypre_Vector_struct *Vector;

int __real_HYPRE_PCGSolve(Solver solver, Matrix a, Vector b, Vector x);
int __wrap_HYPRE_PCGSolve(Solver solver, Matrix a, Vector b, Vector x);

int __wrap_HYPRE_PCGSolve(Solver solver, Matrix a, Vector b, Vector x)
{
    region_begin();
    int result = __real_HYPRE_PCGSolve(solver, a, b, x);
    region_end();
    return result;
}
