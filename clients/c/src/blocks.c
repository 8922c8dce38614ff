/* Loops over answers and blocks take the same steps whatever the answer is: none ends early. */

#include "blocks.h"

#include <string.h>

#define MOST_ANSWERS (UINT64_C(1) << 16)
#define MOST_SUBSETS (UINT64_C(1) << 13)
#define MOST_MEMBERS (UINT64_C(1) << 20) /* of the blocks of shift 0 in all bases together */

/* ---- Primes below 2^18 ---- */

static bool is_prime(uint64_t n)
{
  for (uint64_t p = 2; p * p <= n; p++)
    if (n % p == 0)
      return false;
  return n > 1;
}

static uint64_t power(uint64_t x, uint64_t exponent, uint64_t prime)
{
  uint64_t product = 1;
  for (; exponent > 0; exponent >>= 1, x = x * x % prime)
    if ((exponent & 1) != 0)
      product = product * x % prime;
  return product;
}

static bool is_primitive(uint64_t root, uint64_t prime)
{
  uint64_t rest = prime - 1;
  for (uint64_t p = 2; p <= rest; p++) {
    if (rest % p != 0)
      continue;
    if (power(root, (prime - 1) / p, prime) == 1)
      return false;
    while (rest % p == 0)
      rest /= p;
  }
  return true;
}

static uint64_t smallest_root(uint64_t prime)
{
  uint64_t root = 2;
  while (!is_primitive(root, prime))
    root += 1;
  return root;
}

/* ---- Which blocks there are ---- */

/* How many subsets of k of n there are; beyond the limit, some number that is. */
static uint64_t choose(uint64_t n, uint64_t k)
{
  const uint64_t few = k < n - k ? k : n - k;
  uint64_t count = 1;
  for (uint64_t i = 1; i <= few && count <= MOST_SUBSETS; i++)
    count = count * (n - few + i) / i;
  return count;
}

static bool subsets(fs_blocks *blocks, uint64_t answers, uint64_t k)
{
  if (k >= answers)
    return false;
  blocks->answers = answers;
  blocks->taken = k;
  blocks->size = k == 1 ? answers : choose(answers, k);
  blocks->holding = blocks->size * k / answers;
  return k == 1 || blocks->size <= MOST_SUBSETS;
}

bool fs_blocks_of(fs_blocks *blocks, const fedsel_request *request)
{
  const uint64_t answers = request->dim, k = request->k_count;
  const uint64_t prime = request->words, classes = request->bases;
  memset(blocks, 0, sizeof *blocks);
  if (answers < 2 || answers > MOST_ANSWERS || k < 1)
    return false;
  if (classes == 0)
    return subsets(blocks, answers, k);
  if (prime < 3 || prime < answers || prime > 2 * MOST_ANSWERS || !is_prime(prime))
    return false;
  if (classes < 2 || (prime - 1) % classes != 0 || k >= classes || k > MOST_MEMBERS / (prime - 1))
    return false;
  blocks->answers = blocks->size = prime;
  blocks->taken = k;
  blocks->classes = classes;
  blocks->holding = k * ((prime - 1) / classes);
  blocks->root = power(smallest_root(prime), (prime - 1) / classes, prime);
  return true;
}

/* ---- Which answers they hold ---- */

/* Whether a residue is of one of `taken` classes, from that of a power of the root on. */
static bool is_of_classes(const fs_blocks *blocks, uint64_t x, uint64_t first)
{
  const uint64_t prime = blocks->answers;
  const uint64_t own = power(x, (prime - 1) / blocks->classes, prime);
  uint32_t found = 0;
  for (uint64_t i = 0; i < blocks->taken; i++) {
    found |= own == first;
    first = first * blocks->root % prime;
  }
  return found != 0;
}

static bool shift_holds(const fs_blocks *blocks, uint64_t first, uint64_t shift, uint64_t answer)
{
  const uint64_t x = (answer + blocks->answers - shift) % blocks->answers;
  return is_of_classes(blocks, x, first);
}

/* Subsets are in lexicographic order: first those that take the next answer, `all·k/n` of them. */
static bool subset_holds(const fs_blocks *blocks, uint64_t block, uint64_t answer)
{
  uint64_t all = blocks->size, k = blocks->taken;
  uint32_t found = 0;
  for (uint64_t i = 0; i < blocks->answers; i++) {
    const uint64_t taking = all * k / (blocks->answers - i);
    const bool takes = block < taking;
    found |= takes && i == answer;
    block -= takes ? 0 : taking;
    all = takes ? taking : all - taking;
    k -= takes;
  }
  return found != 0;
}

bool fs_holds(const fs_blocks *blocks, uint64_t basis, uint64_t block, uint64_t answer)
{
  if (blocks->classes == 0)
    return subset_holds(blocks, block, answer);
  return shift_holds(blocks, power(blocks->root, basis, blocks->answers), block, answer);
}

static uint64_t shift_at(const fs_blocks *blocks, uint64_t basis, uint64_t answer, bool holding,
                         uint64_t pick)
{
  const uint64_t first = power(blocks->root, basis, blocks->answers);
  uint64_t seen = 0, chosen = 0;
  for (uint64_t shift = 0; shift < blocks->size; shift++) {
    seen += shift_holds(blocks, first, shift, answer) == holding;
    chosen += seen <= pick;
  }
  return chosen;
}

/* `mine` are the subsets that are still to be chosen among: those that hold the answer, or do not. */
static uint64_t subset_at(const fs_blocks *blocks, uint64_t answer, bool holding, uint64_t pick)
{
  uint64_t all = blocks->size, k = blocks->taken, block = 0;
  uint64_t mine = holding ? blocks->holding : all - blocks->holding;
  for (uint64_t i = 0; i < blocks->answers; i++) {
    const uint64_t n = blocks->answers - i, before = i < answer;
    const uint64_t taking = all * k / n, others = n - before;
    /* Of those before the answer, a subset that holds it takes one less, beside it. */
    const uint64_t wanted = before && holding ? k - 1 : k;
    const uint64_t own = i == answer ? (holding ? mine : 0) : mine * wanted / others;
    const bool takes = pick < own;
    pick -= takes ? 0 : own;
    block += takes ? 0 : taking;
    mine = takes ? own : mine - own;
    all = takes ? taking : all - taking;
    k -= takes;
  }
  return block;
}

uint64_t fs_block_at(const fs_blocks *blocks, uint64_t basis, uint64_t answer, bool holding,
                     uint64_t pick)
{
  return blocks->classes == 0 ? subset_at(blocks, answer, holding, pick)
                              : shift_at(blocks, basis, answer, holding, pick);
}

/* ---- The draw ---- */

uint64_t fs_draw_block(const fs_ranks *law, const fs_blocks *blocks, uint64_t basis,
                       uint64_t answer, bool is_answer, fs_stream *stream)
{
  const uint64_t holding = blocks->holding, others = blocks->size - holding;
  if (!fs_by_rejection(law)) {
    const bool held = fs_rank_at(law, fs_below(stream, law->total)) < holding;
    const uint64_t pick = fs_below(stream, !is_answer ? blocks->size : held ? holding : others);
    const uint64_t block = fs_block_at(blocks, basis, answer, held, pick);
    return is_answer ? block : pick;
  }
  while (!stream->failed) {
    const uint64_t x = fs_below(stream, law->n * law->high), block = x / law->high;
    if (law->high == law->low)
      return block;
    const bool held = fs_holds(blocks, basis, block, answer);
    const uint64_t equal = !is_answer ? blocks->size : held ? holding : others;
    const uint64_t larger = !is_answer || held ? 0 : holding;
    if (x % law->high < fs_weight(law, larger + fs_below(stream, equal)))
      return block;
  }
  return 0;
}
