/* Drawing by rank: count, accept by weight, no sort and no allocation. Included once for floats and
   once for doubles: REAL, ABSOLUTE(x), NEXT_AFTER(x, y) and NAMED(function).

   Drawing a dimension first needs at most e^ε attempts, whatever the law: an ε-private law is
   nearly uniform, so the privacy bound itself bounds the sampler. Each pass over a vector is
   branch-free. */

#define SAMPLES 16
#define PATIENCE 8
#define BLOCK 64

#include "counts.h"

/* The largest magnitude that is not above the bound; 0 if there is none. */
PURE REAL NAMED(largest_up_to)(const REAL *vector, int64_t d, REAL bound) {
    REAL found[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= d; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            REAL m = ABSOLUTE(vector[i + lane]);
            m = m <= bound ? m : 0;
            found[lane] = m > found[lane] ? m : found[lane];
        }
    REAL largest = 0;
    for (; i < d; i++) {
        REAL m = ABSOLUTE(vector[i]);
        if (m <= bound && m > largest) largest = m;
    }
    for (int lane = 0; lane < LANES; lane++)
        if (found[lane] > largest) largest = found[lane];
    return largest;
}

/* The magnitude of a rank (0 is the largest), by closing in on it: low < it ≤ high.
   Counting passes run at the speed of the processor's vectors, and a few suffice; a sort or a
   partition takes as long as dozens of them. */
PURE REAL NAMED(magnitude_at)(int64_t rank, const REAL *vector, int64_t d) {
    REAL low = 0, high = 0;
    int64_t above_low = NAMED(count_above)(vector, d, low, d);
    if (rank >= above_low) return low;
    for (int64_t i = 0; i < d; i += d > SAMPLES ? d / SAMPLES : 1)
        if (ABSOLUTE(vector[i]) > high) high = ABSOLUTE(vector[i]);
    if (high == 0) high = NAMED(largest_up_to)(vector, d, (REAL)INFINITY);
    int64_t above_high = NAMED(count_above)(vector, d, high, d);
    while (above_high > rank) {
        low = high;
        above_low = above_high;
        high *= 2;
        above_high = NAMED(count_above)(vector, d, high, d);
    }
    for (int attempt = 1; above_low - above_high > 1; attempt++) {
        double share = 0.5;
        if (attempt % 2) /* as if the counts fell exponentially */
            share = log((double)above_low / ((double)rank + 0.5)) /
                    log((double)above_low / ((double)above_high + 0.5));
        REAL pivot = low + (high - low) * (REAL)share;
        if (attempt % PATIENCE && low < pivot && pivot < high) {
            int64_t above = NAMED(count_above)(vector, d, pivot, d);
            if (above > rank) {
                low = pivot;
                above_low = above;
            } else {
                high = pivot;
                above_high = above;
            }
        } else { /* many equal ones: step from one magnitude to the next smaller */
            high = NAMED(largest_up_to)(vector, d, high);
            int64_t passed = above_high + NAMED(count_equal)(vector, d, high);
            if (passed > rank) return high;
            high = NEXT_AFTER(high, low);
            above_high = passed;
        }
    }
    return NAMED(largest_up_to)(vector, d, high);
}

/* The magnitude by which j is ranked: |v_j|, or with a sign ±1 that of the signed atom j < 2d. The
   atoms of dimension j are max(sign·v_j, 0) and, d places later, max(−sign·v_j, 0). */
INLINE REAL NAMED(magnitude_of)(const REAL *vector, int64_t d, int64_t j, REAL sign) {
    if (sign == 0) return ABSOLUTE(vector[j]);
    REAL signed_value = sign * (j < d ? vector[j] : -vector[j - d]);
    return signed_value > 0 ? signed_value : 0;
}

/* The place of the pick-th of the d magnitudes that equal the pivot; −1 − how many there are.
   Whole blocks are counted first, branch-free. */
PURE int64_t NAMED(find_equal)(const REAL *vector, int64_t d, REAL sign, REAL pivot,
                                  int64_t pick) {
    int64_t left = pick, i = 0;
    for (; i + BLOCK <= d; i += BLOCK) {
        int32_t equal = 0;
        for (int64_t j = i; j < i + BLOCK; j++)
            equal += NAMED(magnitude_of)(vector, d, j, sign) == pivot;
        if (left < equal) break;
        left -= equal;
    }
    for (; i < d; i++)
        if (NAMED(magnitude_of)(vector, d, i, sign) == pivot && left-- == 0) return i;
    return left - pick - 1;
}

/* How many atoms share the magnitude m, of which so many are ``larger``. */
INLINE uint64_t NAMED(sharing)(const RankTable *table, const REAL *vector, int64_t d, REAL sign, REAL m,
                               int64_t larger) {
    return (uint64_t)(sign != 0 && m == 0 ? table->atoms - larger : NAMED(count_equal)(vector, d, m));
}

/* From the attempt ``first`` on. */
OUTLINE int64_t NAMED(draw_by_rejection)(const RankTable *table, Attempt first, const REAL *vector,
                                         int64_t d, REAL sign, Bounds bounds, Stream *s) {
    const int64_t top = table->threshold ? table->edges[0] : INT64_MAX;
    const REAL signs[2] = {sign, -sign};
    REAL outside = bounds.outside;
    for (Attempt attempt = first;; attempt = next_attempt(table, s)) {
        const int64_t j = attempt.atom;
        /* As `magnitude_of`, without a branch: which of both atoms it is cannot be foreseen. */
        int negative = j >= d;
        REAL value = vector[negative ? j - d : j] * signs[negative];
        REAL m = sign == 0 ? ABSOLUTE(vector[j]) : value > 0 ? value : 0;
        int certain = is_certain(table, attempt) || m > bounds.inside;
        if (certain || m <= outside) {
            skip_word(s);
            if (certain) return j;
            continue;
        }
        int64_t larger = NAMED(count_above)(vector, d, m, top);
        if (larger >= top) {
            skip_word(s);
            outside = m;
            continue;
        }
        int64_t rank = larger + below(s, NAMED(sharing)(table, vector, d, sign, m, larger));
        int64_t run = table->dense ? rank : 0;
        while (!table->dense && rank >= table->edges[run]) run++;
        if (level_of(table, attempt) < table->weights[run]) return j;
    }
}

OUTLINE int64_t NAMED(draw_rank_first)(const RankTable *table, const REAL *vector, int64_t d,
                                      REAL sign, Stream *s) {
    int64_t x = below_known(s, table->places, table->surplus), run = 0, end = table->runs;
    while (run < end) { /* the first run whose cumulated weight is above x */
        int64_t middle = run + (end - run) / 2;
        if (table->cumulative[middle] > x)
            end = middle;
        else
            run = middle + 1;
    }
    /* Count back from the end of the run: the positions left, over the weight of each rank. */
    int64_t back = (table->cumulative[run] - 1 - x) / table->weights[run];
    int64_t rank = table->edges[run] - 1 - back;
    REAL pivot = rank < d ? NAMED(magnitude_at)(rank, vector, d) : 0;
    int64_t larger = sign != 0 && pivot == 0 ? NAMED(count_above)(vector, d, pivot, d) : 0;
    int64_t pick = below(s, NAMED(sharing)(table, vector, d, sign, pivot, larger));
    int64_t j = NAMED(find_equal)(vector, d, sign, pivot, pick);
    if (j >= 0) return j;
    return d + NAMED(find_equal)(vector, d, -sign, pivot, pick + j + 1);
}

/* What `draw_unseen` has left open, on the vector. */
INLINE int64_t NAMED(draw_seen)(const RankTable *table, Attempt first, const REAL *vector, int64_t d,
                                REAL sign, Bounds bounds, Stream *s) {
    if (table->by_rejection)
        return NAMED(draw_by_rejection)(table, first, vector, d, sign, bounds, s);
    return NAMED(draw_rank_first)(table, vector, d, sign, s);
}

/* A dimension by the law over the ranks of its magnitude, or BOTTOM. With a sign of ±1 it is one of
   the 2d signed atoms of `magnitude_of`.

   A rank among equals takes a word; where it cannot matter that word is passed over (`below` would
   take a second with probability under 2^−30). Nothing is counted for a level below every weight,
   nor in a threshold law for a magnitude that is known to be in the top, or outside of it.
   Proof: docs/proofs/sampling.md, D10. */
INLINE int64_t NAMED(draw_ranked)(const RankTable *table, const REAL *vector, int64_t d, REAL sign,
                                  Stream *s) {
    Attempt first = {0, 0};
    int64_t drawn = draw_unseen(table, &first, s);
    return drawn == UNSEEN ? NAMED(draw_seen)(table, first, vector, d, sign, NO_BOUNDS, s) : drawn;
}

#undef SAMPLES
#undef PATIENCE
#undef BLOCK
