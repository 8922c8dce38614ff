#include "exact.h"

#include <math.h>
#include <string.h>

/* ---- Words: little-endian arrays of 32 bits ---- */

void fs_multiply64(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low)
{
  const uint64_t a0 = a & UINT32_MAX, a1 = a >> 32, b0 = b & UINT32_MAX, b1 = b >> 32;
  const uint64_t first = a0 * b0;
  const uint64_t second = a1 * b0 + (first >> 32);
  const uint64_t third = a0 * b1 + (second & UINT32_MAX);
  *low = (third << 32) | (first & UINT32_MAX);
  *high = a1 * b1 + (second >> 32) + (third >> 32);
}

static uint32_t word_bits(uint32_t x)
{
  uint32_t bits = 0;
  for (; x != 0; x >>= 1)
    bits += 1;
  return bits;
}

/* r has na + nb words, and is neither a nor b. */
static void multiply_words(uint32_t *r, const uint32_t *a, uint32_t na, const uint32_t *b,
                           uint32_t nb)
{
  memset(r, 0, (na + nb) * sizeof *r);
  for (uint32_t i = 0; i < na; i++) {
    uint64_t carry = 0;
    for (uint32_t j = 0; j < nb; j++) {
      carry += (uint64_t)a[i] * b[j] + r[i + j];
      r[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
    r[i + nb] = (uint32_t)carry;
  }
}

/* Shift n words by 0 … 31 bits to the left, in place; what leaves the last word is returned. */
static uint32_t shift_words(uint32_t *w, uint32_t n, uint32_t bits)
{
  uint32_t carry = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t wide = ((uint64_t)w[i] << bits) | carry;
    w[i] = (uint32_t)wide;
    carry = (uint32_t)(wide >> 32);
  }
  return carry;
}

static void unshift_words(uint32_t *w, uint32_t n, uint32_t bits)
{
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t wide = ((uint64_t)(i + 1 < n ? w[i + 1] : 0) << 32) | w[i];
    w[i] = (uint32_t)(wide >> bits);
  }
}

/* One word of a quotient: u − digit·v for the n + 1 words at u, in place (Knuth, algorithm D). */
static uint32_t quotient_word(uint32_t *u, const uint32_t *v, uint32_t n)
{
  const uint64_t top = ((uint64_t)u[n] << 32) | u[n - 1];
  uint64_t digit = u[n] >= v[n - 1] ? UINT32_MAX : top / v[n - 1];
  uint64_t rest = top - digit * v[n - 1];
  while (n > 1 && rest <= UINT32_MAX && digit * v[n - 2] > ((rest << 32) | u[n - 2])) {
    digit -= 1;
    rest += v[n - 1];
  }
  uint64_t product = 0, borrow = 0;
  for (uint32_t i = 0; i < n; i++) {
    product += digit * v[i];
    const uint64_t difference = (uint64_t)u[i] - (uint32_t)product - borrow;
    u[i] = (uint32_t)difference;
    borrow = (difference >> 32) & 1;
    product >>= 32;
  }
  const uint64_t difference = (uint64_t)u[n] - product - borrow;
  u[n] = (uint32_t)difference;
  if (((difference >> 32) & 1) == 0)
    return (uint32_t)digit;
  uint64_t carry = 0;
  for (uint32_t i = 0; i < n; i++) {
    carry += (uint64_t)u[i] + v[i];
    u[i] = (uint32_t)carry;
    carry >>= 32;
  }
  u[n] += (uint32_t)carry;
  return (uint32_t)(digit - 1);
}

/* u of nu words and a spare one, over v of nv ≤ nu words, the last of them not 0: the quotient has
 * nu − nv + 1 words and u is left with the remainder. v is shifted on the way. */
static void divide_words(uint32_t *quotient, uint32_t *u, uint32_t nu, uint32_t *v, uint32_t nv)
{
  const uint32_t shift = 32 - word_bits(v[nv - 1]);
  shift_words(v, nv, shift);
  u[nu] = shift_words(u, nu, shift);
  for (uint32_t i = nu - nv + 1; i-- > 0;)
    quotient[i] = quotient_word(u + i, v, nv);
  unshift_words(u, nv, shift);
}

/* ---- Whole numbers ---- */

static void trim(fs_big *r, uint32_t n)
{
  while (n > 0 && r->w[n - 1] == 0)
    n -= 1;
  r->n = n;
}

/* Whether a result of n words cannot be, by its size or by what it is made of. */
static bool poisons(fs_big *r, const fs_big *a, const fs_big *b, uint32_t n)
{
  if (a->n != FS_POISONED && b->n != FS_POISONED && n <= FS_BIG_WORDS)
    return false;
  r->n = FS_POISONED;
  return true;
}

void fs_set(fs_big *r, uint64_t value)
{
  r->w[0] = (uint32_t)value;
  r->w[1] = (uint32_t)(value >> 32);
  trim(r, 2);
}

void fs_copy(fs_big *r, const fs_big *a)
{
  if (r == a)
    return;
  r->n = a->n;
  if (a->n <= FS_BIG_WORDS)
    memcpy(r->w, a->w, a->n * sizeof *a->w);
}

bool fs_is_zero(const fs_big *a) { return a->n == 0; }

uint32_t fs_bits(const fs_big *a)
{
  return a->n == 0 || a->n == FS_POISONED ? 0 : 32 * (a->n - 1) + word_bits(a->w[a->n - 1]);
}

int fs_compare(const fs_big *a, const fs_big *b)
{
  if (a->n != b->n)
    return a->n < b->n ? -1 : 1;
  if (a->n == FS_POISONED)
    return 0;
  for (uint32_t i = a->n; i-- > 0;)
    if (a->w[i] != b->w[i])
      return a->w[i] < b->w[i] ? -1 : 1;
  return 0;
}

void fs_add(fs_big *r, const fs_big *a, const fs_big *b)
{
  if (poisons(r, a, b, 0))
    return;
  const uint32_t na = a->n, nb = b->n, n = na > nb ? na : nb;
  uint64_t carry = 0;
  for (uint32_t i = 0; i < n; i++) {
    carry += (uint64_t)(i < na ? a->w[i] : 0) + (i < nb ? b->w[i] : 0);
    r->w[i] = (uint32_t)carry;
    carry >>= 32;
  }
  r->n = n;
  if (carry == 0)
    return;
  if (poisons(r, r, r, n + 1))
    return;
  r->w[n] = (uint32_t)carry;
  r->n = n + 1;
}

void fs_subtract(fs_big *r, const fs_big *a, const fs_big *b)
{
  if (poisons(r, a, b, fs_compare(a, b) < 0 ? FS_POISONED : 0))
    return;
  const uint32_t na = a->n, nb = b->n;
  uint64_t borrow = 0;
  for (uint32_t i = 0; i < na; i++) {
    const uint64_t difference = (uint64_t)a->w[i] - (i < nb ? b->w[i] : 0) - borrow;
    r->w[i] = (uint32_t)difference;
    borrow = (difference >> 32) & 1;
  }
  trim(r, na);
}

void fs_times(fs_big *r, const fs_big *a, const fs_big *b)
{
  uint32_t product[FS_BIG_WORDS + 2];
  /* Two words more than there are: the last of them may be 0. */
  const bool bad = a->n == FS_POISONED || b->n == FS_POISONED;
  if (poisons(r, a, b, !bad && a->n + b->n <= FS_BIG_WORDS + 2 ? 0 : FS_POISONED))
    return;
  const uint32_t n = a->n + b->n;
  multiply_words(product, a->w, a->n, b->w, b->n);
  uint32_t used = n;
  while (used > 0 && product[used - 1] == 0)
    used -= 1;
  if (poisons(r, a, b, used))
    return;
  memcpy(r->w, product, used * sizeof *product);
  r->n = used;
}

void fs_times_small(fs_big *r, const fs_big *a, uint64_t b)
{
  fs_big small;
  fs_set(&small, b);
  fs_times(r, a, &small);
}

void fs_shift_left(fs_big *r, const fs_big *a, uint32_t bits)
{
  const uint32_t words = bits / 32, n = fs_is_zero(a) ? 0 : (fs_bits(a) + bits + 31) / 32;
  if (poisons(r, a, a, n))
    return;
  const uint32_t held = a->n;
  uint32_t shifted[FS_BIG_WORDS + 1];
  memset(shifted, 0, sizeof shifted);
  if (held > 0) {
    memcpy(shifted + words, a->w, held * sizeof *shifted);
    shifted[words + held] = shift_words(shifted + words, held, bits % 32);
  }
  memcpy(r->w, shifted, n * sizeof *shifted);
  r->n = n;
}

void fs_shift_right(fs_big *r, const fs_big *a, uint32_t bits)
{
  if (poisons(r, a, a, 0))
    return;
  const uint32_t words = bits / 32;
  if (words >= a->n) {
    r->n = 0;
    return;
  }
  const uint32_t n = a->n - words;
  memmove(r->w, a->w + words, n * sizeof *r->w);
  unshift_words(r->w, n, bits % 32);
  trim(r, n);
}

void fs_divide(fs_big *quotient, fs_big *remainder, const fs_big *a, const fs_big *b)
{
  uint32_t u[FS_BIG_WORDS + 1], v[FS_BIG_WORDS];
  const bool bad = a->n == FS_POISONED || b->n == FS_POISONED || b->n == 0;
  const uint32_t na = a->n, nb = b->n;
  if (bad) {
    if (quotient != NULL)
      quotient->n = FS_POISONED;
    if (remainder != NULL)
      remainder->n = FS_POISONED;
    return;
  }
  if (na < nb) {
    if (remainder != NULL)
      fs_copy(remainder, a);
    if (quotient != NULL)
      quotient->n = 0;
    return;
  }
  uint32_t result[FS_BIG_WORDS + 1];
  memcpy(u, a->w, na * sizeof *u);
  memcpy(v, b->w, nb * sizeof *v);
  divide_words(result, u, na, v, nb);
  if (quotient != NULL) {
    memcpy(quotient->w, result, (na - nb + 1) * sizeof *result);
    trim(quotient, na - nb + 1);
  }
  if (remainder != NULL) {
    memcpy(remainder->w, u, nb * sizeof *u);
    trim(remainder, nb);
  }
}

bool fs_to_u64(const fs_big *a, uint64_t *value)
{
  if (a->n > 2)
    return false;
  *value = (a->n > 0 ? a->w[0] : 0) | (a->n > 1 ? (uint64_t)a->w[1] << 32 : 0);
  return true;
}

/* ---- Doubles, by their bits ---- */

/* The double next to m·2^exponent, half to even; m has its first bit set, and a little more may
 * follow after its last. */
static double nearest_double(uint64_t m, bool more, int64_t exponent)
{
  const int64_t first = exponent + 63; /* 2^first is the power of two below the number */
  const int64_t kept = first < -1022 ? 53 - (-1022 - first) : 53;
  uint64_t bits = 0;
  if (first > 1023)
    return HUGE_VAL;
  if (kept < 0)
    return 0.0;
  if (kept > 0)
    bits = m >> (64 - kept);
  const uint64_t rest = kept == 0 ? m : m << kept;
  const uint64_t half = UINT64_C(1) << 63;
  if (rest > half || (rest == half && (more || (bits & 1) != 0)))
    bits += 1;
  if (first >= -1022) /* a carry out of the 53 bits goes on into the exponent, as it should */
    bits = ((uint64_t)(first + 1022) << 52) + bits;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* x = m·2^exponent for a finite x ≥ 0. */
static uint64_t parts_of_double(double x, int32_t *exponent)
{
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int32_t raw = (int32_t)((bits >> 52) & 0x7ff);
  const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
  *exponent = (raw == 0 ? 1 : raw) - 1075;
  return raw == 0 ? fraction : fraction | (UINT64_C(1) << 52);
}

/* ---- Ratios ---- */

void fs_ratio_set(fs_ratio *r, uint64_t p, uint64_t q)
{
  fs_set(&r->p, p);
  fs_set(&r->q, q);
}

int fs_ratio_compare(const fs_ratio *a, const fs_ratio *b)
{
  fs_big left, right;
  fs_times(&left, &a->p, &b->q);
  fs_times(&right, &b->p, &a->q);
  return fs_compare(&left, &right);
}

void fs_ratio_scale(fs_ratio *r, const fs_ratio *a, uint64_t p, uint64_t q)
{
  fs_times_small(&r->p, &a->p, p);
  fs_times_small(&r->q, &a->q, q);
}

/* p/q = m·2^exponent, a little more if `more`; m has its first bit set. For p > 0. */
static uint64_t leading_bits(const fs_ratio *a, int64_t *exponent, bool *more)
{
  fs_big p, q, quotient, rest;
  const int64_t shift = 66 - ((int64_t)fs_bits(&a->p) - fs_bits(&a->q));
  fs_copy(&p, &a->p);
  fs_copy(&q, &a->q);
  if (shift >= 0)
    fs_shift_left(&p, &p, (uint32_t)shift);
  else
    fs_shift_left(&q, &q, (uint32_t)-shift);
  fs_divide(&quotient, &rest, &p, &q);
  const uint32_t surplus = fs_bits(&quotient) - 64; /* 2 or 3: the quotient has 66 or 67 bits */
  uint64_t m = 0;
  *more = !fs_is_zero(&rest) || (quotient.w[0] & ((1U << surplus) - 1)) != 0;
  fs_shift_right(&quotient, &quotient, surplus);
  fs_to_u64(&quotient, &m);
  *exponent = (int64_t)surplus - shift;
  return m;
}

double fs_ratio_to_double(const fs_ratio *a)
{
  if (fs_is_zero(&a->p))
    return 0.0;
  int64_t exponent;
  bool more;
  const uint64_t m = leading_bits(a, &exponent, &more);
  return nearest_double(m, more, exponent);
}

void fs_ratio_of_double(fs_ratio *r, double x)
{
  int32_t exponent;
  fs_ratio_set(r, parts_of_double(x, &exponent), 1);
  if (exponent >= 0)
    fs_shift_left(&r->p, &r->p, (uint32_t)exponent);
  else
    fs_shift_left(&r->q, &r->q, (uint32_t)-exponent);
}

/* Steele and White's free-format digits: x is rest/whole, and numbers less than below/whole under
 * it or above/whole over it round to it. */
void fs_shortest(double x, uint64_t *digits, uint32_t *power)
{
  int32_t exponent;
  const uint64_t m = parts_of_double(x, &exponent); /* exponent < 0, for x ≤ 1 */
  const bool even = (m & 1) == 0;
  /* At a power of two the doubles below lie twice as close. */
  const uint32_t twice = m == UINT64_C(1) << 52 && exponent > -1074 ? 1 : 0;
  fs_big rest, whole, below, above, sum;
  fs_set(&rest, m);
  fs_shift_left(&rest, &rest, 1 + twice);
  fs_set(&whole, 1);
  fs_shift_left(&whole, &whole, (uint32_t)-exponent + 1 + twice);
  fs_set(&below, 1);
  fs_set(&above, UINT64_C(1) << twice);
  *digits = 0;
  *power = 0;
  if (x >= 1.0) {
    *digits = 1;
    return;
  }
  bool low = false, high = false;
  while (!low && !high) {
    fs_big digit;
    uint64_t next = 0;
    fs_times_small(&rest, &rest, 10);
    fs_times_small(&below, &below, 10);
    fs_times_small(&above, &above, 10);
    fs_divide(&digit, &rest, &rest, &whole);
    fs_to_u64(&digit, &next);
    fs_add(&sum, &rest, &above);
    const int under = fs_compare(&rest, &below), over = fs_compare(&sum, &whole);
    low = under < 0 || (even && under == 0);
    high = over > 0 || (even && over == 0);
    if (high) {
      fs_shift_left(&sum, &rest, 1);
      const int half = fs_compare(&sum, &whole); /* of two that are as near, the even one */
      if (!low || half > 0 || (half == 0 && (next & 1) != 0))
        next += 1;
    }
    *digits = 10 * *digits + next;
    *power += 1;
  }
  while (*digits % 10 == 0 && *power > 0) { /* a 9 that was rounded up */
    *digits /= 10;
    *power -= 1;
  }
}

void fs_ratio_of_decimal(fs_ratio *r, double x)
{
  uint64_t digits = 0;
  uint32_t power = 0;
  if (x > 0.0)
    fs_shortest(x, &digits, &power);
  fs_ratio_set(r, digits, 1);
  for (; power > 0; power--)
    fs_times_small(&r->q, &r->q, 10);
}

void fs_exp_lower(fs_big *r, const fs_ratio *x)
{
  fs_big term, divisor;
  fs_set(&term, 1);
  fs_shift_left(&term, &term, 128);
  fs_copy(r, &term);
  for (uint64_t i = 1; !fs_is_zero(&term) && term.n != FS_POISONED; i++) {
    fs_times(&term, &term, &x->p);
    fs_times_small(&divisor, &x->q, i);
    fs_divide(&term, NULL, &term, &divisor);
    fs_add(r, r, &term);
  }
  if (term.n == FS_POISONED)
    r->n = FS_POISONED;
}

/* ---- Reals ---- */

#define WIDE (2 * FS_REAL_WORDS + 2)

/* sign·w·2^exponent for the n words at w, of which the 256 that lead are kept. */
static void settle(fs_real *r, int sign, const uint32_t *w, uint32_t n, int64_t exponent)
{
  uint32_t moved[WIDE];
  while (n > 0 && w[n - 1] == 0)
    n -= 1;
  if (n == 0 || sign == 0) {
    memset(r, 0, sizeof *r);
    return;
  }
  memset(moved, 0, sizeof moved);
  /* The leading word becomes that of a number of at least eight words. */
  const uint32_t lower = n < FS_REAL_WORDS ? FS_REAL_WORDS - n : 0;
  memcpy(moved + lower, w, n * sizeof *w);
  const uint32_t all = n + lower, shift = 32 - word_bits(moved[all - 1]);
  shift_words(moved, all, shift);
  memcpy(r->w, moved + all - FS_REAL_WORDS, sizeof r->w);
  r->sign = sign;
  r->exponent = (int32_t)(exponent - 32 * (int64_t)lower - shift + 32 * (int64_t)(all - FS_REAL_WORDS));
}

void fs_real_set(fs_real *r, int64_t value)
{
  const uint64_t size = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
  const uint32_t w[2] = {(uint32_t)size, (uint32_t)(size >> 32)};
  settle(r, value < 0 ? -1 : 1, w, 2, 0);
}

void fs_real_of_double(fs_real *r, double x)
{
  int32_t exponent;
  const uint64_t m = parts_of_double(x, &exponent);
  const uint32_t w[2] = {(uint32_t)m, (uint32_t)(m >> 32)};
  settle(r, 1, w, 2, exponent);
}

static void real_of_big(fs_real *r, const fs_big *a)
{
  const uint32_t n = a->n == FS_POISONED ? 0 : a->n;
  const uint32_t skipped = n > WIDE ? n - WIDE : 0;
  settle(r, 1, a->w + skipped, n - skipped, 32 * (int64_t)skipped);
}

void fs_real_of_ratio(fs_real *r, const fs_ratio *a)
{
  fs_real p, q;
  real_of_big(&p, &a->p);
  real_of_big(&q, &a->q);
  fs_real_over(r, &p, &q);
}

void fs_real_of_fraction(fs_real *r, const uint32_t *words, uint32_t n)
{
  uint32_t w[WIDE];
  for (uint32_t i = 0; i < n; i++)
    w[i] = words[n - 1 - i];
  settle(r, 1, w, n, -32 * (int64_t)n);
}

double fs_real_to_double(const fs_real *a)
{
  if (a->sign == 0)
    return 0.0;
  const uint64_t m = ((uint64_t)a->w[FS_REAL_WORDS - 1] << 32) | a->w[FS_REAL_WORDS - 2];
  bool more = false;
  for (uint32_t i = 0; i + 2 < FS_REAL_WORDS; i++)
    more = more || a->w[i] != 0;
  const double x = nearest_double(m, more, (int64_t)a->exponent + 32 * (FS_REAL_WORDS - 2));
  return a->sign < 0 ? -x : x;
}

uint64_t fs_real_floor(const fs_real *a)
{
  const int64_t drop = -((int64_t)a->exponent + 32 * (FS_REAL_WORDS - 2)); /* of the first 64 bits */
  if (a->sign <= 0 || drop >= 64)
    return 0;
  if (drop <= 0)
    return UINT64_C(1) << 63;
  return (((uint64_t)a->w[FS_REAL_WORDS - 1] << 32) | a->w[FS_REAL_WORDS - 2]) >> drop;
}

int fs_real_compare(const fs_real *a, const fs_real *b)
{
  fs_real difference;
  fs_real_subtract(&difference, a, b);
  return difference.sign;
}

void fs_real_scale(fs_real *r, const fs_real *a, int32_t power)
{
  *r = *a;
  if (r->sign != 0)
    r->exponent += power;
}

void fs_real_negate(fs_real *r, const fs_real *a)
{
  *r = *a;
  r->sign = -r->sign;
}

/* |a| + |b| or |a| − |b| for |a| ≥ |b|, with the sign of a. */
static void combine(fs_real *r, const fs_real *a, const fs_real *b, bool minus)
{
  uint32_t wide[WIDE];
  const int64_t gap = (int64_t)a->exponent - b->exponent; /* ≥ 0 */
  if (b->sign == 0 || gap > 32 * (FS_REAL_WORDS + 1)) {
    *r = *a;
    return;
  }
  /* b, from `gap` bits below a on; a begins nine words up. */
  const uint32_t under = FS_REAL_WORDS + 1, place = under - (uint32_t)((gap + 31) / 32);
  memset(wide, 0, sizeof wide);
  memcpy(wide + place, b->w, sizeof b->w);
  wide[place + FS_REAL_WORDS] =
      shift_words(wide + place, FS_REAL_WORDS, (uint32_t)((32 - gap % 32) % 32));
  uint64_t carry = 0;
  for (uint32_t i = 0; i < WIDE; i++) {
    const bool covered = i >= under && i < under + FS_REAL_WORDS;
    const uint64_t x = covered ? a->w[i - under] : 0;
    const uint64_t y = wide[i];
    const uint64_t sum = minus ? x - y - carry : x + y + carry;
    wide[i] = (uint32_t)sum;
    carry = minus ? (sum >> 32) & 1 : sum >> 32;
  }
  settle(r, a->sign, wide, WIDE, (int64_t)a->exponent - 32 * (int64_t)under);
}

/* Whether |a| ≥ |b|, neither of them 0. */
static bool is_at_least(const fs_real *a, const fs_real *b)
{
  if (a->exponent != b->exponent)
    return a->exponent > b->exponent;
  for (uint32_t i = FS_REAL_WORDS; i-- > 0;)
    if (a->w[i] != b->w[i])
      return a->w[i] > b->w[i];
  return true;
}

void fs_real_add(fs_real *r, const fs_real *a, const fs_real *b)
{
  if (a->sign == 0)
    *r = *b;
  else if (b->sign == 0)
    *r = *a;
  else if (is_at_least(a, b))
    combine(r, a, b, a->sign != b->sign);
  else
    combine(r, b, a, a->sign != b->sign);
}

void fs_real_subtract(fs_real *r, const fs_real *a, const fs_real *b)
{
  fs_real negated;
  fs_real_negate(&negated, b);
  fs_real_add(r, a, &negated);
}

void fs_real_times(fs_real *r, const fs_real *a, const fs_real *b)
{
  uint32_t product[2 * FS_REAL_WORDS];
  multiply_words(product, a->w, FS_REAL_WORDS, b->w, FS_REAL_WORDS);
  settle(r, a->sign * b->sign, product, 2 * FS_REAL_WORDS, (int64_t)a->exponent + b->exponent);
}

void fs_real_times_small(fs_real *r, const fs_real *a, int64_t b)
{
  fs_real small;
  fs_real_set(&small, b);
  fs_real_times(r, a, &small);
}

void fs_real_over(fs_real *r, const fs_real *a, const fs_real *b)
{
  uint32_t u[2 * FS_REAL_WORDS + 2], v[FS_REAL_WORDS], quotient[FS_REAL_WORDS + 2];
  const int sign = a->sign * b->sign; /* nothing divides by 0 */
  memset(u, 0, sizeof u);
  memcpy(u + FS_REAL_WORDS + 1, a->w, sizeof a->w);
  memcpy(v, b->w, sizeof v);
  if (sign == 0) {
    memset(r, 0, sizeof *r);
    return;
  }
  divide_words(quotient, u, 2 * FS_REAL_WORDS + 1, v, FS_REAL_WORDS);
  settle(r, sign, quotient, FS_REAL_WORDS + 2,
         (int64_t)a->exponent - b->exponent - 32 * (FS_REAL_WORDS + 1));
}

/* a/b for a small b: a word after the other. */
static void over_small(fs_real *r, const fs_real *a, uint32_t b)
{
  uint32_t wide[FS_REAL_WORDS + 1];
  uint64_t rest = 0;
  for (uint32_t i = FS_REAL_WORDS + 1; i-- > 0;) {
    rest = (rest << 32) | (i > 0 ? a->w[i - 1] : 0);
    wide[i] = (uint32_t)(rest / b);
    rest %= b;
  }
  settle(r, a->sign, wide, FS_REAL_WORDS + 1, (int64_t)a->exponent - 32);
}

void fs_real_power(fs_real *r, const fs_real *a, uint64_t n)
{
  fs_real square = *a, result;
  fs_real_set(&result, 1);
  for (; n > 0; n >>= 1) {
    if ((n & 1) != 0)
      fs_real_times(&result, &result, &square);
    if (n > 1)
      fs_real_times(&square, &square, &square);
  }
  *r = result;
}

/* ln 2 and 1/√(2π), of which the test of the constants computes all digits anew. */
static const uint32_t LN_2[9] = {0xb17217f7, 0xd1cf79ab, 0xc9e3b398, 0x03f2f6af, 0x40f34326,
                                 0x7298b62d, 0x8a0d175b, 0x8baafa2b, 0xe7b87620};
static const uint32_t NORMAL_PEAK[9] = {0x662114cf, 0x50d94234, 0x3f2cf140,
                                        0x2eae38bf, 0xd3829f30, 0x512706d8,
                                        0xc0471b48, 0x02639d2e, 0x9df8ac55};

/* Whether b is below 2^−bits of a. */
static bool is_negligible(const fs_real *b, const fs_real *a, int32_t bits)
{
  return b->sign == 0 || (a->sign != 0 && b->exponent < a->exponent - bits);
}

#define HALVINGS 10

void fs_real_exp(fs_real *r, const fs_real *a)
{
  fs_real ln2, turns, rest, term, total, size = *a;
  fs_real_of_fraction(&ln2, LN_2, 9);
  size.sign = size.sign != 0;
  fs_real_over(&turns, &size, &ln2);
  const uint64_t whole = fs_real_floor(&turns);
  if (whole >= 1U << 24) { /* e^x for x < 0, of no double and no law: the callers' x are below 2,000 */
    memset(r, 0, sizeof *r);
    return;
  }
  fs_real_times_small(&rest, &ln2, (int64_t)whole);
  fs_real_subtract(&rest, &size, &rest);
  if (a->sign < 0)
    fs_real_negate(&rest, &rest);
  fs_real_scale(&rest, &rest, -HALVINGS);
  fs_real_set(&term, 1);
  total = term;
  for (uint32_t i = 1; !is_negligible(&term, &total, 264); i++) {
    fs_real_times(&term, &term, &rest);
    over_small(&term, &term, i);
    fs_real_add(&total, &total, &term);
  }
  for (uint32_t i = 0; i < HALVINGS; i++)
    fs_real_times(&total, &total, &total);
  fs_real_scale(r, &total, a->sign < 0 ? -(int32_t)whole : (int32_t)whole);
}

/* ln(m·2^whole) = 2·artanh((m − 1)/(m + 1)) + whole·ln 2, where m is in [1/2, 2): near 1 nothing
 * cancels. */
void fs_real_ln(fs_real *r, const fs_real *a)
{
  const int32_t first = a->exponent + 32 * FS_REAL_WORDS - 1;
  const int32_t whole = first == -1 ? 0 : first;
  fs_real m, one, z, square, power, term, total;
  fs_real_set(&one, 1);
  fs_real_scale(&m, a, -whole);
  fs_real_subtract(&z, &m, &one);
  fs_real_add(&m, &m, &one);
  fs_real_over(&z, &z, &m);
  fs_real_times(&square, &z, &z);
  power = term = total = z;
  for (uint32_t i = 3; !is_negligible(&term, &total, 264); i += 2) {
    fs_real_times(&power, &power, &square);
    over_small(&term, &power, i);
    fs_real_add(&total, &total, &term);
  }
  fs_real_scale(&total, &total, 1);
  fs_real_of_fraction(&m, LN_2, 9);
  fs_real_times_small(&m, &m, whole);
  fs_real_add(r, &total, &m);
}

/* The tail is 1/2 − φ(c)·(c + c³/3 + c⁵/15 + …). */
void fs_real_normal(fs_real *density, fs_real *tail, const fs_real *c)
{
  fs_real square, term = *c, total = *c;
  fs_real_times(&square, c, c);
  fs_real_scale(&total, &square, -1);
  fs_real_negate(&total, &total);
  fs_real_exp(density, &total);
  fs_real_of_fraction(&total, NORMAL_PEAK, 9);
  fs_real_times(density, density, &total);
  total = *c;
  for (uint32_t n = 3; !is_negligible(&term, &total, 264); n += 2) {
    fs_real_times(&term, &term, &square);
    over_small(&term, &term, n);
    fs_real_add(&total, &total, &term);
  }
  fs_real_times(&total, &total, density);
  fs_real_set(&square, 1);
  fs_real_scale(&square, &square, -1);
  fs_real_subtract(tail, &square, &total);
}
