"""The functions of PyTorch's database of custom functions, under every word over J, V, M and T of length ≤ 3.

Each is given twice, with a custom_jvp and with a custom_vjp rule; values come from raw NumPy, which never sees a
tensor (`wrap`, called once for all lanes or once per lane). A word's number must be that of the plain function. Not
for: errors (`test_custom_rules.py`).
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import dualad as da
from tests.compose.words import WORDS, found
from tests.compose.zoo import Animal, normal, spaced

ARANGE = np.arange(5.0)


def raw(vectorized):
    """Decorate a function that insists on plain arrays."""

    def decorate(f):
        def insisting(*args):
            assert all(isinstance(a, (np.ndarray, np.generic, float)) for a in args), [type(a) for a in args]
            return f(*[np.asarray(a) for a in args])

        insisting.__name__ = f.__name__
        return da.wrap(insisting, vectorized=vectorized)

    return decorate


RAW = {
    "cube": raw(True)(lambda x: (x**3, 3 * x**2)),
    "cube_lane": raw(False)(lambda x: (x**3, 3 * x**2)),
    "mul": raw(False)(lambda x, y: x * y),
    "mul_lanes": raw(True)(lambda x, y: (x[:, None] if y.ndim == 3 else x) * y),
    "sort": raw(False)(lambda x: (np.sort(x, 0), np.argsort(x, 0))),
    "take": raw(False)(lambda x, i: np.take_along_axis(x, i, 0)),
}


def custom(f, rule=None, fwd=None, bwd=None, nondiff_argnums=()):
    """Return f with a rule of one kind."""
    if rule is not None:
        out = da.custom_jvp(f, nondiff_argnums=nondiff_argnums)
        out.defjvp(rule)
    else:
        out = da.custom_vjp(f, nondiff_argnums=nondiff_argnums)
        out.defvjp(fwd, bwd)
    return out


def cubes(name):
    """x ↦ (x³, 3x²), the derivative being an output, so that the rule needs no other function."""
    by_jvp = custom(
        RAW[name], lambda p, t: ((out := by_jvp(p[0])), (t[0] * out[1], 6 * p[0] * t[0])),
    )  # fmt: skip
    by_vjp = custom(
        RAW[name], fwd=lambda x: ((out := by_vjp(x)), (x, out[1])),
        bwd=lambda r, c: (c[0] * r[1] + 6 * r[0] * c[1],),
    )  # fmt: skip
    return lambda np, x: by_jvp(x), lambda np, x: by_vjp(x), lambda np, x: (x**3, 3 * x**2)


def muls(name):
    """Broadcasting (4,) with (3, 4)."""
    by_jvp = custom(RAW[name], lambda p, t: (by_jvp(*p), t[0] * p[1] + p[0] * t[1]))
    by_vjp = custom(RAW[name], fwd=lambda x, y: (by_vjp(x, y), (x, y)), bwd=lambda r, c: ((c * r[1]).sum(0), c * r[0]))
    return lambda np, x, y: by_jvp(x, y), lambda np, x, y: by_vjp(x, y), lambda np, x, y: x * y


def sorts():
    """Sorting with its permutation, an integer output, of which the rule takes the derivative."""
    take = da.custom_vjp(lambda x, i: np.take_along_axis(x, i, 0))
    take.defvjp(lambda x, i: (take(x, i), i), lambda i, c: (np.take_along_axis(c, np.argsort(i, 0), 0), None))

    def rule(p, t):
        value, order = by_jvp(p[0])
        return (value, order), (np.take_along_axis(t[0], order, 0), None)

    by_jvp = custom(RAW["sort"], rule)
    by_vjp = custom(
        RAW["sort"], fwd=lambda x: ((out := by_vjp(x)), out[1]),
        bwd=lambda order, c: (np.take_along_axis(c[0], np.argsort(order, 0), 0),),
    )  # fmt: skip
    weigh = lambda np, pair: pair[0] * ARANGE + pair[0] ** 2
    plain = lambda np, x: weigh(np, (np.sort(x), None))
    return lambda np, x: weigh(np, by_jvp(x)), lambda np, x: weigh(np, by_vjp(x)), plain


def takes():
    """Gathering along an axis: the indices are an integer argument."""
    where = np.array([2, 0, 2, 4])
    by_jvp = custom(RAW["take"], lambda p, t: (by_jvp(*p), np.take_along_axis(t[0], p[1], 0)))

    def backward(r, c):
        index, n = r
        buffer = np.zeros((n,), like=c)
        np.add.at(buffer, index, c)
        return buffer, None

    by_vjp = custom(RAW["take"], fwd=lambda x, i: (by_vjp(x, i), (i, len(x))), bwd=backward)
    return (
        lambda np, x: by_jvp(x, where) ** 2,
        lambda np, x: by_vjp(x, where) ** 2,
        lambda np, x: x[where] ** 2,
    )


def selects():
    """One row, its number being a setting."""
    select = lambda i, x: x[i] * 1.0
    by_jvp = custom(select, lambda i, p, t: (by_jvp(i, *p), t[0][i] * 1.0), nondiff_argnums=0)
    by_vjp = custom(
        select, fwd=lambda i, x: (by_vjp(i, x), x.shape),
        bwd=lambda i, shape, c: (np.stack([c if k == i else np.zeros_like(c) for k in range(shape[0])]),),
        nondiff_argnums=(0,),
    )  # fmt: skip
    return lambda np, x: by_jvp(1, x) ** 3, lambda np, x: by_vjp(1, x) ** 3, lambda np, x: x[1] ** 3


def scales():
    """The identity whose gradient is scaled by 3.14."""
    by_jvp = custom(lambda x: x * 1.0, lambda p, t: (by_jvp(*p), 3.14 * t[0]))
    by_vjp = custom(lambda x: x * 1.0, fwd=lambda x: (by_vjp(x), None), bwd=lambda r, c: (3.14 * c,))
    plain = lambda np, x: np.sin(3.14 * x - da.stop_gradient(2.14 * x))
    return lambda np, x: np.sin(by_jvp(x)), lambda np, x: np.sin(by_vjp(x)), plain


def zeros():
    """A product whose gradient is declared zero, by None and by zeros."""
    by_jvp = custom(lambda x, y: x * y, lambda p, t: (by_jvp(*p), None))
    by_vjp = custom(
        lambda x, y: x * y, fwd=lambda x, y: (by_vjp(x, y), None), bwd=lambda r, c: (None, np.zeros_like(c))
    )
    plain = lambda np, x, y: da.stop_gradient(x * y) * x
    return lambda np, x, y: by_jvp(x, y) * x, lambda np, x, y: by_vjp(x, y) * x, plain


def defaults():
    """A default argument, which the rule sees."""

    def power(x, y=3.0):
        return x**y

    by_jvp = custom(power, lambda p, t: (by_jvp(*p), p[1] * p[0] ** (p[1] - 1) * t[0]))
    by_vjp = custom(
        power, fwd=lambda x, y: (by_vjp(x, y), (x, y)), bwd=lambda r, c: (r[1] * r[0] ** (r[1] - 1) * c, None)
    )
    return lambda np, x: by_jvp(x), lambda np, x: by_vjp(x, y=3.0), lambda np, x: x**3.0


def positive(n):
    return lambda rng: rng.uniform(0.5, 2.0, size=n)


FAMILIES = {
    "numpy_cube": (cubes("cube"), (normal(3),)),
    "cube_generated": (cubes("cube_lane"), (normal(3),)),
    "numpy_mul": (muls("mul"), (normal(4), normal(3, 4))),
    "mul_generated": (muls("mul_lanes"), (normal(4), normal(3, 4))),
    "numpy_sort": (sorts(), (spaced(5),)),
    "numpy_take": (takes(), (normal(5),)),
    "select": (selects(), (normal(3, 2),)),
    "scaled_gradient": (scales(), (normal(3),)),
    "zero_gradients": (zeros(), (normal(3), normal(3))),
    "default_arguments": (defaults(), (positive(3),)),
}


@functools.cache
def plain_number(name: str, word: str) -> float:
    functions, makers = FAMILIES[name]
    return found(name, Animal(functions[2], lambda rng: tuple(m(rng) for m in makers)), word)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("kind", [0, 1], ids=["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_word_of_transforms_agrees_with_the_plain_functions(name: str, kind: int, length: int) -> None:
    functions, makers = FAMILIES[name]
    make = lambda rng: tuple(m(rng) for m in makers)
    failures = []
    for word in WORDS[length]:
        try:
            ours = found(name, Animal(functions[kind], make), word)
            plain = plain_number(name, word.replace("T", ""))
            if not abs(ours - plain) <= 1e-9 * (1 + abs(plain)):
                failures.append(f"{word}: {ours!r}, plain {plain!r}")
        except Exception as error:
            failures.append(f"{word}: {type(error).__name__}: {error}")
    assert not failures, f"{len(failures)} of {len(WORDS[length])} words:\n" + "\n".join(failures[:4])


def test_the_cube_that_does_not_compose() -> None:
    """Its rule is once differentiable: right at first order, an error with its name at second."""

    @da.custom_vjp
    def cube(x):
        return RAW["cube"](x)[0]

    @da.once_differentiable
    def cube_backward(x, ct):
        return (3 * x**2 * ct,)

    cube.defvjp(lambda x: (cube(x), x), cube_backward)
    assert float(da.grad(cube)(2.0)) == 12.0
    np.testing.assert_array_equal(da.vmap(da.grad(cube))(np.array([1.0, 2.0])), [3.0, 12.0])
    for second in (da.grad(da.grad(cube)), da.hessian(cube), da.jacrev(da.jacrev(cube))):
        with pytest.raises(da.errors.RuleMissingError, match="cube_backward"):
            second(2.0)
