"""Nothing leaks: no call gives away a tensor, drops a traced value silently, or keeps arrays alive.

Every name's calls run on numbers in general position. Under ``jvp`` a result that moves with the operand is a tensor
whose tangent is NumPy's difference, under ``vmap`` each of two lanes has its own value, and a program gives NumPy's
numbers for other numbers than those it was written with. Not for: values in corners (``test_like_numpy.py``).
"""

import gc
import warnings
import weakref

import numpy as np
import pytest

import dualad as da
from dualad.core.level import Level
from dualad.core.tracer import Tracer
from dualad.errors import DualadError
from tests.oracles.arrays import generator, leaves
from tests.oracles.numpy_calls import CALLS, LINEAR_ALGEBRA
from tests.surface.test_like_numpy import DIFFERENT, _exists, _ufunc_calls

M = np.array([[0.53, -1.27, 2.11], [0.76, 3.14, -0.58]])
SQUARE = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]])
ROWS = [
    *[(name, texts, M) for name, texts in {**CALLS, **_ufunc_calls()}.items() if _exists(name)],
    *[(name, texts, SQUARE) for name, texts in LINEAR_ALGEBRA.items() if _exists(name)],
]


def _numbers(out) -> list:
    return [leaf for leaf in leaves(out) if not isinstance(leaf, (np.dtype, type))]


def _close(found, expected, rtol: float | None = None) -> bool:
    expected = np.asarray(expected)
    if rtol is None:
        rtol = 1e-9 if np.result_type(expected, np.float32) in (np.float64, np.complex128) else 1e-4
    return np.allclose(found, expected, rtol=rtol, atol=rtol, equal_nan=True)


def _tried(f, *args):
    """Return a result, or None where the call is refused."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return f(*args)
        except (DualadError, ValueError, TypeError, IndexError, ArithmeticError):
            return None


def _moves(f, x, t, h: float = 1e-6) -> list:
    """Return the difference quotients of the numbers in a result (None for integers and truth values)."""
    above, below = _numbers(_tried(f, x + h * t)), _numbers(_tried(f, x - h * t))
    return [
        (np.asarray(a) - np.asarray(b)) / (2 * h) if np.asarray(a).dtype.kind in "fc" else None
        for a, b in zip(above, below, strict=True)
    ]


def _check_jvp(f, x, t, call: str) -> None:
    raw = []

    def watched(v):
        raw.append(f(v))
        return raw[0]

    result = _tried(da.jvp, watched, (x,), (t,))
    if result is None:
        return
    found = zip(_numbers(raw[0]), _numbers(result[0]), _numbers(result[1]), _moves(f, x, t), strict=True)
    for inner, outer, tangent, moved in found:
        assert not isinstance(outer, Tracer), f"{call} gives a tensor away"
        if moved is None:
            continue
        fine = np.isfinite(moved) & (np.abs(moved) < 1e4)
        if isinstance(inner, Tracer):
            single = np.asarray(outer).dtype in (np.float32, np.complex64, np.float16)
            assert single or _close(np.asarray(tangent)[fine], moved[fine], 1e-4), f"{call}: {tangent}, moves {moved}"
        else:
            assert not np.any(moved[fine]), f"{call} gives plain numbers that move with its operand"


@pytest.mark.parametrize("row", [pytest.param(row, id=row[0]) for row in ROWS])
def test_nothing_that_moves_is_plain(row):
    name, texts, whole = row
    rng = generator(name)
    for text in texts:
        f = eval(f"lambda x: {name}({text})", {"np": np})
        for x in (whole, whole[0]):
            expected = _tried(f, x)
            if expected is None or (name, text) in DIFFERENT:
                continue
            t = rng.uniform(-1, 1, x.shape)
            t = t if whole is M or x.ndim < 2 else t + t.T
            call = f"{name}({text}) of {x.ndim} axes"
            _check_jvp(f, x, t, call)
            other = x + 0.013 * t
            elsewhere = _tried(f, other)
            if elsewhere is None:
                continue
            program = _tried(da.trace, f, x)
            if program is not None:
                for a, b in zip(_numbers(_tried(program, other)), _numbers(elsewhere), strict=True):
                    assert _close(a, b), f"the program of {call} has {a} for {b}"
            lanes = _tried(da.vmap(f), np.stack([x, other]))
            if lanes is not None:
                for both, *each in zip(_numbers(lanes), _numbers(expected), _numbers(elsewhere), strict=True):
                    assert all(map(_close, both, each)), f"{call}: the lanes are {both}, not {each}"


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _smooth(x):
    return np.sum(np.sin(x) * np.exp(-x)) + np.linalg.norm(x) + np.cumsum(x)[-1]


def _written(x):
    y = np.zeros_like(x)
    y[0] = x[1]
    y[1:] = x[:-1] * 2
    view = y[::2]
    view += x[::2]
    y[2] = y[1] * y[0]
    return np.sum(y * y)


def _branched(x):
    return np.sum(x if np.sum(x) > 0 else -x)


def _looped(x):
    return np.sum(da.scan(lambda c, v: (c * v, c + v), x[0], x)[1])


def _packed(x):
    return np.sum(np.stack([x[0] * x[1], x[2]]) @ np.ones((2, 3)))


def _solved(x):
    return np.sum(np.linalg.solve(np.outer(x, x) + np.eye(len(x)), x))


@da.custom_vjp
def _ruled(x):
    return np.sum(x * x)


_ruled.defvjp(lambda x: (_ruled(x), x), lambda x, ct: (2 * x * ct,))

FUNCTIONS = [_smooth, _written, _branched, _looped, _packed, _solved, _ruled, da.checkpoint(_smooth)]
TRANSFORMS = {
    "jvp": lambda f, x: da.jvp(f, (x,), (x,)),
    "jvp of jvp": lambda f, x: da.jvp(lambda y: da.jvp(f, (y,), (x,))[1], (x,), (x,)),
    "grad": lambda f, x: da.grad(f)(x),
    "vjp": lambda f, x: da.vjp(f, x)[1](1.0),
    "linearize": lambda f, x: da.linearize(f, x)[1](x),
    "hessian": lambda f, x: da.hessian(f)(x),
    "vmap": lambda f, x: da.vmap(f)(np.stack([x, 2 * x])),
    "vmap of grad": lambda f, x: da.vmap(da.grad(f))(np.stack([x, 2 * x])),
    "trace": lambda f, x: da.trace(f, x)(x),
}


def _outliving(transform, f) -> list:
    """Return what of a run is not freed with its results, without the garbage collector."""
    x = np.array([0.4, 1.3, 0.8])
    seen = []

    def watched(v):
        seen.append(weakref.ref(v))
        return f(v)

    gc.freeze()  # what is there already need not be gone through again
    gc.disable()
    try:
        result = _tried(transform, watched, x)
        assert seen
        assert result is not None or f is _branched, "the run was refused"
        del result
        gc.set_debug(gc.DEBUG_SAVEALL)
        alive = [r() for r in seen if isinstance(r(), Tracer)]
        gc.collect()
        found = [o for o in [*gc.garbage, *gc.get_referents(*gc.garbage)] if isinstance(o, (Tracer, Level, np.ndarray))]
        return alive + found
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: getattr(f, "__name__", "checkpoint"))
def test_no_cycle_keeps_tensors_alive(f, transform):
    found = _outliving(TRANSFORMS[transform], f)
    assert not found, f"{[type(o).__name__ for o in found]} outlive the transform"


# ── the checkers are checked ─────────────────────────────────────────────────────────────────────────────────────


def test_a_planted_cycle_is_seen():
    def f(x):
        ring = [x]
        ring.append(ring)
        return np.sum(x)

    assert _outliving(TRANSFORMS["jvp"], f)


def test_planted_leaks_are_seen():
    with pytest.raises(AssertionError, match="plain numbers that move"):
        _check_jvp(lambda x: np.asarray(getattr(x, "primal", x)), M, M, "planted")
    with pytest.raises(AssertionError, match="moves"):
        _check_jvp(lambda x: x * da.stop_gradient(x), M, M, "planted")
