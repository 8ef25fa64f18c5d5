// The program as C++.
#include "sum.c"
