/* Clients' reports, of every solution.

   Feedback, transform and mechanism follow each other as in `Solution.encode`. Sums are integers.

   A few reports are made side by side, step by step: while one waits for its numbers, the processor
   works for the others. */

typedef struct {
    const Sending *sending; /* that of the round; its own where it takes one of several bases */
    Sending in_basis;
    Stream words;
    float *vector, *scores;
    const float *ahead; /* memory that will be needed soon, or none */
    int64_t client, moved, atom;
    int64_t *sent;
    Draft draft;
    float squared; /* the vector's; below 0 as long as it is not known */
    float sign;
    uint32_t state; /* of its basis, where that is fresh */
} Report;

INLINE float *residual_of(const Report *r) {
    const Sending *sending = r->sending;
    return sending->residual ? sending->residual + r->client * sending->tables->dim : NULL;
}

/* How many are made side by side: what they need stays in the processor's cache. A client's residual
   must be that of its report before. */
INLINE int64_t reports_at_once(const Sending *sending) {
    return sending->residual ? 1 : sending->tables->at_once;
}

/* The scores of all codewords, where slots are not coordinates; ``squared`` is ‖vector‖². */
OUTLINE void fill_scores(const Sending *sending, uint32_t state, const float *vector, float squared,
                         float *scores) {
    const Tables *tables = sending->tables;
    if (tables->basis == FRESH)
        fresh_scores(sending, state, vector, scores);
    else if (tables->basis == ROTATED)
        for (int64_t r = 0; r < tables->rotations; r++)
            hadamard_of_signed(vector, sending->signs + r * tables->dim, tables->dim,
                               scores + r * tables->width, tables->width);
    else
        for (int64_t j = 0; j < tables->slots; j++)
            scores[j] = dot_of_rows(tables->matrix + j * tables->dim, vector, tables->dim);
    /* A sum of entries is at most √M times the norm: it cannot overflow where the square does not. */
    if (!(squared < INFINITY)) without_overflow(scores, tables->slots);
}

/* What is told at a slot: the codeword with r + momentum · residual, before it is clipped. */
INLINE double value_at(const Sending *sending, const float *vector, const float *residual,
                       int64_t slot) {
    const Tables *tables = sending->tables;
    if (tables->basis == COORDINATES) {
        double value = (double)vector[slot];
        return residual ? value + tables->momentum * (double)residual[slot] : value;
    }
    double sum = 0.0;
    for (int64_t i = 0; i < tables->dim; i++) {
        double x = (double)vector[i];
        if (residual) x += tables->momentum * (double)residual[i];
        sum += entry_of(sending, slot, i) * x;
    }
    return sum;
}

/* What is told at every slot: into ``turned``. */
OUTLINE void fill_values(const Sending *sending, const float *vector, const float *residual) {
    const Tables *tables = sending->tables;
    double *turned = sending->scratch->turned;
    int64_t d = tables->dim, M = tables->slots;
    if (tables->basis != ROTATED) {
        for (int64_t j = 0; j < M; j++) turned[j] = value_at(sending, vector, residual, j);
        return;
    }
    const float *signs = sending->signs;
    for (int64_t r = 0; r < tables->rotations; r++, turned += tables->width, signs += d) {
        for (int64_t i = 0; i < d; i++) {
            double x = (double)vector[i];
            if (residual) x += tables->momentum * (double)residual[i];
            turned[i] = x * (double)signs[i];
        }
        for (int64_t i = d; i < tables->width; i++) turned[i] = 0.0;
        hadamard_double(turned, sending->scratch->spare, tables->width);
        for (int64_t j = 0; j < tables->width; j++) turned[j] /= tables->root;
    }
}

/* A slot not drawn before; ``drawn`` stays in ascending order. */
INLINE int64_t next_distinct(int64_t *drawn, int64_t count, int64_t slots, Stream *s) {
    int64_t j = below(s, (uint64_t)(slots - count)), place = 0;
    for (; place < count && j >= drawn[place]; place++) j++;
    for (int64_t i = count; i > place; i--) drawn[i] = drawn[i - 1];
    drawn[place] = j;
    return j;
}

/* Report (slot, symbol) pairs, and add them up. */
OUTLINE void send_values(Report *r) {
    const Sending *sending = r->sending;
    const Tables *tables = sending->tables;
    const float *ranked = r->vector, *residual = residual_of(r);
    const int64_t M = tables->slots;
    if (tables->ranked && tables->basis != COORDINATES) {
        fill_scores(sending, 0, r->vector, dot(r->vector, r->vector, tables->dim), r->scores);
        ranked = r->scores;
    }
    for (int64_t p = 0; p < tables->picks; p++) {
        int64_t j = tables->flat ? next_distinct(sending->scratch->drawn, p, M, &r->words)
                                 : draw_ranked_float(&tables->ranks, ranked, M, 0, &r->words);
        int64_t *sent = r->sent + 2 * p;
        sent[0] = j;
        sent[1] = 0;
        if (j == BOTTOM) continue;
        double value = value_at(sending, r->vector, residual, j);
        if (tables->plain) {
            sending->total[j] += value;
            continue;
        }
        double clip = tables->clip, t = value < clip ? value : clip;
        t = value == value ? (t > -clip ? t : -clip) / clip : 0.0;
        int64_t symbol = draw_symbol(&tables->symbols, t, &r->words), which = tables->symbols.count - 1;
        sent[1] = symbol;
        while (symbol < tables->symbols.windows[which].offset) which--;
        const Window *w = tables->symbols.windows + which;
        sending->sums[which * tables->bases * M + j] += 2 * (symbol - w->offset) - w->centre;
    }
}

OUTLINE void send_baseline(Report *r) {
    const Tables *tables = r->sending->tables;
    float *room = r->sending->scratch->room;
    if (tables->baseline.sizes)
        send_set(&tables->baseline, tables->scale, r->vector, tables->dim, room, &r->words,
                 r->sending->total);
    else
        send_direction(&tables->baseline, tables->scale, r->vector, tables->dim, room, &r->words,
                       r->sending->total);
}

/* Signed slots by J. Scores are made for those reports alone that depend on the vector. */
OUTLINE void draw_signed(const Tables *tables, Report *reports, int64_t count) {
    const SignTable *table = &tables->sign;
    const int scored = tables->basis != COORDINATES;
    Report *open[MOST_REPORTS];
    int64_t left = 0;
    for (Report *r = reports; r < reports + count; r++) {
        fetch_eighths(r->ahead, tables->dim, 2, 3);
        if (r->squared < 0) r->squared = dot(r->vector, r->vector, tables->dim);
    }
    for (Report *r = reports; r < reports + count; r++) {
        r->sign = draw_sign(table, r->squared, &r->words);
        r->atom = draw_from_words(&table->ranks, &r->draft, &r->words);
        open[left] = r;
        left += r->atom == UNSEEN;
    }
    for (int64_t i = 0; i < count; i++) {
        fetch_eighths(reports[i].ahead, tables->dim, 3, 6);
        if (scored && i < left)
            fill_scores(open[i]->sending, open[i]->state, open[i]->vector, open[i]->squared, open[i]->scores);
    }
    for (int64_t i = 0; i < count; i++) {
        fetch_eighths(reports[i].ahead, tables->dim, 6, 8);
        if (i >= left) continue;
        Report *r = open[i];
        const float *ranked = scored ? r->scores : r->vector;
        const Bounds bounds = bounds_of(&table->ranks, ranked, tables->slots, sqrtf(r->squared),
                                        &r->sending->scratch->guess);
        r->atom =
            draw_within(&table->ranks, &r->draft, ranked, tables->slots, r->sign, bounds, &r->words);
    }
}

/* Report one signed slot each, and add them up. */
OUTLINE void send_signs(const Tables *tables, Report *reports, int64_t count) {
    const int64_t M = tables->slots;
    if (!tables->sign.unbiased) draw_signed(tables, reports, count);
    for (Report *r = reports; r < reports + count; r++) {
        if (tables->sign.unbiased) {
            fill_values(r->sending, r->vector, residual_of(r));
            r->atom = draw_unbiased(&tables->sign, r->sending->scratch->turned, M, &r->words);
        }
        int negative = r->atom >= M;
        r->sent[0] = negative ? r->atom - M : r->atom;
        r->sent[1] = negative;
        if (r->atom == BOTTOM) continue;
        if (tables->basis == FRESH)
            add_codeword(tables, r->sending->scratch, r->state, r->sent[0], 1 - 2 * negative, r->sending->sums);
        else
            r->sending->sums[r->sent[0]] += 1 - 2 * negative;
    }
}

/* vector ← residual + vector, as `Feedback.accumulated` has it: an overflow gives ± the largest float.
   The largest pattern of a magnitude tells whether there is one. */
INLINE void accumulate(float *vector, const float *residual, int64_t d) {
    int32_t largest = 0;
    for (int64_t i = 0; i < d; i++) {
        float x = vector[i] + residual[i];
        int32_t bits = pattern_of(x);
        vector[i] = x;
        largest = bits > largest ? bits : largest;
    }
    if (largest >= 0x7F800000) without_overflow(vector, d);
}

/* The residual: what was accumulated, less what was sent. */
OUTLINE void keep_rest(const Report *r) {
    const Sending *sending = r->sending;
    float *residual = residual_of(r);
    int64_t d = sending->tables->dim;
    memcpy(residual, r->vector, (size_t)d * sizeof *residual);
    for (int64_t p = 0; p < sending->tables->picks; p++) {
        int64_t slot = r->sent[2 * p];
        if (slot == BOTTOM) continue;
        if (sending->tables->basis == COORDINATES) {
            residual[slot] = 0;
            continue;
        }
        double along = 0.0, squared = 0.0;
        for (int64_t i = 0; i < d; i++) {
            double entry = entry_of(sending, slot, i);
            along += entry * (double)residual[i];
            squared += entry * entry;
        }
        for (int64_t i = 0; i < d; i++) {
            double part = along / squared * entry_of(sending, slot, i);
            residual[i] = (float)((double)residual[i] - part);
        }
        without_overflow(residual, d);
    }
}

/* The words of a report: those of the key, epoch and client, or of 128 bits that are its alone, the
   first half of them as the key, the second in place of the client's number. They are made at once,
   which takes as long as the vector that they wait for. */
INLINE void begin_words(Stream *s, const Sending *sending, int64_t client, int64_t place) {
    if (sending->own) {
        const uint64_t *own = sending->own + 2 * place;
        const uint64_t key[2] = {own[0] & LOW_HALF, own[0] >> 32};
        begin_stream(s, key, sending->epoch, own[1]);
    } else {
        begin_stream(s, sending->key, sending->epoch, (uint64_t)client);
    }
    have_next(s);
}

/* The report of a client, the one at ``place`` of a call, with its room in the scratch. */
INLINE void begin_report(Report *r, const Sending *sending, int64_t at, int64_t client, int64_t place,
                         int64_t *sent) {
    const Tables *tables = sending->tables;
    r->sending = sending;
    r->client = client;
    r->vector = sending->scratch->vectors + at * sending->scratch->vector_room;
    r->scores = sending->scratch->scores + at * sending->scratch->score_room;
    r->sent = sent;
    r->ahead = NULL;
    r->moved = 0;
    r->squared = -1;
    if (tables->kind == WHOLE) return;
    begin_words(&r->words, sending, client, place);
    if (tables->bases == 1) return;
    int64_t basis = below(&r->words, (uint64_t)tables->bases); /* whatever the vector is */
    r->moved = basis * tables->slots;
    if (tables->basis == FRESH) {
        r->state = state_of(sending->round_key, basis);
        return;
    }
    r->in_basis = *sending;
    r->in_basis.signs += basis * tables->rotations * tables->dim;
    r->in_basis.total += r->moved;
    if (r->in_basis.sums) r->in_basis.sums += r->moved;
    r->sending = &r->in_basis;
}

/* Clients' reports on their vectors, added to the round's sums; residuals are updated. A vector becomes
   the accumulated one where there is a residual. */
INLINE void send_reports(const Tables *tables, Report *reports, int64_t count) {
    const int64_t d = tables->dim;
    if (tables->kind == WHOLE) {
        for (Report *r = reports; r < reports + count; r++) {
            fetch_eighths(r->ahead, d, 2, 8);
            for (int64_t i = 0; i < d; i++) r->sending->total[i] += (double)r->vector[i];
        }
        return;
    }
    for (Report *r = reports; r < reports + count; r++) {
        const float *residual = residual_of(r);
        if (!residual) continue;
        accumulate(r->vector, residual, d);
        r->squared = -1;
    }
    if (tables->kind == SIGNS) {
        send_signs(tables, reports, count);
    } else {
        for (Report *r = reports; r < reports + count; r++) {
            fetch_eighths(r->ahead, d, 2, 8);
            if (tables->kind == VALUES)
                send_values(r);
            else
                send_baseline(r);
        }
    }
    for (Report *r = reports; r < reports + count; r++) {
        if (residual_of(r) && tables->kind != BASELINE) keep_rest(r);
        if (r->moved)
            for (int64_t p = 0; p < tables->picks; p++)
                if (r->sent[2 * p] != BOTTOM) r->sent[2 * p] += r->moved;
    }
}
