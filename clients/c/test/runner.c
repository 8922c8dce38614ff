/* Answers questions of tests/clients/test_c.py: one line each, in and out. Numbers, bytes and words
 * are hexadecimal; an answer is what the library makes of the question. */


#include "asking.h"

static void print_big(const fs_big *a)
{
  printf("0");
  for (uint32_t i = a->n; i-- > 0;)
    printf("%08" PRIx32, a->w[i]);
}

static void print_used(const words *w, const fs_stream *stream)
{
  printf(" %" PRIx64 "%s", w->used, stream->failed ? " failed" : "");
}

/* ---- Laws ---- */

static int selection_of(const char *name)
{
  static const char *const NAMES[4] = {"EXP", "PE", "PS", "PE-published"};
  int i = 0;
  while (strcmp(name, NAMES[i]) != 0)
    i++;
  return i;
}

static fs_value value_of(const char *name)
{
  static const char *const NAMES[4] = {"PM", "HM", "Duchi", "OW"};
  int i = 0;
  while (strcmp(name, NAMES[i]) != 0)
    i++;
  return (fs_value)i;
}

/* kind ε k d */
static bool select_law(fs_ranks *law, const line *l, uint64_t **table)
{
  const int kind = selection_of(l->parts[1]);
  const fs_ratio epsilon = ratio(l, 2);
  const uint64_t k = number(l, 4), d = number(l, 5);
  *table = NULL;
  if (kind == FS_EXP) {
    *table = malloc(8 * (size_t)fs_exponential_words(d));
    return fs_exponential(law, &epsilon, d, *table);
  }
  if (kind == FS_PS)
    return fs_threshold(law, &epsilon, k, d);
  return fs_encoding(law, &epsilon, k, d, kind == FS_PE_PUBLISHED);
}

static void print_law(const fs_ranks *law)
{
  printf("%" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %d", law->top, law->high,
         law->low, law->bottom, law->total, fs_by_rejection(law));
  for (uint64_t i = 0; law->table != NULL && i < law->n; i++)
    printf("%c%" PRIx64, i == 0 ? ' ' : ',', fs_weight(law, i));
}

static void do_select(const line *l)
{
  fs_ranks law;
  uint64_t *table;
  if (select_law(&law, l, &table))
    print_law(&law);
  free(table);
}

static void do_value(const line *l)
{
  fs_symbols law;
  const fs_ratio epsilon = ratio(l, 2);
  if (!fs_values(&law, value_of(l->parts[1]), &epsilon))
    return;
  printf("%" PRIx64 " %" PRIx64, law.tails, fs_symbols_count(&law));
  for (uint32_t i = 0; i < law.count; i++) {
    const fs_window *w = &law.windows[i];
    printf(" %" PRIx64 ",%" PRIx64 ",%" PRIx64 ",%" PRIx64 ",%" PRIx64, w->cells, w->width, w->low,
           w->high, fs_window_total(w));
  }
}

static void do_best(const line *l)
{
  fs_best best;
  fs_ranks law;
  const fs_ratio epsilon = ratio(l, 1);
  const uint64_t slots = number(l, 3);
  fs_best_of(&best, &epsilon);
  if (fs_threshold(&law, &epsilon, fs_best_top(&best, slots), 2 * slots))
    print_law(&law);
}

static void do_unbiased(const line *l)
{
  fs_ranks law;
  const fs_ratio epsilon = ratio(l, 1);
  if (fs_unbiased(&law, &epsilon, number(l, 3), number(l, 4)))
    printf("%" PRIx64 " %" PRIx64, law.low, law.high);
}

static void do_fresh(const line *l)
{
  fs_fresh_sizes sizes;
  const fs_ratio epsilon = ratio(l, 1);
  uint64_t bits;
  if (!fs_fresh(&sizes, &epsilon, number(l, 3)))
    return;
  memcpy(&bits, &sizes.share, sizeof bits);
  printf("%016" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx32, bits, sizes.codewords, sizes.top,
         sizes.factors);
}

static void do_exp(const line *l)
{
  fs_big lower;
  const fs_ratio x = ratio(l, 1);
  fs_exp_lower(&lower, &x);
  print_big(&lower);
}

static void do_log(const line *l)
{
  fs_real x;
  const fs_ratio r = ratio(l, 1);
  fs_real_of_ratio(&x, &r);
  fs_real_ln(&x, &x);
  printf("%" PRIx64, fs_log_upper(&x));
}

static void do_rotations(const line *l)
{
  const fs_ratio epsilon = ratio(l, 1);
  printf("%" PRIx64 " %" PRIx64, fs_width(number(l, 3)), fs_rotations(&epsilon, number(l, 3)));
}

static void do_split(const line *l)
{
  const fs_ratio budget = ratio(l, 1);
  fs_ratio first, second;
  fs_split(&first, &second, &budget, real(l, 3));
  print_big(&first.p);
  printf(" ");
  print_big(&first.q);
  printf(" ");
  print_big(&second.p);
  printf(" ");
  print_big(&second.q);
}

static void do_shortest(const line *l)
{
  uint64_t digits;
  uint32_t power;
  fs_shortest(real(l, 1), &digits, &power);
  printf("%" PRIx64 " %" PRIx32, digits, power);
}

/* e^x, and ln of it */
static void do_real(const line *l)
{
  fs_real x, back;
  fs_real_of_double(&x, real(l, 1));
  fs_real_exp(&x, &x);
  fs_real_ln(&back, &x);
  for (uint32_t i = FS_REAL_WORDS; i-- > 0;)
    printf("%08" PRIx32, x.w[i]);
  printf(" %d ", x.exponent);
  for (uint32_t i = FS_REAL_WORDS; i-- > 0;)
    printf("%08" PRIx32, back.w[i]);
  printf(" %d", back.exponent);
}

/* a·b, ⌊a·b/c⌋ and the rest, as a check of division: three numbers of any length */
static void big_of(fs_big *r, const line *l, int i)
{
  const char *text = l->parts[i];
  fs_big digit;
  fs_set(r, 0);
  for (; *text != '\0'; text++) {
    const char one[2] = {*text, 0};
    fs_shift_left(r, r, 4);
    fs_set(&digit, strtoul(one, NULL, 16));
    fs_add(r, r, &digit);
  }
}

static void do_divide(const line *l)
{
  fs_big a, b, c, rest;
  big_of(&a, l, 1);
  big_of(&b, l, 2);
  big_of(&c, l, 3);
  fs_times(&a, &a, &b);
  if (a.n == FS_POISONED) {
    printf("poisoned");
    return;
  }
  fs_divide(&b, &rest, &a, &c);
  print_big(&a);
  printf(" ");
  print_big(&b);
  printf(" ");
  print_big(&rest);
}

/* ---- Draws ---- */

static void do_below(const line *l)
{
  words w = words_of(l, 2);
  fs_stream stream = {{next_word, &w}, false};
  printf("%" PRIx64, fs_below(&stream, number(l, 1)));
  print_used(&w, &stream);
}

static float *singles(const line *l, int i, size_t *count)
{
  uint8_t *raw = bytes(l, i, count);
  *count /= 4;
  float *found = malloc(*count > 0 ? 4 * *count : 4);
  for (size_t j = 0; j < *count; j++)
    found[j] = fs_read_single(raw + 4 * j);
  free(raw);
  return found;
}

static void do_dimension(const line *l)
{
  fs_ranks law;
  fs_scores scores;
  uint64_t *table;
  words w = words_of(l, 7);
  fs_stream stream = {{next_word, &w}, false};
  size_t count;
  float *vector = singles(l, 6, &count);
  memset(&scores, 0, sizeof scores);
  scores.vector = vector;
  scores.dim = scores.size = scores.width = count;
  select_law(&law, l, &table);
  const uint64_t atom = fs_draw_atom(&law, &scores, &stream);
  if (atom == FS_NOTHING)
    printf("nothing");
  else
    printf("%" PRIx64, atom);
  print_used(&w, &stream);
  free(vector);
  free(table);
}

static void do_symbol(const line *l)
{
  fs_symbols law;
  const fs_ratio epsilon = ratio(l, 2);
  words w = words_of(l, 5);
  fs_stream stream = {{next_word, &w}, false};
  fs_values(&law, value_of(l->parts[1]), &epsilon);
  printf("%" PRIx64, fs_draw_symbol(&law, real(l, 4), &stream));
  print_used(&w, &stream);
}

static void do_distinct(const line *l)
{
  uint32_t drawn[FEDSEL_MOST_PICKS];
  words w = words_of(l, 3);
  fs_stream stream = {{next_word, &w}, false};
  for (uint32_t i = 0; i < number(l, 2); i++)
    printf("%s%" PRIx64, i == 0 ? "" : ",", fs_draw_distinct(drawn, i, number(l, 1), &stream));
  print_used(&w, &stream);
}

/* ---- Public numbers ---- */

/* seed, purpose as bytes, count */
static void do_bits(const line *l)
{
  size_t length;
  uint8_t *purpose = bytes(l, 2, &length);
  char text[128] = {0};
  fs_bits_of bits;
  memcpy(text, purpose, length);
  free(purpose);
  fs_bits_begin(&bits, number(l, 1), text);
  printf("%016" PRIx64 " %016" PRIx64 " ", bits.key[0], bits.key[1]);
  for (uint64_t i = 0; i < number(l, 3); i++)
    printf("%016" PRIx64, fs_bits_next(&bits));
}

static void do_hadamard(const line *l)
{
  size_t count;
  float *x = singles(l, 1, &count);
  fs_hadamard(x, count);
  print_singles(x, count);
  free(x);
}

/* seed round rotation width vector */
static void do_rotated(const line *l)
{
  size_t dim;
  const uint64_t width = number(l, 4);
  float *vector = singles(l, 5, &dim), *scores = malloc(4 * (size_t)width);
  fs_rotated(scores, width, vector, dim, number(l, 1), (uint32_t)number(l, 2), number(l, 3));
  print_singles(scores, width);
  free(vector);
  free(scores);
}

/* seed round basis codewords top vector */
static void do_codewords(const line *l)
{
  size_t dim;
  float *vector = singles(l, 6, &dim);
  const uint64_t size = number(l, 4), width = dim < 64 ? 64 : fs_width(dim);
  const uint32_t state = fs_fresh_state(number(l, 1), (uint32_t)number(l, 2), number(l, 3));
  float *scores = malloc(4 * (size_t)size);
  for (uint64_t block = 0; block * width < size; block++)
    fs_fresh_scores(scores + block * width, width, vector, dim, fs_factors(dim, number(l, 5)), state,
                    block);
  print_singles(scores, size);
  free(vector);
  free(scores);
}

/* ---- Blocks ---- */

/* dim k words bases */
static bool blocks_of(fs_blocks *blocks, const line *l)
{
  fedsel_request request;
  memset(&request, 0, sizeof request);
  request.dim = number(l, 1);
  request.k_count = number(l, 2);
  request.words = (uint32_t)number(l, 3);
  request.bases = (uint32_t)number(l, 4);
  return fs_blocks_of(blocks, &request);
}

/* slot, answers: which of them are in its block */
static void do_blocks(const line *l)
{
  fs_blocks blocks;
  if (!blocks_of(&blocks, l))
    return;
  printf("%" PRIx64 " %" PRIx64 " ", blocks.size, blocks.holding);
  const uint64_t slot = number(l, 5);
  for (char *at = l->parts[6]; *at != '\0'; at += *at == ',') {
    const uint64_t answer = strtoull(at, &at, 16);
    printf("%d", fs_holds(&blocks, slot / blocks.size, slot % blocks.size, answer));
  }
}

/* basis, answer, whether they hold it: the blocks in their order */
static void do_block_at(const line *l)
{
  fs_blocks blocks;
  if (!blocks_of(&blocks, l))
    return;
  const bool holding = number(l, 7) != 0;
  const uint64_t count = holding ? blocks.holding : blocks.size - blocks.holding;
  for (uint64_t pick = 0; pick < count; pick++)
    printf("%" PRIx64 " ", fs_block_at(&blocks, number(l, 5), number(l, 6), holding, pick));
}

/* ---- Requests and reports ---- */

static uint64_t bits_of(double x)
{
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static void do_request(const line *l)
{
  fedsel_request r;
  size_t count;
  uint8_t *message = bytes(l, 1, &count);
  const fedsel_reason reason = fedsel_read(&r, message, count);
  printf("%s", REASONS[reason]);
  if (reason == FEDSEL_DONE) {
    printf(" %x ", r.version);
    print_bytes(r.run, 16);
    printf(" %" PRIx32 " %" PRIx32 " -", r.epoch, r.round);
    print_bytes(r.purpose, r.purpose_bytes);
    printf(" -");
    print_bytes(r.recipient, r.recipient_bytes);
    printf(" %s %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx32, r.name, r.epsilon_numerator,
           r.epsilon_denominator, r.dim, r.epochs);
    printf(" %016" PRIx64 " %" PRIx64 " %016" PRIx64, bits_of(r.mu), r.k_count, bits_of(r.k_share));
    printf(" %016" PRIx64 " %016" PRIx64 " %016" PRIx64, bits_of(r.clip), bits_of(r.momentum),
           bits_of(r.ratio));
    printf(" %" PRIx64 " %016" PRIx64 " %016" PRIx64 " %" PRIx32 " %" PRIx32, r.seed,
           bits_of(r.learning_rate), bits_of(r.rho), r.words, r.bases);
  }
  free(message);
}

static void do_text(const line *l)
{
  size_t count;
  uint8_t *text = bytes(l, 1, &count);
  printf("%d", fedsel_is_text(text, count));
  free(text);
}

/* Bit i of the answer: whether code point 4n + i may be seen alone, after a letter where it is one
 * that needs it. */
static void do_seen(const line *l)
{
  for (uint64_t code = number(l, 1); code < number(l, 2); code++) {
    uint8_t text[5] = {'a', 0, 0, 0, 0};
    size_t n = 1;
    if (code < 0x80) {
      text[n++] = (uint8_t)code;
    } else {
      const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      text[n++] = (uint8_t)((0xF0 << (3 - more) & 0xFF) | code >> (6 * more));
      for (int i = more; i-- > 0;)
        text[n++] = (uint8_t)(0x80 | (code >> (6 * i) & 0x3F));
    }
    printf("%d%d ", fedsel_is_text(text, n), fedsel_is_text(text + 1, n - 1));
  }
}

static void print_charge(const fedsel_epsilon *charge)
{
  printf(" %" PRIx64 " %08" PRIx32 "%08" PRIx32 "%08" PRIx32, charge->numerator,
         charge->denominator[2], charge->denominator[1], charge->denominator[0]);
}

/* request, update (doubles), residual (singles or -), words, and how many words of memory beyond the
 * least */
static void do_report(const line *l)
{
  fedsel_request r;
  fedsel_plan plan;
  size_t count, kept;
  uint8_t *message = bytes(l, 1, &count);
  fedsel_reason reason = fedsel_read(&r, message, count);
  if (reason != FEDSEL_DONE) {
    printf("%s", REASONS[reason]);
    free(message);
    return;
  }
  const size_t least = fedsel_memory(&r), most = (size_t)1 << 26;
  const size_t room = (least > most ? 0 : least) + (l->count > 5 ? (size_t)number(l, 5) : 0);
  uint64_t *memory = malloc(room > 0 ? 8 * room : 8);
  reason = fedsel_prepare(&plan, &r, memory, room);
  printf("%s", REASONS[reason]);
  if (reason == FEDSEL_DONE || (reason == FEDSEL_MEMORY && plan.charge.denominator[0] > 0)) {
    print_charge(&plan.charge);
    printf(" %zx %" PRIx64 " %" PRIx64 " %d", plan.report_bytes, plan.slots, plan.symbols,
           plan.keeps);
  }
  if (reason == FEDSEL_DONE && l->count > 4) {
    uint8_t *report = malloc(plan.report_bytes);
    double *update = malloc(8 * (size_t)r.dim);
    float *residual = singles(l, 3, &kept);
    const bool right = take_update(l, 2, &r, update);
    words w = words_of(l, 4);
    const fedsel_entropy entropy = {next_word, &w};
    reason = fedsel_report(&plan, &r, right ? update : NULL, kept > 0 ? residual : NULL, entropy, report);
    printf(" %s ", REASONS[reason]);
    if (reason == FEDSEL_DONE) {
      print_bytes(report, plan.report_bytes);
      printf(" -");
      print_singles(residual, kept);
      printf(" %" PRIx64, w.used);
    }
    free(report);
    free(update);
    free(residual);
  }
  free(memory);
  free(message);
}

static const struct {
  const char *name;
  void (*answer)(const line *);
} QUESTIONS[] = {{"select", do_select},       {"value", do_value},         {"best", do_best},
                 {"unbiased", do_unbiased},   {"fresh", do_fresh},         {"exp", do_exp},
                 {"log", do_log},             {"rotations", do_rotations}, {"split", do_split},
                 {"shortest", do_shortest},   {"real", do_real},           {"divide", do_divide},
                 {"below", do_below},         {"dimension", do_dimension}, {"symbol", do_symbol},
                 {"distinct", do_distinct},   {"bits", do_bits},           {"hadamard", do_hadamard},
                 {"rotated", do_rotated},     {"codewords", do_codewords}, {"request", do_request},
                 {"text", do_text},           {"seen", do_seen},           {"report", do_report},
                 {"blocks", do_blocks},       {"block_at", do_block_at}};

int main(void)
{
  char *text = malloc(MOST_LINE);
  while (fgets(text, MOST_LINE, stdin) != NULL) {
    line l = {{NULL}, 0};
    for (char *part = strtok(text, " \n"); part != NULL && l.count < MOST_PARTS;
         part = strtok(NULL, " \n"))
      l.parts[l.count++] = part;
    const bool asked = l.count > 0 && !answer_of_device(&l);
    for (size_t i = 0; i < sizeof QUESTIONS / sizeof *QUESTIONS; i++)
      if (asked && strcmp(l.parts[0], QUESTIONS[i].name) == 0)
        QUESTIONS[i].answer(&l);
    printf("\n");
    fflush(stdout);
  }
  free(text);
  return 0;
}
