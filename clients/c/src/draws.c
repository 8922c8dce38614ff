/* Loops over scores take the same steps whatever the scores are: none ends early. */

#include "draws.h"

#include <string.h>

#include "public.h"

uint64_t fs_below(fs_stream *stream, uint64_t n)
{
  /* 2^64 mod n */
  const uint64_t least = (UINT64_MAX - n + 1) % n;
  uint64_t word, high, low;
  do {
    if (stream->failed || !stream->source.next(stream->source.context, &word)) {
      stream->failed = true;
      return 0;
    }
    fs_multiply64(word, n, &high, &low);
  } while (low < least);
  return high;
}

/* ---- Scores, a block at a time ---- */

#define NO_BLOCK UINT64_MAX

static void compute_block(const fs_scores *scores, float *at, uint64_t block)
{
  if (scores->transform == FS_ROTATED) {
    const uint64_t rotations = scores->size / scores->width;
    fs_rotated(at, scores->width, scores->vector, scores->dim, scores->seed, scores->round,
               scores->basis * rotations + block);
  } else {
    fs_fresh_scores(at, scores->width, scores->vector, scores->dim, scores->factors, scores->state,
                    block);
  }
}

static const float *block_of(fs_scores *scores, uint64_t block)
{
  if (scores->transform == FS_PLAIN)
    return scores->vector;
  if (scores->capacity >= scores->size) {
    for (uint64_t i = 0; scores->loaded == NO_BLOCK && i * scores->width < scores->size; i++)
      compute_block(scores, scores->scores + i * scores->width, i);
    scores->loaded = 0;
    return scores->scores + block * scores->width;
  }
  if (scores->loaded != block)
    compute_block(scores, scores->scores, block);
  scores->loaded = block;
  return scores->scores;
}

typedef enum { ABSOLUTE, PLUS, MINUS } kind;

static kind kind_of(const fs_scores *scores, uint32_t sign)
{
  if (!scores->two_signs)
    return ABSOLUTE;
  return (sign == 1) == scores->negated ? PLUS : MINUS;
}

/* |x|, max(x, 0) or max(−x, 0) as the bits of a single: singles ≥ 0 are ordered as these are. */
static uint32_t magnitude(float x, kind which)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t negative = bits >> 31;
  const uint32_t plus = negative - 1, minus = 0 - negative;
  return bits & 0x7fffffff & (which == ABSOLUTE ? UINT32_MAX : which == PLUS ? plus : minus);
}

static uint32_t magnitude_at(fs_scores *scores, uint64_t atom)
{
  const uint64_t slot = atom % scores->size;
  const float *block = block_of(scores, slot / scores->width);
  return magnitude(block[slot % scores->width], kind_of(scores, atom < scores->size ? 0 : 1));
}

typedef void pass(void *context, const float *block, uint64_t width, kind which);

/* Go over all atoms: in their order, or block by block, which computes each block but once. */
static void go_over(fs_scores *scores, pass *visit, void *context, bool in_order)
{
  const uint64_t blocks = scores->size / scores->width;
  const uint32_t signs = scores->two_signs ? 2 : 1;
  for (uint64_t i = 0; i < signs * blocks; i++) {
    const uint64_t block = in_order ? i % blocks : i / signs;
    const uint32_t sign = (uint32_t)(in_order ? i / blocks : i % signs);
    visit(context, block_of(scores, block), scores->width, kind_of(scores, sign));
  }
}

typedef struct {
  uint32_t pivot;
  uint64_t larger, equal;
} counts;

static void count_pass(void *context, const float *block, uint64_t width, kind which)
{
  counts *all = context;
  for (uint64_t i = 0; i < width; i++) {
    const uint32_t x = magnitude(block[i], which);
    all->larger += x > all->pivot;
    all->equal += x == all->pivot;
  }
}

#define DIGITS 16

typedef struct {
  uint32_t prefix, mask, place;
  uint64_t of_digit[DIGITS];
} histogram;

static void histogram_pass(void *context, const float *block, uint64_t width, kind which)
{
  histogram *all = context;
  for (uint64_t i = 0; i < width; i++) {
    const uint32_t x = magnitude(block[i], which);
    all->of_digit[x >> all->place & (DIGITS - 1)] += (x & all->mask) == all->prefix;
  }
}

typedef struct {
  uint32_t wanted;
  uint64_t pick, seen, chosen;
} finder;

static void find_pass(void *context, const float *block, uint64_t width, kind which)
{
  finder *all = context;
  for (uint64_t i = 0; i < width; i++) {
    all->seen += magnitude(block[i], which) == all->wanted;
    all->chosen += all->seen <= all->pick;
  }
}

/* One of the atoms whose magnitude is that of a rank, 0 the largest: found digit by digit. */
static uint64_t draw_sharing(uint64_t rank, fs_scores *scores, fs_stream *stream)
{
  histogram all;
  uint64_t sharing = 0;
  memset(&all, 0, sizeof all);
  for (uint32_t place = 32; place > 0;) {
    place -= 4;
    all.place = place;
    memset(all.of_digit, 0, sizeof all.of_digit);
    go_over(scores, histogram_pass, &all, false);
    uint32_t digit = DIGITS - 1;
    while (digit > 0 && rank >= all.of_digit[digit])
      rank -= all.of_digit[digit--];
    sharing = all.of_digit[digit];
    all.prefix |= digit << place;
    all.mask |= (uint32_t)(DIGITS - 1) << place;
  }
  finder found = {all.prefix, fs_below(stream, sharing > 0 ? sharing : 1), 0, 0};
  go_over(scores, find_pass, &found, true);
  return found.chosen;
}

uint64_t fs_draw_atom(const fs_ranks *law, fs_scores *scores, fs_stream *stream)
{
  if (law->bottom != 0 && fs_below(stream, law->total + law->bottom) >= law->total)
    return FS_NOTHING;
  if (!fs_by_rejection(law))
    return draw_sharing(fs_rank_at(law, fs_below(stream, law->total)), scores, stream);
  while (!stream->failed) {
    const uint64_t x = fs_below(stream, law->n * law->high), atom = x / law->high;
    if (law->high == law->low)
      return atom;
    counts all = {magnitude_at(scores, atom), 0, 0};
    go_over(scores, count_pass, &all, false);
    const uint64_t rank = all.larger + fs_below(stream, all.equal);
    if (x % law->high < fs_weight(law, rank))
      return atom;
  }
  return 0;
}

uint64_t fs_draw_distinct(uint32_t *drawn, uint32_t count, uint64_t size, fs_stream *stream)
{
  uint64_t slot = fs_below(stream, size - count);
  uint32_t place = 0;
  for (uint32_t i = 0; i < count; i++)
    if (slot >= drawn[i]) {
      slot += 1;
      place = i + 1;
    }
  memmove(drawn + place + 1, drawn + place, (count - place) * sizeof *drawn);
  drawn[place] = (uint32_t)slot;
  return slot;
}

uint64_t fs_draw_symbol(const fs_symbols *law, double t, fs_stream *stream)
{
  const fs_window *window = &law->windows[0];
  uint64_t before = 0;
  if (law->count > 1 && fs_below(stream, UINT64_C(1) << 32) >= (UINT64_C(1) << 32) - law->tails) {
    before = window->cells + window->width;
    window = &law->windows[1];
  }
  const uint64_t steps = UINT64_C(1) << 31;
  const uint64_t z = (uint64_t)((t + 1.0) * 1073741824.0 + 0.5) * window->cells;
  const uint64_t up = fs_below(stream, steps) < z % steps ? 1 : 0;
  const uint64_t cell = z / steps + up;
  const uint64_t x = fs_below(stream, fs_window_total(window));
  const uint64_t base = (window->cells + window->width) * window->low;
  return before + (x < base ? x / window->low : cell + (x - base) / (window->high - window->low));
}
