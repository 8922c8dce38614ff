/* The Python module: arguments are taken and checked here, the work is done without the GIL. */

#include "arguments.h"

/* The sets of instructions that the module is compiled for, the best last. */
static const Kernels *const variants[] = {
    &kernels_base,
#if defined(FEDSEL_HAS_AVX2)
    &kernels_avx2,
#endif
#if defined(FEDSEL_HAS_AVX512)
    &kernels_avx512,
#endif
};
#define VARIANTS ((int)(sizeof variants / sizeof *variants))

/* How many of them this processor has: one that has a set has those before it. */
static int usable_variants(void) {
    int count = 1;
#if defined(FEDSEL_HAS_AVX2)
    __builtin_cpu_init();
    count += __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi2");
#endif
#if defined(FEDSEL_HAS_AVX512)
    /* The first processors with AVX-512, without VBMI2, clock down for vectors of 512 bits. */
    count += count == 2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi2");
#endif
    return count;
}

static const Kernels *kernels = &kernels_base;

static PyObject *py_run_rounds(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule, *records_object, *clients, *ends, *weights, *residual, *keys, *signs, *sums,
        *total, *sent, *trace;
    uint64_t key[2], epoch;
    Rounds call = {0};
    Records records;
    Held held = {NULL};
    if (!PyArg_ParseTuple(args, "OOiddddOOOOOKOOOOO", &capsule, &records_object, &call.loss,
                          &call.reg, &call.factor, &call.rate, &call.decay_of_server, &clients,
                          &ends, &weights, &residual, &keys, &epoch, &signs, &sums, &total, &sent,
                          &trace))
        return NULL;
    CompiledSolution *plan = plan_of(capsule);
    int64_t status = 0, rounds, turns, dim, two = 2;
    if (!plan || read_records(&held, records_object, &records)) goto end;
    dim = plan->tables.dim;
    if (records.dim != dim) {
        refused("records: must have as many columns as the solution has dimensions");
        goto end;
    }
    call.count = call.rounds = ANY;
    if (!(call.clients = row_of(&held, clients, "clients", INTEGERS, 0, &call.count)) ||
        !(call.ends = row_of(&held, ends, "ends", INTEGERS, 0, &call.rounds)) ||
        check_ends(call.ends, call.rounds, call.count) ||
        !(call.weights = row_of(&held, weights, "weights", DOUBLES, 1, &dim)) ||
        read_sending(&held, plan, sums, total, residual, sent, call.count, &call.sending,
                     &call.sent, &call.keeps, &call.clients_with_residual) ||
        read_key(&held, keys, call.count, key, &call.sending))
        goto end;
    rounds = call.rounds;
    turns = rounds * plan->tables.bases * plan->tables.rotations;
    if (plan->tables.basis == ROTATED &&
        !(call.signs = array_of(&held, signs, "signs", FLOATS, 0, 2, &turns, &dim)))
        goto end;
    if (plan->tables.basis == FRESH &&
        !(call.round_keys = array_of(&held, signs, "signs", SHORT_UNSIGNED, 0, 2, &rounds, &two)))
        goto end;
    if (trace != Py_None &&
        !(call.trace = array_of(&held, trace, "trace", DOUBLES, 1, 2, &rounds, &dim)))
        goto end;
    call.records = &records;
    call.sending.epoch = epoch;
    plan->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    status = kernels->run_rounds(&call);
    Py_END_ALLOW_THREADS
    plan->busy = 0;
end:
    let_go(&held);
    return PyErr_Occurred() ? NULL : done(status);
}

static PyObject *py_send_vectors(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule, *parts, *factors, *clients, *residual, *keys, *signs, *sums, *total, *sent;
    uint64_t key[2], epoch;
    Vectors call = {.count = ANY};
    Held held = {NULL};
    if (!PyArg_ParseTuple(args, "OOOOOOKOOOO", &capsule, &parts, &factors, &clients, &residual,
                          &keys, &epoch, &signs, &sums, &total, &sent))
        return NULL;
    CompiledSolution *plan = plan_of(capsule);
    call.part_count = plan ? PySequence_Size(parts) : -1;
    if (call.part_count < 0) return NULL;
    Part *taken = PyMem_Calloc((size_t)call.part_count + 1, sizeof *taken);
    int64_t status = 0, dim = plan->tables.dim;
    int64_t turns = plan->tables.bases * plan->tables.rotations, one = 1, two = 2;
    if (!taken) {
        PyErr_NoMemory();
        goto end;
    }
    if (!(call.clients = row_of(&held, clients, "clients", INTEGERS, 0, &call.count)) ||
        read_parts(&held, parts, dim, &call, taken) ||
        read_sending(&held, plan, sums, total, residual, sent, call.count, &call.sending,
                     &call.sent, &call.keeps, &call.clients_with_residual) ||
        read_key(&held, keys, call.count, key, &call.sending))
        goto end;
    if (factors != Py_None && !(call.factors = row_of(&held, factors, "factors", FLOATS, 0, &dim)))
        goto end;
    if (plan->tables.basis == ROTATED &&
        !(call.sending.signs = array_of(&held, signs, "signs", FLOATS, 0, 2, &turns, &dim)))
        goto end;
    if (plan->tables.basis == FRESH &&
        !(call.sending.round_key = array_of(&held, signs, "signs", SHORT_UNSIGNED, 0, 2, &one, &two)))
        goto end;
    call.parts = taken;
    call.sending.epoch = epoch;
    plan->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    status = kernels->send_vectors(&call);
    Py_END_ALLOW_THREADS
    plan->busy = 0;
end:
    let_go(&held);
    PyMem_Free(taken);
    return PyErr_Occurred() ? NULL : done(status);
}

static PyObject *py_judge(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *records_object, *rows, *weights, *hits, *losses;
    int loss;
    Held held = {NULL};
    Records records;
    int64_t status = 0, count = ANY, models = ANY;
    if (!PyArg_ParseTuple(args, "OOiOOO", &records_object, &rows, &loss, &weights, &hits, &losses))
        return NULL;
    if (!read_records(&held, records_object, &records)) {
        const int64_t *which = row_of(&held, rows, "rows", INTEGERS, 0, &count);
        const float *w =
            which ? array_of(&held, weights, "weights", FLOATS, 0, 2, &models, &records.dim) : NULL;
        double *h = w ? row_of(&held, hits, "hits", DOUBLES, 1, &models) : NULL;
        double *l = h ? row_of(&held, losses, "losses", DOUBLES, 1, &models) : NULL;
        if (l) {
            Py_BEGIN_ALLOW_THREADS
            status = kernels->judge(&records, which, count, loss, w, models, h, l);
            Py_END_ALLOW_THREADS
        }
    }
    let_go(&held);
    return PyErr_Occurred() ? NULL : done(status);
}

static PyObject *py_nonprivate_rounds(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *records_object, *clients, *ends, *weights, *total;
    double reg, rate;
    Held held = {NULL};
    Records records;
    int64_t status = 0, count = ANY, rounds = ANY;
    if (!PyArg_ParseTuple(args, "OOOddOO", &records_object, &clients, &ends, &reg, &rate, &weights,
                          &total))
        return NULL;
    if (!read_records(&held, records_object, &records)) {
        const int64_t *who = row_of(&held, clients, "clients", INTEGERS, 0, &count);
        const int64_t *until = who ? row_of(&held, ends, "ends", INTEGERS, 0, &rounds) : NULL;
        float *w = until ? row_of(&held, weights, "weights", FLOATS, 1, &records.dim) : NULL;
        float *sum = w ? row_of(&held, total, "total", FLOATS, 1, &records.dim) : NULL;
        if (sum && !records.dense) refused("records: dense");
        if (sum && records.dense && !check_ends(until, rounds, count)) {
            Py_BEGIN_ALLOW_THREADS
            status = kernels->nonprivate_rounds(&records, who, until, rounds, reg, rate, w, sum);
            Py_END_ALLOW_THREADS
        }
    }
    let_go(&held);
    return PyErr_Occurred() ? NULL : done(status);
}

static PyObject *py_draw_dimensions(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *law, *vectors, *clients, *chosen;
    uint64_t key[2], epoch;
    Held held = {NULL};
    int64_t rows = ANY, d = ANY, count = ANY;
    if (!PyArg_ParseTuple(args, "OO(KK)KOO", &law, &vectors, &key[0], &key[1], &epoch, &clients,
                          &chosen))
        return NULL;
    CompiledSolution *plan = calloc(1, sizeof *plan);
    if (!plan) return PyErr_NoMemory();
    const void *data = array_of(&held, vectors, "vectors", FLOATS, 0, 2, &rows, &d);
    int doubles = !data && held.first && is_kind(&held.first->buffer, DOUBLES);
    if (doubles) {
        PyErr_Clear();
        data = array_of(&held, vectors, "vectors", DOUBLES, 0, 2, &rows, &d);
    }
    const int64_t *who = data ? row_of(&held, clients, "clients", INTEGERS, 0, &count) : NULL;
    int64_t *out = who ? row_of(&held, chosen, "chosen", INTEGERS, 1, &count) : NULL;
    if (out && rows != 1 && rows != count) refused("vectors: one row a client, or one for all");
    if (!PyErr_Occurred() && !read_ranks(plan, law, d, &plan->tables.ranks)) {
        const RankTable *table = &plan->tables.ranks;
        Py_BEGIN_ALLOW_THREADS
        if (doubles)
            kernels->draw_dimensions_double(table, data, rows, d, key, epoch, who, count, out);
        else
            kernels->draw_dimensions_float(table, data, rows, d, key, epoch, who, count, out);
        Py_END_ALLOW_THREADS
    }
    let_go(&held);
    free_plan(plan);
    return PyErr_Occurred() ? NULL : done(0);
}

static int check_inputs(const double *t, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!(t[i] >= -1.0 && t[i] <= 1.0)) return refused("t: in [-1, 1]");
    return 0;
}

static PyObject *py_draw_symbols(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *law, *t, *clients, *symbols;
    uint64_t key[2], epoch;
    Held held = {NULL};
    int64_t rows = ANY, count = ANY;
    if (!PyArg_ParseTuple(args, "OO(KK)KOO", &law, &t, &key[0], &key[1], &epoch, &clients, &symbols))
        return NULL;
    CompiledSolution *plan = calloc(1, sizeof *plan);
    if (!plan) return PyErr_NoMemory();
    const double *data = row_of(&held, t, "t", DOUBLES, 0, &rows);
    const int64_t *who = data ? row_of(&held, clients, "clients", INTEGERS, 0, &count) : NULL;
    int64_t *out = who ? row_of(&held, symbols, "symbols", INTEGERS, 1, &count) : NULL;
    if (out && rows != 1 && rows != count) refused("t: one a client, or one for all");
    if (out && !PyErr_Occurred() && !check_inputs(data, rows) &&
        !read_windows(plan, law, "windows", &plan->tables.symbols)) {
        const SymbolTable *table = &plan->tables.symbols;
        Py_BEGIN_ALLOW_THREADS
        kernels->draw_symbols(table, data, rows, key, epoch, who, count, out);
        Py_END_ALLOW_THREADS
    }
    let_go(&held);
    free_plan(plan);
    return PyErr_Occurred() ? NULL : done(0);
}

static PyObject *py_shuffle(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *order;
    uint64_t key[2], epoch;
    Held held = {NULL};
    int64_t count = ANY;
    if (!PyArg_ParseTuple(args, "O(KK)K", &order, &key[0], &key[1], &epoch)) return NULL;
    int64_t *data = row_of(&held, order, "order", INTEGERS, 1, &count);
    if (data) {
        Py_BEGIN_ALLOW_THREADS
        kernels->shuffle(data, count, key, epoch);
        Py_END_ALLOW_THREADS
    }
    let_go(&held);
    return PyErr_Occurred() ? NULL : done(0);
}

static PyObject *py_drop(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *stays;
    uint64_t key[2], epoch;
    double rate;
    Held held = {NULL};
    int64_t count = ANY;
    if (!PyArg_ParseTuple(args, "Od(KK)K", &stays, &rate, &key[0], &key[1], &epoch)) return NULL;
    uint8_t *data = row_of(&held, stays, "stays", FLAGS, 1, &count);
    if (data && !(rate >= 0 && rate <= 1)) refused("rate: in 0 … 1");
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        kernels->drop(data, count, rate, key, epoch);
        Py_END_ALLOW_THREADS
    }
    let_go(&held);
    return PyErr_Occurred() ? NULL : done(0);
}

static PyObject *py_public_signs(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *entropy, *spawn, *signs;
    Held held = {NULL};
    int64_t count = ANY, rounds = ANY, four = 4, d = ANY;
    if (!PyArg_ParseTuple(args, "OOO", &entropy, &spawn, &signs)) return NULL;
    const uint32_t *seed = row_of(&held, entropy, "entropy", SHORT_UNSIGNED, 0, &count);
    const uint32_t *keys =
        seed ? array_of(&held, spawn, "spawn", SHORT_UNSIGNED, 0, 2, &rounds, &four) : NULL;
    float *out = keys ? array_of(&held, signs, "signs", FLOATS, 1, 2, &rounds, &d) : NULL;
    if (out && count < 4) refused("entropy: at least four words");
    if (!PyErr_Occurred()) kernels->public_signs(seed, count, keys, rounds, out, d);
    let_go(&held);
    return PyErr_Occurred() ? NULL : done(0);
}

static PyObject *py_add_codewords(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *slots, *steps, *sums;
    Tables tables = {.basis = FRESH};
    Scratch scratch = {0};
    uint32_t key[2];
    Held held = {NULL};
    int64_t status = 0, count = ANY;
    if (!PyArg_ParseTuple(args, "(LLLLL)(II)OOO", &tables.dim, &tables.slots, &tables.bases, &tables.width,
                          &tables.factors, &key[0], &key[1], &slots, &steps, &sums))
        return NULL;
    tables.rotations = tables.width > 0 ? tables.slots / tables.width : 0;
    CompiledSolution *plan = calloc(1, sizeof *plan);
    if (!plan) return PyErr_NoMemory();
    const int64_t *which = row_of(&held, slots, "slots", INTEGERS, 0, &count);
    const int64_t *each = which ? row_of(&held, steps, "steps", INTEGERS, 0, &count) : NULL;
    int64_t *into = each ? row_of(&held, sums, "sums", INTEGERS, 1, &tables.dim) : NULL;
    if (into && !check_fresh(&tables) &&
        (scratch.room = room_for(plan, tables.width, sizeof *scratch.room)) &&
        (scratch.words = room_for(plan, tables.factors * tables.width / 32 + 1, sizeof *scratch.words))) {
        Py_BEGIN_ALLOW_THREADS
        status = kernels->add_codewords(&tables, &scratch, key, which, each, count, into);
        Py_END_ALLOW_THREADS
    }
    let_go(&held);
    free_plan(plan);
    return PyErr_Occurred() ? NULL : done(status);
}

/* Single steps of the kernels, for tests against their readable twins. */

static PyObject *py_take_words(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *words;
    uint64_t key[2], epoch, client;
    Held held = {NULL};
    int64_t count = ANY;
    if (!PyArg_ParseTuple(args, "O(KK)KK", &words, &key[0], &key[1], &epoch, &client)) return NULL;
    uint64_t *data = row_of(&held, words, "words", UNSIGNED, 1, &count);
    if (data) kernels->take_words(data, count, key, epoch, client);
    let_go(&held);
    return data ? done(0) : NULL;
}

static PyObject *py_hadamard(PyObject *module, PyObject *x) {
    (void)module;
    Held held = {NULL};
    int64_t n = ANY;
    float *data = row_of(&held, x, "x", FLOATS, 1, &n);
    if (data && (n < 1 || (n & (n - 1)))) refused("x: must have a power of two entries");
    if (!PyErr_Occurred()) kernels->hadamard_float(data, n);
    let_go(&held);
    return PyErr_Occurred() ? NULL : done(0);
}

static PyObject *py_magnitude_at(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *vector;
    long long rank;
    Held held = {NULL};
    int64_t d = ANY;
    double found = 0;
    if (!PyArg_ParseTuple(args, "LO", &rank, &vector)) return NULL;
    const float *data = row_of(&held, vector, "vector", FLOATS, 0, &d);
    if (data && (rank < 0 || rank >= d)) refused("rank: in 0 … d − 1");
    if (!PyErr_Occurred()) found = kernels->magnitude_at(rank, data, d);
    let_go(&held);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(found);
}

static PyObject *py_find_equal(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *vector;
    float sign, pivot;
    long long pick;
    Held held = {NULL};
    int64_t d = ANY, place = 0;
    if (!PyArg_ParseTuple(args, "OffL", &vector, &sign, &pivot, &pick)) return NULL;
    const float *data = row_of(&held, vector, "vector", FLOATS, 0, &d);
    if (data) place = kernels->find_equal(data, d, sign, pivot, pick);
    let_go(&held);
    return data ? PyLong_FromLongLong(place) : NULL;
}

static PyObject *py_logarithm(PyObject *module, PyObject *x) {
    (void)module;
    double value = PyFloat_AsDouble(x);
    if (PyErr_Occurred()) return NULL;
    return PyFloat_FromDouble(kernels->logarithm(value));
}

static PyObject *py_variants(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    int count = usable_variants();
    PyObject *names = PyTuple_New(count);
    for (int i = 0; names && i < count; i++) {
        PyObject *name = PyUnicode_FromString(variants[i]->name);
        if (!name || PyTuple_SetItem(names, i, name)) {
            Py_DecRef(names);
            return NULL;
        }
    }
    return names;
}

static PyObject *py_use(PyObject *module, PyObject *args) {
    (void)module;
    const char *name, *before = kernels->name;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    for (int i = 0; i < usable_variants(); i++)
        if (!strcmp(name, variants[i]->name)) {
            kernels = variants[i];
            return Py_BuildValue("s", before);
        }
    return PyErr_Format(PyExc_ValueError, "this processor or build has no variant %s", name);
}

static PyMethodDef methods[] = {
    {"plan", new_plan, METH_O, "The tables of a solution, checked and ready."},
    {"run_rounds", py_run_rounds, METH_VARARGS, "Rounds of Algorithm 1 on linear models."},
    {"send_vectors", py_send_vectors, METH_VARARGS, "Reports on vectors computed elsewhere."},
    {"judge", py_judge, METH_VARARGS, "Right answers and losses of linear models."},
    {"nonprivate_rounds", py_nonprivate_rounds, METH_VARARGS, "Rounds without privacy, fused."},
    {"draw_dimensions", py_draw_dimensions, METH_VARARGS, "A dimension for each client."},
    {"draw_symbols", py_draw_symbols, METH_VARARGS, "A symbol for each client."},
    {"shuffle", py_shuffle, METH_VARARGS, "A random order, in place."},
    {"drop", py_drop, METH_VARARGS, "Mark the clients that do not answer."},
    {"public_signs", py_public_signs, METH_VARARGS, "The signs of rotated bases."},
    {"add_codewords", py_add_codewords, METH_VARARGS, "Add up codewords of fresh bases."},
    {"take_words", py_take_words, METH_VARARGS, "The first words of a stream."},
    {"hadamard", py_hadamard, METH_O, "The Walsh-Hadamard transform, in place."},
    {"magnitude_at", py_magnitude_at, METH_VARARGS, "The magnitude of a rank."},
    {"find_equal", py_find_equal, METH_VARARGS, "The place of one of the equal ones."},
    {"logarithm", py_logarithm, METH_O, "ln x, the same bits on every machine."},
    {"variants", py_variants, METH_NOARGS, "The sets of instructions that this processor has."},
    {"use", py_use, METH_VARARGS, "Use a set of instructions; returns the one before."},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module) {
    (void)module;
    kernels = variants[usable_variants() - 1];
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The compiled kernels of fedsel's simulations.", 0, methods,
    slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
