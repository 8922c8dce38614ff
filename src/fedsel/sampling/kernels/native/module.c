/* The Python module: arguments are taken and checked here, the work is done without the GIL. */

#include "arrays.h"
#include "plan.h"

static const Kernels *kernels = &kernels_base;

static int has_avx2(void) {
#if defined(FEDSEL_HAS_AVX2)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#else
    return 0;
#endif
}

/* --- what several calls take --------------------------------------------------------------- */

/* An optional array of an attribute: NULL and no error where it is None. */
static int optional_at(Held *held, PyObject *object, const char *name, Kind kind, int dimensions,
                       int64_t *rows, int64_t *columns, const void **data) {
    *data = NULL;
    PyObject *found = PyObject_GetAttrString(object, name);
    if (!found) return -1;
    if (found != Py_None)
        *data = array_of(held, found, name, kind, 0, dimensions, rows, columns);
    int wrong = found != Py_None && !*data;
    Py_DecRef(found); /* the view keeps it alive */
    return wrong ? -1 : 0;
}

static int read_records(Held *held, PyObject *object, Records *records) {
    const void *dense, *indptr, *indices, *data, *labels, *order, *starts;
    int64_t bounds = ANY, clients = ANY;
    *records = (Records){.rows = ANY, .dim = ANY, .entries = ANY, .ordered = ANY};
    if (optional_at(held, object, "labels", BYTES, 1, &records->rows, NULL, &labels) ||
        optional_at(held, object, "dense", FLOATS, 2, &records->rows, &records->dim, &dense) ||
        optional_at(held, object, "indptr", INTEGERS, 1, &bounds, NULL, &indptr) ||
        optional_at(held, object, "indices", SHORT_INTEGERS, 1, &records->entries, NULL, &indices) ||
        optional_at(held, object, "data", FLOATS, 1, &records->entries, NULL, &data) ||
        optional_at(held, object, "order", INTEGERS, 1, &records->ordered, NULL, &order) ||
        optional_at(held, object, "starts", INTEGERS, 1, &clients, NULL, &starts))
        return -1;
    if (!labels) return refused("labels: needed");
    if (!dense && (!indptr || !indices || !data || bounds != records->rows + 1))
        return refused("records: dense, or indptr, indices and data of as many rows as labels");
    if (starts && (!order || clients < 1)) return refused("starts: at least one, with an order");
    if (!dense && integer_at(object, "dim", &records->dim)) return -1;
    records->dense = dense;
    records->indptr = dense ? NULL : indptr;
    records->indices = indices;
    records->data = data;
    records->labels = labels;
    records->order = order;
    records->starts = starts;
    records->clients = starts ? clients - 1 : 0;
    return 0;
}

/* Where a round's sums, residuals and reports are kept: (sums, total, residual or None, sent). */
static int read_sending(Held *held, Plan *plan, PyObject *sums, PyObject *total, PyObject *residual,
                        PyObject *sent, int64_t count, Sending *sending, int64_t **row,
                        int64_t *keeps, int64_t *clients) {
    Tables *tables = &plan->tables;
    int64_t windows = tables->symbols.count, slots = tables->slots, rows = ANY;
    int64_t columns = 2 * tables->picks;
    sending->tables = tables;
    sending->scratch = &plan->scratch;
    sending->residual = NULL;
    *clients = 0;
    if (!(sending->total = row_of(held, total, "total", DOUBLES, 1, &slots))) return -1;
    if (tables->plain)
        sending->sums = NULL;
    else if (!(sending->sums = array_of(held, sums, "sums", INTEGERS, 1, 2, &windows, &slots)))
        return -1;
    if (residual != Py_None) {
        *clients = ANY;
        sending->residual =
            array_of(held, residual, "residual", FLOATS, 1, 2, clients, &tables->dim);
        if (!sending->residual) return -1;
    }
    if (!(*row = array_of(held, sent, "sent", INTEGERS, 1, 2, &rows, &columns))) return -1;
    if (rows < 1 || (rows > 1 && rows < count)) return refused("sent: one row, or one a client");
    *keeps = rows > 1;
    return 0;
}

/* What the reports of a call are drawn from: a key (two halves) for all, or an array (reports, 2). */
static int read_key(Held *held, PyObject *object, int64_t count, uint64_t key[2],
                    Sending *sending) {
    int64_t two = 2;
    sending->key = key;
    sending->own = NULL;
    if (PyTuple_Check(object))
        return PyArg_ParseTuple(object, "KK;key: two halves", &key[0], &key[1]) ? 0 : -1;
    sending->own = array_of(held, object, "key", UNSIGNED, 0, 2, &count, &two);
    return sending->own ? 0 : -1;
}

static Plan *plan_of(PyObject *capsule) {
    Plan *plan = PyCapsule_GetPointer(capsule, PLAN_NAME);
    if (plan && plan->busy) {
        PyErr_SetString(PyExc_RuntimeError, "a plan serves one thread at a time");
        return NULL;
    }
    return plan;
}

static int check_ends(const int64_t *ends, int64_t rounds, int64_t count) {
    for (int64_t t = 0, before = 0; t < rounds; before = ends[t++])
        if (ends[t] < before || ends[t] > count) return refused("ends: ascending, up to the clients");
    return 0;
}

static PyObject *done(int64_t status) {
    if (status == OUT_OF_BOUNDS) {
        refused("a client or an entry of a record lies outside of its array");
        return NULL;
    }
    return PyLong_FromLongLong(status);
}

/* --- the functions ------------------------------------------------------------------------- */

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
    Plan *plan = plan_of(capsule);
    int64_t status = 0, rounds, dim;
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
    if (plan->tables.basis == ROTATED &&
        !(call.signs = array_of(&held, signs, "signs", FLOATS, 0, 2, &rounds, &dim)))
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

/* The parts of the clients' vectors: each (clients, size), or (1, size) for one vector for all. */
static int read_parts(Held *held, PyObject *parts, int64_t dim, Vectors *call, const char **data,
                      int64_t *sizes) {
    int64_t rows = ANY, entries = 0;
    for (Py_ssize_t p = 0; p < call->part_count; p++) {
        int64_t columns = ANY;
        PyObject *part = PySequence_GetItem(parts, p);
        if (!part) return -1;
        data[p] = array_of(held, part, "parts", FLOATS, 0, 2, &rows, &columns);
        Py_DecRef(part);
        if (!data[p]) return -1;
        sizes[p] = columns;
        entries += columns;
    }
    if (entries != dim) return refused("parts: must have as many entries in all as the solution");
    if (rows != 1 && rows != call->count) return refused("parts: one row a client, or one for all");
    call->stride = rows == call->count && rows != 1;
    return 0;
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
    Plan *plan = plan_of(capsule);
    call.part_count = plan ? PySequence_Size(parts) : -1;
    if (call.part_count < 0) return NULL;
    const char **data = PyMem_Calloc((size_t)call.part_count + 1, sizeof *data);
    int64_t *sizes = PyMem_Calloc((size_t)call.part_count + 1, sizeof *sizes);
    int64_t status = 0, dim = plan->tables.dim, one = 1;
    if (!data || !sizes) {
        PyErr_NoMemory();
        goto end;
    }
    if (!(call.clients = row_of(&held, clients, "clients", INTEGERS, 0, &call.count)) ||
        read_parts(&held, parts, dim, &call, data, sizes) ||
        read_sending(&held, plan, sums, total, residual, sent, call.count, &call.sending,
                     &call.sent, &call.keeps, &call.clients_with_residual) ||
        read_key(&held, keys, call.count, key, &call.sending))
        goto end;
    if (factors != Py_None && !(call.factors = row_of(&held, factors, "factors", FLOATS, 0, &dim)))
        goto end;
    if (plan->tables.basis == ROTATED &&
        !(call.sending.signs = array_of(&held, signs, "signs", FLOATS, 0, 2, &one, &dim)))
        goto end;
    call.parts = data;
    call.sizes = sizes;
    call.sending.epoch = epoch;
    plan->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    status = kernels->send_vectors(&call);
    Py_END_ALLOW_THREADS
    plan->busy = 0;
end:
    let_go(&held);
    PyMem_Free(data);
    PyMem_Free(sizes);
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
    Plan *plan = calloc(1, sizeof *plan);
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
    Plan *plan = calloc(1, sizeof *plan);
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

/* --- single steps, for tests against their readable twins ----------------------------------- */

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

/* --- which instructions -------------------------------------------------------------------- */

static PyObject *py_variants(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    return has_avx2() ? Py_BuildValue("(ss)", "base", "avx2") : Py_BuildValue("(s)", "base");
}

static PyObject *py_use(PyObject *module, PyObject *args) {
    (void)module;
    const char *name, *before = kernels->name;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    if (!strcmp(name, "base")) {
        kernels = &kernels_base;
#if defined(FEDSEL_HAS_AVX2)
    } else if (!strcmp(name, "avx2") && has_avx2()) {
        kernels = &kernels_avx2;
#endif
    } else {
        return PyErr_Format(PyExc_ValueError, "this processor or build has no variant %s", name);
    }
    return Py_BuildValue("s", before);
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
#if defined(FEDSEL_HAS_AVX2)
    if (has_avx2()) kernels = &kernels_avx2;
#endif
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The compiled kernels of fedsel's simulations.", 0, methods,
    slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
