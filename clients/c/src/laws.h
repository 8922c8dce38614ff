/* Laws: the whole numbers that a report is drawn from. */
#ifndef FEDSEL_LAWS_H
#define FEDSEL_LAWS_H

#include "exact.h"

#define FS_BUDGET_BITS 59
#define FS_BUDGET (UINT64_C(1) << FS_BUDGET_BITS)

/* The weight of each of n ranks: `high` for the first `top`, `low` for the others; or, with a table,
 * that of EXP. `bottom` is the weight of ⊥. */
typedef struct {
  uint64_t n, top, high, low, total, bottom;
  const uint64_t *table; /* of EXP: t(j) for j < block, then t(i·block); else NULL */
  uint64_t block;
} fs_ranks;

typedef struct {
  uint64_t cells, width, low, high; /* G, W, L, H */
} fs_window;

/* One window, or two with a coin: `tails` of 2^32 for the second. */
typedef struct {
  fs_window windows[2];
  uint32_t count;
  uint64_t tails;
} fs_symbols;

typedef enum { FS_EXP, FS_PE, FS_PS, FS_PE_PUBLISHED } fs_selection;
typedef enum { FS_PM, FS_HM, FS_DUCHI, FS_OW } fs_value;

/* Where the best k of one-symbol reports of an ε is, for any number of slots. */
typedef struct {
  fs_real growth; /* e^ε − 1 */
  fs_real cut;    /* the c at which φ(c)/(share·growth + 1) is largest */
  fs_real share;  /* the probability of more than c; 0 where k is 1 for up to 2^31 slots */
} fs_best;

/* max(1, ⌊share·dim⌋) of the decimal that a share is written as. */
uint64_t fs_share_count(double share, uint64_t dim);
/* ε₁ = μ·ε′ and ε₂ = ε′ − ε₁ */
void fs_split(fs_ratio *first, fs_ratio *second, const fs_ratio *budget, double mu);

/* All laws are checked: false where the numbers are no law, which is MALFORMED. */
bool fs_threshold(fs_ranks *law, const fs_ratio *epsilon, uint64_t k, uint64_t n);
/* Words of the table of EXP over d ranks: it is at most that of 2^32 ranks. */
uint64_t fs_exponential_words(uint64_t d);
bool fs_exponential(fs_ranks *law, const fs_ratio *epsilon, uint64_t d, uint64_t *table);
bool fs_encoding(fs_ranks *law, const fs_ratio *epsilon, uint64_t k, uint64_t d, bool published);
bool fs_values(fs_symbols *law, fs_value mechanism, const fs_ratio *epsilon);
uint64_t fs_symbols_count(const fs_symbols *law);
bool fs_unbiased(fs_ranks *law, const fs_ratio *epsilon, uint64_t k, uint64_t d);

void fs_best_of(fs_best *best, const fs_ratio *epsilon);
/* k for so many slots, at most 2^31. */
uint64_t fs_best_top(const fs_best *best, uint64_t slots);
uint64_t fs_rotations(const fs_ratio *epsilon, uint64_t dim);

typedef struct {
  double share;
  uint64_t codewords, top;
  uint32_t factors;
} fs_fresh_sizes;
bool fs_fresh(fs_fresh_sizes *sizes, const fs_ratio *epsilon, uint64_t dim);
uint32_t fs_factors(uint64_t dim, uint64_t top);
/* The power of two at d or above. */
uint64_t fs_width(uint64_t dim);

/* The weight of a rank: work for all ranks where there is a table. */
uint64_t fs_weight(const fs_ranks *law, uint64_t rank);
uint64_t fs_rank_at(const fs_ranks *law, uint64_t position);
bool fs_by_rejection(const fs_ranks *law);
uint64_t fs_window_total(const fs_window *window);

/* ln(high/low), and the charge that follows from it. */
void fs_ranks_loss(fs_real *loss, const fs_ranks *law);
void fs_symbols_loss(fs_real *loss, const fs_symbols *law);
/* A little more than a loss: what its logarithms are off by is below 2^−200 by far, and a law that
 * comes closer to its budget than this is charged as if it exceeded it. */
void fs_loss_bound(fs_real *bound, const fs_real *loss);
/* The smallest multiple of 2^−36, in such units, that is at least a loss ≥ 0. */
uint64_t fs_log_upper(const fs_real *loss);

#endif
