/* Eight floats at a time. Where the compiler has vectors they are the processor's, else an array:
   the same operations in the same order, so the same bits. */

#define LANES 8

#if (defined(__GNUC__) || defined(__clang__)) && !defined(FEDSEL_PLAIN_LANES)

typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t LaneBits __attribute__((vector_size(4 * LANES)));
typedef float LanesInMemory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define LOAD(address) (*(const LanesInMemory *)(address))
#define STORE(address, lanes) (*(LanesInMemory *)(address) = (lanes))
#define ADD(a, b) ((a) + (b))
#define SUBTRACT(a, b) ((a) - (b))
#define MULTIPLY(a, b) ((a) * (b))
#define LANE(lanes, i) ((lanes)[i])
#define ZERO ((Lanes){0})

#if defined(__clang__)
#define SWAP_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#define SWAP_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define SWAP_4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#else
#define SWAP_1(v) __builtin_shuffle(v, (LaneBits){1, 0, 3, 2, 5, 4, 7, 6})
#define SWAP_2(v) __builtin_shuffle(v, (LaneBits){2, 3, 0, 1, 6, 7, 4, 5})
#define SWAP_4(v) __builtin_shuffle(v, (LaneBits){4, 5, 6, 7, 0, 1, 2, 3})
#endif

#define MINUS INT32_MIN
#define NEGATE(v, ...) ((Lanes)((LaneBits)(v) ^ (LaneBits){__VA_ARGS__}))

/* The first three steps of a Walsh–Hadamard transform, on eight neighbours: a + b, a − b. */
INLINE Lanes hadamard_of_lanes(Lanes v) {
    v = SWAP_1(v) + NEGATE(v, 0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS);
    v = SWAP_2(v) + NEGATE(v, 0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS);
    return SWAP_4(v) + NEGATE(v, 0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS);
}

#else

typedef struct {
    float of[LANES];
} Lanes;

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

#define LOAD(address) lanes_from(address)
#define STORE(address, lanes) memcpy((address), (lanes).of, sizeof(lanes).of)
#define ADD(a, b) added(a, b)
#define SUBTRACT(a, b) subtracted(a, b)
#define MULTIPLY(a, b) multiplied(a, b)
#define LANE(lanes, i) ((lanes).of[i])
#define ZERO ((Lanes){{0}})

INLINE Lanes hadamard_of_lanes(Lanes v) {
    for (int stride = 1; stride < LANES; stride *= 2)
        for (int i = 0; i < LANES; i++)
            if (!(i & stride)) {
                float a = v.of[i], b = v.of[i + stride];
                v.of[i] = a + b;
                v.of[i + stride] = a - b;
            }
    return v;
}

#endif
