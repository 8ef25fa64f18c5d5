! Array sections as buffers of packing, one-sided communication, files and neighbourhood
! collectives (sections.h says how).
#define SECTIONS_MOVES
#include "sections.h"
