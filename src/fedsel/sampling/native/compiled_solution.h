/* A plan: the tables of one solution, copied and checked, and the room to work in. Nothing that a
   caller changes later can make the kernels read or write elsewhere. */

#include <stdlib.h>

#include "arrays.h"

#define MOST_BLOCKS 32
#define ALIGNMENT 64
#define CACHE_FOR_REPORTS 16384 /* a part of the innermost one: records and weights are there, too */
#define MANY_ATTEMPTS 6
#define MOST_SLOTS ((int64_t)1 << 40)
#define LARGEST_WEIGHT ((double)((int64_t)1 << 62))

typedef struct {
    Tables tables;
    Scratch scratch;
    void *blocks[MOST_BLOCKS];
    int count, busy;
} CompiledSolution;

static const char *const PLAN_NAME = "fedsel.plan";

static void free_plan(CompiledSolution *plan) {
    while (plan->count) free(plan->blocks[--plan->count]);
    free(plan);
}

static void destroy_plan(PyObject *capsule) { free_plan(PyCapsule_GetPointer(capsule, PLAN_NAME)); }

/* Zeroed room for so many items, aligned for the processor's vectors. */
static void *room_for(CompiledSolution *plan, int64_t count, size_t size) {
    if (count < 0 || (uint64_t)count > (uint64_t)(PTRDIFF_MAX - ALIGNMENT) / size ||
        plan->count == MOST_BLOCKS) {
        PyErr_NoMemory();
        return NULL;
    }
    char *block = calloc(1, (size_t)count * size + ALIGNMENT);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    plan->blocks[plan->count++] = block;
    return block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT);
}

static int integer_at(PyObject *object, const char *name, int64_t *value) {
    PyObject *found = PyObject_GetAttrString(object, name);
    if (!found) return -1;
    *value = PyLong_AsLongLong(found);
    Py_DecRef(found);
    return PyErr_Occurred() ? -1 : 0;
}

static int flag_at(PyObject *object, const char *name, int *value) {
    PyObject *found = PyObject_GetAttrString(object, name);
    if (!found) return -1;
    *value = PyObject_IsTrue(found);
    Py_DecRef(found);
    return *value < 0 ? -1 : 0;
}

static int number_at(PyObject *object, const char *name, double *value) {
    PyObject *found = PyObject_GetAttrString(object, name);
    if (!found) return -1;
    *value = PyFloat_AsDouble(found);
    Py_DecRef(found);
    return PyErr_Occurred() ? -1 : 0;
}

/* A copy of an array that the plan keeps; NULL with no error set where it is None. */
static int copy_at(CompiledSolution *plan, PyObject *object, const char *name, Kind kind, int dimensions,
                   int64_t *rows, int64_t *columns, const void **copy) {
    *copy = NULL;
    PyObject *found = PyObject_GetAttrString(object, name);
    if (!found) return -1;
    Held held = {NULL};
    int wrong = 0;
    if (found != Py_None) {
        const void *data = array_of(&held, found, name, kind, 0, dimensions, rows, columns);
        size_t bytes = data ? (size_t)held.first->buffer.len : 0;
        void *room = data ? room_for(plan, (int64_t)bytes, 1) : NULL;
        if (room) memcpy(room, data, bytes);
        *copy = room;
        wrong = room ? 0 : -1;
    }
    let_go(&held);
    Py_DecRef(found);
    return wrong;
}

/* A law over ``atoms`` ranks from its weights, counts (None: one each), bottom and by_rejection. */
static int read_ranks(CompiledSolution *plan, PyObject *law, int64_t atoms, RankTable *table) {
    const void *weights, *counts;
    int64_t runs = ANY;
    if (copy_at(plan, law, "weights", INTEGERS, 1, &runs, NULL, &weights) || !weights) return -1;
    if (copy_at(plan, law, "counts", INTEGERS, 1, &runs, NULL, &counts) ||
        integer_at(law, "bottom", &table->bottom) || flag_at(law, "by_rejection", &table->by_rejection))
        return -1;
    int64_t *edges = counts ? room_for(plan, runs, sizeof *edges) : NULL;
    if (runs < 1 || (counts && !edges)) return runs < 1 ? refused("weights: none") : -1;
    table->weights = weights;
    table->runs = runs;
    table->atoms = atoms;
    table->maximum = 0;
    table->minimum = INT64_MAX;
    int64_t ranks = 0;
    double total = 0;
    for (int64_t i = 0; i < runs; i++) {
        int64_t weight = table->weights[i], count = counts ? ((const int64_t *)counts)[i] : 1;
        if (weight < 0 || count < 1 || count > atoms - ranks) return refused("not a law over ranks");
        total += (double)weight * (double)count;
        ranks += count;
        if (edges) edges[i] = ranks;
        if (weight > table->maximum) table->maximum = weight;
        if (weight < table->minimum) table->minimum = weight;
    }
    double attempts = (double)atoms * (double)table->maximum;
    if (ranks != atoms || total <= 0 || total >= LARGEST_WEIGHT || table->bottom < 0 ||
        (double)table->bottom >= LARGEST_WEIGHT || (table->by_rejection && attempts >= 0x1p63))
        return refused("not a law over ranks");
    table->total = 0;
    for (int64_t i = 0; i < runs; i++)
        table->total += table->weights[i] * (counts ? ((const int64_t *)counts)[i] : 1);
    table->edges = edges;
    table->dense = runs == atoms;
    table->uniform = table->maximum == table->minimum;
    table->threshold = table->by_rejection && !table->dense && runs == 2 && atoms <= INT32_MAX &&
                       table->weights[0] > table->weights[1];
    table->many = attempts > MANY_ATTEMPTS * total;
    table->certain = table->uniform ? 0 : share_of((uint64_t)table->minimum, (uint64_t)table->maximum);
    if (!table->dense && !edges) return refused("counts: needed where runs are not ranks");
    table->places = (uint64_t)(table->by_rejection ? atoms * table->maximum : table->total);
    table->surplus = surplus_of(table->places);
    if (table->by_rejection) return 0;
    int64_t *cumulative = room_for(plan, runs, sizeof *cumulative);
    if (!cumulative) return -1;
    int64_t passed = 0;
    for (int64_t i = 0; i < runs; i++)
        cumulative[i] = passed += table->weights[i] * (counts ? ((const int64_t *)counts)[i] : 1);
    if (!edges) {
        if (!(edges = room_for(plan, runs, sizeof *edges))) return -1;
        for (int64_t i = 0; i < runs; i++) edges[i] = i + 1;
        table->edges = edges;
    }
    table->cumulative = cumulative;
    return 0;
}

/* A law over symbols from the rows (coin, G, W, L, H) of its windows. */
static int read_windows(CompiledSolution *plan, PyObject *object, const char *name, SymbolTable *table) {
    const void *copied;
    int64_t count = ANY, five = 5, coins = 0, offset = 0;
    if (copy_at(plan, object, name, INTEGERS, 2, &count, &five, &copied) || !copied) return -1;
    Window *windows = room_for(plan, count, sizeof *windows);
    if (count < 1 || !windows) return count < 1 ? refused("windows: none") : -1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t *row = (const int64_t *)copied + i * five;
        int64_t coin = row[0], G = row[1], W = row[2], L = row[3], H = row[4];
        double total = (double)W * (double)H + (double)G * (double)L;
        double base = ((double)G + (double)W) * (double)L;
        if (coin < 1 || coin > INT64_MAX / 2 - coins || G < 1 || G > INPUT_STEPS || W < 1 || L < 0 ||
            H <= L || total >= LARGEST_WEIGHT || base >= LARGEST_WEIGHT ||
            W > INT64_MAX / 4 - G - offset)
            return refused("not a law over symbols");
        coins += coin;
        windows[i] = (Window){coins, G, L, H - L, (G + W) * L, W * H + G * L, offset,
                              L ? UINT64_MAX / (uint64_t)L : 0, UINT64_MAX / (uint64_t)(H - L),
                              surplus_of((uint64_t)(W * H + G * L)), G + W - 1};
        offset += G + W;
    }
    table->windows = windows;
    table->count = count;
    return 0;
}

static int read_sign(CompiledSolution *plan, PyObject *object, int64_t slots, SignTable *table) {
    PyObject *law = PyObject_GetAttrString(object, "ranks");
    int wrong = !law || read_ranks(plan, law, 2 * slots, &table->ranks);
    Py_XDECREF(law);
    if (wrong || flag_at(object, "unbiased", &table->unbiased) ||
        number_at(object, "radius", &table->radius) || integer_at(object, "low", &table->low) ||
        integer_at(object, "high", &table->high) || integer_at(object, "top", &table->top) ||
        number_at(object, "clip", &table->clip))
        return -1;
    double weight = (2.0 * (double)slots * (double)table->low + (double)table->top * (double)table->high) *
                    (double)UNIT;
    if (table->low < 0 || table->high < table->low || table->top < 0 || weight >= LARGEST_WEIGHT ||
        (double)table->top * (double)UNIT * (double)UNIT >= LARGEST_WEIGHT || !(table->clip > 0) ||
        (table->unbiased && weight < 1))
        return refused("not a law over signed slots");
    return 0;
}

static int read_baseline(CompiledSolution *plan, PyObject *object, int64_t dim, BaselineTable *table) {
    int64_t two = 2;
    const void *quantiles, *shares;
    table->knots = table->sizes = ANY;
    if (number_at(object, "inside", &table->inside) || number_at(object, "radius", &table->radius) ||
        integer_at(object, "top", &table->top) ||
        copy_at(plan, object, "quantiles", DOUBLES, 2, &two, &table->knots, &quantiles) ||
        copy_at(plan, object, "shares", DOUBLES, 1, &table->sizes, NULL, &shares))
        return -1;
    table->quantiles = quantiles;
    table->shares = shares;
    if (!quantiles) table->knots = 0;
    if (!shares) table->sizes = 0;
    if ((quantiles && table->knots < 2) || !quantiles == !shares ||
        (shares && (table->top < 1 || table->top > dim || table->sizes < 2 || table->sizes > dim + 1)))
        return refused("not a baseline");
    return 0;
}

/* One of the parts that a mechanism may have; None where it has not. */
#define READ_PART(object, name, call)                                       \
    do {                                                                    \
        PyObject *part = PyObject_GetAttrString(object, name);              \
        int wrong_part = !part || (part != Py_None && (call));              \
        Py_XDECREF(part);                                                   \
        if (wrong_part) return -1;                                          \
    } while (0)

/* The numbers of a fresh basis: blocks of a power of two, or single codewords of few entries. */
static int check_fresh(const Tables *t) {
    const int64_t w = t->width;
    const int rotated = t->factors >= 2 && t->factors <= 3 && w >= 64 && w <= (int64_t)1 << 22 &&
                        !(w & (w - 1)) && t->dim <= w && t->slots % w == 0;
    const int drawn = t->factors == 0 && w == 1 && t->dim < 64;
    if (t->dim < 1 || t->slots < 1 || t->bases < 1 || t->slots > MOST_SLOTS / t->bases || !(rotated || drawn))
        return refused("not the numbers of a fresh basis");
    return 0;
}

static int read_transform(CompiledSolution *plan, PyObject *object, Tables *t) {
    const void *matrix, *recovery;
    if (copy_at(plan, object, "matrix", FLOATS, 2, &t->slots, &t->dim, &matrix) ||
        copy_at(plan, object, "recovery", DOUBLES, 2, &t->slots, &t->dim, &recovery))
        return -1;
    t->matrix = matrix;
    t->recovery = recovery;
    if (t->basis == MATRIX ? !matrix || !recovery : t->basis < COORDINATES || t->basis > FRESH)
        return refused("basis: unknown, or without its matrix");
    if (t->basis == COORDINATES && t->slots != t->dim) return refused("slots: not those of dim");
    if (t->bases < 1 || t->bases > MOST_SLOTS / t->slots) return refused("bases: too many, or none");
    if (t->rotations < 1 || t->width < 1 || t->slots / t->rotations != t->width ||
        t->slots % t->rotations)
        return refused("slots: not those of the rotations");
    t->places = t->basis == FRESH ? t->dim : t->bases * t->slots;
    if (t->basis == FRESH && check_fresh(t)) return -1;
    if (t->basis != ROTATED && t->basis != FRESH && (t->bases > 1 || t->rotations > 1))
        return refused("bases, rotations: of a rotated basis alone");
    if (t->basis == ROTATED && (t->width < t->dim || (t->width & (t->width - 1))))
        return refused("width: not a power of two, or fewer than dim");
    return 0;
}

static int read_tables(CompiledSolution *plan, PyObject *object) {
    Tables *t = &plan->tables;
    int64_t kind, basis, units = ANY;
    const void *copied;
    if (integer_at(object, "kind", &kind) || integer_at(object, "basis", &basis) ||
        integer_at(object, "dim", &t->dim) || integer_at(object, "slots", &t->slots) ||
        integer_at(object, "bases", &t->bases) || integer_at(object, "rotations", &t->rotations) ||
        integer_at(object, "width", &t->width) || integer_at(object, "factors", &t->factors) ||
        integer_at(object, "picks", &t->picks) ||
        flag_at(object, "ranked", &t->ranked) ||
        flag_at(object, "flat", &t->flat) || flag_at(object, "plain", &t->plain) ||
        flag_at(object, "decays_at_server", &t->decays_at_server) ||
        number_at(object, "clip", &t->clip) || number_at(object, "momentum", &t->momentum) ||
        number_at(object, "scale", &t->scale) || number_at(object, "root", &t->root))
        return -1;
    t->kind = (int)kind;
    t->basis = (int)basis;
    if (kind < WHOLE || kind > BASELINE) return refused("kind: unknown");
    if (t->dim < 1 || t->dim > MOST_SLOTS || t->slots < 1 || t->slots > MOST_SLOTS)
        return refused("dim, slots: at least 1");
    if (t->picks < 1 || t->picks > t->slots) return refused("picks: in 1 … slots");
    if (!(t->clip > 0) || !(t->root > 0)) return refused("clip, root: positive");
    if (read_transform(plan, object, t) || read_windows(plan, object, "windows", &t->symbols) ||
        copy_at(plan, object, "units", DOUBLES, 1, &units, NULL, &copied))
        return -1;
    READ_PART(object, "ranks", read_ranks(plan, part, t->slots, &t->ranks));
    READ_PART(object, "sign", read_sign(plan, part, t->slots, &t->sign));
    READ_PART(object, "baseline", read_baseline(plan, part, t->dim, &t->baseline));
    t->units = copied;
    if (!copied || units != (t->plain ? 1 : t->symbols.count)) return refused("units: one a window");
    if (t->kind == VALUES && !t->flat && !t->ranks.runs) return refused("ranks: needed");
    if (t->basis == FRESH && (t->kind != SIGNS || t->sign.unbiased || t->symbols.count != 1))
        return refused("kind: fresh bases are for J alone");
    if (t->kind == SIGNS && (!t->sign.ranks.runs || t->symbols.count != 1 || t->plain))
        return refused("sign: needed, with one unit");
    if (t->kind == BASELINE && !t->baseline.knots && !t->baseline.sizes)
        return refused("baseline: needed");
    if ((t->kind == WHOLE || t->kind == BASELINE) && (t->basis != COORDINATES || !t->plain))
        return refused("basis: a whole vector is sent as it is");
    return 0;
}

static int fill_scratch(CompiledSolution *plan) {
    Scratch *s = &plan->scratch;
    int64_t d = plan->tables.dim, M = plan->tables.slots;
    int64_t words = plan->tables.basis == FRESH ? plan->tables.factors * plan->tables.width / 32 + 1 : 1;
    s->vector_room = round_up(d, ALIGNMENT / sizeof(float));
    s->score_room = round_up(M, ALIGNMENT / sizeof(float));
    int64_t at_once = CACHE_FOR_REPORTS / ((int64_t)sizeof(float) * (s->vector_room + s->score_room));
    at_once = at_once < 1 ? 1 : at_once > MOST_REPORTS ? MOST_REPORTS : at_once;
    plan->tables.at_once = at_once;
    return !(s->weights = room_for(plan, d, sizeof *s->weights)) ||
           !(s->decay = room_for(plan, d, sizeof *s->decay)) ||
           !(s->vectors = room_for(plan, at_once * s->vector_room, sizeof *s->vectors)) ||
           !(s->mean = room_for(plan, d, sizeof *s->mean)) ||
           !(s->scores = room_for(plan, at_once * s->score_room, sizeof *s->scores)) ||
           !(s->room = room_for(plan, M > d ? M : d, sizeof *s->room)) ||
           !(s->words = room_for(plan, words, sizeof *s->words)) ||
           !(s->turned = room_for(plan, M, sizeof *s->turned)) ||
           !(s->spare = room_for(plan, M, sizeof *s->spare)) ||
           !(s->drawn = room_for(plan, plan->tables.picks, sizeof *s->drawn));
}

static PyObject *new_plan(PyObject *module, PyObject *tables) {
    (void)module;
    CompiledSolution *plan = calloc(1, sizeof *plan);
    if (!plan) return PyErr_NoMemory();
    if (read_tables(plan, tables) || fill_scratch(plan)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "not the tables of a solution");
        free_plan(plan);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(plan, PLAN_NAME, destroy_plan);
    if (!capsule) free_plan(plan);
    return capsule;
}
