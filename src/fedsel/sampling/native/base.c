/* The kernels for every processor of this kind. */
#define KERNELS kernels_base
#define KERNELS_NAME "base"
#include "kernels.inc"
