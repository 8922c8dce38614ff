/* Drawing by rank, as far as no vector is looked at: an atom at random and a level below the largest
   weight. The atom is drawn where the weight of its rank is above the level.

   x in 0 … atoms·maximum − 1 is atom·maximum + level. A word w gives x = ⌊w·atoms·maximum / 2^64⌋, so the
   atom is the high half of w·atoms, and the low half, a ``fraction`` of 2^64, gives the level: the high
   half of fraction·maximum. The low half of that is the one by which w is accepted as fair. */

#define UNSEEN (-2)

typedef struct {
    int64_t atom;
    uint64_t fraction;
} Attempt;

/* What is known of the top of a vector, by a law of two weights: magnitudes up to ``outside`` are not in
   it, those above ``inside`` are, whoever of the equals comes first. */
typedef struct {
    float outside, inside;
} Bounds;

#define NO_BOUNDS ((Bounds){-1, INFINITY})

INLINE Attempt attempt_from(const RankTable *table, uint64_t word) {
    uint64_t atoms = (uint64_t)table->atoms;
    return (Attempt){(int64_t)mulhi(word, atoms), word * atoms};
}

INLINE int is_fair(const RankTable *table, Attempt attempt) {
    return attempt.fraction * (uint64_t)table->maximum >= table->surplus;
}

/* Whether the level is below every weight. */
INLINE int is_certain(const RankTable *table, Attempt attempt) {
    return attempt.fraction < table->certain;
}

INLINE int64_t level_of(const RankTable *table, Attempt attempt) {
    return (int64_t)mulhi(attempt.fraction, (uint64_t)table->maximum);
}

INLINE Attempt next_attempt(const RankTable *table, Stream *s) {
    Attempt attempt = attempt_from(table, next_word(s));
    while (!is_fair(table, attempt)) attempt = attempt_from(table, next_word(s));
    return attempt;
}

INLINE int abstains(const RankTable *table, Stream *s) {
    return table->bottom && below(s, (uint64_t)(table->total + table->bottom)) >= table->total;
}

/* An atom, or BOTTOM, where the words decide it whatever the vector is: a share e^−ε of an ε-private
   law. UNSEEN where they do not; a law by rejection has then made its ``first`` attempt. */
INLINE int64_t draw_unseen(const RankTable *table, Attempt *first, Stream *s) {
    if (abstains(table, s)) return BOTTOM;
    if (!table->by_rejection) return UNSEEN;
    *first = next_attempt(table, s);
    if (table->uniform) return first->atom;
    if (!is_certain(table, *first)) return UNSEEN;
    skip_word(s);
    return first->atom;
}
