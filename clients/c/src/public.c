#include "public.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "exact.h"

uint32_t fs_read32(const uint8_t *bytes)
{
  return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

uint64_t fs_read64(const uint8_t *bytes)
{
  return fs_read32(bytes) | (uint64_t)fs_read32(bytes + 4) << 32;
}

float fs_read_single(const uint8_t *bytes)
{
  const uint32_t bits = fs_read32(bytes);
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

double fs_read_double(const uint8_t *bytes)
{
  const uint64_t bits = fs_read64(bytes);
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

void fs_write32(uint8_t *bytes, uint32_t value)
{
  for (uint32_t i = 0; i < 4; i++)
    bytes[i] = (uint8_t)(value >> (8 * i));
}

void fs_write64(uint8_t *bytes, uint64_t value)
{
  fs_write32(bytes, (uint32_t)value);
  fs_write32(bytes + 4, (uint32_t)(value >> 32));
}

void fs_write_single(uint8_t *bytes, float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  fs_write32(bytes, bits);
}

/* ---- SHA-256 (FIPS 180-4) ---- */

static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, uint32_t bits) { return x >> bits | x << (32 - bits); }

static void compress(fs_sha256 *hash)
{
  uint32_t w[64], s[8];
  for (uint32_t i = 0; i < 16; i++) {
    const uint8_t *b = hash->block + 4 * i;
    w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
  }
  for (uint32_t i = 16; i < 64; i++) {
    const uint32_t x = w[i - 15], y = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) +
           (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
  }
  memcpy(s, hash->state, sizeof s);
  for (uint32_t i = 0; i < 64; i++) {
    const uint32_t mixed = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
    const uint32_t first = s[7] + mixed + ((s[4] & s[5]) ^ (~s[4] & s[6])) + ROUNDS[i] + w[i];
    const uint32_t turned = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
    const uint32_t second = turned + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += first;
    s[0] = first + second;
  }
  for (uint32_t i = 0; i < 8; i++)
    hash->state[i] += s[i];
}

void fs_sha256_begin(fs_sha256 *hash)
{
  static const uint32_t FIRST[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, FIRST, sizeof FIRST);
  hash->length = 0;
}

void fs_sha256_add(fs_sha256 *hash, const void *bytes, size_t count)
{
  const uint8_t *from = bytes;
  for (size_t i = 0; i < count; i++) {
    hash->block[hash->length++ % 64] = from[i];
    if (hash->length % 64 == 0)
      compress(hash);
  }
}

void fs_sha256_end(fs_sha256 *hash, uint8_t digest[32])
{
  const uint64_t bits = 8 * hash->length;
  uint8_t byte = 0x80;
  do {
    fs_sha256_add(hash, &byte, 1);
    byte = 0;
  } while (hash->length % 64 != 56);
  for (uint32_t i = 0; i < 8; i++) {
    byte = (uint8_t)(bits >> (56 - 8 * i));
    fs_sha256_add(hash, &byte, 1);
  }
  for (uint32_t i = 0; i < 32; i++)
    digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- Philox with the key of numpy's SeedSequence ---- */

static uint32_t hashed(uint32_t v, uint32_t *h, uint32_t factor)
{
  v ^= *h;
  *h *= factor;
  v *= *h;
  return v ^ v >> 16;
}

static uint32_t pooled(uint32_t x, uint32_t y)
{
  const uint32_t r = UINT32_C(0xca01f9dd) * x - UINT32_C(0x4973f715) * y;
  return r ^ r >> 16;
}

static void key_of(uint64_t key[2], const uint32_t e[8])
{
  uint32_t pool[4], h = 0x43b0d7e5, s[4];
  for (uint32_t i = 0; i < 4; i++)
    pool[i] = hashed(e[i], &h, 0x931e8875);
  for (uint32_t i = 0; i < 4; i++)
    for (uint32_t j = 0; j < 4; j++)
      if (i != j)
        pool[j] = pooled(pool[j], hashed(pool[i], &h, 0x931e8875));
  for (uint32_t i = 4; i < 8; i++)
    for (uint32_t j = 0; j < 4; j++)
      pool[j] = pooled(pool[j], hashed(e[i], &h, 0x931e8875));
  h = 0x8b51f9dd;
  for (uint32_t i = 0; i < 4; i++)
    s[i] = hashed(pool[i], &h, 0x58f38ded);
  key[0] = s[0] | (uint64_t)s[1] << 32;
  key[1] = s[2] | (uint64_t)s[3] << 32;
}

void fs_bits_begin(fs_bits_of *bits, uint64_t seed, const char *purpose)
{
  fs_sha256 hash;
  uint8_t digest[32];
  uint32_t e[8] = {(uint32_t)seed, (uint32_t)(seed >> 32), 0, 0, 0, 0, 0, 0};
  fs_sha256_begin(&hash);
  fs_sha256_add(&hash, purpose, strlen(purpose));
  fs_sha256_end(&hash, digest);
  for (uint32_t i = 0; i < 4; i++)
    e[4 + i] = fs_read32(digest + 4 * i);
  memset(bits, 0, sizeof *bits);
  key_of(bits->key, e);
  bits->position = 4;
}

static void next_block(fs_bits_of *bits)
{
  uint64_t c[4] = {bits->counter, 0, 0, 0}, k0 = bits->key[0], k1 = bits->key[1];
  for (uint32_t round = 0; round < 10; round++) {
    uint64_t high_a, low_a, high_b, low_b;
    fs_multiply64(UINT64_C(0xD2E7470EE14C6C93), c[0], &high_a, &low_a);
    fs_multiply64(UINT64_C(0xCA5A826395121157), c[2], &high_b, &low_b);
    c[0] = high_b ^ c[1] ^ k0;
    c[1] = low_b;
    c[2] = high_a ^ c[3] ^ k1;
    c[3] = low_a;
    k0 += UINT64_C(0x9E3779B97F4A7C15);
    k1 += UINT64_C(0xBB67AE8584CAA73B);
  }
  memcpy(bits->block, c, sizeof c);
}

uint64_t fs_bits_next(fs_bits_of *bits)
{
  if (bits->position == 4) {
    bits->counter += 1;
    next_block(bits);
    bits->position = 0;
  }
  return bits->block[bits->position++];
}

/* ---- Scores ---- */

float fs_finite(float x)
{
  if (x != x)
    return 0.0F;
  return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/* Butterflies at distances 1, 2, 4, …: the same sums as the transform that moves its halves. */
void fs_hadamard(float *x, uint64_t width)
{
  for (uint64_t step = 1; step < width; step *= 2)
    for (uint64_t i = 0; i < width; i++)
      if ((i & step) == 0) {
        const float a = x[i], b = x[i + step];
        x[i] = a + b;
        x[i + step] = a - b;
      }
}

/* Append a number in decimal. */
static char *decimal(char *at, uint64_t number)
{
  char digits[20];
  uint32_t n = 0;
  do {
    digits[n++] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  while (n > 0)
    *at++ = digits[--n];
  *at = '\0';
  return at;
}

static char *append(char *at, const char *text)
{
  const size_t length = strlen(text);
  memcpy(at, text, length + 1);
  return at + length;
}

#define PURPOSE_BYTES 72 /* two texts of 16 and 11 characters, two numbers of at most 20 digits */

void fs_rotated(float *scores, uint64_t width, const float *vector, uint64_t dim, uint64_t seed,
                uint32_t round, uint64_t rotation)
{
  char purpose[PURPOSE_BYTES], *at = decimal(append(purpose, "signs of round "), round);
  fs_bits_of bits;
  uint64_t word = 0;
  if (rotation > 0)
    decimal(append(at, ", rotation "), rotation);
  fs_bits_begin(&bits, seed, purpose);
  for (uint64_t i = 0; i < width; i++) {
    if (i % 8 == 0 && i < dim)
      word = fs_bits_next(&bits);
    const bool plus = (word >> (8 * (i % 8) + 7) & 1) != 0;
    scores[i] = i >= dim ? 0.0F : plus ? vector[i] : -vector[i];
  }
  fs_hadamard(scores, width);
  for (uint64_t i = 0; i < width; i++)
    scores[i] = fs_finite(scores[i]);
}

static uint32_t mixed(uint32_t x)
{
  x ^= x >> 16;
  x *= UINT32_C(0x21f0aaad);
  x ^= x >> 15;
  x *= UINT32_C(0xd35a2d97);
  return x ^ x >> 15;
}

static uint32_t word_at(uint32_t state, uint32_t place)
{
  return mixed(state + place * UINT32_C(0x9e3779b9));
}

uint32_t fs_fresh_state(uint64_t seed, uint32_t round, uint64_t basis)
{
  char purpose[PURPOSE_BYTES];
  fs_bits_of bits;
  decimal(append(purpose, "bases of round "), round);
  fs_bits_begin(&bits, seed, purpose);
  const uint64_t key = fs_bits_next(&bits);
  return mixed(mixed((uint32_t)basis ^ (uint32_t)key) ^ (uint32_t)(key >> 32));
}

static int32_t bits_set(uint32_t x)
{
  int32_t count = 0;
  for (; x != 0; x &= x - 1)
    count += 1;
  return count;
}

/* The score of a codeword that is drawn by itself, for d < 64. */
static float drawn_score(const float *vector, uint64_t dim, uint32_t state, uint32_t slot)
{
  float sum = 0.0F;
  double square = 0.0;
  for (uint32_t i = 0; i < dim; i++) {
    const uint32_t place = 2 * (slot * (uint32_t)dim + i);
    const uint32_t a = word_at(state, place), b = word_at(state, place + 1);
    const int32_t set = bits_set(a) + bits_set(b >> 16);
    const int32_t entry = (set - 24) * 131072 + 2 * (int32_t)(b & 0xffff) - 65535;
    square += (double)entry * (double)entry;
    const float product = (float)entry * vector[i];
    sum = sum + product;
  }
  const float scale = (float)floor(4294967296.0 / sqrt(square) + 0.5);
  return sum * scale;
}

static void flip_signs(float *x, uint64_t width, uint32_t state, uint32_t place)
{
  for (uint64_t i = 0; i < width; i++)
    if ((word_at(state, place + (uint32_t)(i / 32)) >> (i % 32) & 1) != 0)
      x[i] = -x[i];
}

void fs_fresh_scores(float *scores, uint64_t width, const float *vector, uint64_t dim,
                     uint32_t factors, uint32_t state, uint64_t block)
{
  if (factors == 0) {
    for (uint64_t i = 0; i < width; i++)
      scores[i] = fs_finite(drawn_score(vector, dim, state, (uint32_t)(block * width + i)));
    return;
  }
  for (uint64_t i = 0; i < width; i++)
    scores[i] = i < dim ? vector[i] : 0.0F;
  for (uint32_t f = 0; f < factors; f++) {
    flip_signs(scores, width, state, (uint32_t)((block * factors + f) * (width / 32)));
    fs_hadamard(scores, width);
  }
  for (uint64_t i = 0; i < width; i++)
    scores[i] = fs_finite(scores[i]);
}
