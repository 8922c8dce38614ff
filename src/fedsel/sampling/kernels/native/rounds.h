/* Epochs of Algorithm 1 on linear models: gradient, report, sums and step.

   Both sides stand in one loop only so that a simulation runs at memory speed: reports are those of
   `Solution.encode` on the same words, the step is that of `fedsel.server.step`. What the caller's
   arrays say about each other (who holds which record, which entries a record has) is checked
   where it is read: an impossible one ends the call with OUT_OF_BOUNDS. */

#define AHEAD 8
#define AT_ONCE 256

/* Derivative of the loss by the margin x·w. */
INLINE double slope(int loss, double margin, int8_t label) {
    double y = (double)label;
    if (loss == LOGISTIC) return -y * sigmoid(-y * margin);
    return y * margin < 1.0 ? -y : 0.0;
}

/* The dense record that is read AHEAD clients later; the first one where there is no such. */
INLINE const float *record_ahead(const Records *records, const int64_t *rows, int64_t n,
                                 int64_t last) {
    int64_t row = rows[n + AHEAD < last ? n + AHEAD : last];
    return records->dense + (row >= 0 && row < records->rows ? row * records->dim : 0);
}

/* Ask for a stretch of the record ahead, in quarters of it. A long one all at once is more than a
   processor has in flight, and it waits; in between, memory delivers while the processor computes. */
INLINE void fetch_quarters(const float *record, int64_t d, int64_t from, int64_t to) {
    if (d > AT_ONCE)
        prefetch_row(record + d * from / 4, d * to / 4 - d * from / 4);
    else if (from == 0)
        prefetch_row(record, d);
}

/* Whether a record exists and its entries lie inside of the weights. */
INLINE int readable(const Records *records, int64_t row) {
    if (row < 0 || row >= records->rows) return 0;
    if (!records->indptr) return 1;
    int64_t first = records->indptr[row], end = records->indptr[row + 1];
    if (first < 0 || end < first || end > records->entries) return 0;
    int64_t wrong = 0;
    for (int64_t p = first; p < end; p++)
        wrong |= records->indices[p] < 0 || records->indices[p] >= records->dim;
    return !wrong;
}

/* x · w of one record. */
INLINE double margin_of(const Records *records, int64_t row, const float *weights) {
    if (!records->indptr)
        return (double)dot(records->dense + row * records->dim, weights, records->dim);
    double margin = 0.0;
    for (int64_t p = records->indptr[row]; p < records->indptr[row + 1]; p++)
        margin += (double)records->data[p] * (double)weights[records->indices[p]];
    return margin;
}

/* Add share · (gradient of one record's loss), without the regulariser. */
INLINE void add_gradient(const Records *records, int64_t row, int loss, const float *weights,
                         double share, float *gradient) {
    double margin = margin_of(records, row, weights);
    float c = (float)(slope(loss, margin, records->labels[row]) * share);
    if (!records->indptr) {
        const float *x = records->dense + row * records->dim;
        for (int64_t i = 0; i < records->dim; i++) gradient[i] += c * x[i];
    } else {
        for (int64_t p = records->indptr[row]; p < records->indptr[row + 1]; p++)
            gradient[records->indices[p]] += c * records->data[p];
    }
}

/* gradient ← rate · (mean gradient of the client's records + λw); decay is rate · λw. ``ahead`` is
   the dense record to ask for on the way. */
INLINE int client_gradient(const Records *records, int64_t client, int loss, const float *weights,
                           const float *decay, double rate, const float *ahead, float *gradient) {
    int64_t d = records->dim;
    if (!records->starts) {
        if (!readable(records, client)) return OUT_OF_BOUNDS;
        if (!records->indptr) { /* one dense record: one pass less */
            const float *x = records->dense + client * d;
            double margin = (double)dot(x, weights, d);
            float c = (float)(slope(loss, margin, records->labels[client]) * rate);
            fetch_quarters(ahead, d, 1, 2);
            for (int64_t i = 0; i < d; i++) gradient[i] = c * x[i] + decay[i];
            return 0;
        }
        memcpy(gradient, decay, (size_t)d * sizeof *gradient);
        add_gradient(records, client, loss, weights, rate, gradient);
        return 0;
    }
    if (client < 0 || client >= records->clients) return OUT_OF_BOUNDS;
    int64_t first = records->starts[client], end = records->starts[client + 1];
    if (first < 0 || end < first || end > records->ordered) return OUT_OF_BOUNDS;
    memcpy(gradient, decay, (size_t)d * sizeof *gradient);
    for (int64_t p = first; p < end; p++) {
        if (!readable(records, records->order[p])) return OUT_OF_BOUNDS;
        double share = rate / (double)(end - first);
        add_gradient(records, records->order[p], loss, weights, share, gradient);
    }
    return 0;
}

/* Several rounds: in round t the clients up to ends[t] report, and the server steps. */
static int64_t run_rounds(const Rounds *call) {
    Sending sending = call->sending;
    const Tables *tables = sending.tables;
    const Records *records = call->records;
    Scratch *scratch = sending.scratch;
    double *weights = call->weights;
    int64_t d = tables->dim, n = 0, last = call->count - 1;
    int dense = !records->starts && !records->indptr;
    for (int64_t t = 0; t < call->rounds; t++) {
        int64_t start = n;
        clear_sums(&sending);
        if (call->signs) sending.signs = call->signs + t * tables->bases * tables->rotations * d;
        for (int64_t i = 0; i < d; i++) {
            scratch->weights[i] = (float)weights[i];
            scratch->decay[i] =
                tables->decays_at_server ? 0 : (float)(call->factor * call->reg * weights[i]);
        }
        for (; n < call->ends[t]; n++) {
            int64_t client = call->clients[n];
            const float *ahead = dense ? record_ahead(records, call->clients, n, last) : NULL;
            if (dense) fetch_quarters(ahead, d, 0, 1);
            if (sending.residual && (client < 0 || client >= call->clients_with_residual))
                return OUT_OF_BOUNDS;
            Stream s;
            begin_report(&s, &sending, client, n);
            int wrong = client_gradient(records, client, call->loss, scratch->weights,
                                        scratch->decay, call->factor, ahead, scratch->gradient);
            if (wrong) return wrong;
            if (dense) fetch_quarters(ahead, d, 2, 4); /* the report takes longest */
            int64_t row = call->keeps ? n * 2 * tables->picks : 0;
            send_report(&sending, scratch->gradient, client, &s, call->sent + row);
        }
        if (n > start) {
            fill_mean(&sending, n - start);
            if (call->decay_of_server != 0)
                for (int64_t i = 0; i < d; i++) weights[i] -= call->decay_of_server * weights[i];
            for (int64_t i = 0; i < d; i++) weights[i] -= call->rate * scratch->mean[i];
        }
        if (call->trace) memcpy(call->trace + t * d, weights, (size_t)d * sizeof *weights);
    }
    return 0;
}

/* Rounds without privacy, gradient and sum fused: the yardstick of `fedsel bench`. */
static int64_t nonprivate_rounds(const Records *records, const int64_t *clients,
                                 const int64_t *ends, int64_t rounds, double reg, double rate,
                                 float *weights, float *total) {
    int64_t d = records->dim, n = 0, last = rounds ? ends[rounds - 1] - 1 : 0;
    for (int64_t t = 0; t < rounds; t++) {
        int64_t start = n;
        memset(total, 0, (size_t)d * sizeof *total);
        for (; n < ends[t]; n++) {
            const float *ahead = record_ahead(records, clients, n, last);
            fetch_quarters(ahead, d, 0, 2);
            if (!readable(records, clients[n])) return OUT_OF_BOUNDS;
            const float *x = records->dense + clients[n] * d;
            double margin = (double)dot(x, weights, d);
            float c = (float)slope(LOGISTIC, margin, records->labels[clients[n]]);
            fetch_quarters(ahead, d, 2, 4);
            for (int64_t i = 0; i < d; i++) total[i] += c * x[i];
        }
        for (int64_t i = 0; i < d; i++)
            weights[i] -= (float)rate * (total[i] / (float)(n - start) + weights[i] * (float)reg);
    }
    return 0;
}

/* Add up right answers and losses of these rows, for each model of weights (models, d). */
static int64_t judge(const Records *records, const int64_t *rows, int64_t count, int loss,
                     const float *weights, int64_t models, double *hits, double *losses) {
    for (int64_t n = 0; n < count; n++) {
        int64_t row = rows[n];
        if (!records->indptr) prefetch_row(record_ahead(records, rows, n, count - 1), records->dim);
        if (!readable(records, row)) return OUT_OF_BOUNDS;
        for (int64_t m = 0; m < models; m++) {
            double margin = margin_of(records, row, weights + m * records->dim);
            double agreement = margin * (double)records->labels[row];
            hits[m] += (margin >= 0) == (records->labels[row] > 0);
            if (loss == HINGE) {
                losses[m] += 1.0 - agreement > 0.0 ? 1.0 - agreement : 0.0;
            } else {
                double size = fabs(agreement);
                losses[m] += (agreement < 0.0 ? -agreement : 0.0) +
                             log1p(exponential(size < 700.0 ? -size : -700.0));
            }
        }
    }
    return 0;
}

/* A uniformly random order of the clients (Fisher and Yates). */
static void shuffle(int64_t *order, int64_t count, const uint64_t *key, uint64_t epoch) {
    Stream s;
    begin_stream(&s, key, epoch, 0);
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = below(&s, (uint64_t)i + 1), held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
}

/* Mark the clients that do not answer in an epoch, each by a stream of its own. */
static void drop(uint8_t *stays, int64_t count, double rate, const uint64_t *key, uint64_t epoch) {
    int64_t limit = (int64_t)(rate * 0x1p32);
    for (int64_t client = 0; client < count; client++) {
        Stream s;
        begin_stream(&s, key, epoch, (uint64_t)client);
        stays[client] = below(&s, (uint64_t)1 << 32) >= limit;
    }
}

static void take_words(uint64_t *words, int64_t count, const uint64_t *key, uint64_t epoch,
                       uint64_t client) {
    Stream s;
    begin_stream(&s, key, epoch, client);
    for (int64_t i = 0; i < count; i++) words[i] = next_word(&s);
}
