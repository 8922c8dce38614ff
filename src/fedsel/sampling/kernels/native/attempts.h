/* Drawing by rank, as far as no vector is looked at: an atom at random and a level below the largest
   weight. The atom is drawn where the weight of its rank is above the level. */

#define UNSEEN (-2)

typedef struct {
    int64_t atom, level;
} Attempt;

INLINE Attempt next_attempt(const RankTable *table, Stream *s) {
    /* x in 0 … atoms·maximum − 1 is j·maximum + level; ⌊⌊y⌋/maximum⌋ = ⌊y/maximum⌋ spares a
       division. */
    uint64_t word = fair_word(s, table->places, table->surplus);
    int64_t atom = (int64_t)mulhi(word, (uint64_t)table->atoms);
    return (Attempt){atom, (int64_t)mulhi(word, table->places) - atom * table->maximum};
}

/* An atom, or BOTTOM, where the words decide it whatever the vector is: a share e^−ε of an ε-private
   law. UNSEEN where they do not; a law by rejection has then made its ``first`` attempt. */
INLINE int64_t draw_unseen(const RankTable *table, Attempt *first, Stream *s) {
    if (table->bottom && below(s, (uint64_t)(table->total + table->bottom)) >= table->total)
        return BOTTOM;
    if (!table->by_rejection) return UNSEEN;
    *first = next_attempt(table, s);
    if (table->uniform) return first->atom;
    if (first->level >= table->minimum) return UNSEEN;
    next_word(s);
    return first->atom;
}
