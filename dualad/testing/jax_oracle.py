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
from contextlib import AbstractContextManager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from dualad.boundary.transformed import Transformed
from dualad.lift.lift import with_redirects
from dualad.lift.reach import Reach, home_of, is_kept
from dualad.lift.targets import CONTAINERS, Table, top, with_submodules
from dualad.rules.calls import UserFunction

from .engine import RealFunction
from .estimate import Estimate, Unavailable

__all__ = ["JaxOracle", "in_jax"]

# Up to so many entries, products with the Jacobian are taken from the Jacobian itself.
_SMALL = 10_000
_TRANSFORMS = ("grad", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp", "vmap")


class JaxOracle:
    """JAX's derivatives of a user's function.

    ``jax_f`` and ``shared`` are those of `check_function`. ``trouble`` is why the oracle can't run at all, or None;
    its methods then answer the same.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.jax_oracle import JaxOracle
    >>> from dualad.testing.engine import RealFunction
    >>> oracle = JaxOracle(RealFunction(lambda x: np.sin(x), (0.0,)))
    >>> oracle.jvp(np.array([2.0])).value  # doctest: +SKIP
    array([2.])
    """

    def __init__(
        self,
        function: RealFunction,
        jax_f: Callable | None = None,
        shared: dict[Any, Any] | None = None,
    ) -> None:
        self.function = function
        self.shared: dict[Any, Any] = {} if shared is None else shared
        self.jacobian_answer: Estimate | Unavailable | None = None
        self.trouble: Unavailable | None = None
        self.f: Callable | None = None
        self.compiles = True
        self.compiled: dict[str, Callable] = self.shared.setdefault(_static_parts(function), {})
        if importlib.util.find_spec("jax") is None:
            self.trouble = Unavailable("JAX is not installed (pip install 'dualad[oracle]')")
            return
        self.jax = importlib.import_module("jax")
        self.numpy = importlib.import_module("jax.numpy")
        try:
            self.f = in_jax(function.f) if jax_f is None else jax_f
        except Exception as error:
            self.trouble = Unavailable(_reason(error))
            return
        answer = self.value(function.x)
        if isinstance(answer, Unavailable):
            self.trouble = answer
            return
        value = answer.value
        expected = function.flat_value
        if value.shape != expected.shape:
            self.trouble = Unavailable(f"with jax.numpy the function returns {value.size} numbers, not {expected.size}")
        elif not np.allclose(value, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max(initial=0), equal_nan=True):
            k = int(np.nanargmax(np.abs(value - expected)))
            self.trouble = Unavailable(
                f"with jax.numpy the function has another value: {function.outs.label(k)} = {value[k]:.9g}, "
                f"not {expected[k]:.9g}"
            )

    # -- questions ----------------------------------------------------------------------------------------------

    def value(self, x: np.ndarray) -> Estimate | Unavailable:
        """Return the (m,) value at a point of shape (n,)."""
        return self._ask("value", lambda point: self._call(*point), self.function.ins.split(x))

    def jvp(self, v: np.ndarray) -> Estimate | Unavailable:
        """Return J v, shape (m,), for a tangent of shape (n,)."""
        if self.function.size * self.function.out_size <= _SMALL:
            return _product(self.jacobian(), lambda J: J @ v, lambda J: J @ np.abs(v))
        tangent = self.function.ins.split(v)
        return self._ask("jvp", lambda x, t: self.jax.jvp(self._call, x, t)[1], self.function.point, tangent)

    def vjp(self, w: np.ndarray) -> Estimate | Unavailable:
        """Return Jᵀ w, shape (n,), for a cotangent of shape (m,)."""
        if self.function.size * self.function.out_size <= _SMALL:
            return _product(self.jacobian(), lambda J: w @ J, lambda J: np.abs(w) @ J)
        cotangent = self.function.outs.split(w)
        return self._ask("vjp", lambda x, c: self.jax.vjp(self._call, *x)[1](c), self.function.point, cotangent)

    def jacobian(self) -> Estimate | Unavailable:
        """Return the (m, n) Jacobian."""
        if self.jacobian_answer is None:
            self.jacobian_answer = self._ask("jacobian", self._jacobian, self.function.point, join=self._matrix)
        return self.jacobian_answer

    def hvp(self, w: np.ndarray, v: np.ndarray) -> Estimate | Unavailable:
        """Return the Hessian of ``w · f`` times v, shape (n,)."""
        function = self.function

        def answer(point: Any, weights: Any, tangent: Any) -> Any:
            scalar = lambda leaves: function.scalar(weights, leaves, self.numpy, self.f)
            return self.jax.jvp(self.jax.grad(scalar), (point,), (tangent,))[1]

        return self._ask("hvp", answer, function.point, function.outs.split(w), function.ins.split(v))

    # -- inside -------------------------------------------------------------------------------------------------

    def _jacobian(self, point: Any) -> Any:
        mode = self.jax.jacfwd if self.function.size <= self.function.out_size else self.jax.jacrev
        return mode(self._call, argnums=tuple(range(len(point))))(*point)

    def _matrix(self, blocks: Any) -> np.ndarray:
        rows = zip(blocks, self.function.value, strict=True)
        return np.block([[np.asarray(b, np.float64).reshape(y.size, -1) for b in row] for row, y in rows])

    def _in_float64(self) -> AbstractContextManager[Any]:
        if hasattr(self.jax, "enable_x64"):
            return self.jax.enable_x64(True)
        return importlib.import_module("jax.experimental").enable_x64(True)

    def _arrays(self, leaves: Sequence[np.ndarray]) -> tuple[Any, ...]:
        return tuple(self.numpy.asarray(leaf) for leaf in leaves)

    def _call(self, *leaves: Any) -> tuple[Any, ...]:
        # A result that does not depend on the arguments may come back as a NumPy number: JAX wants its own.
        return tuple(self.numpy.asarray(out) for out in self.function.on(leaves, self.numpy, self.f))

    def _run(self, name: str, question: Callable, *trees: Sequence[np.ndarray]) -> Any:
        """Answer a question compiled as a whole, which is quicker; a function that branches runs step by step."""
        arguments = [self._arrays(tree) for tree in trees]
        if self.compiles:
            try:
                return self.compiled.setdefault(name, self.jax.jit(question))(*arguments)
            except Exception:  # whatever it is, it will be raised again below if it is not about compiling
                self.compiles = False
        return question(*arguments)

    @staticmethod
    def _join(leaves: Sequence[Any]) -> np.ndarray:
        return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in leaves])

    def _ask(
        self, name: str, question: Callable, *trees: Sequence[np.ndarray], join: Callable | None = None
    ) -> Estimate | Unavailable:
        if self.trouble is not None:
            return self.trouble
        try:
            with self._in_float64(), np.errstate(all="ignore"):
                return Estimate((join or self._join)(self._run(name, question, *trees)))
        except Exception as error:
            return Unavailable(_reason(error))


def in_jax(f: Callable) -> Callable:
    """Return a function that runs with the names of NumPy, SciPy and dualad leading to JAX's, which must be there.

    It may be any Python function, one with a custom rule (which runs without it), or a function of NumPy.

    Examples
    --------
    >>> import numpy as np
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
    """Return the names of NumPy, of what is loaded of SciPy, and of dualad, with JAX's counterparts."""
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
                if (other := _in_scipy(name)) is not None:
                    yield sys.modules[name], other

        def module_for(name: str) -> Any:
            if top(name) not in ("numpy", "scipy", "dualad"):
                return None
            try:
                return _counterpart(importlib.import_module(name), table)
            except ImportError:
                return None

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


def _in_scipy(name: str) -> Any:
    """Return JAX's counterpart of a module of SciPy's, if it has one."""
    try:
        return importlib.import_module(f"jax.{name}")
    except ImportError:
        return None


def _counterpart(module: ModuleType, table: Table) -> Any:
    """Return what stands in the place of a module, which may not have been loaded when the table was filled."""
    found = table.in_place_of(module)
    if found is None and top(module.__name__) == "scipy" and (other := _in_scipy(module.__name__)) is not None:
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


def _product(
    jacobian: Estimate | Unavailable, product: Callable[[np.ndarray], Any], terms: Callable[[np.ndarray], Any]
) -> Estimate | Unavailable:
    """Multiply JAX's Jacobian, with the rounding of the sum: one compilation serves three questions."""
    if isinstance(jacobian, Unavailable):
        return jacobian
    return Estimate(product(jacobian.value), 1e-15 * np.nan_to_num(terms(np.abs(jacobian.value)), posinf=0.0))


def _static_parts(function: RealFunction) -> tuple[Any, ...]:
    """Return what compiled code depends on beside the numbers: shapes, and the arguments that are held fixed."""
    fixed: list[Any] = []
    for position, leaf in enumerate(function.leaves):
        if position in function.ins.positions:
            fixed.append(("moving", np.shape(leaf)))
        elif isinstance(leaf, np.ndarray):
            fixed.append((leaf.dtype.str, leaf.shape, leaf.tobytes()) if leaf.dtype != object else ("object", id(leaf)))
        elif isinstance(leaf, (bool, int, str, np.generic)):
            fixed.append((type(leaf).__name__, leaf))
        else:
            fixed.append((type(leaf).__name__, id(leaf)))
    return (function.treedef, tuple(fixed), function.out_treedef, tuple(function.outs.positions))


def _reason(error: Exception) -> str:
    """Say in one line what JAX objected to."""
    name = type(error).__name__
    text = str(error)
    first = (text.strip().splitlines() or [""])[0].strip()
    if "item assignment" in text or "immutable" in text:
        return "jax.numpy arrays have no item assignment"
    if name == "TracerArrayConversionError":
        return "a traced JAX array reached plain NumPy (a function that jax.numpy does not have)"
    if name in {"ConcretizationTypeError", "TracerBoolConversionError", "TracerIntegerConversionError"}:
        return f"JAX needs a concrete value here ({name}: a branch, float(x) or an index)"
    return f"{name}: {first}"[:200]
