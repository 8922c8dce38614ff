/* Whole numbers of up to 2,560 bits, and reals of 256 bits.
 *
 * Laws are whole numbers: what decides them is computed with fs_big. Where a law follows from a
 * logarithm or an integral, fs_real has far more bits than the double or the integer that is made
 * of it, and gives the same on every machine: no library's exponential takes part. */
#ifndef FEDSEL_EXACT_H
#define FEDSEL_EXACT_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Singles and doubles are rounded after each operation. */
#if FLT_EVAL_METHOD != 0
#error "doubles are wider than they should be: for 32-bit x86 add -msse2 -mfpmath=sse"
#elif defined(__FAST_MATH__)
#error "-ffast-math changes what is computed"
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__) && defined(__FP_FAST_FMA) && !defined(__STRICT_ANSI__)
#error "gcc fuses products and sums: add -std=c99"
#endif

#define FS_BIG_WORDS 80
#define FS_POISONED UINT32_MAX

/* n words, the least first, the last of them not 0. What does not fit is poisoned, and so is all
 * that is computed from it: fs_plan refuses a law with a poisoned number. */
typedef struct {
  uint32_t n;
  uint32_t w[FS_BIG_WORDS];
} fs_big;

/* p/q ≥ 0, not always in lowest terms; q > 0. */
typedef struct {
  fs_big p, q;
} fs_ratio;

void fs_multiply64(uint64_t a, uint64_t b, uint64_t *high, uint64_t *low);

void fs_set(fs_big *r, uint64_t value);
void fs_copy(fs_big *r, const fs_big *a);
bool fs_is_zero(const fs_big *a);
uint32_t fs_bits(const fs_big *a);
int fs_compare(const fs_big *a, const fs_big *b);
void fs_add(fs_big *r, const fs_big *a, const fs_big *b);
/* a − b for a ≥ b; poisoned for a < b. r may be a or b, as everywhere. */
void fs_subtract(fs_big *r, const fs_big *a, const fs_big *b);
void fs_times(fs_big *r, const fs_big *a, const fs_big *b);
void fs_times_small(fs_big *r, const fs_big *a, uint64_t b);
void fs_shift_left(fs_big *r, const fs_big *a, uint32_t bits);
void fs_shift_right(fs_big *r, const fs_big *a, uint32_t bits);
/* Quotient and remainder; either may be NULL. */
void fs_divide(fs_big *quotient, fs_big *remainder, const fs_big *a, const fs_big *b);
/* The number where it is below 2^64; else false. */
bool fs_to_u64(const fs_big *a, uint64_t *value);

void fs_ratio_set(fs_ratio *r, uint64_t p, uint64_t q);
int fs_ratio_compare(const fs_ratio *a, const fs_ratio *b);
/* a·p/q */
void fs_ratio_scale(fs_ratio *r, const fs_ratio *a, uint64_t p, uint64_t q);
/* The double next to p/q, half to even. */
double fs_ratio_to_double(const fs_ratio *a);
/* A finite double ≥ 0, exactly. */
void fs_ratio_of_double(fs_ratio *r, double x);
/* The shortest decimal that rounds to a double in (0, 1]: digits/10^power. */
void fs_shortest(double x, uint64_t *digits, uint32_t *power);
void fs_ratio_of_decimal(fs_ratio *r, double x);

/* 2^128·E(x), the sum of Taylor terms of e^x that are rounded down. */
void fs_exp_lower(fs_big *r, const fs_ratio *x);

#define FS_REAL_WORDS 8

/* sign·w·2^exponent, where w has 256 bits and the first is set; sign 0 is 0. Each operation is
 * rounded towards 0: off by 2^−255 of the result at most. */
typedef struct {
  int sign;
  int32_t exponent;
  uint32_t w[FS_REAL_WORDS];
} fs_real;

void fs_real_set(fs_real *r, int64_t value);
void fs_real_of_double(fs_real *r, double x);
void fs_real_of_ratio(fs_real *r, const fs_ratio *a);
/* A fraction in [0, 1) of so many words of 32 bits, the most significant first. */
void fs_real_of_fraction(fs_real *r, const uint32_t *words, uint32_t n);
double fs_real_to_double(const fs_real *a);
/* ⌊a⌋ for 0 ≤ a < 2^63; else 0 or 2^63. */
uint64_t fs_real_floor(const fs_real *a);
int fs_real_compare(const fs_real *a, const fs_real *b);
void fs_real_scale(fs_real *r, const fs_real *a, int32_t power);
void fs_real_negate(fs_real *r, const fs_real *a);
void fs_real_add(fs_real *r, const fs_real *a, const fs_real *b);
void fs_real_subtract(fs_real *r, const fs_real *a, const fs_real *b);
void fs_real_times(fs_real *r, const fs_real *a, const fs_real *b);
void fs_real_times_small(fs_real *r, const fs_real *a, int64_t b);
void fs_real_over(fs_real *r, const fs_real *a, const fs_real *b);
void fs_real_power(fs_real *r, const fs_real *a, uint64_t n);
void fs_real_exp(fs_real *r, const fs_real *a);
void fs_real_ln(fs_real *r, const fs_real *a);
/* The density of the normal distribution at c and the probability of more than c, for 0 ≤ c < 8. */
void fs_real_normal(fs_real *density, fs_real *tail, const fs_real *c);

#endif
