/* fedsel on a device: answers a server's requests under local differential privacy.
 *
 * A report takes three steps:
 *
 *     fedsel_read    the request, byte by byte
 *     fedsel_prepare its law in whole numbers, and what a report costs, exactly
 *     fedsel_report  a report of an update, drawn from the system's random words
 *
 * and fedsel_answer takes all of them, with the owner's policy and a ledger that is durable before
 * the report is returned: a device calls it alone.
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
  FEDSEL_INTERNAL,    /* the system has no random words, or cannot keep what it must */
  /* What a policy refuses, and a ledger: */
  FEDSEL_NOT_ALLOWED,
  FEDSEL_PURPOSE,
  FEDSEL_WEIGHTS,
  FEDSEL_TOO_MUCH,
  FEDSEL_CONFLICT,
  FEDSEL_OUT_OF_ORDER,
  FEDSEL_TOO_OFTEN,
  FEDSEL_CLOCK,
  FEDSEL_EXHAUSTED,
  FEDSEL_LEDGER /* missing, damaged, put back from a copy, or of stricter limits */
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
  FEDSEL_FJ,
  FEDSEL_BR           /* a question: which of dim public answers */
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
 * singles; NULL is allowed where the plan keeps none) by what is to be kept. Where it is not
 * FEDSEL_DONE there is no report, and the residual is as it was.
 *
 * The report may leave the device only after its charge is durable. */
fedsel_reason fedsel_report(const fedsel_plan *plan, const fedsel_request *request,
                            const double *update, float *residual, fedsel_entropy entropy,
                            uint8_t *report);

/* The update of an answer to a question, an integer in 0 … dim − 1: any other is no answer. */
void fedsel_set_answer(double *update, const fedsel_request *request, int64_t answer);

/* ---- The owner's policy ---- */

/* At most so much ε of the runs with these texts (NULL: any), ever (0 seconds) or in any interval of
 * so many seconds. */
typedef struct {
  fedsel_epsilon epsilon;
  uint64_t seconds;
  const char *purpose, *recipient;
} fedsel_limit;

/* What a report of runs with these texts (NULL: any) may cost (a numerator of 0: no more than any
 * other). The lifetime and window of an entry of the menu are among the limits. */
typedef struct {
  const char *purpose, *recipient;
  fedsel_epsilon per_report;
} fedsel_menu_entry;

#define FEDSEL_MOST_LIMITS 32
#define FEDSEL_MOST_SECONDS (3650 * UINT64_C(86400))
#define FEDSEL_MOST_RUNS 8 /* that are open at a time, whatever the policy says */

/* A policy with an ε of 0 or over 0, without a limit or beyond these numbers is answered by
 * FEDSEL_INTERNAL. Lists of nothing allow nothing; where a list is NULL, purposes, recipients and menu are not listed. */
typedef struct {
  const char *const *solutions;
  const uint64_t *dimensions;
  const char *const *purposes, *const *recipients;
  const fedsel_limit *limits; /* lifetime, window, those of the menu: at least one */
  const fedsel_menu_entry *menu;
  size_t solution_count, dimension_count, purpose_count, recipient_count, limit_count, menu_count;
  fedsel_epsilon per_report;
  double clip;         /* HUGE_VAL: any */
  double weight_bound; /* 1e6 */
  uint32_t reports_per_epoch, reports_per_day, runs; /* 1, 0 for any number, 1 */
  uint64_t clock_tolerance;                          /* seconds; 0: twice the longest window */
  bool require_purpose, require_recipient;
} fedsel_policy;

/* Steps 1 and 2 of section 8: FEDSEL_DONE, FEDSEL_NOT_ALLOWED or FEDSEL_PURPOSE. */
fedsel_reason fedsel_objection(const fedsel_policy *policy, const fedsel_request *request);

/* ---- A device ---- */

typedef enum { FEDSEL_LOG, FEDSEL_WITNESS, FEDSEL_RESIDUALS } fedsel_file;

/* Three files, which the device alone writes. What was written before a flush is durable after it;
 * a write that fails or is cut off may leave any part of its bytes. All say false where they fail;
 * read also where there are fewer bytes. */
typedef struct {
  void *context;
  bool (*lock)(void *context);
  void (*unlock)(void *context);
  bool (*read)(void *context, fedsel_file file, uint64_t offset, void *bytes, size_t count);
  bool (*write)(void *context, fedsel_file file, uint64_t offset, const void *bytes, size_t count);
  bool (*flush)(void *context, fedsel_file file);
} fedsel_store;

typedef struct {
  const fedsel_policy *policy;
  fedsel_store store;
  fedsel_entropy entropy;
  /* Whole seconds since 1970, rounded down. */
  bool (*now)(void *context, int64_t *seconds);
  /* Compute the update from weights of 4 or 8 bytes each; false where there is none: it is zeros. A
   * question (FEDSEL_BR) comes with any number of weights, of 8 bytes: see fedsel_set_answer. */
  bool (*update)(void *context, const fedsel_request *request, const uint8_t *weights,
                 size_t weight_bytes, double *update);
  void *context;
  uint64_t *memory; /* fedsel_answer_memory */
  size_t words;
} fedsel_device;

/* Begin a ledger for residuals of at most so many entries; it is an error where there is one. */
fedsel_reason fedsel_create(fedsel_device *device, uint32_t most_dim);
/* Take over the policy's limits, as a device does when it starts. `by` names who allows limits that
 * are looser than those of the ledger; NULL where nobody does. */
fedsel_reason fedsel_open(fedsel_device *device, const char *by);
/* The owner says that the device's clock is right. */
fedsel_reason fedsel_confirm_clock(fedsel_device *device, const char *by);

size_t fedsel_answer_memory(const fedsel_request *request);
/* The report of a request, charged and durable; or why there is none. `report` has room for
 * FEDSEL_MOST_REPORT_BYTES. A request that was answered gets the same bytes at no cost. */
fedsel_reason fedsel_answer(fedsel_device *device, const uint8_t *request, size_t request_bytes,
                            const uint8_t *weights, size_t weight_bytes, uint8_t *report,
                            size_t *report_bytes);

#ifdef __cplusplus
}
#endif

#endif
