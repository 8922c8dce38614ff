/* Floats many at a time. Where the compiler has vectors they are the processor's, else an array: the
   same operations in the same order, so the same bits.

   Sums are added in LANES lanes, whatever the processor has. WIDE is how many floats it takes at
   once, where the order is no matter. */

#define LANES 8

#if defined(FEDSEL_AVX512)
#define WIDE 16
#else
#define WIDE LANES
#endif

#if (defined(__GNUC__) || defined(__clang__)) && !defined(FEDSEL_PLAIN_LANES)

typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef float LanesInMemory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float Wide __attribute__((vector_size(4 * WIDE)));
typedef float WideInMemory __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef int32_t WideBits __attribute__((vector_size(4 * WIDE)));

#define LOAD_LANES(address) (*(const LanesInMemory *)(address))
#define LOAD(address) (*(const WideInMemory *)(address))
#define STORE(address, wide) (*(WideInMemory *)(address) = (wide))
#define ADD(a, b) ((a) + (b))
#define SUBTRACT(a, b) ((a) - (b))
#define MULTIPLY(a, b) ((a) * (b))
#define LANE(lanes, i) ((lanes)[i])
#define ZERO ((Wide){0})
#define ALL(x) ((x) - ZERO)

#if defined(__clang__)
#define SHUFFLED(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define SHUFFLED(v, ...) __builtin_shuffle(v, (WideBits){__VA_ARGS__})
#endif

/* The first ``count`` floats, and zeros where they are fewer than WIDE. */
INLINE Wide load_up_to(const float *address, int64_t count) {
    if (count >= WIDE) return LOAD(address);
#if defined(FEDSEL_AVX512)
    return (Wide)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), address);
#else
    float some[WIDE] = {0};
    memcpy(some, address, (size_t)count * sizeof *some);
    return LOAD(some);
#endif
}

/* a + (signs ±1)·v: one rounding either way, for the product is exact. */
#if defined(FEDSEL_AVX512)
#define ADD_SIGNED(a, v, ...) \
    ((Wide)_mm512_fmadd_ps((__m512)(v), (__m512)(Wide){__VA_ARGS__}, (__m512)(a)))
#elif defined(FEDSEL_AVX2)
#define ADD_SIGNED(a, v, ...) \
    ((Wide)_mm256_fmadd_ps((__m256)(v), (__m256)(Wide){__VA_ARGS__}, (__m256)(a)))
#else
#define ADD_SIGNED(a, v, ...) ((a) + (v) * (Wide){__VA_ARGS__})
#endif

/* The first steps of a Walsh–Hadamard transform, on WIDE neighbours: a + b, a − b. */
#if WIDE == 16
INLINE Wide hadamard_of_wide(Wide v) {
    v = ADD_SIGNED(SHUFFLED(v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14), v,
                   1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1);
    v = ADD_SIGNED(SHUFFLED(v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13), v,
                   1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1);
    v = ADD_SIGNED(SHUFFLED(v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11), v,
                   1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1);
    return ADD_SIGNED(SHUFFLED(v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7), v,
                      1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1);
}
#else
INLINE Wide hadamard_of_wide(Wide v) {
    v = ADD_SIGNED(SHUFFLED(v, 1, 0, 3, 2, 5, 4, 7, 6), v, 1, -1, 1, -1, 1, -1, 1, -1);
    v = ADD_SIGNED(SHUFFLED(v, 2, 3, 0, 1, 6, 7, 4, 5), v, 1, 1, -1, -1, 1, 1, -1, -1);
    return ADD_SIGNED(SHUFFLED(v, 4, 5, 6, 7, 0, 1, 2, 3), v, 1, 1, 1, 1, -1, -1, -1, -1);
}
#endif

#else

typedef struct {
    float of[LANES];
} Lanes;
typedef Lanes Wide;

INLINE Lanes lanes_from(const float *address) {
    Lanes v;
    memcpy(v.of, address, sizeof v.of);
    return v;
}
#define EACH_LANE(expression)                            \
    Lanes v;                                             \
    for (int i = 0; i < LANES; i++) v.of[i] = expression; \
    return v
INLINE Lanes added(Lanes a, Lanes b) { EACH_LANE(a.of[i] + b.of[i]); }
INLINE Lanes subtracted(Lanes a, Lanes b) { EACH_LANE(a.of[i] - b.of[i]); }
INLINE Lanes multiplied(Lanes a, Lanes b) { EACH_LANE(a.of[i] * b.of[i]); }
INLINE Lanes all_lanes(float x) { EACH_LANE(x); }

#define LOAD_LANES(address) lanes_from(address)
#define LOAD(address) lanes_from(address)
#define STORE(address, wide) memcpy((address), (wide).of, sizeof(wide).of)
#define ADD(a, b) added(a, b)
#define SUBTRACT(a, b) subtracted(a, b)
#define MULTIPLY(a, b) multiplied(a, b)
#define LANE(lanes, i) ((lanes).of[i])
#define ZERO ((Wide){{0}})
#define ALL(x) all_lanes(x)

INLINE Wide load_up_to(const float *address, int64_t count) {
    if (count >= WIDE) return LOAD(address);
    Wide v = ZERO;
    memcpy(v.of, address, (size_t)count * sizeof *v.of);
    return v;
}

INLINE Wide hadamard_of_wide(Wide v) {
    for (int stride = 1; stride < WIDE; stride *= 2)
        for (int i = 0; i < WIDE; i++)
            if (!(i & stride)) {
                float a = v.of[i], b = v.of[i + stride];
                v.of[i] = a + b;
                v.of[i + stride] = a - b;
            }
    return v;
}

#endif
