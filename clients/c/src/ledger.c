#include "ledger.h"

#include <string.h>

#include "public.h"

#define HEAD 5
#define LINK 32
#define ENTRY 117
#define RUN 24 /* before the three lengths */
#define WITNESS 72
#define MOST_RECORD 16384
#define MOST_WHO 100
#define ANY 255
#define PAIRS (FEDSEL_MOST_RUNS + 1) /* a new run's residual is written before an old run is closed */

/* ---- Reading ---- */

static bool read_at(const fedsel_store *store, uint64_t at, void *bytes, size_t count)
{
  return count == 0 || store->read(store->context, FEDSEL_LOG, at, bytes, count);
}

/* Whether the log says these bytes at a place. */
static bool says_at(const fedsel_store *store, uint64_t at, const uint8_t *bytes, size_t count)
{
  uint8_t chunk[64];
  for (size_t done = 0; done < count;) {
    const size_t n = count - done < sizeof chunk ? count - done : sizeof chunk;
    if (!read_at(store, at + done, chunk, n) || memcmp(chunk, bytes + done, n) != 0)
      return false;
    done += n;
  }
  return true;
}

static bool add_bytes_at(fs_sha256 *hash, const fedsel_store *store, uint64_t at, size_t count)
{
  uint8_t chunk[64];
  for (size_t done = 0; done < count;) {
    const size_t n = count - done < sizeof chunk ? count - done : sizeof chunk;
    if (!read_at(store, at + done, chunk, n))
      return false;
    fs_sha256_add(hash, chunk, n);
    done += n;
  }
  return true;
}

bool fs_next_record(fs_walk *walk, fs_record *record, bool check)
{
  uint8_t head[HEAD], link[LINK], wanted[LINK];
  if (!read_at(walk->store, walk->end, head, HEAD))
    return false;
  record->kind = head[0];
  record->length = fs_read32(head + 1);
  record->at = walk->end + HEAD;
  if (record->length > MOST_RECORD ||
      !read_at(walk->store, record->at + record->length, link, LINK))
    return false;
  if (check) {
    fs_sha256 hash;
    fs_sha256_begin(&hash);
    fs_sha256_add(&hash, walk->link, LINK);
    fs_sha256_add(&hash, head, HEAD);
    if (!add_bytes_at(&hash, walk->store, record->at, record->length))
      return false;
    fs_sha256_end(&hash, wanted);
    if (memcmp(link, wanted, LINK) != 0)
      return false;
  }
  memcpy(walk->link, link, LINK);
  walk->records += 1;
  walk->end = record->at + record->length + LINK;
  return true;
}

static void read_epsilon(fedsel_epsilon *epsilon, const uint8_t *bytes)
{
  epsilon->numerator = fs_read64(bytes);
  for (uint32_t i = 0; i < 3; i++)
    epsilon->denominator[i] = fs_read32(bytes + 8 + 4 * i);
}

static void write_epsilon(uint8_t *bytes, const fedsel_epsilon *epsilon)
{
  fs_write64(bytes, epsilon->numerator);
  for (uint32_t i = 0; i < 3; i++)
    fs_write32(bytes + 8 + 4 * i, epsilon->denominator[i]);
}

bool fs_read_entry(const fedsel_store *store, const fs_record *record, fs_entry *entry)
{
  uint8_t b[ENTRY], sizes[3] = {0, 0, 0};
  uint64_t at = record->at;
  if (record->kind == 'N') {
    if (!read_at(store, at + RUN, sizes, 3))
      return false;
    at += RUN + 3U + sizes[0] + sizes[1] + sizes[2];
  }
  if (!read_at(store, at, b, ENTRY))
    return false;
  entry->run_at = record->kind == 'N' ? record->at : fs_read64(b);
  entry->number = fs_read32(b + 8);
  entry->epoch = fs_read32(b + 12);
  entry->round = fs_read32(b + 16);
  entry->time = (int64_t)fs_read64(b + 20);
  read_epsilon(&entry->charge, b + 28);
  memcpy(entry->digest, b + 48, 32);
  entry->place = b[80];
  memcpy(entry->seal, b + 81, 32);
  entry->report_bytes = fs_read32(b + 113);
  entry->report_at = at + ENTRY;
  return entry->report_bytes <= FEDSEL_MOST_REPORT_BYTES;
}

/* Where the lengths and bytes of a run's recipe and texts are. */
static bool says_run(const fedsel_store *store, uint64_t run_at, const fedsel_request *request)
{
  const uint8_t sizes[3] = {(uint8_t)request->recipe_bytes, request->purpose_bytes,
                            request->recipient_bytes};
  const uint64_t at = run_at + RUN + 3;
  return says_at(store, run_at + RUN, sizes, 3) &&
         says_at(store, at, request->recipe, sizes[0]) &&
         says_at(store, at + sizes[0], request->purpose, sizes[1]) &&
         says_at(store, at + sizes[0] + sizes[1], request->recipient, sizes[2]);
}

static bool text_at(const fedsel_store *store, uint64_t at, uint8_t size, const char *text)
{
  return text == NULL ||
         (strlen(text) == size && says_at(store, at, (const uint8_t *)text, size));
}

static bool limit_concerns(const fedsel_store *store, uint64_t run_at, const fedsel_limit *limit)
{
  uint8_t sizes[3];
  if (!read_at(store, run_at + RUN, sizes, 3))
    return false;
  const uint64_t at = run_at + RUN + 3U + sizes[0];
  return text_at(store, at, sizes[1], limit->purpose) &&
         text_at(store, at + sizes[1], sizes[2], limit->recipient);
}

/* ---- The books ---- */

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* A run's report enters the books. */
static void enter(fs_books *books, const fs_entry *entry, const fedsel_request *request, int64_t now)
{
  books->known = later(books->known, entry->time);
  if (entry->time > now - 86400)
    books->in_day += 1;
  if (request == NULL || books->run_at == 0 || entry->run_at != books->run_at)
    return;
  books->number = entry->number;
  books->last_epoch = !books->any || entry->epoch > books->last_epoch ? entry->epoch : books->last_epoch;
  books->last_round = !books->any || entry->round > books->last_round ? entry->round : books->last_round;
  books->any = true;
  books->in_epoch += entry->epoch == request->epoch;
  books->last = *entry;
  if (entry->round == request->round) {
    books->answered = true;
    books->same = *entry;
  }
}

static bool enter_record(fs_books *books, const fs_record *record, const fedsel_request *request,
                         int64_t now)
{
  const fedsel_store *store = books->walk.store;
  uint8_t b[24];
  fs_entry entry;
  const bool first = books->walk.records == 1;
  if (first != (record->kind == 'B') || record->length < 8)
    return false;
  switch (record->kind) {
  case 'B':
    books->limits_at = record->at + 20;
    if (!read_at(store, record->at + 16, b, 12))
      return false;
    books->residual_bytes = fs_read32(b);
    books->known = (int64_t)fs_read64(b + 4);
    return books->residual_bytes % 4 == 0;
  case 'L':
    books->limits_at = record->at;
    return true;
  case 'C':
    if (!read_at(store, record->at, b, 8))
      return false;
    books->known = later(books->known, (int64_t)fs_read64(b));
    return true;
  case 'N':
    if (!read_at(store, record->at, b, RUN))
      return false;
    books->runs += 1;
    if (books->runs - books->first_open > fs_read32(b + 20))
      books->first_open = books->runs - fs_read32(b + 20);
    if (request != NULL && memcmp(b, request->run, 16) == 0) {
      books->run_at = record->at;
      books->same_run = says_run(store, record->at, request);
    }
    break;
  case 'E':
    break;
  default:
    return false;
  }
  if (!fs_read_entry(store, record, &entry))
    return false;
  enter(books, &entry, request, now);
  return true;
}

static uint64_t witness_at(const fedsel_store *store, uint32_t place, uint8_t link[LINK])
{
  uint8_t b[WITNESS], digest[LINK];
  fs_sha256 hash;
  if (!store->read(store->context, FEDSEL_WITNESS, (uint64_t)place * WITNESS, b, WITNESS))
    return 0;
  fs_sha256_begin(&hash);
  fs_sha256_add(&hash, b, 40);
  fs_sha256_end(&hash, digest);
  memcpy(link, b + 8, LINK);
  return memcmp(digest, b + 40, LINK) == 0 ? fs_read64(b) : 0;
}

fedsel_reason fs_read_books(fs_books *books, const fedsel_store *store,
                            const fedsel_request *request, int64_t now)
{
  uint8_t links[2][LINK], at_witness[LINK];
  fs_record record;
  const uint64_t seen[2] = {witness_at(store, 0, links[0]), witness_at(store, 1, links[1])};
  const uint32_t newest = seen[1] > seen[0] ? 1 : 0;
  memset(books, 0, sizeof *books);
  memset(at_witness, 0, sizeof at_witness);
  books->walk.store = store;
  books->witnessed = seen[newest];
  for (fs_walk next = books->walk; fs_next_record(&next, &record, true);) {
    books->walk = next;
    if (!enter_record(books, &record, request, now))
      return FEDSEL_LEDGER;
    if (next.records == books->witnessed)
      memcpy(at_witness, next.link, LINK);
  }
  const uint64_t records = books->walk.records;
  const bool recent = records > 0 && books->witnessed <= records && books->witnessed + 1 >= records;
  if (!recent || (books->witnessed > 0 && memcmp(at_witness, links[newest], LINK) != 0))
    return FEDSEL_LEDGER;
  return FEDSEL_DONE;
}

bool fs_held(fs_ratio *held, const fs_books *books, const fedsel_limit *limit, int64_t time)
{
  fs_walk walk;
  fs_record record;
  fs_entry entry;
  fs_ratio charge;
  memset(&walk, 0, sizeof walk);
  walk.store = books->walk.store;
  fs_ratio_set(held, 0, 1);
  while (walk.records < books->walk.records) {
    if (!fs_next_record(&walk, &record, false))
      return false;
    if (record.kind != 'N' && record.kind != 'E')
      continue;
    if (!fs_read_entry(walk.store, &record, &entry))
      return false;
    const bool recent = limit->seconds == 0 || entry.time >= time - (int64_t)limit->seconds;
    if (!recent || !limit_concerns(walk.store, entry.run_at, limit))
      continue;
    fs_ratio_of_epsilon(&charge, &entry.charge);
    fs_add_charge(held, &charge);
  }
  return true;
}

/* ---- Writing ---- */

typedef struct {
  const fedsel_store *store;
  fs_sha256 hash;
  uint64_t at, begin;
  bool failed;
} writer;

static void put_bytes(writer *w, const void *bytes, size_t count)
{
  if (count == 0)
    return;
  fs_sha256_add(&w->hash, bytes, count);
  w->failed = w->failed || !w->store->write(w->store->context, FEDSEL_LOG, w->at, bytes, count);
  w->at += count;
}

static void put_number(writer *w, uint64_t value, uint32_t bytes)
{
  uint8_t b[8];
  fs_write64(b, value);
  put_bytes(w, b, bytes);
}

static void put_text(writer *w, const char *text)
{
  const size_t size = text == NULL ? 0 : strlen(text);
  put_number(w, text == NULL ? ANY : size, 1);
  put_bytes(w, text, size);
}

static void put_epsilon(writer *w, const fedsel_epsilon *epsilon)
{
  uint8_t b[20];
  write_epsilon(b, epsilon);
  put_bytes(w, b, sizeof b);
}

/* The last record in the witness, durably. */
static bool witness(fs_books *books)
{
  const fedsel_store *store = books->walk.store;
  uint8_t b[WITNESS];
  fs_sha256 hash;
  fs_write64(b, books->walk.records);
  memcpy(b + 8, books->walk.link, LINK);
  fs_sha256_begin(&hash);
  fs_sha256_add(&hash, b, 40);
  fs_sha256_end(&hash, b + 40);
  books->witnessed = books->walk.records;
  return store->write(store->context, FEDSEL_WITNESS, books->walk.records % 2 * WITNESS, b,
                      WITNESS) &&
         store->flush(store->context, FEDSEL_WITNESS);
}

/* Begin a record; the one before it must be witnessed. */
static writer begin(fs_books *books, uint8_t kind, size_t length)
{
  writer w;
  w.store = books->walk.store;
  w.at = w.begin = books->walk.end;
  w.failed = length > MOST_RECORD ||
             (books->witnessed < books->walk.records && !witness(books));
  fs_sha256_begin(&w.hash);
  fs_sha256_add(&w.hash, books->walk.link, LINK);
  put_number(&w, kind, 1);
  put_number(&w, length, 4);
  return w;
}

/* Make the record durable, then its witness. */
static bool end(writer *w, fs_books *books)
{
  uint8_t link[LINK];
  fs_sha256_end(&w->hash, link);
  const fedsel_store *store = w->store;
  if (w->failed || !store->write(store->context, FEDSEL_LOG, w->at, link, LINK) ||
      !store->flush(store->context, FEDSEL_LOG))
    return false;
  memcpy(books->walk.link, link, LINK);
  books->walk.end = w->at + LINK;
  books->walk.records += 1;
  return witness(books);
}

bool fs_record_clock(fs_books *books, int64_t time, const char *by)
{
  if (strlen(by) > MOST_WHO)
    return false;
  writer w = begin(books, 'C', 9 + strlen(by));
  put_number(&w, (uint64_t)time, 8);
  put_text(&w, by);
  return end(&w, books);
}

static size_t text_size(const char *text) { return 1 + (text == NULL ? 0 : strlen(text)); }

bool fs_record_limits(fs_books *books, const fedsel_policy *policy, int64_t time, const char *by,
                      const uint8_t identity[16])
{
  size_t length = 10 + strlen(by) + (identity == NULL ? 0 : 20);
  for (size_t i = 0; i < policy->limit_count; i++)
    length += 28 + text_size(policy->limits[i].purpose) + text_size(policy->limits[i].recipient);
  if (strlen(by) > MOST_WHO)
    return false;
  writer w = begin(books, identity == NULL ? 'L' : 'B', length);
  if (identity != NULL) {
    put_bytes(&w, identity, 16);
    put_number(&w, books->residual_bytes, 4);
  }
  books->limits_at = w.at;
  put_number(&w, (uint64_t)time, 8);
  put_text(&w, by);
  put_number(&w, policy->limit_count, 1);
  for (size_t i = 0; i < policy->limit_count; i++) {
    put_epsilon(&w, &policy->limits[i].epsilon);
    put_number(&w, policy->limits[i].seconds, 8);
    put_text(&w, policy->limits[i].purpose);
    put_text(&w, policy->limits[i].recipient);
  }
  return end(&w, books);
}

/* ---- Limits that are on record ---- */

typedef struct {
  fedsel_epsilon epsilon;
  uint64_t seconds;
  uint8_t sizes[2]; /* ANY where any text will do */
  uint64_t texts[2];
} written_limit;

/* The limit at a place, which is moved behind it. */
static bool read_limit(const fedsel_store *store, uint64_t *at, written_limit *limit)
{
  uint8_t b[28];
  if (!read_at(store, *at, b, sizeof b))
    return false;
  read_epsilon(&limit->epsilon, b);
  limit->seconds = fs_read64(b + 20);
  *at += sizeof b;
  for (uint32_t i = 0; i < 2; i++) {
    if (!read_at(store, *at, &limit->sizes[i], 1))
      return false;
    limit->texts[i] = ++*at;
    *at += limit->sizes[i] == ANY ? 0 : limit->sizes[i];
  }
  return true;
}

/* Whether a text of the policy's limit is that of the other, or any. */
static bool covers(const fedsel_store *store, const written_limit *present, uint32_t which,
                   const char *text)
{
  return text == NULL || (present->sizes[which] != ANY &&
                          text_at(store, present->texts[which], present->sizes[which], text));
}

static bool implies(const fedsel_store *store, const fedsel_limit *asked,
                    const written_limit *present)
{
  fs_ratio a, b;
  fs_ratio_of_epsilon(&a, &asked->epsilon);
  fs_ratio_of_epsilon(&b, &present->epsilon);
  const bool lasts =
      asked->seconds == 0 || (present->seconds != 0 && asked->seconds >= present->seconds);
  return lasts && fs_ratio_compare(&a, &b) <= 0 && covers(store, present, 0, asked->purpose) &&
         covers(store, present, 1, asked->recipient);
}

static bool is_same(const fedsel_store *store, const fedsel_limit *asked,
                    const written_limit *present)
{
  return asked->epsilon.numerator == present->epsilon.numerator &&
         memcmp(asked->epsilon.denominator, present->epsilon.denominator, 12) == 0 &&
         asked->seconds == present->seconds &&
         (asked->purpose == NULL) == (present->sizes[0] == ANY) &&
         (asked->recipient == NULL) == (present->sizes[1] == ANY) &&
         covers(store, present, 0, asked->purpose) && covers(store, present, 1, asked->recipient);
}

void fs_compare_limits(const fs_books *books, const fedsel_policy *policy, bool *same,
                       bool *as_strict)
{
  const fedsel_store *store = books->walk.store;
  uint64_t at = books->limits_at + 8;
  uint8_t who = 0, count = 0;
  written_limit present;
  *same = *as_strict = read_at(store, at, &who, 1) && read_at(store, at + 1 + who, &count, 1);
  at += 2U + who;
  *same = *same && count == policy->limit_count;
  for (uint32_t i = 0; i < count; i++) {
    bool implied = false;
    if (!read_limit(store, &at, &present)) {
      *same = *as_strict = false;
      return;
    }
    for (size_t j = 0; j < policy->limit_count; j++)
      implied = implied || implies(store, &policy->limits[j], &present);
    *as_strict = *as_strict && implied;
    *same = *same && is_same(store, &policy->limits[i], &present);
  }
}

/* ---- Residuals ---- */

static uint64_t residual_at(const fs_books *books, uint32_t number, uint8_t place)
{
  const uint64_t slot = 2 * (uint64_t)(number % PAIRS) + place - 1;
  return slot * books->residual_bytes;
}

static void seal_begin(fs_sha256 *hash, const uint8_t *run)
{
  fs_sha256_begin(hash);
  fs_sha256_add(hash, run, 16);
}

bool fs_read_residual(const fs_books *books, const fedsel_request *request, float *residual)
{
  const fedsel_store *store = books->walk.store;
  const fs_entry *last = &books->last;
  uint8_t b[4], seal[32];
  fs_sha256 hash;
  for (uint64_t i = 0; i < request->dim; i++)
    residual[i] = 0.0F;
  if (books->run_at == 0 || last->place == 0 || last->number < books->first_open)
    return true;
  uint64_t at = residual_at(books, last->number, last->place);
  seal_begin(&hash, request->run);
  for (uint64_t i = 0; i < request->dim; i++, at += 4) {
    if (!store->read(store->context, FEDSEL_RESIDUALS, at, b, 4))
      return false;
    fs_sha256_add(&hash, b, 4);
    residual[i] = fs_read_single(b);
  }
  fs_sha256_end(&hash, seal);
  return memcmp(seal, last->seal, sizeof seal) == 0;
}

static bool write_residual(const fs_books *books, const fedsel_request *request, fs_entry *entry,
                           const float *residual)
{
  const fedsel_store *store = books->walk.store;
  uint8_t b[4];
  fs_sha256 hash;
  if (request->dim > books->residual_bytes / 4)
    return false;
  uint64_t at = residual_at(books, entry->number, entry->place);
  seal_begin(&hash, request->run);
  for (uint64_t i = 0; i < request->dim; i++, at += 4) {
    fs_write_single(b, residual[i]);
    fs_sha256_add(&hash, b, 4);
    if (!store->write(store->context, FEDSEL_RESIDUALS, at, b, 4))
      return false;
  }
  fs_sha256_end(&hash, entry->seal);
  return store->flush(store->context, FEDSEL_RESIDUALS);
}

/* Erase a place, up to the end of what was ever written. */
static bool erase(const fs_books *books, uint32_t slot)
{
  const fedsel_store *store = books->walk.store;
  static const uint8_t ZEROS[4] = {0, 0, 0, 0};
  uint8_t b[4];
  bool right = true;
  const uint64_t first = (uint64_t)slot * books->residual_bytes;
  for (uint64_t at = first; at < first + books->residual_bytes; at += 4) {
    if (!store->read(store->context, FEDSEL_RESIDUALS, at, b, 4))
      break;
    if (memcmp(b, ZEROS, 4) != 0)
      right = store->write(store->context, FEDSEL_RESIDUALS, at, ZEROS, 4) && right;
  }
  return right;
}

bool fs_sweep(const fs_books *books)
{
  bool kept[2 * PAIRS] = {false}, right = true;
  fs_walk walk;
  fs_record record;
  fs_entry entry;
  memset(&walk, 0, sizeof walk);
  walk.store = books->walk.store;
  while (walk.records < books->walk.records && fs_next_record(&walk, &record, false)) {
    if ((record.kind != 'N' && record.kind != 'E') || !fs_read_entry(walk.store, &record, &entry))
      continue;
    const uint32_t slot = 2 * (entry.number % PAIRS);
    if (entry.number < books->first_open)
      continue;
    kept[slot] = entry.place == 1;
    kept[slot + 1] = entry.place == 2;
  }
  for (uint32_t slot = 0; slot < 2 * PAIRS; slot++)
    if (!kept[slot])
      right = erase(books, slot) && right;
  return right && walk.store->flush(walk.store->context, FEDSEL_RESIDUALS);
}

/* ---- Reports ---- */

static void put_run(writer *w, const fedsel_request *request, uint32_t number, uint32_t open_runs)
{
  put_bytes(w, request->run, 16);
  put_number(w, number, 4);
  put_number(w, open_runs, 4);
  put_number(w, request->recipe_bytes, 1);
  put_number(w, request->purpose_bytes, 1);
  put_number(w, request->recipient_bytes, 1);
  put_bytes(w, request->recipe, request->recipe_bytes);
  put_bytes(w, request->purpose, request->purpose_bytes);
  put_bytes(w, request->recipient, request->recipient_bytes);
}

static void put_entry(writer *w, const fs_entry *entry, const uint8_t *report)
{
  put_number(w, entry->run_at, 8);
  put_number(w, entry->number, 4);
  put_number(w, entry->epoch, 4);
  put_number(w, entry->round, 4);
  put_number(w, (uint64_t)entry->time, 8);
  put_epsilon(w, &entry->charge);
  put_bytes(w, entry->digest, 32);
  put_number(w, entry->place, 1);
  put_bytes(w, entry->seal, 32);
  put_number(w, entry->report_bytes, 4);
  put_bytes(w, report, entry->report_bytes);
}

bool fs_record_report(fs_books *books, const fedsel_request *request, uint32_t open_runs,
                      fs_entry *entry, const float *residual, const uint8_t *report)
{
  const bool is_new = books->run_at == 0;
  entry->run_at = books->run_at;
  entry->number = is_new ? books->runs : books->number;
  memset(entry->seal, 0, sizeof entry->seal);
  entry->place = residual == NULL ? 0 : !is_new && books->last.place == 1 ? 2 : 1;
  if (residual != NULL && !write_residual(books, request, entry, residual))
    return false;
  size_t length = ENTRY + entry->report_bytes;
  if (is_new)
    length += RUN + 3U + request->recipe_bytes + request->purpose_bytes + request->recipient_bytes;
  writer w = begin(books, is_new ? 'N' : 'E', length);
  if (is_new) {
    put_run(&w, request, entry->number, open_runs);
    books->runs += 1;
    if (books->runs - books->first_open > open_runs)
      books->first_open = books->runs - open_runs;
  }
  put_entry(&w, entry, report);
  return end(&w, books) && fs_sweep(books);
}
