/* How a device draws from a law: whole numbers only, in an order that every client shares. */
#ifndef FEDSEL_DRAWS_H
#define FEDSEL_DRAWS_H

#include "../fedsel.h"
#include "laws.h"

/* Random words; once the source has none, every draw is 0 and the report is none. */
typedef struct {
  fedsel_entropy source;
  bool failed;
} fs_stream;

typedef enum { FS_PLAIN, FS_ROTATED, FS_FRESH } fs_transform;

/* The scores that ranks are counted among. Where they do not fit into memory, a block at a time is
 * computed, again for each pass. */
typedef struct {
  fs_transform transform;
  bool two_signs; /* atoms are the slots with +, then the slots with −; else absolute values count */
  bool negated;
  const float *vector;
  uint64_t dim;
  float *scores; /* room for `capacity` singles, at least `width` */
  uint64_t capacity, loaded;
  uint64_t size, width; /* scores of a basis, and of a block */
  uint64_t seed, basis;
  uint32_t round, state, factors;
} fs_scores;

#define FS_NOTHING UINT64_MAX /* ⊥ */

uint64_t fs_below(fs_stream *stream, uint64_t n);
uint64_t fs_draw_atom(const fs_ranks *law, fs_scores *scores, fs_stream *stream);
/* The next of several different slots: `drawn` are the `count` before it, in ascending order. */
uint64_t fs_draw_distinct(uint32_t *drawn, uint32_t count, uint64_t size, fs_stream *stream);
uint64_t fs_draw_symbol(const fs_symbols *law, double t, fs_stream *stream);

#endif
