/* What the server makes of a round's sums: rounded as `Totals.mean` and `Transform.combine` round it. */

INLINE void clear_sums(const Sending *sending) {
    const Tables *tables = sending->tables;
    size_t places = (size_t)tables->places;
    memset(sending->total, 0, places * sizeof *sending->total);
    if (!tables->plain)
        memset(sending->sums, 0, (size_t)tables->symbols.count * places * sizeof *sending->sums);
}

/* The mean update of a round of ``count`` reports. */
OUTLINE void fill_mean(const Sending *sending, int64_t count) {
    const Tables *tables = sending->tables;
    double *total = sending->total, *mean = sending->scratch->mean, n = (double)count;
    int64_t M = tables->places, d = tables->dim;
    if (tables->plain)
        for (int64_t j = 0; j < M; j++) total[j] *= tables->units[0];
    else
        for (int64_t j = 0; j < M; j++) {
            total[j] = tables->units[0] * (double)sending->sums[j];
            for (int64_t w = 1; w < tables->symbols.count; w++)
                total[j] += tables->units[w] * (double)sending->sums[w * M + j];
        }
    for (int64_t j = 0; j < M; j++) total[j] /= n;
    if (tables->basis == COORDINATES || tables->basis == FRESH) {
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
