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
