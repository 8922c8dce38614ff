/* Drawing by rejection from a law of two weights, the larger one for the top ranks, with vectors of 512
   bits: what `draw_by_rejection` does attempt by attempt, for all words at hand at once, because no
   processor foresees which attempt it will be. */

#define EVEN_BITS 0x5555u
#define ODD_BITS 0xAAAAu

/* The attempts in the words that a stream has at hand, from the next one on: a bit for each word. */
typedef struct {
    int32_t atoms[WORDS];
    uint32_t made;     /* the words that are an attempt's first; its second is the word after it */
    uint32_t certain;  /* those with a level below every weight */
    __m512 magnitudes; /* those by which the atoms are ranked */
} Attempts;

INLINE Attempts attempts_at_hand(const RankTable *table, const float *vector, int64_t d, float sign,
                                 const Stream *s) {
    const __m512i atoms = _mm512_set1_epi64(table->atoms), maximum = _mm512_set1_epi64(table->maximum);
    const __m512i surplus = _mm512_set1_epi64((int64_t)table->surplus);
    const __m512i certain = _mm512_set1_epi64((int64_t)table->certain);
    const uint32_t places[2] = {EVEN_BITS, ODD_BITS};
    Attempts found = {.made = 0, .certain = 0};
    __m512i drawn[2];
    uint32_t fair = 0;
    for (int odd = 0; odd < 2; odd++) { /* as `attempt_from`: there are fewer than 2^31 atoms */
        __m512i words = _mm512_loadu_si512(s->words + odd * BLOCKS);
        __m512i fraction = _mm512_mullo_epi64(words, atoms);
        __m512i carried = _mm512_srli_epi64(_mm512_mul_epu32(words, atoms), 32);
        __m512i product = _mm512_mul_epu32(_mm512_srli_epi64(words, 32), atoms);
        drawn[odd] = _mm512_srli_epi64(_mm512_add_epi64(product, carried), 32);
        uint32_t accepted =
            _mm512_cmpge_epu64_mask(_mm512_mullo_epi64(fraction, maximum), surplus);
        fair |= _pdep_u32(accepted, places[odd]);
        found.certain |= _pdep_u32(_mm512_cmplt_epu64_mask(fraction, certain), places[odd]);
    }
    /* An unfair word is passed over; of fair ones in a row every other begins an attempt. Adding its
       lowest bit to a row of ones carries it away: gone are the rows that begin at an even place. */
    fair &= ~0u << s->taken % WORDS;
    uint32_t begins = fair & ~(fair << 1), even = fair & ~(fair + (begins & EVEN_BITS));
    found.made = (even & EVEN_BITS) | (fair & ~even & ODD_BITS);
    /* Side by side they are in order: the places of a block are those of a word's halves. */
    __m512i j = _mm512_or_si512(drawn[0], _mm512_slli_epi64(drawn[1], 32));
    _mm512_storeu_si512(found.atoms, j);
    const __m512i dim = _mm512_set1_epi32((int32_t)d);
    const __mmask16 negative = _mm512_cmpge_epi32_mask(j, dim);
    __m512 values = _mm512_i32gather_ps(_mm512_mask_sub_epi32(j, negative, j, dim), vector, 4);
    if (sign == 0) {
        found.magnitudes = _mm512_abs_ps(values);
    } else {
        const __m512 signs = _mm512_mask_blend_ps(negative, _mm512_set1_ps(sign), _mm512_set1_ps(-sign));
        values = _mm512_mul_ps(values, signs);
        found.magnitudes = _mm512_maskz_mov_ps(
            _mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_GT_OQ), values);
    }
    return found;
}

/* From the attempt on whose first word was taken last. */
OUTLINE int64_t draw_by_threshold(const RankTable *table, const float *vector, int64_t d, float sign,
                                  Stream *s) {
    const int64_t top = table->edges[0];
    __m512 outside = _mm512_set1_ps(-1);
    s->taken--;
    for (;;) {
        const Attempts attempts = attempts_at_hand(table, vector, d, sign, s);
        const uint64_t start = s->taken - s->taken % WORDS;
        uint64_t next = start + WORDS + (attempts.made >> (WORDS - 1));
        uint32_t left = attempts.made;
        while ((left &= attempts.certain |
                        _mm512_cmp_ps_mask(attempts.magnitudes, outside, _CMP_GT_OQ))) {
            const int place = lowest_bit(left);
            s->taken = start + (uint64_t)place + 1;
            if (attempts.certain >> place & 1) {
                skip_word(s);
                return attempts.atoms[place];
            }
            const __m512 m = _mm512_permutexvar_ps(_mm512_set1_epi32(place), attempts.magnitudes);
            const float magnitude = _mm512_cvtss_f32(m);
            int64_t larger = count_above_float(vector, d, magnitude, top);
            if (larger >= top) {
                outside = m;
                continue;
            }
            if (larger + below(s, sharing_float(table, vector, d, sign, magnitude, larger)) < top)
                return attempts.atoms[place];
            next = s->taken; /* one of several equals at the edge of the top */
            break;
        }
        s->taken = next;
        if (s->taken >= s->filled) refill(s);
    }
}
