/* The draws of `fedsel.mechanisms.drawing`, from the same words in the same order. */

/* An entry of UJ as an integer in 0 … UNIT. */
INLINE int64_t units_of(const SignTable *table, double value) {
    double units = fabs(value) / table->clip * (double)UNIT;
    return units < (double)UNIT ? (int64_t)units : units == units ? UNIT : 0;
}

/* An atom 0 … 2d−1 of UJ, or BOTTOM. */
INLINE int64_t draw_unbiased(const SignTable *table, const double *vector, int64_t d, Stream *s) {
    int64_t plain = 2 * d * table->low * UNIT;
    int64_t x = below(s, (uint64_t)(plain + table->top * table->high * UNIT));
    if (x < plain) return x / (table->low * UNIT);
    if (table->high <= table->low) return BOTTOM;
    int64_t place = (x - plain) / (table->high - table->low), most = table->top * UNIT;
    int64_t found = 0, passed = 0;
    for (int64_t i = 0; i < d; i++) found += units_of(table, vector[i]);
    for (int64_t j = 0; j < d; j++) {
        int64_t units = units_of(table, vector[j]);
        passed += found > most ? units * most / found : units;
        if (passed > place) return vector[j] > 0 ? j : d + j;
    }
    return BOTTOM;
}

/* The sign ±1 that J gives a vector: by chance where it is shorter than the radius, if there is one;
   ``squared`` is ‖vector‖². */
INLINE float draw_sign(const SignTable *table, float squared, Stream *s) {
    if (!(table->radius > 0)) return 1;
    double share = sqrt((double)squared) / table->radius;
    share = share < 1.0 ? share : 1.0;
    int64_t steps = (int64_t)((1.0 + share) * (double)(INPUT_STEPS / 2) + 0.5);
    const int negative = below(s, (uint64_t)INPUT_STEPS) >= steps;
    return (float)(1 - 2 * negative); /* in numbers: a branch could not be foreseen */
}

/* A symbol by the law at t in [−1, 1]. */
INLINE int64_t draw_symbol(const SymbolTable *table, double t, Stream *s) {
    const Window *w = table->windows;
    if (table->count > 1) {
        int64_t toss = below(s, (uint64_t)table->windows[table->count - 1].end);
        while (toss >= w->end) w++;
    }
    int64_t scaled = (int64_t)((t + 1.0) * (double)(INPUT_STEPS / 2) + 0.5) * w->G;
    int64_t up = below(s, (uint64_t)INPUT_STEPS);
    int64_t cell = (scaled >> STEP_BITS) + (up < (scaled & (INPUT_STEPS - 1)));
    int64_t x = below_known(s, (uint64_t)w->total, w->surplus);
    if (x < w->base) return w->offset + divide(x, w->L, w->inverse_of_L);
    return w->offset + cell + divide(x - w->base, w->extra, w->inverse_of_extra);
}

#define DRAW_DIMENSIONS(REAL, NAME)                                                             \
    static void draw_dimensions_##NAME(const RankTable *table, const REAL *vectors, int64_t rows, \
                                       int64_t d, const uint64_t *key, uint64_t epoch,           \
                                       const int64_t *clients, int64_t count, int64_t *chosen) { \
        for (int64_t i = 0; i < count; i++) {                                                   \
            Stream s;                                                                           \
            begin_stream(&s, key, epoch, (uint64_t)clients[i]);                                 \
            const REAL *vector = vectors + (rows > 1 ? i * d : 0);                              \
            chosen[i] = draw_ranked_##NAME(table, vector, d, 0, &s);                            \
        }                                                                                       \
    }
DRAW_DIMENSIONS(float, float)
DRAW_DIMENSIONS(double, double)

static void draw_symbols(const SymbolTable *table, const double *t, int64_t rows,
                         const uint64_t *key, uint64_t epoch, const int64_t *clients,
                         int64_t count, int64_t *symbols) {
    for (int64_t i = 0; i < count; i++) {
        Stream s;
        begin_stream(&s, key, epoch, (uint64_t)clients[i]);
        symbols[i] = draw_symbol(table, t[rows > 1 ? i : 0], &s);
    }
}
