/* Epochs of Algorithm 1 on linear models: gradient, report, sums and step.

   Both sides stand in one loop only so that a simulation runs at memory speed: reports are those of
   `Solution.encode` on the same words, the step is that of `fedsel.server.step`. What the caller's
   arrays say about each other (who holds which record, which entries a record has) is checked
   where it is read: an impossible one ends the call with OUT_OF_BOUNDS. */

/* How many records ahead memory is asked for one: so many, or as few as fill this much of the cache. */
#define AHEAD 8
#define LEAST_AHEAD 4
#define CACHE_AHEAD 16384

/* Derivative of the loss by the margin x·w. */
INLINE double slope(int loss, double margin, int8_t label) {
    double y = (double)label;
    if (loss == LOGISTIC) return -y * sigmoid(-y * margin);
    return y * margin < 1.0 ? -y : 0.0;
}

INLINE int64_t records_ahead(int64_t d) {
    int64_t count = CACHE_AHEAD / ((int64_t)sizeof(float) * d);
    return count < LEAST_AHEAD ? LEAST_AHEAD : count > AHEAD ? AHEAD : count;
}

/* The dense record that is read ``ahead`` clients later; the first one where there is no such. */
INLINE const float *record_ahead(const Records *records, const int64_t *rows, int64_t n, int64_t last,
                                 int64_t ahead) {
    int64_t row = rows[n + ahead < last ? n + ahead : last];
    return records->dense + (row >= 0 && row < records->rows ? row * records->dim : 0);
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

/* gradient ← rate · (mean gradient of the client's records + λw); decay is rate · λw, if there is one. */
INLINE int client_gradient(const Records *records, int64_t client, int loss, const float *weights,
                           const float *decay, double rate, float *gradient) {
    const size_t bytes = (size_t)records->dim * sizeof *gradient;
    if (decay)
        memcpy(gradient, decay, bytes);
    else
        memset(gradient, 0, bytes);
    if (!records->starts) {
        if (!readable(records, client)) return OUT_OF_BOUNDS;
        add_gradient(records, client, loss, weights, rate, gradient);
        return 0;
    }
    if (client < 0 || client >= records->clients) return OUT_OF_BOUNDS;
    int64_t first = records->starts[client], end = records->starts[client + 1];
    if (first < 0 || end < first || end > records->ordered) return OUT_OF_BOUNDS;
    for (int64_t p = first; p < end; p++) {
        if (!readable(records, records->order[p])) return OUT_OF_BOUNDS;
        double share = rate / (double)(end - first);
        add_gradient(records, records->order[p], loss, weights, share, gradient);
    }
    return 0;
}

/* The gradients of clients with one dense record each: a pass or two less, and memory is asked for the
   records ahead on the way. Without decay their squares come along. */
INLINE int dense_gradients(const Rounds *call, Report *reports, int64_t count, const float *weights,
                           const float *decay) {
    const Records *records = call->records;
    const int64_t d = records->dim;
    double margins[MOST_REPORTS];
    float slopes[MOST_REPORTS];
    for (int64_t at = 0; at < count; at++) {
        Report *r = reports + at;
        if (!readable(records, r->client)) return OUT_OF_BOUNDS;
        fetch_eighths(r->ahead, d, 0, 1);
        margins[at] = (double)dot(records->dense + r->client * d, weights, d);
    }
    for (int64_t at = 0; at < count; at++) {
        const int8_t label = records->labels[reports[at].client];
        slopes[at] = (float)(slope(call->loss, margins[at], label) * call->factor);
    }
    for (int64_t at = 0; at < count; at++) {
        Report *r = reports + at;
        const float *x = records->dense + r->client * d;
        const float c = slopes[at];
        float *gradient = r->vector;
        fetch_eighths(r->ahead, d, 1, 2);
        if (!decay)
            r->squared = scale(x, c, d, gradient);
        else
            for (int64_t i = 0; i < d; i++) gradient[i] = c * x[i] + decay[i];
    }
    return 0;
}

/* The reports of clients n, n + 1, …, ``count`` of them, in a round. */
INLINE int report_together(const Rounds *call, const Sending *sending, int64_t n, int64_t count) {
    const Tables *tables = sending->tables;
    const Records *records = call->records;
    const float *weights = sending->scratch->weights;
    const float *decay = tables->decays_at_server ? NULL : sending->scratch->decay;
    const int64_t dense = !records->starts && !records->indptr, ahead = records_ahead(tables->dim);
    Report reports[MOST_REPORTS];
    int wrong = 0;
    for (int64_t at = 0; at < count; at++) {
        int64_t client = call->clients[n + at];
        if (sending->residual && (client < 0 || client >= call->clients_with_residual))
            return OUT_OF_BOUNDS;
        begin_report(reports + at, sending, at, client, n + at,
                     call->sent + (call->keeps ? (n + at) * 2 * tables->picks : 0));
        if (dense)
            reports[at].ahead = record_ahead(records, call->clients, n + at, call->count - 1, ahead);
    }
    if (dense)
        wrong = dense_gradients(call, reports, count, weights, decay);
    else
        for (Report *r = reports; r < reports + count && !wrong; r++)
            wrong = client_gradient(records, r->client, call->loss, weights, decay, call->factor,
                                    r->vector);
    if (!wrong) send_reports(tables, reports, count);
    return wrong;
}

/* Several rounds: in round t the clients up to ends[t] report, and the server steps. */
static int64_t run_rounds(const Rounds *call) {
    Sending sending = call->sending;
    const Tables *tables = sending.tables;
    Scratch *scratch = sending.scratch;
    double *weights = call->weights;
    const int64_t d = tables->dim, most = reports_at_once(&sending);
    int64_t n = 0;
    for (int64_t t = 0; t < call->rounds; t++) {
        int64_t start = n;
        clear_sums(&sending);
        if (call->signs) sending.signs = call->signs + t * tables->bases * tables->rotations * d;
        if (call->round_keys) sending.round_key = call->round_keys + 2 * t;
        for (int64_t i = 0; i < d; i++) {
            scratch->weights[i] = (float)weights[i];
            scratch->decay[i] = (float)(call->factor * call->reg * weights[i]);
        }
        while (n < call->ends[t]) {
            int64_t count = call->ends[t] - n < most ? call->ends[t] - n : most;
            int wrong = report_together(call, &sending, n, count);
            if (wrong) return wrong;
            n += count;
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
            const float *ahead = record_ahead(records, clients, n, last, records_ahead(d));
            fetch_eighths(ahead, d, 0, 4);
            if (!readable(records, clients[n])) return OUT_OF_BOUNDS;
            const float *x = records->dense + clients[n] * d;
            double margin = (double)dot(x, weights, d);
            float c = (float)slope(LOGISTIC, margin, records->labels[clients[n]]);
            fetch_eighths(ahead, d, 4, 8);
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
        if (!records->indptr)
            prefetch_row(record_ahead(records, rows, n, count - 1, AHEAD), records->dim);
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
