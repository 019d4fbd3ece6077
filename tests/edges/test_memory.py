"""View or copy, as NumPy decides it: random programs on arrays of every layout, and what each function may return.

The oracle is NumPy's own run of the same program; of the derivatives, its central differences. Not for: what leaves a
transform (test_passed_out.py).
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import dualad as da
import dualad.numpy as dnp
from tests.edges.memory_programs import LAYOUTS, MAKERS, program, run, write

V = np.array([0.7, -1.2, 1.5, 0.3, 0.9, -0.4])
T = np.cos(1.0 + np.arange(6.0))
H = 1e-6


# ── one function at a time ───────────────────────────────────────────────────────────────────────────────────────

COPIES = {
    "ravel of every other entry": lambda a: a.reshape(-1)[::2].ravel(),
    "ravel of a column": lambda a: a[:, 0].ravel(),
    "ravel backwards": lambda a: a[0][::-1].ravel(),
    "ravel of a diagonal": lambda a: np.diagonal(a).ravel(),
    "ravel of a narrow block": lambda a: a[:, :1].ravel(),
    "ravel in Fortran's order": lambda a: a.ravel("F"),
    "reshape with copy=True": lambda a: np.reshape(a, (6,), copy=True),
    "the same shape with copy=True": lambda a: a.reshape(a.shape, copy=True),
    "of the transpose": lambda a: a.T.reshape(6),
    "of a product in Fortran's order": lambda a: (a.T * 1.0).reshape(6),
    "ascontiguousarray of the transpose": lambda a: dnp.ascontiguousarray(a.T),
    "asfortranarray": lambda a: dnp.asfortranarray(a),
    "require": lambda a: dnp.require(a, requirements="F"),
    "astype in another order": lambda a: a.astype(float, order="F", copy=False),
    "array": lambda a: dnp.array(a),
    "asarray in another order": lambda a: np.asarray(a, order="F", like=a),
    "flatten": lambda a: a.flatten(),
}
VIEWS = {
    "reshape of a column": lambda a: a[:, 0].reshape(1, 2),
    "the same shape": lambda a: a[:, ::-1].reshape(a.shape),
    "ravel of rows": lambda a: a[1:].ravel(),
    "ravel of the transpose, in Fortran's order": lambda a: a.T.ravel("F"),
    "of the transpose, in Fortran's order": lambda a: a.T.reshape(6, order="F"),
    "ascontiguousarray of what is": lambda a: dnp.ascontiguousarray(a),
    "asfortranarray of the transpose": lambda a: dnp.asfortranarray(a.T),
    "array with copy=None": lambda a: dnp.array(a, copy=None, ndmin=3),
    "require of what is": lambda a: dnp.require(a, requirements="C"),
    "astype in the same order": lambda a: a.astype(float, order="C", copy=False),
    "squeeze": lambda a: a[None, :, None].squeeze(),
}


@pytest.mark.parametrize("name", [*COPIES, *VIEWS])
def test_view_or_copy(name):
    function = (COPIES | VIEWS)[name]

    def f(x):
        a = np.copy(x)
        b = function(a)
        a *= 10.0
        return np.sum(b) if b.ndim else b

    x = V.reshape(2, 3)
    total = np.sum(function(x))
    expected = total if name in COPIES else 10 * total
    assert f(x) == pytest.approx(expected)
    assert da.jvp(f, (x,), (x,)) == pytest.approx((expected, expected))
    assert da.grad(f)(x).sum() == pytest.approx((1 if name in COPIES else 10) * function(x).size)
    np.testing.assert_allclose(da.vmap(f)(np.stack([x, 2 * x])), [expected, 2 * expected])
    assert da.trace(f, x)(x) == pytest.approx(expected)


def test_what_can_be_no_view_is_refused():
    x = V.reshape(2, 3)
    for g in (lambda a: a.T.reshape(6, copy=False), lambda a: dnp.array(a.T, order="C", copy=False)):
        for f in (g, lambda a, g=g: g(np.copy(a))):
            with pytest.raises(ValueError, match="nable to avoid"):
                f(x)
            with pytest.raises(ValueError, match="nable to avoid"):
                da.jvp(f, (x,), (x,))


def test_a_layout_is_no_memory():
    """NumPy is asked with an array of the same strides; entries far apart are not reserved for long, or read."""
    x = np.ones((1000, 1000))

    def f(x):
        a = np.copy(x).T
        b = a.ravel()
        a[0, 0] = 5.0
        return a[0, 0] + b[0]

    assert da.jvp(f, (x,), (x,)) == (6.0, 1.0)


# ── random programs ──────────────────────────────────────────────────────────────────────────────────────────────


def check(seed):
    layout, steps = program(seed)
    make = LAYOUTS[layout]
    noted = []

    def f(x):
        values, refused = run(steps, x)
        noted[:] = refused
        return values

    expected, refused = run(steps, make(V))
    slope = (run(steps, make(V + H * T))[0] - run(steps, make(V - H * T))[0]) / (2 * H)

    value, tangent = da.jvp(f, (make(V),), (make(T),))
    np.testing.assert_allclose(value, expected, rtol=1e-12, err_msg="jvp")
    assert noted == refused
    np.testing.assert_allclose(tangent, slope, rtol=2e-4, atol=2e-4 * (1 + abs(slope).max()), err_msg="tangent")
    value, pull = da.vjp(f, make(V))
    np.testing.assert_allclose(value, expected, rtol=1e-12, err_msg="vjp")
    assert noted == refused
    ct = np.sin(1.0 + np.arange(float(value.size)))
    np.testing.assert_allclose(np.sum(pull(ct)[0] * make(T)), ct @ tangent, rtol=1e-9, atol=1e-9)
    if make(V).flags.c_contiguous:  # a program is written for arrays in C order
        np.testing.assert_allclose(da.trace(f, make(V))(make(V)), expected, rtol=1e-12, err_msg="trace")
    axis = -(seed % 2)
    rows = np.stack([make(V), make(0.9 * V)], axis=axis)
    batched = da.vmap(f, in_axes=axis)(rows)
    expected, refused = run(steps, np.moveaxis(rows.copy("K"), axis, 0)[0])  # a lane is a view of the rows
    np.testing.assert_allclose(batched[0], expected, rtol=1e-12, err_msg="vmap")
    assert noted == refused


@pytest.mark.parametrize("block", range(10))
def test_random_programs(block):
    for seed in range(30 * block, 30 * (block + 1)):
        check(seed)


@pytest.mark.full
@pytest.mark.parametrize("block", range(100))
def test_ten_thousand_random_programs(block):
    for seed in range(1000 + 100 * block, 1000 + 100 * (block + 1)):
        check(seed)


# ── a machine: what was passed out is written to, and pulled back ────────────────────────────────────────────────


class Machine(RuleBasedStateMachine):
    """Arrays and their twins: duals, and NumPy's at the point and at two points beside it.

    Each rule is carried out on all of them. Whatever was passed out is written to; the twins do not see that. The rules
    so far, as one function, are pulled back, too, before and after a write into what it returned.
    """

    @initialize(layout=st.sampled_from(sorted(LAYOUTS)))
    def start(self, layout):
        self.make = LAYOUTS[layout]
        self.opened = da.dual_level()
        self.opened.__enter__()
        self.duals = [da.make_dual(self.make(V), self.make(T))]
        self.plain = [[self.make(V + s * H * T)] for s in (0, 1, -1)]
        self.steps = []

    def teardown(self):
        if hasattr(self, "opened"):
            self.opened.__exit__(None, None, None)

    def step(self, arrays, kind, which, k, other, n):
        a, b = arrays[which % len(arrays)], arrays[other % len(arrays)]
        try:
            if kind == "write":
                write(a, b, k, n)
                return "written"
            made = MAKERS[n % len(MAKERS)](a, k)
            if made.ndim and made.size and made.size < 40 and made.dtype.kind == "f":
                arrays.append(made)
        except ValueError:
            return "refused"

    numbers = st.integers(0, 10**6)

    @precondition(lambda self: len(self.duals) < 8)
    @rule(which=numbers, k=numbers, n=numbers)
    def view_or_copy(self, which, k, n):
        self.both("make", which, k, 0, n)

    @rule(which=numbers, k=numbers, other=numbers, n=numbers)
    def write(self, which, k, other, n):
        self.both("write", which, k, other, n)

    def both(self, *step):
        self.steps.append(step)
        answers = {self.step(arrays, *step) for arrays in (self.duals, *self.plain)}
        assert len(answers) == 1

    @rule(which=numbers)
    def pass_out_and_write(self, which):
        x = self.duals[which % len(self.duals)]
        stopped = da.stop_gradient(x)
        stopped[...] = 7.0
        with pytest.raises(ValueError, match="read-only"):
            da.unpack_dual(x).primal[...] = 7.0

    @rule()
    def pull_back(self):
        kept = []

        def f(x):
            arrays = [x]
            for step in self.steps:
                self.step(arrays, *step)
            kept[:] = [da.stop_gradient(a) for a in arrays]
            return [*arrays, *[a * a for a in arrays]]

        values, pull = da.vjp(f, self.make(V))
        for expected, v in zip(self.plain[0], values, strict=False):
            np.testing.assert_allclose(v, expected, rtol=1e-12)
        cts = [np.sin(1.0 + np.arange(float(v.size))).reshape(v.shape) for v in values]
        (first,) = pull(cts)
        for a in (*values, *kept):
            if a.flags.writeable:
                a[...] = 7.0
        (second,) = pull(cts)
        np.testing.assert_array_equal(first, second)
        second[...] = 7.0
        forward = 0.0
        for dual, c, of_square in zip(self.duals, cts, cts[len(self.duals) :], strict=False):
            value, tangent = da.unpack_dual(dual)
            if tangent is not None:
                forward += np.sum((c + 2 * value * of_square) * tangent)
        np.testing.assert_allclose(np.sum(first * self.make(T)), forward, rtol=1e-9, atol=1e-9)

    @invariant()
    def twins_agree(self):
        if not hasattr(self, "duals"):
            return
        for dual, point, above, below in zip(self.duals, *self.plain, strict=True):
            value, tangent = da.unpack_dual(dual)
            np.testing.assert_allclose(value, point, rtol=1e-12)
            slope = (above - below) / (2 * H)
            tangent = np.zeros_like(slope) if tangent is None else tangent
            np.testing.assert_allclose(tangent, slope, rtol=1e-3, atol=1e-3 * (1 + abs(slope).max()))


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=30, stateful_step_count=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
