! Array sections as buffers of collective operations (sections.h says how).
#define SECTIONS_COLL
#include "sections.h"
