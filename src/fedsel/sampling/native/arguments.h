/* What several calls take: records, plans, and where a round is kept. */

#include "arrays.h"
#include "compiled_solution.h"

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
static int read_sending(Held *held, CompiledSolution *plan, PyObject *sums, PyObject *total, PyObject *residual,
                        PyObject *sent, int64_t count, Sending *sending, int64_t **row,
                        int64_t *keeps, int64_t *clients) {
    Tables *tables = &plan->tables;
    int64_t windows = tables->symbols.count, places = tables->places, rows = ANY;
    int64_t columns = 2 * tables->picks;
    sending->tables = tables;
    sending->scratch = &plan->scratch;
    sending->residual = NULL;
    *clients = 0;
    if (!(sending->total = row_of(held, total, "total", DOUBLES, 1, &places))) return -1;
    if (tables->plain)
        sending->sums = NULL;
    else if (!(sending->sums = array_of(held, sums, "sums", INTEGERS, 1, 2, &windows, &places)))
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

static CompiledSolution *plan_of(PyObject *capsule) {
    CompiledSolution *plan = PyCapsule_GetPointer(capsule, PLAN_NAME);
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

/* One part: an array (rows, size), or a pair of arrays (rows, a) and (rows, b) to be multiplied. */
static int read_part(Held *held, PyObject *object, int64_t dim, int64_t *rows, Part *part) {
    int64_t columns = ANY, inner = ANY;
    if (!PyTuple_Check(object)) {
        part->left = array_of(held, object, "parts", FLOATS, 0, 2, rows, &columns);
        part->size = columns;
        return part->left ? 0 : -1;
    }
    PyObject *left, *right;
    if (!PyArg_ParseTuple(object, "OO;parts: two factors", &left, &right) ||
        !(part->left = array_of(held, left, "parts", FLOATS, 0, 2, rows, &columns)) ||
        !(part->right = array_of(held, right, "parts", FLOATS, 0, 2, rows, &inner)))
        return -1;
    if (inner && columns > dim / inner) return refused("parts: more entries than the solution");
    part->size = columns * inner;
    part->inner = inner;
    return 0;
}

/* The parts of the clients' vectors: rows are one a client, or one vector for all. */
static int read_parts(Held *held, PyObject *parts, int64_t dim, Vectors *call, Part *taken) {
    int64_t rows = ANY, entries = 0;
    for (Py_ssize_t p = 0; p < call->part_count; p++) {
        PyObject *object = PySequence_GetItem(parts, p);
        if (!object) return -1;
        int wrong = read_part(held, object, dim, &rows, taken + p);
        Py_DecRef(object); /* the views keep the arrays alive */
        if (wrong) return -1;
        if (taken[p].size > dim - entries) return refused("parts: more entries than the solution");
        entries += taken[p].size;
    }
    if (entries != dim) return refused("parts: must have as many entries in all as the solution");
    if (rows != 1 && rows != call->count) return refused("parts: one row a client, or one for all");
    call->stride = rows == call->count && rows != 1;
    return 0;
}
