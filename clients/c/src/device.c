/* A device: the policy, the ledger and the report, in this order. */

#include <string.h>

#include "ledger.h"
#include "public.h"

static uint32_t open_runs(const fedsel_policy *policy)
{
  return policy->runs < FEDSEL_MOST_RUNS ? policy->runs : FEDSEL_MOST_RUNS;
}

/* The update and the residual lie before what the plan needs. */
static uint64_t own_words(const fedsel_request *request)
{
  return request->dim + (request->dim + 1) / 2;
}

size_t fedsel_answer_memory(const fedsel_request *request)
{
  const uint64_t least = fedsel_memory(request), all = least + own_words(request);
  return least == 0 || all > UINT32_MAX ? 0 : (size_t)all;
}

/* ---- Beginning, and what the owner decides ---- */

static fedsel_reason create(fedsel_device *device, uint32_t most_dim, int64_t now)
{
  fs_books books;
  fs_record record;
  uint8_t identity[16];
  uint64_t words[2];
  memset(&books, 0, sizeof books);
  books.walk.store = &device->store;
  fs_walk there = books.walk;
  uint8_t byte;
  if (fs_next_record(&there, &record, true) ||
      device->store.read(device->store.context, FEDSEL_WITNESS, 0, &byte, 1) ||
      most_dim > UINT32_MAX / 4)
    return FEDSEL_LEDGER;
  for (uint32_t i = 0; i < 2; i++) {
    if (!device->entropy.next(device->entropy.context, &words[i]))
      return FEDSEL_INTERNAL;
    fs_write64(identity + 8 * i, words[i]);
  }
  books.residual_bytes = 4 * most_dim;
  return fs_record_limits(&books, device->policy, now, "", identity) ? FEDSEL_DONE
                                                                    : FEDSEL_INTERNAL;
}

static fedsel_reason take_over(fedsel_device *device, const char *by, int64_t now)
{
  fs_books books;
  bool same, as_strict;
  const fedsel_reason reason = fs_read_books(&books, &device->store, NULL, now);
  if (reason != FEDSEL_DONE)
    return reason;
  fs_compare_limits(&books, device->policy, &same, &as_strict);
  if (!same && !as_strict && (by == NULL || *by == '\0'))
    return FEDSEL_LEDGER;
  /* A name is on record only where somebody had to allow what was asked. */
  const char *who = as_strict || by == NULL ? "" : by;
  const bool right = same || fs_record_limits(&books, device->policy, now, who, NULL);
  return right && fs_sweep(&books) ? FEDSEL_DONE : FEDSEL_INTERNAL;
}

static fedsel_reason confirm(fedsel_device *device, const char *by, int64_t now)
{
  fs_books books;
  const fedsel_reason reason = fs_read_books(&books, &device->store, NULL, now);
  if (reason != FEDSEL_DONE)
    return reason;
  return by != NULL && *by != '\0' && fs_record_clock(&books, now, by) ? FEDSEL_DONE
                                                                       : FEDSEL_INTERNAL;
}

static bool enter(fedsel_device *device, int64_t *now)
{
  return fs_is_sound(device->policy) && device->now(device->context, now) &&
         device->store.lock(device->store.context);
}

static fedsel_reason leave(fedsel_device *device, fedsel_reason reason)
{
  device->store.unlock(device->store.context);
  return reason;
}

fedsel_reason fedsel_create(fedsel_device *device, uint32_t most_dim)
{
  int64_t now;
  if (!enter(device, &now))
    return FEDSEL_INTERNAL;
  return leave(device, create(device, most_dim, now));
}

fedsel_reason fedsel_open(fedsel_device *device, const char *by)
{
  int64_t now;
  if (!enter(device, &now))
    return FEDSEL_INTERNAL;
  return leave(device, take_over(device, by, now));
}

fedsel_reason fedsel_confirm_clock(fedsel_device *device, const char *by)
{
  int64_t now;
  if (!enter(device, &now))
    return FEDSEL_INTERNAL;
  return leave(device, confirm(device, by, now));
}

/* ---- Answers ---- */

/* One request on its way. */
typedef struct {
  fedsel_device *device;
  fedsel_request request;
  fedsel_plan plan;
  fs_books books;
  int64_t now, time; /* of the clock, and of the entry */
  const uint8_t *weights;
  size_t weight_bytes;
  uint8_t digest[32];
} answer;

/* Section 8. Nothing of the update's size is touched before the weights are checked. */
static fedsel_reason judge(answer *a)
{
  const fedsel_device *device = a->device;
  const fedsel_policy *policy = device->policy;
  fedsel_reason reason = fedsel_objection(policy, &a->request);
  if (reason == FEDSEL_DONE)
    reason = fs_check_weights(policy, &a->request, a->weights, a->weight_bytes);
  if (reason == FEDSEL_DONE) {
    const uint64_t own = own_words(&a->request);
    const size_t words = device->words > own ? device->words - (size_t)own : 0;
    reason = fedsel_prepare(&a->plan, &a->request, device->memory + device->words - words, words);
  }
  if (reason == FEDSEL_DONE && !fs_is_affordable(policy, &a->request, &a->plan.charge))
    reason = FEDSEL_TOO_MUCH;
  return reason;
}

static void digest(answer *a, const uint8_t *bytes, size_t count)
{
  const bool singles =
      a->request.solution.family != FEDSEL_BR && a->weight_bytes == 4 * a->request.dim;
  fs_sha256 hash;
  fs_sha256_begin(&hash);
  fs_sha256_add(&hash, bytes, count);
  fs_sha256_add(&hash, singles ? "<f4" : "<f8", 3);
  fs_sha256_add(&hash, a->weights, a->weight_bytes);
  fs_sha256_end(&hash, a->digest);
}

/* Whether the clock is right, and the time of the entry. */
static fedsel_reason read_clock(answer *a)
{
  const fedsel_policy *policy = a->device->policy;
  uint64_t longest = 0;
  for (size_t i = 0; i < policy->limit_count; i++)
    if (policy->limits[i].seconds > longest)
      longest = policy->limits[i].seconds;
  const uint64_t tolerance = policy->clock_tolerance > 0 ? policy->clock_tolerance : 2 * longest;
  a->time = a->now;
  if (longest == 0)
    return FEDSEL_DONE;
  if (a->now > a->books.known && (uint64_t)(a->now - a->books.known) > tolerance)
    return FEDSEL_CLOCK;
  a->time = a->now > a->books.known ? a->now : a->books.known;
  return FEDSEL_DONE;
}

static fedsel_reason check_limits(answer *a)
{
  const fedsel_policy *policy = a->device->policy;
  fs_ratio held, charge, most;
  fs_ratio_of_epsilon(&charge, &a->plan.charge);
  for (size_t i = 0; i < policy->limit_count; i++) {
    const fedsel_limit *limit = &policy->limits[i];
    if (!fs_concerns(limit->purpose, limit->recipient, &a->request))
      continue;
    if (!fs_held(&held, &a->books, limit, a->time))
      return FEDSEL_LEDGER;
    fs_add_charge(&held, &charge);
    fs_ratio_of_epsilon(&most, &limit->epsilon);
    if (fs_ratio_compare(&held, &most) > 0)
      return FEDSEL_EXHAUSTED;
  }
  return FEDSEL_DONE;
}

/* Section 9, in its order. */
static fedsel_reason ask_ledger(answer *a)
{
  const fedsel_policy *policy = a->device->policy;
  const fs_books *books = &a->books;
  const bool known = books->run_at != 0;
  bool same, as_strict;
  fs_compare_limits(books, policy, &same, &as_strict);
  if (!same)
    return FEDSEL_LEDGER; /* another program has changed the limits since this one opened it */
  if (known && !books->same_run)
    return FEDSEL_CONFLICT;
  if (books->answered)
    return memcmp(books->same.digest, a->digest, 32) == 0 ? FEDSEL_DONE : FEDSEL_CONFLICT;
  const bool older = books->any && (books->last_round > a->request.round ||
                                    books->last_epoch > a->request.epoch);
  if (older || (known && books->number < books->first_open))
    return FEDSEL_OUT_OF_ORDER;
  if (books->in_epoch >= policy->reports_per_epoch ||
      (policy->reports_per_day > 0 && books->in_day >= policy->reports_per_day))
    return FEDSEL_TOO_OFTEN;
  const fedsel_reason reason = read_clock(a);
  return reason == FEDSEL_DONE ? check_limits(a) : reason;
}

/* Draw the report, and make it durable with its charge and residual. */
static fedsel_reason draw(answer *a, uint8_t *report)
{
  fedsel_device *device = a->device;
  const fedsel_policy *policy = device->policy;
  const fedsel_request *request = &a->request;
  double *update = (double *)(void *)device->memory;
  float *residual = (float *)(void *)(device->memory + request->dim);
  if (a->plan.keeps && !fs_read_residual(&a->books, request, residual))
    return FEDSEL_LEDGER;
  const bool computed =
      device->update(device->context, request, a->weights, a->weight_bytes, update);
  const fedsel_reason reason = fedsel_report(&a->plan, request, computed ? update : NULL, residual,
                                             device->entropy, report);
  if (reason != FEDSEL_DONE)
    return reason;
  const bool last = request->epoch + 1 == request->epochs &&
                    a->books.in_epoch + 1 >= policy->reports_per_epoch;
  fs_entry entry;
  memset(&entry, 0, sizeof entry);
  entry.epoch = request->epoch;
  entry.round = request->round;
  entry.time = a->time;
  entry.charge = a->plan.charge;
  memcpy(entry.digest, a->digest, sizeof entry.digest);
  entry.report_bytes = (uint32_t)a->plan.report_bytes;
  const float *kept = a->plan.keeps && !last ? residual : NULL;
  return fs_record_report(&a->books, request, open_runs(policy), &entry, kept, report)
             ? FEDSEL_DONE
             : FEDSEL_INTERNAL;
}

static fedsel_reason answered(answer *a, uint8_t *report, size_t *report_bytes)
{
  const fedsel_store *store = &a->device->store;
  fedsel_reason reason = fs_read_books(&a->books, store, &a->request, a->now);
  if (reason == FEDSEL_DONE)
    reason = ask_ledger(a);
  if (reason != FEDSEL_DONE)
    return reason;
  if (!a->books.answered) {
    *report_bytes = a->plan.report_bytes;
    return draw(a, report);
  }
  *report_bytes = a->books.same.report_bytes;
  return store->read(store->context, FEDSEL_LOG, a->books.same.report_at, report, *report_bytes)
             ? FEDSEL_DONE
             : FEDSEL_LEDGER;
}

fedsel_reason fedsel_answer(fedsel_device *device, const uint8_t *request, size_t request_bytes,
                            const uint8_t *weights, size_t weight_bytes, uint8_t *report,
                            size_t *report_bytes)
{
  answer a;
  memset(&a, 0, sizeof a);
  a.device = device;
  a.weights = weights;
  a.weight_bytes = weight_bytes;
  *report_bytes = 0;
  fedsel_reason reason = fedsel_read(&a.request, request, request_bytes);
  if (reason == FEDSEL_DONE)
    reason = judge(&a);
  if (reason != FEDSEL_DONE)
    return reason;
  digest(&a, request, request_bytes);
  if (!enter(device, &a.now))
    return FEDSEL_INTERNAL;
  reason = leave(device, answered(&a, report, report_bytes));
  if (reason != FEDSEL_DONE) {
    memset(report, 0, FEDSEL_MOST_REPORT_BYTES);
    *report_bytes = 0;
  }
  return reason;
}
