"""JAX in float64 as an oracle: the user's module, loaded a second time with jax.numpy in NumPy's place.

JAX is found by name when it is asked for and never imported by the library proper; 64-bit mode is on inside the
oracle's own calls only. Whatever JAX can't do with plain NumPy code (item assignment, float(x) of a tracer) is a
reason, not a failure.

Not for deciding whether a function is right: JAX is one voice, and `check_function` hears the others too.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from dualad.boundary.transformed import Transformed
from dualad.lift.loading import load_again
from dualad.rules.calls import UserFunction

from .estimate import Estimate, Unavailable
from .real_function import RealFunction

__all__ = ["JaxOracle", "find_source", "rebound"]

# Up to so many entries, products with the Jacobian are taken from the Jacobian itself.
_SMALL = 10_000
_TRANSFORMS = ("grad", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "value_and_grad", "vjp", "vmap")


class JaxOracle:
    """JAX's derivatives of a user's function.

    ``source`` and ``shared`` are those of `check_function`. ``trouble`` is why the oracle can't run at all, or None;
    its methods then answer the same.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.jax_oracle import JaxOracle
    >>> from dualad.testing.real_function import RealFunction
    >>> oracle = JaxOracle(RealFunction(lambda x: np.sin(x), (0.0,)))
    >>> oracle.jvp(np.array([2.0])).value  # doctest: +SKIP
    array([2.])
    """

    def __init__(
        self,
        function: RealFunction,
        source: tuple[ModuleType, str] | Callable | None = None,
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
            with self._in_float64():
                found = _code_of(function.f) if source is None else source
                self.f = found if callable(found) else self._second_loading(*found)
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

    def _second_loading(self, module: ModuleType, name: str) -> Callable:
        if (module, name) not in self.shared:
            again: Any = load_again(module, _replacements(self.jax))
            for part in name.split("."):
                again = getattr(again, part)
            self.shared[module, name] = again
        return self.shared[module, name]

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


def _replacements(jax: Any) -> dict[str, Any]:
    """Return what stands in place of the modules that the user's code imports."""
    # A function that differentiates inside itself must do so with JAX's own transforms here.
    transforms = {name: getattr(jax, name) for name in _TRANSFORMS}
    return {
        "numpy": importlib.import_module("jax.numpy"),
        "scipy": importlib.import_module("jax.scipy"),
        "dualad": SimpleNamespace(stop_gradient=jax.lax.stop_gradient, **transforms),
    }


def rebound(f: Callable) -> Callable:
    """Return a function with NumPy's names in its globals and its closure leading to JAX's, which must be there.

    It may be a Python function (a lambda, one defined inside another), one with a custom rule, or a function of NumPy;
    those of its own module that it calls are rebound too, and those with rules without their rules.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing.jax_oracle import rebound
    >>> type(rebound(lambda x: np.sin(x))(0.0)).__module__.split(".")[0]  # doctest: +SKIP
    'jaxlib'
    """
    jax = importlib.import_module("jax")
    modules = _replacements(jax)
    done: dict[int, Any] = {}

    def other(held: Any) -> Any:
        if isinstance(held, ModuleType):
            top, _, rest = held.__name__.partition(".")
            found = modules.get(top, held)
            for part in rest.split(".") if rest and found is not held else ():
                found = getattr(found, part)
            return found
        if isinstance(held, UserFunction):  # its code, whose derivative the rule claims to be
            return again(held.f) if isinstance(held.f, FunctionType) else other(held.f)
        if isinstance(held, Transformed):
            make, args, kwargs = held.transform
            theirs = getattr(jax, make.__name__) if make.__name__ in _TRANSFORMS else None
            return held if theirs is None else theirs(other(args[0]), *args[1:], **kwargs)
        owner = getattr(held, "__module__", None) or ""
        if isinstance(held, np.ufunc) or (callable(held) and owner.split(".")[0] == "numpy"):
            return getattr(modules["numpy"], getattr(held, "__name__", ""), held)
        return again(held) if isinstance(held, FunctionType) and held.__module__ == f.__module__ else held

    def again(function: FunctionType) -> FunctionType:
        if id(function) in done:
            return done[id(function)]
        code = function.__code__
        namespace = dict(function.__globals__)
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(code, namespace, function.__name__, function.__defaults__, cells or None)
        done[id(function)] = made
        namespace.update({name: other(namespace[name]) for name in _names(code) if name in namespace})
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            cell.cell_contents = other(original.cell_contents)
        made.__kwdefaults__ = function.__kwdefaults__
        return made

    return again(f) if isinstance(f, FunctionType) else other(f)


def _code_of(f: Callable) -> tuple[ModuleType, str] | Callable:
    """Return the module and the name that a second loading finds a function by, or else it with other globals."""
    numpys = (getattr(f, "__module__", None) or "").split(".")[0] == "numpy"
    return rebound(f) if numpys or isinstance(f, UserFunction) else find_source(f) or rebound(f)


def _names(code: CodeType) -> set[str]:
    """Return the global names that code, and code inside it, refers to."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


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


def find_source(f: Callable) -> tuple[ModuleType, str] | None:
    """Return the module, with a source file, that a function was defined in and its dotted name there, if it has one.

    Examples
    --------
    >>> import statistics
    >>> from dualad.testing.jax_oracle import find_source
    >>> find_source(statistics.mean)[1], find_source(lambda x: x)
    ('mean', None)
    """
    module, name = sys.modules.get(getattr(f, "__module__", None) or ""), getattr(f, "__qualname__", "<nameless>")
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if module is not None and getattr(module, "__file__", None) and found is f else None


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
    if name == "LoadingError":
        return f"the module does not load with jax.numpy: {getattr(error, 'what', first).splitlines()[0]}"
    return f"{name}: {first}"[:200]
