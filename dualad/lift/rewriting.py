"""Lifted code with another text: new arrays become buffers where they are kept, and plain arrays take traced indices.

Names can't be swapped in ``y = table.copy()``, ``y = 2 * table`` or ``table[i]``, whose arrays are plain. Code that was
refused at a write or an index, although lifted, is compiled once more from its source: assigned values go through
``owned``, and indexing through ``item``. The new code stands in its place from then on, in lifted calls only. For:
``rewrite``, which finds such code, and ``rewritten``. Not for: putting code into functions (``search.py``).
"""

from __future__ import annotations

import ast
import dis
import itertools
import linecache
import sys
import types
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..boundary.boundary import running
from ..core.tracer import tracer_in
from ..memory.buffer import Buffer
from .imports import redirect_imports
from .targets import lift_table

__all__ = ["rewrite", "rewritten"]

#: code, compared by what it says -> what stands in its place
_rewritten: OrderedDict[types.CodeType, types.CodeType] = OrderedDict()
_KEPT = 512

#: what can be made a tensor for an index
_PLAIN = (np.ndarray, list, tuple)

#: instructions at which a plain array can't take traced values
_REFUSED = frozenset({"STORE_SUBSCR", "STORE_SLICE", "BINARY_SUBSCR", "BINARY_OP"})


def rewritten(code: types.CodeType) -> types.CodeType:
    """Return the replacement of some code; the code itself if it has none."""
    return _rewritten.get(code, code) if _rewritten else code


def rewrite(trace: Sequence[types.TracebackType]) -> bool:
    """Have the code of lifted calls, given by where each stands, innermost last, rewritten; return whether any was.

    None is, unless the last was refused a write or an index. Functions around a function make it, and go with it.
    """
    if not trace or not _is_refused(trace[-1].tb_frame.f_code, trace[-1].tb_lasti):
        return False
    before = len(_rewritten)
    for entry in trace:
        code = entry.tb_frame.f_code
        if code not in _rewritten.values():
            _rewritten.update(_chain_of(code, entry.tb_frame.f_globals.get("__package__")))
    found = len(_rewritten) > before
    while len(_rewritten) > _KEPT:
        _rewritten.popitem(last=False)
    return found


def _is_refused(code: types.CodeType, offset: int) -> bool:
    return any([step.offset == offset and step.opname in _REFUSED for step in dis.get_instructions(code)])


def _chain_of(code: types.CodeType, package: str | None) -> dict[types.CodeType, types.CodeType]:
    """Return the code behind some that runs, and that of the functions around it, with the replacements.

    Nothing if there is no source, or not that of the code that runs.
    """

    def is_it(other: types.CodeType) -> bool:
        if other.co_qualname != code.co_qualname or other.co_firstlineno != code.co_firstlineno:
            return False
        return code in (other, redirect_imports(other, package, lift_table()))

    source = "".join(linecache.getlines(code.co_filename))
    if not source:
        return {}
    try:
        tree = ast.parse(source)
        old = compile(tree, code.co_filename, "exec", dont_inherit=True)
        chain = next((chain for chain in _walk((old,)) if is_it(chain[-1])), None)
        if chain is None:
            return {}
        new = compile(ast.fix_missing_locations(_Rewriter().visit(tree)), code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found = {}
    for outer, inner in itertools.pairwise(chain):
        new = _inner(new)[[id(c) for c in _inner(outer)].index(id(inner))]
        found[inner] = _with_helpers(new)
    return found


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _walk(chain: tuple[types.CodeType, ...]) -> Iterator[tuple[types.CodeType, ...]]:
    """Yield each code object in a module's, with those that it lies in before it."""
    for code in _inner(chain[-1]):
        yield (*chain, code)
        yield from _walk((*chain, code))


# ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────────

#: a constant in whose place the code finds the helpers below
_HELPERS = "dualad.lift.rewriting"

#: expressions whose value may be a new array
_MAKING = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Subscript)


def _call(name: str, *args: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Constant(_HELPERS), name, ast.Load())
    call = ast.Call(function, [*args], [])
    return ast.copy_location(call, args[0])


def _owned(value: ast.expr) -> ast.expr:
    """Return an expression whose arrays, where they are new, are buffers."""
    if isinstance(value, (ast.Tuple, ast.List)):
        value.elts = [_owned(element) for element in value.elts]
    elif isinstance(value, ast.Dict):
        value.values = [_owned(element) for element in value.values]
    elif isinstance(value, ast.IfExp):
        value.body, value.orelse = _owned(value.body), _owned(value.orelse)
    elif isinstance(value, ast.ListComp):
        value.elt = _owned(value.elt)
    elif isinstance(value, _MAKING):
        return _call("owned", value)
    return value


class _Rewriter(ast.NodeTransformer):
    """Puts ``owned`` around values that are assigned, returned or handed on as a copy, and indexes by ``item``."""

    def _value(self, node: Any) -> Any:
        self.generic_visit(node)
        if node.value is not None:
            node.value = _owned(node.value)
        return node

    visit_Assign = visit_AnnAssign = visit_NamedExpr = visit_Return = _value

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Own copies among the arguments."""
        self.generic_visit(node)
        node.args = [
            _owned(a) if isinstance(a, ast.Call) and getattr(a.func, "attr", None) in ("astype", "copy") else a
            for a in node.args
        ]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Index by a call, if the index is not written out."""
        self.generic_visit(node)
        parts = [*ast.walk(node.slice)]
        if not isinstance(node.ctx, ast.Load) or not any([isinstance(part, (ast.Name, ast.Call)) for part in parts]):
            return node
        index = ast.Subscript(ast.Attribute(ast.Constant(_HELPERS), "index", ast.Load()), node.slice, ast.Load())
        return _call("item", node.value, ast.copy_location(index, node.slice))

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Leave annotations alone, which are no values."""
        return node


# ── what it calls ────────────────────────────────────────────────────────────────────────────────────────────────


class _Index:
    """Returns what stands between its brackets."""

    def __getitem__(self, index: Any) -> Any:
        return index


class _Helpers:
    """The functions by which rewritten code keeps arrays and indexes them."""

    index = _Index()

    @staticmethod
    def owned(x: Any) -> Any:
        """Return a buffer in the place of an array that nobody else holds; otherwise the array."""
        if type(x) is not np.ndarray or not running.get() or sys.getrefcount(x) > _NEW:
            return x
        if x.dtype.kind not in "biufc" or not x.flags.writeable:
            return x
        if x.base is not None and (
            type(x.base) is not np.ndarray or x.base.base is not None or sys.getrefcount(x.base) > _NEW_BASE
        ):
            return x
        return Buffer(x)

    @staticmethod
    def item(x: Any, index: Any) -> Any:
        """Return an entry or a part; an array, or a list of numbers, is made a tensor for integers."""
        tensor: Any = tracer_in(index) if type(x) in _PLAIN else None
        if tensor is not None and tensor.dtype.kind in "iu":
            if type(x) is np.ndarray or all([type(number) in (float, int) for number in x]):
                x = np.asarray(x, like=tensor)
        return x[index]


#: references to a view that only the function it was handed to holds, and to an array that only such a view holds
_NEW, _NEW_BASE = (lambda x: (sys.getrefcount(x), sys.getrefcount(x.base)))(np.empty(1)[:])

_helpers = _Helpers()


def _with_helpers(code: types.CodeType) -> types.CodeType:
    """Return code, with that in it, that finds the helpers in the place of the constant."""
    constants = [
        _with_helpers(c) if isinstance(c, types.CodeType) else _helpers if c == _HELPERS else c for c in code.co_consts
    ]
    return code.replace(co_consts=tuple(constants))
