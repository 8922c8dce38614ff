/* Damaged requests and ledgers: nothing may crash, and no report may be without a charge.
 *
 * The arguments are how many, and the seed. Ledgers are damaged beneath their links, which are then made anew, so
 * that what is behind the check of the links is tried, too. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/ledger.h"
#include "../src/public.h"

#define MOST_BYTES 4096
#define DIM 6

typedef struct {
  uint8_t bytes[3][MOST_BYTES];
  size_t sizes[3];
} disk;

static bool no_lock(void *context)
{
  (void)context;
  return true;
}

static void no_unlock(void *context) { (void)context; }

static bool read_disk(void *context, fedsel_file file, uint64_t offset, void *to, size_t count)
{
  const disk *d = context;
  if (offset > d->sizes[file] || count > d->sizes[file] - offset)
    return false;
  memcpy(to, d->bytes[file] + offset, count);
  return true;
}

static bool write_disk(void *context, fedsel_file file, uint64_t offset, const void *from,
                       size_t count)
{
  disk *d = context;
  if (offset > MOST_BYTES || count > MOST_BYTES - offset)
    return false;
  memcpy(d->bytes[file] + offset, from, count);
  if (offset + count > d->sizes[file])
    d->sizes[file] = (size_t)offset + count;
  return true;
}

static bool no_flush(void *context, fedsel_file file)
{
  (void)context, (void)file;
  return true;
}

static uint64_t state;

static uint64_t next(void)
{
  uint64_t x = state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

static bool next_word(void *context, uint64_t *word)
{
  (void)context;
  *word = next();
  return true;
}

static bool now(void *context, int64_t *seconds)
{
  (void)context;
  *seconds = 1700000000;
  return true;
}

static bool update(void *context, const fedsel_request *request, const uint8_t *weights,
                   size_t weight_bytes, double *entries)
{
  (void)context, (void)weights, (void)weight_bytes;
  for (uint64_t i = 0; i < request->dim; i++)
    entries[i] = (double)(int64_t)next() * 1e-19;
  if (request->solution.family == FEDSEL_BR && next() % 2 == 0)
    fedsel_set_answer(entries, request, (int64_t)(next() % 3) - 1);
  return next() % 8 != 0;
}

/* A few bytes that are on an edge, or any. */
static void damage(uint8_t *bytes, size_t count)
{
  static const uint8_t EDGES[8] = {0, 1, 2, 3, 0x7f, 0x80, 0xf0, 0xff};
  for (uint64_t n = next() % 5; n > 0 && count > 0; n--)
    bytes[next() % count] = next() % 2 == 0 ? EDGES[next() % 8] : (uint8_t)next();
}

static size_t request_of(uint8_t *bytes, const char *name, uint8_t run, uint32_t round)
{
  static const double FIELDS[6] = {0.1, 1.0, 0.5, 0.5, 1.0, 1.0};
  static const uint8_t PLACES[6] = {81, 98, 106, 114, 130, 138};
  memset(bytes, 0, 150);
  memcpy(bytes, "FSRQ\1", 5);
  bytes[5] = run;
  fs_write32(bytes + 25, round);
  memcpy(bytes + 29, name, strlen(name));
  fs_write64(bytes + 53, 1);
  fs_write64(bytes + 61, 2);
  fs_write64(bytes + 69, DIM);
  fs_write32(bytes + 77, 2);
  fs_write64(bytes + 90, 2);
  for (uint32_t i = 0; i < 6; i++) {
    uint64_t bits;
    memcpy(&bits, &FIELDS[i], sizeof bits);
    fs_write64(bytes + PLACES[i], bits);
  }
  return 150;
}

static void try_request(void)
{
  static const char *const NAMES[9] = {"PS-PM", "EXP-Duchi", "PE-HM", "FJ", "RJ",
                                       "J",     "UJ",        "PM",    "BR"};
  static const uint8_t BASES[3] = {2, 3, 6};
  uint8_t made[460];
  const char *name = NAMES[next() % 9];
  size_t count = request_of(made, name, 1, 0), whole = count;
  if (*name == 'B' && next() % 2 == 0) { /* blocks of a prime */
    made[4] = 2;
    fs_write64(made + 90, 1);
    fs_write32(made + 146, 7);
    fs_write32(made + 150, BASES[next() % 3]);
    count = whole = 154;
  }
  damage(made, count);
  if (next() % 4 == 0) /* the fields of ε and sizes, where most laws are decided */
    made[53 + next() % 45] = (uint8_t)next();
  if (next() % 16 == 0)
    count = next() % sizeof made;
  uint8_t *bytes = malloc(count + 1), *report = malloc(FEDSEL_MOST_REPORT_BYTES);
  memcpy(bytes, made, count < whole ? count : whole);
  memset(bytes + (count < whole ? count : whole), 0, count < whole ? 0 : count - whole);
  fedsel_request request;
  fedsel_plan plan;
  if (fedsel_read(&request, bytes, count) == FEDSEL_DONE && request.dim <= 300) {
    const size_t words = fedsel_memory(&request);
    uint64_t *memory = malloc(8 * words);
    double *entries = malloc(8 * (size_t)request.dim);
    float *residual = calloc((size_t)request.dim, sizeof *residual);
    update(NULL, &request, NULL, 0, entries);
    if (fedsel_prepare(&plan, &request, memory, words) == FEDSEL_DONE) {
      const fedsel_entropy entropy = {next_word, NULL};
      fedsel_report(&plan, &request, entries, residual, entropy, report);
    }
    free(memory);
    free(entries);
    free(residual);
  }
  free(bytes);
  free(report);
}

/* Change contents of records, and link them anew. */
static void damage_log(disk *d)
{
  uint8_t link[32] = {0}, *log = d->bytes[FEDSEL_LOG];
  uint64_t records = 0;
  for (size_t at = 0; at + 37 <= d->sizes[FEDSEL_LOG];) {
    uint32_t length = fs_read32(log + at + 1);
    if (length > d->sizes[FEDSEL_LOG] - at - 37)
      break;
    if (next() % 2 == 0)
      damage(log + at + 5, length);
    if (next() % 32 == 0)
      log[at] = (uint8_t) "BLCNEX"[next() % 6];
    fs_sha256 hash;
    fs_sha256_begin(&hash);
    fs_sha256_add(&hash, link, 32);
    fs_sha256_add(&hash, log + at, 5 + length);
    fs_sha256_end(&hash, link);
    at += 5 + length;
    memcpy(log + at, link, 32);
    at += 32;
    records += 1;
  }
  uint8_t *witness = d->bytes[FEDSEL_WITNESS] + records % 2 * 72;
  fs_sha256 hash;
  fs_write64(witness, records);
  memcpy(witness + 8, link, 32);
  fs_sha256_begin(&hash);
  fs_sha256_add(&hash, witness, 40);
  fs_sha256_end(&hash, witness + 40);
}

static uint32_t entries_of(const fedsel_store *store)
{
  fs_walk walk;
  fs_record record;
  uint32_t entries = 0;
  memset(&walk, 0, sizeof walk);
  walk.store = store;
  while (fs_next_record(&walk, &record, true))
    entries += record.kind == 'N' || record.kind == 'E';
  return entries;
}

/* What each run is of: the second one asks a question. */
static const char *solution_of(uint8_t run) { return run == 2 ? "BR" : "PS-PM"; }

static void try_ledger(const disk *whole, fedsel_device *device)
{
  uint8_t request[150], weights[8 * DIM] = {0}, report[FEDSEL_MOST_REPORT_BYTES];
  disk *d = device->store.context;
  size_t count;
  *d = *whole;
  if (next() % 8 == 0)
    damage(d->bytes[next() % 3], MOST_BYTES / 8);
  else
    damage_log(d);
  fedsel_open(device, next() % 2 == 0 ? "The owner" : NULL);
  const uint32_t before = entries_of(&device->store);
  const uint8_t run = (uint8_t)(1 + next() % 3);
  const uint32_t round = (uint32_t)(next() % 6);
  request_of(request, solution_of(run), run, round);
  const fedsel_reason reason =
      fedsel_answer(device, request, sizeof request, weights, sizeof weights, report, &count);
  const uint32_t after = entries_of(&device->store);
  /* A report is of a new entry, or of one that was there. */
  if (reason == FEDSEL_DONE && after != before + 1 && !(after == before && before > 0))
    abort();
}

int main(int count, char **arguments)
{
  static const char *const SOLUTIONS[] = {"PS-PM", "BR"};
  static const uint64_t DIMENSIONS[] = {DIM};
  static const fedsel_limit LIMITS[] = {{{3, {1, 0, 0}}, 0, NULL, NULL},
                                        {{2, {1, 0, 0}}, 86400, NULL, NULL}};
  static disk whole, damaged;
  uint64_t memory[64];
  uint8_t request[150], weights[8 * DIM] = {0}, report[FEDSEL_MOST_REPORT_BYTES];
  fedsel_policy policy;
  fedsel_device device;
  size_t size;
  memset(&policy, 0, sizeof policy);
  memset(&device, 0, sizeof device);
  policy.solutions = SOLUTIONS;
  policy.dimensions = DIMENSIONS;
  policy.limits = LIMITS;
  policy.dimension_count = 1;
  policy.solution_count = policy.limit_count = policy.runs = 2;
  policy.per_report = (fedsel_epsilon){1, {1, 0, 0}};
  policy.clip = policy.weight_bound = 1e6;
  policy.reports_per_epoch = 9;
  device.policy = &policy;
  device.entropy.next = next_word;
  device.now = now;
  device.update = update;
  device.memory = memory;
  device.words = 64;
  device.store = (fedsel_store){&whole, no_lock, no_unlock, read_disk, write_disk, no_flush};
  state = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
  fedsel_create(&device, DIM);
  for (uint32_t i = 0; i < 4; i++) {
    const uint8_t run = (uint8_t)(1 + i % 2);
    request_of(request, solution_of(run), run, i);
    if (fedsel_answer(&device, request, sizeof request, weights, sizeof weights, report, &size) !=
        FEDSEL_DONE)
      return 1;
  }
  device.store.context = &damaged;
  const uint64_t most = count > 1 ? strtoull(arguments[1], NULL, 10) : 100000;
  for (uint64_t i = 0; i < most; i++) {
    if (i % 2 == 0)
      try_request();
    else
      try_ledger(&whole, &device);
  }
  printf("%" PRIu64 " tries, no crash, no report without a charge\n", most);
  return 0;
}
