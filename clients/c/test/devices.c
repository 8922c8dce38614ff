/* A device with a policy and a ledger, in memory that can be cut off like a disk, or in files. */

#include <math.h>

#include "../posix/posix.h"
#include "../src/ledger.h"
#include "asking.h"

#define MOST_ITEMS 32
#define FILE_BYTES (1 << 20)

/* ---- Memory that a crash may cut off ---- */

typedef struct {
  uint8_t bytes[FILE_BYTES], durable[FILE_BYTES];
  size_t size, durable_size;
} ram_file;

typedef struct {
  ram_file files[3];
  uint64_t room; /* bytes and flushes until the power fails */
} ram;

static bool ram_lock(void *context)
{
  (void)context;
  return true;
}

static void ram_unlock(void *context) { (void)context; }

static bool ram_read(void *context, fedsel_file file, uint64_t offset, void *to, size_t count)
{
  const ram_file *f = &((ram *)context)->files[file];
  if (offset > f->size || count > f->size - offset)
    return false;
  memcpy(to, f->bytes + offset, count);
  return true;
}

static bool ram_write(void *context, fedsel_file file, uint64_t offset, const void *from,
                      size_t count)
{
  ram *disk = context;
  ram_file *f = &disk->files[file];
  const size_t kept = count < disk->room ? count : (size_t)disk->room;
  if (offset + count > FILE_BYTES)
    return false;
  memcpy(f->bytes + offset, from, kept);
  if (offset + kept > f->size && kept > 0)
    f->size = (size_t)offset + kept;
  disk->room -= kept;
  return kept == count;
}

static bool ram_flush(void *context, fedsel_file file)
{
  ram *disk = context;
  ram_file *f = &disk->files[file];
  if (disk->room == 0)
    return false;
  disk->room -= 1;
  memcpy(f->durable, f->bytes, f->size);
  f->durable_size = f->size;
  return true;
}

/* ---- The device, of which there is one ---- */

static struct {
  fedsel_policy policy;
  fedsel_limit limits[MOST_ITEMS];
  fedsel_menu_entry menu[MOST_ITEMS];
  const char *solutions[MOST_ITEMS], *purposes[MOST_ITEMS], *recipients[MOST_ITEMS];
  uint64_t dimensions[MOST_ITEMS];
  char text[1 << 16]; /* all texts */
  size_t used;
  ram disk;
  fedsel_posix_files files;
  bool posix;
  int64_t now;
  const line *asked;
  words drawn;
  fedsel_device device;
} own;

static bool own_now(void *context, int64_t *seconds)
{
  (void)context;
  *seconds = own.now;
  return true;
}

/* The update of the question, where it is as long as the request says. */
static bool own_update(void *context, const fedsel_request *request, const uint8_t *weights,
                       size_t weight_bytes, double *update)
{
  (void)context;
  (void)weights;
  (void)weight_bytes;
  return take_update(own.asked, 4, request, update);
}

/* ---- Policies ---- */

static const char *kept(const char *text, size_t count)
{
  char *at = own.text + own.used;
  memcpy(at, text, count);
  at[count] = '\0';
  own.used += count + 1;
  return at;
}

/* The text of hexadecimal digits up to an end; NULL for a star. */
static const char *text_of(const char *digits, size_t count)
{
  char found[512];
  if (count == 1 && *digits == '*')
    return NULL;
  for (size_t i = 0; i + 1 < count; i += 2) {
    const char pair[3] = {digits[i], digits[i + 1], 0};
    found[i / 2] = (char)strtoul(pair, NULL, 16);
  }
  return kept(found, count / 2);
}

static fedsel_epsilon epsilon_of(const char *text)
{
  char *end;
  fedsel_epsilon epsilon = {strtoull(text, &end, 16), {0, 0, 0}};
  for (uint32_t i = 0; i < 3; i++) { /* 24 digits */
    char part[9] = {0};
    memcpy(part, end + 1 + 8 * i, 8);
    epsilon.denominator[2 - i] = (uint32_t)strtoul(part, NULL, 16);
  }
  return epsilon;
}

/* Each part between commas. */
static size_t list_of(const char *value, const char **items, bool texts)
{
  size_t n = 0;
  while (*value != '\0') {
    const size_t length = strcspn(value, ",");
    items[n++] = texts ? text_of(value, length) : kept(value, length);
    value += length + (value[length] == ',');
  }
  return n;
}

/* ε:seconds:purpose:recipient, seconds being left out for the menu */
static void take_limit(const char *value, bool menu)
{
  const fedsel_epsilon epsilon = epsilon_of(value);
  const char *at = strchr(value, ':') + 1;
  uint64_t seconds = 0;
  if (!menu) {
    seconds = strtoull(at, NULL, 16);
    at = strchr(at, ':') + 1;
  }
  const size_t length = strcspn(at, ":");
  const char *purpose = text_of(at, length), *recipient = text_of(at + length + 1,
                                                                  strlen(at + length + 1));
  if (menu)
    own.menu[own.policy.menu_count++] = (fedsel_menu_entry){purpose, recipient, epsilon};
  else
    own.limits[own.policy.limit_count++] = (fedsel_limit){epsilon, seconds, purpose, recipient};
}

static double double_of(const char *digits)
{
  const uint64_t b = strtoull(digits, NULL, 16);
  double x;
  memcpy(&x, &b, sizeof x);
  return x;
}

static void take_field(const char *name, const char *value)
{
  fedsel_policy *p = &own.policy;
  const uint64_t count = strtoull(value, NULL, 16);
  if (strcmp(name, "per") == 0)
    p->per_report = epsilon_of(value);
  else if (strcmp(name, "limit") == 0 || strcmp(name, "menu") == 0)
    take_limit(value, *name == 'm');
  else if (strcmp(name, "solutions") == 0)
    p->solution_count = list_of(value, own.solutions, false);
  else if (strcmp(name, "purposes") == 0)
    p->purposes = own.purposes, p->purpose_count = list_of(value, own.purposes, true);
  else if (strcmp(name, "recipients") == 0)
    p->recipients = own.recipients, p->recipient_count = list_of(value, own.recipients, true);
  else if (strcmp(name, "dimension") == 0)
    own.dimensions[p->dimension_count++] = count;
  else if (strcmp(name, "clip") == 0)
    p->clip = double_of(value);
  else if (strcmp(name, "bound") == 0)
    p->weight_bound = double_of(value);
  else if (strcmp(name, "epoch") == 0)
    p->reports_per_epoch = (uint32_t)count;
  else if (strcmp(name, "day") == 0)
    p->reports_per_day = (uint32_t)count;
  else if (strcmp(name, "runs") == 0)
    p->runs = (uint32_t)count;
  else if (strcmp(name, "tolerance") == 0)
    p->clock_tolerance = count;
  else if (strcmp(name, "purpose") == 0)
    p->require_purpose = true;
  else if (strcmp(name, "recipient") == 0)
    p->require_recipient = true;
}

static void do_policy(const line *l)
{
  memset(&own.policy, 0, sizeof own.policy);
  own.used = 0;
  own.policy.solutions = own.solutions;
  own.policy.dimensions = own.dimensions;
  own.policy.limits = own.limits;
  own.policy.clip = HUGE_VAL;
  for (int i = 1; i < l->count; i++) {
    char *value = strchr(l->parts[i], '=');
    *value = '\0';
    take_field(l->parts[i], value + 1);
  }
  own.policy.menu = own.policy.menu_count > 0 ? own.menu : NULL;
}

/* ---- Ledgers ---- */

static void do_store(const line *l)
{
  if (own.posix)
    fedsel_posix_close(&own.files);
  own.posix = strcmp(l->parts[1], "ram") != 0;
  memset(&own.disk, 0, sizeof own.disk);
  own.disk.room = UINT64_MAX;
  own.device.policy = &own.policy;
  own.device.now = own_now;
  own.device.update = own_update;
  own.device.entropy = (fedsel_entropy){next_word, &own.drawn};
  own.device.store =
      (fedsel_store){&own.disk, ram_lock, ram_unlock, ram_read, ram_write, ram_flush};
  if (own.posix && fedsel_posix_open(&own.files, l->parts[1]))
    own.device.store = fedsel_posix_store(&own.files);
}

static void do_create(const line *l)
{
  own.now = (int64_t)number(l, 1);
  own.drawn = (words){NULL, 1, 0};
  printf("%s", REASONS[fedsel_create(&own.device, (uint32_t)number(l, 2))]);
}

static void do_open(const line *l)
{
  own.now = (int64_t)number(l, 1);
  printf("%s", REASONS[fedsel_open(&own.device, l->count > 2 ? l->parts[2] : NULL)]);
}

static void do_confirm(const line *l)
{
  own.now = (int64_t)number(l, 1);
  printf("%s", REASONS[fedsel_confirm_clock(&own.device, l->parts[2])]);
}

/* now, request, weights, update or -, words, and words of memory where they are not what it takes */
static void do_answer(const line *l)
{
  size_t count, weight_bytes, size;
  uint8_t *request = bytes(l, 2, &count), *weights = bytes(l, 3, &weight_bytes);
  uint8_t *report = malloc(FEDSEL_MOST_REPORT_BYTES);
  fedsel_request parsed;
  own.now = (int64_t)number(l, 1);
  own.asked = l;
  own.drawn = words_of(l, 5);
  const bool right = fedsel_read(&parsed, request, count) == FEDSEL_DONE;
  const size_t most = (size_t)1 << 20, wanted = right ? fedsel_answer_memory(&parsed) : 0;
  own.device.words = l->count > 6 ? (size_t)number(l, 6) : wanted > most ? 0 : wanted;
  own.device.memory = malloc(8 * own.device.words + 8);
  printf("%s ", REASONS[fedsel_answer(&own.device, request, count, weights, weight_bytes, report,
                                      &size)]);
  print_bytes(report, size);
  printf("%s %" PRIx64, size == 0 ? "-" : "", own.drawn.used);
  free(own.device.memory);
  free(report);
  free(weights);
  free(request);
}

/* An entry of a run of its own, whatever the policy says: time, charge, request */
static void do_entry(const line *l)
{
  fs_books books;
  fs_entry entry;
  fedsel_request request;
  size_t count;
  uint8_t *raw = bytes(l, 3, &count);
  const uint8_t report[8] = {0};
  memset(&entry, 0, sizeof entry);
  entry.time = (int64_t)number(l, 1);
  entry.charge = epsilon_of(l->parts[2]);
  entry.report_bytes = sizeof report;
  const bool right =
      fedsel_read(&request, raw, count) == FEDSEL_DONE &&
      fs_read_books(&books, &own.device.store, &request, entry.time) == FEDSEL_DONE &&
      fs_record_report(&books, &request, FEDSEL_MOST_RUNS, &entry, NULL, report);
  printf("%d", right);
  free(raw);
}

static void print_sum(const fs_ratio *sum)
{
  const fs_big *parts[2] = {&sum->p, &sum->q};
  for (uint32_t i = 0; i < 2; i++) {
    printf("%s0", i == 0 ? " " : "/");
    for (uint32_t j = parts[i]->n; j-- > 0;)
      printf("%08" PRIx32, parts[i]->w[j]);
  }
}

/* Whether the ledger is whole; its entries, what they cost, time and charge of the last one. */
static void do_history(const line *l)
{
  static const fedsel_limit EVERYTHING = {{0, {0, 0, 0}}, 0, NULL, NULL};
  fs_books books;
  fs_record record;
  fs_entry entry;
  fs_walk walk;
  fs_ratio sum;
  uint32_t entries = 0;
  (void)l;
  memset(&entry, 0, sizeof entry);
  memset(&walk, 0, sizeof walk);
  walk.store = &own.device.store;
  const fedsel_reason reason = fs_read_books(&books, &own.device.store, NULL, 0);
  printf("%s", REASONS[reason]);
  if (reason != FEDSEL_DONE || !fs_held(&sum, &books, &EVERYTHING, 0))
    return;
  while (walk.records < books.walk.records && fs_next_record(&walk, &record, true))
    if ((record.kind == 'N' || record.kind == 'E') &&
        fs_read_entry(walk.store, &record, &entry))
      entries += 1;
  printf(" %" PRIx32, entries);
  print_sum(&sum);
  printf(" %" PRIx64 " %" PRIx64 "/%08" PRIx32 "%08" PRIx32 "%08" PRIx32, (uint64_t)entry.time,
         entry.charge.numerator, entry.charge.denominator[2], entry.charge.denominator[1],
         entry.charge.denominator[0]);
}

/* Of each limit of the policy what it holds at a time. */
static void do_held(const line *l)
{
  fs_books books;
  fs_ratio sum;
  fs_read_books(&books, &own.device.store, NULL, 0);
  const int64_t asked = (int64_t)number(l, 1), time = asked > books.known ? asked : books.known;
  for (size_t i = 0; i < own.policy.limit_count; i++) {
    fs_held(&sum, &books, &own.policy.limits[i], time);
    print_sum(&sum);
  }
}

/* Of a request's run whether it is open, and its residual; of its round the digest. */
static void do_run(const line *l)
{
  fs_books books;
  fedsel_request request;
  size_t count;
  uint8_t *raw = bytes(l, 1, &count);
  fedsel_read(&request, raw, count);
  float *residual = malloc(4 * (size_t)request.dim);
  fs_read_books(&books, &own.device.store, &request, 0);
  printf("%d ", books.run_at != 0 && books.number >= books.first_open);
  print_bytes(books.same.digest, 32);
  printf(" %d ", fs_read_residual(&books, &request, residual));
  print_singles(residual, request.dim);
  free(residual);
  free(raw);
}

static const char *big_of(fs_big *r, const char *at)
{
  fs_big digit;
  fs_set(r, 0);
  for (; *at != '/' && *at != '\0'; at++) {
    const char one[2] = {*at, 0};
    fs_shift_left(r, r, 4);
    fs_set(&digit, strtoul(one, NULL, 16));
    fs_add(r, r, &digit);
  }
  return at + 1;
}

/* A sum and a charge: both, added up. */
static void do_added(const line *l)
{
  fs_ratio sum, charge;
  big_of(&sum.q, big_of(&sum.p, l->parts[1]));
  big_of(&charge.q, big_of(&charge.p, l->parts[2]));
  fs_add_charge(&sum, &charge);
  print_sum(&sum);
}

/* The power fails after so many bytes and flushes. */
static void do_cut(const line *l) { own.disk.room = number(l, 1); }

/* It is back: what was written since the last flush is there, or is lost. */
static void do_crash(const line *l)
{
  for (uint32_t i = 0; i < 3 && strcmp(l->parts[1], "lose") == 0; i++) {
    ram_file *f = &own.disk.files[i];
    memset(f->bytes, 0, f->size);
    memcpy(f->bytes, f->durable, f->durable_size);
    f->size = f->durable_size;
  }
  printf("%d", own.disk.room == 0);
  own.disk.room = UINT64_MAX;
}

/* Change a byte of a file, by its number; the size of the file. */
static void do_damage(const line *l)
{
  ram_file *f = &own.disk.files[number(l, 1)];
  const uint64_t at = number(l, 2);
  if (at < f->size)
    f->bytes[at] ^= (uint8_t)number(l, 3);
  printf("%zx", f->size);
}

/* Put the log back as it was. */
static void do_copy(const line *l)
{
  static ram_file copy;
  if (strcmp(l->parts[1], "take") == 0)
    copy = own.disk.files[FEDSEL_LOG];
  else
    own.disk.files[FEDSEL_LOG] = copy;
}

/* What residuals are on the disk: whether any byte of their file is not 0. */
static void do_erased(const line *l)
{
  const ram_file *f = &own.disk.files[FEDSEL_RESIDUALS];
  size_t others = 0;
  (void)l;
  for (size_t i = 0; i < f->size; i++)
    others += f->bytes[i] != 0;
  printf("%zx", others);
}

static const struct {
  const char *name;
  void (*answer)(const line *);
} QUESTIONS[] = {{"policy", do_policy}, {"store", do_store},     {"create", do_create},
                 {"open", do_open},     {"confirm", do_confirm}, {"answer", do_answer},
                 {"entry", do_entry},   {"history", do_history}, {"held", do_held},
                 {"run", do_run},       {"added", do_added},     {"cut", do_cut},
                 {"crash", do_crash},   {"damage", do_damage},   {"copy", do_copy},
                 {"erased", do_erased}};

bool answer_of_device(const line *l)
{
  for (size_t i = 0; i < sizeof QUESTIONS / sizeof *QUESTIONS; i++)
    if (strcmp(l->parts[0], QUESTIONS[i].name) == 0) {
      QUESTIONS[i].answer(l);
      return true;
    }
  return false;
}
