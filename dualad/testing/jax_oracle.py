"""JAX in float64 as an oracle: the user's function, run with jax.numpy in NumPy's place.

JAX is found by name when it is asked for and never imported by the library proper; 64-bit mode is on inside the
oracle's own calls only. The names in the user's modules lead to JAX's while the function runs, as they lead to dualad's
in a lifted call, for all threads that run this code. Whatever JAX can't do with plain NumPy code (item assignment,
float(x) of a tracer) is a reason, not a failure.

Not for deciding whether a function is right: JAX is one voice, and `check_function` hears the others too.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from dualad.boundary.transformed import Transformed
from dualad.lift.lift import with_redirects
from dualad.lift.reach import Reach, home_of, is_kept
from dualad.lift.targets import CONTAINERS, Table, top, with_submodules
from dualad.rules.calls import UserFunction

from .engine import RealFunction, join_entries
from .estimate import Answer, Estimate, Unavailable, pull_back, transpose

__all__ = ["JaxOracle", "in_jax"]

# Up to this many entries, products with the Jacobian are taken from the Jacobian itself.
_SMALL = 10_000
_TRANSFORMS = ("grad", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp", "vmap")


class JaxOracle:
    """JAX's derivatives of a user's function.

    ``jax_f`` and ``shared`` are those of `check_function`. ``trouble`` is why the oracle can't run at all, or None;
    its methods then answer the same.

    Examples
    --------
    >>> from dualad.testing.jax_oracle import JaxOracle
    >>> from dualad.testing.engine import RealFunction
    >>> oracle = JaxOracle(RealFunction(lambda x: np.sin(x), (0.0,)))
    >>> oracle.jvp(np.array([2.0])).value  # doctest: +SKIP
    array([2.])
    """

    def __init__(
        self, function: RealFunction, jax_f: Callable | None = None, shared: dict[Any, Any] | None = None
    ) -> None:
        self.function = function
        self.jacobian_answer: Answer | None = None
        self.trouble: Unavailable | None = None
        self.f: Callable | None = None
        self.compiles = True
        self.compiled: dict[str, Callable] = ({} if shared is None else shared).setdefault(_static_parts(function), {})
        if importlib.util.find_spec("jax") is None:
            self.trouble = Unavailable("JAX is not installed (pip install 'dualad[oracle]')")
            return
        self.jax = importlib.import_module("jax")
        self.numpy = importlib.import_module("jax.numpy")
        has_it = self.jax if hasattr(self.jax, "enable_x64") else importlib.import_module("jax.experimental")
        self.float64 = has_it.enable_x64
        try:
            self.f = in_jax(function.f) if jax_f is None else jax_f
        except Exception as error:
            self.trouble = Unavailable(_reason(error))
            return
        answer = self.value(function.x)
        if isinstance(answer, Unavailable):
            self.trouble = answer
            return
        value, expected = answer.value, function.flat_value
        if value.shape != expected.shape:
            self.trouble = Unavailable(f"with jax.numpy the function returns {value.size} numbers, not {expected.size}")
        elif not np.allclose(value, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max(initial=0), equal_nan=True):
            k = int(np.nanargmax(np.abs(value - expected)))
            self.trouble = Unavailable(
                f"with jax.numpy the function has another value: {function.outs.label(k)} = {value[k]:.9g}, "
                f"not {expected[k]:.9g}"
            )

    # -- questions ----------------------------------------------------------------------------------------------

    def value(self, x: np.ndarray) -> Answer:
        """Return the (m,) value at a point of shape (n,)."""
        return self._ask("value", lambda point: self._call(*point), self.function.ins.split(x))

    def jvp(self, v: np.ndarray) -> Answer:
        """Return J v, shape (m,), for a tangent of shape (n,)."""
        f = self.function
        if f.size * f.out_size <= _SMALL:
            return pull_back(transpose(self.jacobian()), v)
        return self._ask("jvp", lambda x, t: self.jax.jvp(self._call, x, t)[1], f.point, f.ins.split(v))

    def vjp(self, w: np.ndarray) -> Answer:
        """Return Jᵀ w, shape (n,), for a cotangent of shape (m,)."""
        f = self.function
        if f.size * f.out_size <= _SMALL:
            return pull_back(self.jacobian(), w)
        return self._ask("vjp", lambda x, c: self.jax.vjp(self._call, *x)[1](c), f.point, f.outs.split(w))

    def jacobian(self) -> Answer:
        """Return the (m, n) Jacobian; one compilation of it serves products as well."""
        if self.jacobian_answer is None:
            f = self.function
            mode = "jacfwd" if f.size <= f.out_size else "jacrev"
            blocks = lambda x: getattr(self.jax, mode)(self._call, argnums=tuple(range(len(x))))(*x)
            square = lambda row, y: [np.asarray(b, np.float64).reshape(y.size, -1) for b in row]
            matrix = lambda rows: np.block([square(row, y) for row, y in zip(rows, f.value, strict=True)])
            found = self._ask("jacobian", blocks, f.point, join=matrix)
            if isinstance(found, Estimate):  # sums of its entries are rounded
                found = replace(found, error=1e-15 * np.nan_to_num(np.abs(found.value), posinf=0.0))
            self.jacobian_answer = found
        return self.jacobian_answer

    def hvp(self, w: np.ndarray, v: np.ndarray) -> Answer:
        """Return the Hessian of ``w · f`` times v, shape (n,)."""
        function = self.function

        def answer(point: Any, weights: Any, tangent: Any) -> Any:
            scalar = lambda leaves: function.scalar(weights, leaves, self.numpy, self.f)
            return self.jax.jvp(self.jax.grad(scalar), (point,), (tangent,))[1]

        return self._ask("hvp", answer, function.point, function.outs.split(w), function.ins.split(v))

    # -- inside -------------------------------------------------------------------------------------------------

    def _call(self, *leaves: Any) -> tuple[Any, ...]:
        # A result that does not depend on the arguments may come back as a NumPy number: JAX wants its own.
        return tuple(self.numpy.asarray(out) for out in self.function.on(leaves, self.numpy, self.f))

    def _run(self, name: str, question: Callable, *trees: Sequence[np.ndarray]) -> Any:
        """Answer a question compiled as a whole, which is quicker; a function that branches runs step by step."""
        arguments = [tuple(map(self.numpy.asarray, tree)) for tree in trees]
        if self.compiles:
            try:
                return self.compiled.setdefault(name, self.jax.jit(question))(*arguments)
            except Exception:  # whatever it is, it will be raised again below if it is not about compiling
                self.compiles = False
        return question(*arguments)

    def _ask(self, name: str, question: Callable, *trees: Any, join: Callable = join_entries) -> Answer:
        if self.trouble is not None:
            return self.trouble
        try:
            with self.float64(True), np.errstate(all="ignore"):
                return Estimate(np.asarray(join(self._run(name, question, *trees)), np.float64))
        except Exception as error:
            return Unavailable(_reason(error))


def in_jax(f: Callable) -> Callable:
    """Return a function that runs with the names of NumPy, SciPy and dualad leading to JAX's, which must be there.

    It may be any Python function, one with a custom rule (which runs without it), or a function of NumPy.

    Examples
    --------
    >>> from dualad.testing.jax_oracle import in_jax
    >>> type(in_jax(lambda x: np.sin(x))(0.0)).__module__.split(".")[0]  # doctest: +SKIP
    'jaxlib'
    """
    namespace = home_of(f)
    if namespace is None or is_kept(namespace):
        return _table().in_place_of(f) or f
    return with_redirects(f, Reach(f, namespace, (), _table))


_table_of: dict[tuple, Table] = {}


def _table() -> Table:
    """Return the names of NumPy, of the loaded parts of SciPy, and of dualad, with JAX's counterparts."""
    jax, dualad = importlib.import_module("jax"), sys.modules["dualad"]
    loaded = tuple([n for n in list(sys.modules) if top(n) == "scipy" and "._" not in n])
    if loaded not in _table_of:
        # A function that differentiates inside itself must do so with JAX's own transforms here.
        ours = SimpleNamespace(stop_gradient=jax.lax.stop_gradient, **{n: getattr(jax, n) for n in _TRANSFORMS})
        jax_numpy = importlib.import_module("jax.numpy")

        def pairs() -> Iterator[tuple[Any, Any]]:
            yield dualad, ours
            yield from with_submodules(np, jax_numpy)
            for name in loaded:
                if other := _import_or_none(f"jax.{name}"):
                    yield sys.modules[name], other

        def module_for(name: str) -> Any:
            module = _import_or_none(name) if top(name) in ("numpy", "scipy", "dualad") else None
            return module and _counterpart(module, table)

        derived: dict[type, Any] = {
            **CONTAINERS,
            Transformed: _transform,
            np.vectorize: lambda x, table: jax_numpy.vectorize(in_jax(x.pyfunc)),
            type(functools.lru_cache(lambda: None)): lambda x, table: x.__wrapped__,
        }
        kinds: list[type] = [UserFunction, *UserFunction.__subclasses__()]
        for kind in kinds:
            derived[kind] = lambda x, table: in_jax(x.f)
        table = Table("jax", derived, {}, module_for)
        table.fill([(module, _Counterpart(module, other, table)) for module, other in pairs()])
        _table_of.clear()
        _table_of[loaded] = table
    return _table_of[loaded]


def _import_or_none(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _counterpart(module: ModuleType, table: Table) -> Any:
    """Return the replacement of a module, which may not have been loaded when the table was filled."""
    found = table.in_place_of(module)
    if found is None and top(module.__name__) == "scipy" and (other := _import_or_none(f"jax.{module.__name__}")):
        return _Counterpart(module, other, table)
    return found


def _transform(f: Transformed, table: Table) -> Any:
    make, args, kwargs = f.transform
    theirs = getattr(importlib.import_module("jax"), make.__name__) if make.__name__ in _TRANSFORMS else None
    return None if theirs is None else theirs(in_jax(args[0]), *args[1:], **kwargs)


class _Counterpart(ModuleType):
    """A module of JAX's, with the names of the original where it has none of its own."""

    def __init__(self, original: ModuleType, other: Any, table: Table) -> None:
        super().__init__(original.__name__)
        self._original, self._other, self._table = original, other, table

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._original, name)
        if isinstance(value, ModuleType):
            return _counterpart(value, self._table) or value
        return getattr(self._other, name, value)


def _static_parts(function: RealFunction) -> tuple[Any, ...]:
    """Return the static part of compiled code's key: shapes, and the arguments that are held fixed."""

    def part(position: int, leaf: Any) -> tuple[Any, ...]:
        if position in function.ins.positions:
            return "moving", np.shape(leaf)
        if isinstance(leaf, np.ndarray) and leaf.dtype != object:
            return leaf.dtype.str, leaf.shape, leaf.tobytes()
        return type(leaf).__name__, leaf if isinstance(leaf, (bool, int, str, np.generic)) else id(leaf)

    fixed = tuple([part(position, leaf) for position, leaf in enumerate(function.leaves)])
    return function.treedef, fixed, function.out_treedef, tuple(function.outs.positions)


def _reason(error: Exception) -> str:
    """Say in one line what JAX objected to."""
    name, text = type(error).__name__, str(error).strip()
    if "item assignment" in text or "immutable" in text:
        return "jax.numpy arrays have no item assignment"
    if name == "TracerArrayConversionError":
        return "a traced JAX array reached plain NumPy (a function that jax.numpy does not have)"
    if name in {"ConcretizationTypeError", "TracerBoolConversionError", "TracerIntegerConversionError"}:
        return f"JAX needs a concrete value here ({name}: a branch, float(x) or an index)"
    return f"{name}: {text.partition(chr(10))[0].strip()}"[:200]
