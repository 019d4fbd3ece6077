"""Ipopt's callbacks and results: on the solvers themselves where they are installed, and on one of the tests' own.

That one has the solvers' interface, compares every derivative that it is given with differences, in the structure that
it was told first, and then asks SciPy. Not for: derivatives of minima (`test_optimize_minimize.py`).
"""

from __future__ import annotations

import signal
import sys
import types
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as ss

import dualad as da
from dualad.core.aval import Aval
from dualad.core.tracer import Tracer
from dualad.errors import ArgumentError, SparsityError
from dualad.scipy import optimize
from dualad.scipy.closures import Inputs
from dualad.scipy.optimize import ipopt_in_c, nonlinear
from dualad.scipy.optimize.problem import is_jitted

# ── a solver ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Problem:
    """What cyipopt's class of this name does, for problems of a few variables."""

    last: Problem

    def __init__(self, n, m, problem_obj, lb, ub, cl=None, cu=None):
        self.n, self.m, self.back, self.options = n, m, problem_obj, {}
        self.lb, self.ub, self.cl, self.cu = lb, ub, cl, cu
        assert len(lb) == len(ub) == n and (m == 0 or len(cl) == len(cu) == m)
        Problem.last = self

    def add_option(self, name, value):
        assert isinstance(name, str) and isinstance(value, (str, int, float)), (name, value)
        self.options[name] = value

    def matrix(self, name, rows, *at):
        (i, j), data = getattr(self.back, f"{name}structure")(), getattr(self.back, name)(*at)
        assert len(i) == len(j) == len(data)
        return ss.coo_array((data, (i, j)), shape=(rows, self.n)).toarray()

    def compare(self, x):
        """Compare all derivatives with differences."""
        step = 1e-6 * np.eye(self.n)
        across = lambda f: np.stack([(f(x + h) - f(x - h)) / 2e-6 for h in step], axis=-1)
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
        close(self.back.gradient(x), across(self.back.objective))
        v = np.linspace(0.5, 1.5, self.m)
        if self.m:
            close(self.matrix("jacobian", self.m, x), across(self.back.constraints))
        if self.options["hessian_approximation"] == "exact":
            slope = lambda x: 0.7 * self.back.gradient(x) + (v @ self.matrix("jacobian", self.m, x) if self.m else 0)
            i, j = self.back.hessianstructure()
            assert np.all(i >= j)
            lower = self.matrix("hessian", self.n, x, v, 0.7)
            close(lower, np.tril(across(slope)))

    def solve(self, x0, lagrange=(), zl=(), zu=()):
        self.start = lagrange, zl, zu
        self.compare(x0)
        held = []
        if self.m:
            jacobian = lambda x: self.matrix("jacobian", self.m, x)
            held = scipy.optimize.NonlinearConstraint(self.back.constraints, self.cl, self.cu, jac=jacobian)
        steps = []

        def step(x):
            self.back.gradient(x)
            steps.append(x)
            if not self.back.intermediate(0, len(steps), self.back.objective(x), *[0.0] * 8):
                raise StopIteration

        box = scipy.optimize.Bounds(self.lb, self.ub)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", scipy.optimize.OptimizeWarning)
                out = scipy.optimize.minimize(
                    self.back.objective, x0, jac=self.back.gradient, bounds=box, constraints=held, method="SLSQP",
                    callback=step, options={"ftol": 1e-10},
                )  # fmt: skip
            x, status = out.x, 0 if out.success else 2
        except StopIteration:
            x, status = steps[-1], 5
        J = self.matrix("jacobian", self.m, x) if self.m else np.zeros((0, self.n))
        g = self.back.constraints(x) if self.m else np.zeros(0)
        active = [] if not self.m else np.minimum(abs(g - self.cl), abs(g - self.cu)) < 1e-6
        free = (x - self.lb > 1e-6) & (self.ub - x > 1e-6)
        slope, v = self.back.gradient(x), np.zeros(self.m)
        v[active] = np.linalg.lstsq(J[active].T[free], -slope[free])[0]
        left = slope + v @ J
        sides = {
            "mult_x_L": np.where(free, 0, np.maximum(left, 0)),
            "mult_x_U": np.where(free, 0, np.maximum(-left, 0)),
        }
        value = self.back.objective(x)
        return x, {
            "x": x,
            "g": g,
            "obj_val": value,
            "mult_g": v,
            **sides,
            "status": status,
            "status_msg": b"of the tests",
        }


@pytest.fixture(params=["of the tests", "ipopt", "pounce"])
def method(request, monkeypatch):
    """A method, by the solver that is installed for it or by that of the tests."""
    if request.param == "of the tests":
        monkeypatch.setitem(sys.modules, "cyipopt", types.SimpleNamespace(Problem=Problem))
        return "ipopt"
    pytest.importorskip({"ipopt": "cyipopt"}.get(request.param, request.param))
    return request.param


def is_of_the_tests():
    """Whether the solver is that of the tests."""
    return getattr(sys.modules.get("cyipopt"), "Problem", None) is Problem


@pytest.fixture
def own(monkeypatch):
    """The solver of the tests, under the name of Ipopt."""
    monkeypatch.setitem(sys.modules, "cyipopt", types.SimpleNamespace(Problem=Problem))
    return Problem


# ── problems ─────────────────────────────────────────────────────────────────────────────────────────────────────

#: problem 71 of Hock and Schittkowski
HS71 = {
    "fun": lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
    "x0": [1.0, 5.0, 5.0, 1.0],
    "bounds": [(1, 5)] * 4,
    "constraints": [
        {"type": "ineq", "fun": lambda x: np.prod(x) - 25},
        {"type": "eq", "fun": lambda x: np.sum(x**2) - 40},
    ],
}
ANSWER = [1.0, 4.74299963, 3.82114998, 1.37940829]


def stationary(out, constraints):
    """Compare the gradient with what the multipliers make of the constraints' and the bounds'."""
    push = out.lower_multipliers - out.upper_multipliers
    if len(out.multipliers):
        push = push + out.multipliers @ da.jacrev(constraints)(out.x)
    np.testing.assert_allclose(out.jac, push, atol=1e-5)


def test_a_published_problem(method) -> None:
    out = optimize.minimize(**HS71, method=method)
    assert out.success and out.nit > 2 and out.nfev > 2 and isinstance(out.message, str)
    np.testing.assert_allclose(out.x, ANSWER, atol=1e-6)
    np.testing.assert_allclose(out.fun, 17.0140173, atol=1e-6)
    np.testing.assert_allclose(out.constr, 0, atol=1e-6)
    stationary(out, lambda x: np.stack([np.prod(x), np.sum(x**2)]))
    assert out.multipliers[0] > 0  # it is a lower limit that pushes


def test_all_kinds_of_constraints(method) -> None:
    """A band, rows of a sparse matrix, an infinite limit, a constraint without entries, fixed and free variables."""
    n = 6
    A = ss.csr_array(np.eye(n)[1:3] + np.eye(n)[2:4])
    constraints = [
        scipy.optimize.NonlinearConstraint(lambda x: x[1:] * x[:-1], -1.0, [np.inf, 0.5, 0.5, 1.0, np.inf]),
        optimize.LinearConstraint(A, [-np.inf, 0.5], [1.0, np.inf]),
        scipy.optimize.NonlinearConstraint(lambda x: x[:0], 0, 0),
    ]
    bounds = optimize.Bounds([2.0, *[-np.inf] * 4, 0.0], [2.0, *[np.inf] * 4, 0.1])
    fun = lambda x: np.sum((x - 1.5) ** 2) + np.sum(np.cos(x[2:] * x[:-2]))
    x0 = np.array([2.0, 0.2, 0.3, 0.4, 0.5, 0.05])
    out = optimize.minimize(fun, x0, bounds=bounds, constraints=constraints, method=method, tol=1e-9)
    assert out.success
    whole = lambda x: np.concatenate([x[1:] * x[:-1], A @ x])
    free = np.arange(1, n)
    push = out.lower_multipliers - out.upper_multipliers + out.multipliers @ da.jacrev(whole)(out.x)
    np.testing.assert_allclose(da.grad(fun)(out.x)[free], push[free], atol=1e-5)
    c = whole(out.x)
    assert np.all(c[:5] >= -1 - 1e-6) and np.all(c[:5] <= np.array([np.inf, 0.5, 0.5, 1.0, np.inf]) + 1e-6)
    assert c[5] <= 1 + 1e-6 and c[6] >= 0.5 - 1e-6 and np.isclose(out.x[0], 2.0)


def test_constraints_that_are_none_linear_or_redundant(method) -> None:
    """Nothing at all, a matrix between functions, and the same limit twice."""
    fun, x0 = lambda x: np.sum((x - [1.0, 2.0, 3.0]) ** 2), np.zeros(3)
    solve = lambda *held: optimize.minimize(fun, x0, constraints=list(held), method=method, tol=1e-9)
    none = scipy.optimize.NonlinearConstraint(lambda x: x[:0], 0, 0)
    out = solve(none)
    np.testing.assert_allclose(out.x, [1, 2, 3], atol=1e-6)
    assert out.multipliers.shape == (0,)
    square = scipy.optimize.NonlinearConstraint(lambda x: x[:1] ** 2, 0, 0.25)
    line = scipy.optimize.LinearConstraint(np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]), -np.inf, [3.0, 9.0])
    product = {"type": "ineq", "fun": lambda x: x[1] * x[2]}
    out = solve(square, line, product)
    np.testing.assert_allclose(out.x, [0.5, 1, 2], atol=1e-5)
    np.testing.assert_allclose(out.constr, [0.25, 3, 2, 2], atol=1e-5)
    np.testing.assert_allclose(out.multipliers, [-1, -2, 0, 0], atol=1e-4)
    np.testing.assert_allclose(solve(line, none).x, [1, 1, 2], atol=1e-5)
    if not is_of_the_tests():  # for SLSQP that is singular
        equal = scipy.optimize.LinearConstraint(np.ones((1, 3)), 3, 3)
        np.testing.assert_allclose(solve(equal, equal).x, [0, 1, 2], atol=1e-5)


def test_without_constraints_and_with_arguments(method) -> None:
    out = optimize.minimize(lambda x, a: np.sum((x - a) ** 4 + (x - a) ** 2), np.zeros(3), (3.0,), method.upper())
    np.testing.assert_allclose(out.x, 3, atol=1e-5)
    assert out.multipliers.shape == (0,)


def test_a_gradient_that_is_there_is_taken(method) -> None:
    calls = []

    def pair(x):
        calls.append(x)
        return np.sum((x - 1) ** 2), 2 * (x - 1)

    assert np.allclose(optimize.minimize(pair, np.zeros(2), jac=True, method=method).x, 1) and calls
    plain = lambda x: float(np.sum((np.asarray(x) - 1) ** 2))
    given = {"jac": lambda x: 2 * (x - 1), "hess": scipy.optimize.BFGS()}
    assert np.allclose(optimize.minimize(plain, np.zeros(2), **given, method=method).x, 1, atol=1e-5)


def test_derivatives_of_constraints_that_are_there_are_taken(method) -> None:
    calls = set()

    def opaque(name, f):
        def function(*at):
            calls.add(name)
            return f(*[np.asarray(x, float) for x in at])  # of which no tensor knows

        return function

    ball = scipy.optimize.NonlinearConstraint(
        opaque("c", lambda x: np.array([x @ x, x[0] * x[2]])), [-np.inf, 0.1], [2.0, 9.0],
        jac=opaque("jac", lambda x: np.array([2 * x, [x[2], 0, x[0]]])),
        hess=opaque("hess", lambda x, v: ss.csr_array(2 * v[0] * np.eye(3) + v[1] * np.fliplr(np.diag([1.0, 0, 1])))),
    )  # fmt: skip
    line = {"type": "eq", "fun": opaque("l", lambda x: np.array([x[0] - 2 * x[1]])),
            "jac": opaque("l'", lambda x: ss.csr_array([[1.0, -2.0, 0.0]]))}  # fmt: skip
    cost = lambda x: np.sum((x - 2) ** 2) + x[1] ** 3
    known = {
        "jac": opaque("g", lambda x: 2 * (x - 2) + [0, 3 * x[1] ** 2, 0]),
        "hess": opaque("h", lambda x: np.diag([2.0, 2 + 6 * x[1], 2.0])),
    }
    ours = scipy.optimize.NonlinearConstraint(lambda x: x[0] ** 2 + x[1], -np.inf, 1.0)
    plain = [
        {"type": "eq", "fun": lambda x: x[0] - 2 * x[1]},
        scipy.optimize.NonlinearConstraint(lambda x: np.stack([x @ x, x[0] * x[2]]), [-np.inf, 0.1], [2.0, 9.0]),
    ]
    best = optimize.minimize(cost, np.ones(3), constraints=[*plain, ours], method=method, tol=1e-10)
    line |= {"fun": lambda x: x[0] - 2 * x[1]}  # without a second derivative of its own it has to be known
    out = optimize.minimize(
        opaque("f", cost), np.ones(3), constraints=[line, ball, ours], method=method, tol=1e-10, **known
    )
    assert calls >= {"f", "g", "h", "c", "jac", "hess", "l'"}
    np.testing.assert_allclose(out.x, best.x, atol=1e-6)
    np.testing.assert_allclose(out.multipliers, best.multipliers, atol=1e-4)
    moving = scipy.optimize.NonlinearConstraint(
        lambda x: (x - 1) ** 2, 0.1, 9, jac=lambda x: ss.csr_array(np.diag(2 * (x - 1)))
    )
    with pytest.raises(SparsityError, match="other entries than at the start"):
        optimize.minimize(cost, np.array([1.0, 1.5, 1.5]), constraints=moving, method=method)


def test_the_callback_follows_and_stops(method) -> None:
    seen: list = []
    optimize.minimize(**HS71, method=method, callback=lambda xk: seen.append(xk))
    assert len(seen) > 3
    np.testing.assert_allclose(seen[-1], ANSWER, atol=1e-4)

    def stop(intermediate_result):
        assert np.isfinite(intermediate_result.fun) and intermediate_result.x.shape == (4,)
        if intermediate_result.nit == 2:
            raise StopIteration

    out = optimize.minimize(**HS71, method=method, callback=stop)
    assert not out.success and out.nit == 2


def test_errors_and_interrupts(method) -> None:
    def fails(x):
        raise ValueError("mine")

    cost = lambda x: np.sum((x - 1) ** 4)
    later = {} if is_of_the_tests() else {"hess": lambda x: fails(x) if x[0] else 12 * np.eye(2)}
    for given in ({"fun": fails}, {"jac": fails, **later}, later or {"jac": fails}):
        with pytest.raises(ValueError, match="mine"):
            optimize.minimize(**{"fun": cost, **given}, x0=np.zeros(2), method=method)

    pressed = []

    def interrupted(x):
        if len(pressed) == 2:
            raise KeyboardInterrupt
        return 4 * x**3

    given = {"jac": interrupted, "hess": scipy.optimize.BFGS(), "callback": lambda xk: pressed.append(xk)}
    out = optimize.minimize(lambda x: np.sum(x**4), np.array([1.0, 2.0]), method=method, **given)
    assert not out.success and len(pressed) == 2 and np.all(np.isfinite(out.x))


def test_a_point_without_a_value_is_stepped_back_from(method) -> None:
    """NaN, and arithmetic that fails, outside of where the objective is defined."""
    if is_of_the_tests():
        pytest.skip("SLSQP's line search knows no NaN")
    bad = []

    def inverse(x):
        if not bad and np.asarray(x)[0] > 1e3:  # where the first step goes
            bad.append(x)
            raise ZeroDivisionError
        return np.sum(np.log(x) ** 2 + (x - 1) ** 2) - 1e-3 * np.sum(np.sqrt(x))

    with np.errstate(all="ignore"):
        for x0 in (np.array([0.01, 30.0]), np.array([1e-6, 1e-6])):
            out = optimize.minimize(inverse, x0, method=method)
            assert out.success
            np.testing.assert_allclose(out.x, 1, atol=1e-2)
        out = optimize.minimize(lambda x: np.sum(np.log(x)), -np.ones(2), method=method)
    assert not out.success


@pytest.mark.parametrize("name", ["ipopt"])
def test_the_derivative_checker_of_the_solver_finds_nothing(name, capfd) -> None:
    pytest.importorskip("cyipopt")
    n = 12
    held = [
        scipy.optimize.NonlinearConstraint(lambda x: x[1:] * np.sin(x[:-1]) + x[0] ** 3, -1, np.inf),
        scipy.optimize.LinearConstraint(ss.eye_array(n, format="csr")[::3], -5, 5),
        {"type": "eq", "fun": lambda x: np.exp(x[3]) - x[4] ** 2},
    ]
    fun = lambda x: np.sum(x**4) + np.prod(x[:3]) + x[5] * np.tanh(x[-1])
    options = {
        "derivative_test": "second-order",
        "derivative_test_perturbation": 1e-6,
        "print_level": 5,
        "max_iter": 0,
    }
    optimize.minimize(fun, np.linspace(0.3, 1.4, n), method=name, constraints=held, options=options)
    assert "No errors detected by derivative checker" in capfd.readouterr().out


def test_an_interrupt_gives_the_last_iterate(method) -> None:
    """The signal comes while the solver, a callback or a function of the user's runs."""
    for where in range(3):
        seen: list = []

        def follow(xk, where=where, seen=seen):
            seen.append(xk)
            if where == 0 and len(seen) == 3:
                signal.raise_signal(signal.SIGINT)

        def slope(x, where=where, seen=seen):
            if where == 1 and len(seen) == 3:
                signal.raise_signal(signal.SIGINT)
            return 4 * x**3

        def value(x, where=where, seen=seen):
            if where == 2 and len(seen) == 3:
                signal.raise_signal(signal.SIGINT)
            return float(np.sum(np.asarray(x) ** 4))

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            given = {"jac": slope, "hess": scipy.optimize.BFGS(), "callback": follow, "method": method}
            out = optimize.minimize(value, np.array([1.0, 2.0]), **given)
        finally:
            signal.signal(signal.SIGINT, before)
        assert not out.success and np.all(np.isfinite(out.x)) and 0 < np.sum(out.x**4) < 17


def test_the_minimum_is_differentiated(method) -> None:
    def nearest(edge):
        held = optimize.LinearConstraint(ss.csr_array([[1.0, 1.0, 0.0]]), -np.inf, edge)
        return optimize.minimize(
            lambda x: np.sum((x - 3.0) ** 2), np.zeros(3), constraints=held, method=method, tol=1e-10
        ).x

    np.testing.assert_allclose(da.jacfwd(nearest)(2.0), [0.5, 0.5, 0.0], atol=1e-6)


# ── what the solver is told ──────────────────────────────────────────────────────────────────────────────────────


def test_options_and_warm_start(own) -> None:
    first = optimize.minimize(**HS71, method="ipopt", tol=1e-9, options={"maxiter": 50, "disp": True, "mu_init": 0.2})
    given = {
        "max_iter": 50,
        "print_level": 5,
        "mu_init": 0.2,
        "tol": 1e-9,
        "hessian_approximation": "exact",
        "sb": "yes",
    }
    assert own.last.options == given
    optimize.minimize(**{**HS71, "x0": first.x}, method="ipopt", options={"warm_start": first, "mu_init": 1e-4})
    assert own.last.options["warm_start_init_point"] == "yes" and own.last.options["mu_init"] == 1e-4
    lagrange, zl, zu = own.last.start
    np.testing.assert_array_equal(lagrange, -first.multipliers)
    np.testing.assert_array_equal(zl, first.lower_multipliers)
    np.testing.assert_array_equal(zu, first.upper_multipliers)


def test_the_structure_is_sparse_and_of_the_lower_triangle(own) -> None:
    n = 400
    chain = scipy.optimize.NonlinearConstraint(lambda x: x[1:] - x[:-1] ** 2, 0, 0)
    back = None

    class Looks(Problem):
        def solve(self, x0, **start):
            nonlocal back
            back = self.back
            raise ZeroDivisionError

    sys.modules["cyipopt"].Problem = Looks
    with pytest.raises(ZeroDivisionError):
        optimize.minimize(lambda x: np.sum((x - 1) ** 2), np.full(n, 0.5), constraints=chain, method="ipopt")
    assert len(back.jacobianstructure()[0]) == 2 * (n - 1)
    assert len(back.hessianstructure()[0]) == n
    np.testing.assert_allclose(back.hessian(np.ones(n), np.ones(n - 1), 2.0)[:3], 4.0 - 2.0)


def test_a_structure_that_changes_is_an_error(own) -> None:
    def branches(x):
        return x**2 if x[0] > 0.5 else x * np.roll(x, 1)

    held = scipy.optimize.NonlinearConstraint(branches, 0.04, np.inf)
    with pytest.warns(da.errors.PerformanceNote), pytest.raises(SparsityError, match="has changed from one point"):
        optimize.minimize(lambda x: np.sum(x), np.full(40, 1.0), constraints=held, method="ipopt")


@pytest.mark.parametrize("name", ["ipopt", "pounce"])
def test_without_the_solver_the_error_names_the_extra(name, monkeypatch) -> None:
    for module in ("cyipopt", "pounce"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ArgumentError, match=rf"dualad\[{name}\]"):
        optimize.minimize(lambda x: np.sum(x**2), np.zeros(2), method=name)


def test_what_the_function_reads_may_change_while_it_is_minimized(method) -> None:
    goal = [1.0]

    def follow(xk):
        goal[0] = 3.0

    fun = lambda x: np.sum((x - goal[0]) ** 4 + (x - goal[0]) ** 2)
    np.testing.assert_allclose(optimize.minimize(fun, np.full(2, 5.0), method=method, callback=follow).x, 3, atol=1e-5)


# ── what is compiled once ────────────────────────────────────────────────────────────────────────────────────────


def traces(caplog, solve):
    """Return the result of a search, and how many functions were traced for it."""
    caplog.clear()
    with caplog.at_level("INFO", logger="dualad"):
        out = solve()
    return out, sum([r.getMessage().startswith("[DAL001]") for r in caplog.records])


def test_another_start_and_other_numbers_compile_nothing(method, caplog) -> None:
    fun = lambda x, a, power: np.sum(a * (x - 1) ** power) + np.sum(x**2)
    held = {"type": "eq", "fun": lambda x, total: np.sum(x**3, keepdims=True) - total}

    def solve(x0, a, total, power=2, matrix=((1.0, 0.0, 0.0),)):
        line = scipy.optimize.LinearConstraint(np.array(matrix), -np.inf, 5)
        given = {"constraints": [{**held, "args": (total,)}, line], "method": method, "tol": 1e-10}
        return optimize.minimize(fun, x0, (a, power), **given)

    nonlinear._models.clear()  # where another method has left it
    _, first = traces(caplog, lambda: solve(np.full(3, 0.5), np.ones(3), 3.0))
    assert first >= 5
    out, more = traces(
        caplog, lambda: solve(np.full(3, 0.7), np.array([1.0, 1.0, 5.0]), 4.0, matrix=((0.0, 1.0, 0.0),))
    )
    assert more == 0
    np.testing.assert_allclose(np.sum(out.x**3), 4, atol=1e-4)
    np.testing.assert_allclose(np.diff(out.jac / out.x**2), 0, atol=1e-4)
    assert abs(out.x[2] - out.x[0]) > 1e-3
    assert traces(caplog, lambda: solve(np.full(3, 0.5), np.ones(3), 3.0, power=4))[1] > 0
    assert traces(caplog, lambda: solve(np.full(3, 0.5), 2.0, 3.0))[1] > 0


def test_lambdas_that_are_made_again_are_known(method, caplog) -> None:
    aim = np.array([1.0, 2.0, 3.0])

    def solve(total, more=0.0, by=1.0):
        fun = lambda x, total, by=by: by * np.sum((x - aim) ** 2) + 0 * total
        held = {"type": "eq", "fun": lambda x, total: np.sum(x, keepdims=True) - total - more, "args": (total,)}
        return optimize.minimize(fun, np.ones(3), (total,), method=method, constraints=held, tol=1e-10)

    found = [traces(caplog, lambda total=total: solve(total)) for total in (3.0, 9.0)]
    assert [n > 0 for _, n in found] == [True, True]  # ``more`` is another variable at each call
    for given, slope in (((3.0,), -2.0), ((3.0, 3.0), 0.0), ((3.0, 0.0, 5.0), -10.0), ((9.0, 0.0, 7.0), 14.0)):
        np.testing.assert_allclose(solve(*given).jac, np.full(3, slope), atol=1e-4)
    make = lambda: optimize.minimize(lambda x: np.sum((x - aim) ** 4 + (x - aim) ** 2), np.ones(3), method=method)
    assert traces(caplog, make)[1] > 0 == traces(caplog, make)[1]


def test_functions_are_written_down_inside_of_transforms_only() -> None:
    x, given = np.ones(3), []
    f = lambda x, a: (given.append(x), x * a)[1]
    closed = Inputs("here").close(f, [x], (2.0,))
    assert not isinstance(given[0], Tracer) and len(given) == 1 and given[0] is not x
    assert closed.avals == [Aval((3,), np.dtype(float))] and closed.apart([]) == (f, (2.0,))

    def inside(t):
        closed = Inputs("here").close(lambda x: x * t, [x])
        assert closed.captures
        return np.sum(closed([t], x))

    assert da.grad(inside)(2.0) == 3.0
    closed = Inputs("here").close(lambda x: [x] if x[0] > 0 else None, [-x])
    assert closed.avals is None and closed([], x) == [x]


def test_kept_code_follows_what_the_functions_read(method) -> None:
    scale, places = 1.0, np.array([0, 1])

    def fun(x, places, kind):
        return np.sum((x[places] - scale) ** 2) + (np.sum(x**4) if kind > 0.5 else 0.01 * np.sum(x**2))

    class Held:
        limit = 0.1

        def part(self, x):
            return x[2:] - self.limit

    held = Held()
    solve = lambda kind: optimize.minimize(
        fun, np.full(3, 0.4), (places, kind), method, tol=1e-10,
        constraints=scipy.optimize.NonlinearConstraint(held.part, 0, np.inf),
    ).x  # fmt: skip
    np.testing.assert_allclose(solve(0.0), [1 / 1.01, 1 / 1.01, 0.1], atol=1e-5)
    scale, held.limit = 2.0, 0.2
    np.testing.assert_allclose(solve(0.0), [2 / 1.01, 2 / 1.01, 0.2], atol=1e-5)
    assert solve(1.0)[0] < 1  # the number is branched on
    places[1] = 2
    np.testing.assert_allclose(solve(0.0), [2 / 1.01, 0.0, 2 / 1.01], atol=1e-5)


def test_evaluations_run_no_python_and_find_what_cyipopt_finds(monkeypatch) -> None:
    pytest.importorskip("cyipopt")
    made, init = [], ipopt_in_c.InC.__init__
    monkeypatch.setattr(ipopt_in_c.InC, "__init__", lambda self, *a, **k: (made.append(self), init(self, *a, **k))[1])
    a = np.linspace(1.0, 2.0, 6)
    fun = lambda x, p: np.sum((x - a) ** 2 * p) + x[0] * np.exp(x[1])
    bent = optimize.NonlinearConstraint(lambda x: x[1:] * x[:-1] + a[1:], -1.0, 3.0)
    straight = optimize.LinearConstraint(np.ones((1, 6)), 0.0, 4.0)
    for held, is_code in (([bent], True), ([bent, straight], False)):
        solve = lambda held=held: optimize.minimize(
            fun, np.zeros(6), (np.arange(1.0, 7.0),), method="ipopt", constraints=held, options={"tol": 1e-10}
        )  # fmt: skip
        ours, fillers = solve(), made[-1].fillers
        calls = {name: f.calls for name, f in fillers.items()}
        assert calls["objective"] == ours.nfev and calls["gradient"] == ours.njev
        assert all([bool(calls[name]) is is_code for name in ("constraints", "jacobian", "hessian")])
        assert calls["hessian"] in (0, ours.nhev)
        with monkeypatch.context() as patch:
            patch.setattr("dualad.scipy.optimize.ipopt.library_of", lambda package: None)
            theirs = solve()
        assert ours.keys() == theirs.keys() and ours.message == theirs.message
        for name in ("x", "fun", "jac", "constr", "multipliers", "lower_multipliers", "nit", "nfev", "njev", "nhev"):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-12, atol=1e-13)
    with pytest.raises(TypeError):
        made[-1].add_option("max_iter", "many")


def test_a_function_that_returns_another_number_of_constraints_is_seen() -> None:
    pytest.importorskip("cyipopt")
    count = [2]
    held = optimize.NonlinearConstraint(lambda x: x[: count[0]], 1.0, 2.0)
    fun = lambda x: np.sum(x**2)
    for size in (2, 2, 3):
        count[0] = size
        out = optimize.minimize(fun, np.zeros(4), method="ipopt", constraints=held)
        np.testing.assert_allclose(out.x, np.arange(4) < size, atol=1e-7)
        assert len(out.multipliers) == size


def test_constraints_in_an_array_of_numbers_are_compiled(method) -> None:
    given = {"type": "eq", "fun": lambda x: np.array([x[0] * x[1] - 1.0, x[2] ** 2 - x[0]])}
    solve = lambda by, how: by(lambda x: np.sum((x - [2.0, 1.0, 0.5]) ** 2), np.ones(3), constraints=given, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = solve(optimize.minimize, {"method": method, "tol": 1e-10})
    assert is_jitted(nonlinear._models[0].held) and is_jitted(nonlinear._models[0]._matrices["jacobian"].data)
    expected = solve(scipy.optimize.minimize, {"method": "SLSQP", "options": {"ftol": 1e-15}})
    np.testing.assert_allclose(out.x, expected.x, atol=1e-6)
