"""Transforms of functions that can be imported travel, however they are nested, and arrive in a fresh interpreter."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.boundary.transformed import Transformed
from dualad.errors import ConversionError

cloudpickle = pytest.importorskip("cloudpickle", reason="sends functions of scripts: pip install dualad[scale]")

ROOT = Path(__file__).resolve().parents[2]

WEIGHTS = np.array([1.0, -2.0, 0.5])
X = np.array([0.3, 0.7, 1.1])


def loss(x):
    return np.sum(np.sin(x) * WEIGHTS)


def curve(x):
    return np.sin(x) * x[0]


@da.grad
def slope(x):
    return np.sum(x**2)


@da.jacobian
def decorated(x):
    return x**2


@functools.partial(da.sparse_jacobian, format="csr")
def bands(x):
    return x**2


TRANSFORMS = {
    "grad": lambda: da.grad(loss),
    "grad of a keyword": lambda: da.grad(f=loss, argnums=(0,)),
    "value_and_grad": lambda: da.value_and_grad(loss, argnums=0),
    "jacfwd": lambda: da.jacfwd(curve, chunk_size=2),
    "jacrev": lambda: da.jacrev(curve),
    "value_and_jacfwd": lambda: da.value_and_jacfwd(curve),
    "value_and_jacrev": lambda: da.value_and_jacrev(curve),
    "jacobian": lambda: da.jacobian(curve),
    "value_and_jacobian": lambda: da.value_and_jacobian(curve),
    "jacobian of jacobian": lambda: da.jacobian(da.jacobian(curve)),
    "hessian": lambda: da.hessian(loss),
    "value_and_hessian": lambda: da.value_and_hessian(loss),
    "hessian_diag": lambda: da.hessian_diag(loss),
    "laplacian": lambda: da.laplacian(loss),
    "vmap": lambda: da.vmap(loss),
    "checkpoint": lambda: da.grad(da.checkpoint(loss)),
    "lift": lambda: da.lift(loss),
    "make_program": lambda: da.make_program(loss),
    "jit": lambda: da.jit(loss),
    "jit of grad": lambda: da.jit(da.grad(loss)),
    "grad of jit": lambda: da.grad(da.jit(loss)),
    "vmap of grad of vmap": lambda: da.vmap(da.grad(lambda_free), in_axes=(None,)),
    "of NumPy's": lambda: da.grad(np.sum),
    "of a partial": lambda: da.grad(functools.partial(scaled, 2.0)),
    "sparse_jacobian": lambda: da.sparse_jacobian(curve),
    "sparse_hessian": lambda: da.sparse_hessian(loss),
    "a decorated function": lambda: slope,
    "a decorated jacobian": lambda: decorated,
    "a decorated sparse_jacobian": lambda: bands,
    "linear map": lambda: da.linearize(curve, X)[1],
    "pullback": lambda: da.vjp(curve, X)[1],
    "transpose": lambda: da.linear_transpose(lambda v: 2.0 * v, X),
    "program": lambda: da.trace(curve, X),
    "program with a loop": lambda: da.trace(looped, X),
    "an operator": lambda: da.hessian_operator(loss, X).dot,
    "an adjoint": lambda: da.linearize(curve, X)[1].as_linear_operator().rmatvec,
    "an operator on columns": lambda: functools.partial(_columns, da.hessian_operator(loss, X)),
    "a way back": lambda: da.ravel_pytree({"a": X, "n": "name"})[1],
    "a function with a rule elsewhere": lambda: da.grad(with_rule(loss)),
    "a function with a rule for lanes": lambda: da.vmap(with_lanes(lambda_free)),
}


def lambda_free(x):
    return np.sum(da.vmap(np.sin)(x))


def scaled(factor, x):
    return np.sum(factor * x**2)


def looped(x):
    return da.fori_loop(0, 3, _body, x)


def _columns(operator, x):
    return operator @ np.stack([x, 2 * x], 1)


def with_rule(f):
    given = da.custom_jvp(f)
    given.defjvp(_triple)
    return given


def _triple(primals, tangents):
    return loss(*primals), 3.0 * np.sum(*tangents)


def with_lanes(f):
    given = da.custom_vmap(f)
    given.def_vmap(_all_lanes)
    return given


def _all_lanes(size, batched, x):
    return np.sum(np.sin(x), axis=1), True


def _body(i, x):
    return np.sin(x)


def applied(function):
    """Return what a transform gives, as arrays."""
    points = np.stack([X, 2 * X]) if getattr(function, "__name__", "").startswith("vmap") else X
    if "of" in getattr(function, "__name__", ""):
        points = X
    out = function(points)
    if isinstance(out, da.program.ir.Program):
        out = out(X)
    leaves = da.tree.flatten(out)[0]
    return [x.toarray() if hasattr(x, "toarray") else np.asarray(x) for x in leaves]


@pytest.mark.parametrize("pickler", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_comes_back_from_a_pickle(name, pickler) -> None:
    function = TRANSFORMS[name]()
    if name == "vmap of grad of vmap":
        function = da.vmap(da.grad(lambda_free))
    again = pickle.loads(pickler.dumps(function))
    for x, y in zip(applied(function), applied(again), strict=True):
        assert x.dtype == y.dtype and np.array_equal(x, y)


def test_what_was_prepared_travels_with_a_sparse_jacobian() -> None:
    jac = da.sparse_jacobian(curve)
    jac(X)
    again = pickle.loads(pickle.dumps(jac))
    assert again.sparsity == jac.sparsity and again.coloring.count == jac.coloring.count
    assert np.array_equal(again(X).toarray(), jac(X).toarray())


@pytest.mark.parametrize("how", [da.jacobian, da.jacfwd, da.jacrev])
def test_the_jacobian_of_a_jacobian_is_the_second_derivative(how) -> None:
    """The inner one's attributes once took the place of the outer one's, and the second derivative was the first."""
    second = da.jacobian(how(curve))(X)
    assert second.shape == (3, 3, 3)
    eps = 1e-6
    for k, e in enumerate(np.eye(3)):
        difference = (da.jacfwd(curve)(X + eps * e) - da.jacfwd(curve)(X - eps * e)) / (2 * eps)
        np.testing.assert_allclose(second[..., k], difference, atol=1e-8)
    entries = lambda x: np.reshape(how(curve)(x), -1)
    np.testing.assert_allclose(da.sparse_jacobian(entries)(X).toarray(), second.reshape(9, 3))
    flat = da.sparse_jacobian(da.jacobian(lambda x: np.sum(curve(x))))(X).toarray()
    np.testing.assert_allclose(flat, da.hessian(lambda x: np.sum(curve(x)))(X))


def test_a_transformed_function_is_a_method_where_it_stands_in_a_class() -> None:
    class Model:
        def __init__(self, w):
            self.w = w

        def loss(self, x):
            return np.sum(self.w * x**2)

        slope = da.grad(loss, argnums=1)

    assert np.array_equal(Model(3.0).slope(X), 6.0 * X)
    assert isinstance(Model.slope, Transformed)


def test_names_signatures_and_attributes_are_the_functions() -> None:
    def f(x, *, power=2):
        """Say something."""
        return np.sum(x**power)

    f.tag = "mine"
    g = da.grad(f)
    assert (g.__name__, g.__doc__, g.__wrapped__, g.tag) == ("grad(f)", "Say something.", f, "mine")
    assert inspect.signature(g) == inspect.signature(f)
    assert repr(g) == "<grad(f)>" and copy.deepcopy(g) is g and copy.copy(g) is g
    assert np.array_equal(da.grad(g.of(lambda x: np.sum(g.of(np.sum)(x)) + np.sum(x**3)).__wrapped__)(X), 3 * X**2)


def test_a_tensor_in_a_closure_does_not_travel() -> None:
    def outer(x):
        pickle.dumps(da.grad(functools.partial(scaled, x)))

    with pytest.raises(ConversionError, match="stop_gradient"):
        da.jvp(outer, (2.0,), (1.0,))


def test_checkpoint_sees_what_a_transformed_function_closes_over() -> None:
    def f(a):
        inner = da.grad(lambda x: a * x**3)
        return da.checkpoint(lambda x: inner(x) * x)(2.0) + da.checkpoint(inner)(1.0)

    assert da.grad(f)(5.0) == pytest.approx(24.0 + 3.0)


SCRIPT = """
    import dataclasses, sys
    import cloudpickle, numpy as np
    import dualad as da

    scale = np.array([1.0, 2.0])

    @da.register_dataclass
    @dataclasses.dataclass
    class Point:
        a: np.ndarray
        b: float

    @da.custom_jvp
    def ruled(x):
        return x**2

    @ruled.defjvp
    def _(primals, tangents):
        return ruled(primals[0]), 7.0 * tangents[0]

    @da.jit
    def compiled(x):
        return np.sum(np.sin(x) * scale)

    @da.grad
    def decorated(x):
        return np.sum(x**2 * scale)

    def mentions(x):
        return da.numpy.sum(da.stop_gradient(x) * x * scale)

    def closed(factor):
        return lambda x: np.sum(factor * x**2)

    x = np.array([0.5, 1.5])
    things = {
        "mentions": (da.grad(mentions), x),
        "lambda": (da.value_and_grad(lambda x: np.sum(da.numpy.exp(x))), x),
        "closure": (da.hessian(closed(scale)), x),
        "custom": (da.grad(lambda x: np.sum(ruled(x))), x),
        "compiled": (da.grad(compiled), x),
        "decorated": (decorated, x),
        "jacobian": (da.jacobian(da.grad(closed(scale))), x),
        "linear": (da.linearize(lambda p: np.sin(p.a) * p.b, Point(x, 2.0))[1], Point(x, 1.0)),
        "linear through a rule": (da.linearize(lambda x: ruled(x) * da.scipy.special.erf(x), x)[1], x),
        "pullback": (da.vjp(lambda x: np.linalg.inv(x * np.eye(2)), x)[1], np.eye(2)),
        "program": (da.trace(lambda x: da.fori_loop(0, 3, lambda i, y: np.sin(y), x), x), x),
        "special": (da.trace(da.scipy.special.erf, x), x),
        "vmap": (da.vmap(da.grad(closed(2.0))), x),
    }
    results = {name: np.asarray(da.tree.flatten(f(v))[0][-1]) for name, (f, v) in things.items()}
    cloudpickle.dump((things, results), sys.stdout.buffer)
"""

READER = """
    import sys, pickle
    import numpy as np
    things, results = pickle.load(sys.stdin.buffer)
    import dualad as da
    for name, (f, v) in things.items():
        out = np.asarray(da.tree.flatten(f(v))[0][-1])
        assert np.array_equal(out, results[name]), name
    print(len(things))
"""


def test_functions_of_a_script_arrive_in_a_fresh_interpreter() -> None:
    """By cloudpickle: functions that mention ``da``, rules, closures, programs with operators loaded later."""
    run = functools.partial(subprocess.run, cwd=ROOT, capture_output=True, check=False)
    written = run([sys.executable, "-c", textwrap.dedent(SCRIPT)])
    assert written.returncode == 0, written.stderr.decode()
    read = run([sys.executable, "-c", textwrap.dedent(READER)], input=written.stdout)
    assert read.stdout.decode().strip() == "13", read.stderr.decode()


def test_the_same_transform_of_another_function_keeps_its_options() -> None:
    product, quotient = (lambda a, b: a * b), (lambda a, b: a / b)
    assert da.grad(product, 1).of(quotient)(3.0, 2.0) == -0.75
    assert da.grad(f=product, argnums=1).of(quotient)(3.0, 2.0) == -0.75


def test_names_of_a_script_travel_by_name_with_pickle_and_by_value_with_cloudpickle(monkeypatch) -> None:
    script = sys.modules["__main__"]
    made = da.grad(loss)
    for thing in (made, da.custom_jvp(loss)):
        thing.__module__, thing.__qualname__ = "__main__", "made_by_the_script"
        monkeypatch.setattr(script, "made_by_the_script", thing, raising=False)
        assert pickle.loads(pickle.dumps(thing)) is thing
        assert cloudpickle.loads(cloudpickle.dumps(thing)) is not thing
        monkeypatch.delattr(script, "made_by_the_script")
    made.__module__, made.__qualname__ = __name__, "slope"  # a name that something else has
    assert pickle.loads(pickle.dumps(made)) is not slope
    assert cloudpickle.loads(cloudpickle.dumps(slope)) is slope
