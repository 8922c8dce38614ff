/* The caller's arrays: taken by the buffer protocol, with kind, dimensions and sizes checked before
   anything reads them. */
#ifndef FEDSEL_ARRAYS_H
#define FEDSEL_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "tables.h"

#define ANY (-1)

typedef struct {
    const char *kinds; /* what numpy may call it, natively */
    Py_ssize_t size;
    const char *name;
} Kind;

static const Kind FLOATS = {"f", 4, "float32"}, DOUBLES = {"d", 8, "float64"},
                  INTEGERS = {"lq", 8, "int64"}, SHORT_INTEGERS = {"il", 4, "int32"},
                  BYTES = {"b", 1, "int8"}, FLAGS = {"?B", 1, "bool"},
                  UNSIGNED = {"LQ", 8, "uint64"}, SHORT_UNSIGNED = {"IL", 4, "uint32"};

/* The arrays that a call holds, to be let go together. */
typedef struct View {
    Py_buffer buffer;
    struct View *next;
} View;

typedef struct {
    View *first;
} Held;

static void let_go(Held *held) {
    while (held->first) {
        View *view = held->first;
        held->first = view->next;
        PyBuffer_Release(&view->buffer);
        PyMem_Free(view);
    }
}

static int is_kind(const Py_buffer *view, Kind kind) {
    const char *format = view->format ? view->format : "B";
    if (*format == '@' || *format == '=' || *format == '<') format++;
    return view->itemsize == kind.size && strlen(format) == 1 && strchr(kind.kinds, *format);
}

/* An array of this kind with these dimensions (ANY: whatever it has, written back), contiguous.
   Returns its data; NULL with an error set if it is another. */
static void *array_of(Held *held, PyObject *object, const char *name, Kind kind, int writable,
                      int dimensions, int64_t *rows, int64_t *columns) {
    int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
    View *taken = PyMem_Calloc(1, sizeof *taken);
    if (!taken) return PyErr_NoMemory();
    Py_buffer *view = &taken->buffer;
    if (PyObject_GetBuffer(object, view, flags)) {
        PyMem_Free(taken);
        return NULL;
    }
    taken->next = held->first;
    held->first = taken;
    if (!is_kind(view, kind) || view->ndim != dimensions) {
        PyErr_Format(PyExc_ValueError, "%s must be a contiguous array of %s with %d dimensions",
                     name, kind.name, dimensions);
        return NULL;
    }
    int64_t *wanted[] = {rows, columns};
    for (int i = 0; i < dimensions; i++) {
        int64_t size = (int64_t)view->shape[i];
        if (*wanted[i] != ANY && *wanted[i] != size) {
            PyErr_Format(PyExc_ValueError, "%s must have %lld entries along axis %d, not %lld",
                         name, (long long)*wanted[i], i, (long long)size);
            return NULL;
        }
        *wanted[i] = size;
    }
    return view->buf;
}

static void *row_of(Held *held, PyObject *object, const char *name, Kind kind, int writable,
                    int64_t *count) {
    return array_of(held, object, name, kind, writable, 1, count, NULL);
}

static int refused(const char *what) {
    PyErr_SetString(PyExc_ValueError, what);
    return -1;
}

#endif
