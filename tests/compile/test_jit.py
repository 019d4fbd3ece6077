"""``jit``: signatures, what a function reads besides its arguments, writes, branches, transforms around it.

Not for: operators one by one (test_numpy_source.py) or random programs (test_jit_random.py).
"""

from __future__ import annotations

import pickle
import threading
import time
import tracemalloc

import numpy as np
import pytest

import dualad as da
from dualad.compile.tracing import EffectWarning
from dualad.errors import (
    ArgumentError,
    ArgumentTypeError,
    BranchError,
    DtypeError,
    NotRepeatableError,
    PerformanceNote,
    ShapeError,
)

X = np.linspace(0.1, 1.0, 5)


def smooth(x):
    return np.sum(np.sin(x) ** 2 * np.exp(-x))


@da.jit
def decorated(x, n=2):
    """Raise to a power."""
    return x**n


class Model:
    def __init__(self, w):
        self.w = w

    @da.jit
    def method(self, x):
        return self.w * x


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_looks_like_the_function() -> None:
    assert decorated.__name__ == "decorated" and decorated.__doc__ == "Raise to a power."
    assert decorated(3.0) == 9.0 and decorated(3.0, n=3) == 27.0
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    again = pickle.loads(pickle.dumps(da.jit(smooth)))
    assert again(X) == pytest.approx(smooth(X), rel=1e-15)
    assert Model(2.0).method(3.0) == 6.0 and Model(5.0).method(3.0) == 15.0


def test_each_signature_has_its_own_code() -> None:
    fast = da.jit(lambda x: x * 2)
    for x in (3, 3.0, np.float32(3), np.int8(3), 3j, True, np.arange(3), np.ones((0, 2), np.float32)):
        for _ in range(3):
            found, expected = fast(x), np.asarray(x) * 2 if not isinstance(x, (int, float, complex)) else x * 2
            assert np.array_equal(found, expected)
            if hasattr(x, "dtype"):
                assert found.dtype == expected.dtype
    assert fast(3) == 6 and fast(np.float32(3)).dtype == np.float32


def test_a_python_number_does_not_widen() -> None:
    fast = da.jit(lambda x, y: x * y)
    x = np.ones(3, np.float32)
    assert fast(x, 2.0).dtype == np.float32
    assert fast(x, np.float64(2.0)).dtype == np.float64
    scaled = da.jit(lambda x, y: x * np.sin(y))
    assert scaled(x, 2.0).dtype == (x * np.sin(2.0)).dtype


def test_trees_come_and_go() -> None:
    def f(p, *rest, scale=1.0, label="a"):
        return {"w": p["w"] * scale, "rest": [r + 1 for r in rest], "label": None, "pair": (p["b"], 2.0)}

    fast = da.jit(f)
    for _ in range(3):
        out = fast({"w": X, "b": 1.0}, 2.0, X, scale=3.0, label="b")
        assert np.array_equal(out["w"], X * 3.0) and out["rest"][0] == 3.0 and np.array_equal(out["rest"][1], X + 1)
        assert out["label"] is None and out["pair"] == (1.0, 2.0)
        assert list(out) == ["w", "rest", "label", "pair"]


def test_static_arguments() -> None:
    def f(x, n, kind="sin"):
        return getattr(np, kind)(x) * n if n > 1 else x

    for fast in (da.jit(f, static_argnums=(1, 2)), da.jit(static_argnames=["n", "kind"])(f)):
        assert fast(1.0, 1) == 1.0
        assert fast(1.0, 2, "cos") == np.cos(1.0) * 2
        assert fast(1.0, n=3, kind="cos") == np.cos(1.0) * 3
        assert da.grad(fast)(1.0, 2) == pytest.approx(2 * np.cos(1.0), rel=1e-14)
    with pytest.raises(ArgumentTypeError, match="hashed"):
        da.jit(lambda x, n: x, static_argnums=1)(1.0, [1])
    with pytest.raises(ArgumentError, match="static_argnums has 7"):
        da.jit(lambda x: x, static_argnums=7)
    with pytest.raises(ArgumentError, match="static_argnames has 'q'"):
        da.jit(lambda x: x, static_argnames="q")


def test_layouts() -> None:
    fast = da.jit(lambda x: x * 2 + np.sum(x))
    base = np.arange(24.0).reshape(4, 6)
    frozen = base.copy()
    frozen.setflags(write=False)
    raw = np.zeros(base.nbytes + 1, np.uint8)
    misaligned = raw[1:].view(float).reshape(4, 6)
    misaligned[...] = base
    for x in (base, base[::2, ::-1], base.T, np.asfortranarray(base), frozen, misaligned, base.astype(">f8")):
        for _ in range(2):
            np.testing.assert_allclose(fast(x), x * 2 + np.sum(x), rtol=1e-15)
            assert fast(x).dtype == np.dtype(float)


@pytest.mark.parametrize("n", range(0, 41, 3))
def test_lengths(n: int) -> None:
    x = np.linspace(-1, 1, n)
    f = lambda x: (np.where(x > 0, np.sqrt(np.abs(x)), x) * 3 - x / 7, np.sum(x))
    for a, b in zip(da.jit(f)(x), f(x), strict=True):
        assert np.array_equal(a, b)


def test_results_are_new() -> None:
    fast = da.jit(lambda x: (x[1:], x.reshape(5, 1), x + 0, x.T))
    for _ in range(2):
        for r in fast(X):
            assert not np.shares_memory(r, X) and r.flags.writeable
    same = da.jit(lambda x, y: (y, x * 2))
    assert same(X, X)[0] is X
    constant = np.arange(3.0)
    out = da.jit(lambda x: (constant, x))(1.0)[0]
    assert out is not constant and np.array_equal(out, constant)


def test_errors_are_those_of_the_function() -> None:
    with pytest.raises((ShapeError, ValueError)):
        da.jit(lambda x: x + np.ones(7))(X)
    with pytest.raises(np.linalg.LinAlgError):
        da.jit(lambda a: np.linalg.inv(a))(np.zeros((2, 2)))
    with pytest.raises(TypeError, match="argument"):
        da.jit(lambda x: x)()
    with pytest.raises(DtypeError):
        da.jit(lambda x: x)(np.array(["a"]))
    with pytest.raises(ZeroDivisionError):
        da.jit(lambda x: x * (1 // 0))(1.0)


def test_poles_are_those_of_numpy_and_quiet() -> None:
    f = lambda x: (1 / x, np.log(x), np.sqrt(x - 1), np.exp(x + 800), np.power(x, -1.0))
    with np.errstate(all="ignore"):
        expected = f(np.float64(0.0))
    for x in (0.0, np.float64(0.0), np.array(0.0)):
        assert np.array_equal(da.jit(f)(x), expected, equal_nan=True)
    assert da.jit(da.grad(np.sqrt))(0.0) == np.inf
    safe = lambda x: np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0)
    assert da.jit(da.grad(safe))(0.0) == 0.0
    norm = lambda x: np.sqrt(np.sum(x * x))
    for z in (np.zeros(3), np.array([0.0, 1.0, 0.0])):
        for _ in range(2):
            assert np.array_equal(da.jit(da.grad(norm))(z), da.grad(norm)(z))
            assert np.array_equal(da.grad(da.jit(norm))(z), da.grad(norm)(z))
            assert np.array_equal(da.jit(da.hessian(norm))(z), da.hessian(norm)(z), equal_nan=True)
    cubed = da.jit(da.grad(lambda x: np.sqrt(x) ** 3))
    assert np.isnan(cubed(0.0)) == np.isnan(da.grad(lambda x: np.sqrt(x) ** 3)(0.0))


# ── what it reads besides its arguments ──────────────────────────────────────────────────────────────────────────


def test_a_captured_array_is_read_at_each_call() -> None:
    w = np.ones(3)
    fast = da.jit(lambda x: x * w)
    assert np.array_equal(fast(2.0), [2, 2, 2])
    w[1] = 5.0
    assert np.array_equal(fast(2.0), [2, 10, 2])
    assert len(fast._found) == 1


def test_what_was_computed_from_a_captured_array_follows_it() -> None:
    w = np.ones(3)
    fast = da.jit(lambda x: x * np.exp(w) + w[0])
    for value in (0.0, 1.0, 2.0):
        w[:] = value
        np.testing.assert_allclose(fast(2.0), 2 * np.exp(w) + w[0], rtol=1e-15)


def test_a_large_captured_array_follows_too() -> None:
    w = np.ones(20_000)
    fast = da.jit(lambda x: x * np.mean(w))
    assert fast(2.0) == 2.0
    w[:] = 3.0
    assert fast(2.0) == 6.0


def test_names_that_are_bound_again() -> None:
    k, layers = 2.0, {"w": np.ones(2), "b": [1.0, 2.0]}
    model = Model(3.0)

    def helper(x):
        return x * k

    fast = da.jit(lambda x: helper(x) + layers["w"] + layers["b"][1] + model.w)
    f = fast.f
    assert np.array_equal(fast(1.0), f(1.0))
    k = 7.0
    assert np.array_equal(fast(1.0), f(1.0))
    layers["w"] = np.full(2, 9.0)
    assert np.array_equal(fast(1.0), f(1.0))
    layers["b"][1] = 4.0
    assert np.array_equal(fast(1.0), f(1.0))
    model.w = -1.0
    assert np.array_equal(fast(1.0), f(1.0)) and fast(1.0)[0] == 7 + 9 + 4 - 1


def test_a_captured_array_in_the_body_of_a_loop() -> None:
    w = np.array([1.0, 2.0])
    fast = da.jit(lambda x: da.fori_loop(0, 3, lambda i, c: c * w, x))
    assert np.array_equal(fast(np.ones(2)), [1, 8])
    w[0] = 3.0
    assert np.array_equal(fast(np.ones(2)), [27, 8])


def test_a_scratch_array_of_the_function_is_a_constant() -> None:
    fast = da.jit(lambda x: x + np.linspace(0, 1, 5))
    fast(X)
    assert not fast._found[next(iter(fast._found))][0].traced.hidden


@pytest.mark.parametrize("changing", [lambda: np.random.default_rng().normal(), lambda: next(COUNT)])
def test_a_slow_function_is_traced_twice_as_any_other(changing) -> None:
    traces = []

    def f(x):
        traces.append(0)
        time.sleep(0.06)
        return x * 2.0

    with pytest.warns(EffectWarning):
        da.jit(f)(1.0)
    assert len(traces) == 2
    with pytest.raises(NotRepeatableError, match=r"test_jit\.py:\d+"):
        da.jit(lambda x: f(x) * changing())(1.0)


@pytest.mark.parametrize("dtype", [float, np.int64, np.int16, bool])
@pytest.mark.parametrize("place", [0, 140_000, 200_002])
def test_large_constants_are_compared_to_the_last_entry(place: int, dtype: type) -> None:
    turn = []

    def f(x):
        a = np.zeros(200_003, dtype)
        a[place] = len(turn) % 2
        turn.append(0)
        return np.sum(x * a[::-1]) + np.sum(np.where(a, x, 1.0)) + np.sum(x * a.reshape(-1, 1).T)

    with pytest.raises(NotRepeatableError):
        da.jit(f)(2.0)
    turn.clear()
    half = da.jit(lambda x: (turn.append(0), f(x))[1])  # the same at each trace
    with pytest.warns(EffectWarning):
        assert np.isfinite(half(2.0))


def test_residual_hooks_are_not_compiled_in() -> None:
    fast = da.jit(da.grad(smooth))
    with da.residual_hooks(lambda x: x, lambda x: x):
        found = fast(X)
    assert np.allclose(found, da.grad(smooth)(X), rtol=1e-13) and np.allclose(fast(X), found, rtol=0)


@pytest.mark.parametrize("changing", [lambda: np.random.default_rng().normal(), time.perf_counter, lambda: next(COUNT)])
def test_what_can_not_be_repeated_is_refused(changing) -> None:
    def f(x):
        return x * changing()

    with pytest.raises(NotRepeatableError, match=r"test_jit\.py:\d+"):
        da.jit(f)(1.0)


COUNT = iter(range(1000))


# ── writes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_writes_into_arguments_come_back() -> None:
    def f(x, y):
        x[1:] += y
        x *= 2
        return x, np.sum(x)

    fast = da.jit(f)
    for _ in range(3):
        a, b = X.copy(), X.copy()
        (ra, sa), (rb, sb) = f(a, 3.0), fast(b, 3.0)
        assert np.array_equal(a, b) and rb is b and ra is a and sa == sb
    with pytest.raises(ValueError, match="read-only"):
        frozen = X.copy()
        frozen.setflags(write=False)
        fast(frozen, 3.0)
    with pytest.raises(ValueError, match="read-only"):
        fast(frozen, 3.0)


def test_writes_seen_through_another_argument() -> None:
    def f(x, y):
        x[0] = 10.0
        return np.sum(y)

    a = np.ones(4)
    assert da.jit(f)(a, a[:2]) == f(np.ones(4), np.ones(2)) + 9


# ── branches ─────────────────────────────────────────────────────────────────────────────────────────────────────


def branchy(x):
    if x > 1:
        return np.sin(x)
    for _ in range(int(3 * x)):
        x = x * 1.5
    return x


def test_a_branch_is_refused_with_words() -> None:
    with pytest.raises(BranchError, match="specialise=True"):
        da.jit(branchy)(0.5)
    with pytest.raises(BranchError, match="static_argnames"):
        da.grad(da.jit(branchy))(0.5)


def test_specialise_follows_the_values() -> None:
    fast = da.jit(branchy, specialise=True)
    for x in (0.5, 2.0, 0.9, 0.4, 3.0, 0.1, 0.5):
        assert fast(x) == pytest.approx(branchy(x), rel=1e-15)
        assert da.grad(fast)(x) == pytest.approx(da.grad(branchy)(x), rel=1e-14)
    assert "guard" in fast.explain(0.5) and "test_jit.py" in fast.explain(0.5)
    masked = da.jit(lambda x: x[x > 0.3] * 2, specialise=True)
    assert np.array_equal(masked(X), X[X > 0.3] * 2)
    assert np.array_equal(masked(-X), [])


def test_specialise_with_singular_paths() -> None:
    f = lambda a: np.linalg.inv(a) if a[0, 0] > 0 else a * 2
    fast = da.jit(f, specialise=True)
    assert np.array_equal(fast(np.eye(2)), np.eye(2))
    assert np.array_equal(fast(np.zeros((2, 2))), np.zeros((2, 2)))
    with pytest.raises(np.linalg.LinAlgError):
        fast(np.array([[1.0, 1.0], [1.0, 1.0]]))


# ── transforms around it ─────────────────────────────────────────────────────────────────────────────────────────

TRANSFORMS = {
    "jvp": lambda f: lambda x: da.jvp(f, [x], [np.cos(x)]),
    "vjp": lambda f: lambda x: da.vjp(f, x)[1](1.5),
    "grad": da.grad,
    "jacfwd": lambda f: da.jacfwd(lambda x: f(x) * x),
    "jacrev": lambda f: da.jacrev(lambda x: f(x) * x),
    "hessian": da.hessian,
    "hvp": lambda f: lambda x: da.hvp(f, x, np.cos(x)),
    "vmap": lambda f: lambda x: da.vmap(f)(np.stack([x, 2 * x])),
    "vmap of grad": lambda f: lambda x: da.vmap(da.grad(f))(np.stack([x, 2 * x])),
    "grad of sum of vmap": lambda f: da.grad(lambda x: np.sum(da.vmap(f)(np.stack([x, 2 * x])))),
    "linearize": lambda f: lambda x: da.linearize(f, x)[1](x),
    "third": lambda f: da.jacfwd(da.hessian(f)),
    "checkpoint": lambda f: da.grad(da.checkpoint(f)),
    "scan": lambda f: lambda x: da.scan(lambda c, row: (c * f(row), c), 1.0, np.stack([x, x])),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_nesting(name: str) -> None:
    t = TRANSFORMS[name]
    expected = t(smooth)(X)
    for found in (
        t(da.jit(smooth))(X),
        da.jit(t(smooth))(X),
        da.jit(t(da.jit(smooth)))(X),
        t(da.jit(da.jit(smooth)))(X),
    ):
        for a, b in zip(da.tree.flatten(found)[0], da.tree.flatten(expected)[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_backward_passes_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from dualad.compile import call

    count = []
    real = call.compile_program
    monkeypatch.setattr(call, "compile_program", lambda program: count.append(program) or real(program))
    gradient = da.grad(da.jit(smooth))
    for i in range(4):
        gradient(X + i)
    assert len(count) == 2, "one program forwards, one backwards"


def test_lanes_are_written_once_for_each_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from dualad.compile import call

    count = []
    real = call.batch_program
    monkeypatch.setattr(call, "batch_program", lambda *args, **sizes: count.append(sizes) or real(*args, **sizes))
    f = da.jit(lambda x: np.sin(x) * x)
    for n in (2, 3, 2, 3, 2):
        np.testing.assert_allclose(da.vmap(f)(X[:n]), np.sin(X[:n]) * X[:n], rtol=1e-15)
    assert count == [{"size": 2}, {"size": 3}]


def test_tensors_of_a_running_transform() -> None:
    f = lambda x: da.jit(lambda y: y * np.sin(x))(2.0)
    assert da.grad(f)(3.0) == pytest.approx(2 * np.cos(3.0), rel=1e-15)
    assert np.allclose(da.vmap(f)(X), 2 * np.sin(X))
    g = lambda x: da.jit(lambda y: y * x)(x)
    assert da.grad(g)(3.0) == pytest.approx(6.0, rel=1e-15)
    assert da.hessian(g)(3.0) == pytest.approx(2.0, rel=1e-15)


def test_lanes_that_disagree_run_in_groups() -> None:
    x = np.array([0.5, 2.0, 0.9])
    with pytest.warns(PerformanceNote):
        found = da.vmap(da.jit(branchy))(x)
    np.testing.assert_allclose(found, [branchy(v) for v in x], rtol=1e-15)


def test_kinks_are_part_of_the_signature() -> None:
    fast = da.jit(da.grad(abs))
    assert fast(0.0) == 0.0
    with da.kinks("nan"):
        assert np.isnan(fast(0.0)) and np.isnan(da.grad(da.jit(abs))(0.0))
    assert fast(0.0) == 0.0


def test_debug_looks_inside() -> None:
    bad = lambda x: np.log(x - 1.0) * 2
    with pytest.raises(da.errors.NonFiniteError, match=r"test_jit\.py"), np.errstate(all="ignore"), da.debug(nan=True):
        da.jit(da.grad(bad))(0.5)


def test_collectives() -> None:
    f = lambda x: x / da.psum(x, "i")
    x = np.array([1.0, 3.0])
    assert np.array_equal(da.vmap(da.jit(f), axis_name="i")(x), x / 4)
    assert np.array_equal(da.jit(da.vmap(f, axis_name="i"))(x), x / 4)


def test_custom_rules_are_kept() -> None:
    @da.custom_jvp
    def f(x):
        return np.sin(x)

    f.defjvp(lambda primals, tangents: (np.sin(primals[0]), 7.0 * tangents[0]))
    assert da.grad(da.jit(f))(1.0) == 7.0 and da.jit(da.grad(f))(1.0) == 7.0 and da.jit(f)(1.0) == np.sin(1.0)
    assert "custom_jvp_call" in da.jit(f).explain(1.0)


# ── behaviour under load ─────────────────────────────────────────────────────────────────────────────────────────


def test_ten_threads() -> None:
    fast = da.jit(da.grad(smooth))
    expected = {n: da.grad(smooth)(np.linspace(0, 1, n)) for n in range(1, 8)}
    wrong = []

    def work():
        for _ in range(30):
            for n, e in expected.items():
                if not np.allclose(fast(np.linspace(0, 1, n)), e, rtol=1e-13):
                    wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_stays_flat() -> None:
    fast = da.jit(lambda p, x: {"a": np.sin(p["w"] * x), "b": [x, p["w"]]})
    p = {"w": np.ones(100)}
    for _ in range(10):
        fast(p, 2.0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(3000):
        fast(p, 2.0)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000


def test_an_exception_in_a_callback_leaves_everything_as_it_was() -> None:
    bad = [False]

    def host(x):
        if bad[0]:
            raise KeyError("no")
        return np.asarray(x) * 2

    fast = da.jit(lambda x: np.sin(da.wrap(host, jac=lambda x: 2.0)(x)) * x)
    assert fast(1.0) == np.sin(2.0)
    bad[0] = True
    with pytest.raises(KeyError):
        fast(1.0)
    bad[0] = False
    assert fast(1.0) == np.sin(2.0)


def test_a_note_when_sizes_keep_changing() -> None:
    fast = da.jit(lambda x: x + 1)
    call_with_sizes = lambda: [fast(np.zeros(n)) for n in range(12)]
    with pytest.warns(PerformanceNote, match="9 signatures"):
        call_with_sizes()


# ── what it shows ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("numpy_backend")
def test_what_can_be_read() -> None:
    fast, x = da.jit(da.grad(smooth)), np.linspace(0.1, 1, 20)
    low = fast.lower(x)
    assert [e.op.name for e in low.program.equations] == [e.op.name for e in fast.program(x).equations]
    assert len(low.optimised.steps) <= len(low.program.steps)
    assert "def " in low.source and "calls of NumPy" in low.kernels and low.cost.equations == len(low.optimised.steps)
    assert "equations" in fast.explain(x) and str(low.cost) in fast.explain(x)
    assert np.allclose(fast.program(x)(x), fast(x))


def test_garbage_does_not_count_as_a_captured_array() -> None:
    """What only a cycle of references holds may be a constant in one trace and an input in the other."""
    traces = []

    def f(x):
        a = np.linspace(0.0, 1.0, 3)
        if len(traces) % 2:
            cycle = [a]
            cycle.append(cycle)
        traces.append(None)
        return x * a

    with pytest.warns(EffectWarning):
        assert np.array_equal(da.jit(f)(2.0), [0, 1, 2]) and len(traces) == 2


def test_a_namespace_that_answers_anything_is_not_asked() -> None:
    class Namespace:
        sin = staticmethod(np.sin)

        def __getattr__(self, name):
            raise RuntimeError(name)

    xp = Namespace()
    assert da.jit(lambda x: xp.sin(x))(1.0) == np.sin(1.0)


def test_the_program_can_be_called_as_the_function_is() -> None:
    w = np.arange(3.0)
    fast = da.jit(lambda x, k=1.0: {"y": x["v"] * w + k})
    assert np.array_equal(fast.program({"v": 2.0}, k=3.0)({"v": 4.0}, k=1.0)["y"], w * 4 + 1)


def test_python_complex_numbers() -> None:
    f = lambda z: (z * z, np.real(z), np.imag(z) + 1, np.conj(z), abs(z))
    for z in (2 + 3j, np.complex128(2 + 3j), np.array([2 + 3j])):
        for a, b in zip(da.jit(f)(z), f(z), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-15)
            assert isinstance(a, (np.ndarray, np.generic))


def test_indices_that_are_inputs() -> None:
    f = lambda x, i: (np.take(x, i, axis=1), np.delete(x, 0, axis=1).T, x.T[i])
    x, i = np.arange(6.0).reshape(2, 3), np.array([0, 1])
    for _ in range(20):
        for a, b in zip(da.jit(f)(x, i), f(x, i), strict=True):
            assert np.array_equal(a, b)
