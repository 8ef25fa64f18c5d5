! The instances of instance.h: element types, and the numbers of dimensions that each has.
#define RANGE(t, i) t(1, i):t(2, i):t(3, i)

#define ELEMENT integer
#define MAKE make_integer
#define TYPE_OF integer_type
#define FREE_BASIC(t)
#define NUMERIC
#define INSTANCE integer_1
#define INSTANCE_NAME 'integer_1'
#define RANK 1
#define COLONS :
#define ALLOCATED(x, a) (x(1, a))
#define SECTION(t) (RANGE(t, 1))
#include "instance.h"
#define INSTANCE integer_2
#define INSTANCE_NAME 'integer_2'
#define RANK 2
#define COLONS :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2))
#include "instance.h"
#define INSTANCE integer_3
#define INSTANCE_NAME 'integer_3'
#define RANK 3
#define COLONS :, :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a), x(3, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2), RANGE(t, 3))
#include "instance.h"
#define INSTANCE integer_4
#define INSTANCE_NAME 'integer_4'
#define RANK 4
#define COLONS :, :, :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a), x(3, a), x(4, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2), RANGE(t, 3), RANGE(t, 4))
#include "instance.h"
#define INSTANCE integer_7
#define INSTANCE_NAME 'integer_7'
#define RANK 7
#define COLONS :, :, :, :, :, :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a), x(3, a), x(4, a), \
    x(5, a), x(6, a), x(7, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2), RANGE(t, 3), RANGE(t, 4), \
    RANGE(t, 5), RANGE(t, 6), RANGE(t, 7))
#include "instance.h"
#undef ELEMENT
#undef MAKE
#undef TYPE_OF
#undef FREE_BASIC
#undef NUMERIC

#define ELEMENT real
#define MAKE make_real
#define TYPE_OF real_type
#define FREE_BASIC(t)
#define NUMERIC
#define INSTANCE real_2
#define INSTANCE_NAME 'real_2'
#define RANK 2
#define COLONS :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2))
#include "instance.h"
#undef ELEMENT
#undef MAKE
#undef TYPE_OF
#undef FREE_BASIC
#undef NUMERIC

#define ELEMENT double precision
#define MAKE make_double
#define TYPE_OF double_type
#define FREE_BASIC(t)
#define NUMERIC
#define INSTANCE double_1
#define INSTANCE_NAME 'double_1'
#define RANK 1
#define COLONS :
#define ALLOCATED(x, a) (x(1, a))
#define SECTION(t) (RANGE(t, 1))
#include "instance.h"
#define INSTANCE double_3
#define INSTANCE_NAME 'double_3'
#define RANK 3
#define COLONS :, :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a), x(3, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2), RANGE(t, 3))
#include "instance.h"
#undef ELEMENT
#undef MAKE
#undef TYPE_OF
#undef FREE_BASIC
#undef NUMERIC

#define ELEMENT complex
#define MAKE make_complex
#define TYPE_OF complex_type
#define FREE_BASIC(t)
#define NUMERIC
#define INSTANCE complex_2
#define INSTANCE_NAME 'complex_2'
#define RANK 2
#define COLONS :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2))
#include "instance.h"
#undef ELEMENT
#undef MAKE
#undef TYPE_OF
#undef FREE_BASIC
#undef NUMERIC

#define ELEMENT character(len=text_length)
#define MAKE make_text
#define TYPE_OF text_type
#define FREE_BASIC(t) call MPI_Type_free(t, ierror)
#define INSTANCE text_1
#define INSTANCE_NAME 'text_1'
#define RANK 1
#define COLONS :
#define ALLOCATED(x, a) (x(1, a))
#define SECTION(t) (RANGE(t, 1))
#include "instance.h"
#define INSTANCE text_2
#define INSTANCE_NAME 'text_2'
#define RANK 2
#define COLONS :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2))
#include "instance.h"
#undef ELEMENT
#undef MAKE
#undef TYPE_OF
#undef FREE_BASIC

#define ELEMENT type(thing)
#define MAKE make_thing
#define TYPE_OF thing_type
#define FREE_BASIC(t) call MPI_Type_free(t, ierror)
#define INSTANCE thing_1
#define INSTANCE_NAME 'thing_1'
#define RANK 1
#define COLONS :
#define ALLOCATED(x, a) (x(1, a))
#define SECTION(t) (RANGE(t, 1))
#include "instance.h"
#define INSTANCE thing_2
#define INSTANCE_NAME 'thing_2'
#define RANK 2
#define COLONS :, :
#define ALLOCATED(x, a) (x(1, a), x(2, a))
#define SECTION(t) (RANGE(t, 1), RANGE(t, 2))
#include "instance.h"
#undef ELEMENT
#undef MAKE
#undef TYPE_OF
#undef FREE_BASIC
