/* The Walsh–Hadamard transform. Sums are those of `solutions.transforms.hadamard`: neighbours
   first, then pairs at a distance of 2, 4, 8, …; several distances are taken in one pass. */

INLINE void butterfly_2(float *x, int64_t n, int64_t h) {
    for (int64_t block = 0; block < n; block += 2 * h)
        for (int64_t i = block; i < block + h; i += LANES) {
            Lanes a = LOAD(x + i), b = LOAD(x + i + h);
            STORE(x + i, ADD(a, b));
            STORE(x + i + h, SUBTRACT(a, b));
        }
}

/* Distances h and 2h. */
INLINE void butterfly_4(float *x, int64_t n, int64_t h) {
    for (int64_t block = 0; block < n; block += 4 * h)
        for (int64_t i = block; i < block + h; i += LANES) {
            float *p = x + i;
            Lanes a = LOAD(p), b = LOAD(p + h), c = LOAD(p + 2 * h), e = LOAD(p + 3 * h);
            Lanes a1 = ADD(a, b), b1 = SUBTRACT(a, b), c1 = ADD(c, e), e1 = SUBTRACT(c, e);
            STORE(p, ADD(a1, c1));
            STORE(p + h, ADD(b1, e1));
            STORE(p + 2 * h, SUBTRACT(a1, c1));
            STORE(p + 3 * h, SUBTRACT(b1, e1));
        }
}

/* Distances h, 2h and 4h. */
INLINE void butterfly_8(float *x, int64_t n, int64_t h) {
    for (int64_t block = 0; block < n; block += 8 * h)
        for (int64_t i = block; i < block + h; i += LANES) {
            float *p = x + i;
            Lanes v[8], w[8];
            for (int j = 0; j < 8; j++) v[j] = LOAD(p + j * h);
            for (int j = 0; j < 8; j += 2) {
                w[j] = ADD(v[j], v[j + 1]);
                w[j + 1] = SUBTRACT(v[j], v[j + 1]);
            }
            for (int j = 0; j < 8; j += 4)
                for (int i2 = j; i2 < j + 2; i2++) {
                    v[i2] = ADD(w[i2], w[i2 + 2]);
                    v[i2 + 2] = SUBTRACT(w[i2], w[i2 + 2]);
                }
            for (int j = 0; j < 4; j++) {
                STORE(p + j * h, ADD(v[j], v[j + 4]));
                STORE(p + (j + 4) * h, SUBTRACT(v[j], v[j + 4]));
            }
        }
}

#define CACHED 4096

/* The steps at a distance of h and more. */
INLINE void hadamard_from(float *x, int64_t n, int64_t h) {
    while (8 * h <= n) {
        butterfly_8(x, n, h);
        h *= 8;
    }
    if (4 * h <= n) {
        butterfly_4(x, n, h);
        h *= 4;
    }
    if (2 * h <= n) butterfly_2(x, n, h);
}

/* What is left once eight neighbours are done: stretch by stretch as far as the innermost cache
   holds, then across. */
INLINE void hadamard_beyond_lanes(float *x, int64_t n) {
    if (n <= CACHED) {
        hadamard_from(x, n, LANES);
        return;
    }
    for (int64_t start = 0; start < n; start += CACHED) hadamard_from(x + start, CACHED, LANES);
    hadamard_from(x, n, CACHED);
}

INLINE void hadamard_small(float *x, int64_t n) {
    for (int64_t h = 1; h < n; h *= 2)
        for (int64_t i = 0; i < n; i++)
            if (!(i & h)) {
                float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
}

/* Of n = 2^m floats, in place. */
INLINE void hadamard_float(float *x, int64_t n) {
    if (n < LANES) {
        hadamard_small(x, n);
        return;
    }
    for (int64_t i = 0; i < n; i += LANES) STORE(x + i, hadamard_of_lanes(LOAD(x + i)));
    hadamard_beyond_lanes(x, n);
}

/* Of the n = 2^m entries signs·vector, and zeros after the first d. */
OUTLINE void hadamard_of_signed(const float *vector, const float *signs, int64_t d, float *x,
                               int64_t n) {
    int64_t i = 0;
    if (n >= LANES)
        for (; i + LANES <= d; i += LANES)
            STORE(x + i, hadamard_of_lanes(MULTIPLY(LOAD(vector + i), LOAD(signs + i))));
    int64_t rest = i;
    for (; i < d; i++) x[i] = vector[i] * signs[i];
    for (; i < n; i++) x[i] = 0;
    if (n < LANES) {
        hadamard_small(x, n);
        return;
    }
    for (; rest < d; rest += LANES) STORE(x + rest, hadamard_of_lanes(LOAD(x + rest)));
    hadamard_beyond_lanes(x, n);
}

/* Of n = 2^m doubles, in place: every step takes neighbours to two halves. */
INLINE void hadamard_double(double *x, double *room, int64_t n) {
    int64_t half = n / 2;
    for (int64_t step = 1; step < n; step *= 2) {
        for (int64_t i = 0; i < half; i++) {
            double a = x[2 * i], b = x[2 * i + 1];
            room[i] = a + b;
            room[half + i] = a - b;
        }
        memcpy(x, room, (size_t)n * sizeof *x);
    }
}

/* Scores of which some overflowed, as a device takes them: `numpy.nan_to_num`. */
OUTLINE void without_overflow(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (x[i] != x[i]) x[i] = 0;
        if (x[i] > FLT_MAX) x[i] = FLT_MAX;
        if (x[i] < -FLT_MAX) x[i] = -FLT_MAX;
    }
}

/* The scores of all codewords, where slots are not coordinates; ``squared`` is ‖vector‖². */
OUTLINE void fill_scores(const Sending *sending, const float *vector, float squared) {
    const Tables *tables = sending->tables;
    float *scores = sending->scratch->scores;
    if (tables->basis == ROTATED)
        for (int64_t r = 0; r < tables->rotations; r++)
            hadamard_of_signed(vector, sending->signs + r * tables->dim, tables->dim,
                               scores + r * tables->width, tables->width);
    else
        for (int64_t j = 0; j < tables->slots; j++)
            scores[j] = dot(tables->matrix + j * tables->dim, vector, tables->dim);
    /* A sum of entries is at most √M times the norm: it cannot overflow where the square does not. */
    if (!(squared < INFINITY)) without_overflow(scores, tables->slots);
}

INLINE int parity(uint64_t x) {
    for (int shift = 32; shift; shift /= 2) x ^= x >> shift;
    return (int)(x & 1);
}

/* Entry i of a codeword. */
INLINE double entry_of(const Sending *sending, int64_t slot, int64_t i) {
    const Tables *tables = sending->tables;
    if (tables->basis == ROTATED) {
        /* i is below the width: slot & i has the bits of the slot's row alone. */
        double sign = parity((uint64_t)(slot & i)) ? -1.0 : 1.0;
        const float *signs = sending->signs + slot / tables->width * tables->dim;
        return sign * (double)signs[i] / tables->root;
    }
    return (double)tables->matrix[slot * tables->dim + i];
}
