/* What stands between Python and compiled code.
 *
 * A Stub is the entry of one group of machine code: it checks each argument (type, dtype, lengths, layout, alignment),
 * allocates the results, runs the code and makes the tuple; arguments that are not as declared go to a Python function.
 * A Front is the entry of what `jit` returns: it finds the signature that a call has, checks the guards of what the
 * function read, takes trees apart, and looks for NaN where that matters; a call that fits nothing goes to Python.
 * bind_front makes the method that calls an object's Front.
 *
 * Both are described by tuples (stub.py and front.py say which) and keep them: pointers to objects are borrowed from
 * there unless a comment says otherwise. Not for: what is computed, or which guards there are.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

/* What machine code returns besides 0 (native/positions.py): an index was out of bounds; else an exception is set. */
enum { OUT_OF_BOUNDS = 2 };
/* Arguments and parts of trees up to this number stand on the C stack. */
enum { FEW = 32 };

typedef int (*Body)(void **arguments, void **results, void *scratch);

/* NumPy's scalars and Python's float have their number right behind the head of an object. */
#define VALUE_OFFSET sizeof(PyObject)
_Static_assert(offsetof(PyFloatObject, ob_fval) == VALUE_OFFSET, "float");
_Static_assert(offsetof(PyDoubleScalarObject, obval) == VALUE_OFFSET, "float64");
_Static_assert(offsetof(PyFloatScalarObject, obval) == VALUE_OFFSET, "float32");
_Static_assert(offsetof(PyLongLongScalarObject, obval) == VALUE_OFFSET, "int64");
_Static_assert(offsetof(PyIntScalarObject, obval) == VALUE_OFFSET, "int32");
_Static_assert(offsetof(PyBoolScalarObject, obval) == VALUE_OFFSET, "bool");

/* ── memory that lives as long as an entry ───────────────────────────────────────────────────────────────────────── */

typedef struct Block { struct Block *next; } Block;

static void *take(Block **blocks, size_t count, size_t size)
{
    Block *block = PyMem_Calloc(1, sizeof(Block) + count * size);
    if (!block)
        return PyErr_NoMemory();
    block->next = *blocks;
    *blocks = block;
    return block + 1;
}

/* The head of both types, whose objects own the tuple that describes them, and their blocks. */
#define ENTRY_HEAD PyObject_HEAD vectorcallfunc call; PyObject *described; Block *blocks;
typedef struct { ENTRY_HEAD } Entry;

static PyObject *new_entry(PyTypeObject *type, vectorcallfunc call, PyObject *described)
{
    Entry *entry = (Entry *)type->tp_alloc(type, 0);
    if (entry) {
        entry->call = call;
        entry->described = Py_NewRef(described);
    }
    return (PyObject *)entry;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Entry *)self)->described);
    return 0;
}

static void dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    for (Block *block = ((Entry *)self)->blocks, *next; block; block = next) {
        next = block->next;
        PyMem_Free(block);
    }
    Py_XDECREF(((Entry *)self)->described);
    Py_TYPE(self)->tp_free(self);
}

/* ── arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct { PyArray_Descr *descr; int axes; npy_intp *lengths; } Form;

/* The numbers of a tuple. */
static npy_intp *numbers(Block **blocks, PyObject *tuple)
{
    npy_intp *found = take(blocks, PyTuple_GET_SIZE(tuple), sizeof(npy_intp));
    for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(tuple); i++)
        found[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i));
    return PyErr_Occurred() ? NULL : found;
}

static int read_form(Block **blocks, Form *form, PyObject *descr, PyObject *lengths)
{
    form->descr = (PyArray_Descr *)descr;
    form->axes = (int)PyTuple_GET_SIZE(lengths);
    return (form->lengths = numbers(blocks, lengths)) != NULL;
}

static inline int has_form(PyObject *x, const Form *form, int flags)
{
    PyArrayObject *a = (PyArrayObject *)x;
    if (PyArray_DESCR(a) != form->descr || PyArray_NDIM(a) != form->axes || (PyArray_FLAGS(a) & flags) != flags)
        return 0;
    return !form->axes || !memcmp(PyArray_DIMS(a), form->lengths, form->axes * sizeof(npy_intp));
}

/* ── large results ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* The memory of large results that were dropped, for those of the next call: from the kernel each page of it would cost a
 * fault. Both entries and NumPy's arrays are used by one thread at a time, who holds Python's lock. */
enum { LARGE = 1 << 17, LARGEST = 1 << 25, MOST_KEPT = 1 << 26, PLACES = 32 };
static struct { void *memory; size_t size; } kept[PLACES];
static size_t kept_places, kept_bytes;

/* As NumPy's own allocator does: ask Linux for huge pages for what is large. */
static void *with_huge_pages(void *memory, size_t size)
{
#ifdef MADV_HUGEPAGE
    const size_t offset = 4096 - (uintptr_t)memory % 4096;
    if (memory && size >= (1u << 22))
        madvise((char *)memory + offset, size - offset, MADV_HUGEPAGE);
#endif
    return memory;
}

static void *large_malloc(void *context, size_t size)
{
    for (size_t i = kept_places; i-- > 0;)
        if (kept[i].size == size) {
            void *memory = kept[i].memory;
            memmove(&kept[i], &kept[i + 1], (--kept_places - i) * sizeof kept[0]);
            kept_bytes -= size;
            return memory;
        }
    return with_huge_pages(malloc(size), size);
}

static void large_free(void *context, void *memory, size_t size)
{
    if (!memory || size < LARGE || size > LARGEST) {
        free(memory);
        return;
    }
    while (kept_places == PLACES || kept_bytes + size > MOST_KEPT) { /* the oldest goes */
        free(kept[0].memory);
        kept_bytes -= kept[0].size;
        memmove(&kept[0], &kept[1], --kept_places * sizeof kept[0]);
    }
    kept[kept_places].memory = memory;
    kept[kept_places++].size = size;
    kept_bytes += size;
}

static void *large_calloc(void *context, size_t count, size_t size)
{
    return with_huge_pages(calloc(count, size), count * size);
}

static void *large_realloc(void *context, void *memory, size_t size) { return realloc(memory, size); }

static PyDataMem_Handler handler = {"dualad", 1, {NULL, large_malloc, large_calloc, large_realloc, large_free}};
static PyObject *handler_capsule;

/* End what PyDataMem_SetHandler(handler_capsule) began; an exception that is set stays. */
static void restore_handler(PyObject *other)
{
    if (other) {
        Py_XDECREF(PyDataMem_SetHandler(other));
        Py_DECREF(other);
    }
}

/* A new array in C's order. */
static PyObject *new_array(const Form *form)
{
    size_t size = PyDataType_ELSIZE(form->descr);
    for (int i = 0; i < form->axes; i++)
        size *= form->lengths[i];
    PyObject *other = size < LARGE || size > LARGEST ? NULL : PyDataMem_SetHandler(handler_capsule);
    Py_INCREF(form->descr);
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, form->descr, form->axes, form->lengths, NULL, NULL, 0, NULL);
    restore_handler(other);
    return made;
}

/* ── Stub ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { IGNORED, PLAIN, TRUTH, WHOLE }; /* kinds of arguments; a Python bool, or int, is converted */

typedef struct { int kind; Form form; PyTypeObject *one, *other; } Argument;

typedef struct {
    ENTRY_HEAD
    PyObject *miss, *again;
    Body body;
    Py_ssize_t scratch, reads, writes;
    int releases;
    Argument *arguments;
    Form *results;
} Stub;

/* Where the numbers of an argument are; NULL if it is not as declared. */
static void *numbers_of(PyObject *x, const Argument *declared, int64_t *cell)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == &PyArray_Type)
        return has_form(x, &declared->form, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED) ? PyArray_DATA((PyArrayObject *)x)
                                                                                        : NULL;
    if (type == declared->one || type == declared->other)
        return (char *)x + VALUE_OFFSET;
    if (declared->kind == TRUTH && type == &PyBool_Type)
        *(npy_bool *)cell = x == Py_True;
    else if (declared->kind == WHOLE && type == &PyLong_Type) {
        int overflow;
        *cell = PyLong_AsLongLongAndOverflow(x, &overflow);
        if (overflow)
            return NULL;
    } else
        return NULL;
    return cell;
}

static PyTypeObject StubType, FrontType;

static PyObject *call_stub(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names)
{
    Stub *s = (Stub *)self;
    Py_ssize_t reads = s->reads, writes = s->writes;
    if (names || PyVectorcall_NARGS(flagged) != reads)
        return PyObject_Vectorcall(s->miss, args, flagged, names);
    /* A cell for each number that is converted or returned, the tables for the code, and the results. */
    void *few[5 * FEW], **room = few;
    if (2 * reads + 3 * writes > 5 * FEW && !(room = PyMem_Malloc((2 * reads + 3 * writes) * sizeof(void *))))
        return PyErr_NoMemory();
    int64_t *cells = (int64_t *)room;
    void **given = room + reads + writes, **out = given + reads, *work = NULL;
    PyObject **made = (PyObject **)(out + writes), *answer = NULL;
    memset(made, 0, writes * sizeof(PyObject *));

    for (Py_ssize_t i = 0; i < reads; i++)
        if (s->arguments[i].kind != IGNORED && !(given[i] = numbers_of(args[i], &s->arguments[i], &cells[i]))) {
            answer = PyObject_Vectorcall(s->miss, args, flagged, NULL);
            goto end;
        }
    for (Py_ssize_t i = 0; i < writes; i++) {
        Form *form = &s->results[i];
        out[i] = &cells[reads + i];
        if (form->axes) {
            if (!(made[i] = new_array(form)))
                goto end;
            out[i] = PyArray_DATA((PyArrayObject *)made[i]);
        }
    }
    if (s->scratch && !(work = large_malloc(NULL, s->scratch))) {
        PyErr_NoMemory();
        goto end;
    }
    PyThreadState *state = s->releases ? PyEval_SaveThread() : NULL;
    int status = s->body(given, out, work);
    if (state)
        PyEval_RestoreThread(state);
    if (work)
        large_free(NULL, work, s->scratch);
    if (status) {
        if (status == OUT_OF_BOUNDS)
            answer = PyObject_Vectorcall(s->again, args, flagged, NULL);
        goto end;
    }
    for (Py_ssize_t i = 0; i < writes; i++)
        if (!s->results[i].axes && !(made[i] = PyArray_Scalar(out[i], s->results[i].descr, NULL)))
            goto end;
    if ((answer = PyTuple_New(writes)))
        for (Py_ssize_t i = 0; i < writes; i++) {
            PyTuple_SET_ITEM(answer, i, made[i]);
            made[i] = NULL;
        }
end:
    for (Py_ssize_t i = 0; i < writes; i++)
        Py_XDECREF(made[i]);
    if (room != few)
        PyMem_Free(room);
    return answer;
}

/* Stub(reads, writes, body, scratch, releases, miss, again, keep): each argument is None or (kind, dtype, shape, type,
 * type), each result (dtype, shape). */
static PyObject *new_stub(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *reads, *writes, *miss, *again, *keep;
    unsigned long long body;
    Py_ssize_t scratch;
    int releases;
    if (!PyArg_ParseTuple(args, "O!O!KnpOOO", &PyTuple_Type, &reads, &PyTuple_Type, &writes, &body, &scratch, &releases,
                          &miss, &again, &keep))
        return NULL;
    Stub *s = (Stub *)new_entry(type, call_stub, args);
    if (!s)
        return NULL;
    s->miss = miss, s->again = again, s->body = (Body)(uintptr_t)body, s->scratch = scratch, s->releases = releases;
    s->reads = PyTuple_GET_SIZE(reads), s->writes = PyTuple_GET_SIZE(writes);
    if (!(s->arguments = take(&s->blocks, s->reads, sizeof(Argument))) ||
        !(s->results = take(&s->blocks, s->writes, sizeof(Form))))
        goto failed;
    for (Py_ssize_t i = 0; i < s->reads; i++) {
        Argument *a = &s->arguments[i];
        PyObject *row = PyTuple_GET_ITEM(reads, i), *descr, *shape, *one, *other;
        if (row == Py_None)
            continue;
        if (!PyArg_ParseTuple(row, "iOO!OO", &a->kind, &descr, &PyTuple_Type, &shape, &one, &other) ||
            !read_form(&s->blocks, &a->form, descr, shape))
            goto failed;
        a->one = one == Py_None ? NULL : (PyTypeObject *)one;
        a->other = other == Py_None ? NULL : (PyTypeObject *)other;
    }
    for (Py_ssize_t i = 0; i < s->writes; i++) {
        PyObject *descr, *shape;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(writes, i), "O!O!", &PyArrayDescr_Type, &descr, &PyTuple_Type, &shape) ||
            !read_form(&s->blocks, &s->results[i], descr, shape))
            goto failed;
    }
    return (PyObject *)s;
failed:
    Py_DECREF(s);
    return NULL;
}

/* ── Front ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { ARRAY, TYPE, IS, TUPLE, LIST, DICT }; /* what a Test looks at */

typedef struct {
    int what;
    Py_ssize_t slot, first, size; /* parts of a container go to the slots from first */
    PyObject *thing;              /* a type, an object, or the tuple of a dict's keys */
    Form form;
} Test;

/* Kinds of places that were read: those of guards/places.py, then fields, and what only Python can compare. */
enum {
    CELL, ENTRY, ITEMS, LENGTH, ENTRIES, CODE, DEFAULTS, ATTRIBUTE,
    HEADER, CONTENT, BASES, CLASS, DICTIONARY, KEYWORD_DEFAULTS, OF_DICT, ASK
};

typedef struct Place {
    int kind, flags;
    PyObject *holder, *key, *value;
    Form form;
    npy_intp *strides;
    struct Place *inside; /* the places in one dict, which are looked at when it has changed */
    Py_ssize_t count;
} Place;

/* A place that is one word of memory, and what it held. */
typedef struct { const uintptr_t *at; uintptr_t held; Place *place; } Word;
typedef struct { PyObject *hidden; Py_ssize_t slot; } Leaf;

typedef struct { /* one signature, and what is done with its calls */
    PyObject *convention, *names, *unchanged, *run, *meant, *rebuild;
    Py_ssize_t positional, slots, tests, places, words, others, leaves, unsure;
    int mode; /* the result is the tuple that run returns, its one entry, or what rebuild makes of it */
    Test *test;
    Place *place;
    Word *word;
    Place **other; /* those that are not one word */
    Leaf *leaf;
} Plan;

typedef struct {
    ENTRY_HEAD
    PyObject *miss, *in_use, *kinks, *missing, *has_nan, *without_frames;
    Py_ssize_t plans;
    Plan *plan;
} Front;

/* Whether a part of the arguments is as the signature says; parts of containers are put into slots, owned. */
static int passes(const Test *t, PyObject **slots, Py_ssize_t *filled)
{
    PyObject *x = slots[t->slot];
    switch (t->what) {
    case ARRAY: return Py_TYPE(x) == &PyArray_Type && has_form(x, &t->form, 0);
    case TYPE: return (PyObject *)Py_TYPE(x) == t->thing;
    case IS: return x == t->thing;
    case TUPLE:
    case LIST:
        if (!(t->what == TUPLE ? PyTuple_CheckExact(x) : PyList_CheckExact(x)) || PySequence_Fast_GET_SIZE(x) != t->size)
            return 0;
        for (Py_ssize_t i = 0; i < t->size; i++)
            slots[t->first + i] = Py_NewRef(PySequence_Fast_GET_ITEM(x, i));
        break;
    default:
        if (!PyDict_CheckExact(x) || PyDict_GET_SIZE(x) != t->size)
            return 0;
        PyObject *key, *value;
        for (Py_ssize_t at = 0, i = 0; PyDict_Next(x, &at, &key, &value); i++) {
            PyObject *expected = PyTuple_GET_ITEM(t->thing, i);
            if (key != expected && !(PyUnicode_CheckExact(key) && !PyUnicode_Compare(key, expected)))
                return 0;
            slots[t->first + i] = Py_NewRef(value);
            *filled = t->first + i + 1;
        }
    }
    *filled = t->first + t->size;
    return 1;
}

/* The word of memory that shows whether a place holds what it held; NULL where it is not one word. */
static const void *word_of(const Place *p)
{
    switch (p->kind) {
    case CELL: return &((PyCellObject *)p->holder)->ob_ref;
    case CODE: return &((PyFunctionObject *)p->holder)->func_code;
    case DEFAULTS: return &((PyFunctionObject *)p->holder)->func_defaults;
    case KEYWORD_DEFAULTS: return &((PyFunctionObject *)p->holder)->func_kwdefaults;
    case BASES: return &((PyTypeObject *)p->holder)->tp_bases;
    case CLASS: return &p->holder->ob_type;
#if PY_VERSION_HEX < 0x030D0000 && UINTPTR_MAX == UINT64_MAX
    case OF_DICT: { /* a number that is another whenever the dict has changed */
        _Py_COMP_DIAG_PUSH
        _Py_COMP_DIAG_IGNORE_DEPR_DECLS
        return &((PyDictObject *)p->holder)->ma_version_tag;
        _Py_COMP_DIAG_POP
    }
#endif
    default: return NULL;
    }
}

/* Whether a place that is not one word holds the very object that it held; -1 if it can't be looked at. */
static int holds(const Place *p)
{
    PyObject *now, *key, *value;
    switch (p->kind) {
    case ENTRY:
        now = PyDict_GetItemWithError(p->holder, p->key);
        return now || !PyErr_Occurred() ? now == p->value : -1;
    case LENGTH: return PyObject_Size(p->holder) == PyLong_AsSsize_t(p->value);
    case ITEMS:
        if (2 * PyDict_GET_SIZE(p->holder) != PyTuple_GET_SIZE(p->value))
            return 0;
        for (Py_ssize_t at = 0, i = 0; PyDict_Next(p->holder, &at, &key, &value); i += 2)
            if (key != PyTuple_GET_ITEM(p->value, i) || value != PyTuple_GET_ITEM(p->value, i + 1))
                return 0;
        return 1;
    case ENTRIES:
        if (PyList_GET_SIZE(p->holder) != PyTuple_GET_SIZE(p->value))
            return 0;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(p->holder); i++)
            if (PyList_GET_ITEM(p->holder, i) != PyTuple_GET_ITEM(p->value, i))
                return 0;
        return 1;
    case ATTRIBUTE:
    case DICTIONARY:
        now = p->kind == ATTRIBUTE ? PyObject_GetAttr(p->holder, p->key) : PyObject_GenericGetDict(p->holder, NULL);
        Py_XDECREF(now); /* compared by its address alone */
        return now ? now == p->value : -1;
    case HEADER:
        return has_form(p->holder, &p->form, 0) &&
               (!p->form.axes ||
                !memcmp(PyArray_STRIDES((PyArrayObject *)p->holder), p->strides, p->form.axes * sizeof(npy_intp)));
    case CONTENT:
        return has_form(p->holder, &p->form, p->flags) && !memcmp(PyArray_DATA((PyArrayObject *)p->holder),
                                                                  PyBytes_AS_STRING(p->value), PyBytes_GET_SIZE(p->value));
    case OF_DICT:
        for (Py_ssize_t i = 0, same; i < p->count; i++)
            if ((same = holds(&p->inside[i])) != 1)
                return (int)same;
        return 1;
    default: return -1;
    }
}

/* Whether all that was read holds what it held; what is not the same object is compared in Python. */
static int is_unchanged(const Plan *p)
{
    int same = 1;
    for (Word *w = p->word; same == 1 && w < p->word + p->words; w++) {
        const uintptr_t now = *w->at; /* not that of later: to compare keys may run other code */
        if (now != w->held && (same = w->place->kind == OF_DICT ? holds(w->place) : 0) == 1)
            w->held = now;
    }
    for (Py_ssize_t i = 0; same == 1 && i < p->others; i++)
        same = holds(p->other[i]);
    if (same == 1)
        return 1;
    PyErr_Clear();
    PyObject *answer = PyObject_CallNoArgs(p->unchanged);
    int truth = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    if (truth < 0)
        PyErr_Clear();
    return truth == 1;
}

/* Whether there is a NaN among numbers: found without a branch, so in the processor's vectors. */
#define NAN_IN(name, ...)                                                                                             \
    __VA_ARGS__ static int name(const double *data, npy_intp n)                                                       \
    {                                                                                                                 \
        long long found[8] = {0}, some = 0;                                                                           \
        npy_intp k = 0;                                                                                               \
        while (!some && k + 8 <= n) {                                                                                 \
            for (npy_intp end = k + 1024 < n ? k + 1024 : n; k + 8 <= end; k += 8)                                     \
                for (int i = 0; i < 8; i++)                                                                           \
                    found[i] |= data[k + i] != data[k + i];                                                           \
            for (int i = 0; i < 8; i++)                                                                               \
                some |= found[i];                                                                                     \
        }                                                                                                             \
        for (; k < n; k++)                                                                                            \
            some |= data[k] != data[k];                                                                               \
        return some != 0;                                                                                             \
    }

NAN_IN(nan_in_any)
#if defined(__GNUC__) && defined(__x86_64__)
NAN_IN(nan_in_256, __attribute__((target("avx2"))))
NAN_IN(nan_in_512, __attribute__((target("avx512f,avx512dq"))))
#endif

static int nan_in(const double *data, npy_intp n)
{
#if defined(__GNUC__) && defined(__x86_64__)
    if (__builtin_cpu_supports("avx512dq"))
        return nan_in_512(data, n);
    if (__builtin_cpu_supports("avx2"))
        return nan_in_256(data, n);
#endif
    return nan_in_any(data, n);
}

/* Whether one of the first results has a NaN in it; -1 for an exception. */
static int any_nan(PyObject *out, Py_ssize_t count, PyObject *has_nan)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *x = PyTuple_GetItem(out, i);
        if (!x)
            return -1;
        if (Py_TYPE(x) == &PyDoubleArrType_Type) {
            double value = PyArrayScalar_VAL(x, Double);
            if (value != value)
                return 1;
            continue;
        }
        PyArrayObject *a = (PyArrayObject *)x;
        if (Py_TYPE(x) == &PyArray_Type && PyArray_TYPE(a) == NPY_DOUBLE && PyArray_ISCARRAY_RO(a)) {
            if (nan_in(PyArray_DATA(a), PyArray_SIZE(a)))
                return 1;
            continue;
        }
        PyObject *answer = PyObject_CallOneArg(has_nan, x);
        int truth = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        if (truth)
            return truth;
    }
    return 0;
}

/* Take the package's frames out of the exception that is being raised. */
static void tidy(PyObject *without_frames)
{
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (trace)
        PyException_SetTraceback(error, trace);
    PyObject *answer = PyObject_CallOneArg(without_frames, error);
    if (answer)
        Py_XSETREF(trace, PyException_GetTraceback(error));
    else
        PyErr_Clear();
    Py_XDECREF(answer);
    PyErr_Restore(kind, error, trace);
}

/* Call the code of a signature, if this is its call: whether it was; the result is new, or NULL with an exception. */
static int attempt(const Front *f, const Plan *p, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **result)
{
    Py_ssize_t keywords = PyTuple_GET_SIZE(p->names), total = count + keywords;
    if (count != p->positional || (names ? PyTuple_GET_SIZE(names) : 0) != keywords)
        return 0;
    for (Py_ssize_t i = 0; i < keywords; i++)
        if (PyTuple_GET_ITEM(names, i) != PyTuple_GET_ITEM(p->names, i))
            return 0;
    PyObject *few[2 * FEW], **slots = few;
    if (p->slots + p->leaves > 2 * FEW && !(slots = PyMem_Malloc((p->slots + p->leaves) * sizeof(PyObject *))))
        return PyErr_NoMemory(), *result = NULL, 1;
    PyObject **given = slots + p->slots, *out = NULL;
    Py_ssize_t filled = total;
    memcpy(slots, args, total * sizeof(PyObject *));
    int ours = 1;
    for (Py_ssize_t i = 0; ours && i < p->tests; i++)
        ours = passes(&p->test[i], slots, &filled);
    if ((ours = ours && is_unchanged(p))) {
        for (Py_ssize_t i = 0; i < p->leaves; i++)
            given[i] = p->leaf[i].hidden ? p->leaf[i].hidden : slots[p->leaf[i].slot];
        /* Code that is not all machine code makes arrays by NumPy's functions. */
        PyObject *other = Py_TYPE(p->run) == &StubType ? NULL : PyDataMem_SetHandler(handler_capsule);
        out = PyObject_Vectorcall(p->run, given, p->leaves, NULL);
        restore_handler(other);
        if (!out)
            tidy(f->without_frames);
    }
    for (Py_ssize_t i = total; i < filled; i++)
        Py_DECREF(slots[i]);
    if (slots != few)
        PyMem_Free(slots);
    if (out && p->unsure) {
        int nan = any_nan(out, p->unsure, f->has_nan);
        if (nan) {
            Py_DECREF(out);
            *result = nan < 0 ? NULL : PyObject_Vectorcall(p->meant, args, count, names);
            return 1;
        }
    }
    if (out && p->mode == 1) {
        PyObject *only = PyTuple_GetItem(out, 0);
        Py_XINCREF(only);
        Py_SETREF(out, only);
    } else if (out && p->mode == 2)
        Py_SETREF(out, PyObject_CallOneArg(p->rebuild, out));
    *result = out;
    return ours;
}

static PyObject *call_front(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names)
{
    Front *f = (Front *)self;
    PyObject *convention = NULL, *result = NULL;
    if (f->plans && !PyList_GET_SIZE(f->in_use)) {
        if (PyContextVar_Get(f->kinks, NULL, &convention) < 0)
            return NULL;
        Py_XDECREF(convention); /* compared by its address alone */
        for (Py_ssize_t i = 0; i < f->plans; i++)
            if (f->plan[i].convention == convention &&
                attempt(f, &f->plan[i], args, PyVectorcall_NARGS(flagged), names, &result))
                return result;
    }
    return PyObject_Vectorcall(f->miss, args, PyVectorcall_NARGS(flagged), names);
}

#define EACH(row, count, table, rows)                                                                                  \
    plan->count = PyTuple_GET_SIZE(rows);                                                                              \
    if (!(plan->table = take(&f->blocks, plan->count, sizeof *plan->table)))                                           \
        return 0;                                                                                                      \
    for (Py_ssize_t i = 0; i < plan->count; i++)                                                                       \
        if (!row(f, &plan->table[i], PyTuple_GET_ITEM(rows, i)))                                                       \
            return 0

/* (what, slot, thing, shape or None, size, first) */
static int read_test(Front *f, Test *t, PyObject *row)
{
    PyObject *shape;
    if (!PyArg_ParseTuple(row, "inOOnn", &t->what, &t->slot, &t->thing, &shape, &t->size, &t->first))
        return 0;
    return t->what != ARRAY || read_form(&f->blocks, &t->form, t->thing, shape);
}

/* (kind, holder, key, value); the key of an array is (dtype, shape, its strides or whether it is in Fortran's order),
 * the value of a dict the tuple of the places in it. */
static int read_place(Front *f, Place *p, PyObject *row)
{
    PyObject *descr, *shape, *order;
    if (!PyArg_ParseTuple(row, "iOOO", &p->kind, &p->holder, &p->key, &p->value))
        return 0;
    if (p->value == f->missing)
        p->value = NULL;
    if (p->kind == OF_DICT) {
        p->count = PyTuple_GET_SIZE(p->value);
        if (!(p->inside = take(&f->blocks, p->count, sizeof(Place))))
            return 0;
        for (Py_ssize_t i = 0; i < p->count; i++)
            if (!read_place(f, &p->inside[i], PyTuple_GET_ITEM(p->value, i)))
                return 0;
    }
    if (p->kind != HEADER && p->kind != CONTENT)
        return 1;
    if (!PyArg_ParseTuple(p->key, "OO!O", &descr, &PyTuple_Type, &shape, &order) ||
        !read_form(&f->blocks, &p->form, descr, shape))
        return 0;
    p->flags = order == Py_True ? NPY_ARRAY_F_CONTIGUOUS : NPY_ARRAY_C_CONTIGUOUS;
    return p->kind == CONTENT || (p->strides = numbers(&f->blocks, order));
}

/* (array or None, slot) */
static int read_leaf(Front *f, Leaf *leaf, PyObject *row)
{
    (void)f;
    if (!PyArg_ParseTuple(row, "On", &leaf->hidden, &leaf->slot))
        return 0;
    if (leaf->hidden == Py_None)
        leaf->hidden = NULL;
    return 1;
}

static int read_plan(Front *f, Plan *plan, PyObject *row)
{
    PyObject *tests, *places, *leaves, *T = (PyObject *)&PyTuple_Type;
    if (!PyArg_ParseTuple(row, "OnO!nO!O!O!OOnOiO", &plan->convention, &plan->positional, T, &plan->names, &plan->slots, T,
                          &tests, T, &places, T, &leaves, &plan->unchanged, &plan->run, &plan->unsure, &plan->meant,
                          &plan->mode, &plan->rebuild))
        return 0;
    EACH(read_test, tests, test, tests);
    EACH(read_place, places, place, places);
    EACH(read_leaf, leaves, leaf, leaves);
    if (!(plan->word = take(&f->blocks, plan->places, sizeof(Word))) ||
        !(plan->other = take(&f->blocks, plan->places, sizeof(Place *))))
        return 0;
    for (Py_ssize_t i = 0; i < plan->places; i++) {
        Place *place = &plan->place[i];
        const void *at = word_of(place);
        if (at) /* no version of a dict is 0: its places are looked at once before */
            plan->word[plan->words++] = (Word){at, place->kind == OF_DICT ? 0 : (uintptr_t)place->value, place};
        else
            plan->other[plan->others++] = place;
    }
    return 1;
}

/* Front(plans, miss, in_use, kinks, missing, has_nan, without_frames) */
static PyObject *new_front(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Front *f = (Front *)new_entry(type, call_front, args);
    PyObject *plans;
    if (!f)
        return NULL;
    if (!PyArg_ParseTuple(args, "O!OO!OOOO", &PyTuple_Type, &plans, &f->miss, &PyList_Type, &f->in_use, &f->kinks,
                          &f->missing, &f->has_nan, &f->without_frames) ||
        !(f->plan = take(&f->blocks, PyTuple_GET_SIZE(plans), sizeof(Plan))))
        goto failed;
    for (; f->plans < PyTuple_GET_SIZE(plans); f->plans++)
        if (!read_plan(f, &f->plan[f->plans], PyTuple_GET_ITEM(plans, f->plans)))
            goto failed;
    return (PyObject *)f;
failed:
    Py_DECREF(f);
    return NULL;
}

/* ── the types, and the module ───────────────────────────────────────────────────────────────────────────────────── */

#define TYPE(Name, make)                                                                                               \
    {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dualad.compile.native." #Name, .tp_basicsize = sizeof(Name),            \
     .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,                                 \
     .tp_vectorcall_offset = offsetof(Entry, call), .tp_call = PyVectorcall_Call, .tp_traverse = traverse,             \
     .tp_dealloc = dealloc, .tp_new = make}

static PyTypeObject StubType = TYPE(Stub, new_stub), FrontType = TYPE(Front, new_front);

static Py_ssize_t front_offset; /* of the slot of an object that has its Front */

static PyObject *call_bound(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *front = *(PyObject **)((char *)self + front_offset);
    if (!front) {
        PyErr_BadInternalCall();
        return NULL;
    }
    Py_INCREF(front); /* the call may replace it */
    PyObject *answer = PyObject_Vectorcall(front, args, count, names);
    Py_DECREF(front);
    return answer;
}

static PyMethodDef bound = {"__call__", (PyCFunction)(void (*)(void))call_bound, METH_FASTCALL | METH_KEYWORDS, NULL};

/* bind_front(cls, slot): the method `__call__` of a class whose objects have their Front in a slot. */
static PyObject *bind_front(PyObject *module, PyObject *args)
{
    PyTypeObject *cls;
    PyObject *slot;
    if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &cls, &PyMemberDescr_Type, &slot))
        return NULL;
    front_offset = ((PyMemberDescrObject *)slot)->d_member->offset;
    return PyDescr_NewMethod(cls, &bound);
}

static PyMethodDef functions[] = {
    {"bind_front", bind_front, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dualad.compile.native._entry", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__entry(void)
{
    import_array();
    if (!(handler_capsule = PyCapsule_New(&handler, "mem_handler", NULL)))
        return NULL;
    if (PyType_Ready(&StubType) < 0 || PyType_Ready(&FrontType) < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyModule_AddObjectRef(module, "Stub", (PyObject *)&StubType) < 0 ||
        PyModule_AddObjectRef(module, "Front", (PyObject *)&FrontType) < 0 ||
        PyModule_AddIntConstant(module, "OUT_OF_BOUNDS", OUT_OF_BOUNDS) < 0 ||
        PyModule_AddIntConstant(module, "SOURCE", DUALAD_SOURCE) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
