/* What a POSIX system gives a device: random words, a clock, and files that survive a kill. */
#ifndef FEDSEL_POSIX_H
#define FEDSEL_POSIX_H

#include "../fedsel.h"

/* The system's random words (getentropy: Linux, the BSDs, macOS). */
fedsel_entropy fedsel_posix_entropy(void);
bool fedsel_posix_now(void *context, int64_t *seconds);

/* The three files of a ledger in a folder, and one to lock them for a process. Threads of one process
 * must not share a ledger. */
typedef struct {
  int files[3], lock;
} fedsel_posix_files;

/* Open the files of a folder that exists; they are made where they lack. */
bool fedsel_posix_open(fedsel_posix_files *files, const char *folder);
void fedsel_posix_close(fedsel_posix_files *files);
fedsel_store fedsel_posix_store(fedsel_posix_files *files);

#endif
