/* Texts that people may be shown: UTF-8 of characters of Unicode 3.2, in normal form C. */

#include <string.h>

#include "../fedsel.h"
#include "tables.h"

#define MOST_MARKS 4
/* A character is composed of at most 4; one with its marks of at most 20, before and after. */
#define SEGMENT 20

#define HANGUL 0xAC00U
#define HANGUL_COUNT 11172U
#define LEADING 0x1100U
#define VOWELS 0x1161U
#define TRAILING 0x11A7U

static bool is_within(uint32_t code, const uint32_t (*ranges)[2], uint32_t count)
{
  uint32_t low = 0, high = count;
  while (low < high) {
    const uint32_t middle = (low + high) / 2;
    if (code > ranges[middle][1])
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && code >= ranges[low][0];
}

static bool is_mark(uint32_t code) { return is_within(code, FS_MARKS, FS_MARKS_COUNT); }

static uint32_t class_of(uint32_t code)
{
  for (uint32_t i = 0; i < FS_CLASSES_COUNT; i++)
    if (code >= FS_CLASSES[i][0] && code <= FS_CLASSES[i][1])
      return FS_CLASSES[i][2];
  return 0;
}

/* The composition of two characters; 0 where there is none. */
static uint32_t composed(uint32_t first, uint32_t second)
{
  for (uint32_t i = 0; i < FS_COMPOSED_COUNT; i++)
    if (FS_COMPOSED[i][1] == first && FS_COMPOSED[i][2] == second)
      return FS_COMPOSED[i][0];
  return 0;
}

/* Append what a character is composed of; the new length. */
static uint32_t decompose(uint32_t *parts, uint32_t n, uint32_t code)
{
  uint32_t tail[4], tails = 0;
  for (bool found = true; found && tails < 4;) {
    found = false;
    for (uint32_t i = 0; i < FS_COMPOSED_COUNT && !found; i++)
      if (FS_COMPOSED[i][0] == code) {
        tail[tails++] = FS_COMPOSED[i][2];
        code = FS_COMPOSED[i][1];
        found = true;
      }
  }
  parts[n++] = code;
  while (tails > 0)
    parts[n++] = tail[--tails];
  return n;
}

/* In the order of their classes; those of class 0 stay where they are. */
static void reorder(uint32_t *parts, uint32_t n)
{
  for (uint32_t i = 1; i < n; i++) {
    const uint32_t code = parts[i], kind = class_of(code);
    uint32_t j = i;
    while (kind != 0 && j > 0 && class_of(parts[j - 1]) > kind) {
      parts[j] = parts[j - 1];
      j -= 1;
    }
    parts[j] = code;
  }
}

/* Compose each character with the last one of class 0, unless one between them stands in the way. */
static uint32_t compose(uint32_t *parts, uint32_t n)
{
  uint32_t kept = 1, base = 0, last = 0;
  for (uint32_t i = 1; i < n; i++) {
    const uint32_t kind = class_of(parts[i]);
    const bool blocked = kept > base + 1 && last >= kind;
    const uint32_t whole = blocked ? 0 : composed(parts[base], parts[i]);
    if (whole != 0) {
      parts[base] = whole;
      continue;
    }
    if (kind == 0)
      base = kept;
    last = kind;
    parts[kept++] = parts[i];
  }
  return kept;
}

/* Whether a character and its marks are in normal form. */
static bool is_normal(const uint32_t *segment, uint32_t n)
{
  uint32_t parts[SEGMENT], count = 0;
  for (uint32_t i = 0; i < n; i++)
    count = decompose(parts, count, segment[i]);
  reorder(parts, count);
  return compose(parts, count) == n && memcmp(parts, segment, n * sizeof *segment) == 0;
}

static bool is_hangul_pair(uint32_t first, uint32_t second)
{
  const bool vowel = first - LEADING < 19 && second - VOWELS < 21;
  const bool open = first - HANGUL < HANGUL_COUNT && (first - HANGUL) % 28 == 0;
  return vowel || (open && second - TRAILING - 1 < 27);
}

/* The character at *at, which is moved behind it; UINT32_MAX where the bytes are no UTF-8. */
static uint32_t next_character(const uint8_t *bytes, size_t count, size_t *at)
{
  static const uint32_t LEAST[4] = {0, 0x80, 0x800, 0x10000};
  const uint8_t first = bytes[(*at)++];
  const uint32_t more = first < 0x80 ? 0 : first < 0xC0 ? 4 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  if (more == 4 || first > 0xF4 || more > count - *at)
    return UINT32_MAX;
  uint32_t code = more == 0 ? first : first & (0x3FU >> more);
  for (uint32_t i = 0; i < more; i++) {
    const uint8_t byte = bytes[(*at)++];
    if ((byte & 0xC0) != 0x80)
      return UINT32_MAX;
    code = code << 6 | (byte & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return code < LEAST[more] || code > 0x10FFFF || surrogate ? UINT32_MAX : code;
}

bool fedsel_is_text(const uint8_t *bytes, size_t count)
{
  uint32_t segment[1 + MOST_MARKS], n = 0;
  for (size_t at = 0; at < count;) {
    const uint32_t code = next_character(bytes, count, &at);
    if (!is_within(code, FS_SEEN, FS_SEEN_COUNT) ||
        is_within(code, FS_ABNORMAL, FS_ABNORMAL_COUNT))
      return false;
    const bool first = n == 0, after_space = !first && segment[0] == ' ';
    if (is_mark(code)) {
      if (first || after_space || n > MOST_MARKS)
        return false;
      segment[n++] = code;
      continue;
    }
    if (code == ' ' && (first || after_space || at == count))
      return false;
    if (!first && (!is_normal(segment, n) || (n == 1 && is_hangul_pair(segment[0], code))))
      return false;
    segment[0] = code;
    n = 1;
  }
  return n == 0 || is_normal(segment, n);
}
