"""SciPy's own solvers called with traced values: each is refused in words that name what to write.

Not for: what `dualad.scipy.optimize` itself refuses.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.optimize as so

import dualad as da
from dualad.errors import ConversionError
from dualad.scipy import optimize

ONE, TWO, BOX = np.ones(1), np.ones(2), [(0.0, 1.0)]


def cubes(a):
    return lambda x: x**3 - a


def squares(a):
    return lambda x: np.sum((x - a) ** 2)


CALLS = {
    "root": lambda a: so.root(cubes(a), TWO).x,
    "fsolve": lambda a: so.fsolve(lambda x, a: x**3 - a, TWO, args=(a,)),
    "brentq": lambda a: so.brentq(cubes(a), 0.0, 5.0),
    "bisect": lambda a: so.bisect(cubes(a), 0.0, 5.0),
    "toms748": lambda a: so.toms748(cubes(a), 0.0, 5.0),
    "newton_krylov": lambda a: so.newton_krylov(cubes(a), TWO),
    "broyden1": lambda a: so.broyden1(cubes(a), TWO),
    "fixed_point": lambda a: so.fixed_point(lambda x: np.cos(a * x), 1.0),
    "minimize": lambda a: so.minimize(squares(a), TWO).x,
    "differential_evolution": lambda a: so.differential_evolution(squares(a), BOX).x,
    "shgo": lambda a: so.shgo(squares(a), BOX).x,
    "least_squares": lambda a: so.least_squares(lambda x: x - a, TWO).x,
    "leastsq": lambda a: so.leastsq(lambda x: x - a, TWO)[0],
    "curve_fit": lambda a: so.curve_fit(lambda t, b: a * b * t, np.arange(4.0), np.arange(4.0))[0],
    "linprog": lambda a: so.linprog(TWO * a, -np.eye(2), -TWO).fun,
    "lsq_linear": lambda a: so.lsq_linear(np.eye(2) * a, TWO).x,
    "nnls": lambda a: so.nnls(np.eye(2) * a, TWO)[0],
    "linear_sum_assignment": lambda a: so.linear_sum_assignment(np.eye(2) * a)[0],
    "LinearConstraint": lambda a: so.LinearConstraint([[a, 1.0]], 1.0, 1.0).A,
}


@pytest.mark.plain
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap"])
def test_solvers_are_named(name, transform) -> None:
    f = lambda a: np.sum(CALLS[name](a))
    run = {
        "grad": lambda: da.grad(f)(2.0),
        "jvp": lambda: da.jvp(f, (2.0,), (1.0,)),
        "vmap": lambda: da.vmap(f)(np.array([2.0, 2.0])),
    }[transform]
    with np.errstate(all="ignore"), pytest.raises(ConversionError, match=rf"dualad\.scipy\.optimize\.{name}\b"):
        run()


@pytest.mark.plain
def test_a_solver_that_chooses_another_is_named() -> None:
    with pytest.raises(ConversionError, match=r"dualad\.scipy\.optimize\.(root_scalar|brentq)"):
        da.grad(lambda a: so.root_scalar(cubes(a), bracket=[0.0, 5.0]).root)(2.0)


@pytest.mark.plain
@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda a: so.fmin(squares(a), TWO, disp=False)[0], "minimize.*Nelder-Mead"),
        (lambda a: so.fmin_bfgs(squares(a), TWO, disp=False)[0], "minimize.*BFGS"),
        (lambda a: so.brute(squares(a), BOX)[0], "differential_evolution"),
        (lambda a: so.direct(squares(a), BOX).fun, "differential_evolution"),
        (lambda a: so.milp(np.stack([a, a])).fun, "linprog"),
    ],
)
def test_what_has_no_version_says_what_does_the_same(call, instead) -> None:
    with pytest.raises(ConversionError, match=instead):
        da.grad(call)(2.0)


def test_errors_that_have_other_reasons_stay_as_they_are() -> None:
    with pytest.raises(ValueError, match="different signs"):
        da.grad(lambda a: a * so.brentq(lambda x: x**2 + 1, 0.0, 1.0))(1.0)

    def broken(x):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        da.grad(lambda a: a * so.minimize(broken, TWO).fun)(1.0)
    with pytest.raises(Exception, match="proper array of floats") as caught:
        da.grad(lambda a: a * so.fsolve(lambda x: "no number", 1.0)[0])(1.0)
    assert not isinstance(caught.value, ConversionError)


def test_derivatives_that_lose_what_they_read() -> None:
    """The Hessian of the user's does not depend on `a`, and yet reads it: in a program it is found in the transform."""

    def f(a):
        cost = lambda x: np.sum((x - a) ** 2) + np.sum(x**4)
        out = optimize.minimize(
            cost, np.zeros(2), method="Newton-CG", jac=da.grad(cost), hess=da.hessian(cost), tol=1e-12
        )
        return out.x

    a = np.array([1.0, 2.0])
    expected = np.diag(2 / (2 + 12 * f(a) ** 2))
    np.testing.assert_allclose(da.jacfwd(f)(a), expected, rtol=1e-7)
    np.testing.assert_allclose(da.jit(da.jacfwd(f))(a), expected, rtol=1e-7)


@pytest.mark.parametrize("name", ["brentq", "toms748", "fmin", "fmin_bfgs", "least_squares", "dual_annealing"])
def test_help_shows_the_parameters_of_scipy(name):
    theirs, ours = (list(inspect.signature(getattr(room, name)).parameters) for room in (so, optimize))
    assert ours == [*theirs, "require_success", "tangent_solve", "progress"]
