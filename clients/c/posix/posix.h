/* What a POSIX system gives a device. */
#ifndef FEDSEL_POSIX_H
#define FEDSEL_POSIX_H

#include "../fedsel.h"

/* The system's random words (getentropy: Linux, the BSDs, macOS). */
fedsel_entropy fedsel_posix_entropy(void);

#endif
