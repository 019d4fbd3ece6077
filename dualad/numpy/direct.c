/* Calls of NumPy's functions inside lifted code that go straight through.
 *
 * A Direct stands for a function of NumPy's or Python's. A call with nothing but plain arrays, numbers and lists of
 * them runs the original, a few nanoseconds later; every other call runs ours. A function that makes arrays runs ours
 * also where the array that this line of the user's code makes has to be a buffer, which the line's code object keeps
 * in its extra memory (mark). Not for: what ours do (creation.py, forward.py), or when lines are marked (direct.py).
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

enum { DEEP = 8 }; /* lists in lists that are looked into */
enum { FEW = 16 }; /* arguments of calls that go straight through */

typedef struct {
    PyObject_HEAD vectorcallfunc call;
    PyObject *original, *ours, *dict, *weakrefs;
    int makes;
} Direct;

/* A context variable; what it holds; what is told of an array and its line; and a name (connect, and below). */
static PyObject *making, *directly, *noting, *noted, *standing;

/* ── what is plain ───────────────────────────────────────────────────────────────────────────────────────────────── */

static int is_plain(PyObject *x, int deep)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == &PyFloat_Type || type == &PyLong_Type || x == Py_None || type == &PyBool_Type ||
        type == &PyComplex_Type || type == &PyUnicode_Type || type == &PySlice_Type || type == &PyRange_Type)
        return 1;
    if (type == &PyArray_Type)
        return !PyDataType_REFCHK(PyArray_DESCR((PyArrayObject *)x));
    if (type == &PyList_Type || type == &PyTuple_Type) {
        Py_ssize_t n = deep < DEEP ? PySequence_Fast_GET_SIZE(x) : -1;
        for (Py_ssize_t i = 0; i < n; i++)
            if (!is_plain(PySequence_Fast_GET_ITEM(x, i), deep + 1))
                return 0;
        return n >= 0;
    }
    return PyArray_IsScalar(x, Number) || PyArray_IsScalar(x, Bool) || PyArray_DescrCheck(x) || PyType_Check(x);
}

/* ── lines whose arrays are buffers ──────────────────────────────────────────────────────────────────────────────── */

typedef struct {
    int count, at[];
} Lines;

static Py_ssize_t extra;

static Lines *lines_of(PyObject *code)
{
    void *found = NULL;
    return PyUnstable_Code_GetExtra(code, extra, &found) < 0 ? NULL : found;
}

static int is_marked(PyObject *code, int at)
{
    Lines *lines = lines_of(code);
    for (int i = 0; lines && i < lines->count; i++)
        if (lines->at[i] == at)
            return 1;
    return 0;
}

/* mark(code, at): the arrays that the instruction there makes are buffers from now on; whether that is new. */
static PyObject *mark(PyObject *module, PyObject *args)
{
    PyObject *code;
    int at;
    if (!PyArg_ParseTuple(args, "O!i", &PyCode_Type, &code, &at))
        return NULL;
    if (is_marked(code, at))
        Py_RETURN_FALSE;
    Lines *old = lines_of(code);
    int count = old ? old->count : 0;
    Lines *lines = PyMem_Malloc(sizeof(Lines) + (count + 1) * sizeof(int));
    if (!lines)
        return PyErr_NoMemory();
    if (old)
        memcpy(lines->at, old->at, count * sizeof(int));
    lines->at[count] = at;
    lines->count = count + 1;
    if (PyUnstable_Code_SetExtra(code, extra, lines) < 0) { /* which frees what was there */
        PyMem_Free(lines);
        return NULL;
    }
    Py_RETURN_TRUE;
}

/* A call of the original, with types that stand for others given as these. */
static PyObject *call_original(Direct *self, PyObject *const *args, Py_ssize_t all, size_t flags, PyObject *names)
{
    PyObject *given[FEW + 1];
    for (Py_ssize_t i = 0; i < all; i++) {
        given[i + 1] = args[i];
        if (PyType_Check(args[i]) && !Py_IS_TYPE(args[i], &PyType_Type)) {
            PyObject *own = ((PyTypeObject *)args[i])->tp_dict;
            PyObject *type = own ? PyDict_GetItemWithError(own, standing) : NULL;
            if (type)
                given[i + 1] = type;
            else if (PyErr_Occurred())
                return NULL;
        }
    }
    return PyObject_Vectorcall(self->original, given + 1, PyVectorcall_NARGS(flags) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               names);
}

/* ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Whether a context variable holds something. */
static int holds(PyObject *variable, PyObject *wanted)
{
    PyObject *value = NULL;
    if (PyContextVar_Get(variable, NULL, &value) < 0)
        return -1;
    int same = value == wanted;
    Py_XDECREF(value);
    return same;
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names)
{
    Direct *self = (Direct *)callable;
    Py_ssize_t all = PyVectorcall_NARGS(flags) + (names ? PyTuple_GET_SIZE(names) : 0);
    int plain = all <= FEW;
    for (Py_ssize_t i = 0; plain && i < all; i++)
        plain = is_plain(args[i], 0);
    if (!self->makes && plain)
        return call_original(self, args, all, flags, names);
    if (!self->makes)
        return PyObject_Vectorcall(self->ours, args, flags, names);
    int direct = plain ? holds(making, directly) : 0;
    if (direct < 0)
        return NULL;
    PyFrameObject *frame = PyEval_GetFrame();
    if (direct && frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        int marked = lines_of((PyObject *)code) && is_marked((PyObject *)code, PyFrame_GetLasti(frame));
        Py_DECREF(code);
        return marked ? PyObject_Vectorcall(self->ours, args, flags, names)
                      : call_original(self, args, all, flags, names);
    }
    int notes = frame ? holds(making, noting) : 0;
    if (notes < 0)
        return NULL;
    PyObject *out = PyObject_Vectorcall(self->ours, args, flags, names);
    if (!out || !notes)
        return out;
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *done = PyObject_CallFunction(noted, "OOi", out, code, PyFrame_GetLasti(frame));
    Py_DECREF(code);
    if (!done)
        Py_CLEAR(out);
    Py_XDECREF(done);
    return out;
}

/* Direct(original, ours, makes): makes if results may be new arrays. */
static PyObject *new_direct(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *original, *ours;
    int makes;
    if (!PyArg_ParseTuple(args, "OOp", &original, &ours, &makes))
        return NULL;
    Direct *self = (Direct *)type->tp_alloc(type, 0);
    if (self) {
        self->call = call;
        self->original = Py_NewRef(original);
        self->ours = Py_NewRef(ours);
        self->makes = makes;
    }
    return (PyObject *)self;
}

static int traverse(PyObject *x, visitproc visit, void *arg)
{
    Direct *self = (Direct *)x;
    Py_VISIT(self->original);
    Py_VISIT(self->ours);
    Py_VISIT(self->dict);
    return 0;
}

static int clear(PyObject *x)
{
    Direct *self = (Direct *)x;
    Py_CLEAR(self->original);
    Py_CLEAR(self->ours);
    Py_CLEAR(self->dict);
    return 0;
}

static void dealloc(PyObject *x)
{
    PyObject_GC_UnTrack(x);
    if (((Direct *)x)->weakrefs)
        PyObject_ClearWeakRefs(x);
    clear(x);
    Py_TYPE(x)->tp_free(x);
}

static PyObject *repr(PyObject *x)
{
    return PyObject_Repr(((Direct *)x)->ours);
}

/* A function is pickled by its name. */
static PyObject *reduce(PyObject *x, PyObject *nothing)
{
    return PyObject_GetAttrString(x, "__qualname__");
}

static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyGetSetDef fields[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
                               {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject DirectType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dualad.numpy.Direct", .tp_basicsize = sizeof(Direct),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Direct, call), .tp_call = PyVectorcall_Call, .tp_traverse = traverse,
    .tp_clear = clear, .tp_dealloc = dealloc, .tp_repr = repr, .tp_methods = methods, .tp_getset = fields,
    .tp_dictoffset = offsetof(Direct, dict), .tp_weaklistoffset = offsetof(Direct, weakrefs), .tp_new = new_direct};

/* connect(making, directly, noting, noted) */
static PyObject *connect(PyObject *module, PyObject *args)
{
    PyObject *given[4];
    if (!PyArg_ParseTuple(args, "OOOO", given, given + 1, given + 2, given + 3))
        return NULL;
    PyObject **kept[4] = {&making, &directly, &noting, &noted};
    for (int i = 0; i < 4; i++)
        Py_XSETREF(*kept[i], Py_NewRef(given[i]));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS, NULL}, {"mark", mark, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dualad.numpy._direct", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__direct(void)
{
    import_array();
    standing = PyUnicode_InternFromString("_original");
    extra = PyUnstable_Eval_RequestCodeExtraIndex(PyMem_Free);
    PyObject *module = !standing || extra < 0 ? NULL : PyModule_Create(&definition);
    if (!module || PyModule_AddType(module, &DirectType) < 0 ||
        PyModule_AddIntConstant(module, "SOURCE", DUALAD_SOURCE) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
