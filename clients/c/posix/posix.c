#define _DEFAULT_SOURCE /* getentropy and pread of <unistd.h> */
#define _DARWIN_C_SOURCE

#include "posix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
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

bool fedsel_posix_now(void *context, int64_t *seconds)
{
  (void)context;
  const time_t now = time(NULL);
  *seconds = (int64_t)now;
  return now != (time_t)-1;
}

/* ---- Files ---- */

static int open_file(const char *folder, const char *name)
{
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  if (length < 0 || (size_t)length >= sizeof path)
    return -1;
  return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

/* Make the names of new files durable. */
static bool flush_folder(const char *folder)
{
  const int file = open(folder, O_RDONLY | O_CLOEXEC);
  const bool right = file >= 0 && fsync(file) == 0;
  if (file >= 0)
    close(file);
  return right;
}

bool fedsel_posix_open(fedsel_posix_files *files, const char *folder)
{
  static const char *const NAMES[3] = {"ledger", "witness", "residuals"};
  bool right = true;
  for (int i = 0; i < 3; i++) {
    files->files[i] = open_file(folder, NAMES[i]);
    right = right && files->files[i] >= 0;
  }
  files->lock = open_file(folder, "lock");
  right = right && files->lock >= 0 && flush_folder(folder);
  if (!right)
    fedsel_posix_close(files);
  return right;
}

void fedsel_posix_close(fedsel_posix_files *files)
{
  for (int i = 0; i < 3; i++)
    if (files->files[i] >= 0)
      close(files->files[i]);
  if (files->lock >= 0)
    close(files->lock);
}

static bool set_lock(fedsel_posix_files *files, short kind)
{
  struct flock lock;
  memset(&lock, 0, sizeof lock);
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  while (fcntl(files->lock, F_SETLKW, &lock) != 0)
    if (errno != EINTR)
      return false;
  return true;
}

static bool lock_files(void *context) { return set_lock(context, F_WRLCK); }
static void unlock_files(void *context) { set_lock(context, F_UNLCK); }

static bool read_file(void *context, fedsel_file file, uint64_t offset, void *bytes, size_t count)
{
  const fedsel_posix_files *files = context;
  char *to = bytes;
  while (count > 0) {
    const ssize_t n = pread(files->files[file], to, count, (off_t)offset);
    if (n == 0 || (n < 0 && errno != EINTR))
      return false;
    if (n > 0) {
      to += n;
      offset += (uint64_t)n;
      count -= (size_t)n;
    }
  }
  return true;
}

static bool write_file(void *context, fedsel_file file, uint64_t offset, const void *bytes,
                       size_t count)
{
  const fedsel_posix_files *files = context;
  const char *from = bytes;
  while (count > 0) {
    const ssize_t n = pwrite(files->files[file], from, count, (off_t)offset);
    if (n < 0 && errno != EINTR)
      return false;
    if (n > 0) {
      from += n;
      offset += (uint64_t)n;
      count -= (size_t)n;
    }
  }
  return true;
}

static bool flush_file(void *context, fedsel_file file)
{
  const fedsel_posix_files *files = context;
#ifdef F_FULLFSYNC
  return fcntl(files->files[file], F_FULLFSYNC) == 0; /* macOS: fsync leaves it to the disk */
#else
  return fsync(files->files[file]) == 0;
#endif
}

fedsel_store fedsel_posix_store(fedsel_posix_files *files)
{
  const fedsel_store store = {files, lock_files, unlock_files, read_file, write_file, flush_file};
  return store;
}
