"""The functions that machine code calls, by what they return and take: CPython's, NumPy's, and those shared by all.

Not for: their addresses (``engine.py``), or what those of our own do (``stub_text.py``, ``front_text.py``).
"""

from __future__ import annotations

__all__ = ["NUMPY", "PYTHON", "SIGNATURES"]


def _table(kinds: dict[str, str]) -> dict[str, list[str]]:
    """Return the types of functions that are listed by these: what one returns, then what it takes."""
    return {name: kind.split() for kind, names in kinds.items() for name in names.split()}


_OF_PYTHON = _table({
    "void": "PyErr_BadInternalCall PyErr_Clear",
    "void ptr": "PyEval_RestoreThread PyMem_RawFree Py_DecRef Py_IncRef",
    "void ptr ptr ptr": "PyErr_Fetch PyErr_NormalizeException PyErr_Restore",
    "i32": "PyErr_CheckSignals",
    "i32 ptr": "PyObject_IsTrue",
    "i32 ptr ptr": "PyException_SetTraceback PyUnicode_Compare",
    "i32 ptr ptr ptr": "PyContextVar_Get",
    "i32 ptr i64 ptr": "PyTuple_SetItem",
    "i32 ptr ptr ptr ptr": "PyDict_Next",
    "i64 ptr": "PyLong_AsLongLong PyObject_Size",
    "ptr": "PyErr_NoMemory PyErr_Occurred PyEval_SaveThread",
    "ptr i64": "PyMem_RawMalloc PyTuple_New",
    "ptr ptr": "PyBytes_AsString PyCell_Get PyException_GetTraceback PyFunction_GetCode PyFunction_GetDefaults",
    "ptr ptr i32": "PyType_GetSlot",
    "ptr ptr i64": "PyList_GetItem PyTuple_GetItem",
    "ptr ptr ptr": "PyDict_GetItemWithError PyObject_GenericGetDict PyObject_GetAttr",
    "ptr ptr ptr i64 ptr": "PyObject_Vectorcall",
})  # fmt: skip
_OF_NUMPY = _table({
    "ptr ptr ptr i32 ptr ptr ptr i32 ptr": "PyArray_NewFromDescr",
    "ptr ptr ptr ptr": "PyArray_Scalar",
})  # fmt: skip
_OWN = _table({
    "i1 ptr": "unchanged",
    "i1 ptr i64": "nan_in",
    "i1 ptr ptr ptr i64 ptr ptr": "attempt",
    "i32 ptr i64": "any_nan",
    "i32 ptr ptr i64": "lib_memcmp",
    "i64 ptr ptr i64": "same_header same_items same_list",
    "i64 ptr ptr ptr": "test",
    "ptr ptr ptr i64": "stub",
    "ptr ptr ptr i64 ptr": "bound front",
    "ptr ptr ptr i64 ptr i32": "data_of",
    "ptr ptr ptr ptr": "next_value",
    "ptr ptr ptr ptr ptr": "argument",
    "void": "tidy",
    "void ptr i64 i64": "let_go",
})  # fmt: skip

PYTHON = tuple(_OF_PYTHON)
#: functions of NumPy's C interface, by their place in its table
NUMPY = {"PyArray_NewFromDescr": 94, "PyArray_Scalar": 60}

SIGNATURES: dict[str, list[str]] = {**_OF_PYTHON, **_OF_NUMPY, **_OWN}
