"""Wrong arguments of every public function: the class of the error, and the words that say what was wrong.

Whatever is wrong is said by an error of the package's own family, or by Python where it is the user's function that
was called wrongly; never by an AttributeError, IndexError or KeyError from inside. Not for: errors of operators
(`test_errors.py`), of rules (`capabilities/test_custom_rules.py`) or of loops (`test_loops.py`).
"""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest

import dualad as da
from dualad.errors import (
    ArgumentError,
    ArgumentTypeError,
    BranchError,
    DtypeError,
    DualadError,
    EscapedTensorError,
    NotLinearError,
    OutputError,
    ShapeError,
    TreeError,
)

X = np.array([1.0, 2.0])
total = lambda x: np.sum(np.sin(x))
nested = lambda x: {"a": [x, (x, {"b": x})]}
keyword_only = lambda x, *, k: x * k


def generator(x):
    yield x


class Foreign:
    """An object that is no number."""


#: what is called -> the error, and a part of its words
TABLE = {
    "jvp: primals": (lambda: da.jvp(np.sin, X, X), ArgumentTypeError, "primals is a ndarray"),
    "jvp: a dict": (lambda: da.jvp(np.sin, {"a": X}, {"a": X}), ArgumentTypeError, "primals is a dict"),
    "jvp: integers": (lambda: da.jvp(np.sin, (1,), (1,)), DtypeError, "int64"),
    "jvp: integer tangent": (lambda: da.jvp(np.sin, (1.0,), (1,)), DtypeError, r"tangents\[0\] has dtype int64"),
    "jvp: text tangent": (lambda: da.jvp(np.sin, (1.0,), ("a",)), DtypeError, r"tangents\[0\]"),
    "jvp: shape": (lambda: da.jvp(np.sin, (X,), (np.ones(3),)), ShapeError, r"\(3,\).*\(2,\)"),
    "jvp: tree": (lambda: da.jvp(np.sin, (X,), (X, X)), TreeError, "tangents has another structure"),
    "jvp: text array": (lambda: da.jvp(np.sin, (np.array(["a"]),), (X,)), DtypeError, "<U1"),
    "jvp: objects": (lambda: da.jvp(np.sin, (np.array([1, "a"], object),), (X,)), ArgumentTypeError, "object array"),
    "jvp: arity": (lambda: da.jvp(lambda x: x, (X, X), (X, X)), TypeError, "takes 1 positional argument but 2"),
    "jvp: keyword": (lambda: da.jvp(keyword_only, (X,), (X,)), TypeError, "'k'"),
    "jvp: generator": (lambda: da.jvp(generator, (X,), (X,)), OutputError, "what a generator yields"),
    "jvp: text out": (lambda: da.jvp(lambda x: "s", (X,), (X,)), OutputError, "'s' of type str at output"),
    "jvp: object out": (lambda: da.jvp(lambda x: Foreign(), (X,), (X,)), OutputError, "of type Foreign"),
    "jvp: has_aux": (lambda: da.jvp(np.sin, (X,), (X,), has_aux=True), OutputError, "has_aux=True"),
    "vjp: no arguments": (lambda: da.vjp(lambda x: x), TypeError, "missing 1 required positional argument"),
    "pull: none": (lambda: da.vjp(np.sin, X)[1](), ArgumentTypeError, "called with no cotangents"),
    "pull: two": (lambda: da.vjp(np.sin, X)[1](X, X), ArgumentTypeError, "called with 2 cotangents"),
    "pull: shape": (lambda: da.vjp(np.sin, X)[1](np.ones(3)), ShapeError, r"\(3,\).*\(2,\)"),
    "pull: list": (lambda: da.vjp(np.sin, X)[1]([1.0, 2.0]), TreeError, "cotangent has another structure"),
    "pull: integers": (lambda: da.vjp(np.sin, X)[1](np.ones(2, int)), DtypeError, "int64"),
    "pull: complex": (lambda: da.vjp(np.sin, X)[1](X * 1j), DtypeError, "complex128"),
    "grad: vector": (lambda: da.grad(np.sin)(X), OutputError, r"shape \(2,\)"),
    "grad: integer": (lambda: da.grad(total)(1), DtypeError, "argument 0 has dtype int64"),
    "grad: text": (lambda: da.grad(total)("a"), ArgumentTypeError, "argument 0 is a str"),
    "grad: None": (lambda: da.grad(total)(None), ArgumentTypeError, "argument 0 is a NoneType"),
    "grad: object": (lambda: da.grad(total)(Foreign()), ArgumentTypeError, "argument 0 is a Foreign"),
    "grad: no arguments": (lambda: da.grad(total)(), ArgumentError, "without positional arguments"),
    "grad: nothing out": (lambda: da.grad(lambda x: None)(X), OutputError, "is there no return"),
    "grad: tree out": (lambda: da.grad(nested)(1.0), OutputError, "returned a dict"),
    "grad: truth out": (lambda: da.grad(lambda x: x > 0)(1.0), OutputError, "dtype bool"),
    "grad: complex": (lambda: da.grad(total)(1j), OutputError, "complex number"),
    "grad: holomorphic": (lambda: da.grad(total, holomorphic=True)(1.0), DtypeError, "holomorphic=True"),
    "argnums: one argument": (lambda: da.hessian(total, 1)(X), ArgumentTypeError, "with 1 positional argument\\."),
    "argnums: text": (lambda: da.grad(total, "x")(X), ArgumentTypeError, "'x' of type str"),
    "argnums: float": (lambda: da.grad(total, 1.0)(X), ArgumentTypeError, "1.0 of type float"),
    "argnums: bool": (lambda: da.grad(total, True)(X), ArgumentTypeError, "True of type bool"),
    "argnums: set": (lambda: da.grad(total, {0})(X), ArgumentTypeError, "set"),
    "argnums: array": (lambda: da.grad(total, np.array([0]))(X), ArgumentTypeError, "ndarray"),
    "argnums: nested": (lambda: da.grad(total, ((0,),))(X), ArgumentTypeError, "tuple"),
    "argnums: too large": (lambda: da.jacfwd(np.sin, 3)(X), ArgumentTypeError, "jacfwd: argnums=3 is out of range"),
    "argnums: too small": (lambda: da.jacrev(np.sin, -3)(X), ArgumentTypeError, "jacrev: argnums=-3 is out of range"),
    "argnums: twice": (lambda: da.grad(total, (0, -1))(X), ArgumentError, "twice"),
    "argnums: empty": (lambda: da.grad(total, ())(X), ArgumentError, "chooses no argument"),
    "argnames: unknown": (lambda: da.grad(total, argnames="y")(x=X), ArgumentError, r"'y'.*\['x'\]"),
    "argnames: number": (lambda: da.grad(total, argnames=3)(x=X), ArgumentTypeError, "argnames=3 of type int"),
    "argnames: numbers": (lambda: da.grad(total, argnames=(3,))(x=X), ArgumentTypeError, "a name is a string"),
    "argnames: twice": (lambda: da.grad(total, argnames=("x", "x"))(x=X), ArgumentError, "twice"),
    "argnames: empty": (lambda: da.grad(total, argnames=())(x=X), ArgumentError, "chooses no argument"),
    "jacfwd: text out": (lambda: da.jacfwd(lambda x: "s")(X), OutputError, "'s'"),
    "jacrev: text out": (lambda: da.jacrev(lambda x: "s")(X), OutputError, "'s'"),
    "jacfwd: integer": (lambda: da.jacfwd(np.sin)(1), DtypeError, "jacfwd: argument 0"),
    "chunk_size: zero": (lambda: da.jacfwd(np.sin, chunk_size=0)(X), ArgumentError, "chunk_size=0"),
    "chunk_size: float": (lambda: da.vmap(np.sin, chunk_size=1.5)(X), ArgumentError, "chunk_size=1.5"),
    "max_memory: negative": (lambda: da.jacrev(np.sin, max_memory=-1)(X), ArgumentError, "max_memory=-1"),
    "jacobian: mode": (lambda: da.jacobian(np.sin, mode="x")(X), ArgumentError, "mode='x'"),
    "hessian_operator: array": (
        lambda: da.hessian_operator(np.sin, X), OutputError, "hessian_operator: the function returned an array"
    ),
    "sparse_hessian: array": (
        lambda: da.sparse_hessian(np.sin)(X), OutputError, "sparse_hessian: the function returned an array"
    ),
    "hessian_sparsity: array": (
        lambda: da.hessian_sparsity(np.sin, X), OutputError, "hessian_sparsity: the function returned an array"
    ),
    "hvp: shape": (lambda: da.hvp(total, X, np.ones(3)), ShapeError, r"hvp: v has shape \(3,\)"),
    "hvp: dtype": (lambda: da.hvp(total, {"a": X}, {"a": X + 1j}), DtypeError, r"hvp: v\['a'\] has dtype complex"),
    "register_dataclass": (lambda: da.register_dataclass(int), ArgumentTypeError, "is no dataclass"),
    "register_node: class": (lambda: da.register_node(3, list, list), ArgumentTypeError, "cls is 3"),
    "register_node: function": (lambda: da.register_node(Exception, 3, list), ArgumentTypeError, "flatten_instance"),
    "register_node: twice": (lambda: da.register_node(dict, list, list), ArgumentError, "trees already"),
    "hvp: tree": (lambda: da.hvp(total, X, (X,)), TreeError, "another structure"),
    "linear map: shape": (lambda: da.linearize(np.sin, X)[1](np.ones(3)), ShapeError, r"\(3,\)"),
    "linear map: arity": (lambda: da.linearize(np.sin, X)[1](X, X), TreeError, "another structure"),
    "transpose: not linear": (lambda: da.linear_transpose(np.sin, X), NotLinearError, "sin"),
    "transpose: affine": (lambda: da.linear_transpose(lambda x: x + 1, X), NotLinearError, "affine"),
    "transpose: constant": (lambda: da.linear_transpose(lambda x: 1.0, X), NotLinearError, "constant"),
    "transpose: integers": (lambda: da.linear_transpose(lambda x: x * 2, 1), DtypeError, "int64"),
    "transpose: two": (lambda: da.linear_transpose(lambda x: x * 2, X)(X, X), ArgumentTypeError, "2 cotangents"),
    "vmap: number": (lambda: da.vmap(np.sin)(1.0), ArgumentError, "0 dimensions"),
    "vmap: nothing": (lambda: da.vmap(np.sin)(None), ArgumentError, "nothing is mapped"),
    "vmap: sizes": (lambda: da.vmap(np.add)(X, np.ones(3)), ArgumentError, "argument 0 has 2, argument 1 has 3"),
    "in_axes: too large": (lambda: da.vmap(np.sin, in_axes=1)(X), ArgumentError, "axis 1 for argument 0"),
    "in_axes: float": (lambda: da.vmap(np.sin, in_axes=1.0)(X), ArgumentTypeError, "1.0 of type float"),
    "in_axes: bool": (lambda: da.vmap(np.sin, in_axes=True)(X), ArgumentTypeError, "True of type bool"),
    "in_axes: None": (lambda: da.vmap(np.sin, in_axes=None)(X), ArgumentError, "nothing is mapped"),
    "in_axes: count": (lambda: da.vmap(np.sin, in_axes=(0, 0))(X), ArgumentError, "has 2 entries"),
    "in_axes: key": (lambda: da.vmap(nested, in_axes=({"b": 0},))({"a": X}), TreeError, "does not fit"),
    "out_axes: too large": (lambda: da.vmap(np.sin, out_axes=5)(X), ArgumentError, "out_axes has axis 5"),
    "out_axes: None": (lambda: da.vmap(np.sin, out_axes=None)(X), ArgumentError, "differs between lanes"),
    "out_axes: tree": (lambda: da.vmap(np.sin, out_axes=(0, 0))(X), TreeError, "does not fit"),
    "axis_size: another": (lambda: da.vmap(np.sin, axis_size=3)(X), ArgumentError, "axis_size has 3"),
    "axis_size: text": (lambda: da.vmap(np.sin, axis_size="a")(X), ArgumentError, "axis_size='a'"),
    "axis_size: negative": (lambda: da.vmap(lambda: 1.0, axis_size=-1)(), ArgumentError, "axis_size=-1"),
    "max_splits: text": (lambda: da.vmap(np.sin, max_splits="a"), ArgumentError, "max_splits='a'"),
    "axis_name: number": (lambda: da.vmap(np.sin, axis_name=3), ArgumentTypeError, "axis_name is 3"),
    "axis_name: twice": (
        lambda: da.vmap(da.vmap(np.sin, axis_name="i"), axis_name="i")(np.ones((2, 2))), ArgumentError, "also the name",
    ),
    "psum: unknown": (
        lambda: da.vmap(lambda x: da.psum(x, "j"), axis_name="i")(X), ArgumentError, "names known are: 'i'",
    ),
    "trace: branch": (lambda: da.trace(lambda x: x if x > 0 else -x, 1.0), BranchError, "truth value"),
    "program: shape": (lambda: da.trace(np.sin, X)(np.ones(3)), ShapeError, r"\(3,\)"),
    "program: text": (lambda: da.trace(np.sin, X)("a"), TreeError, "0 arrays and numbers; it has 1 inputs"),
    "program: keyword": (lambda: da.trace(np.sin, X)(x=X), TreeError, "another structure"),
    "cond: text": (lambda: da.cond("a", np.sin, np.cos, X), DtypeError, "the predicate has dtype"),
    "cond: array": (lambda: da.cond(X > 0, np.sin, np.cos, X), ShapeError, "the predicate has shape"),
    "cond: branch": (lambda: da.cond(True, 1, np.sin, X), ArgumentTypeError, "true_fun is 1 of type int"),
    "switch: function": (lambda: da.switch(0, np.sin, X), ArgumentTypeError, "branches is a ufunc"),
    "switch: branch": (lambda: da.switch(0, [np.sin, 1], X), ArgumentTypeError, "branch 1 is 1 of type int"),
    "switch: float": (lambda: da.switch(0.5, [np.sin], X), DtypeError, "float64"),
    "fori_loop: float": (lambda: da.fori_loop(0.0, 3, lambda i, c: c, 1.0), DtypeError, "lower has dtype float64"),
    "scan: length": (lambda: da.scan(lambda c, x: (c, x), 1.0, None, length="a"), ArgumentError, "length='a'"),
    "scan: negative": (lambda: da.scan(lambda c, x: (c, x), 1.0, None, length=-1), ArgumentError, "length=-1"),
    "associative_scan: axis": (lambda: da.associative_scan(np.add, X, axis="a"), ArgumentTypeError, "axis='a'"),
    "custom_root: solution": (lambda: da.custom_root(np.sin, 1.0, lambda f, x: "a"), TreeError, "returned a str"),
    "fixed_point: tree": (lambda: da.fixed_point(lambda x: None, 1.0), TreeError, "returned None"),
    "fixed_point: tolerance": (lambda: da.fixed_point(np.cos, 1.0, tolerance="a"), ArgumentTypeError, "tolerance='a'"),
    "linear_call: nothing": (
        lambda: da.jvp(lambda x: da.linear_call(lambda r, v: None, None, X, x), (X,), (X,)), OutputError, "no array",
    ),
    "checkpoint: static": (
        lambda: da.grad(da.checkpoint(total, static_argnums="a"))(X), ArgumentTypeError, "static_argnums holds 'a'",
    ),
    "wrap: Jacobian's shape": (
        lambda: da.jacfwd(da.wrap(lambda x: x * 2, jac=lambda x: np.ones(3)))(X), ShapeError, r"expected shape",
    ),
    "wrap: Jacobian is None": (
        lambda: da.jacfwd(da.wrap(lambda x: x * 2, jac=lambda x: None))(X), ShapeError, "returned None",
    ),
    "make_dual: level": (lambda: da.make_dual(X, X, level="a"), ArgumentTypeError, "level is 'a'"),
    "make_dual: no level": (lambda: da.make_dual(X, X), ArgumentError, r"outside of any dual_level"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_wrong_input_is_refused_in_words(name: str) -> None:
    call, error, words = TABLE[name]
    with pytest.raises(error, match=words) as caught:
        call()
    if error is not TypeError:
        e = caught.value
        assert isinstance(e, DualadError) and e.what and e.instead, e


#: every public function that takes functions, with the place of one
TAKE_FUNCTIONS = {
    **{name: lambda f, name=name: getattr(da, name)(f) for name in (
        "grad", "value_and_grad", "jacfwd", "jacrev", "value_and_jacfwd", "value_and_jacrev", "jacobian", "hessian",
        "value_and_hessian", "hessian_diag", "laplacian", "vmap", "checkpoint", "custom_jvp", "custom_vjp",
        "custom_vmap", "once_differentiable", "wrap", "lift",
    )},
    "jvp": lambda f: da.jvp(f, (X,), (X,)),
    **{name: lambda f, name=name: getattr(da, name)(f, X) for name in (
        "vjp", "linearize", "linear_transpose", "trace", "map", "associative_scan", "hessian_operator", "fixed_point",
    )},
    **{name: lambda f, name=name: getattr(da, name)(f, X, X) for name in ("hvp", "value_and_hvp", "scan")},
    "cond": lambda f: da.cond(True, f, f),
    "switch": lambda f: da.switch(0, [f]),
    "while_loop": lambda f: da.while_loop(f, f, X),
    "fori_loop": lambda f: da.fori_loop(0, 1, f, X),
    "custom_root": lambda f: da.custom_root(f, X, np.sin),
    "custom_linear_solve": lambda f: da.custom_linear_solve(f, X, np.sin),
    "linear_call": lambda f: da.linear_call(f, None, X, X),
    "grad_hook": lambda f: da.grad_hook(X, f),
    "residual_hooks": lambda f: da.residual_hooks(f, f).__enter__(),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKE_FUNCTIONS)
def test_what_is_no_function_is_refused_at_once(name: str) -> None:
    for wrong in ("f", None, 3, X):
        with pytest.raises(ArgumentTypeError) as caught:
            TAKE_FUNCTIONS[name](wrong)
        assert caught.value.instead


# ── what is unusual and right ────────────────────────────────────────────────────────────────────────────────────


class Scale:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x):
        return self.by * x * x

    def method(self, x):
        return self(x) + x


@pytest.mark.parametrize(
    ("f", "slope"),
    [
        (Scale(2.0), 12.0),
        (Scale(2.0).method, 13.0),
        (functools.partial(lambda a, x: a * x, 5.0), 5.0),
        (lambda x, power=3: x**power, 27.0),
        (lambda x, *rest, scale=2.0, **more: x * scale, 2.0),
        (np.square, 6.0),
        (da.lift(Scale(2.0)), 12.0),
    ],
)
def test_anything_that_can_be_called(f, slope: float) -> None:
    assert da.grad(f)(3.0) == slope
    assert da.jvp(f, (3.0,), (1.0,))[1] == slope
    np.testing.assert_array_equal(da.vmap(da.grad(f))(np.array([3.0])), [slope])
    assert da.trace(da.grad(f), 3.0)(3.0) == slope


def test_recursion_and_nested_results() -> None:
    def power(x, n):
        return x * power(x, n - 1) if n else 1.0

    assert da.grad(power)(2.0, 10) == 10 * 2.0**9
    blocks = da.jacrev(nested)(2.0)
    assert blocks["a"][1][1]["b"] == 1.0
    assert da.jacrev(lambda x: None)(X) is None and da.jacfwd(lambda x: None)(X) is None
    assert da.grad(keyword_only)(2.0, k=3.0) == 3.0


def test_no_lanes() -> None:
    none = np.ones((0, 3))
    assert da.vmap(np.sum)(none).shape == (0,)
    assert da.vmap(da.grad(total))(none).shape == (0, 3)
    assert da.vmap(da.jacfwd(np.sin))(none).shape == (0, 3, 3)
    assert da.vmap(lambda x: x if x.sum() > 0 else -x)(none).shape == (0, 3)


def test_a_pullback_and_a_linear_map_anywhere() -> None:
    """Called again, in another thread, inside another transform; never after the transform they hold tensors of."""
    _, pull = da.vjp(lambda x: x * x, X)
    _, lin = da.linearize(lambda x: x * x, X)
    found: list = []
    threads = [threading.Thread(target=lambda: found.append((pull(X)[0], lin(X)))) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for back, out in found:
        np.testing.assert_array_equal(back, 2 * X * X)
        np.testing.assert_array_equal(out, 2 * X * X)
    np.testing.assert_array_equal(da.jacfwd(lambda c: pull(c)[0])(X), np.diag(2 * X))
    np.testing.assert_array_equal(da.jacrev(lin)(X), np.diag(2 * X))
    np.testing.assert_array_equal(da.vmap(lambda c: pull(c)[0])(np.eye(2)), np.diag(2 * X))
    np.testing.assert_array_equal(da.trace(lin, X)(X), 2 * X * X)
    kept = []
    da.jvp(lambda x: (kept.append(da.vjp(np.sin, x)[1]), x)[1], (X,), (X,))
    with pytest.raises(EscapedTensorError):
        np.asarray(kept[0](X)[0] * 1.0)
