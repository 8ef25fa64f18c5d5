#if defined(STYLE_MPIF_H)
  include 'mpif.h'
#endif
