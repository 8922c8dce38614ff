/* A draw in two steps, attempt by attempt: what threshold.h has for many at once. */

/* What words tell of a draw before a vector is looked at. */
typedef struct {
    Attempt first;
} Draft;

INLINE int64_t draw_from_words(const RankTable *table, Draft *draft, Stream *s) {
    return draw_unseen(table, &draft->first, s);
}

INLINE int64_t draw_within(const RankTable *table, Draft *draft, const float *vector, int64_t d, float sign,
                           Bounds bounds, Stream *s) {
    return draw_seen_float(table, draft->first, vector, d, sign, bounds, s);
}
