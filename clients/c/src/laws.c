#include "laws.h"

#include <math.h>
#include <string.h>

#include "tables.h"

#define MOST_CELLS 32768
#define ALL_PAIRS 1024
#define COINS (UINT64_C(1) << 32)

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- Shares ---- */

uint64_t fs_share_count(double share, uint64_t dim)
{
  fs_ratio exact;
  fs_big whole;
  uint64_t count = 0;
  fs_ratio_of_decimal(&exact, share);
  fs_times_small(&whole, &exact.p, dim);
  fs_divide(&whole, NULL, &whole, &exact.q);
  fs_to_u64(&whole, &count);
  return count > 0 ? count : 1;
}

void fs_split(fs_ratio *first, fs_ratio *second, const fs_ratio *budget, double mu)
{
  fs_ratio share;
  fs_ratio_of_decimal(&share, mu);
  fs_times(&first->p, &budget->p, &share.p);
  fs_times(&first->q, &budget->q, &share.q);
  fs_times(&second->p, &budget->p, &share.q);
  fs_subtract(&second->p, &second->p, &first->p);
  fs_copy(&second->q, &first->q);
}

/* ---- The low and the high weight ---- */

/* ⌊2^bits / (raised·E + others)⌋, at least 1; `growth` is 2^128·E. */
static bool low_weight(uint64_t *low, uint32_t bits, const fs_big *growth, uint64_t raised,
                       uint64_t others)
{
  fs_big room, whole, rest;
  fs_times_small(&whole, growth, raised);
  fs_set(&rest, others);
  fs_shift_left(&rest, &rest, 128);
  fs_add(&whole, &whole, &rest);
  fs_set(&room, 1);
  fs_shift_left(&room, &room, bits + 128);
  fs_divide(&room, NULL, &room, &whole);
  if (!fs_to_u64(&room, low))
    return false;
  *low = larger(1, *low);
  return true;
}

/* ⌊E·low⌋, at most `most`. */
static uint64_t high_weight(const fs_big *growth, uint64_t low, uint64_t most)
{
  fs_big high;
  uint64_t value;
  fs_times_small(&high, growth, low);
  fs_shift_right(&high, &high, 128);
  return fs_to_u64(&high, &value) ? smaller(value, most) : most;
}

bool fs_threshold(fs_ranks *law, const fs_ratio *epsilon, uint64_t k, uint64_t n)
{
  fs_big growth;
  memset(law, 0, sizeof *law);
  if (k < 1 || k > n || n > COINS)
    return false;
  fs_exp_lower(&growth, epsilon);
  law->n = n;
  law->top = k;
  if (!low_weight(&law->low, FS_BUDGET_BITS, &growth, k, n - k))
    return false;
  law->high = high_weight(&growth, law->low, (FS_BUDGET - (n - k) * law->low) / k);
  if (k == n)
    law->high = law->low;
  law->total = k * law->high + (n - k) * law->low;
  return law->low <= law->high && law->total <= FS_BUDGET;
}

bool fs_unbiased(fs_ranks *law, const fs_ratio *epsilon, uint64_t k, uint64_t d)
{
  fs_big growth;
  memset(law, 0, sizeof *law);
  fs_exp_lower(&growth, epsilon);
  law->n = d;
  law->top = k;
  const uint64_t room = FS_BUDGET >> 16;
  if (!low_weight(&law->low, FS_BUDGET_BITS - 16, &growth, k, 2 * d) || 2 * d > room / law->low)
    return false;
  law->high = high_weight(&growth, law->low, (room - 2 * d * law->low) / k);
  law->total = (2 * d * law->low + k * law->high) << 16;
  return law->low <= law->high;
}

/* ---- EXP ---- */

static uint64_t root_of(uint64_t d)
{
  uint64_t root = 0;
  for (uint64_t bit = UINT64_C(1) << 16; bit > 0; bit >>= 1)
    if ((root + bit) * (root + bit) <= d)
      root += bit;
  return root;
}

uint64_t fs_exponential_words(uint64_t d)
{
  const uint64_t block = root_of(d) + 1;
  return block + (d + block - 1) / block;
}

/* t(s) = ⌊2^63 / E(s·ε/(d − 1))⌋ */
static uint64_t decay(const fs_ratio *epsilon, uint64_t s, uint64_t d)
{
  fs_ratio x;
  fs_big growth, one;
  uint64_t value = 0;
  fs_ratio_scale(&x, epsilon, s, d - 1);
  fs_exp_lower(&growth, &x);
  fs_set(&one, 1);
  fs_shift_left(&one, &one, 63 + 128);
  fs_divide(&one, NULL, &one, &growth);
  fs_to_u64(&one, &value);
  return value;
}

/* The weight of a rank before it is made at most that of the rank above. */
static uint64_t table_weight(const fs_ranks *law, uint64_t rank)
{
  uint64_t high, low;
  fs_multiply64(law->table[law->block + rank / law->block], law->table[rank % law->block], &high,
                &low);
  fs_multiply64(2 * high, 2 * law->high, &high, &low);
  return smaller(larger(law->low, high), law->high);
}

/* The weight of a rank, where that of the rank above is `above`. */
static uint64_t next_weight(const fs_ranks *law, uint64_t rank, uint64_t above)
{
  return smaller(above, table_weight(law, rank));
}

bool fs_exponential(fs_ranks *law, const fs_ratio *epsilon, uint64_t d, uint64_t *table)
{
  memset(law, 0, sizeof *law);
  law->n = law->top = d;
  if (d == 1 || fs_is_zero(&epsilon->p)) {
    law->high = law->low = 1;
    law->total = d;
    return true;
  }
  fs_big growth, least;
  law->high = FS_BUDGET / d;
  fs_exp_lower(&growth, epsilon);
  /* ⌈m/E⌉ = ⌊(m·2^128 − 1)/(2^128·E)⌋ + 1 */
  fs_set(&least, law->high);
  fs_shift_left(&least, &least, 128);
  fs_big one;
  fs_set(&one, 1);
  fs_subtract(&least, &least, &one);
  fs_divide(&least, NULL, &least, &growth);
  if (!fs_to_u64(&least, &law->low))
    return false;
  law->low += 1;
  law->block = root_of(d) + 1;
  for (uint64_t j = 0; j < law->block; j++)
    table[j] = decay(epsilon, j, d);
  for (uint64_t i = 0; i * law->block < d; i++)
    table[law->block + i] = decay(epsilon, i * law->block, d);
  law->table = table;
  uint64_t weight = law->high;
  for (uint64_t rank = 0; rank < d; rank++) {
    weight = next_weight(law, rank, weight);
    law->total += weight;
  }
  law->low = weight;
  return law->total <= FS_BUDGET;
}

uint64_t fs_weight(const fs_ranks *law, uint64_t rank)
{
  if (law->table == NULL)
    return rank < law->top ? law->high : law->low;
  uint64_t weight = law->high;
  for (uint64_t i = 0; i < law->n; i++) /* all of them: the time says nothing of the rank */
    weight = i <= rank ? next_weight(law, i, weight) : weight;
  return weight;
}

uint64_t fs_rank_at(const fs_ranks *law, uint64_t position)
{
  if (law->table == NULL) {
    const uint64_t above = law->top * law->high;
    return position < above ? position / law->high : law->top + (position - above) / law->low;
  }
  uint64_t rank = 0, weight = law->high;
  while (position >= weight) {
    position -= weight;
    rank += 1;
    weight = next_weight(law, rank, weight);
  }
  return rank;
}

bool fs_by_rejection(const fs_ranks *law)
{
  uint64_t high, low;
  fs_multiply64(law->n, law->high, &high, &low);
  return high == 0 && low <= 16 * law->total;
}

/* ---- PE ---- */

/* p = 1/(1 + e^(−x)) and q = 1 − p. */
static void chances(fs_real *p, fs_real *q, const fs_real *x)
{
  fs_real odds, one, all;
  fs_real_set(&one, 1);
  fs_real_negate(&odds, x);
  fs_real_exp(&odds, &odds);
  fs_real_add(&all, &one, &odds);
  fs_real_over(p, &one, &all);
  fs_real_over(q, &odds, &all);
}

typedef struct {
  fs_real p, q, reach, gap, norm;
  uint64_t k, d;
} integrals;

/* Add what a node contributes to ∫ y·f(y) dy and to ∫ (1 − p·y)·f(y) dy. */
static void add_node(integrals *sums, const fs_real *node, const fs_real *weight)
{
  fs_real y, stays, f, one;
  fs_real_set(&one, 1);
  fs_real_times(&y, &sums->reach, node);
  fs_real_times(&stays, &sums->q, &y);
  fs_real_subtract(&stays, &one, &stays);
  fs_real_power(&f, &stays, sums->d - sums->k - 1);
  fs_real_times(&f, &f, weight);
  fs_real_times(&stays, &sums->p, &y);
  fs_real_subtract(&stays, &one, &stays);
  fs_real_power(&one, &stays, sums->k - 1);
  fs_real_times(&f, &f, &one);
  fs_real_times(&y, &y, &f);
  fs_real_add(&sums->gap, &sums->gap, &y);
  fs_real_times(&stays, &stays, &f);
  fs_real_add(&sums->norm, &sums->norm, &stays);
}

/* loss(x), for k < d. */
static void encoding_loss(fs_real *loss, const fs_real *x, uint64_t k, uint64_t d)
{
  integrals sums;
  fs_real node, weight, one, rate;
  memset(&sums, 0, sizeof sums);
  sums.k = k;
  sums.d = d;
  chances(&sums.p, &sums.q, x);
  /* Beyond 60 over this rate the integrand is below e^−60 of its peak. */
  fs_real_times_small(&rate, &sums.p, (int64_t)(k - 1));
  fs_real_times_small(&node, &sums.q, (int64_t)(d - k - 1));
  fs_real_add(&rate, &rate, &node);
  fs_real_set(&one, 1);
  fs_real_set(&node, 60);
  sums.reach = one;
  if (fs_real_compare(&rate, &node) > 0)
    fs_real_over(&sums.reach, &node, &rate);
  for (uint32_t i = 0; i < FS_NODES_COUNT; i++) {
    fs_real_of_fraction(&node, FS_NODES[i][0], 6);
    fs_real_of_fraction(&weight, FS_NODES[i][1], 6);
    add_node(&sums, &node, &weight);
    fs_real_subtract(&node, &one, &node);
    add_node(&sums, &node, &weight);
  }
  fs_real_subtract(&sums.p, &sums.p, &sums.q);
  fs_real_times(&sums.p, &sums.p, &sums.gap);
  fs_real_over(&sums.p, &sums.p, &sums.norm);
  fs_real_add(&sums.p, &sums.p, &one);
  fs_real_ln(&sums.p, &sums.p);
  fs_real_add(loss, x, &sums.p);
}

/* The x with loss(x) = e, by secants. */
static double calibrated(double e, uint64_t k, uint64_t d)
{
  fs_real wanted, before, here, off_before, off, next, moved;
  fs_real_of_double(&wanted, e);
  fs_real_scale(&before, &wanted, -1);
  here = wanted;
  encoding_loss(&off_before, &before, k, d);
  fs_real_subtract(&off_before, &off_before, &wanted);
  encoding_loss(&off, &here, k, d);
  fs_real_subtract(&off, &off, &wanted);
  for (int step = 0; step < 100; step++) {
    fs_real slope;
    fs_real_subtract(&moved, &here, &before);
    fs_real_subtract(&slope, &off, &off_before);
    /* 2^−100 of e is 30 digits: the next step would be beyond 40. */
    if (moved.sign == 0 || slope.sign == 0 || moved.exponent < wanted.exponent - 100)
      break;
    fs_real_times(&next, &off, &moved);
    fs_real_over(&next, &next, &slope);
    before = here;
    off_before = off;
    fs_real_subtract(&here, &here, &next);
    encoding_loss(&off, &here, k, d);
    fs_real_subtract(&off, &off, &wanted);
  }
  return fs_real_to_double(&here);
}

/* q^k·p^(d−k) at a flip of x. */
static double silence(double x, uint64_t k, uint64_t d)
{
  fs_real p, q;
  fs_real_of_double(&p, x);
  chances(&p, &q, &p);
  fs_real_power(&q, &q, k);
  fs_real_power(&p, &p, d - k);
  fs_real_times(&p, &p, &q);
  return fs_real_to_double(&p);
}

static uint64_t half_even(double x)
{
  const uint64_t whole = (uint64_t)x;
  const double rest = x - (double)whole;
  return whole + (rest > 0.5 || (rest == 0.5 && (whole & 1) != 0) ? 1 : 0);
}

bool fs_encoding(fs_ranks *law, const fs_ratio *epsilon, uint64_t k, uint64_t d, bool published)
{
  const double e = fs_ratio_to_double(epsilon);
  double flip = e;
  fs_ratio loss = *epsilon;
  if (published && k < d) {
    fs_real x;
    fs_real_of_double(&x, e);
    encoding_loss(&x, &x, k, d);
    fs_ratio_of_double(&loss, fs_real_to_double(&x));
  } else if (published) {
    fs_ratio_set(&loss, 0, 1);
  } else if (k < d && e > 0.0) {
    flip = calibrated(e, k, d);
  }
  if (!fs_threshold(law, &loss, k, d))
    return false;
  const double nothing = silence(flip, k, d);
  law->bottom = half_even((double)law->total * nothing / (1.0 - nothing));
  return law->bottom <= FS_BUDGET;
}

/* ---- Values ---- */

uint64_t fs_window_total(const fs_window *window)
{
  return window->width * window->high + window->cells * window->low;
}

uint64_t fs_symbols_count(const fs_symbols *law)
{
  uint64_t symbols = 0;
  for (uint32_t i = 0; i < law->count; i++)
    symbols += law->windows[i].cells + law->windows[i].width;
  return symbols;
}

static bool window_of(fs_window *window, const fs_big *growth, uint64_t cells, uint64_t width)
{
  window->cells = cells;
  window->width = width;
  if (!low_weight(&window->low, FS_BUDGET_BITS, growth, width, cells))
    return false;
  const uint64_t most = (FS_BUDGET - cells * window->low) / width;
  window->high = high_weight(growth, window->low, most);
  return window->low < window->high;
}

/* The integer nearest to count·e^(−ε/2), at least 1. */
static uint64_t nearest_decay(uint64_t count, const fs_ratio *epsilon)
{
  fs_real x, half;
  fs_real_of_ratio(&x, epsilon);
  fs_real_scale(&x, &x, -1);
  fs_real_negate(&x, &x);
  fs_real_exp(&x, &x);
  fs_real_times_small(&x, &x, (int64_t)count);
  fs_real_set(&half, 1);
  fs_real_scale(&half, &half, -1);
  fs_real_add(&x, &x, &half);
  return larger(1, fs_real_floor(&x));
}

static bool piecewise(fs_window *window, const fs_big *growth, const fs_ratio *epsilon)
{
  /* 2·⌈(ε − 2)/2⌉, between 0 and 7 */
  fs_ratio bound;
  uint32_t doublings = 0;
  for (uint64_t i = 1; i <= 4; i++) {
    fs_ratio_set(&bound, 2 * i, 1);
    if (fs_ratio_compare(epsilon, &bound) > 0)
      doublings += 2;
  }
  const uint64_t cells = UINT64_C(256) << (doublings < 7 ? doublings : 7);
  return window_of(window, growth, cells, nearest_decay(cells, epsilon));
}

/* The worst-case variance in doubles, right to 10^−12: no two numbers that are nearly alike are
 * subtracted. */
static double about_variance(double e_minus, uint64_t cells, uint64_t width)
{
  const double G = (double)cells, W = (double)width, N = G + W;
  const double least = W / (double)FS_BUDGET;
  const double x = e_minus > least ? e_minus : least;
  const double inside = W * (1.0 - x), whole = W + G * x;
  const double eta = inside / whole, rest = x * N / whole, delta = x * N / inside;
  const double spread = (eta * (W * W - 1.0) + rest * (N * N - 1.0)) / (3.0 * eta * eta * G * G);
  const double low = 1.0 - 2.0 / G, s = 1.0 / G, scaled = delta * (1.0 - s);
  const double u = scaled < s ? scaled : s;
  return delta * ((low + 1.0) * (1.0 - s + u) - low) + (s + u) * (s - u) + spread;
}

/* The worst-case variance exactly, over 3·G²·a² with a = W·(H − L). With the total T and t = m/(G·a)
 * it is 3T·((2G − 2)·m − (G − 2)·G·a) + T·(a·(W² − 1) + (T − a)·(N² − 1)) − 3m². */
static void exact_variance(fs_ratio *variance, const fs_window *window)
{
  const uint64_t G = window->cells, W = window->width, N = G + W;
  const uint64_t T = fs_window_total(window), a = W * (window->high - window->low);
  fs_big m, one, low, part, *sum = &variance->p;
  fs_set(&one, a);
  fs_times_small(&one, &one, G);
  fs_set(&m, T);
  fs_times_small(&m, &m, G - 1);
  fs_set(&low, a);
  fs_times_small(&low, &low, G < 2 ? 0 : G - 2);
  if (fs_compare(&m, &low) < 0)
    fs_copy(&m, &low);
  if (fs_compare(&m, &one) > 0)
    fs_copy(&m, &one);
  fs_times_small(sum, &m, 2 * G - 2);
  fs_times_small(&low, &low, G);
  fs_subtract(sum, sum, &low);
  if (G == 1) { /* there (G − 2)·G·a is −a */
    fs_set(&part, a);
    fs_add(sum, sum, &part);
  }
  fs_times_small(sum, sum, 3);
  fs_set(&part, a);
  fs_times_small(&part, &part, W * W - 1);
  fs_add(sum, sum, &part);
  fs_set(&part, T - a);
  fs_times_small(&part, &part, N * N - 1);
  fs_add(sum, sum, &part);
  fs_times_small(sum, sum, T);
  fs_times(&part, &m, &m);
  fs_times_small(&part, &part, 3);
  fs_subtract(sum, sum, &part);
  fs_times(&variance->q, &one, &one);
}

typedef struct {
  const fs_big *growth;
  double e_minus, least;
  fs_window window;
  fs_ratio variance;
} search;

/* Compare a window with the best one so far: by doubles where they can tell, else exactly. */
static void consider(search *best, uint64_t cells, uint64_t width)
{
  fs_window window;
  fs_ratio variance;
  const double about = about_variance(best->e_minus, cells, width);
  if (about > best->least * (1.0 + 1e-9) || !window_of(&window, best->growth, cells, width))
    return;
  exact_variance(&variance, &window);
  if (best->window.cells > 0) {
    const int order = fs_ratio_compare(&variance, &best->variance);
    const uint64_t symbols = best->window.cells + best->window.width;
    if (order > 0 || (order == 0 && cells + width >= symbols))
      return;
  }
  best->window = window;
  best->variance = variance;
  if (about < best->least)
    best->least = about;
}

/* (2e^(−ε))^(1/3) */
static double width_share(const fs_real *epsilon)
{
  fs_real two, three;
  fs_real_set(&two, 2);
  fs_real_set(&three, 3);
  fs_real_ln(&two, &two);
  fs_real_subtract(&two, &two, epsilon);
  fs_real_over(&two, &two, &three);
  fs_real_exp(&two, &two);
  return fs_real_to_double(&two);
}

static bool least_variance(fs_window *window, const fs_big *growth, const fs_ratio *epsilon)
{
  search best;
  fs_real x;
  memset(&best, 0, sizeof best);
  best.growth = growth;
  best.least = 1e300;
  fs_real_of_ratio(&x, epsilon);
  const double share = width_share(&x);
  fs_real_negate(&x, &x);
  fs_real_exp(&x, &x);
  best.e_minus = fs_real_to_double(&x);
  for (uint64_t cells = 1; cells <= ALL_PAIRS; cells++)
    for (uint64_t width = 1; width <= cells; width++)
      consider(&best, cells, width);
  for (uint64_t cells = ALL_PAIRS + 1; cells <= MOST_CELLS; cells++) {
    const uint64_t near = half_even((double)cells * share);
    for (uint64_t off = 0; off <= 4; off++)
      consider(&best, cells, near + off > 3 ? near + off - 2 : 1);
  }
  *window = best.window;
  return best.window.cells > 0;
}

bool fs_values(fs_symbols *law, fs_value mechanism, const fs_ratio *epsilon)
{
  fs_big growth;
  fs_ratio least;
  memset(law, 0, sizeof *law);
  fs_ratio_of_double(&least, 1e-12);
  if (fs_ratio_compare(epsilon, &least) < 0)
    return false;
  fs_exp_lower(&growth, epsilon);
  law->count = 1;
  switch (mechanism) {
  case FS_DUCHI:
    return window_of(&law->windows[0], &growth, 1, 1);
  case FS_PM:
    return piecewise(&law->windows[0], &growth, epsilon);
  case FS_OW:
    return least_variance(&law->windows[0], &growth, epsilon);
  case FS_HM:
    break;
  }
  fs_ratio_of_double(&least, 0.609352);
  if (fs_ratio_compare(epsilon, &least) <= 0)
    return window_of(&law->windows[0], &growth, 1, 1);
  law->count = 2;
  law->tails = nearest_decay(COINS, epsilon);
  return piecewise(&law->windows[0], &growth, epsilon) &&
         window_of(&law->windows[1], &growth, 1, 1);
}

/* ---- One symbol ---- */

/* c·(1 + growth·Q(c)) − growth·φ(c) is 0 at the best c: it rises, and bends down, so that Newton's
 * steps from 0 come from below. */
void fs_best_of(fs_best *best, const fs_ratio *epsilon)
{
  fs_real one, density, slope, off;
  fs_real_set(&one, 1);
  fs_real_of_ratio(&best->growth, epsilon);
  fs_real_exp(&best->growth, &best->growth);
  fs_real_subtract(&best->growth, &best->growth, &one);
  memset(&best->cut, 0, sizeof best->cut);
  for (int step = 0; step < 100; step++) {
    fs_real_normal(&density, &best->share, &best->cut);
    /* Below 2^−33 the best k of 2^32 signed slots is 1, whatever comes. */
    if (best->share.exponent + 32 * FS_REAL_WORDS < -33) {
      memset(&best->share, 0, sizeof best->share);
      return;
    }
    fs_real_times(&slope, &best->growth, &best->share);
    fs_real_add(&slope, &slope, &one);
    fs_real_times(&off, &best->growth, &density);
    fs_real_times(&density, &best->cut, &slope);
    fs_real_subtract(&off, &off, &density);
    fs_real_over(&off, &off, &slope);
    fs_real_add(&best->cut, &best->cut, &off);
    if (off.sign == 0 || off.exponent < best->cut.exponent - 120)
      return;
  }
}

/* φ at the c above which a share of k/(2M) lies, by Newton's method from a c near it. */
static void density_above(fs_real *density, uint64_t k, uint64_t slots, const fs_real *start)
{
  fs_real c = *start, tail, share, step;
  fs_ratio exact;
  fs_ratio_set(&exact, k, 2 * slots);
  fs_real_of_ratio(&share, &exact);
  for (int i = 0; i < 100; i++) {
    fs_real_normal(density, &tail, &c);
    fs_real_subtract(&step, &tail, &share);
    fs_real_over(&step, &step, density);
    fs_real_add(&c, &c, &step);
    if (step.sign == 0 || step.exponent < -32 * FS_REAL_WORDS - 110)
      break;
  }
  fs_real_normal(density, &tail, &c);
}

/* Whether k + 1 aligns better than k: φ(c′)·(k·g + 2M) > φ(c)·((k+1)·g + 2M). */
static bool rises(const fs_best *best, uint64_t k, uint64_t slots)
{
  fs_real here, there, weight, all;
  density_above(&here, k, slots, &best->cut);
  density_above(&there, k + 1, slots, &best->cut);
  fs_real_set(&all, (int64_t)(2 * slots));
  fs_real_times_small(&weight, &best->growth, (int64_t)k);
  fs_real_add(&weight, &weight, &all);
  fs_real_times(&there, &there, &weight);
  fs_real_add(&weight, &weight, &best->growth);
  fs_real_times(&here, &here, &weight);
  return fs_real_compare(&there, &here) > 0;
}

/* The real optimum lies at 2M·share; the best integer is the one below or the one above it. */
uint64_t fs_best_top(const fs_best *best, uint64_t slots)
{
  fs_real optimum;
  fs_real_times_small(&optimum, &best->share, (int64_t)(2 * slots));
  const uint64_t below = fs_real_floor(&optimum);
  if (below < 1)
    return 1;
  if (below >= slots)
    return slots;
  return rises(best, below, slots) ? below + 1 : below;
}

uint64_t fs_width(uint64_t dim)
{
  uint64_t width = 1;
  while (width < dim)
    width *= 2;
  return width;
}

uint64_t fs_rotations(const fs_ratio *epsilon, uint64_t dim)
{
  fs_best best;
  const uint64_t width = fs_width(dim);
  const uint64_t few = smaller(8192 / width, UINT64_C(1) << smaller(dim, 16));
  const uint64_t most = smaller(larger(64, few), (UINT64_C(1) << 22) / width);
  uint64_t rotations = 1;
  if (most > 1)
    fs_best_of(&best, epsilon);
  while (rotations < most) {
    /* k < 16·min(1.9, R·w/2), with 10 times both sides */
    const uint64_t slots = rotations * width;
    if (10 * fs_best_top(&best, 16 * slots) >= smaller(304, 80 * slots))
      break;
    rotations *= 2;
  }
  return rotations;
}

/* ---- FJ ---- */

#define CAP_CELLS 1024

/* (1 − t²)^((d−3)/2) */
static double cap_density(double t, uint64_t dim)
{
  double b = 1.0 - t * t, p = 1.0;
  const double root = sqrt(b);
  if (dim == 2)
    return 1.0 / root;
  for (uint64_t n = (dim - 3) / 2; n > 0; n /= 2) {
    if ((n & 1) != 0)
      p = p * b;
    b = b * b;
  }
  return dim % 2 == 0 ? p * root : p;
}

static double cap_cosine(uint32_t i, double end, double *v)
{
  *v = ((double)i + 0.5) / CAP_CELLS;
  return (1.0 - *v * *v) * end;
}

static double cap_share(double growth, uint64_t dim)
{
  if (dim == 1)
    return 1.0;
  const double reach = 8.0 / sqrt((double)dim), end = reach < 1.0 ? reach : 1.0;
  double total = 0.0, mass = 0.0, moment = 0.0, best = 0.0, share = 0.0, v;
  for (uint32_t i = 0; i < CAP_CELLS; i++) {
    const double t = cap_cosine(i, end, &v);
    total += cap_density(t, dim) * v;
  }
  for (uint32_t i = 0; i < CAP_CELLS; i++) {
    const double t = cap_cosine(i, end, &v), cell = cap_density(t, dim) * v;
    mass += cell;
    moment += cell * t;
    const double worth = moment / (2.0 * total + growth * mass);
    if (worth > best) {
      best = worth;
      share = mass / total;
    }
  }
  return share;
}

uint32_t fs_factors(uint64_t dim, uint64_t top)
{
  const uint64_t width = fs_width(dim);
  if (dim < 64)
    return 0;
  return width > 4096 || (width >= 256 && top >= 16) ? 2 : 3;
}

bool fs_fresh(fs_fresh_sizes *sizes, const fs_ratio *epsilon, uint64_t dim)
{
  fs_ratio growth;
  memset(sizes, 0, sizeof *sizes);
  if (dim > UINT64_C(1) << 22)
    return false;
  fs_exp_lower(&growth.p, epsilon);
  fs_set(&growth.q, 1);
  fs_shift_left(&growth.q, &growth.q, 128);
  fs_subtract(&growth.p, &growth.p, &growth.q);
  sizes->share = cap_share(fs_ratio_to_double(&growth), dim);
  sizes->codewords = larger(64, fs_width(dim));
  const uint64_t many = smaller(larger(64 * sizes->codewords, 8192), UINT64_C(1) << 22);
  const uint64_t most = dim < 64 ? 8192 : many;
  const double few = 32.0 / (double)dim, least = few > 4.0 ? few : 4.0;
  while (sizes->codewords < most && (double)sizes->codewords * sizes->share < least)
    sizes->codewords *= 2;
  sizes->top = larger(1, (uint64_t)((double)sizes->codewords * sizes->share + 0.5));
  sizes->factors = fs_factors(dim, sizes->top);
  return true;
}

/* ---- Losses ---- */

static void log_ratio(fs_real *loss, uint64_t high, uint64_t low)
{
  fs_ratio ratio;
  fs_ratio_set(&ratio, high, low);
  fs_real_of_ratio(loss, &ratio);
  if (high == low)
    memset(loss, 0, sizeof *loss);
  else
    fs_real_ln(loss, loss);
}

void fs_ranks_loss(fs_real *loss, const fs_ranks *law) { log_ratio(loss, law->high, law->low); }

void fs_symbols_loss(fs_real *loss, const fs_symbols *law)
{
  fs_real other;
  log_ratio(loss, law->windows[0].high, law->windows[0].low);
  if (law->count < 2)
    return;
  log_ratio(&other, law->windows[1].high, law->windows[1].low);
  if (fs_real_compare(&other, loss) > 0)
    *loss = other;
}

void fs_loss_bound(fs_real *bound, const fs_real *loss)
{
  fs_real margin;
  fs_real_set(&margin, 1);
  fs_real_scale(&margin, &margin, -200);
  fs_real_add(bound, loss, &margin);
}

uint64_t fs_log_upper(const fs_real *loss)
{
  fs_real steps;
  if (loss->sign <= 0)
    return 0;
  fs_loss_bound(&steps, loss);
  fs_real_scale(&steps, &steps, 36);
  return fs_real_floor(&steps) + 1;
}
