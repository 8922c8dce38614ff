/* What an owner allows, and how charges are added up. */
#ifndef FEDSEL_POLICY_H
#define FEDSEL_POLICY_H

#include "../fedsel.h"
#include "exact.h"

/* A text that bytes say, or NULL for any. */
bool fs_says(const char *text, const uint8_t *bytes, size_t count);
/* Whether the numbers of a policy are such that its limits hold. */
bool fs_is_sound(const fedsel_policy *policy);
bool fs_concerns(const char *purpose, const char *recipient, const fedsel_request *request);
fedsel_reason fs_check_weights(const fedsel_policy *policy, const fedsel_request *request,
                               const uint8_t *weights, size_t bytes);
bool fs_is_affordable(const fedsel_policy *policy, const fedsel_request *request,
                      const fedsel_epsilon *charge);

void fs_ratio_of_epsilon(fs_ratio *r, const fedsel_epsilon *epsilon);
/* added(sum, charge): never less than the true sum. The sum is in lowest terms. */
void fs_add_charge(fs_ratio *sum, const fs_ratio *charge);
bool fs_has_report(const fedsel_request *request);

#endif
