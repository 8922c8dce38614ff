/* A report of an update: ./example request.bin report.bin < update, one number a line.
 *
 * It shows the three calls. It keeps no ledger, so nothing here limits what is spent. */

#include <stdio.h>

#include "fedsel.h"
#include "posix/posix.h"

#define MOST_DIM 1024
#define WORDS 2048 /* 16 KB: fedsel_memory of this many entries, whatever the solution */

static int failed(const char *what)
{
  fprintf(stderr, "%s\n", what);
  return 1;
}

int main(int count, char **arguments)
{
  uint8_t bytes[FEDSEL_MOST_REQUEST_BYTES + 1], report[FEDSEL_MOST_REPORT_BYTES];
  uint64_t memory[WORDS];
  double update[MOST_DIM];
  float residual[MOST_DIM] = {0}; /* what the last report of the run left */
  fedsel_request request;
  fedsel_plan plan;

  FILE *file = count == 3 ? fopen(arguments[1], "rb") : NULL;
  if (file == NULL)
    return failed("example request.bin report.bin < update");
  const size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  if (fedsel_read(&request, bytes, length) != FEDSEL_DONE)
    return failed("no request");
  if (request.dim > MOST_DIM || fedsel_prepare(&plan, &request, memory, WORDS) != FEDSEL_DONE)
    return failed("not a request for this device");

  for (uint64_t i = 0; i < request.dim; i++)
    if (scanf("%lf", &update[i]) != 1)
      return failed("not an update of the request");
  if (fedsel_report(&plan, &request, update, residual, fedsel_posix_entropy(), report) !=
      FEDSEL_DONE)
    return failed("no report");

  printf("%s: %zu bytes\n", request.name, plan.report_bytes);
  file = fopen(arguments[2], "wb");
  if (file == NULL || fwrite(report, 1, plan.report_bytes, file) != plan.report_bytes)
    return failed("no place for the report");
  return fclose(file);
}
