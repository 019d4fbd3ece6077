"""``jit``: a function traced once for each signature, simplified, compiled, and run without dualad in between.

For: the object that ``jit`` returns, its specialisations, and what it does inside transforms. Not for: the trace
(``tracing.py``), the code (``numpy_source.py``), the operator that it is to a transform (``call.py``).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, overload

import numpy as np
import optree

from ..base.arguments import check_callable
from ..base.frames import hide_frames, public, user_level, users_line_of
from ..base.garbage import less_collection
from ..base.locks import new_lock
from ..base.log import log
from ..base.signatures import Args
from ..base.terminal import Timed
from ..base.tree import LeafName, flatten, is_array, orders_of_keys
from ..batched import Batched
from ..boundary.randomness import States
from ..boundary.transformed import importable_name
from ..control.control_ops import holds_staged
from ..core.contexts import active, in_use, silently
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..dual import Dual
from ..errors import ArgumentError, ArgumentTypeError, BranchError, ConversionError, DtypeError, PerformanceNote
from ..guards.reach import MOST, Reach
from ..memory.memory import snapshot
from ..ops.kinks import _convention
from ..ops.shaping import astype
from ..program.ir import Program, map_atoms, mentions, stays
from ..program.variable import Variable
from ..surface.leaves import as_primal
from .call import call
from .draws import DrawnInside, places
from .first_call import CHECKED
from .lowered import Lowered, explain_report
from .native.engine import engine
from .native.front import HasFront, front, method
from .signature import (
    NO_MATCH,
    FastPath,
    Static,
    Unsupported,
    leaf_key,
    resolved_statics,
    static,
    takes_any_keyword,
)
from .specialisation import LeftToFunction, Specialisation, errors_left
from .tracing import Arguments, Traced, advising, strides_of, trace_for_jit
from .trust import attempt
from .whole_numbers import fits

__all__ = ["Jitted", "jit"]

#: specialisations that are compared one by one, and those that are kept at all
_QUICK, _KEPT = 8, 256
#: bytes of captured arrays that are compared at each call before a note says so
_LARGE = 1 << 24
#: paths of one signature, with specialise=True
_PATHS = 16
#: retraces of one specialisation before a note says why
_RETRACED = 8


@functools.cache
def _called_in_machine_code() -> type:
    """Return the class of compiled functions whose calls begin in machine code."""
    cls = type("Jitted", (Jitted,), {"__slots__": (), "__doc__": Jitted.__doc__, "__module__": Jitted.__module__})
    cls.__call__ = method(cls)  # type: ignore[method-assign]
    return cls


class Jitted(HasFront):
    """A compiled function: what :func:`dualad.jit` returns. It is called as the function is.

    Attributes
    ----------
    f : callable
        The function itself.
    """

    def __init__(
        self, f: Callable, static_argnums: Any, static_argnames: Any, specialise: bool, check: bool | int = True,
        wait: bool = True,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, f, updated=())
        self.f, self.specialise, self._waits = f, specialise, wait
        self._options = (static_argnums, static_argnames, specialise, check, wait)
        self._most = _most_entries(check)
        self._static_places, self._static_names = resolved_statics(f, static_argnums, static_argnames)
        self._sees_order = takes_any_keyword(f)
        self._entries: tuple[FastPath, ...] = ()
        #: an entry, and what is called without its guards
        self._bare: tuple[FastPath | None, Callable | None] = (None, None)
        #: the entries in Python, where there is no front in machine code
        self._quick: tuple[Callable, ...] = ()
        self._found: dict[Any, list[Specialisation]] = {}
        self._seen: dict[Any, list] = {}
        #: signatures for which it reads too much besides its arguments
        self._uncompiled: set[Any] = set()
        self._lock = new_lock()
        self.__name__ = getattr(f, "__name__", type(f).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function: compiled for this signature, which happens at its first call."""
        try:
            try:
                if not kwargs and not in_use:
                    for enter in self._quick:
                        out = enter(*args)
                        if out is not NO_MATCH:
                            return out
                return self._call(args, kwargs)
            except LeftToFunction:
                pass
            return self._run_eagerly(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    @public
    def _run_eagerly(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself: numbers tell which zeros are meant, and it may catch an error."""
        with np.errstate(all="ignore"):
            return silently(self.f, *args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<jit of {self.__name__}: {sum([len(s) for s in self._found.values()])} specialisations>"

    def __reduce__(self) -> Any:
        return importable_name(self) or (Jitted, (self.f, *self._options))

    # ── what can be asked of it ──────────────────────────────────────────────────────────────────────────────────

    @public
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Compile for these arguments and return the record of it.

        Returns
        -------
        Lowered
            With ``program``, ``optimised``, ``source``, ``kernels`` and ``cost``, all of which can be printed.

        Examples
        --------
        >>> print(da.jit(np.linalg.eigvals).lower(np.eye(2)).source.splitlines()[1].strip())
        v1 = eigvals(x0)
        """
        return Lowered(self._specialised(args, kwargs).program)

    @public
    def program(self, *args: Any, **kwargs: Any) -> Program:
        """Return the program that the function is for these arguments, as :func:`dualad.trace` writes it."""
        spec = self._specialised(args, kwargs)
        program, more = spec.program, [*spec.traced.hidden, *spec.traced.captured]
        first = len(program.inputs) - len(more)
        known = dict(zip(program.inputs[first:], more, strict=True))
        swap = lambda a: known.get(a, a) if type(a) is Variable else a
        steps, outputs = map_atoms(program, swap)
        tree = self._flat(args, kwargs)[0].tree
        return Program(program.inputs[:first], steps, outputs[: spec.results], program.name, tree, spec.traced.tree)

    @public
    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Return a report for these arguments: what became of each operation, costs, callbacks and their lines."""
        return explain_report(self._specialised(args, kwargs), self._unwrap, self._flat(args, kwargs)[0])

    def unguarded(self, *args: Any) -> Callable | None:
        """Return the compiled code for such arguments, without guards on captures; None if it runs Python.

        What does not depend on the arguments is returned itself at each call, and is not to be written to.
        """
        out = self(*args)
        if len(self._entries) != 1:
            return None
        if self._entries[0].is_constant:
            return lambda *at: out
        if self._bare[0] is not self._entries[0]:
            bare = self._entries[0].without_captures()
            made = None if bare is None else front([bare], MethodType(Jitted.__call__, self))
            self._bare = self._entries[0], made
        return self._bare[1]

    def _specialised(self, args: tuple, kwargs: dict) -> Specialisation:
        given, key = self._flat(args, kwargs)
        return self._find(key, given)[0] or self._specialise(given, key)

    def _find(self, key: Any, given: Arguments) -> tuple[Specialisation | None, Sequence | None]:
        """Return the specialisation of a signature and path, and what it gives, if it was run to see whether it is."""
        for spec in self._found.get(key, ()):
            if not spec.captures.unchanged():
                continue
            if spec.traced.strides is not None and spec.traced.strides != strides_of(given.given):
                continue
            if not spec.traced.decisions:
                return spec, None
            prints, states = mentions(spec.traced.program, stays), States(given.generators)
            try:
                inputs = spec.inputs(given)
                out = silently(spec.run, inputs) if prints else spec.run(inputs)
                if spec.agrees(out):
                    if prints:
                        states.restore()
                    return spec, None if prints else out
            except Exception:  # not the path of this call, or an error that its own path will raise
                pass
            states.restore()
        return None, None

    # ── a call that the quick entries do not know ────────────────────────────────────────────────────────────────

    def _call(self, args: tuple, kwargs: dict) -> Any:
        if in_use and (watch := active()) is not None:  # somebody looks on, operation by operation
            return watch.compiled(self, self.f, args, kwargs)
        given, key = self._flat(args, kwargs)
        tracers = [x for x in given.arrays if isinstance(x, Tracer)]
        # Inside another program its equations are written down; a path that depends on values is taken as it is.
        if tracers and (self.specialise or any([holds_staged(x) for x in tracers])):
            return self.f(*args, **kwargs)
        # A generator whose draws are noted is the argument of a function around this one.
        inside = given.generators and any([getattr(x, "note", None) is not None for x in given.generators])
        if inside or key in self._uncompiled:
            return self.f(*args, **kwargs)
        spec, out = self._find(key, given)
        if spec is not None:
            return self._run(spec, out, given, tracers, args, kwargs)
        with less_collection():  # until all that is made of the trace is there
            try:
                spec = self._specialise(given, key)
            except (BranchError, ConversionError) as error:
                if not any([_is_batched(x) for x in tracers]):
                    if "a Batched tensor" not in error.what:
                        raise
                    self._leave_uncompiled(key, _disagreement(error))
                spec = None  # vmap can run the lanes in groups that agree
            except DrawnInside as drawn:
                self._leave_uncompiled(key, _drawn_inside(drawn))
                spec = None
            if spec is not None and key not in self._uncompiled:
                return self._run(spec, None, given, tracers, args, kwargs)
        return self.f(*args, **kwargs)

    def _run(
        self, spec: Specialisation, out: Sequence | None, given: Arguments, tracers: list, args: tuple, kwargs: dict
    ) -> Any:
        """Run a specialisation, unless ``out`` is what it gives, and let its next calls enter it at once."""
        traced = spec.traced
        if (not self._waits and not spec.program.is_ready()) or (tracers and traced.written):
            return self.f(*args, **kwargs)
        states = States(given.generators if traced.draws else ())
        arrays = spec.inputs(given) if traced.draws and out is None else given.arrays
        if traced.draws:  # where lanes draw different numbers
            tracers = [x for x in arrays if isinstance(x, Tracer)]
        moving = tracers or traced.captured or spec.program.compiled is None  # which is made before errors are left
        if not moving and out is None and traced.written and self._is_written_by_numpy(traced, given.given):
            states.restore()
            return self.f(*args, **kwargs)
        with errors_left(states):
            if moving:  # one operator of the transform
                spec.check_integers(arrays)
                arrays = [x.numpy_number() if isinstance(x, Tracer) else x for x in arrays]
                values = (*arrays, *[snapshot(a) for a in traced.hidden], *traced.captured)
                out = bind(call, values, {"program": spec.program, "linear": 0})
            else:
                if out is None:
                    out = spec.run(arrays)
                if traced.unsure:
                    spec.check(out)
        result = self._finish(spec, out, given.given)
        if not spec.has_entry and not tracers:
            spec.has_entry = True
            self._add_entry(spec, args, kwargs)
        return result

    def _finish(self, spec: Specialisation, out: Sequence, arrays: list) -> Any:
        traced = spec.traced
        for i, x in zip(traced.written, out[spec.results :], strict=False):
            np.copyto(arrays[i], x)
        results = [x if r is None else arrays[r] for x, r in zip(out, traced.returned, strict=False)]
        return optree.tree_unflatten(traced.tree, results)

    def _is_written_by_numpy(self, traced: Traced, arrays: list) -> bool:
        """Whether an array that is written to may be seen through another argument or twice, or is read-only."""
        everything = [a for a in (*arrays, *traced.hidden) if isinstance(a, np.ndarray)]
        written = [arrays[i] for i in traced.written]
        return any([not isinstance(a, np.ndarray) or not a.flags.writeable or _overlaps(a) for a in written]) or any(
            [sum([np.may_share_memory(a, other) for other in everything]) > 1 for a in written]
        )

    def _flat(self, args: tuple, kwargs: dict) -> tuple[Arguments, Any]:
        """Return the leaves of the arguments, and the signature."""
        if self._static_places or self._static_names:
            args = tuple([static(a) if i in self._static_places else a for i, a in enumerate(args)])
            kwargs = {k: static(v) if k in self._static_names else v for k, v in kwargs.items()}
        leaves, tree = flatten((args, kwargs))
        given = list(leaves)
        flags = []
        for i, x in enumerate(leaves):
            # Truth values and integers without end are Python's to compute with.
            if type(x) is bool or (type(x) is int and not fits(x)):
                flags.append(False)
                continue
            if isinstance(x, Tracer) and not x.aval.dtype.isnative:
                x = leaves[i] = astype(x, dtype=x.aval.dtype.newbyteorder("="))
            as_it_is = isinstance(x, Tracer) or (type(x) is np.ndarray and x.dtype.kind in "biufc" and x.dtype.isnative)
            flags.append(as_it_is or is_array(x))
            if as_it_is or not flags[-1]:
                continue
            x = as_primal(x, LeafName((args, kwargs), "(args, kwargs)", i), "jit")
            if isinstance(x, np.ndarray):
                if not x.dtype.isnative:
                    x = x.astype(x.dtype.newbyteorder("="))
            elif isinstance(x, np.generic) and x.dtype.kind not in "biufc":
                raise DtypeError(
                    f"jit: argument leaf {i} has dtype {x.dtype}.",
                    "it does not hold numbers",
                    "pass it as a static argument: jit(f, static_argnames=...)",
                )
            leaves[i] = x
        named = kwargs if len(kwargs) < 2 or self._sees_order else dict(sorted(kwargs.items()))
        avals = tuple([leaf_key(x, m) for x, m in zip(leaves, flags, strict=True)])
        generators = [] if all(flags) else [leaves[i] for i in places(leaves)]
        ids = list(map(id, generators))  # which of them are one
        key = (tree, avals, _convention.get(), orders_of_keys((args, named)), *map(ids.index, ids))
        return Arguments(leaves, tree, flags, [x for x, m in zip(given, flags, strict=True) if m], generators), key

    def _unwrap(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with static arguments as they are."""
        args = tuple([a.value if type(a) is Static else a for a in args])
        return self.f(*args, **{k: v.value if type(v) is Static else v for k, v in kwargs.items()})

    # ── specialisations ──────────────────────────────────────────────────────────────────────────────────────────

    def _specialise(self, given: Arguments, key: Any) -> Specialisation:
        """Trace and keep the function for a signature; the former one reads something that has changed."""
        function = functools.update_wrapper(functools.partial(self._unwrap), self.f, updated=())
        constants = [x for x, m in zip(given.leaves, given.is_input, strict=True) if not m]
        roots = [self.f, *[x.value if type(x) is Static else x for x in constants]]
        with Timed(f"jit: tracing {self.__name__}") as taken, advising():
            traced, reach = trace_for_jit(function, given, roots, self.specialise)
        again = key in self._found
        log(
            "DAL002" if again else "DAL001", "jit: `%s` traced%s for %s: %d equations, %.3g s", self.__name__,
            " again, as what it reads has changed," if again else "", [v.aval for v in traced.program.inputs],
            len(traced.program.steps), taken.seconds,
        )  # fmt: skip
        spec = Specialisation(traced, Reach(()) if reach is None else reach, self._most)
        if traced.raises:
            self._leave_uncompiled(key, "it catches errors that compiled code has not: np.errstate's, Python's 1 / 0.0")
        if traced.captured or traced.raises:  # tensors of a transform that is running: of no use to another call
            return spec
        if reach is None:
            why = f"it reads more than {MOST} values besides its arguments, too many to be compared at each call;"
            self._leave_uncompiled(key, f"{why} pass them as an argument, as an array")
            return spec
        with self._lock:
            old = self._found.get(key, [])
            fresh = [s for s in old if s.captures.unchanged()]
            if len(fresh) < len(old):
                self._enter()
                spec.retraced = 1 + max([s.retraced for s in old])
            too_many = len(fresh) >= _PATHS and spec.traced.decisions
            if too_many:
                del self._found[key]
            else:
                if len(self._found) >= _KEPT:
                    self._found.clear()
                    self._enter()
                self._found[key] = [spec, *fresh[: _PATHS - 1]]
                note = self._note(key, spec)
        if too_many:
            self._leave_uncompiled(key, _paths_taken(fresh))
        elif note:
            warnings.warn(note, PerformanceNote, stacklevel=user_level())
        return spec

    def _leave_uncompiled(self, key: Any, why: str) -> None:
        """Let the function itself run for a signature from now on."""
        if not self._uncompiled:
            warnings.warn(
                f"jit: `{self.__name__}` is not compiled, and runs as it is written: {why}",
                PerformanceNote,
                stacklevel=user_level(),
            )
        self._uncompiled.add(key)

    def _add_entry(self, spec: Specialisation, args: tuple, kwargs: dict) -> None:
        t = spec.traced
        does_more = t.written or t.captured or t.decisions or t.draws or t.strides is not None
        if does_more or any([r is not None for r in t.returned]):
            return
        try:
            made = FastPath(args, kwargs, self._static_places | self._static_names, spec, self._run_eagerly)
        except Unsupported:
            return
        with self._lock:
            self._enter(made, *self._entries[: _QUICK - 1])

    def _enter(self, *entries: FastPath) -> None:
        """Let these be the entries, newest first."""
        self._entries = entries
        made = engine()
        make = lambda: made and front(entries, MethodType(Jitted.__call__, self))
        found = attempt("the entry in machine code", make, None)
        if found:
            self._front, self._quick = found, ()
            if type(self) is Jitted:
                self.__class__ = _called_in_machine_code()
        else:
            self._quick = tuple([quick for e in entries if (quick := e.python()) is not None])

    def _note(self, key: Any, spec: Specialisation) -> str:
        """Return a note about work that is done again and again, once for each cause."""
        if spec.retraced == _RETRACED:
            return (
                f"jit: `{self.__name__}` has been traced {_RETRACED} times for one signature, because something that it"
                " reads besides its arguments keeps changing; pass it as an argument"
            )
        if spec.captures.size > _LARGE and not spec.retraced:
            return (
                f"jit: `{self.__name__}` reads arrays besides its arguments, of which {spec.captures.size >> 20} MiB"
                " are compared at each call, because Python may have read numbers of them; pass them as arguments"
            )
        shapes = self._seen.setdefault(key[0], [])
        if key[1] in shapes:
            return ""
        shapes.append(key[1])
        if len(shapes) != _QUICK + 1:
            return ""
        moving = [i for i, leaf in enumerate(zip(*shapes, strict=True)) if len({repr(k) for k in leaf}) > 1]
        return (
            f"jit: `{self.__name__}` was compiled for {len(shapes)} signatures; what changes is"
            f" {' and '.join([f'argument leaf {i} ({shapes[-1][i]})' for i in moving[:3]])}. Each is traced"
            " and compiled anew: pad to a few sizes, or call the function without jit where sizes keep changing"
        )


_TOGETHER = "np.where(condition, a, b), np.select, dualad.cond and dualad.while_loop"


def _paths_taken(specs: Sequence[Specialisation]) -> str:
    lines = sorted({d.line for s in specs for d in s.traced.decisions})
    return (
        f"it has taken more than {_PATHS} paths through its branches, each of which specialise=True compiles by itself;"
        f" {_TOGETHER} compile to one, in place of\n  {chr(10).join(lines)}"
    )


def _drawn_inside(error: BaseException) -> str:
    line = users_line_of(error)
    return (
        f"it draws random numbers at {line.filename}:{line.lineno} ({line.line}) in the body of a loop, a branch or a"
        " checkpoint; draw them before it, with an axis for the steps: rng.normal(size=(n, k))"
    )


def _disagreement(error: Exception) -> str:
    line = users_line_of(error)
    return (
        f"the lanes of a vmap inside may disagree at {line.filename}:{line.lineno} ({line.line}), where Python asks for"
        f" a value, and run in groups that agree; {_TOGETHER} keep them together"
    )


def _overlaps(a: np.ndarray) -> bool:
    """Whether two indices of an array may name the same memory, as where a stride is 0."""
    reach = a.itemsize
    for stride, n in sorted([(abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1]):
        if stride < reach:
            return a.size > 0
        reach += stride * (n - 1)
    return False


def _most_entries(check: Any) -> float:
    """The largest number of entries of a program whose first call is checked."""
    if isinstance(check, bool):
        return CHECKED if check else -1
    if not isinstance(check, int) or check < 0:
        raise ArgumentTypeError(
            f"jit: check={check!r}.",
            "it says whether the first call is compared with NumPy, or up to how many entries that compute",
            "pass True, False, or a number of entries",
        )
    return check


def _is_batched(x: Any) -> bool:
    while isinstance(x, Tracer):
        if type(x) is Batched:
            return True
        x = x._primal if type(x) is Dual else None
    return False


@overload
def jit(
    f: Callable[Args, Any], *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
    specialise: bool = False, check: bool | int = True, wait: bool = True,
) -> Jitted: ...  # fmt: skip


@overload
def jit(
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    specialise: bool = False,
    check: bool | int = True,
    wait: bool = True,
) -> Callable[[Callable[Args, Any]], Jitted]: ...


def jit(
    f: Callable | None = None, *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = (),
    specialise: bool = False, check: bool | int = True, wait: bool = True,
) -> Any:  # fmt: skip
    """Compile a function: traced once for each signature of its arguments, then run without dualad in between.

    It is a decorator too, and nests with every transform in any order: ``jit(vmap(grad(f)))`` compiles the
    derivative, ``grad(jit(f))`` runs compiled code forwards and backwards.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy; it must not branch on values (but see ``specialise``).
    static_argnums : int or sequence of int
        Positions of arguments that are settings: each of their values is compiled for.
    static_argnames : str or sequence of str
        The same by name.
    specialise : bool
        Compile along the branches that the values take, with a check at each call that they are the same; another
        path is traced when it is first taken. Beyond 16 of them the function runs uncompiled, and a note says so.
    check : bool or int
        Whether the first call of each signature is compared with the function's program run by NumPy. With a number it
        is, unless that reads and computes more entries than this; ``True`` is two million.
    wait : bool
        Whether a first call waits for the code. Without it a thread compiles, and calls run ``f`` itself until the code
        is there; the first call still traces. Not with ``specialise``.

    Returns
    -------
    Jitted
        Called as ``f`` is; ``lower(*args)``, ``program(*args)`` and ``explain(*args)`` show what was made of it.

    Raises
    ------
    BranchError
        If ``f`` branches on a value.
    NotRepeatableError
        If ``f`` computes something else the second time: random numbers, the time.
    ArgumentError, ArgumentTypeError
        If static arguments are named that ``f`` does not have, or that can't be hashed; if ``wait=False`` meets
        ``specialise=True``.

    Notes
    -----
    A signature is the structure of the arguments, the shape and dtype of each array, whether it was a Python number,
    and the value of everything else, truth values among it. Sums, products, quotients, roots, comparisons and moves are
    bit for bit those of the function itself; other mathematics is within 4 units in the last place. There are no
    floating-point warnings. What Python computes of its integers alone is Python's number or error, or refused.
    Results are new arrays, except an argument that is returned as it is. Arrays of the closure are read at each call;
    names, numbers and attributes that the function reads are compared at each call, and it is traced again when they
    have changed.

    Examples
    --------
    >>> fast = da.jit(da.grad(lambda x: np.sum(np.sin(x) ** 2)))
    >>> fast(np.array([0.0, 0.5])).round(6).tolist()
    [0.0, 0.841471]
    """
    if f is None:
        return lambda f: jit(
            f, static_argnums=static_argnums, static_argnames=static_argnames, specialise=specialise, check=check,
            wait=wait,
        )  # fmt: skip
    check_callable(f, "jit")
    if specialise and not wait:
        raise ArgumentError(
            "jit: wait=False with specialise=True.",
            "which of the compiled paths a call takes is seen when they run, so a call has to wait for them",
            "leave one of the two out, or choose with np.where or dualad.cond in place of `if`",
        )
    f = getattr(f, "py_func", f)  # numba's would compile it for itself
    return Jitted(f, static_argnums, static_argnames, specialise, check, wait)
