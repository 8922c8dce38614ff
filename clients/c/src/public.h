/* What both ends derive from public numbers: digests, random bits, scores. */
#ifndef FEDSEL_PUBLIC_H
#define FEDSEL_PUBLIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t fs_read32(const uint8_t *bytes);
uint64_t fs_read64(const uint8_t *bytes);
float fs_read_single(const uint8_t *bytes);
double fs_read_double(const uint8_t *bytes);
void fs_write32(uint8_t *bytes, uint32_t value);
void fs_write64(uint8_t *bytes, uint64_t value);
void fs_write_single(uint8_t *bytes, float value);

typedef struct {
  uint32_t state[8];
  uint64_t length;
  uint8_t block[64];
} fs_sha256;

void fs_sha256_begin(fs_sha256 *hash);
void fs_sha256_add(fs_sha256 *hash, const void *bytes, size_t count);
void fs_sha256_end(fs_sha256 *hash, uint8_t digest[32]);

/* Philox4x64-10 with the key of a seed and a purpose. */
typedef struct {
  uint64_t key[2], counter, block[4];
  uint32_t position;
} fs_bits_of;

void fs_bits_begin(fs_bits_of *bits, uint64_t seed, const char *purpose);
uint64_t fs_bits_next(fs_bits_of *bits);

/* In place, of a power of two many. */
void fs_hadamard(float *x, uint64_t width);
float fs_finite(float x);

/* The scores of rotation number `rotation` of RJ: `width` of them. */
void fs_rotated(float *scores, uint64_t width, const float *vector, uint64_t dim, uint64_t seed,
                uint32_t round, uint64_t rotation);
/* Where the words of a basis of FJ begin. */
uint32_t fs_fresh_state(uint64_t seed, uint32_t round, uint64_t basis);
/* The scores of one block of FJ: `width` codewords from number block·width on. */
void fs_fresh_scores(float *scores, uint64_t width, const float *vector, uint64_t dim,
                     uint32_t factors, uint32_t state, uint64_t block);

#endif
