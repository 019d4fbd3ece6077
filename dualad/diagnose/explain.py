"""``explain``: before any derivative is taken, what each line of a function will meet when one is.

The function runs once, on values that watch: a tensor that computes what NumPy computes, takes note of every operation
with the line it stands on, and lists its rules. Where a transform would refuse (``float(x)``, a
function without rules), it notes the refusal and goes on with the plain value, so that the rest is explained too.

Not for: checking that derivatives are right (``testing/``), or how the report looks (``explained.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import optree

from ..base.asking import by_name
from ..base.frames import user_line, users_line_of
from ..base.tree import flatten, is_array, tree_map
from ..boundary.boundary import running
from ..boundary.swallowed import Refusals
from ..core.above import ABOVE
from ..core.aval import aval_of, is_inexact
from ..core.contexts import boundary
from ..core.dispatch import bind
from ..core.level import Level, escaped
from ..core.tracer import Tracer
from ..core.watch import Watch, run_rule
from ..errors import ArgumentTypeError, ConversionError, DualadError, PlainBufferError, UnsupportedError, noted
from ..memory.memory import flush_writes
from ..program.ir import programs_in
from ..surface.unsupported import public_name
from .explained import Explanation, Failure, Line, Use, merge_uses, source_of
from .values import copied, difference, pack_leaf

__all__ = ["explain"]


def explain(f: Callable, *args: Any, **kwargs: Any) -> Explanation:
    """List, line by line, which operations a function uses and what derivatives and ``vmap`` will make of each.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy. It runs twice: watched, and plain to compare the values.
    *args, **kwargs : trees of arrays
        Arguments to run it at. Floating and complex arrays are followed; integers, booleans and anything else are
        constants, as they are for ``grad``.

    Returns
    -------
    Explanation
        ``print`` it; ``ok`` says whether anything is refused; ``lines`` has the uses of each line: operations with
        rules, those that loop over lanes, that drop the tangent (comparisons, rounding, ``argmax``, ``int``,
        ``stop_gradient``), that are refused and why, opaque functions (``wrap``), branches on traced values and which
        way they went. If the function itself fails, ``failure`` says at which line; if its value is not that of a plain
        call, ``difference`` says how, and which known reason it looks like.

    Raises
    ------
    ArgumentTypeError
        If ``f`` is not callable, or no argument could be differentiated.

    See Also
    --------
    trace : the program of a function.
    debug : where a derivative became non-finite.

    Examples
    --------
    >>> def model(x):
    ...     scale = np.floor(x[0])
    ...     return np.sum(np.tanh(x)) * scale
    >>> report = da.explain(model, np.ones(3))
    >>> report.ok, report.count("drops")
    (True, 1)
    >>> {use.name for use in report.uses if use.status == "drops"}
    {'floor'}
    """
    if not callable(f):
        raise ArgumentTypeError(f"explain was given {f!r}.", "it runs a function", "write explain(f, *args)")
    name = getattr(f, "__name__", type(f).__name__)
    leaves, tree = flatten((args, kwargs))

    def plain() -> Any:
        call_args, call_kwargs = copied((args, kwargs))
        return f(*call_args, **call_kwargs)

    def observe(lift: Any) -> _Seen:
        with nullcontext() if lift is None else lift:
            return _observe(f, leaves, tree, name)

    lift = known = ABOVE.lift(f)
    seen = now = observe(lift)
    for _ in range(2):  # as often as a transform would try
        if now.refused is None or (lift := ABOVE.lift_after(f, now.refused, lift)) is None:
            break
        now = observe(lift)
        if now.refused is None:
            seen, known = now, lift
    apart = None
    if seen.refused is None:
        try:
            apart = difference(plain, seen.value, lambda: observe(known))
        except Exception:  # it runs under a transform only, as a function with psum in it does
            apart = None
    return Explanation(name, seen.observer.lines(), seen.failure, apart, known is not None)


class _Refused(Exception):
    """Something was refused in these frames, and the function went on."""

    def __init__(self, frames: list) -> None:
        self.frames = frames


class _Seen(NamedTuple):
    """Who looked on, the plain value, where the function stopped, and the error by which it did or was refused."""

    observer: _Observer
    value: Any
    failure: Failure | None
    refused: Exception | None


def _observe(f: Callable, leaves: list, tree: Any, name: str) -> _Seen:
    """Run the function on values that watch."""
    failure, out, refused = None, None, None
    refusals = Refusals()
    with _Observing() as level:
        level.function = f
        moves = [is_array(x) and is_inexact(aval_of(x).dtype) for x in leaves]
        watched = [Observed(_value(x), level, True) if m else x for x, m in zip(leaves, moves, strict=True)]
        if not any(moves):
            raise ArgumentTypeError(
                f"explain: `{name}` was given no floating-point or complex array.",
                "without one there is nothing to differentiate",
                "pass sample arguments, as in explain(f, np.ones(3))",
            )
        rebuilt: Any = optree.tree_unflatten(tree, watched)
        inner_args, inner_kwargs = rebuilt
        inside, around = running.set(True), noted.set(refusals)
        try:
            with level.observer.on():
                out = f(*inner_args, **inner_kwargs)
            own = lambda x: type(x) is Observed and x.level is level
            out = tree_map(lambda x: x._value if own(x) else x, tree_map(pack_leaf, out))
        except Exception as error:
            frame = users_line_of(error)
            number = frame.lineno or 0
            message = error.what if isinstance(error, DualadError) else (str(error).splitlines() or [""])[0]
            source = source_of(frame.filename, number)
            failure, refused = Failure(frame.filename, number, source, type(error).__name__, message), error
        finally:
            running.reset(inside)
            noted.reset(around)
    if refused is None and any(use.status == "refused" for uses in level.observer.uses.values() for use in uses):
        refused = _Refused([frame for _, places in refusals for frame, _ in places])
    return _Seen(level.observer, out, failure, refused)


def _value(x: Any) -> Any:
    # A copy: the function may write to its argument, and the caller's array is not ours to change.
    return x.copy() if isinstance(x, np.ndarray) else np.asarray(x)[()] if not isinstance(x, Tracer) else x


# ── taking notes ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Observer(Watch):
    """Takes note of operations; also of those of transforms that the function itself calls."""

    def __init__(self) -> None:
        self.uses: dict[tuple[str, int], list[Use]] = {}
        #: names of NumPy's functions and operators that are being carried out, outermost first
        self.names: list[str] = []
        #: what the outermost of them has been noted as already
        self.seen: set[Use] = set()

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Take what happens in a block for the work of one name."""
        if not self.names:
            self.seen.clear()
        self.names.append(name)
        try:
            yield
        finally:
            self.names.pop()

    def note(self, use: Use, line: str | None = None) -> None:
        """Note a use at the user's line."""
        file, _, number = (line or user_line()).rpartition(":")
        self.uses.setdefault((file, int(number)), []).append(use)

    def operator(self, op, params: dict, moving: bool, line: str | None = None) -> None:
        """Note an operator, under the name that the user wrote."""
        use = _use_of(op, params, moving)
        if self.names:
            outer = self.names[0]
            if outer.rpartition(".")[2] != op.name:
                # A function that is made of others counts once, whatever the number of its operators.
                said = use._replace(name=outer, operators=())
                use = said._replace(operators=(op.name,), count=int(said not in self.seen))
                self.seen.add(said)
        self.note(use, line)
        for program in programs_in(params):
            for step in program.steps:
                inexact = any([is_inexact(v.aval.dtype) for v in step.outs])
                with self.within(f"in {op.name}: {step.op.name}"):
                    self.operator(step.op, step.params, moving and inexact, step.line or line)

    def dual(self, level, op, primals: Sequence, tangents: Sequence, params: dict) -> tuple:
        """Note an operator under a transform of the function's own, once, whatever its rule is made of."""
        if not self.names and any([isinstance(p, Tracer) for p in primals]):
            self.operator(op, params, True)
        return self._unseen(lambda: run_rule(op, primals, tangents, params))

    def pushed(self, run: Callable[[], list], program, tangents: list, phase: str = "tangent") -> list:
        """Run a program of the function's own; a linear one without a note, as its operators have been noted."""
        return run() if phase == "primal" else self._unseen(run)

    def pulled(self, run: Callable[[Callable | None], list], again: Callable[[Callable], list]) -> list:
        """Run a pullback of the function's own, without a note."""
        return self._unseen(lambda: run(None))

    def _unseen(self, run: Callable[[], Any]) -> Any:
        before, self.uses = self.uses, {}
        try:
            return run()
        finally:
            self.uses = before

    def lines(self) -> list[Line]:
        """Return the notes, in order."""
        order: dict[str, int] = {}
        for file, _ in self.uses:
            order.setdefault(file, len(order))
        places = sorted(self.uses, key=lambda place: (order[place[0]], place[1]))
        return [Line(file, n, source_of(file, n), _gather(self.uses[file, n])) for file, n in places]


def _gather(uses: Sequence[Use]) -> list[Use]:
    """Join the operators of one name of the user's, then equal uses."""
    counted = merge_uses(uses)
    out: dict[tuple, Use] = {}
    for use in counted:
        key = (use.name, use.status, use.forward, use.reverse, use.batched, use.note, use.instead)
        known = out.get(key)
        if known is None or not use.operators:
            out[key] = use if known is None else known._replace(count=known.count + use.count)
        else:
            operators = tuple(dict.fromkeys((*known.operators, *use.operators)))
            out[key] = known._replace(operators=operators, count=known.count + use.count)
    rest = list(out.values())
    said = {use.name for use in rest if use.status != "constant"}
    return [use for use in rest if not (use.status == "constant" and use.operators and use.name in said)]


def _use_of(op, params: dict, moving: bool) -> Use:
    """List an operator's rules."""
    call = params.get("call")
    name = getattr(call, "name", None) or op.name
    if op.reruns:
        name = f"checkpoint of `{name}`"
    batched = "yes" if op.batch is not None or op.across is not None else "loop"
    if op.kind == "opaque":
        return _opaque(name, call, moving)
    if op.given and "solve" not in op.given:
        forward, reverse = ["rule" if rule in op.given else "yes" for rule in ("jvp", "transpose")]
        return Use(name, (), "custom", forward, reverse, batched, 1)
    if op.kind == "refused" and moving:
        reason = _refusal(op)
        return Use(name, (), "refused", "no", "no", batched, 1, f"under a derivative: {reason.why}", reason.instead)
    if op.jvp is None and moving:
        note = "stops the derivative here" if op.kind == "barrier" else "its derivative is zero: the tangent ends"
        return Use(name, (), "drops", "zero", "zero", batched, 1, note)
    if not moving:
        return Use(name, (), "constant", "-", "-", batched, 1)
    if batched == "loop":
        return Use(name, (), "loop", "yes", "yes", batched, 1, "under vmap it is called once per lane")
    return Use(name, (), "rules", "yes", "yes", batched, 1)


def _opaque(name: str, call, moving: bool) -> Use:
    batched = "yes" if call.vectorized else "loop"
    lanes = "" if call.vectorized else "; once per lane under vmap"
    if not moving:
        return Use(name, (), "opaque", "-", "-", batched, 1, f"wrapped: it is never looked into{lanes}")
    if call.jacobian is None or isinstance(call.jacobian, str):
        return Use(
            name, (), "refused", "no", "no", batched, 1, "wrapped without a Jacobian: no derivative can be had",
            "give it one: da.wrap(f, jac=df), or jac='fd'",
        )  # fmt: skip
    estimated = isinstance(call.jacobian.jacobian, str)
    how = "estimated by differences; first derivatives only" if estimated else "as given"
    return Use(name, (), "opaque", "yes", "yes", batched, 1, f"wrapped: its Jacobian is {how}{lanes}")


def _refusal(op) -> DualadError:
    """Return the error by which an operator's rule refuses, in words."""
    try:
        op.jvp([1.0] * 4, [1.0] * 4)
    except DualadError as error:
        return error
    except Exception:  # the rule looks at its operands before it refuses
        pass
    return UnsupportedError(f"`{op.name}`", "it has no derivative rule", "keep it outside of the derivative")


# ── the tensor ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Observing(Level):
    """One run of ``explain``."""

    __slots__ = ("observer",)

    def __init__(self) -> None:
        super().__init__("explain")
        self.observer = _Observer()


_SPLIT = "under vmap, lanes that disagree run in groups"


class Observed(Tracer):
    """A value that takes note of operations on it; ``_tangent`` says whether it would carry a tangent."""

    __slots__ = ()

    def __init__(self, value: Any, level: _Observing, moving: bool) -> None:
        self._value, self.level, self._tangent = value, level, moving

    @property
    def shape(self):
        """The shape of the value."""
        return np.shape(self._value)

    @property
    def dtype(self):
        """The dtype of the value."""
        return aval_of(self._value).dtype

    def process(self, op, args, params):
        """Note an operator and run it on the values."""
        level = self.level
        if not level.open:
            raise escaped(level, f"`{op.name}`", self)
        own = [type(a) is Observed and a.level is level for a in args]
        moving = any([a._tangent for a, o in zip(args, own, strict=True) if o])
        quiet = level.number < boundary.get()
        if moving and quiet:
            level.observer.note(Use(op.name, (), "drops", "zero", "zero", "yes", 1, "inside no_tangents()"))
            moving = False
        else:
            level.observer.operator(op, params, moving)
        inside = getattr(params.get("call"), "function", None) if op.reruns else None
        if inside is not None:  # runs as it stands, so it is explained too
            return tuple([x if isinstance(x, Tracer) else Observed(x, level, False) for x in inside(*args)])
        out = bind(op, [a._value if o else a for a, o in zip(args, own, strict=True)], params)
        moving = moving and op.jvp is not None
        if op.multiple_results:
            return tuple([Observed(x, level, moving and is_inexact(aval_of(x).dtype)) for x in out])
        return Observed(out, level, moving and is_inexact(aval_of(out).dtype))

    # ── names ────────────────────────────────────────────────────────────────────────────────────────────────────

    def __array_function__(self, function, types, args, kwargs):
        handle = super().__array_function__
        return self._named(public_name(function), lambda: handle(function, types, args, kwargs), function, args, kwargs)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        name, handle = public_name(ufunc) + ("" if method == "__call__" else f".{method}"), super().__array_ufunc__
        call = lambda: handle(ufunc, method, *inputs, **kwargs)
        return self._named(name, call, getattr(ufunc, method), inputs, kwargs)

    def _named(self, name: str, run: Callable[[], Any], function: Callable, args: Any, kwargs: dict) -> Any:
        """Carry a function out under its name; note a refusal and go on with what NumPy computes of the values."""
        observer = self.level.observer
        with observer.within(name):
            try:
                return run()
            except (UnsupportedError, ConversionError, PlainBufferError) as error:
                why = error.why or error.what
                observer.note(Use(observer.names[0], (), "refused", "no", "no", "no", 1, why, error.instead))
                out = function(*_plain(args, self.level), **_plain(kwargs, self.level))
        wrap = lambda x: Observed(x, self.level, False) if isinstance(x, (np.ndarray, np.generic)) else x
        return tuple([wrap(x) for x in out]) if isinstance(out, tuple) else wrap(out)

    # ── questions and conversions ────────────────────────────────────────────────────────────────────────────────

    def _asked(self, name: str, status: str, note: str, instead: str = "") -> None:
        forward = "-" if not self._tangent else "no" if status == "refused" else "zero"
        if status == "branch":
            forward = "yes"
        self.level.observer.note(Use(name, (), status, forward, forward, "yes", 1, note, instead))

    def _convert(self, name: str, method: str, *args: Any) -> Any:
        """Note a conversion that a derivative refuses, and carry it out."""
        if self._tangent:
            try:
                getattr(Tracer, method)(self, *args)
            except DualadError as error:
                self._asked(name, "refused", f"under a derivative: {error.why}", error.instead)
        else:
            self._asked(name, "branch", f"a plain number, which has no tangent; {_SPLIT}")
        return getattr(np.asarray(self._value), method)(*args)

    def __bool__(self):
        answer = bool(self._value)
        self._asked("if", "branch", f"a branch on a traced value, taken: {answer}; {_SPLIT}, and trace refuses")
        return answer

    def __int__(self):
        if self._tangent:
            self._asked("int()", "drops", f"the tangent ends here; {_SPLIT}")
        else:
            self._asked("int()", "branch", f"a plain number; {_SPLIT}")
        return int(self._value)

    def __index__(self):
        self._asked("index", "branch", f"a traced integer, used as a plain number; {_SPLIT}")
        return self._value.__index__()

    def __float__(self):
        if self._tangent and not by_name():
            self._written(float)
            return float(self._value)
        return self._convert("float()", "__float__")

    def _written(self, dtype: Any) -> None:
        try:
            Tracer.__array__(self, np.dtype(dtype))
        except DualadError as error:
            self._asked("plain array", "refused", f"written into a plain array: {error.why}", error.instead)

    def __complex__(self):
        return self._convert("complex()", "__complex__")

    def item(self, *args):
        """As a tensor's; without a derivative, note the conversion and return the number."""
        if not self._tangent:
            return self._convert(".item()", "item", *args)
        return super().item(*args)  # type: ignore[misc]  # surface/methods.py installs it

    def tolist(self):
        """As a tensor's; without a derivative, note the conversion and return the list."""
        if not self._tangent:
            return self._convert(".tolist()", "tolist")
        return super().tolist()  # type: ignore[misc]  # surface/methods.py installs it

    def concretize(self, what: str):
        """Return the value: a transform that needs it can have it, or splits its lanes."""
        self._asked("mask or count", "branch", f"{what} has to be known; {_SPLIT}")
        return self._value

    def __array__(self, dtype=None, copy=None):
        refused = (dtype is not None and np.dtype(dtype) != object) or self.dtype.kind == "c"
        if not self._tangent:
            return np.asarray(self._value, dtype)
        if refused:
            self._written(dtype if dtype is not None else self.dtype)
            return np.asarray(self._value, dtype)
        self._asked(
            "np.array([...])", "slow", "NumPy builds an object array of tensors, which is joined again later",
            "np.stack([...])",
        )  # fmt: skip
        return super().__array__(dtype, copy)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)  # type: ignore[misc]  # surface/indexing.py installs it
        flush_writes(self)  # carried out now, and noted at this line


def _plain(x: Any, level: Level) -> Any:
    """Return arguments with values in place of observed tensors."""
    if type(x) is Observed and x.level is level:
        return x._value
    if isinstance(x, (list, tuple)):
        return type(x)([_plain(part, level) for part in x])
    if isinstance(x, dict):
        return {k: _plain(v, level) for k, v in x.items()}
    return x
