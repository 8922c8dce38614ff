/* A solution as the kernels read it: see sampling/_kernels.py, which fills these in. */
#ifndef FEDSEL_TABLES_H
#define FEDSEL_TABLES_H

#include "portable.h"

#define BOTTOM (-1)
#define STEP_BITS 31
#define INPUT_STEPS ((int64_t)1 << STEP_BITS)
#define UNIT ((int64_t)1 << 16)
#define MOST_REPORTS 8

enum { WHOLE, VALUES, SIGNS, BASELINE };
enum { COORDINATES, ROTATED, MATRIX, FRESH };
enum { LOGISTIC, HINGE };

/* A law over ranks; what it will not read is absent. */
typedef struct {
    const int64_t *weights, *edges, *cumulative;
    int64_t runs, total, bottom, maximum, minimum, atoms;
    uint64_t places, surplus; /* what is drawn from first */
    uint64_t certain;         /* the share of 2^64 of a level that is below every weight */
    int uniform, by_rejection, dense, threshold;
    int many; /* whether many attempts are to be expected */
} RankTable;

typedef struct {
    int64_t end, G, L, extra, base, total, offset; /* extra = H − L, base = N·L */
    uint64_t inverse_of_L, inverse_of_extra, surplus;
    int64_t centre; /* N − 1 */
} Window;

typedef struct {
    const Window *windows;
    int64_t count;
} SymbolTable;

typedef struct {
    int unbiased;
    RankTable ranks;
    double radius; /* 0: nothing is negated */
    int64_t low, high, top;
    double clip;
} SignTable;

typedef struct {
    double inside, radius;
    const double *quantiles; /* (2, knots) */
    const double *shares;    /* cumulated */
    int64_t knots, sizes, top;
} BaselineTable;

typedef struct {
    int kind, basis, ranked, flat, plain, decays_at_server;
    int64_t dim, slots, picks;      /* slots: those of one basis */
    int64_t bases, rotations, width; /* a basis is so many rotations, each of so many codewords */
    int64_t factors;                 /* of a rotation of a fresh basis; 0: no rotation, single codewords */
    int64_t places;                  /* of a round's sums: slots of all bases, or entries of an update */
    int64_t at_once;                 /* how many reports are made side by side */
    double clip, momentum, scale, root;
    RankTable ranks;
    SymbolTable symbols;
    SignTable sign;
    BaselineTable baseline;
    const double *units;    /* one a window */
    const float *matrix;    /* (slots, dim) */
    const double *recovery; /* (slots, dim) */
} Tables;

/* Room that the kernels work in: they allocate nothing. */
typedef struct {
    float *weights, *decay, *room;
    float *vectors, *scores; /* (at_once, …): rows of so many floats as fill cache lines */
    int64_t vector_room, score_room;
    double *mean, *turned, *spare;
    int64_t *drawn;
    uint32_t *words; /* the signs of a block */
    float guess; /* where the top of a vector ends, as a share of its length; 0 before the first */
} Scratch;

/* What outlives a client: the round's sums, and where its report goes. */
typedef struct {
    const Tables *tables;
    Scratch *scratch;
    const float *signs; /* (bases · rotations, dim) of this round, where a basis is rotated */
    const uint32_t *round_key; /* of this round, where bases are fresh */
    int64_t *sums;      /* (windows, places) */
    double *total;      /* (places) */
    float *residual;    /* (clients, dim), or none */
    const uint64_t *key;
    const uint64_t *own; /* (reports, 2), random bits of each report alone; or none, and the key */
    uint64_t epoch;
} Sending;

/* Records: dense rows, or the three arrays of CSR. Client i holds the records
   order[starts[i]] … order[starts[i+1]−1]; without starts, the record of its own number. */
typedef struct {
    const float *dense;
    const int64_t *indptr;
    const int32_t *indices;
    const float *data;
    const int8_t *labels;
    const int64_t *order, *starts;
    int64_t rows, dim, entries, ordered, clients;
} Records;

typedef struct {
    Sending sending;
    const Records *records;
    int loss;
    double reg, factor, rate, decay_of_server;
    const int64_t *clients, *ends;
    int64_t count, rounds, keeps; /* keeps: whether every report has a row of its own in sent */
    int64_t clients_with_residual;
    double *weights;
    int64_t *sent;
    double *trace;
    const float *signs; /* (rounds · bases · rotations, dim) */
    const uint32_t *round_keys; /* (rounds, 2) */
} Rounds;

/* Entries of vectors (clients, size); with ``right`` the products of left (clients, size / inner)
   and right (clients, inner). */
typedef struct {
    const float *left, *right;
    int64_t size, inner;
} Part;

typedef struct {
    Sending sending;
    const Part *parts;
    int64_t part_count, stride;
    const float *factors;
    const int64_t *clients;
    int64_t count, keeps, clients_with_residual;
    int64_t *sent;
} Vectors;

#define NOT_FINITE (-1)
#define OUT_OF_BOUNDS (-2)

/* One compilation of the kernels, for one set of instructions. */
typedef struct {
    const char *name;
    int64_t (*run_rounds)(const Rounds *);
    int64_t (*send_vectors)(const Vectors *);
    int64_t (*judge)(const Records *, const int64_t *rows, int64_t count, int loss,
                     const float *weights, int64_t models, double *hits, double *losses);
    int64_t (*nonprivate_rounds)(const Records *, const int64_t *clients, const int64_t *ends,
                                 int64_t rounds, double reg, double rate, float *weights,
                                 float *total);
    void (*draw_dimensions_float)(const RankTable *, const float *, int64_t rows, int64_t d,
                                  const uint64_t *key, uint64_t epoch, const int64_t *clients,
                                  int64_t count, int64_t *chosen);
    void (*draw_dimensions_double)(const RankTable *, const double *, int64_t rows, int64_t d,
                                   const uint64_t *key, uint64_t epoch, const int64_t *clients,
                                   int64_t count, int64_t *chosen);
    void (*draw_symbols)(const SymbolTable *, const double *t, int64_t rows, const uint64_t *key,
                         uint64_t epoch, const int64_t *clients, int64_t count, int64_t *symbols);
    void (*shuffle)(int64_t *order, int64_t count, const uint64_t *key, uint64_t epoch);
    void (*drop)(uint8_t *stays, int64_t count, double rate, const uint64_t *key, uint64_t epoch);
    void (*take_words)(uint64_t *words, int64_t count, const uint64_t *key, uint64_t epoch,
                       uint64_t client);
    void (*public_signs)(const uint32_t *entropy, int64_t count, const uint32_t *spawn,
                         int64_t rounds, float *signs, int64_t d);
    int64_t (*add_codewords)(const Tables *, Scratch *, const uint32_t *key, const int64_t *slots,
                             const int64_t *steps, int64_t count, int64_t *sums);
    void (*hadamard_float)(float *, int64_t);
    void (*hadamard_double)(double *, double *room, int64_t);
    double (*magnitude_at)(int64_t rank, const float *, int64_t d);
    int64_t (*find_equal)(const float *, int64_t d, float sign, float pivot, int64_t pick);
    double (*logarithm)(double);
} Kernels;

extern const Kernels kernels_base;
#if defined(FEDSEL_HAS_AVX2)
extern const Kernels kernels_avx2;
#endif
#if defined(FEDSEL_HAS_AVX512)
extern const Kernels kernels_avx512;
#endif

#endif
