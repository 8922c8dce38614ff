#define _DEFAULT_SOURCE /* getentropy of <unistd.h> */

#include "posix.h"

#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

static bool next_word(void *context, uint64_t *word)
{
  (void)context;
  return getentropy(word, sizeof *word) == 0;
}

fedsel_entropy fedsel_posix_entropy(void)
{
  const fedsel_entropy entropy = {next_word, NULL};
  return entropy;
}
