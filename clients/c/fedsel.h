/* fedsel on a device: answers a server's requests under local differential privacy.
 *
 * A report takes three steps:
 *
 *     fedsel_read    the request, byte by byte
 *     fedsel_prepare its law in whole numbers, and what a report costs, exactly
 *     fedsel_report  a report of an update, drawn from the system's random words
 *
 * Nothing is allocated, nothing recurses, and nothing is kept between two calls: all memory is the
 * caller's, and stated. SPEC.md is the protocol. */
#ifndef FEDSEL_H
#define FEDSEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  FEDSEL_DONE,
  FEDSEL_MALFORMED,   /* bytes that are no request, or parameters that do not go together */
  FEDSEL_VERSION,     /* a request of another version */
  FEDSEL_UNSUPPORTED, /* a report of RC or …-RP: this client has no matrices of normal numbers */
  FEDSEL_MEMORY,      /* fewer words than fedsel_memory says */
  FEDSEL_INTERNAL     /* the system has no random words */
} fedsel_reason;

/* ---- Requests ---- */

#define FEDSEL_MOST_REQUEST_BYTES 456

typedef enum {
  FEDSEL_NOT_PRIVATE, /* well-formed, and in no policy */
  FEDSEL_FLAT,        /* V and RS-V */
  FEDSEL_PROJECTED,   /* V-RP */
  FEDSEL_TWO_STAGES,  /* S-V with its suffixes */
  FEDSEL_J,
  FEDSEL_UJ,
  FEDSEL_RJ,
  FEDSEL_RC,
  FEDSEL_FJ
} fedsel_family;

typedef struct {
  fedsel_family family;
  uint8_t selection;  /* of two stages: EXP, PE, PS, PE-published */
  uint8_t value;      /* PM, HM, Duchi, OW */
  bool whole_value;   /* …-C: the value has all of ε′ */
  bool rate_inside;   /* …-O: reports are on learning_rate times the update */
} fedsel_solution;

/* What a request says. The pointers are into its bytes, which have to outlive it. */
typedef struct {
  uint8_t version;
  const uint8_t *run; /* 16 bytes */
  uint32_t epoch, round;
  const uint8_t *purpose, *recipient; /* UTF-8 that may be shown to people as it is */
  uint8_t purpose_bytes, recipient_bytes;
  const uint8_t *recipe; /* the bytes that are the same in all rounds of a run */
  size_t recipe_bytes;
  fedsel_solution solution;
  char name[25];
  uint64_t epsilon_numerator, epsilon_denominator;
  uint64_t dim;
  uint32_t epochs;
  double mu;
  uint64_t k_count; /* 0 where k is a share */
  double k_share;
  double clip, momentum, ratio;
  uint64_t seed;
  double learning_rate;
  double rho;     /* 0 is none */
  uint32_t words; /* 0 is none */
  uint32_t bases; /* 0 is none */
} fedsel_request;

/* FEDSEL_DONE, FEDSEL_MALFORMED or FEDSEL_VERSION. */
fedsel_reason fedsel_read(fedsel_request *request, const uint8_t *bytes, size_t count);

/* Whether a text of UTF-8 may be shown to people as it is. */
bool fedsel_is_text(const uint8_t *bytes, size_t count);

/* ---- Laws and charges ---- */

/* A charge, exactly: the denominator has up to 96 bits, the least 32 first. In lowest terms. */
typedef struct {
  uint64_t numerator;
  uint32_t denominator[3];
} fedsel_epsilon;

#define FEDSEL_MOST_PICKS 200
#define FEDSEL_REPORT_BYTES(picks) (8 + 8 * (size_t)(picks))
#define FEDSEL_MOST_REPORT_BYTES FEDSEL_REPORT_BYTES(FEDSEL_MOST_PICKS)

/* The law of a request. It holds pointers into the memory that fedsel_prepare was given. It depends on
 * the recipe alone: one plan serves all rounds of a run. */
typedef struct {
  fedsel_epsilon charge;
  size_t report_bytes;
  uint64_t slots;   /* on the wire, in all bases */
  uint64_t symbols; /* that a report can say of a slot */
  bool keeps;       /* whether the device keeps a residual of dim singles from report to report */
  uint64_t words_[48];
} fedsel_plan;

/* 64-bit words that fedsel_prepare and fedsel_report need for a request: for the update, and for the
 * scores of a block of codewords. 0 where they would be more than 2^32. */
size_t fedsel_memory(const fedsel_request *request);

/* FEDSEL_DONE, FEDSEL_MALFORMED, FEDSEL_UNSUPPORTED (not private) or FEDSEL_MEMORY. The plan of RC
 * and …-RP has a charge and a length; only fedsel_report refuses them. */
fedsel_reason fedsel_prepare(fedsel_plan *plan, const fedsel_request *request, uint64_t *memory,
                             size_t words);

/* ---- Reports ---- */

/* A source of uniform random words of 64 bits: the operating system's. It says false where it has
 * none. There is no seed. */
typedef struct {
  bool (*next)(void *context, uint64_t *word);
  void *context;
} fedsel_entropy;

/* Draw a report of the update (dim doubles, or NULL for zeros), and replace the residual (dim
 * singles; NULL is allowed where the plan keeps none) by what is to be kept. FEDSEL_DONE,
 * FEDSEL_UNSUPPORTED or FEDSEL_INTERNAL; then neither report nor residual are of use.
 *
 * The report may leave the device only after its charge is durable. */
fedsel_reason fedsel_report(const fedsel_plan *plan, const fedsel_request *request,
                            const double *update, float *residual, fedsel_entropy entropy,
                            uint8_t *report);

#ifdef __cplusplus
}
#endif

#endif
