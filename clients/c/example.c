/* A device with a ledger in a folder:
 *
 *     ./example create FOLDER
 *     ./example answer FOLDER request.bin weights.bin report.bin < update, one number a line
 *
 * The policy is the owner's: here 2 ever, at most 1/2 a report, for FJ with 4 entries. */

#include <stdio.h>
#include <string.h>

#include "fedsel.h"
#include "posix/posix.h"

#define DIM 4

static bool read_update(void *context, const fedsel_request *request, const uint8_t *weights,
                        size_t weight_bytes, double *update)
{
  (void)context, (void)weights, (void)weight_bytes; /* a model would compute it from these */
  for (uint64_t i = 0; i < request->dim; i++)
    if (scanf("%lf", &update[i]) != 1)
      return false;
  return true;
}

static size_t read_file(const char *name, uint8_t *bytes, size_t most)
{
  FILE *file = fopen(name, "rb");
  const size_t count = file == NULL ? 0 : fread(bytes, 1, most, file);
  if (file != NULL)
    fclose(file);
  return count;
}

static bool write_file(const char *name, const uint8_t *bytes, size_t count)
{
  FILE *file = fopen(name, "wb");
  const bool right = file != NULL && fwrite(bytes, 1, count, file) == count;
  return file != NULL && fclose(file) == 0 && right;
}

static int answer(fedsel_device *device, char **names)
{
  uint8_t request[FEDSEL_MOST_REQUEST_BYTES + 1], weights[8 * DIM + 1];
  uint8_t report[FEDSEL_MOST_REPORT_BYTES];
  const size_t request_bytes = read_file(names[0], request, sizeof request);
  const size_t weight_bytes = read_file(names[1], weights, sizeof weights);
  size_t count;
  const fedsel_reason reason =
      fedsel_answer(device, request, request_bytes, weights, weight_bytes, report, &count);
  if (reason != FEDSEL_DONE) {
    fprintf(stderr, "no report, for the reason %d of fedsel.h\n", (int)reason);
    return 1;
  }
  return write_file(names[2], report, count) ? 0 : 1;
}

int main(int count, char **arguments)
{
  static const char *const SOLUTIONS[] = {"FJ"};
  static const uint64_t DIMENSIONS[] = {DIM};
  static const fedsel_limit LIFETIME = {{2, {1, 0, 0}}, 0, NULL, NULL};
  fedsel_policy policy;
  memset(&policy, 0, sizeof policy);
  policy.solutions = SOLUTIONS;
  policy.dimensions = DIMENSIONS;
  policy.limits = &LIFETIME;
  policy.solution_count = policy.dimension_count = policy.limit_count = 1;
  policy.per_report = (fedsel_epsilon){1, {2, 0, 0}};
  policy.clip = 1.0;
  policy.weight_bound = 1e6;
  policy.reports_per_epoch = policy.runs = 1;

  uint64_t memory[128];
  fedsel_posix_files files;
  fedsel_device device;
  memset(&device, 0, sizeof device);
  device.policy = &policy;
  device.entropy = fedsel_posix_entropy();
  device.now = fedsel_posix_now;
  device.update = read_update;
  device.memory = memory;
  device.words = sizeof memory / sizeof *memory;
  if (count < 3 || !fedsel_posix_open(&files, arguments[2])) {
    fprintf(stderr, "example create|answer FOLDER …\n");
    return 1;
  }
  device.store = fedsel_posix_store(&files);
  if (count == 3 && strcmp(arguments[1], "create") == 0)
    return fedsel_create(&device, DIM) == FEDSEL_DONE ? 0 : 1;
  if (count != 6 || fedsel_open(&device, NULL) != FEDSEL_DONE) {
    fprintf(stderr, "no ledger that is whole and as strict as the policy\n");
    return 1;
  }
  return answer(&device, arguments + 3);
}
