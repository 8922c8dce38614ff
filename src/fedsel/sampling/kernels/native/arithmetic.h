/* Floating-point building blocks that give the same bits on every machine: sums in a fixed order
   (eight lanes, then a fixed tree), polynomials in place of the platform's library. */

#define UNROLLED 4
#define AT_A_TIME (UNROLLED * LANES)

/* The sum of UNROLLED · LANES numbers, in a fixed order, after those of the rest: x · y from i on. */
INLINE float sum_of(const Wide *sums, const float *x, const float *y, int64_t i, int64_t n) {
    Lanes v[UNROLLED];
    memcpy(v, sums, sizeof v);
    for (; i + LANES <= n; i += LANES)
        v[0] = ADD(v[0], MULTIPLY(LOAD_LANES(x + i), LOAD_LANES(y + i)));
    v[0] = ADD(ADD(v[0], v[1]), ADD(v[2], v[3]));
    float total = ((LANE(v[0], 0) + LANE(v[0], 4)) + (LANE(v[0], 2) + LANE(v[0], 6))) +
                  ((LANE(v[0], 1) + LANE(v[0], 5)) + (LANE(v[0], 3) + LANE(v[0], 7)));
    for (; i < n; i++) total += x[i] * y[i];
    return total;
}

/* x · y, summed in a fixed order. */
INLINE float dot(const float *x, const float *y, int64_t n) {
    Wide sums[AT_A_TIME / WIDE];
    memset(sums, 0, sizeof sums);
    int64_t i = 0;
    for (; i + AT_A_TIME <= n; i += AT_A_TIME)
        for (int u = 0; u < AT_A_TIME / WIDE; u++)
            sums[u] = ADD(sums[u], MULTIPLY(LOAD(x + i + u * WIDE), LOAD(y + i + u * WIDE)));
    return sum_of(sums, x, y, i, n);
}

/* The same, of rows that come from memory one after another: where they begin anywhere in a cache line,
   narrow loads cross fewer of its ends. */
INLINE float dot_of_rows(const float *x, const float *y, int64_t n) {
    Lanes sums[UNROLLED];
    memset(sums, 0, sizeof sums);
    int64_t i = 0;
    for (; i + AT_A_TIME <= n; i += AT_A_TIME)
        for (int u = 0; u < UNROLLED; u++)
            sums[u] = ADD(sums[u], MULTIPLY(LOAD_LANES(x + i + u * LANES), LOAD_LANES(y + i + u * LANES)));
    Wide wide[AT_A_TIME / WIDE];
    memcpy(wide, sums, sizeof wide);
    return sum_of(wide, x, y, i, n);
}

/* out ← c · x; returns its square as `dot` sums it. */
INLINE float scale(const float *x, float c, int64_t n, float *out) {
    Wide sums[AT_A_TIME / WIDE];
    const Wide factors = ALL(c);
    memset(sums, 0, sizeof sums);
    int64_t i = 0;
    for (; i + AT_A_TIME <= n; i += AT_A_TIME)
        for (int u = 0; u < AT_A_TIME / WIDE; u++) {
            Wide product = MULTIPLY(factors, LOAD(x + i + u * WIDE));
            STORE(out + i + u * WIDE, product);
            sums[u] = ADD(sums[u], MULTIPLY(product, product));
        }
    for (int64_t rest = i; rest < n; rest++) out[rest] = c * x[rest];
    return sum_of(sums, out, out, i, n);
}

INLINE double floor_of(double x) {
    double n = (double)(int64_t)x;
    return n > x ? n - 1.0 : n;
}

/* e^x for |x| ≤ 700 within 1e-15: 2^n times a polynomial on [−ln2/2, ln2/2]. */
INLINE double exponential(double x) {
    double n = floor_of(x * 1.4426950408889634 + 0.5);
    double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
    double p = 1.0 / 6227020800.0; /* Taylor to degree 13: the remainder is below 2e-17 */
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* 1/(1 + e^−x), without overflow. */
INLINE double sigmoid(double x) {
    if (x >= 0) return 1.0 / (1.0 + exponential(x < 700.0 ? -x : -700.0));
    double e = exponential(x > -700.0 ? x : -700.0);
    return e / (1.0 + e);
}

/* ln x for x > 0 within 1e-14. */
INLINE double logarithm(double x) {
    int e;
    double m = frexp(x, &e);
    if (m < 0.7071067811865476) {
        m = 2.0 * m;
        e -= 1;
    }
    double s = (m - 1.0) / (m + 1.0), z = s * s, p = 0.0;
    for (int n = 21; n > 0; n -= 2) p = p * z + 1.0 / n;
    return 2.0 * s * p + e * 0.6931471805599453;
}
