/* Requests: one has one encoding, and nothing of its size is built. */

#include <float.h>
#include <string.h>

#include "../fedsel.h"
#include "exact.h"
#include "public.h"

#define HEAD_BYTES 29
#define NAME_BYTES 24
#define RECIPE_BYTES 121
#define MOST_PURPOSE 200
#define MOST_RECIPIENT 100
#define MOST_BASES 65536

static const char VALUES[4][6] = {"PM", "HM", "Duchi", "OW"};
static const char SELECTIONS[4][13] = {"EXP", "PE", "PS", "PE-published"};
static const char SUFFIXES[4][5] = {"", "-C", "-O", "-C-O"};
static const char ONE_SYMBOL[6][3] = {"J", "UJ", "RJ", "RC", "FJ", "BR"};
static const char OTHERS[7][9] = {"NP",       "NP-RS",    "NP-K",  "RS",
                                  "PrivUnit", "Duchi-L2", "SignDS"};

/* Whether a name is made of these parts. */
static bool is_named(const char *name, const char *first, const char *second, const char *third)
{
  const char *parts[3] = {first, second, third};
  for (uint32_t i = 0; i < 3; i++) {
    const size_t length = strlen(parts[i]);
    if (strncmp(name, parts[i], length) != 0)
      return false;
    name += length;
  }
  return *name == '\0';
}

static bool find_value(fedsel_solution *solution, const char *name, const char *before,
                       const char *after)
{
  for (uint8_t i = 0; i < 4; i++)
    if (is_named(name, before, VALUES[i], after)) {
      solution->value = i;
      return true;
    }
  return false;
}

static bool find_stages(fedsel_solution *solution, const char *name)
{
  for (uint8_t s = 0; s < 4; s++)
    for (uint8_t suffix = 0; suffix < 4; suffix++) {
      const size_t length = strlen(SELECTIONS[s]);
      if (strncmp(name, SELECTIONS[s], length) == 0 &&
          find_value(solution, name + length, "-", SUFFIXES[suffix])) {
        solution->selection = s;
        solution->whole_value = (suffix & 1) != 0;
        solution->rate_inside = (suffix & 2) != 0;
        return true;
      }
    }
  return false;
}

static bool is_other(const char *name)
{
  for (uint32_t i = 0; i < 7; i++)
    if (strcmp(name, OTHERS[i]) == 0)
      return true;
  for (uint32_t i = 0; i < 4; i++)
    if (is_named(name, SELECTIONS[i], "", "") || is_named(name, SELECTIONS[i], "-O", ""))
      return true;
  return false;
}

static bool find_solution(fedsel_solution *solution, const char *name)
{
  static const fedsel_family FAMILIES[6] = {FEDSEL_J,  FEDSEL_UJ, FEDSEL_RJ,
                                            FEDSEL_RC, FEDSEL_FJ, FEDSEL_BR};
  memset(solution, 0, sizeof *solution);
  for (uint32_t i = 0; i < 6; i++)
    if (strcmp(name, ONE_SYMBOL[i]) == 0) {
      solution->family = FAMILIES[i];
      return true;
    }
  if (find_value(solution, name, "", "") || find_value(solution, name, "RS-", ""))
    solution->family = FEDSEL_FLAT;
  else if (find_value(solution, name, "", "-RP"))
    solution->family = FEDSEL_PROJECTED;
  else if (find_stages(solution, name))
    solution->family = FEDSEL_TWO_STAGES;
  else
    return is_other(name);
  return true;
}

/* Letters, then zeros up to the end. */
static bool read_name(fedsel_request *request, const uint8_t *bytes)
{
  size_t length = 0;
  memcpy(request->name, bytes, NAME_BYTES);
  request->name[NAME_BYTES] = '\0';
  length = strlen(request->name);
  for (size_t i = length; i < NAME_BYTES; i++)
    if (bytes[i] != 0)
      return false;
  return find_solution(&request->solution, request->name);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static bool is_epsilon(uint64_t numerator, uint64_t denominator)
{
  uint64_t high, low;
  fs_multiply64(denominator, 500, &high, &low);
  return numerator > 0 && denominator > 0 && common_divisor(numerator, denominator) == 1 &&
         (high > 0 || numerator <= low);
}

static bool is_positive(double x) { return x > 0.0 && x <= DBL_MAX; }

static bool read_top(fedsel_request *request, const uint8_t *bytes)
{
  if (bytes[0] == 0) {
    request->k_count = fs_read64(bytes + 1);
    return request->k_count >= 1 && request->k_count <= request->dim;
  }
  request->k_share = fs_read_double(bytes + 1);
  return bytes[0] == 1 && request->k_share > 0.0 && request->k_share <= 1.0;
}

static bool read_recipe(fedsel_request *request, const uint8_t *bytes, size_t count)
{
  if (count != RECIPE_BYTES && count != RECIPE_BYTES + 4)
    return false;
  request->recipe = bytes;
  request->recipe_bytes = count;
  request->epsilon_numerator = fs_read64(bytes + 24);
  request->epsilon_denominator = fs_read64(bytes + 32);
  request->dim = fs_read64(bytes + 40);
  request->epochs = fs_read32(bytes + 48);
  request->mu = fs_read_double(bytes + 52);
  request->clip = fs_read_double(bytes + 69);
  request->momentum = fs_read_double(bytes + 77);
  request->ratio = fs_read_double(bytes + 85);
  request->seed = fs_read64(bytes + 93);
  request->learning_rate = fs_read_double(bytes + 101);
  request->rho = fs_read_double(bytes + 109);
  request->words = fs_read32(bytes + 117);
  request->bases = count > RECIPE_BYTES ? fs_read32(bytes + RECIPE_BYTES) : 0;
  const bool bases = count == RECIPE_BYTES || (request->bases >= 1 && request->bases <= MOST_BASES);
  const bool radius = fs_read64(bytes + 109) == 0 || is_positive(request->rho);
  return read_name(request, bytes) && bases && radius &&
         is_epsilon(request->epsilon_numerator, request->epsilon_denominator) &&
         request->dim >= 1 && request->dim <= UINT64_C(1) << 32 && request->epochs >= 1 &&
         request->mu >= 0.0 && request->mu < 1.0 && read_top(request, bytes + 60) &&
         is_positive(request->clip) && request->momentum >= -DBL_MAX &&
         request->momentum <= DBL_MAX && request->ratio > 0.0 && request->ratio <= 1.0 &&
         is_positive(request->learning_rate);
}

/* A text after its length; what follows it, or NULL where there is none. */
static const uint8_t *read_text(const uint8_t *at, const uint8_t *end, uint8_t most,
                                const uint8_t **text, uint8_t *bytes)
{
  if (at == NULL || at == end || *at > most || *at >= end - at)
    return NULL;
  *bytes = *at;
  *text = at + 1;
  return fedsel_is_text(*text, *bytes) ? *text + *bytes : NULL;
}

fedsel_reason fedsel_read(fedsel_request *request, const uint8_t *bytes, size_t count)
{
  memset(request, 0, sizeof *request);
  if (count > FEDSEL_MOST_REQUEST_BYTES || count < 5 || memcmp(bytes, "FSRQ", 4) != 0)
    return FEDSEL_MALFORMED;
  request->version = bytes[4];
  if (request->version < 1 || request->version > 3)
    return FEDSEL_VERSION;
  if (count < HEAD_BYTES + RECIPE_BYTES)
    return FEDSEL_MALFORMED;
  request->run = bytes + 5;
  request->epoch = fs_read32(bytes + 21);
  request->round = fs_read32(bytes + 25);
  const uint8_t *at = bytes + HEAD_BYTES, *end = bytes + count;
  if (request->version == 3) {
    at = read_text(at, end, MOST_PURPOSE, &request->purpose, &request->purpose_bytes);
    at = read_text(at, end, MOST_RECIPIENT, &request->recipient, &request->recipient_bytes);
    if (at == NULL || request->purpose_bytes + request->recipient_bytes == 0)
      return FEDSEL_MALFORMED;
  }
  if (!read_recipe(request, at, (size_t)(end - at)) || request->epoch >= request->epochs)
    return FEDSEL_MALFORMED;
  const bool lowest = request->version == 3 || (request->version == 2) == (request->bases > 0);
  return lowest ? FEDSEL_DONE : FEDSEL_MALFORMED;
}
