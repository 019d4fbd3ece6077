"""Making a program smaller without changing a bit of what it computes.

One pass forwards (equal equations become one, moves that move nothing and products with one go away, constants are
computed now, a number that was spread over an array stays a number where an elementwise operator reads it), one
backwards (what nothing reads goes). No rule assumes that zero times something is zero, and none changes the order of
sums. Not for: which code an operator becomes (``numpy_source.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from types import NoneType
from typing import Any

import numpy as np

from ..control.subprograms import strong_aval
from ..core.aval import Aval, is_weak
from ..core.tables import OPS
from ..core.tracer import Tracer
from ..ops.arithmetic import multiply
from ..ops.indexing import ARRAY
from ..ops.shaping import broadcast_to, reshape, transpose
from ..program.ir import Program, live_steps, map_programs, stays
from ..program.variable import Step, Variable, aval_of_atom
from .names import SMALL

__all__ = ["hashable", "is_elementwise", "is_pure", "simplify", "structure"]

#: the largest constant that is computed while compiling
_FOLDED = 512
#: kinds of operators that call what users wrote, which may do more than return
_CALLS = frozenset({"custom", "implicit", "collective"})
_ELEMENTWISE = frozenset({"scale", "where"})
#: identities on arrays, once differentiation is done
_IDENTITIES = frozenset({"stop_gradient", "copy", "positive", "checkpoint_name"})

#: operators whose result may be there already
_ALIASED = _IDENTITIES | {
    "astype", "broadcast_to", "conjugate", "divide", "filled", "flip", "index", "matmul", "multiply", "negative",
    "real", "reshape", "transpose",
}  # fmt: skip


def is_pure(op: Any, params: dict) -> bool:
    """Whether an operator does nothing but return, the same each time."""
    return op.kind not in _CALLS and not op.effect and "call" not in params and not stays(op, params)


def is_elementwise(op: Any) -> bool:
    """Whether an operator computes each entry of its result from the entries of its arguments at that place."""
    return op.name in _ELEMENTWISE or (type(op.impl) is np.ufunc and op.impl.signature is None)


def simplify(program: Program) -> Program:
    """Return a program that computes the same, bit for bit, in fewer equations."""
    return _Simplifier(program).result()


class _Simplifier:
    """One pass over one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps: list[Step] = []
        #: variable of the given program -> atom of the new one
        self.atoms: dict[Variable, Any] = {}
        #: key of an equation -> its results
        self.known: dict[Any, tuple] = {}
        #: variable -> the equation that makes it
        self.maker: dict[Variable, Step] = {}
        #: ids of places and of places among these -> both, and what they come to
        self.composed: dict[tuple[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def result(self) -> Program:
        for step in self.program.steps:
            self.step(step)
        outputs = [self.atom(o) for o in self.program.outputs]
        return Program(self.program.inputs, live_steps(self.steps, outputs), outputs, self.program.name)

    def atom(self, a: Any) -> Any:
        return self.atoms.get(a, a) if type(a) is Variable else a

    def step(self, step: Step) -> None:
        op, args, params, outs = step
        known_as, name = self.atoms, op.name
        args = [known_as.get(a, a) if type(a) is Variable else a for a in args]
        if name == "call":
            self.inline(params["program"], args, outs)
            return
        if name == "vanishes":  # nobody will differentiate it any more
            op, name, args = OPS["equal"], "equal", [*args, 0]
        pure = is_pure(op, params)
        if pure:
            same = self.alias(op, args, params, outs) if name in _ALIASED else None
            if same is None and name in ("index", "index_add"):
                moved = outs[0].aval if name == "index" else aval_of_atom(args[0])
                if not moved.size:
                    same = np.broadcast_to(np.zeros((), outs[0].aval.dtype), outs[0].aval.shape)  # of nothing
            if same is None and not any([type(a) is Variable or isinstance(a, Tracer) for a in args]):
                same = _fold(op, args, params, outs)
            if same is not None:
                known_as[outs[0]] = same
                return
            if name in ("concatenate", "split"):
                args, params, outs = self.without_empty_parts(op, args, params, outs)
                if not outs:
                    return
            op, args, params = self.rewritten(op, args, params, outs)
        if params:
            params = map_programs(params, simplify)
        if pure:
            given = tuple([a if type(a) is Variable else hashable(a) for a in args])
            known = self.known.setdefault((op.name, given, hashable(params) if params else ()), outs)
            if known is not outs:
                known_as.update(zip(outs, known, strict=True))
                return
        is_one = op is step.op and params is step.params and len(args) == len(step.args)
        if not is_one or not all(map(is_, args, step.args)):
            step = step.rewritten(op, args, params, outs)
        self.steps.append(step)
        for v in outs:
            self.maker[v] = step

    def inline(self, program: Program, args: Sequence, outs: Sequence) -> None:
        """Put the equations of a called program in place of the call."""
        inside = dict(zip(program.inputs, args, strict=True))
        rename = lambda a: inside.get(a, a) if type(a) is Variable else a
        for step in program.steps:
            op, given, params, results = step
            fresh = tuple([Variable(v.aval) for v in results])
            self.step(step.rewritten(op, [rename(a) for a in given], params, fresh))
            inside.update(zip(results, [self.atom(v) for v in fresh], strict=True))
        for v, o in zip(outs, program.outputs, strict=True):
            x = self.atom(rename(o))
            if is_weak(aval_of_atom(x)):
                x = self.strong(x)
            self.atoms[v] = x

    def strong(self, x: Any) -> Any:
        """Return a Python number, known or not, as NumPy's."""
        if type(x) is not Variable:
            return np.asarray(x)[()]
        out = Variable(Aval((), x.aval.dtype))
        self.steps.append(Step(OPS["astype"], [x], {"dtype": x.aval.dtype}, (out,)))
        self.maker[out] = self.steps[-1]
        return out

    # ── rewrites ─────────────────────────────────────────────────────────────────────────────────────────────────

    def alias(self, op: Any, args: list, params: dict, outs: Sequence) -> Any:
        """Return the atom that an equation's result equals, if there is one."""
        if len(outs) != 1 or not args:
            return None
        x, name, out = args[0], op.name, outs[0].aval
        if name == "filled" and type(args[1]) is not Variable and not isinstance(args[1], Tracer):
            if np.ndim(args[1]) == 0:  # a buffer of one number takes no memory, and needs no argument
                return np.broadcast_to(np.asarray(args[1], out.dtype), out.shape)[()]
        if name == "matmul" and out.dtype.kind == "f" and len(out.shape) == 2:
            # The zeros of a Jacobian's basis are structural: they are selected, and strong.
            for one, other in ((x, args[1]), (args[1], x)):
                if _is_identity(one) and _same(other, out):
                    return other
        if out.dtype.kind in "fiu":  # a complex infinity times one has a NaN in it
            if name in ("multiply", "divide") and _is_one(args[1]) and _same(x, out):
                return x
            if name == "multiply" and _is_one(x) and _same(args[1], out):
                return args[1]
        if type(x) is not Variable:
            return None
        made = self.maker.get(x)
        if name == "negative" and made is not None and made[0].name == "negative" and _same(made[1][0], out):
            return made[1][0]
        if name == "index" and len(args) == 1 and made is not None and made[0].name == "stack":
            first, *rest = params["template"] or (None,)
            if made[2]["axis"] == 0 and type(first) is int and not rest and _same(made[1][first], out):
                return made[1][first]
        if not _same(x, out):
            return None
        if name in _IDENTITIES or name in ("reshape", "broadcast_to", "astype"):
            return x
        if name == "index" and len(args) == 1 and all([type(e) is tuple and e[2] == 1 for e in params["template"]]):
            return x  # all of it
        if name == "index" and _is_all_of_it(args, params):
            return x
        if name == "transpose" and params["axes"] == tuple(range(len(out.shape))):
            return x
        if name == "flip" and not params["axes"]:
            return x
        if name in ("real", "conjugate") and out.dtype.kind != "c":
            return x
        return None

    def without_empty_parts(self, op: Any, args: list, params: dict, outs: tuple) -> tuple[list, dict, tuple]:
        """Return a join or split without its empty parts; no results if one part is left."""
        if op.name == "concatenate":
            out = outs[0].aval
            full = [a for a in args if aval_of_atom(a).size]
            if not full or any([aval_of_atom(a).dtype != out.dtype for a in args]):
                return args, params, outs
            if len(full) == 1 and _same(full[0], out):
                self.atoms[outs[0]] = full[0]
                return args, params, ()
            return full, params, outs
        full = [v for v in outs if v.aval.size]
        for v in outs:
            if not v.aval.size:
                self.atoms[v] = np.zeros(v.aval.shape, v.aval.dtype)
        if len(full) == 1 and len(full) < len(outs) and _same(args[0], full[0].aval):
            self.atoms[full[0]] = args[0]
            return args, params, ()
        return args, {**params, "sizes": tuple([n for n in params["sizes"] if n])}, tuple(full)

    def rewritten(self, op: Any, args: list, params: dict, outs: Sequence) -> tuple:
        name = op.name
        if name in ("reshape", "broadcast_to", "transpose") and type(args[0]) is Variable:
            made = self.maker.get(args[0])
            if made is not None and made[0] is op and len(made[1]) == 1:
                inner = made[1][0]
                if op is transpose:
                    axes = made[2]["axes"]
                    return op, [inner], {"axes": tuple([axes[a] for a in params["axes"]])}
                if op is reshape or op is broadcast_to:
                    return op, [inner], params
        if name == "index" and (places := self.places(args, params)):
            return op, places, params
        if name == "power" and (simple := self.small_power(args, outs[0].aval)) is not None:
            op, args = simple
            name = op.name
        if name == "scale":
            t, d = args
            if (_is_known(d) and np.all(np.isfinite(d))) or (_is_known(t) and np.all(np.not_equal(t, 0))):
                return multiply, args, {}
        if len(outs) == 1 and outs[0].aval.shape and is_elementwise(op):
            args = self.unspread(args, outs[0].aval.shape)
        return op, args, params

    def places(self, args: list, params: dict) -> list | None:
        """Return an array and the places in it that an index reads through another index, both of known places."""
        made = self.maker.get(args[0]) if _are_places(args, params) else None
        if made is None or made[0].name != "index" or not _are_places(made[1], made[2]):
            return None
        (x, before), after = made[1], args[1]
        if max(before.size, after.size, x.aval.size) > SMALL:  # the proof doesn't follow them (``names.py``)
            return None
        if not (_within(before, x.aval.size) and _within(after, before.size)):
            return None
        key = id(before), id(after)
        if key not in self.composed:
            found = before[after]
            found.setflags(write=False)
            self.composed[key] = before, after, found
        return [x, self.composed[key][2]]

    def small_power(self, args: list, out: Aval) -> tuple[Any, list] | None:
        """Return a small whole power of real numbers as products: at least as near to the truth as ``pow``."""
        x, n = args
        if type(n) not in (int, float, np.float64) or n not in (2, 3, 4):
            return None
        if out.dtype.kind != "f" or aval_of_atom(x) != Aval(out.shape, out.dtype):
            return None
        if n == 2:
            return OPS["square"], [x]
        squared = Variable(strong_aval(out))
        self.step(Step(OPS["square"], [x], {}, (squared,)))
        other = self.atom(squared)
        return (multiply, [other, x]) if n == 3 else (OPS["square"], [other])

    def unspread(self, args: list, shape: tuple[int, ...]) -> list:
        """Take the broadcasting off arguments of an elementwise operator, as far as the others give the shape."""
        for i, smaller in enumerate(map(self.before_broadcast, args)):
            if smaller is None:
                continue
            new = [*args[:i], smaller, *args[i + 1 :]]
            if np.broadcast_shapes(*[aval_of_atom(x).shape for x in new]) == shape:
                args = new
        return args

    def before_broadcast(self, a: Any) -> Any:
        if type(a) is Variable:
            made = self.maker.get(a) if a.aval.shape else None
            if made is not None and made[0] is broadcast_to and not is_weak(aval_of_atom(made[1][0])):
                return made[1][0]
        elif type(a) is np.ndarray and a.size > 1 and not any(a.strides):
            return a[(0,) * a.ndim]
        return None


def _same(x: Any, out: Aval) -> bool:
    aval = aval_of_atom(x)
    return aval is out or (aval == out and is_weak(aval) == is_weak(out))


def _is_known(x: Any) -> bool:
    return type(x) is not Variable and not isinstance(x, Tracer) and np.asarray(x).dtype.kind in "biuf"


def _is_identity(x: Any) -> bool:
    if type(x) is not np.ndarray or x.ndim != 2 or x.shape[0] != x.shape[1] or x.shape[0] < 2:
        return False
    return x[0, 0] == 1 and x[0, 1] == 0 and bool(np.array_equal(x, np.eye(len(x))))


def _is_one(x: Any) -> bool:
    if type(x) is np.ndarray:
        return bool(x.size) and x.flat[0] == 1 and bool((x == 1).all())
    return type(x) in (float, int, np.float64) and x == 1


def _are_places(args: Sequence, params: dict) -> bool:
    """Whether an index reads a vector at places that are known."""
    if params["template"] != (ARRAY,) or len(args) != 2 or type(args[0]) is not Variable:
        return False
    k = args[1]
    return type(k) is np.ndarray and k.ndim == 1 == len(args[0].aval.shape) and k.dtype.kind in "iu"


def _within(k: np.ndarray, n: int) -> bool:
    return not k.size or bool(-n <= k.min() and k.max() < n)


def _is_all_of_it(args: Sequence, params: dict) -> bool:
    """Whether an index reads all entries of a vector in their order."""
    if not _are_places(args, params) or not 0 < args[1].size <= SMALL:
        return False
    k = args[1]
    return not k[0] and k[-1] == k.size - 1 and bool((k == np.arange(k.size)).all())


def _fold(op: Any, args: list, params: dict, outs: Sequence) -> Any:
    """Return the result of an operator on constants, if it is small."""
    aval = outs[0].aval
    if len(outs) > 1 or op.kind == "control" or aval.size > _FOLDED:
        return None
    try:
        with np.errstate(all="ignore"):
            value = np.array(op.impl(*args, **params), copy=True)
    except (ArithmeticError, TypeError, ValueError):  # it will be raised where it belongs: when the program runs
        return None
    if value.shape != aval.shape or value.dtype != aval.dtype:
        return None
    value.setflags(write=False)
    return value if value.shape else value[()]


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def hashable(x: Any) -> Any:
    """Return a key of a constant or parameter, equal exactly where they are the same: by id if programs hold them."""
    if type(x) in (int, str, bool, NoneType):
        return type(x), x
    if isinstance(x, np.ndarray) and x.size <= 64 and x.dtype.kind in "biufc":
        return "array", x.shape, x.dtype.str, x.tobytes()
    if isinstance(x, np.generic):
        return "scalar", x.dtype.str, x.tobytes()
    if isinstance(x, (int, str, float, complex)):
        return type(x), repr(x)
    if isinstance(x, np.dtype):
        return "dtype", x.str
    if isinstance(x, (tuple, list)):
        return type(x), tuple([hashable(v) for v in x])
    if isinstance(x, dict):
        return "dict", frozenset([(k, hashable(v)) for k, v in x.items()])
    if isinstance(x, slice):
        return "slice", hashable((x.start, x.stop, x.step))
    return "id", id(x)


def structure(x: Any, leaf: Callable[[Any], Any] = hashable) -> Any:
    """Return a key of a parameter, equal exactly where parameters mean the same: programs written alike are equal.

    Anything but a program or a container is known by its ``leaf``.
    """
    if isinstance(x, Program):
        number: dict[Variable, int] = {}

        def atom(a: Any) -> Any:
            if type(a) is not Variable:
                return "constant", type(a), leaf(a)
            if (known := number.get(a)) is not None:
                return known
            number[a] = len(number)
            return a.aval.shape, a.aval.dtype, a.aval.weak

        return (
            tuple([atom(v) for v in x.inputs]),
            tuple(
                [
                    (op, tuple([atom(a) for a in args]), structure(params, leaf), tuple([atom(v) for v in outs]))
                    for op, args, params, outs in x.steps
                ]
            ),
            tuple([atom(o) for o in x.outputs]),
        )
    if isinstance(x, dict):
        return tuple([(k, structure(v, leaf)) for k, v in x.items()])
    if isinstance(x, (tuple, list)):
        return type(x), tuple([structure(v, leaf) for v in x])
    return leaf(x)
