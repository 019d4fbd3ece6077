"""The tables of ``dualad migrate``: the names of autograd and of JAX, and where each has gone.

A name stands for all that begins with it (``autograd.numpy`` for ``autograd.numpy.linalg.norm``) unless a longer one is
here, too. Its value is the new name, a name of Python's own (no dot), or a :class:`Decision` for a human.
Not for: the text of programs (``migrate.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Decision", "LIBRARIES", "Library"]


@dataclass(frozen=True)
class Decision:
    """Why a name has no successor, and what to write."""

    words: str


@dataclass(frozen=True)
class Library:
    """The names of a library: ``names``, old to new or to a decision.

    ``keywords`` has, for the new name of a function, its old keywords and the new ones; ``aliases`` the names that
    modules are commonly imported by, and those that they get; ``removed_methods`` methods of arrays whose calls go.
    """

    names: dict[str, str | Decision]
    keywords: dict[str, dict[str, str]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    removed_methods: frozenset[str] = frozenset()


_ARGNUMS = {f"dualad.{name}": {"argnum": "argnums"} for name in ("grad", "hessian", "jacobian", "value_and_grad")}

_COMPAT = "dualad.compat.autograd"

AUTOGRAD = Library(
    {
        "autograd": _COMPAT,
        **{f"autograd.{name}": f"dualad.{name}" for name in ("checkpoint", "grad", "hessian", "jacobian")},
        "autograd.value_and_grad": "dualad.value_and_grad",
        **{f"autograd.builtins.{name}": name for name in ("dict", "isinstance", "list", "tuple", "type")},
        "autograd.builtins.DictBox": "dict",
        "autograd.builtins.SequenceBox": Decision("a list of tensors is a list: isinstance(x, (list, tuple))"),
        "autograd.core": Decision("what is public of it is in dualad.compat.autograd.extend and .tracer"),
        "autograd.differential_operators": _COMPAT,
        "autograd.extend.Box": Decision("no class of tensors is one's own: make the class a tree, da.register_node"),
        "autograd.extend.VSpace": Decision("a class is differentiated as a tree of arrays: da.register_node"),
        "autograd.misc.fixed_points": f"{_COMPAT}.misc",
        "autograd.misc.flatten": "dualad.ravel_pytree",
        "autograd.misc.flatten.flatten": "dualad.ravel_pytree",
        "autograd.misc.flatten.flatten_func": f"{_COMPAT}.misc.flatten_func",
        "autograd.misc.optimizers": f"{_COMPAT}.misc",
        "autograd.misc.tracers": Decision("da.trace(f, x) writes a function down as a program"),
        "autograd.numpy": "numpy",
        "autograd.numpy.make_diagonal": Decision("multiply by np.eye: x[..., None] * np.eye(x.shape[-1])"),
        "autograd.numpy.numpy_boxes.ArrayBox": "dualad.Dual",
        "autograd.numpy.numpy_vjps": f"{_COMPAT}.misc",
        "autograd.numpy.numpy_wrapper": "numpy",
        "autograd.scipy": "dualad.scipy",
        "autograd.scipy.signal.convolve": f"{_COMPAT}.signal.convolve",
        "autograd.test_util": f"{_COMPAT}.misc",
        "autograd.util": Decision("func(f) is f; subvals(x, pairs) is a loop over a list"),
        "autograd.wrap_util": Decision("functools.wraps, and argnums= of da.grad and its kin"),
    },
    keywords=_ARGNUMS,
)

_SAME_IN_DUALAD = (
    "checkpoint", "custom_jvp", "custom_vjp", "eval_shape", "grad", "hessian", "jacfwd", "jacrev", "jit", "jvp",
    "linear_transpose", "linearize", "value_and_grad", "vjp", "vmap",
)  # fmt: skip
_LAX_IN_DUALAD = (
    "all_gather", "associative_scan", "axis_index", "cond", "custom_linear_solve", "fori_loop", "map", "pmax", "pmean",
    "pmin", "psum", "scan", "stop_gradient", "switch", "while_loop",
)  # fmt: skip
_LAX_IN_NUMPY = {
    **{name: name for name in (
        "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not", "bitwise_or",
        "bitwise_xor", "cbrt", "ceil", "conj", "cos", "cosh", "exp", "exp2", "expm1", "floor", "imag", "log", "log1p",
        "nextafter", "real", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "transpose", "reshape", "squeeze",
    )},
    "add": "add", "div": "divide", "dot": "dot", "eq": "equal", "ge": "greater_equal", "gt": "greater",
    "le": "less_equal", "lt": "less", "max": "maximum", "min": "minimum", "mul": "multiply", "ne": "not_equal",
    "neg": "negative", "pow": "power", "select": "where", "sub": "subtract",
}  # fmt: skip
_TREES = ("flatten", "leaves", "map", "reduce", "structure", "transpose", "unflatten")

JAX = Library(
    {
        "jax": Decision("dualad has no such name"),
        **{f"jax.{name}": f"dualad.{name}" for name in _SAME_IN_DUALAD},
        **{f"jax.lax.{name}": f"dualad.{name}" for name in _LAX_IN_DUALAD},
        **{f"jax.lax.{name}": f"numpy.{new}" for name, new in _LAX_IN_NUMPY.items() if hasattr(np, new)},
        **{f"jax.tree.{name}": f"optree.tree_{name}" for name in _TREES},
        **{f"jax.tree_util.tree_{name}": f"optree.tree_{name}" for name in _TREES},
        "jax.Array": "numpy.ndarray",
        "jax.block_until_ready": Decision("nothing is asynchronous: leave it out"),
        "jax.config": Decision("float64 is what NumPy has by default, and da.debug(nan=True) looks for NaNs"),
        "jax.debug.print": Decision("print(...) works under every transform but jit"),
        "jax.device_get": "numpy.asarray",
        "jax.device_put": "numpy.asarray",
        "jax.experimental.jet.jet": "dualad.jet",
        "jax.experimental.ode.odeint": Decision(
            "dualad.scipy.integrate.odeint is SciPy's: its further arguments are args=(...,)"
        ),
        "jax.flatten_util.ravel_pytree": "dualad.ravel_pytree",
        "jax.lax.custom_root": Decision("da.custom_root(f, x0, solve, args=...) has tangent_solve by keyword"),
        "jax.lax.rsqrt": Decision("1 / np.sqrt(x)"),
        "jax.make_jaxpr": "dualad.make_program",
        "jax.nn.log_softmax": "dualad.scipy.special.log_softmax",
        "jax.nn.logsumexp": "dualad.scipy.special.logsumexp",
        "jax.nn.relu": Decision("np.maximum(x, 0.0)"),
        "jax.nn.sigmoid": "dualad.scipy.special.expit",
        "jax.nn.softmax": Decision("dualad.scipy.special.softmax(x, axis=-1): SciPy's default is all axes"),
        "jax.nn.softplus": Decision("np.logaddexp(x, 0.0)"),
        "jax.numpy": "numpy",
        "jax.pure_callback": Decision("da.wrap(f, jac=...) calls any Python code, with derivatives"),
        "jax.random": Decision("draw outside of the function with np.random.default_rng(seed), whose state is its own"),
        "jax.remat": "dualad.checkpoint",
        "jax.scipy": "dualad.scipy",
        "jax.test_util.check_grads": "dualad.testing.check_grads",
        "jax.tree_util.Partial": "functools.partial",
        "jax.tree_util.register_dataclass": Decision("da.register_dataclass(cls, static=(...,))"),
        "jax.tree_util.register_pytree_node": "dualad.register_node",
    },
    aliases={"jnp": "np", "jsp": "jsp"},
    removed_methods=frozenset({"block_until_ready"}),
)

LIBRARIES = {"autograd": AUTOGRAD, "jax": JAX}
