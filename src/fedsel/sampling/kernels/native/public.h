/* The public signs of rotated bases, many rounds at a time. `solutions.rotated` defines them: the
   top bits of the bytes of numpy's Philox4x64, seeded by numpy's SeedSequence. Both are frozen by
   numpy; here only so that a round of few clients does not wait for them. */

#define POOL 4

INLINE uint32_t hashed(uint32_t value, uint32_t *constant, uint32_t multiplier) {
    value ^= *constant;
    *constant *= multiplier;
    value *= *constant;
    return value ^ value >> 16;
}

INLINE uint32_t mixed(uint32_t x, uint32_t y) {
    uint32_t result = 0xca01f9ddu * x - 0x4973f715u * y;
    return result ^ result >> 16;
}

/* SeedSequence(entropy, spawn_key).generate_state(2, uint64); entropy has POOL words or more. */
INLINE void seed_of(const uint32_t *entropy, int64_t count, const uint32_t *spawn, uint64_t key[2]) {
    uint32_t pool[POOL], constant = 0x43b0d7e5u, words[4];
    for (int i = 0; i < POOL; i++) pool[i] = hashed(entropy[i], &constant, 0x931e8875u);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (from != to) pool[to] = mixed(pool[to], hashed(pool[from], &constant, 0x931e8875u));
    for (int64_t i = POOL; i < count + POOL; i++) {
        uint32_t next = i < count ? entropy[i] : spawn[i - count];
        for (int to = 0; to < POOL; to++)
            pool[to] = mixed(pool[to], hashed(next, &constant, 0x931e8875u));
    }
    constant = 0x8b51f9ddu;
    for (int i = 0; i < 4; i++) words[i] = hashed(pool[i % POOL], &constant, 0x58f38dedu);
    key[0] = words[0] | (uint64_t)words[1] << 32;
    key[1] = words[2] | (uint64_t)words[3] << 32;
}

#define BLOCKS_OF_SIGNS 4
#define SIGNS_OF_A_BLOCK 32

/* Blocks of numpy's Philox4x64-10, whose first counter is 1: several, for one alone mostly waits. */
INLINE void wide_philox(uint64_t counter, const uint64_t key[2], uint64_t out[BLOCKS_OF_SIGNS][4]) {
    uint64_t k0 = key[0], k1 = key[1];
    for (uint64_t b = 0; b < BLOCKS_OF_SIGNS; b++) {
        out[b][0] = counter + b;
        out[b][1] = out[b][2] = out[b][3] = 0;
    }
    for (int round = 0; round < ROUNDS_OF_PHILOX; round++) {
        for (int b = 0; b < BLOCKS_OF_SIGNS; b++) {
            uint64_t *c = out[b];
            uint64_t high_0 = mulhi(0xD2E7470EE14C6C93u, c[0]), low_0 = 0xD2E7470EE14C6C93u * c[0];
            uint64_t high_1 = mulhi(0xCA5A826395121157u, c[2]), low_1 = 0xCA5A826395121157u * c[2];
            c[0] = high_1 ^ c[1] ^ k0;
            c[1] = low_1;
            c[2] = high_0 ^ c[3] ^ k1;
            c[3] = low_0;
        }
        k0 += 0x9E3779B97F4A7C15u;
        k1 += 0xBB67AE8584CAA73Bu;
    }
}

/* ±1 (rounds, d): a row for each spawn key (rounds, POOL) beside the seed's entropy. */
static void public_signs(const uint32_t *entropy, int64_t count, const uint32_t *spawn,
                         int64_t rounds, float *signs, int64_t d) {
    const int64_t at_once = BLOCKS_OF_SIGNS * SIGNS_OF_A_BLOCK;
    for (int64_t t = 0; t < rounds; t++) {
        uint64_t key[2], words[BLOCKS_OF_SIGNS][4];
        float *row = signs + t * d, some[BLOCKS_OF_SIGNS * SIGNS_OF_A_BLOCK];
        seed_of(entropy, count, spawn + t * POOL, key);
        for (int64_t i = 0; i < d; i += at_once) {
            wide_philox((uint64_t)(i / SIGNS_OF_A_BLOCK + 1), key, words);
            for (int j = 0; j < BLOCKS_OF_SIGNS * 4; j++) /* no branches: who could foresee them */
                for (int byte = 0; byte < 8; byte++) {
                    int32_t twice = (int32_t)(words[j / 4][j % 4] >> (8 * byte + 6) & 2);
                    some[8 * j + byte] = (float)(twice - 1);
                }
            memcpy(row + i, some, (size_t)(d - i < at_once ? d - i : at_once) * sizeof *row);
        }
    }
}
