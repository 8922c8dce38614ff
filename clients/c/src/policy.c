#include "policy.h"

#include <float.h>
#include <string.h>

#include "public.h"

#define MOST_MEASURED (UINT64_C(1) << 24)

bool fs_says(const char *text, const uint8_t *bytes, size_t count)
{
  return text == NULL || (strlen(text) == count && (count == 0 || memcmp(text, bytes, count) == 0));
}

bool fs_concerns(const char *purpose, const char *recipient, const fedsel_request *request)
{
  return fs_says(purpose, request->purpose, request->purpose_bytes) &&
         fs_says(recipient, request->recipient, request->recipient_bytes);
}

static bool is_positive(const fedsel_epsilon *epsilon)
{
  return epsilon->numerator > 0 &&
         (epsilon->denominator[0] | epsilon->denominator[1] | epsilon->denominator[2]) != 0;
}

static bool is_short(const char *text, size_t most)
{
  return text == NULL || strlen(text) <= most;
}

bool fs_is_sound(const fedsel_policy *policy)
{
  bool right = is_positive(&policy->per_report) && policy->limit_count >= 1 &&
               policy->limit_count <= FEDSEL_MOST_LIMITS && policy->clip > 0.0 &&
               policy->weight_bound > 0.0;
  for (size_t i = 0; right && i < policy->limit_count; i++) {
    const fedsel_limit *limit = &policy->limits[i];
    right = is_positive(&limit->epsilon) && limit->seconds <= FEDSEL_MOST_SECONDS &&
            is_short(limit->purpose, 200) && is_short(limit->recipient, 100);
  }
  for (size_t i = 0; right && i < policy->menu_count; i++)
    right = policy->menu[i].per_report.numerator == 0 || is_positive(&policy->menu[i].per_report);
  return right && policy->clock_tolerance <= FEDSEL_MOST_SECONDS;
}

static bool accepts(const char *const *listed, size_t count, bool required, const uint8_t *text,
                    uint8_t bytes)
{
  bool found = listed == NULL;
  for (size_t i = 0; i < count; i++)
    found = found || fs_says(listed[i], text, bytes);
  return found && !(required && bytes == 0);
}

fedsel_reason fedsel_objection(const fedsel_policy *policy, const fedsel_request *request)
{
  bool solution = false, dimension = false, entry = policy->menu == NULL;
  for (size_t i = 0; i < policy->solution_count; i++)
    solution = solution || strcmp(policy->solutions[i], request->name) == 0;
  for (size_t i = 0; i < policy->dimension_count; i++)
    dimension = dimension || policy->dimensions[i] == request->dim;
  if (!solution || !dimension || !fs_has_report(request) || request->clip > policy->clip)
    return FEDSEL_NOT_ALLOWED;
  for (size_t i = 0; i < policy->menu_count; i++)
    entry = entry || fs_concerns(policy->menu[i].purpose, policy->menu[i].recipient, request);
  const bool accepted =
      accepts(policy->purposes, policy->purpose_count, policy->require_purpose, request->purpose,
              request->purpose_bytes) &&
      accepts(policy->recipients, policy->recipient_count, policy->require_recipient,
              request->recipient, request->recipient_bytes);
  return accepted && entry ? FEDSEL_DONE : FEDSEL_PURPOSE;
}

fedsel_reason fs_check_weights(const fedsel_policy *policy, const fedsel_request *request,
                               const uint8_t *weights, size_t bytes)
{
  /* A question comes with those of the model that it measures. */
  const bool any = request->solution.family == FEDSEL_BR;
  const uint64_t count = any ? bytes / 8 : request->dim;
  const bool singles = !any && bytes / 4 == count && bytes % 4 == 0;
  const bool doubles = bytes / 8 == count && bytes % 8 == 0 && (!any || count <= MOST_MEASURED);
  const double largest = singles && !doubles ? (double)FLT_MAX : DBL_MAX;
  double bound = policy->weight_bound > largest ? largest : policy->weight_bound;
  if (!singles && !doubles)
    return FEDSEL_WEIGHTS;
  if (singles)
    bound = (double)(float)bound;
  bool within = true;
  for (uint64_t i = 0; i < count; i++) {
    const double x =
        singles ? (double)fs_read_single(weights + 4 * i) : fs_read_double(weights + 8 * i);
    within = within && x <= bound && x >= -bound;
  }
  return within ? FEDSEL_DONE : FEDSEL_WEIGHTS;
}

void fs_ratio_of_epsilon(fs_ratio *r, const fedsel_epsilon *epsilon)
{
  fs_big high;
  fs_set(&r->p, epsilon->numerator);
  fs_set(&r->q, epsilon->denominator[0] | (uint64_t)epsilon->denominator[1] << 32);
  fs_set(&high, epsilon->denominator[2]);
  fs_shift_left(&high, &high, 64);
  fs_add(&r->q, &r->q, &high);
}

static bool is_at_most(const fedsel_epsilon *charge, const fedsel_epsilon *most)
{
  fs_ratio a, b;
  fs_ratio_of_epsilon(&a, charge);
  fs_ratio_of_epsilon(&b, most);
  return fs_ratio_compare(&a, &b) <= 0;
}

bool fs_is_affordable(const fedsel_policy *policy, const fedsel_request *request,
                      const fedsel_epsilon *charge)
{
  bool right = is_at_most(charge, &policy->per_report);
  for (size_t i = 0; i < policy->menu_count; i++) {
    const fedsel_menu_entry *entry = &policy->menu[i];
    if (entry->per_report.numerator > 0 && fs_concerns(entry->purpose, entry->recipient, request))
      right = right && is_at_most(charge, &entry->per_report);
  }
  return right;
}

/* ---- Adding up ---- */

/* lcm(1, …, 100, 2^40, 10^17) */
static void grid(fs_big *r)
{
  fs_set(r, UINT64_C(1) << 40);
  for (uint32_t i = 0; i < 17; i++)
    fs_times_small(r, r, 5);
  for (uint64_t n = 3; n < 100; n += 2) {
    uint64_t p = 3;
    while (p < n && n % p != 0)
      p += 2;
    if (p < n || n == 5)
      continue;
    for (uint64_t power = n; power <= 100; power *= n)
      fs_times_small(r, r, n);
  }
}

static void lowest_terms(fs_ratio *r)
{
  fs_big a, b, rest;
  fs_copy(&a, &r->p);
  fs_copy(&b, &r->q);
  while (!fs_is_zero(&b) && b.n != FS_POISONED) {
    fs_divide(NULL, &rest, &a, &b);
    fs_copy(&a, &b);
    fs_copy(&b, &rest);
  }
  fs_divide(&r->p, NULL, &r->p, &a);
  fs_divide(&r->q, NULL, &r->q, &a);
}

void fs_add_charge(fs_ratio *sum, const fs_ratio *charge)
{
  fs_big all, rest;
  grid(&all);
  fs_times(&rest, &all, &charge->q);
  fs_divide(NULL, &rest, &rest, &sum->q);
  if (!fs_is_zero(&rest)) { /* rounded up to the grid */
    fs_times(&sum->p, &sum->p, &all);
    fs_divide(&sum->p, &rest, &sum->p, &sum->q);
    fs_copy(&sum->q, &all);
    fs_set(&all, fs_is_zero(&rest) ? 0 : 1);
    fs_add(&sum->p, &sum->p, &all);
  }
  fs_times(&rest, &charge->p, &sum->q);
  fs_times(&sum->p, &sum->p, &charge->q);
  fs_add(&sum->p, &sum->p, &rest);
  fs_times(&sum->q, &sum->q, &charge->q);
  lowest_terms(sum);
}
