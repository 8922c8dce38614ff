/* Drawing signed atoms by rejection from a law of two weights, the larger one for the top ranks, with
   vectors of 512 bits: what `draw_by_rejection` does attempt by attempt, here for many words at once,
   because no processor foresees which attempt it will be. */

#define EVEN_BITS 0x55555555u
#define ODD_BITS 0xAAAAAAAAu

/* The attempts in some words of a stream: a bit for each word from ``start`` on. */
typedef struct {
    int32_t atoms[2 * WORDS];
    uint32_t made;    /* the words that are an attempt's first; its second is the word after it */
    uint32_t certain; /* those with a level below every weight */
    uint64_t start, end;
} Attempts;

/* Those in the WORDS that a stream has at hand, as `attempt_from`, `is_fair` and `is_certain` tell of
   each; there are fewer than 2^31 atoms. */
INLINE void judge_words(const RankTable *table, const uint64_t *words, int32_t *atoms, uint32_t *fair,
                        uint32_t *certain) {
    const __m512i count = _mm512_set1_epi64(table->atoms), maximum = _mm512_set1_epi64(table->maximum);
    const __m512i surplus = _mm512_set1_epi64((int64_t)table->surplus);
    const __m512i limit = _mm512_set1_epi64((int64_t)table->certain);
    const uint32_t places[2] = {EVEN_BITS, ODD_BITS};
    __m512i drawn[2];
    *fair = *certain = 0;
    for (int odd = 0; odd < 2; odd++) {
        __m512i word = _mm512_loadu_si512(words + odd * BLOCKS);
        __m512i fraction = _mm512_mullo_epi64(word, count);
        __m512i carried = _mm512_srli_epi64(_mm512_mul_epu32(word, count), 32);
        __m512i product = _mm512_mul_epu32(_mm512_srli_epi64(word, 32), count);
        drawn[odd] = _mm512_srli_epi64(_mm512_add_epi64(product, carried), 32);
        __m512i remainder = _mm512_mullo_epi64(fraction, maximum);
        *fair |= _pdep_u32(_mm512_cmpge_epu64_mask(remainder, surplus), places[odd]);
        *certain |= _pdep_u32(_mm512_cmplt_epu64_mask(fraction, limit), places[odd]);
    }
    /* In order of their places when side by side: an even one's in the low half, an odd one's above. */
    _mm512_storeu_si512(atoms, _mm512_or_si512(drawn[0], _mm512_slli_epi64(drawn[1], 32)));
}

/* The attempts from the next word on. Where a law needs many, those of twice as many words. */
INLINE void next_attempts(const RankTable *table, Attempts *found, Stream *s) {
    uint32_t fair;
    have_next(s);
    found->start = s->first;
    judge_words(table, s->words, found->atoms, &fair, &found->certain);
    fair &= ~0u << (s->taken - s->first);
    if (table->many) {
        uint32_t more, certain;
        s->taken = found->start + WORDS;
        have_next(s);
        judge_words(table, s->words, found->atoms + WORDS, &more, &certain);
        fair |= more << WORDS;
        found->certain |= certain << WORDS;
    }
    found->end = s->first + WORDS;
    /* An unfair word is passed over; of fair ones in a row every other begins an attempt. Adding its
       lowest bit to a row of ones carries it away: gone are the rows that begin at an even place. */
    uint32_t begins = fair & ~(fair << 1), even = fair & ~(fair + (begins & EVEN_BITS));
    found->made = (even & EVEN_BITS) | (fair & ~even & ODD_BITS);
}

/* The magnitudes by which WORDS signed atoms are ranked, as `magnitude_of` tells them. */
INLINE __m512 magnitudes_of(const float *vector, int64_t d, const int32_t *atoms, float sign) {
    const __m512i j = _mm512_loadu_si512(atoms), dim = _mm512_set1_epi32((int32_t)d);
    const __mmask16 negative = _mm512_cmpge_epi32_mask(j, dim);
    __m512 values = _mm512_i32gather_ps(_mm512_mask_sub_epi32(j, negative, j, dim), vector, 4);
    const __m512 signs = _mm512_mask_blend_ps(negative, _mm512_set1_ps(sign), _mm512_set1_ps(-sign));
    values = _mm512_mul_ps(values, signs);
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_GT_OQ), values);
}

INLINE uint32_t bits_above(const __m512 *m, const int many, float pivot) {
    const __m512 p = _mm512_set1_ps(pivot);
    uint32_t bits = _mm512_cmp_ps_mask(m[0], p, _CMP_GT_OQ);
    return many ? bits | (uint32_t)_mm512_cmp_ps_mask(m[1], p, _CMP_GT_OQ) << WORDS : bits;
}

OUTLINE int64_t draw_by_threshold(const RankTable *table, Attempts *attempts, const float *vector,
                                  int64_t d, float sign, Bounds bounds, Stream *s) {
    const int64_t top = table->edges[0];
    for (;; next_attempts(table, attempts, s)) {
        __m512 m[2];
        m[0] = magnitudes_of(vector, d, attempts->atoms, sign);
        if (table->many) m[1] = magnitudes_of(vector, d, attempts->atoms + WORDS, sign);
        const uint32_t certain = attempts->certain | bits_above(m, table->many, bounds.inside);
        const uint64_t words = attempts->end - attempts->start;
        uint32_t left = attempts->made;
        uint64_t next = attempts->end + (attempts->made >> (words - 1));
        while ((left &= certain | bits_above(m, table->many, bounds.outside))) {
            const int place = lowest_bit(left);
            const int64_t j = attempts->atoms[place];
            s->taken = attempts->start + (uint64_t)place + 1;
            if (certain >> place & 1) {
                skip_word(s);
                return j;
            }
            const float magnitude = magnitude_of_float(vector, d, j, sign);
            int64_t larger = count_above_float(vector, d, magnitude, top);
            if (larger >= top) {
                bounds.outside = magnitude;
                continue;
            }
            const uint64_t equal = sharing_float(table, vector, d, sign, magnitude, larger);
            if (larger + below(s, equal) < top) return j;
            next = s->taken; /* one of several equals at the edge of the top */
            break;
        }
        s->taken = next;
    }
}

/* What words tell of a draw before a vector is looked at: of many attempts all, else the first. */
typedef struct {
    Attempt first;
    Attempts attempts;
} Draft;

/* As `draw_unseen`. */
INLINE int64_t draw_from_words(const RankTable *table, Draft *draft, Stream *s) {
    if (!table->threshold || !table->many) return draw_unseen(table, &draft->first, s);
    Attempts *attempts = &draft->attempts;
    if (abstains(table, s)) return BOTTOM;
    next_attempts(table, attempts, s);
    const uint32_t first = attempts->made & (0 - attempts->made);
    const int place = lowest_bit(first | 1u << 31); /* there may be none */
    s->taken = attempts->start + (uint64_t)place + 2;
    return first & attempts->certain ? attempts->atoms[place] : UNSEEN;
}

/* As `draw_seen_float`, of a vector with these bounds. */
INLINE int64_t draw_within(const RankTable *table, Draft *draft, const float *vector, int64_t d, float sign,
                           Bounds bounds, Stream *s) {
    if (!table->threshold) return draw_seen_float(table, draft->first, vector, d, sign, bounds, s);
    if (!table->many) {
        s->taken--; /* the first attempt is among them */
        next_attempts(table, &draft->attempts, s);
    }
    return draw_by_threshold(table, &draft->attempts, vector, d, sign, bounds, s);
}
