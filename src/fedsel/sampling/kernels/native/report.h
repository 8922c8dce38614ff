/* A client's report, and what the server makes of a round's: for every solution.

   Feedback, transform and mechanism follow each other as in `Solution.encode`. Sums are integers,
   and the mean is rounded as `Totals.mean` and `Transform.combine` round it. */

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
OUTLINE void send_values(const Sending *sending, const float *vector, const float *ranked,
                        const float *residual, Stream *s, int64_t *sent) {
    const Tables *tables = sending->tables;
    int64_t M = tables->slots;
    for (int64_t p = 0; p < tables->picks; p++) {
        int64_t j = tables->flat ? next_distinct(sending->scratch->drawn, p, M, s)
                                 : draw_ranked_float(&tables->ranks, ranked, M, 0, s);
        sent[2 * p] = j;
        sent[2 * p + 1] = 0;
        if (j == BOTTOM) continue;
        double value = value_at(sending, vector, residual, j);
        if (tables->plain) {
            sending->total[j] += value;
            continue;
        }
        double clip = tables->clip, t = value < clip ? value : clip;
        t = value == value ? (t > -clip ? t : -clip) / clip : 0.0;
        int64_t symbol = draw_symbol(&tables->symbols, t, s), which = tables->symbols.count - 1;
        sent[2 * p + 1] = symbol;
        while (symbol < tables->symbols.windows[which].offset) which--;
        const Window *w = tables->symbols.windows + which;
        sending->sums[which * tables->bases * M + j] += 2 * (symbol - w->offset) - w->centre;
    }
}

/* Up to so many scores are computed while the draw waits for its words; more, only where it depends
   on them. */
#define FEW_SCORES 512

/* A signed slot by J. */
INLINE int64_t draw_signed(const Sending *sending, const float *vector, Stream *s) {
    const Tables *tables = sending->tables;
    const SignTable *table = &tables->sign;
    const int scored = tables->basis != COORDINATES, few = tables->slots <= FEW_SCORES;
    const float *ranked = scored ? sending->scratch->scores : vector;
    float squared = 0;
    if (table->radius > 0 || (scored && few)) squared = dot(vector, vector, tables->dim);
    float sign = draw_sign(table, squared, s);
    if (scored && few) fill_scores(sending, vector, squared);
    Attempt first = {0, 0};
    int64_t atom = draw_unseen(&table->ranks, &first, s);
    if (atom != UNSEEN) return atom;
    if (scored && !few) {
        if (!(table->radius > 0)) squared = dot(vector, vector, tables->dim);
        fill_scores(sending, vector, squared);
    }
    return draw_seen_float(&table->ranks, first, ranked, tables->slots, sign, s);
}

/* Report one signed slot, and add it up. */
OUTLINE void send_sign(const Sending *sending, const float *vector, const float *residual, Stream *s,
                       int64_t *sent) {
    const Tables *tables = sending->tables;
    int64_t M = tables->slots, atom;
    if (tables->sign.unbiased) {
        fill_values(sending, vector, residual);
        atom = draw_unbiased(&tables->sign, sending->scratch->turned, M, s);
    } else {
        atom = draw_signed(sending, vector, s);
    }
    int negative = atom >= M;
    sent[0] = negative ? atom - M : atom;
    sent[1] = negative;
    if (atom != BOTTOM) sending->sums[sent[0]] += 1 - 2 * negative;
}

/* The residual: what was accumulated, less what was sent. */
OUTLINE void keep_rest(const Sending *sending, const float *vector, float *residual,
                       const int64_t *sent) {
    int64_t d = sending->tables->dim;
    memcpy(residual, vector, (size_t)d * sizeof *residual);
    for (int64_t p = 0; p < sending->tables->picks; p++) {
        int64_t slot = sent[2 * p];
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
    }
}

/* The words of a report: those of the key, epoch and client, or of 128 bits that are its alone, the
   first half of them as the key, the second in place of the client's number. */
INLINE void begin_report(Stream *s, const Sending *sending, int64_t client, int64_t place) {
    if (sending->tables->kind == WHOLE) return; /* and needs none */
    if (sending->own) {
        const uint64_t *own = sending->own + 2 * place;
        const uint64_t key[2] = {own[0] & LOW_HALF, own[0] >> 32};
        begin_stream(s, key, sending->epoch, own[1]);
    } else {
        begin_stream(s, sending->key, sending->epoch, (uint64_t)client);
    }
    refill(s); /* at once: they take a while, in which the vector is made */
}

/* A client's report on its vector, from the words s, added to the round's sums; the residual is
   updated. ``vector`` becomes the accumulated one where there is a residual. */
INLINE void send_report(const Sending *sending, float *vector, int64_t client, Stream *s,
                        int64_t *sent) {
    const Tables *tables = sending->tables;
    Scratch *scratch = sending->scratch;
    int64_t d = tables->dim;
    if (tables->kind == WHOLE) {
        for (int64_t i = 0; i < d; i++) sending->total[i] += (double)vector[i];
        return;
    }
    Sending in_basis;
    int64_t moved = 0;
    if (tables->bases > 1) { /* the report takes one of them, whatever the vector is */
        int64_t basis = below(s, (uint64_t)tables->bases);
        moved = basis * tables->slots;
        in_basis = *sending;
        in_basis.signs += basis * tables->rotations * d;
        in_basis.total += moved;
        if (in_basis.sums) in_basis.sums += moved;
        sending = &in_basis;
    }
    float *residual = sending->residual ? sending->residual + client * d : NULL;
    if (residual)
        for (int64_t i = 0; i < d; i++) vector[i] += residual[i];
    if (tables->kind == BASELINE) {
        if (tables->baseline.sizes)
            send_set(&tables->baseline, tables->scale, vector, d, scratch->room, s, sending->total);
        else
            send_direction(&tables->baseline, tables->scale, vector, d, scratch->room, s,
                           sending->total);
        return;
    }
    if (tables->kind == SIGNS) {
        send_sign(sending, vector, residual, s, sent);
    } else {
        const float *ranked = vector;
        if (tables->ranked && tables->basis != COORDINATES) {
            fill_scores(sending, vector, dot(vector, vector, d));
            ranked = scratch->scores;
        }
        send_values(sending, vector, ranked, residual, s, sent);
    }
    if (residual) keep_rest(sending, vector, residual, sent);
    if (moved)
        for (int64_t p = 0; p < tables->picks; p++)
            if (sent[2 * p] != BOTTOM) sent[2 * p] += moved;
}

INLINE void clear_sums(const Sending *sending) {
    const Tables *tables = sending->tables;
    size_t places = (size_t)(tables->bases * tables->slots);
    memset(sending->total, 0, places * sizeof *sending->total);
    if (!tables->plain)
        memset(sending->sums, 0, (size_t)tables->symbols.count * places * sizeof *sending->sums);
}

/* The mean update of a round of ``count`` reports. */
OUTLINE void fill_mean(const Sending *sending, int64_t count) {
    const Tables *tables = sending->tables;
    double *total = sending->total, *mean = sending->scratch->mean, n = (double)count;
    int64_t M = tables->bases * tables->slots, d = tables->dim;
    if (tables->plain)
        for (int64_t j = 0; j < M; j++) total[j] *= tables->units[0];
    else
        for (int64_t j = 0; j < M; j++) {
            total[j] = tables->units[0] * (double)sending->sums[j];
            for (int64_t w = 1; w < tables->symbols.count; w++)
                total[j] += tables->units[w] * (double)sending->sums[w * M + j];
        }
    for (int64_t j = 0; j < M; j++) total[j] /= n;
    if (tables->basis == COORDINATES) {
        memcpy(mean, total, (size_t)d * sizeof *mean);
    } else if (tables->basis == ROTATED) {
        memset(mean, 0, (size_t)d * sizeof *mean);
        const float *signs = sending->signs;
        for (double *row = total; row < total + M; row += tables->width, signs += d) {
            hadamard_double(row, sending->scratch->turned, tables->width);
            for (int64_t i = 0; i < d; i++) mean[i] += row[i] * (double)signs[i] / tables->root;
        }
    } else {
        memset(mean, 0, (size_t)d * sizeof *mean);
        for (int64_t j = 0; j < M; j++)
            if (total[j] != 0)
                for (int64_t i = 0; i < d; i++) mean[i] += total[j] * tables->recovery[j * d + i];
    }
}

/* The pattern of a magnitude: ordered as magnitudes are, NaN above infinity. */
INLINE int32_t pattern_of(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & INT32_MAX;
}

INLINE int32_t largest_pattern(const float *entries, int64_t count) {
    int32_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits = pattern_of(entries[i]);
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

INLINE float magnitude_from(int32_t pattern) {
    float x;
    memcpy(&x, &pattern, sizeof x);
    return x;
}

/* The products of a part at its row; returns the largest pattern. Rounding keeps order: it is that
   of the product of the largest factors, and not finite where one of them is not. */
INLINE int32_t multiply_part(const Part *part, int64_t row, float *target) {
    const int64_t inner = part->inner, outer = part->size / inner;
    const float *left = part->left + row * outer, *right = part->right + row * inner;
    for (int64_t i = 0; i < outer; i++)
        for (int64_t j = 0; j < inner; j++) target[i * inner + j] = left[i] * right[j];
    return pattern_of(magnitude_from(largest_pattern(left, outer)) *
                      magnitude_from(largest_pattern(right, inner)));
}

/* Put a client's vector together from its parts, times factors if there are any. Returns whether
   every entry is finite: the largest pattern of a magnitude tells it. */
OUTLINE int gather_vector(const Vectors *call, int64_t n, float *vector, int64_t d) {
    int32_t largest = 0;
    const int64_t row = n * call->stride;
    float *target = vector;
    for (const Part *part = call->parts; part < call->parts + call->part_count; part++) {
        int32_t found = 0;
        if (part->right && part->size) {
            found = multiply_part(part, row, target);
        } else {
            const float *entries = part->left + row * part->size;
            for (int64_t i = 0; i < part->size; i++) {
                int32_t bits = pattern_of(entries[i]);
                target[i] = entries[i];
                found = bits > found ? bits : found;
            }
        }
        largest = found > largest ? found : largest;
        target += part->size;
    }
    if (call->factors) {
        for (int64_t i = 0; i < d; i++) vector[i] *= call->factors[i];
        largest = largest_pattern(vector, d);
    }
    return largest < 0x7F800000; /* that of infinity; those of NaN are larger */
}

/* The reports of clients on vectors computed elsewhere, added to the sums. A vector lies in parts,
   as a model's parameters do; each is put together, times factors, in room that stays in the
   processor's cache. Returns how many clients reported, less than all at a vector not finite. */
static int64_t send_vectors(const Vectors *call) {
    const Sending *sending = &call->sending;
    float *vector = sending->scratch->gradient;
    int64_t d = sending->tables->dim, picks = 2 * sending->tables->picks;
    for (int64_t n = 0; n < call->count; n++) {
        int64_t client = call->clients[n];
        if (client < 0 || (sending->residual && client >= call->clients_with_residual))
            return OUT_OF_BOUNDS;
        Stream s;
        begin_report(&s, sending, client, n);
        if (!gather_vector(call, n, vector, d)) return n;
        send_report(sending, vector, client, &s, call->sent + (call->keeps ? n * picks : 0));
    }
    return call->count;
}
