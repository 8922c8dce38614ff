/* The reports of baselines: in floats, from the same streams. */

/* Independent standard normal entries, two at a time (Marsaglia's polar method). */
OUTLINE void fill_normal(float *out, int64_t n, Stream *s) {
    for (int64_t i = 0; i < n;) {
        double u = uniform(s), v = uniform(s);
        u = 2.0 * u - 1.0;
        v = 2.0 * v - 1.0;
        double square = u * u + v * v;
        if (!(0.0 < square && square < 1.0)) continue;
        double f = sqrt(-2.0 * logarithm(square) / square);
        out[i] = (float)(u * f);
        if (i + 1 < n) out[i + 1] = (float)(v * f);
        i += 2;
    }
}

/* PrivUnit: a vector on the sphere, near the direction of g, the rest of it at random. */
OUTLINE void send_direction(const BaselineTable *table, double scale, const float *g, int64_t d,
                            float *noise, Stream *s, double *total) {
    double length = sqrt((double)dot(g, g, d)), sign = 1.0;
    if (table->radius > 0) {
        double share = length / table->radius;
        if (uniform(s) >= 0.5 + (share < 1.0 ? share : 1.0) / 2) sign = -1.0;
    }
    const double *row = table->quantiles + (uniform(s) < table->inside ? table->knots : 0);
    double place = uniform(s) * (double)(table->knots - 1);
    int64_t knot = (int64_t)place; /* below the last: a uniform is below 1 */
    if (knot > table->knots - 2) knot = table->knots - 2;
    double along = row[knot] + (row[knot + 1] - row[knot]) * (place - (double)knot), share;
    fill_normal(noise, d, s);
    if (length == 0) { /* any direction: the noise is one */
        share = scale / sqrt((double)dot(noise, noise, d));
        along = 0.0;
    } else {
        double shared = (double)dot(noise, g, d) / (length * length);
        for (int64_t i = 0; i < d; i++) noise[i] -= (float)(shared * (double)g[i]);
        double rest = 1.0 - along * along, across = sqrt(rest > 0.0 ? rest : 0.0);
        share = scale * across / sqrt((double)dot(noise, noise, d));
        along *= scale * sign / length;
    }
    for (int64_t i = 0; i < d; i++) total[i] += along * (double)g[i] + share * (double)noise[i];
}

/* SignDS: a sign and h dimensions, some of them of the signed top k. */
OUTLINE void send_set(const BaselineTable *table, double scale, const float *g, int64_t d,
                      float *shifted, Stream *s, double *total) {
    float sign = below(s, 2) ? -1.0f : 1.0f, lowest = sign * g[0];
    for (int64_t i = 0; i < d; i++)
        if (sign * g[i] < lowest) lowest = sign * g[i];
    for (int64_t i = 0; i < d; i++) shifted[i] = sign * g[i] - lowest; /* in the same order */
    float pivot = magnitude_at_float(table->top - 1, shifted, d);
    double u = uniform(s);
    int64_t hits = 0, most = table->sizes - 1;
    while (hits < most && u >= table->shares[hits]) hits++;
    int64_t ties = count_equal_float(shifted, d, pivot);
    int64_t tied = table->top - count_above_float(shifted, d, pivot, d);
    int64_t wanted = hits, left = table->top, others = most - hits, rest = d - table->top;
    for (int64_t i = 0; i < d; i++) {
        int above = shifted[i] > pivot, chosen;
        if (shifted[i] == pivot) {
            above = below(s, (uint64_t)ties) < tied;
            ties--;
            tied -= above;
        }
        if (above) {
            chosen = below(s, (uint64_t)left) < wanted;
            left--;
            wanted -= chosen;
        } else {
            chosen = below(s, (uint64_t)rest) < others;
            rest--;
            others -= chosen;
        }
        if (chosen) total[i] += (double)sign * scale;
    }
}
