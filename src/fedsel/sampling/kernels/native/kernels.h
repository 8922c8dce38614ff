/* All kernels, for the instructions that the including file chose; named by KERNELS. */

#include "tables.h"

#include "lanes.h"
#include "streams.h"
#include "arithmetic.h"
#include "attempts.h"

#define REAL float
#define REALS_ARE_FLOATS
#define NAMED(function) function##_float
#define ABSOLUTE(x) fabsf(x)
#define NEXT_AFTER(x, y) nextafterf(x, y)
#include "ranks.h"
#undef REAL
#undef REALS_ARE_FLOATS
#undef NAMED
#undef ABSOLUTE
#undef NEXT_AFTER

#define REAL double
#define NAMED(function) function##_double
#define ABSOLUTE(x) fabs(x)
#define NEXT_AFTER(x, y) nextafter(x, y)
#include "ranks.h"
#undef REAL
#undef NAMED
#undef ABSOLUTE
#undef NEXT_AFTER

#include "bounds.h"
#if defined(FEDSEL_AVX512)
#include "threshold.h"
#else
#include "one_by_one.h"
#endif

#include "transforms.h"
#include "fresh.h"
#include "draws.h"
#include "baselines.h"
#include "report.h"
#include "mean.h"
#include "vectors.h"
#include "rounds.h"
#include "public.h"

static void hadamard_of_doubles(double *x, double *room, int64_t n) { hadamard_double(x, room, n); }
static double magnitude_of_rank(int64_t rank, const float *vector, int64_t d) {
    return (double)magnitude_at_float(rank, vector, d);
}
static double logarithm_of(double x) { return logarithm(x); }

const Kernels KERNELS = {
    KERNELS_NAME,
    run_rounds,
    send_vectors,
    judge,
    nonprivate_rounds,
    draw_dimensions_float,
    draw_dimensions_double,
    draw_symbols,
    shuffle,
    drop,
    take_words,
    public_signs,
    add_codewords,
    hadamard_float,
    hadamard_of_doubles,
    magnitude_of_rank,
    find_equal_float,
    logarithm_of,
};
