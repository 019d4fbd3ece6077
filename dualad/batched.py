"""Batched tensors: a value with one more leading axis, at a level.

For: ``vmap``. The batch axis is always the leading one, so every batching rule has one case. An operand that is not
Batched at this level is the same for all lanes and stays as it is; the rule broadcasts it, and whatever depends on it
alone is computed once. Not for: axis specifications (``vmap.py``) or the rules themselves (``ops/``).
"""

from __future__ import annotations

import numpy as np

from .base.asking import by_name, for_text
from .core.above import ABOVE
from .core.aval import PROMOTING, Aval, aval_of, is_weak, promoted_numbers, python_dtype, result_dtype
from .core.axes import unavailable
from .core.capture import check_inside
from .core.contexts import StartAgain, in_use, watching
from .core.level import Level, escaped
from .core.tracer import INDEX, OPERATOR, Tracer
from .core.watch import tag_origin
from .errors import ConvergenceError, DualadError
from .memory.memory import dense, layout
from .ops.kinds import is_finite, known_value
from .ops.shaping import stop_gradient

__all__ = ["BatchLevel", "Batched", "LaneDivergence", "one_by_one"]

_FLOAT = "float() of a batched scalar, or a function of math"
_COMPLEX = "complex() of a batched scalar, or a function of cmath"
_ITEM = ".item() of a batched scalar"


class BatchLevel(Level):
    """A level of ``vmap``: ``size`` lanes.

    ``diverged`` is the ``LaneDivergence`` that was raised, for where the function has caught it (a bare ``except:``).
    """

    __slots__ = ("diverged", "numbers", "size")

    def __init__(self, transform: str, size: int) -> None:
        super().__init__(transform)
        self.size = size
        self.diverged: LaneDivergence | None = None
        #: what has been computed from Python numbers alone, by its id; None where there is none
        self.numbers: dict[int, Batched] | None = None

    def beside_numbers(self, op, args, params) -> tuple:
        """Return the operands of an operator as NumPy promotes Python numbers, and whether the result is one."""
        found = [i for i, a in enumerate(args) if id(a) in self.numbers]
        if not found or op.name not in PROMOTING:
            return args, False
        avals = [aval_of(a) for a in args]
        if all([is_weak(a) or i in found for i, a in enumerate(avals)]):
            return args, params is OPERATOR
        weak = promoted_numbers(avals, found)
        dtype = weak and result_dtype(*weak)
        return [a.astype(dtype) if weak and i in found else a for i, a in enumerate(args)], False


class LaneDivergence(StartAgain):
    """Lanes disagree where Python needs one value; caught by the ``vmap`` whose lanes they are.

    Where a ``try`` of the user's swallows it, because it catches everything, the level remembers.

    Parameters
    ----------
    level : BatchLevel
        Whose lanes.
    groups : list of int arrays
        The lanes that agree with each other.
    what : str
        The question, for messages.
    error : Exception, optional
        What some of the lanes raised, where that is what they disagree about.
    """

    def __init__(self, level: BatchLevel, groups: list, what: str, error: Exception | None = None) -> None:
        super().__init__(what)
        self.level, self.groups, self.what, self.error = level, groups, what, error
        level.diverged = self

    @property
    def about_an_index(self) -> bool:
        """Whether the question may be for an index into a plain array."""
        return self.what is INDEX

    @property
    def instead(self) -> str:
        """The code that would keep the lanes together, for messages."""
        if self.error is not None:
            return "a test of the values before they are computed with, and np.where on its outcome,"
        if self.what in (_FLOAT, _COMPLEX, _ITEM):
            return "the tensor itself (x in place of float(x), np.sin in place of math.sin)"
        if self.about_an_index:
            return "np.asarray(array, like=x)[x] where entries of a plain array are read"
        return "np.where(condition, a, b)"


class Batched(Tracer):
    """A value per lane: ``value``, of shape (size, ...), has a hidden leading axis for the lanes of ``level``."""

    __slots__ = ()

    def __init__(self, value, level: BatchLevel) -> None:
        self._value = value
        self.level = level

    def process(self, op, args, params):
        """Run an operator on all lanes at once, by its batching rule."""
        level = self.level
        if not level.open:
            raise escaped(level, f"`{op.name}`", self)
        alone = False
        if level.numbers is not None:
            args, alone = level.beside_numbers(op, args, params)
        values, mapped = [], []
        for a in args:
            if type(a) is Batched and a.level is level:
                values.append(a._value)
                mapped.append(True)
            else:
                values.append(a)
                mapped.append(False)
        rule = op.batch
        if rule is None:
            if op.across is not None:
                return op.across(level, values[0], params)
            rule = one_by_one(op)
        try:
            out = rule(level.size, values, mapped, **params)
        except Exception as error:
            out = _after_exception(error, level, op, rule, values, mapped, params)
        watch = watching.get() if in_use else None
        if watch is not None:
            watch.batched(level, op, values, params, out)
        if op.multiple_results:
            check_inside(out, level, op, params)
            results = tuple(Batched(o, level) for o in out)
            return results if watch is None else tag_origin(results)
        result = Batched(out, level)
        if alone:
            level.numbers[id(result)] = result
        return result if watch is None else tag_origin(result)

    def known(self):
        """Return the numbers in all lanes, if there are any yet."""
        return known_value(self._value)

    def is_finite(self) -> bool | None:
        """Whether the numbers in all lanes are finite, if they are known."""
        return is_finite(self._value)

    def concretize(self, what: str):
        """Return the value that all lanes have; where they differ, have ``vmap`` run the lanes in groups that agree.

        This is how Python branches, integers and masks work under ``vmap``: the function runs again, once per group.
        """
        if not self.level.open:
            raise escaped(self.level, what, self)
        value = self._value
        while isinstance(value, Tracer):
            # The rows of an outer batch must agree first; then any one of them stands for all.
            value = value.concretize(what)
        if not isinstance(value, np.ndarray):
            return None  # not known yet, or carrying a tangent: no group can be formed
        if not self.level.size:
            return np.zeros(value.shape[1:], value.dtype)[()]
        first = value[0]
        if value.tobytes() == first.tobytes() * len(value):
            return first
        rows = _comparable(value.reshape(len(value), -1))
        if (rows == rows[0]).all():
            return first
        groups, lane_group = np.unique(rows, axis=0, return_inverse=True)
        lane_group = lane_group.reshape(-1)
        raise LaneDivergence(self.level, [np.flatnonzero(lane_group == g) for g in range(len(groups))], what)

    def __bool__(self):
        if self.shape != ():
            return super().__bool__()
        if self.level.objects and self.dtype.kind != "b":
            ABOVE.truth(self)
        agreed = self.concretize("the truth value of a batched scalar (if, while, and, or, assert)")
        return super().__bool__() if agreed is None else bool(agreed)

    # Under another transform's tangent nothing is known here, so these refuse and the derivative is not lost.

    def __float__(self):
        agreed = None
        if self.shape == () and self.dtype.kind != "c" and by_name():
            agreed = (stop_gradient(self) if for_text() else self).concretize(_FLOAT)
        return super().__float__() if agreed is None else float(agreed)

    def __complex__(self):
        agreed = self.concretize(_COMPLEX) if self.shape == () and by_name() else None
        return super().__complex__() if agreed is None else complex(agreed)

    def __int__(self):
        agreed = None
        if self.shape == () and self.dtype.kind != "c" and by_name():
            # Lanes that differ by a fraction have one integer; and that has no derivative to be lost.
            whole = np.trunc(self) if self.dtype.kind == "f" else self
            agreed = whole.concretize("int() of a batched scalar")
        return super().__int__() if agreed is None else int(agreed)

    def __index__(self):
        agreed = self.concretize(INDEX) if self._is_index() else None
        return super().__index__() if agreed is None else int(agreed)

    def item(self, *args):
        """As ``float(x)``, in the dtype's kind of number; with the derivative, where it has one."""
        entry = super().item(*args)
        agreed = entry.concretize(_ITEM)
        return entry if agreed is None else agreed.item()

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        agreed = None
        if self.shape == ():  # text carries no derivative, so here none is lost
            agreed = stop_gradient(self).concretize("the digits of a batched scalar (an f-string, format())")
        if agreed is None:
            raise self._conversion("format()", "print the tensor without a format: f'{x}', or the result of vmap")
        return format(agreed, spec)

    def python_number(self):
        """Return the scalar in double precision, as a number that widens no dtype."""
        level = self.level
        if level.numbers is None:
            level.numbers = {}
        if id(self) in level.numbers:
            return self
        out = Batched(self._value.astype(python_dtype(self.dtype)), level)
        level.numbers[id(out)] = out
        return out

    def is_python_number(self) -> bool:
        """Whether it was made a Python number, or computed from such alone."""
        numbers = self.level.numbers
        return numbers is not None and id(self) in numbers

    def numpy_number(self):
        """Return the values as ones that widen dtypes."""
        return Batched(self._value, self.level) if self.is_python_number() else self

    @property
    def inner(self):
        """The values of all lanes."""
        return self._value

    def _is_index(self) -> bool:
        return self.shape == () and self.dtype.kind in "iu"

    @property
    def shape(self):
        """The shape of one lane."""
        return self._value.shape[1:]

    @property
    def dtype(self):
        """The dtype."""
        return self._value.dtype

    def _strides(self):
        value = self._value
        if type(value) is np.ndarray and value.flags.c_contiguous:
            return None
        if not isinstance(value, np.ndarray) and not isinstance(value, Tracer):
            return None  # of another library: as in C order
        strides = (layout(value) if isinstance(value, Tracer) else value).strides[1:]
        # The lanes of a result may lie in between each other, where the result of one lane has memory of its own.
        return dense(self.shape, self.dtype, strides)

    def _text(self) -> str:
        value = self._value
        if isinstance(value, np.ndarray):
            shown = np.array2string(value, threshold=8, edgeitems=2, separator=", ").replace("\n", "")
        else:
            shown = repr(value)
        return f"Batched({shown}, shape={self.shape}, dtype={self.dtype}, lanes={self.level.size}, batch axis 0"


def _comparable(rows: np.ndarray) -> np.ndarray:
    """Return rows that are equal exactly where lanes agree: a NaN agrees with a NaN, and 0.0 does not with -0.0."""
    kind = rows.dtype.kind
    if kind == "c":
        rows = np.concatenate([rows.real, rows.imag], axis=1)
    elif kind != "f":
        return rows
    missing = np.isnan(rows)
    return np.concatenate([np.where(missing, 0, rows), missing, np.signbit(rows) & ~missing], axis=1)


def one_by_one(op):
    """Make a batching rule of one call per lane, joined by ``np.stack``: that of operators that have no other."""

    def batch(size, values, mapped, **params):
        with unavailable(size, op.name):
            lanes = [
                op(*(v[i] if m else v for v, m in zip(values, mapped, strict=True)), **params) for i in range(size)
            ]
        if not size:
            # No lane to run: the shapes are still known, from one lane of zeros.
            example = op.abstract_eval(*(_lane_aval(v, m) for v, m in zip(values, mapped, strict=True)), **params)
            empty = [np.zeros((0, *a.shape), a.dtype) for a in (example if op.multiple_results else [example])]
            return tuple(empty) if op.multiple_results else empty[0]
        if op.multiple_results:
            return tuple(np.stack(parts) for parts in zip(*lanes, strict=True))
        return np.stack(lanes)

    return batch


def _lane_aval(value, mapped):
    aval = aval_of(value)
    return Aval(aval.shape[1:], aval.dtype) if mapped else aval


# ── exceptions that some lanes raise ─────────────────────────────────────────────────────────────────────────────

#: what says something about the code, and nothing about a lane's values
_OF_THE_CODE = (
    AttributeError, ImportError, MemoryError, NameError, NotImplementedError, RecursionError, SyntaxError, TypeError,
)  # fmt: skip


def _after_exception(error: Exception, level: BatchLevel, op, rule, values: list, mapped: list, params: dict):
    """Apply an operator that raised for all lanes at once lane by lane, or split the lanes, or raise.

    A lane's exception is a branch: whether ``np.linalg.cholesky`` raises is decided by each lane's own matrix, and the
    function may catch it. What every lane raises is raised as it is.
    """
    constants = [stop_gradient(v) if isinstance(v, Tracer) else v for v in values]
    if not _of_values(error, op, constants, mapped, params):
        raise error

    def raising(lanes: np.ndarray) -> dict[int, type]:
        """Return which lanes raise what, halving the batch, so that few failures are found quickly."""
        try:
            if len(lanes) == 1:
                op(*[v[lanes[0]] if m else v for v, m in zip(constants, mapped, strict=True)], **params)
            else:
                rule(len(lanes), [np.take(v, lanes, 0) if m else v for v, m in zip(constants, mapped, strict=True)],
                     mapped, **params)  # fmt: skip
        except Exception as e:
            if len(lanes) == 1:
                return {int(lanes[0]): type(e)}
            half = len(lanes) // 2
            return raising(lanes[:half]) | raising(lanes[half:])
        return {}

    found = raising(np.arange(level.size))
    kinds = [None, *dict.fromkeys(found.values())]
    groups = [np.array([i for i in range(level.size) if found.get(i) is kind], np.intp) for kind in kinds]
    groups = [group for group in groups if len(group)]
    if not found:
        if not isinstance(error, (ArithmeticError, Warning)):
            raise error  # a batching rule that is wrong
        # under np.errstate: together they raise for what none of them computes, as a branch that no lane takes
        return one_by_one(op)(level.size, values, mapped, **params)
    if len(groups) == 1:
        raise error
    raise LaneDivergence(level, groups, f"an exception ({type(error).__name__}: {error})", error) from error


def _of_values(error: Exception, op, constants: list, mapped: list, params: dict) -> bool:
    """Whether an exception may depend on a lane's values, and whether these are known."""
    if isinstance(error, (DualadError, *_OF_THE_CODE)) and not isinstance(error, ConvergenceError):
        return False
    for x in constants:
        while isinstance(x, Tracer):
            x = getattr(x, "_value", None)
        if x is None:
            return False
    try:
        op.abstract_eval(*(_lane_aval(v, m) for v, m in zip(constants, mapped, strict=True)), **params)
    except Exception as e:
        return type(e) is not type(error)  # shapes that do not fit, in every lane
    return True
