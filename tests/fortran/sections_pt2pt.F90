! Array sections as buffers of point-to-point communication (sections.h says how).
#define SECTIONS_PT2PT
#include "sections.h"
