"""Derivatives in shapes of incomplete gamma and beta functions, orders of Bessel functions, … as operators.

They have rules of every order. Loaded with ``special.py``. Not for: how they are computed (``incomplete.py``,
``bessel_orders.py``, ``hypergeometric.py``), or the ufuncs that are made of them (``distributions.py``, …).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.aval import Aval, broadcast_shapes, result_dtype
from . import bessel_orders, hypergeometric, incomplete
from .choice import nowhere, where
from .kinds import add_tangents, broadcast_tangent, elementwise, scale
from .samples import Domain, anywhere, between, elementwise_samples, positive

__all__ = [
    "HYPERGEOMETRIC", "NEIGHBOURS", "bessel_order", "beta_density", "beta_integral", "gamma_density", "gamma_integral",
    "of_shapes", "student_shape",
]  # fmt: skip


def of_shapes(name: str, function: Callable, rule: Callable, domains: tuple[Domain, ...], params: Sequence[dict]):
    """Declare a function of entries, computed in double precision; ``rule`` gives its partial derivatives."""

    def impl(*arguments, **params):
        numbers = all([isinstance(x, (int, float)) for x in arguments])  # beside an array they don't widen its dtype
        dtype = np.float64 if numbers else np.result_type(*arguments, np.float32)
        out = function(*arguments, **params)
        return out.astype(np.result_type(dtype, np.complex64) if out.dtype.kind == "c" else dtype)[()]

    def shape(*given, **params):
        dtype = result_dtype(*given)
        is_complex = params.get("kind", "").startswith("hankel")
        return Aval(broadcast_shapes(*given), np.result_type(dtype, np.complex64) if is_complex else dtype)

    def jvp(primals: Sequence, tangents: Sequence, **params) -> tuple:
        out, total = op(*primals, **params), None
        with np.errstate(all="ignore"):
            for partial, t in zip(rule(*primals, **params), tangents, strict=True):
                if t is not None:
                    total = add_tangents(total, scale(t, partial()))
        return out, broadcast_tangent(total, out)

    op = elementwise(
        impl, name=name, abstract_eval=shape, jvp=jvp, kind="special", blocks="entries",
        samples=[(*s, p) for p in params for s in _few(elementwise_samples(*domains))],
    )  # fmt: skip
    return op


def _few(specs: list[tuple]) -> list[tuple]:
    """Return samples without axes, of broadcasting and of an empty axis: third derivatives take seconds each."""
    return [specs[0], specs[2], specs[5]] if len(specs) == 6 else specs


# ── gamma: ∂/∂x of the density f is f (a − 1 − x)/x, from which follow its derivatives in a ───────────────────────


def _gamma_integral_rule(a, x, *, order: int):
    return lambda: gamma_integral(a, x, order=order + 1), lambda: gamma_density(a, x, order=order)


def _gamma_density_rule(a, x, *, order: int):
    def along():
        below = gamma_density(a, x, order=order - 1) if order else 0.0
        origin = x == 0
        if nowhere(origin):
            return ((a - 1 - x) * gamma_density(a, x, order=order) + order * below) / x
        inner = where(origin, 1.0, x)
        out = ((a - 1 - x) * gamma_density(a, inner, order=order) + order * below) / inner
        at = where(a == 1, -1.0, where(a > 1, gamma_density(where(a > 1, a - 1, 1.0), x, order=order), -np.inf))
        return where(origin, at, out)

    return lambda: gamma_density(a, x, order=order + 1), along


_shapes = positive(), positive()
gamma_integral = of_shapes(
    "gamma_integral", incomplete.gamma_integral, _gamma_integral_rule, _shapes, [{"order": 1}, {"order": 2}]
)
gamma_density = of_shapes(
    "gamma_density", incomplete.gamma_density, _gamma_density_rule, _shapes, [{"order": 0}, {"order": 1}]
)


# ── beta ─────────────────────────────────────────────────────────────────────────────────────────────────────────
#
# With f the density in x, in the odds o = x/(1−x), or in log o, it is ∂f/∂x = f ((a−1)/x − (b−1)/(1−x)),
# ∂f/∂o = f (a(1−x) − bx − 1)/o or ∂f/∂o = f (a(1−x) − bx)/o; their derivatives in a and b follow by Leibniz's rule.
#
# Of J(a, b, r) = I at the odds o = ar/b, which the derivative ∂J/∂a holds r fixed in (the mean of t does not move with
# the shapes then, and where they are large nothing cancels), with φ the density in u = log o = log r + log a − log b,
# and φᵤ = ∂φ/∂u:
#
#     Jₐₐ = Iₐₐ + (2φₐ + (φᵤ − φ)/a)/a,  Jₐᵦ = Iₐᵦ + φᵦ/a − φₐ/b − φᵤ/(ab),  Jₐᵣ = (φₐ + φᵤ/a)/r,
#     Jᵦᵦ = Iᵦᵦ − (2φᵦ − (φᵤ + φ)/b)/b,                                       Jᵦᵣ = (φᵦ − φᵤ/b)/r.


def _beta_density_along(a, b, point, i: int, j: int, form: str):
    f = lambda k, r: beta_density(a, b, point, i=k, j=r, form=form)
    left, right = i * f(i - 1, j) if i else 0.0, j * f(i, j - 1) if j else 0.0
    if form == "x":
        y = 1 - point
        return ((a - 1) / point - (b - 1) / y) * f(i, j) + left / point - right / y
    y = 1 / (1 + point)
    x = 1 - y
    return ((a * y - b * x - (form == "odds")) * f(i, j) + y * left - x * right) / point


def _beta_density_rule(a, b, point, *, i: int, j: int, form: str):
    return (
        lambda: beta_density(a, b, point, i=i + 1, j=j, form=form),
        lambda: beta_density(a, b, point, i=i, j=j + 1, form=form),
        lambda: _beta_density_along(a, b, point, i, j, form),
    )


def _beta_integral_rule(a, b, point, *, i: int, j: int, form: str):
    if form != "ratio":
        return (
            lambda: beta_integral(a, b, point, i=i + 1, j=j, form=form),
            lambda: beta_integral(a, b, point, i=i, j=j + 1, form=form),
            lambda: beta_density(a, b, point, i=i, j=j, form=form),
        )
    odds = a * point / b
    second = lambda k, r: beta_integral(a, b, odds, i=k, j=r, form="odds")
    f = lambda k, r: beta_density(a, b, odds, i=k, j=r, form="log")
    steep = lambda: odds * _beta_density_along(a, b, odds, 0, 0, "log")
    mixed = lambda: second(1, 1) + f(0, 1) / a - f(1, 0) / b - steep() / (a * b)
    if i:
        return (
            lambda: second(2, 0) + (2 * f(1, 0) + (steep() - f(0, 0)) / a) / a,
            mixed,
            lambda: (f(1, 0) + steep() / a) / point,
        )
    return (
        mixed,
        lambda: second(0, 2) - (2 * f(0, 1) - (steep() + f(0, 0)) / b) / b,
        lambda: (f(0, 1) - steep() / b) / point,
    )


def _in_order(function: Callable) -> Callable:
    return lambda a, b, point, *, i, j, form: function(a, b, point, (i, j), form)


def _orders(*wanted: tuple[int, int, str]) -> list[dict]:
    return [{"i": i, "j": j, "form": form} for i, j, form in wanted]


_point = positive(), positive(), between(0.1, 0.9)
beta_integral = of_shapes(
    "beta_integral", _in_order(incomplete.beta_integral), _beta_integral_rule, _point,
    _orders((1, 0, "x"), (1, 1, "odds"), (1, 0, "ratio"), (0, 1, "ratio")),
)  # fmt: skip
beta_density = of_shapes(
    "beta_density", _in_order(incomplete.beta_density), _beta_density_rule, _point,
    _orders((0, 0, "x"), (1, 0, "x"), (0, 1, "odds"), (1, 1, "log")),
)  # fmt: skip


# ── Student's t ──────────────────────────────────────────────────────────────────────────────────────────────────
#
# Of T(b, s) = ± I(½, b, x) at s = ±√(x/(1−x)), the density D = ∂T/∂s has ∂D/∂s = −(1 + 2b) D s/(1 + s²).
# F(ν, t) = ½ + ½ T(ν/2, t/√ν), so that ∂F/∂ν = ¼ (Tᵦ − Ds/ν), whose value is had without that difference, has
#
#     ∂²F/∂ν² = ⅛ (Tᵦᵦ − (2Dᵦ − (Dₛ s + 3D)/ν) s/ν),  ∂²F/∂ν∂t = ¼ (Dᵦ − (Dₛ s + D)/ν)/√ν.


def _student_density_along(b, root, order: int):
    below = 2 * order * student_density(b, root, order=order - 1) if order else 0.0
    return -((1 + 2 * b) * student_density(b, root, order=order) + below) * root / (1 + root * root)


def _student_shape_rule(df, t):
    b, root = 0.5 * df, t / np.sqrt(df)
    density, first = student_density(b, root, order=0), student_density(b, root, order=1)
    steep = _student_density_along(b, root, 0) * root
    return (
        lambda: (student_integral(b, root, order=2) - (2 * first - (steep + 3 * density) / df) * root / df) / 8,
        lambda: (first - (steep + density) / df) / (4 * np.sqrt(df)),
    )


student_integral = of_shapes(
    "student_integral", incomplete.student_integral,
    lambda b, root, *, order: (
        lambda: student_integral(b, root, order=order + 1), lambda: student_density(b, root, order=order)
    ),
    (positive(), anywhere()), [{"order": 1}, {"order": 2}],
)  # fmt: skip
student_density = of_shapes(
    "student_density", incomplete.student_density,
    lambda b, root, *, order: (
        lambda: student_density(b, root, order=order + 1), lambda: _student_density_along(b, root, order)
    ),
    (positive(), anywhere()), [{"order": 0}, {"order": 1}],
)  # fmt: skip
student_shape = of_shapes(
    "student_shape", incomplete.student_shape, _student_shape_rule, (positive(), anywhere()), [{}]
)


# ── Bessel functions: the recurrences of ∂f/∂x have constant coefficients, and hold for derivatives in the order ───

#: f → (a, ± 1, c) of ∂f/∂x = a (f(ν − 1) ± f(ν + 1)) + c f, for x > 0
NEIGHBOURS = {
    **dict.fromkeys(("jv", "jve", "yv", "yve", "hankel1", "hankel2"), (0.5, -1, 0)), "iv": (0.5, 1, 0),
    "ive": (0.5, 1, -1), "kv": (-0.5, 1, 0), "kve": (-0.5, 1, 1), "hankel1e": (0.5, -1, -1j), "hankel2e": (0.5, -1, 1j),
}  # fmt: skip


def _bessel_rule(v, x, *, kind: str, order: int):
    half, sign, same = NEIGHBOURS[kind]
    f = lambda v, order=order: bessel_order(v, x, kind=kind, order=order)
    along = lambda: half * (f(v - 1) + sign * f(v + 1))
    return lambda: f(v, order + 1), (lambda: along() + same * f(v)) if same else along


bessel_order = of_shapes(
    "bessel_order", bessel_orders.order_derivative, _bessel_rule, (between(0.4, 2.2), positive()),
    [{"kind": k, "order": n} for k, n in (("jv", 1), ("yv", 2), ("ive", 1), ("kv", 1), ("kve", 2), ("hankel1e", 1))],
)  # fmt: skip


# ── hypergeometric functions, of an order in each parameter and in z ─────────────────────────────────────────────


def _hypergeometric(function: Callable, name: str, *orders: tuple[int, ...]) -> Callable:
    """Declare the derivatives of a function with one parameter fewer than its orders are long."""

    def rule(*given, order: tuple[int, ...]):
        more = lambda i: (*order[:i], order[i] + 1, *order[i + 1 :])
        return [lambda i=i: op(*given, order=more(i)) for i in range(len(given))]

    last = positive() if name == "hyperu" else between(-0.8, 0.8)
    domains = (*[positive()] * (len(orders[0]) - 1), last)
    op = of_shapes(f"{name}_derivative", function, rule, domains, [{"order": n} for n in orders])
    return op


HYPERGEOMETRIC = {
    name: _hypergeometric(hypergeometric.hypergeometric_derivative, name, *orders)
    for name, *orders in (
        ("hyp0f1", (1, 0), (2, 1)), ("hyp1f1", (1, 0, 0), (1, 1, 1)), ("hyp2f1", (0, 1, 0, 0))
    )
}  # fmt: skip
HYPERGEOMETRIC["hyperu"] = _hypergeometric(hypergeometric.tricomi_derivative, "hyperu", (1, 0, 0), (1, 1, 1))
