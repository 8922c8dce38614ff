/* From a request to a report: the law, the charge, the draw, the bytes. */

#include <float.h>
#include <math.h>
#include <string.h>

#include "blocks.h"
#include "policy.h"
#include "public.h"

#define MOST_SLOTS (UINT64_C(1) << 32)
#define MOST_ENTRIES (UINT64_C(1) << 24)
#define MOST_DIM (UINT64_C(1) << 31) /* of a report: products of UJ have 64 bits */
#define FRESH_BLOCK 64 /* codewords of fewer than 64 entries come in blocks, too */

/* What fedsel_plan.words_ holds. */
typedef struct {
  fs_ranks ranks;
  fs_symbols symbols;
  fs_blocks blocks;
  uint64_t size, bases, width; /* slots of a basis, bases, scores of a block */
  uint64_t capacity;           /* singles at `scores` */
  float *values, *scores;
  uint32_t picks, factors;
} law_of;

typedef char law_of_fits[sizeof(law_of) <= sizeof(((fedsel_plan *)0)->words_) ? 1 : -1];

/* ---- The law ---- */

static uint64_t top_of(const fedsel_request *request)
{
  return request->k_count > 0 ? request->k_count : fs_share_count(request->k_share, request->dim);
}

/* ε′ = ε/E */
static void budget_of(fs_ratio *budget, const fedsel_request *request)
{
  fs_ratio whole;
  fs_ratio_set(&whole, request->epsilon_numerator, request->epsilon_denominator);
  fs_ratio_scale(budget, &whole, 1, request->epochs);
}

static bool two_stages(law_of *law, fs_real *loss, const fedsel_request *request,
                       const fs_ratio *budget, uint64_t *table)
{
  const fedsel_solution solution = request->solution;
  const uint64_t dim = request->dim;
  fs_ratio first, second;
  fs_real told;
  bool right = false;
  fs_split(&first, &second, budget, request->mu);
  switch ((fs_selection)solution.selection) {
  case FS_EXP:
    right = fs_exponential(&law->ranks, &first, dim, table);
    break;
  case FS_PS:
    right = fs_threshold(&law->ranks, &first, top_of(request), dim);
    break;
  case FS_PE:
  case FS_PE_PUBLISHED:
    right = fs_encoding(&law->ranks, &first, top_of(request), dim,
                        solution.selection == FS_PE_PUBLISHED);
    break;
  }
  const fs_ratio *value = solution.whole_value ? budget : &second;
  if (!right || !fs_values(&law->symbols, (fs_value)solution.value, value))
    return false;
  fs_ranks_loss(loss, &law->ranks);
  fs_symbols_loss(&told, &law->symbols);
  fs_real_add(loss, loss, &told);
  return true;
}

/* Some of the slots, each with a value of its own. */
static bool flat(law_of *law, fs_real *loss, const fedsel_request *request, const fs_ratio *budget)
{
  fs_ratio each;
  fs_big picks;
  uint64_t count = 0;
  if (request->solution.family == FEDSEL_FLAT) {
    fs_ratio_scale(&each, budget, 2, 5);
    fs_divide(&picks, NULL, &each.p, &each.q);
    fs_to_u64(&picks, &count);
  } else {
    law->size = fs_share_count(request->ratio, request->dim);
  }
  count = count > request->dim ? request->dim : count;
  law->picks = count > 0 ? (uint32_t)count : 1;
  fs_ratio_scale(&each, budget, 1, law->picks);
  if (law->size > MOST_ENTRIES / request->dim && request->solution.family == FEDSEL_PROJECTED)
    return false;
  if (!fs_values(&law->symbols, (fs_value)request->solution.value, &each))
    return false;
  fs_symbols_loss(loss, &law->symbols);
  fs_real_times_small(loss, loss, law->picks);
  return true;
}

/* The codewords of RJ, RC and FJ; `top` is 0 where it is the best one. */
static bool directions(law_of *law, uint64_t *top, const fedsel_request *request,
                       const fs_ratio *budget)
{
  const uint64_t dim = request->dim, width = fs_width(dim);
  fs_fresh_sizes sizes;
  *top = 0;
  switch (request->solution.family) {
  case FEDSEL_RJ:
    law->width = width;
    law->size = request->bases > 0 ? fs_rotations(budget, dim) * width : width;
    law->bases = request->bases > 0 ? request->bases : 1;
    return law->size <= MOST_SLOTS / law->bases;
  case FEDSEL_RC:
    law->size = request->words > 0 ? request->words : fs_width(8 * dim);
    if (request->words == 0 && law->size > 8192)
      law->size = 8192;
    return law->size <= MOST_ENTRIES / dim;
  case FEDSEL_FJ:
    if (!fs_fresh(&sizes, budget, dim))
      return false;
    law->size = sizes.codewords;
    law->bases = MOST_SLOTS / sizes.codewords;
    law->width = dim < 64 ? FRESH_BLOCK : width;
    law->factors = sizes.factors;
    *top = sizes.top;
    return true;
  default:
    return true;
  }
}

static bool one_symbol(law_of *law, fs_real *loss, const fedsel_request *request,
                       const fs_ratio *budget)
{
  fs_best best;
  uint64_t top;
  if (request->solution.family == FEDSEL_UJ) {
    if (!fs_unbiased(&law->ranks, budget, top_of(request), request->dim))
      return false;
  } else {
    if (!directions(law, &top, request, budget) || law->size > UINT64_C(1) << 31)
      return false;
    if (top == 0) {
      fs_best_of(&best, budget);
      top = fs_best_top(&best, law->size);
    }
    if (!fs_threshold(&law->ranks, budget, top, 2 * law->size))
      return false;
  }
  fs_ranks_loss(loss, &law->ranks);
  return true;
}

static bool answers(law_of *law, fs_real *loss, const fedsel_request *request,
                    const fs_ratio *budget)
{
  if (!fs_blocks_of(&law->blocks, request))
    return false;
  law->size = law->blocks.size;
  law->bases = law->blocks.classes > 0 ? law->blocks.classes : 1;
  if (law->size > MOST_SLOTS / law->bases)
    return false;
  if (!fs_threshold(&law->ranks, budget, law->blocks.holding, law->size))
    return false;
  fs_ranks_loss(loss, &law->ranks);
  return true;
}

/* ---- The charge ---- */

static void reduce(uint64_t *a, uint64_t *b)
{
  uint64_t x = *a, y = *b;
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  *a /= x;
  *b /= x;
}

static void charge_of(fedsel_epsilon *charge, const fs_real *loss, const fedsel_request *request,
                      const fs_ratio *budget)
{
  fs_real bound, whole;
  fs_ratio steps;
  fs_loss_bound(&bound, loss);
  fs_real_of_ratio(&whole, budget);
  uint64_t numerator = fs_log_upper(loss), other = UINT64_C(1) << 36;
  fs_ratio_set(&steps, numerator, other);
  memset(charge, 0, sizeof *charge);
  if (fs_real_compare(&bound, &whole) <= 0 && fs_ratio_compare(budget, &steps) < 0) {
    numerator = request->epsilon_numerator;
    other = request->epochs;
    reduce(&numerator, &other);
    uint64_t high, low;
    fs_multiply64(request->epsilon_denominator, other, &high, &low);
    charge->denominator[0] = (uint32_t)low;
    charge->denominator[1] = (uint32_t)(low >> 32);
    charge->denominator[2] = (uint32_t)high;
  } else {
    reduce(&numerator, &other);
    charge->denominator[0] = (uint32_t)other;
    charge->denominator[1] = (uint32_t)(other >> 32);
  }
  charge->numerator = numerator;
}

/* ---- The plan ---- */

static uint64_t table_words(const fedsel_request *request)
{
  const bool exponential =
      request->solution.family == FEDSEL_TWO_STAGES && request->solution.selection == FS_EXP;
  return exponential ? fs_exponential_words(request->dim) : 0;
}

static uint64_t block_width(const fedsel_request *request)
{
  if (request->solution.family == FEDSEL_FJ && request->dim < FRESH_BLOCK)
    return FRESH_BLOCK;
  const bool blocks =
      request->solution.family == FEDSEL_FJ || request->solution.family == FEDSEL_RJ;
  return blocks ? fs_width(request->dim) : 0;
}

static uint64_t words_of(const fedsel_request *request)
{
  return table_words(request) + (request->dim + 1) / 2 + (block_width(request) + 1) / 2;
}

size_t fedsel_memory(const fedsel_request *request)
{
  const uint64_t words = words_of(request);
  return words > SIZE_MAX / 8 || words > UINT32_MAX ? 0 : (size_t)words;
}

bool fs_has_report(const fedsel_request *request)
{
  const fedsel_family family = request->solution.family;
  return family != FEDSEL_NOT_PRIVATE && family != FEDSEL_PROJECTED && family != FEDSEL_RC;
}

/* Lay out the memory: the table of EXP, the update, the scores. */
static bool place(law_of *law, const fedsel_request *request, uint64_t *memory, size_t words)
{
  if (!fs_has_report(request))
    return true;
  if (words_of(request) > words || request->dim > MOST_DIM)
    return false;
  const size_t table = (size_t)table_words(request), values = (size_t)((request->dim + 1) / 2);
  law->values = (float *)(void *)(memory + table);
  law->scores = (float *)(void *)(memory + table + values);
  law->capacity = 2 * (uint64_t)(words - table - values);
  return true;
}

static void describe(fedsel_plan *plan, const law_of *law, const fedsel_request *request)
{
  plan->slots = law->bases * law->size;
  plan->symbols = law->symbols.count > 0 ? fs_symbols_count(&law->symbols) : 2;
  if (request->solution.family == FEDSEL_BR)
    plan->symbols = 1;
  plan->keeps = request->solution.family == FEDSEL_TWO_STAGES;
  plan->report_bytes = FEDSEL_REPORT_BYTES(law->picks);
  memcpy(plan->words_, law, sizeof *law);
}

fedsel_reason fedsel_prepare(fedsel_plan *plan, const fedsel_request *request, uint64_t *memory,
                             size_t words)
{
  law_of law;
  fs_ratio budget;
  fs_real loss;
  bool right = false;
  memset(plan, 0, sizeof *plan);
  memset(&law, 0, sizeof law);
  law.size = law.width = request->dim;
  law.bases = law.picks = 1;
  if (request->solution.family == FEDSEL_NOT_PRIVATE)
    return FEDSEL_UNSUPPORTED;
  if (table_words(request) > words)
    return FEDSEL_MEMORY;
  budget_of(&budget, request);
  if (request->solution.family == FEDSEL_TWO_STAGES)
    right = two_stages(&law, &loss, request, &budget, memory);
  else if (request->solution.family == FEDSEL_FLAT || request->solution.family == FEDSEL_PROJECTED)
    right = flat(&law, &loss, request, &budget);
  else if (request->solution.family == FEDSEL_BR)
    right = answers(&law, &loss, request, &budget);
  else
    right = one_symbol(&law, &loss, request, &budget);
  if (!right)
    return FEDSEL_MALFORMED;
  if (!place(&law, request, memory, words))
    return FEDSEL_MEMORY;
  charge_of(&plan->charge, &loss, request, &budget);
  describe(plan, &law, request);
  return FEDSEL_DONE;
}

/* ---- The report ---- */

/* NaN becomes 0, and what is beyond the largest single becomes that; then singles. */
static float saturated(double x)
{
  if (x != x)
    return 0.0F;
  const double largest = (double)FLT_MAX;
  return (float)(x > largest ? largest : x < -largest ? -largest : x);
}

static void take_update(float *values, const fedsel_request *request, const double *update,
                        const float *residual)
{
  for (uint64_t i = 0; i < request->dim; i++) {
    float g = update == NULL ? 0.0F : saturated(update[i]);
    if (request->solution.rate_inside)
      g = saturated((double)g * request->learning_rate);
    values[i] = residual == NULL ? g : fs_finite(residual[i] + g);
  }
}

static double clipped(double value, double clip)
{
  return (value > clip ? clip : value < -clip ? -clip : value) / clip;
}

/* What is told of a slot: with momentum in doubles. */
static double told_of(const law_of *law, const fedsel_request *request, const float *residual,
                      uint64_t slot)
{
  double value = (double)law->values[slot];
  if (residual != NULL && request->momentum != 0.0) {
    const double pushed = request->momentum * (double)residual[slot];
    value = value + pushed;
    value = value != value ? 0.0 : value;
  }
  return clipped(value, request->clip);
}

static void begin_report(uint8_t *report, const fedsel_request *request)
{
  fs_sha256 hash;
  uint8_t digest[32];
  fs_sha256_begin(&hash);
  fs_sha256_add(&hash, request->run, 16);
  fs_sha256_end(&hash, digest);
  report[0] = 1;
  memcpy(report + 1, digest, 3);
  fs_write32(report + 4, request->round);
}

static void write_pick(uint8_t *report, uint32_t pick, uint64_t slot, uint64_t symbol)
{
  const bool nothing = slot == FS_NOTHING;
  fs_write32(report + 8 + 8 * pick, nothing ? 0 : (uint32_t)slot);
  fs_write32(report + 12 + 8 * pick, nothing ? UINT32_MAX : (uint32_t)symbol);
}

static void report_flat(const law_of *law, const fedsel_request *request, fs_stream *stream,
                        uint8_t *report)
{
  uint32_t drawn[FEDSEL_MOST_PICKS];
  for (uint32_t pick = 0; pick < law->picks; pick++) {
    const uint64_t slot = fs_draw_distinct(drawn, pick, law->size, stream);
    const double t = told_of(law, request, NULL, slot);
    write_pick(report, pick, slot, fs_draw_symbol(&law->symbols, t, stream));
  }
}

static void report_two_stages(const law_of *law, const fedsel_request *request, fs_scores *scores,
                              float *residual, fs_stream *stream, uint8_t *report)
{
  const uint64_t slot = fs_draw_atom(&law->ranks, scores, stream);
  uint64_t symbol = 0;
  if (slot != FS_NOTHING)
    symbol = fs_draw_symbol(&law->symbols, told_of(law, request, residual, slot), stream);
  write_pick(report, 0, slot, symbol);
  if (stream->failed)
    return;
  memcpy(residual, law->values, (size_t)request->dim * sizeof *residual);
  if (slot != FS_NOTHING)
    residual[slot] = 0.0F;
}

/* Whether the update is to be negated: with probability ½ − ‖g‖/(2ρ). */
static bool draw_negation(const law_of *law, const fedsel_request *request, fs_stream *stream)
{
  double square = 0.0;
  for (uint64_t i = 0; i < request->dim; i++) {
    const double x = (double)law->values[i], product = x * x;
    square = square + product;
  }
  const double share = sqrt(square) / request->rho;
  const uint64_t steps = (uint64_t)((1.0 + (share < 1.0 ? share : 1.0)) * 1073741824.0 + 0.5);
  return fs_below(stream, UINT64_C(1) << 31) >= steps;
}

static void report_signed(const law_of *law, const fedsel_request *request, fs_scores *scores,
                          fs_stream *stream, uint8_t *report)
{
  scores->two_signs = true;
  if (law->bases > 1)
    scores->basis = fs_below(stream, law->bases);
  if (scores->transform == FS_FRESH)
    scores->state = fs_fresh_state(request->seed, request->round, scores->basis);
  if (request->rho > 0.0)
    scores->negated = draw_negation(law, request, stream);
  const uint64_t atom = fs_draw_atom(&law->ranks, scores, stream);
  write_pick(report, 0, scores->basis * law->size + atom % law->size, atom < law->size ? 0 : 1);
}

/* The answer is the first of the largest entries; where that is not above 0 there is none. */
static void report_answer(const law_of *law, const fedsel_request *request, fs_stream *stream,
                          uint8_t *report)
{
  uint64_t answer = 0, basis = 0;
  float largest = law->values[0];
  for (uint64_t i = 1; i < request->dim; i++) {
    const bool above = law->values[i] > largest;
    answer = above ? i : answer;
    largest = above ? law->values[i] : largest;
  }
  if (law->bases > 1)
    basis = fs_below(stream, law->bases);
  const uint64_t block =
      fs_draw_block(&law->ranks, &law->blocks, basis, answer, largest > 0.0F, stream);
  write_pick(report, 0, basis * law->size + block, 0);
}

void fedsel_set_answer(double *update, const fedsel_request *request, int64_t answer)
{
  for (uint64_t i = 0; i < request->dim; i++)
    update[i] = answer >= 0 && i == (uint64_t)answer ? 1.0 : 0.0;
}

#define UNIT 65536

static uint64_t unit_entry(float value, double clip)
{
  const double size = fabs((double)value) / clip * UNIT;
  return size < UNIT ? (uint64_t)size : UNIT;
}

/* All of it also where the report does not depend on it: the time must not tell. */
static void report_unbiased(const law_of *law, const fedsel_request *request, fs_stream *stream,
                            uint8_t *report)
{
  const fs_ranks *ranks = &law->ranks;
  const uint64_t x = fs_below(stream, ranks->total), base = 2 * ranks->n * ranks->low * UNIT;
  const uint64_t most = ranks->top * UNIT, over = ranks->high - ranks->low;
  uint64_t sum = 0, seen = 0, chosen = 0;
  for (uint64_t i = 0; i < law->size; i++)
    sum += unit_entry(law->values[i], request->clip);
  const uint64_t whole = sum > most ? sum : most;
  const uint64_t place = over > 0 && x >= base ? (x - base) / over : over > 0 ? 0 : UINT64_MAX;
  for (uint64_t i = 0; i < law->size; i++) {
    seen += unit_entry(law->values[i], request->clip) * most / whole;
    chosen += seen <= place;
  }
  const uint64_t atom = x / (ranks->low * UNIT);
  if (x < base)
    write_pick(report, 0, atom % law->size, atom < law->size ? 0 : 1);
  else if (chosen == law->size)
    write_pick(report, 0, FS_NOTHING, 0);
  else
    write_pick(report, 0, chosen, law->values[chosen] > 0.0F ? 0 : 1);
}

fedsel_reason fedsel_report(const fedsel_plan *plan, const fedsel_request *request,
                            const double *update, float *residual, fedsel_entropy entropy,
                            uint8_t *report)
{
  law_of law;
  fs_scores scores;
  fs_stream stream = {entropy, false};
  if (!fs_has_report(request))
    return FEDSEL_UNSUPPORTED;
  if (plan->keeps && residual == NULL)
    return FEDSEL_MEMORY;
  memcpy(&law, plan->words_, sizeof law);
  memset(&scores, 0, sizeof scores);
  scores.transform = request->solution.family == FEDSEL_RJ   ? FS_ROTATED
                     : request->solution.family == FEDSEL_FJ ? FS_FRESH
                                                             : FS_PLAIN;
  scores.vector = law.values;
  scores.dim = request->dim;
  scores.scores = law.scores;
  scores.capacity = law.capacity;
  scores.loaded = UINT64_MAX;
  scores.size = law.size;
  scores.width = law.width;
  scores.seed = request->seed;
  scores.round = request->round;
  scores.factors = law.factors;
  const bool keeps = request->solution.family == FEDSEL_TWO_STAGES;
  take_update(law.values, request, update, keeps ? residual : NULL);
  begin_report(report, request);
  if (request->solution.family == FEDSEL_FLAT)
    report_flat(&law, request, &stream, report);
  else if (keeps)
    report_two_stages(&law, request, &scores, residual, &stream, report);
  else if (request->solution.family == FEDSEL_UJ)
    report_unbiased(&law, request, &stream, report);
  else if (request->solution.family == FEDSEL_BR)
    report_answer(&law, request, &stream, report);
  else
    report_signed(&law, request, &scores, &stream, report);
  return stream.failed ? FEDSEL_INTERNAL : FEDSEL_DONE;
}
