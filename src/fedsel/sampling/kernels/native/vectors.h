/* Reports on vectors that are computed elsewhere. */

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
    const Tables *tables = sending->tables;
    const int64_t d = tables->dim, most = reports_at_once(sending);
    Report reports[MOST_REPORTS];
    for (int64_t n = 0; n < call->count;) {
        int64_t count = call->count - n < most ? call->count - n : most, finite = 0;
        for (int64_t at = 0; at < count; at++) {
            int64_t client = call->clients[n + at];
            if (client < 0 || (sending->residual && client >= call->clients_with_residual))
                return OUT_OF_BOUNDS;
            begin_report(reports + at, sending, at, client, n + at,
                         call->sent + (call->keeps ? (n + at) * 2 * tables->picks : 0));
        }
        while (finite < count && gather_vector(call, n + finite, reports[finite].vector, d)) finite++;
        send_reports(tables, reports, finite);
        n += finite;
        if (finite < count) return n;
    }
    return call->count;
}
