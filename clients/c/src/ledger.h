/* The ledger: a log of linked records, a witness of its last link, and the residuals of open runs.
 *
 * A record of the log is a kind, the length of its content (4 bytes), the content, and its link:
 * SHA-256 of the link before (zeros at first), kind, length and content. The witness has two places
 * for the number of records and the last link, written in turn. A report is durable in the log
 * before the witness is written, and in both before it leaves the device; so the witness is at most
 * one record behind, and what follows the last whole record is what a crash has cut off.
 *
 *   B  identity (16), bytes of a residual (4), then as L        the beginning
 *   L  time (8), who, number of limits (1), limits              limits that take the others' place
 *   C  time (8), who                                            the clock was confirmed
 *   N  run (16), number (4), open runs (4), the recipe and both texts, each after its length (1),
 *      then as E                                                the first report of a run
 *   E  place of its N (8), number of the run (4), epoch (4), round (4), time (8), charge (20),
 *      digest (32), place of the residual (1), its seal (32), length (4) and bytes of the report
 *
 * A limit is its ε (20), seconds (8), and two texts after their lengths (1), 255 for any. */
#ifndef FEDSEL_LEDGER_H
#define FEDSEL_LEDGER_H

#include "policy.h"

typedef struct {
  uint64_t at; /* of the content */
  uint32_t length;
  uint8_t kind;
} fs_record;

/* A way along the log. */
typedef struct {
  const fedsel_store *store;
  uint64_t end, records;
  uint8_t link[32];
} fs_walk;

typedef struct {
  uint64_t run_at;
  uint32_t number, epoch, round;
  int64_t time;
  fedsel_epsilon charge;
  uint8_t digest[32], seal[32];
  uint8_t place; /* of the residual: 0 none, 1 or 2 */
  uint32_t report_bytes;
  uint64_t report_at;
} fs_entry;

/* What the log says, and what it says of one run. */
typedef struct {
  fs_walk walk;
  uint64_t witnessed; /* records */
  uint64_t limits_at; /* the time of the present limits */
  int64_t known;
  uint32_t residual_bytes;
  uint32_t runs, first_open;
  uint64_t run_at; /* 0 for a run that is not known */
  uint32_t number, in_epoch, in_day, last_epoch, last_round;
  bool same_run, any, answered;
  fs_entry last, same; /* the run's last entry, and that of the same round */
} fs_books;

bool fs_next_record(fs_walk *walk, fs_record *record, bool check);
bool fs_read_entry(const fedsel_store *store, const fs_record *record, fs_entry *entry);
/* All of the log, with what it says of a request's run (NULL: of none). FEDSEL_LEDGER where it is
 * not whole. */
fedsel_reason fs_read_books(fs_books *books, const fedsel_store *store,
                            const fedsel_request *request, int64_t now);
/* What counts under a limit at a time. */
bool fs_held(fs_ratio *held, const fs_books *books, const fedsel_limit *limit, int64_t time);
bool fs_read_residual(const fs_books *books, const fedsel_request *request, float *residual);
/* The entry's place and seal are chosen here; `residual` is NULL where none is kept. */
bool fs_record_report(fs_books *books, const fedsel_request *request, uint32_t open_runs,
                      fs_entry *entry, const float *residual, const uint8_t *report);
bool fs_record_clock(fs_books *books, int64_t time, const char *by);
bool fs_record_limits(fs_books *books, const fedsel_policy *policy, int64_t time, const char *by,
                      const uint8_t identity[16]);
/* Whether the ledger's limits are those of the policy; and whether each is implied by one of them. */
void fs_compare_limits(const fs_books *books, const fedsel_policy *policy, bool *same,
                       bool *as_strict);
bool fs_sweep(const fs_books *books);

#endif
