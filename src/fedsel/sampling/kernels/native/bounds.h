/* Where the top of a vector ends, nearly: so that most attempts need no counting. */

#define LEAST_GUESS 1e-6f

/* Bounds from how many magnitudes are above two pivots, on both sides of a guess at the one where the
   top ends. The ``guess``, a share of the vector's ``length``, is mended by what is found: no draw
   depends on it, only how long it takes. */
OUTLINE Bounds bounds_of(const RankTable *table, const float *vector, int64_t d, float length,
                         float *guess) {
    if (!table->threshold) return NO_BOUNDS;
    const int64_t top = table->edges[0];
    const float margin = 2 / sqrtf((float)d); /* about twice a rank's deviation */
    if (!(*guess > 0)) *guess = magnitude_at_float(top - 1, vector, d) / length;
    if (!(*guess > LEAST_GUESS)) *guess = LEAST_GUESS;
    const float low = *guess * length * (1 - margin), high = *guess * length * (1 + margin);
    int64_t above_low = 0, above_high = 0, i = 0;
    for (; i + stretch_float <= d; i += stretch_float) {
        above_low += above_in_stretch_float(vector + i, stretch_float, low);
        above_high += above_in_stretch_float(vector + i, stretch_float, high);
    }
    if (i < d) {
        above_low += above_in_stretch_float(vector + i, d - i, low);
        above_high += above_in_stretch_float(vector + i, d - i, high);
    }
    const int towards = 2 * (above_low + above_high > 2 * top) - 1;
    const int missed = (above_high > top) - (above_low < top);
    *guess *= 1 + margin / 32 * (float)(towards + 7 * missed);
    return (Bounds){above_low >= top ? low : -1, above_high <= top ? high : INFINITY};
}
