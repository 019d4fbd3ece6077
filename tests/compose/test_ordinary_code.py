"""Numerical code as people write it, with writes, loops and branches, under every transform.

The functions below know nothing of dualad. Values are held against NumPy's own answer, derivatives against closed
forms or central differences of the plain runs. Not for: single kinds of writes (tests/surface/test_writing.py).
"""

import numpy as np
import pytest

import dualad as da
from tests.oracles import differences

pytestmark = pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
RNG = np.random.default_rng(5)


# ── the programs ─────────────────────────────────────────────────────────────────────────────────────────────────


def conjugate_gradients(matrix, right_side):
    """Solve by conjugate gradients, each column of the answer written in place."""
    solutions = np.zeros_like(matrix @ right_side)
    for column in range(right_side.shape[1]):
        x = np.zeros_like(solutions[:, column])
        residual = right_side[:, column] - matrix @ x
        direction = residual.copy()
        energy = residual @ residual
        for _ in range(matrix.shape[0]):
            image = matrix @ direction
            step = energy / (direction @ image)
            x += step * direction
            residual -= step * image
            energy, before = residual @ residual, energy
            direction *= energy / before
            direction += residual
        solutions[:, column] = x
    return solutions


def pendulum(start, steps=40, dt=0.05):
    """Angle and speed of a damped pendulum by Heun's method, in arrays of their history."""
    history = np.zeros((steps + 1, 2), like=start)
    slopes = np.empty_like(history[:2])
    history[0] = start
    for n in range(steps):
        state = history[n]
        slopes[0, 0], slopes[0, 1] = state[1], -np.sin(state[0]) - 0.1 * state[1]
        guess = state + dt * slopes[0]
        slopes[1, 0], slopes[1, 1] = guess[1], -np.sin(guess[0]) - 0.1 * guess[1]
        history[n + 1] = state + 0.5 * dt * slopes.sum(axis=0)
    return history


def lu(matrix):
    """Doolittle's factorization without pivoting: both factors in one array, written with slices."""
    a = matrix.copy()
    n = len(a)
    for k in range(n - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] += -a[k + 1 :, k, np.newaxis] * a[np.newaxis, k, k + 1 :]
    return a


def determinant(matrix):
    return np.prod(np.diagonal(lu(matrix)))


class BatchNorm:
    """Normalization with running statistics, which `__call__` updates in place."""

    def __init__(self, features, like):
        self.mean = np.zeros(features, like=like)
        self.variance = np.ones(features, like=like)

    def __call__(self, x, momentum=0.2):
        mean, variance = x.mean(axis=0), x.var(axis=0)
        self.mean *= 1 - momentum
        self.mean += momentum * mean
        self.variance[...] = (1 - momentum) * self.variance + momentum * variance
        return (x - mean) / np.sqrt(variance + 1e-3)


def normalized(batches):
    layer = BatchNorm(batches.shape[-1], like=batches)
    outputs = [layer(batch) for batch in batches]
    return np.concatenate(outputs) + (outputs[-1][0] - layer.mean) / np.sqrt(layer.variance)


def newton_root(c):
    """The real root of x³ + x = c: iterated until it converges, however long that takes."""
    x = c / (1.0 + abs(c))
    while abs(x**3 + x - c) > 1e-13 * (1.0 + abs(c)):
        x = x - (x**3 + x - c) / (3 * x**2 + 1)
    return x - (x**3 + x - c) / (3 * x**2 + 1)  # the last step carries the derivative also where the first converged


def bisection(c, low=-4.0, high=4.0):
    """A root of x³ + x = c by halving, polished by two steps of Newton's method (halving carries no derivative)."""
    low, high = low + 0 * c, high + 0 * c
    for _ in range(8):
        middle = (low + high) / 2
        if middle**3 + middle > c:
            high = middle
        else:
            low = middle
    x = da.stop_gradient((low + high) / 2)
    for _ in range(4):
        x = x - (x**3 + x - c) / (3 * x**2 + 1)
    return x


# ── inputs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def spd(n):
    a = RNG.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


MATRIX = spd(4)
SIDES = RNG.normal(size=(4, 2))
START = np.array([1.0, 0.3])
BATCHES = RNG.normal(size=(2, 4, 3))

PROGRAMS = {
    "CG, of the matrix": (lambda a: conjugate_gradients(a, SIDES), MATRIX),
    "CG, of the right sides": (lambda b: conjugate_gradients(MATRIX, b), SIDES),
    "ODE with history": (lambda s: pendulum(s, 12), START),
    "LU": (lu, MATRIX),
    "batch norm": (normalized, BATCHES),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_under_every_transform(name):
    f, x = PROGRAMS[name]
    before = x.copy()
    value = f(x)
    t = np.cos(np.arange(float(x.size))).reshape(x.shape)

    primal, tangent = da.jvp(f, (x,), (t,))
    np.testing.assert_allclose(primal, value, rtol=1e-12)
    differences.compare(tangent, differences.along(f, (x,), (t,)), name)

    forward, backward = da.jacfwd(f)(x), da.jacrev(f)(x)
    np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(np.tensordot(forward, t, t.ndim), tangent, rtol=1e-9, atol=1e-11)

    batch = np.stack([x, 1.1 * x, x + 0.01 * t])
    np.testing.assert_allclose(da.vmap(f)(batch), [f(row) for row in batch], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        da.vmap(da.jacrev(f))(batch), [da.jacrev(f)(row) for row in batch], rtol=1e-8, atol=1e-10
    )
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives(name):
    f, x = PROGRAMS[name]
    scalar = lambda x: np.sum(np.sin(f(x)))
    v = np.sin(np.arange(float(x.size))).reshape(x.shape)
    step = 1e-5
    numeric = (da.grad(scalar)(x + step * v) - da.grad(scalar)(x - step * v)) / (2 * step)
    product = np.tensordot(da.hessian(scalar)(x), v, v.ndim)
    np.testing.assert_allclose(product, numeric, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(da.hvp(scalar, x, v), product, rtol=1e-8, atol=1e-9)


def test_cg_is_a_solve_with_its_closed_form():
    solution = conjugate_gradients(MATRIX, SIDES)
    np.testing.assert_allclose(solution, np.linalg.solve(MATRIX, SIDES))
    weights = np.ones_like(SIDES)
    # The method presupposes a symmetric matrix, and only among those is its result the solution.
    gradient = da.grad(lambda a: np.sum(weights * conjugate_gradients((a + a.T) / 2, SIDES)))(MATRIX)
    closed = -np.linalg.solve(MATRIX.T, weights) @ solution.T
    np.testing.assert_allclose(gradient, (closed + closed.T) / 2, rtol=1e-6, atol=1e-9)
    inverse = da.jacfwd(lambda b: conjugate_gradients(MATRIX, b[:, np.newaxis])[:, 0])(SIDES[:, 0])
    np.testing.assert_allclose(inverse, np.linalg.inv(MATRIX), rtol=1e-7, atol=1e-10)


def test_lu_gives_the_determinant_and_its_closed_form():
    assert determinant(MATRIX) == pytest.approx(np.linalg.det(MATRIX))
    inverse = np.linalg.inv(MATRIX)
    np.testing.assert_allclose(da.grad(determinant)(MATRIX), np.linalg.det(MATRIX) * inverse.T)
    # ∂² det / ∂a_ij ∂a_kl = det (B_ji B_lk − B_li B_jk), with B the inverse
    second = np.einsum("ji,lk->ijkl", inverse, inverse) - np.einsum("li,jk->ijkl", inverse, inverse)
    np.testing.assert_allclose(da.hessian(determinant)(MATRIX), np.linalg.det(MATRIX) * second, rtol=1e-8, atol=1e-8)
    both = np.stack([MATRIX, MATRIX.T + np.eye(4)])
    np.testing.assert_allclose(
        da.vmap(da.grad(lambda a: np.log(determinant(a))))(both), np.linalg.inv(both).swapaxes(1, 2), rtol=1e-9
    )


def test_an_initial_value_in_history_arrays():
    jacobian = da.jacfwd(pendulum)(START)
    np.testing.assert_array_equal(jacobian[0], np.eye(2))
    # Liouville's formula: the determinant of the flow decays with the trace of the vector field's Jacobian.
    assert np.linalg.det(jacobian[-1]) == pytest.approx(np.exp(-0.1 * 40 * 0.05), rel=1e-3)


ROOTS = np.array([0.0, 0.3, -2.0, 10.0, 40.0])


@pytest.mark.parametrize("f", [newton_root, bisection])
def test_data_dependent_iterations(f):
    """x³ + x = c has x' = 1 / (3x² + 1) and x'' = -6x x'³; the lanes take different ways there."""
    x = np.array([np.real(r[np.argmin(abs(np.imag(r)))]) for r in (np.roots([1, 0, 1, -c]) for c in ROOTS)])
    first = 1 / (3 * x**2 + 1)
    second = -6 * x * first**3
    np.testing.assert_allclose([f(c) for c in ROOTS], x, atol=1e-12)
    np.testing.assert_allclose([da.grad(f)(c) for c in ROOTS], first, rtol=1e-9)
    np.testing.assert_allclose([da.hessian(f)(c) for c in ROOTS], second, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(da.vmap(f)(ROOTS), x, atol=1e-12)
    np.testing.assert_allclose(da.vmap(da.grad(f))(ROOTS), first, rtol=1e-9)
    np.testing.assert_allclose(da.vmap(da.hessian(f))(ROOTS), second, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(da.grad(lambda c: np.sum(da.vmap(f)(c)))(ROOTS), first, rtol=1e-9)
    np.testing.assert_allclose(da.jacfwd(da.vmap(f))(ROOTS), np.diag(first), rtol=1e-9)
    table = np.stack([ROOTS, -ROOTS])
    np.testing.assert_allclose(da.vmap(da.vmap(da.grad(f)))(table), [first, first], rtol=1e-9)
