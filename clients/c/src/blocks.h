/* Blocks of answers: BR reports one, more likely one that holds the client's own answer. */
#ifndef FEDSEL_BLOCKS_H
#define FEDSEL_BLOCKS_H

#include "draws.h"

/* All subsets of `taken` of the answers, or with classes > 0 for each basis the shifts of a set of
 * residues of a prime. Nothing is tabulated: whether a block holds an answer is computed. */
typedef struct {
  uint64_t answers; /* M of subsets, else the prime */
  uint64_t taken, classes;
  uint64_t size, holding; /* blocks of a basis, and how many of them hold an answer */
  uint64_t root;          /* of order `classes`: its powers tell which class a residue is of */
} fs_blocks;

/* False where the request's numbers give no blocks. */
bool fs_blocks_of(fs_blocks *blocks, const fedsel_request *request);
bool fs_holds(const fs_blocks *blocks, uint64_t basis, uint64_t block, uint64_t answer);
/* The block of that number among those that hold an answer, or among those that do not. */
uint64_t fs_block_at(const fs_blocks *blocks, uint64_t basis, uint64_t answer, bool holding,
                     uint64_t pick);
/* A block by the law; without an answer they are all alike. The steps are those of any answer. */
uint64_t fs_draw_block(const fs_ranks *law, const fs_blocks *blocks, uint64_t basis,
                       uint64_t answer, bool is_answer, fs_stream *stream);

#endif
