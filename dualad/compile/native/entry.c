/* What stands between Python and compiled code.
 *
 * A Stub is the entry of one group of machine code: it checks each argument (type, dtype, lengths, layout, alignment),
 * allocates the results, runs the code and makes the tuple; arguments that are not as declared go to a Python function.
 * A Front is the entry of what `jit` returns: it finds the signature that a call has, checks the guards of what the
 * function read, takes trees apart, and looks for NaN where that matters; a call that fits nothing goes to Python.
 * bind_front makes the method that calls an object's Front. A Filler is what Ipopt calls: the code of a Front without
 * Python's objects, where arguments and results are memory of the solver's.
 *
 * All are described by tuples (stub.py, front.py and ipopt_in_c.py say which) and keep them: pointers to objects are borrowed from
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
#include <time.h>
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

/* ── entries, and what they keep ─────────────────────────────────────────────────────────────────────────────────── */

/* The head of both types: an object keeps the tuple that describes it, and the memory that was made for it. */
#define ENTRY_HEAD PyObject_HEAD vectorcallfunc call; PyObject *kept;
typedef struct { ENTRY_HEAD } Entry;

/* Zeroed memory that lives as long as an entry. */
static void *take(void *self, Py_ssize_t count, size_t size)
{
    Entry *entry = self;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, count * size);
    PyObject *kept = bytes ? PyTuple_Pack(2, entry->kept, bytes) : NULL;
    Py_XDECREF(bytes);
    if (!kept)
        return NULL;
    Py_SETREF(entry->kept, kept);
    return memset(PyBytes_AS_STRING(bytes), 0, count * size);
}

static void *new_entry(PyTypeObject *type, vectorcallfunc call, PyObject *described)
{
    Entry *entry = (Entry *)type->tp_alloc(type, 0);
    if (entry) {
        entry->call = call;
        entry->kept = Py_NewRef(described);
    }
    return entry;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Entry *)self)->kept);
    return 0;
}

static void dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((Entry *)self)->kept);
    Py_TYPE(self)->tp_free(self);
}

/* ── arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Whether an array has the dtype and the lengths of another one, which may have no memory of its own. */
static inline int is_like(PyArrayObject *a, PyArrayObject *form)
{
    const int axes = PyArray_NDIM(form);
    return PyArray_DESCR(a) == PyArray_DESCR(form) && PyArray_NDIM(a) == axes &&
           (!axes || !memcmp(PyArray_DIMS(a), PyArray_DIMS(form), axes * sizeof(npy_intp)));
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

static void *reused(size_t i)
{
    void *memory = kept[i].memory;
    kept_bytes -= kept[i].size;
    memmove(&kept[i], &kept[i + 1], (--kept_places - i) * sizeof kept[0]);
    return memory;
}

static void *large_malloc(void *context, size_t size)
{
    for (size_t i = kept_places; i-- > 0;)
        if (kept[i].size == size)
            return reused(i);
    return with_huge_pages(malloc(size), size);
}

static void large_free(void *context, void *memory, size_t size)
{
    if (!memory || size < LARGE || size > LARGEST) {
        free(memory);
        return;
    }
    while (kept_places == PLACES || kept_bytes + size > MOST_KEPT)
        free(reused(0)); /* the oldest goes */
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
static PyObject *new_array(PyArrayObject *form)
{
    const npy_intp size = PyArray_NBYTES(form);
    PyObject *other = size < LARGE || size > LARGEST ? NULL : PyDataMem_SetHandler(handler_capsule);
    Py_INCREF(PyArray_DESCR(form));
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(form), PyArray_NDIM(form), PyArray_DIMS(form), NULL,
                                          NULL, 0, NULL);
    restore_handler(other);
    return made;
}

/* ── Stub ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { IGNORED, PLAIN, TRUTH, WHOLE }; /* kinds of arguments; a Python bool, or int, is converted */

/* An argument is like an array, if it may be one, or a number of one of two types. */
typedef struct { int kind; PyArrayObject *form; PyTypeObject *one, *other; } Argument;

typedef struct {
    ENTRY_HEAD
    PyObject *miss, *again;
    Body body;
    Py_ssize_t scratch, reads, writes;
    int releases;
    Argument *arguments;
    PyArrayObject **results;
} Stub;

/* Where the numbers of an argument are; NULL if it is not as declared. */
static void *numbers_of(PyObject *x, const Argument *declared, int64_t *cell)
{
    PyTypeObject *type = Py_TYPE(x);
    if (type == &PyArray_Type) {
        PyArrayObject *a = (PyArrayObject *)x;
        const int fits = declared->form && is_like(a, declared->form) && PyArray_CHKFLAGS(a, NPY_ARRAY_CARRAY_RO);
        return fits ? PyArray_DATA(a) : NULL;
    }
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
        out[i] = &cells[reads + i];
        if (PyArray_NDIM(s->results[i])) {
            if (!(made[i] = new_array(s->results[i])))
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
        if (!made[i] && !(made[i] = PyArray_Scalar(out[i], PyArray_DESCR(s->results[i]), NULL)))
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

/* Stub(reads, writes, body, scratch, releases, miss, again, linked): each argument is None or (kind, array, type, type),
 * each result an array; only their dtypes and lengths count. */
static PyObject *new_stub(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *reads, *writes, *linked;
    unsigned long long body;
    Stub *s = new_entry(type, call_stub, args);
    if (!s)
        return NULL;
    if (!PyArg_ParseTuple(args, "O!O!KnpOOO", &PyTuple_Type, &reads, &PyTuple_Type, &writes, &body, &s->scratch,
                          &s->releases, &s->miss, &s->again, &linked))
        goto failed;
    s->body = (Body)(uintptr_t)body, s->reads = PyTuple_GET_SIZE(reads), s->writes = PyTuple_GET_SIZE(writes);
    if (!(s->arguments = take(s, s->reads, sizeof(Argument))) || !(s->results = take(s, s->writes, sizeof(PyObject *))))
        goto failed;
    for (Py_ssize_t i = 0; i < s->reads; i++) {
        Argument *a = &s->arguments[i];
        PyObject *row = PyTuple_GET_ITEM(reads, i);
        if (row == Py_None)
            continue;
        if (!PyArg_ParseTuple(row, "iOOO", &a->kind, &a->form, &a->one, &a->other))
            goto failed;
        if ((PyObject *)a->form == Py_None)
            a->form = NULL;
    }
    for (Py_ssize_t i = 0; i < s->writes; i++)
        s->results[i] = (PyArrayObject *)PyTuple_GET_ITEM(writes, i);
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
    PyObject *thing;              /* an array, a type, an object, or the tuple of a dict's keys */
} Test;

/* Kinds of places that were read: those of guards/places.py, then fields, and what only Python can compare. */
enum {
    CELL, ENTRY, ITEMS, LENGTH, ENTRIES, CODE, DEFAULTS, ATTRIBUTE,
    HEADER, CONTENT, BASES, CLASS, DICTIONARY, KEYWORD_DEFAULTS, OF_DICT, ASK
};

/* Where a kind of place is one word of memory: how far behind its holder. */
_Py_COMP_DIAG_PUSH
_Py_COMP_DIAG_IGNORE_DEPR_DECLS
static const size_t words[ASK + 1] = {
    [CELL] = offsetof(PyCellObject, ob_ref), [CODE] = offsetof(PyFunctionObject, func_code),
    [DEFAULTS] = offsetof(PyFunctionObject, func_defaults), [BASES] = offsetof(PyTypeObject, tp_bases),
    [CLASS] = offsetof(PyObject, ob_type), [KEYWORD_DEFAULTS] = offsetof(PyFunctionObject, func_kwdefaults),
#if PY_VERSION_HEX < 0x030D0000 && UINTPTR_MAX == UINT64_MAX
    [OF_DICT] = offsetof(PyDictObject, ma_version_tag), /* another number whenever the dict has changed */
#endif
};
_Py_COMP_DIAG_POP

typedef struct Place {
    int kind;
    PyObject *holder, *key, *value;
    struct Place *inside; /* the places in one dict, which are looked at when it has changed */
    Py_ssize_t count;
} Place;

/* A place that is one word of memory, and what it held. */
typedef struct { const uintptr_t *at; uintptr_t held; Place *place; } Word;

typedef struct { /* one signature, and what is done with its calls */
    PyObject *convention, *names, *hidden, *unchanged, *run, *meant, *rebuild;
    Py_ssize_t positional, slots, tests, words, others, given, unsure;
    int mode; /* the result is the tuple that run returns, its one entry, or what rebuild makes of it */
    Test *test;
    Word *word;
    Place **other;    /* places that are not one word */
    Py_ssize_t *source; /* of what is given to the code: a slot, or what is hidden, counted down from -1 */
} Plan;

typedef struct {
    ENTRY_HEAD
    PyObject *miss, *in_use, *kinks, *missing, *has_nan;
    Py_ssize_t plans;
    Plan *plan;
} Front;

/* Whether a part of the arguments is as the signature says; parts of containers are put into slots, owned. */
static int passes(const Test *t, PyObject **slots, Py_ssize_t *filled)
{
    PyObject *x = slots[t->slot];
    switch (t->what) {
    case ARRAY: return Py_TYPE(x) == &PyArray_Type && is_like((PyArrayObject *)x, (PyArrayObject *)t->thing);
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

/* Whether the entries of an array that has gaps are these bytes, one after the other in C's order. */
static int has_entries(PyArrayObject *a, const char *content)
{
    const int axes = PyArray_NDIM(a);
    const npy_intp *shape = PyArray_DIMS(a), *strides = PyArray_STRIDES(a), size = PyArray_ITEMSIZE(a);
    npy_intp at[NPY_MAXDIMS] = {0};
    const char *entry = PyArray_BYTES(a);
    for (npy_intp left = PyArray_SIZE(a); left; left--, content += size) {
        if (memcmp(entry, content, size))
            return 0;
        for (int i = axes - 1; i >= 0; i--) {
            if (++at[i] < shape[i]) {
                entry += strides[i];
                break;
            }
            entry -= strides[i] * (shape[i] - 1);
            at[i] = 0;
        }
    }
    return 1;
}

/* Whether an array has the header that it had, and these bytes. */
static int is_as_it_was(PyArrayObject *a, PyArrayObject *was, PyObject *content)
{
    const size_t axes = PyArray_NDIM(was);
    if (!is_like(a, was) || (axes && memcmp(PyArray_STRIDES(a), PyArray_STRIDES(was), axes * sizeof(npy_intp))))
        return 0;
    if (content == Py_None)
        return 1;
    if (!PyArray_ISONESEGMENT(a))
        return has_entries(a, PyBytes_AS_STRING(content));
    return !memcmp(PyArray_DATA(a), PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content));
}

/* Whether a place that is not one word holds the very object that it held; an exception may be set where not. */
static int holds(const Place *p)
{
    PyObject *now, *key, *value;
    switch (p->kind) {
    case ENTRY:
        now = PyDict_GetItemWithError(p->holder, p->key);
        return now == p->value && (now || !PyErr_Occurred());
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
        return now && now == p->value;
    case HEADER:
    case CONTENT: return is_as_it_was((PyArrayObject *)p->holder, (PyArrayObject *)p->key, p->value);
    case OF_DICT:
        for (Py_ssize_t i = 0; i < p->count; i++)
            if (!holds(&p->inside[i]))
                return 0;
        return 1;
    default: return 0;
    }
}

/* Whether all that was read holds what it held; what is not the same object is compared in Python. */
static int is_unchanged(const Plan *p)
{
    int same = 1;
    for (Word *w = p->word; same && w < p->word + p->words; w++) {
        const uintptr_t now = *w->at; /* not that of later: to compare keys may run other code */
        if (now != w->held && (same = holds(w->place)))
            w->held = now;
    }
    for (Py_ssize_t i = 0; same && i < p->others; i++)
        same = holds(p->other[i]);
    if (same)
        return 1;
    PyErr_Clear();
    PyObject *answer = PyObject_CallNoArgs(p->unchanged);
    same = answer && PyObject_IsTrue(answer) == 1;
    Py_XDECREF(answer);
    PyErr_Clear();
    return same;
}

/* Whether there is a NaN among numbers: found without a branch, so in the processor's vectors. */
#ifdef __GNUC__
__attribute__((always_inline))
#endif
static inline int nan_in_vectors(const double *data, npy_intp n)
{
    long long found[8] = {0}, some = 0;
    npy_intp k = 0;
    while (!some && k + 8 <= n) {
        for (npy_intp end = k + 1024 < n ? k + 1024 : n; k + 8 <= end; k += 8)
            for (int i = 0; i < 8; i++)
                found[i] |= data[k + i] != data[k + i];
        for (int i = 0; i < 8; i++)
            some |= found[i];
    }
    for (; k < n; k++)
        some |= data[k] != data[k];
    return some != 0;
}

#if defined(__GNUC__) && defined(__x86_64__)
__attribute__((target("avx2"))) static int nan_in_256(const double *data, npy_intp n) { return nan_in_vectors(data, n); }
__attribute__((target("avx512f,avx512dq"))) static int nan_in_512(const double *data, npy_intp n)
{
    return nan_in_vectors(data, n);
}
#endif

static int nan_in(const double *data, npy_intp n)
{
#if defined(__GNUC__) && defined(__x86_64__)
    if (__builtin_cpu_supports("avx512dq"))
        return nan_in_512(data, n);
    if (__builtin_cpu_supports("avx2"))
        return nan_in_256(data, n);
#endif
    return nan_in_vectors(data, n);
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

/* Call the code of a signature, if this is its call: whether it was; the result is new, or NULL with an exception. An error
 * of the code is left to `miss`, which meets it again, and asks the function. */
static int attempt(const Front *f, const Plan *p, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **result)
{
    Py_ssize_t keywords = PyTuple_GET_SIZE(p->names), total = count + keywords;
    if (count != p->positional || (names ? PyTuple_GET_SIZE(names) : 0) != keywords)
        return 0;
    for (Py_ssize_t i = 0; i < keywords; i++)
        if (PyTuple_GET_ITEM(names, i) != PyTuple_GET_ITEM(p->names, i))
            return 0;
    PyObject *few[2 * FEW], **room = few;
    if (p->slots + p->given > 2 * FEW && !(room = PyMem_Malloc((p->slots + p->given) * sizeof(PyObject *))))
        return PyErr_NoMemory(), *result = NULL, 1;
    /* Where there are no containers, nothing is put into slots. */
    PyObject **slots = p->slots == total ? (PyObject **)args : memcpy(room, args, total * sizeof(PyObject *));
    PyObject **given = room + p->slots, *out = NULL;
    Py_ssize_t filled = total;
    int ours = 1;
    for (Py_ssize_t i = 0; ours && i < p->tests; i++)
        ours = passes(&p->test[i], slots, &filled);
    if ((ours = ours && is_unchanged(p))) {
        for (Py_ssize_t i = 0; i < p->given; i++)
            given[i] = p->source[i] < 0 ? PyTuple_GET_ITEM(p->hidden, ~p->source[i]) : slots[p->source[i]];
        /* Code that is not all machine code makes arrays by NumPy's functions. */
        PyObject *other = Py_TYPE(p->run) == &StubType ? NULL : PyDataMem_SetHandler(handler_capsule);
        out = PyObject_Vectorcall(p->run, given, p->given, NULL);
        restore_handler(other);
        if (!out && PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
            ours = 0;
        }
    }
    for (Py_ssize_t i = total; i < filled; i++)
        Py_DECREF(slots[i]);
    if (room != few)
        PyMem_Free(room);
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

/* (what, slot, thing, size, first) */
static int read_test(Test *t, PyObject *row)
{
    return PyArg_ParseTuple(row, "inOnn", &t->what, &t->slot, &t->thing, &t->size, &t->first);
}

/* (kind, holder, key, value); the key of an array is a view of it as it was, the value of a dict the tuple of the places in
 * it. */
static int read_place(Front *f, Place *p, PyObject *row)
{
    if (!PyArg_ParseTuple(row, "iOOO", &p->kind, &p->holder, &p->key, &p->value))
        return 0;
    if (p->value == f->missing)
        p->value = NULL;
    if (p->kind != OF_DICT)
        return 1;
    if (!(p->inside = take(f, PyTuple_GET_SIZE(p->value), sizeof(Place))))
        return 0;
    for (; p->count < PyTuple_GET_SIZE(p->value); p->count++)
        if (!read_place(f, &p->inside[p->count], PyTuple_GET_ITEM(p->value, p->count)))
            return 0;
    return 1;
}

static int read_plan(Front *f, Plan *plan, PyObject *row)
{
    PyObject *tests, *places, *sources, *T = (PyObject *)&PyTuple_Type;
    if (!PyArg_ParseTuple(row, "OnO!nO!O!O!O!OOnOiO", &plan->convention, &plan->positional, T, &plan->names, &plan->slots, T,
                          &tests, T, &places, T, &sources, T, &plan->hidden, &plan->unchanged, &plan->run, &plan->unsure,
                          &plan->meant, &plan->mode, &plan->rebuild))
        return 0;
    const Py_ssize_t count = PyTuple_GET_SIZE(places);
    Place *place = take(f, count, sizeof(Place));
    plan->tests = PyTuple_GET_SIZE(tests), plan->given = PyTuple_GET_SIZE(sources);
    if (!place || !(plan->word = take(f, count, sizeof(Word))) || !(plan->other = take(f, count, sizeof(Place *))) ||
        !(plan->test = take(f, plan->tests, sizeof(Test))) ||
        !(plan->source = take(f, plan->given, sizeof(Py_ssize_t))))
        return 0;
    for (Py_ssize_t i = 0; i < plan->tests; i++)
        if (!read_test(&plan->test[i], PyTuple_GET_ITEM(tests, i)))
            return 0;
    for (Py_ssize_t i = 0; i < plan->given; i++)
        plan->source[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sources, i));
    for (Place *p = place; p < place + count; p++) {
        if (!read_place(f, p, PyTuple_GET_ITEM(places, p - place)))
            return 0;
        const uintptr_t *at = (const uintptr_t *)((char *)p->holder + words[p->kind]);
        if (words[p->kind]) /* no version of a dict is 0: its places are looked at once before */
            plan->word[plan->words++] = (Word){at, p->kind == OF_DICT ? 0 : (uintptr_t)p->value, p};
        else
            plan->other[plan->others++] = p;
    }
    return !PyErr_Occurred();
}

/* Front(plans, miss, in_use, kinks, missing, has_nan) */
static PyObject *new_front(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Front *f = new_entry(type, call_front, args);
    PyObject *plans;
    if (!f)
        return NULL;
    if (!PyArg_ParseTuple(args, "O!OO!OOO", &PyTuple_Type, &plans, &f->miss, &PyList_Type, &f->in_use, &f->kinks,
                          &f->missing, &f->has_nan) ||
        !(f->plan = take(f, PyTuple_GET_SIZE(plans), sizeof(Plan))))
        goto failed;
    for (; f->plans < PyTuple_GET_SIZE(plans); f->plans++)
        if (!read_plan(f, &f->plan[f->plans], PyTuple_GET_ITEM(plans, f->plans)))
            goto failed;
    return (PyObject *)f;
failed:
    Py_DECREF(f);
    return NULL;
}

/* ── Filler ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum { MOVING = 3 }; /* arguments that a solver has: a point, and of a Hessian multipliers and the objective's factor */

/* A piece of machine code with its tables, and where an argument of the solver's is put into one. */
typedef struct { Stub *stub; void **given, **made, *work; } Part;
typedef struct { void **place; Py_ssize_t which; } Moved;

typedef struct {
    ENTRY_HEAD
    PyObject *slow, *same, *entries; /* a function of arrays, a result that never changes, the rows and the columns */
    Py_ssize_t parts, moves; /* without parts the function in Python is called */
    Part *part;
    Moved *moved;
    void **result;
    Py_ssize_t moving, size, unsure, calls;
    double seconds; /* what calls have taken, if it is not negative at first */
} Filler;

static PyObject *call_filler(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names)
{
    return PyObject_Vectorcall(((Filler *)self)->slow, args, flagged, names);
}

/* What an argument of a part is read from: one of the arguments at the start, or hidden. */
static int take_argument(Filler *f, const Plan *p, PyObject *at, Py_ssize_t source, const Argument *declared, void **place,
                         int64_t *cell)
{
    const Py_ssize_t slot = p->source[source];
    PyObject *x = slot < 0 ? PyTuple_GET_ITEM(p->hidden, ~slot) : PyTuple_GET_ITEM(at, slot);
    if (!(*place = numbers_of(x, declared, cell)))
        return 0;
    if (slot < 0 || slot >= f->moving)
        return 1;
    f->moved[f->moves++] = (Moved){place, slot};
    return PyFloat_CheckExact(x) || PyArray_TYPE((PyArrayObject *)x) == NPY_DOUBLE;
}

/* Take parts of code, (stub, sources) each: a source is what the whole is given, or a result, by its number, or a constant.
 * The whole returns the result with number `out`. */
static int take_parts(Filler *f, const Plan *p, PyObject *parts, Py_ssize_t out, PyObject *at)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(parts);
    Py_ssize_t number = p->given, reads = 0, writes = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        Stub *s = (Stub *)PyTuple_GET_ITEM(PyTuple_GET_ITEM(parts, k), 0);
        if (Py_TYPE(s) != &StubType)
            return 0;
        reads += s->reads, writes += s->writes;
    }
    void **made = take(f, number + writes, sizeof(void *));
    PyArrayObject **forms = take(f, number + writes, sizeof(PyObject *));
    int64_t *cells = take(f, reads + 1, sizeof(int64_t));
    if (!made || !forms || !cells || !(f->part = take(f, count, sizeof(Part))) ||
        !(f->moved = take(f, reads + 1, sizeof(Moved))))
        return 0;
    for (Part *part = f->part; part < f->part + count; part++) {
        PyObject *row = PyTuple_GET_ITEM(parts, part - f->part), *sources = PyTuple_GET_ITEM(row, 1);
        Stub *s = part->stub = (Stub *)PyTuple_GET_ITEM(row, 0);
        if (!(part->given = take(f, s->reads + 1, sizeof(void *))) || !(part->work = take(f, s->scratch + 1, 1)) ||
            !(part->made = take(f, s->writes, sizeof(void *))))
            return 0;
        for (Py_ssize_t i = 0; i < s->reads; i++, cells++) {
            const Argument *a = &s->arguments[i];
            if (a->kind == IGNORED)
                continue;
            PyObject *x = PyTuple_GET_ITEM(sources, i);
            const Py_ssize_t source = PyLong_CheckExact(x) ? PyLong_AsSsize_t(x) : -1;
            if (source < 0)
                part->given[i] = numbers_of(x, a, cells);
            else if (source < p->given) {
                if (!take_argument(f, p, at, source, a, &part->given[i], cells))
                    return 0;
            } else if (a->form ? is_like(forms[source], a->form) : a->one == &PyFloat_Type)
                part->given[i] = made[source];
            if (!part->given[i])
                return 0;
        }
        for (Py_ssize_t i = 0; i < s->writes; i++, number++) {
            PyArrayObject *form = forms[number] = s->results[i];
            if (number == out) {
                f->result = &part->made[i];
                if (PyArray_TYPE(form) != NPY_DOUBLE || PyArray_SIZE(form) != f->size)
                    return 0;
            } else if (!(part->made[i] = made[number] = take(f, PyArray_NBYTES(form) + 1, 1)))
                return 0;
        }
    }
    f->parts = f->result ? count : 0;
    return 1;
}

/* Take the code of a function for these arguments, if it is machine code alone; NULL for an exception. */
static PyObject *take_code(Filler *f, PyObject *front, PyObject *at)
{
    const Plan *p = Py_TYPE(front) == &FrontType && ((Front *)front)->plans == 1 ? ((Front *)front)->plan : NULL;
    if (!p || p->mode != 1 || p->slots != PyTuple_GET_SIZE(at))
        return Py_None;
    PyObject *parts, *kept, *code = NULL;
    if (Py_TYPE(p->run) == &StubType) {
        PyObject *sources = PyTuple_New(p->given);
        for (Py_ssize_t i = 0; sources && i < p->given; i++)
            PyTuple_SET_ITEM(sources, i, PyLong_FromSsize_t(i));
        code = sources ? Py_BuildValue("((ON))n", p->run, sources, p->given) : NULL;
    } else if (PyObject_HasAttrString(p->run, "parts"))
        code = PyObject_GetAttrString(p->run, "parts");
    else
        return Py_None;
    if (!code || !(kept = PyTuple_Pack(2, f->kept, code)))
        return NULL;
    Py_DECREF(code);
    Py_SETREF(f->kept, kept);
    f->unsure = p->unsure;
    Py_ssize_t out;
    if (!PyArg_ParseTuple(code, "O!n", &PyTuple_Type, &parts, &out) ||
        (!take_parts(f, p, parts, out, at) && PyErr_Occurred()))
        return NULL;
    return Py_None;
}

/* Filler(slow, front, at, moving, size, same, entries): `slow` is called where `front` has no code for arguments like
 * those `at`, of which the first are the solver's. */
static PyObject *new_filler(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *front, *at;
    Filler *f = new_entry(type, call_filler, args);
    if (!f)
        return NULL;
    f->seconds = -1;
    if (PyArg_ParseTuple(args, "OOO!nnOO", &f->slow, &front, &PyTuple_Type, &at, &f->moving, &f->size, &f->same,
                         &f->entries) &&
        take_code(f, front, at))
        return (PyObject *)f;
    Py_DECREF(f);
    return NULL;
}

/* Note the exception that ends a search: an interrupt, or an error that is raised behind it. */
static void end(PyObject *back)
{
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (trace)
        PyException_SetTraceback(error, trace);
    const int is_interrupt = PyErr_GivenExceptionMatches(error, PyExc_KeyboardInterrupt);
    if (PyObject_SetAttrString(back, "stopped", Py_True) < 0 ||
        PyObject_SetAttrString(back, is_interrupt ? "broken" : "error", is_interrupt ? Py_True : error) < 0)
        PyErr_Clear();
    Py_XDECREF(kind), Py_XDECREF(error), Py_XDECREF(trace);
}

static PyObject *copied(const double *numbers, npy_intp count)
{
    PyObject *made = PyArray_SimpleNew(1, &count, NPY_DOUBLE);
    return made && count ? memcpy(PyArray_DATA((PyArrayObject *)made), numbers, count * sizeof(double)), made : made;
}

/* Fill by the function in Python; with NaN, from which the solver steps back, where that fails. */
static void fill_slowly(Filler *f, PyObject *back, int n, const double *x, int m, const double *multipliers,
                        double factor, double *out)
{
    PyObject *given[MOVING] = {copied(x, n)}, *found = NULL, *answer = NULL;
    if (f->moving > 1)
        given[1] = copied(multipliers, m), given[2] = PyFloat_FromDouble(factor);
    if (!PyErr_Occurred() && (answer = PyObject_Vectorcall(f->slow, given, f->moving, NULL)))
        found = PyArray_FROM_OTF(answer, NPY_DOUBLE, NPY_ARRAY_CARRAY_RO);
    if (!found)
        end(back);
    if (found && PyArray_SIZE((PyArrayObject *)found) == f->size)
        memcpy(out, PyArray_DATA((PyArrayObject *)found), f->size * sizeof(double));
    else
        for (Py_ssize_t i = 0; i < f->size; i++)
            out[i] = Py_NAN;
    Py_XDECREF(found), Py_XDECREF(answer);
    for (int i = 0; i < MOVING; i++)
        Py_XDECREF(given[i]);
}

static void fill(Filler *f, PyObject *back, int n, double *x, int m, double *multipliers, double factor, double *out)
{
    const clock_t begun = f->seconds < 0 ? 0 : clock();
    int is_filled = 1;
    if (f->same != Py_None)
        memcpy(out, PyArray_DATA((PyArrayObject *)f->same), f->size * sizeof(double));
    else if ((is_filled = f->parts > 0)) {
        void *moving[MOVING] = {x, multipliers, &factor};
        for (Moved *m = f->moved; m < f->moved + f->moves; m++)
            *m->place = moving[m->which];
        *f->result = out;
        int status = 0;
        for (Part *part = f->part; !status && part < f->part + f->parts; part++)
            status = part->stub->body(part->given, part->made, part->work);
        if (status && status != OUT_OF_BOUNDS) /* it was interrupted */
            end(back);
        is_filled = !status && !(f->unsure && nan_in(out, f->size));
    }
    f->calls += is_filled;
    if (!is_filled)
        fill_slowly(f, back, n, x, m, multipliers, factor, out);
    if (f->seconds >= 0)
        f->seconds += (double)(clock() - begun) / CLOCKS_PER_SEC;
}

/* Ipopt's callbacks (IpStdCInterface.h); its user data are the Filler of each, and what else is to be known. */
enum { OBJECTIVE, GRADIENT, CONSTRAINTS, JACOBIAN, HESSIAN, BACK };

static int eval_f(int n, double *x, int is_new, double *value, PyObject **user)
{
    return fill((Filler *)user[OBJECTIVE], user[BACK], n, x, 0, NULL, 0.0, value), 1;
}

static int eval_grad_f(int n, double *x, int is_new, double *slope, PyObject **user)
{
    return fill((Filler *)user[GRADIENT], user[BACK], n, x, 0, NULL, 0.0, slope), 1;
}

static int eval_g(int n, double *x, int is_new, int m, double *g, PyObject **user)
{
    if (m) /* else there is no such function */
        fill((Filler *)user[CONSTRAINTS], user[BACK], n, x, 0, NULL, 0.0, g);
    return 1;
}

static int tell_entries(Filler *f, int *rows, int *columns)
{
    int *sides[] = {rows, columns};
    for (int i = 0; i < 2; i++)
        memcpy(sides[i], PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(f->entries, i)), f->size * sizeof(int));
    return 1;
}

static int eval_jac_g(int n, double *x, int is_new, int m, int size, int *rows, int *columns, double *values, PyObject **user)
{
    Filler *f = (Filler *)user[JACOBIAN];
    if (!m)
        return 1;
    return values ? fill(f, user[BACK], n, x, 0, NULL, 0.0, values), 1 : tell_entries(f, rows, columns);
}

static int eval_h(int n, double *x, int is_new, double factor, int m, double *multipliers, int are_new, int size, int *rows,
                  int *columns, double *values, PyObject **user)
{
    Filler *f = (Filler *)user[HESSIAN];
    return values ? fill(f, user[BACK], n, x, m, multipliers, factor, values), 1 : tell_entries(f, rows, columns);
}

static int intermediate(int mode, int iteration, double value, double inf_pr, double inf_du, double mu, double d_norm,
                        double regularization, double alpha_du, double alpha_pr, int trials, PyObject **user)
{
    PyObject *answer = PyObject_CallMethod(user[BACK], "intermediate", "iid", mode, iteration, value);
    const int goes_on = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    if (goes_on < 0)
        end(user[BACK]);
    return goes_on > 0;
}

static PyMemberDef filler_members[] = {
    {"calls", T_PYSSIZET, offsetof(Filler, calls), READONLY, "calls of the code"},
    {"seconds", T_DOUBLE, offsetof(Filler, seconds), 0, "processor time of all calls; it is taken from 0 on"},
    {NULL}};

/* ── the types, and the module ───────────────────────────────────────────────────────────────────────────────────── */

#define TYPE(Name, make)                                                                                               \
    {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dualad.compile.native." #Name, .tp_basicsize = sizeof(Name),            \
     .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,                                 \
     .tp_vectorcall_offset = offsetof(Entry, call), .tp_call = PyVectorcall_Call, .tp_traverse = traverse,             \
     .tp_dealloc = dealloc, .tp_new = make}

static PyTypeObject StubType = TYPE(Stub, new_stub), FrontType = TYPE(Front, new_front), FillerType = TYPE(Filler, new_filler);

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

#define ADDRESS(f) (unsigned long long)(uintptr_t)(f)

PyMODINIT_FUNC PyInit__entry(void)
{
    import_array();
    if (!(handler_capsule = PyCapsule_New(&handler, "mem_handler", NULL)))
        return NULL;
    FillerType.tp_members = filler_members;
    PyObject *module = PyModule_Create(&definition);
    PyObject *callbacks = Py_BuildValue("KKKKKK", ADDRESS(eval_f), ADDRESS(eval_g), ADDRESS(eval_grad_f),
                                        ADDRESS(eval_jac_g), ADDRESS(eval_h), ADDRESS(intermediate));
    if (!module || PyModule_AddType(module, &StubType) < 0 || PyModule_AddType(module, &FrontType) < 0 ||
        PyModule_AddType(module, &FillerType) < 0 || PyModule_AddObject(module, "CALLBACKS", callbacks) < 0 ||
        PyModule_AddIntConstant(module, "OUT_OF_BOUNDS", OUT_OF_BOUNDS) < 0 ||
        PyModule_AddIntConstant(module, "SOURCE", DUALAD_SOURCE) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
