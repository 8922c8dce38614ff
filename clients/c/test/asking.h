/* How questions are read and answers written. */
#ifndef FEDSEL_ASKING_H
#define FEDSEL_ASKING_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/blocks.h"
#include "../src/public.h"

#define MOST_LINE (1 << 26)
#define MOST_PARTS 48

typedef struct {
  char *parts[MOST_PARTS];
  int count;
} line;

static inline uint64_t number(const line *l, int i) { return strtoull(l->parts[i], NULL, 16); }

static inline double real(const line *l, int i)
{
  const uint64_t bits = number(l, i);
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline fs_ratio ratio(const line *l, int i)
{
  fs_ratio r;
  fs_ratio_set(&r, number(l, i), number(l, i + 1));
  return r;
}

/* The bytes of a part in memory of their own: sanitizers then see a step beyond them. */
static inline uint8_t *bytes(const line *l, int i, size_t *count)
{
  const char *text = l->parts[i];
  *count = text[0] == '-' ? 0 : strlen(text) / 2;
  uint8_t *found = malloc(*count > 0 ? *count : 1);
  for (size_t j = 0; j < *count; j++) {
    const char pair[3] = {text[2 * j], text[2 * j + 1], 0};
    found[j] = (uint8_t)strtoul(pair, NULL, 16);
  }
  return found;
}

/* The update of a part: doubles, or "answer:" and an integer; false where it is not `dim` of them. */
static inline bool take_update(const line *l, int i, const fedsel_request *request, double *update)
{
  size_t count;
  if (strncmp(l->parts[i], "answer:", 7) == 0) {
    fedsel_set_answer(update, request, (int64_t)strtoull(l->parts[i] + 7, NULL, 16));
    return true;
  }
  uint8_t *raw = bytes(l, i, &count);
  const bool right = count == 8 * request->dim;
  for (uint64_t j = 0; right && j < request->dim; j++)
    update[j] = fs_read_double(raw + 8 * j);
  free(raw);
  return right;
}

static inline void print_bytes(const uint8_t *b, size_t count)
{
  for (size_t i = 0; i < count; i++)
    printf("%02x", b[i]);
}

static inline void print_singles(const float *x, uint64_t count)
{
  uint8_t b[4];
  for (uint64_t i = 0; i < count; i++) {
    fs_write_single(b, x[i]);
    print_bytes(b, 4);
  }
}

/* ---- Words: given ones, or SplitMix64 with a word on the edge now and then ---- */

typedef struct {
  const char *rest; /* NULL: from the state */
  uint64_t state, used;
} words;

static inline bool next_word(void *context, uint64_t *word)
{
  static const uint64_t EDGES[8] = {0,
                                    1,
                                    UINT64_MAX,
                                    UINT64_C(1) << 63,
                                    UINT64_MAX - 1,
                                    (UINT64_C(1) << 63) - 1,
                                    UINT64_C(1) << 32,
                                    UINT64_C(0xFFFFFFFF)};
  words *w = context;
  w->used += 1;
  if (w->rest != NULL) {
    char *end;
    if (*w->rest == '\0' || *w->rest == '-')
      return false;
    *word = strtoull(w->rest, &end, 16);
    w->rest = *end == ',' ? end + 1 : end;
    return true;
  }
  uint64_t x = w->state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  x ^= x >> 31;
  *word = x % 29 == 0 ? EDGES[(x >> 32) % 8] : x;
  return true;
}

static inline words words_of(const line *l, int i)
{
  words w = {l->parts[i], 0, 0};
  if (strncmp(l->parts[i], "seed:", 5) == 0) {
    w.state = strtoull(l->parts[i] + 5, NULL, 16);
    w.rest = NULL;
  }
  return w;
}

static const char *const REASONS[] = {
    "DONE",    "MALFORMED", "VERSION",  "UNSUPPORTED",  "MEMORY",    "INTERNAL",
    "NOT_ALLOWED", "PURPOSE", "WEIGHTS", "TOO_MUCH",  "CONFLICT", "OUT_OF_ORDER", "TOO_OFTEN", "CLOCK",    "EXHAUSTED",   "LEDGER"};

/* Questions about a device, its policy and its ledger; false where it is none of them. */
bool answer_of_device(const line *l);

#endif
