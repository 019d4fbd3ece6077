"""Programs whose structure is Python's: static results, branches of lanes, prints.

Each by itself, under and around the transforms, with machine code and without. Not for: what the trees of arguments are
(base/test_tree.py), or prints without `jit` (diagnose/test_printing.py).
"""

import enum
import functools
import operator
import re
import warnings

import numpy as np
import pytest
import scipy.special

import dualad as da
from dualad.errors import BranchError, ConversionError, NotRepeatableError, OutputError, PerformanceNote

X = np.array([0.5, -1.25, 2.0])


class Mode(enum.Enum):
    FAST = 1


class Config:
    """An object that is no tree."""


class Holder:
    """An object that is no tree and holds a number."""

    def __init__(self, x):
        self.x = x

    def get(self):
        return self.x


CONFIG = Config()
STATIC = ("name", None, Mode.FAST, int, {"f": np.sin, "config": CONFIG, "dtype": np.dtype("f4")})

WAYS = {
    "jit": lambda f: da.jit(f),
    "jit of vmap": lambda f: da.jit(da.vmap(f)),
    "vmap of jit": lambda f: da.vmap(da.jit(f)),
    "jit of grad": lambda f: da.jit(da.grad(f, has_aux=True)),
    "grad of jit": lambda f: da.grad(da.jit(f), has_aux=True),
    "jit of value_and_grad": lambda f: da.jit(lambda x: da.value_and_grad(f, has_aux=True)(x)[0]),
    "jit of jit": lambda f: da.jit(lambda x: da.jit(f)(x)),
}


# ── static leaves of results ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", WAYS)
def test_static_leaves_of_results_come_back_as_they_are(backend, way) -> None:
    g = WAYS[way](lambda x: (np.sum(x**2), STATIC))
    for scale in (1.0, 2.0, 2.0):
        number, rest = g(X * scale)
        assert np.shape(number) in ((), (3,)) and np.all(np.isfinite(number))
        assert rest == STATIC
        assert all(a is b for a, b in zip(rest[:4], STATIC[:4], strict=True))


def test_results_without_numbers(backend) -> None:
    assert [da.jit(lambda x: "text")(x) for x in (1.0, 2.0, 3.0)] == ["text"] * 3
    assert da.vmap(lambda x: (x, "text"))(X)[1] == "text"


def test_a_static_result_follows_what_it_is_made_of(backend) -> None:
    fast = da.jit(lambda x, name: (x, name.upper()))
    assert [fast(1.0, n)[1] for n in ("a", "b", "a")] == ["A", "B", "A"]
    units = {"x": "m"}
    read = da.jit(lambda x: (x, units["x"]))
    assert read(1.0)[1] == "m"
    units["x"] = "km"
    assert read(1.0)[1] == "km"
    path = da.jit(lambda x: (x, "positive") if x > 0 else (-x, "negative"), specialise=True)
    assert [path(v) for v in (1.0, -2.0, 3.0)] == [(1.0, "positive"), (2.0, "negative"), (3.0, "positive")]


@pytest.mark.parametrize(
    ("f", "error", "words"),
    [
        (lambda x: (x, str(x)), OutputError, r"text in which there is a traced value, at output\[1\].*debug\.print"),
        (lambda x: (x, f"{x}"), OutputError, r"debug\.print"),
        (lambda x: (x, f"{x:.3f}"), ConversionError, r"format\(\) with '\.3f'.*debug\.print"),
        (lambda x: (x, "%g" % x), ConversionError, r"debug\.print"),  # noqa: UP031
        (lambda x: (x, iter([x])), OutputError, r"an iterator.*np\.stack"),
        (lambda x: (x, (v for v in [x])), OutputError, r"np\.stack"),
        (lambda x: (x, Holder(x)), OutputError, r"an object that holds a traced value, at output\[1\].*dataclass"),
        (lambda x: (x, lambda: x), OutputError, "holds a traced value"),
        (lambda x: (x, functools.partial(np.add, x)), OutputError, "holds a traced value"),
        (lambda x: (x, Holder(x).get), OutputError, "holds a traced value"),
        (lambda x: {"a": x, "b": object()}, NotRepeatableError, r"output\['b'\]"),
        (lambda x: (x, lambda: 1), NotRepeatableError, r"output\[1\]"),
    ],
)
def test_what_changes_with_the_values_is_no_static_result(f, error, words) -> None:
    with pytest.raises(error, match=f"(?s){words}"):
        da.jit(f)(1.0)
    if "holds" in words:
        with pytest.raises(error, match=f"(?s){words}"):
            da.vmap(f)(X)


def test_text_of_lanes() -> None:
    with pytest.raises(OutputError, match="traced value"):
        da.vmap(lambda x: (x, str(x)))(X)
    with pytest.warns(PerformanceNote), pytest.raises(OutputError, match="text"):
        da.vmap(lambda x: (x, f"{x:.1f}"))(X)
    assert da.vmap(lambda x: (x, f"{x:.1f}"))(np.ones(2))[1] == "1.0"


# ── branches of lanes ────────────────────────────────────────────────────────────────────────────────────────────


def many_paths(x):
    for i in range(6):
        x = x * 1.5 if x[i % 3] > 0 else x - 1
    return np.sum(x**2)


def test_an_if_of_lanes_runs_as_it_is_written(backend) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3))
    wanted, slopes = [many_paths(r) for r in rows], [da.grad(many_paths)(r) for r in rows]
    fast = da.jit(da.vmap(many_paths))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert np.array_equal(fast(rows), wanted)
        notes = [str(w.message) for w in seen if w.category is PerformanceNote and "not compiled" in str(w.message)]
        assert len(notes) == 1 and "test_structure.py:" in notes[0] and "np.where" in notes[0] and "cond" in notes[0]
        seen.clear()
        assert np.array_equal(fast(rows[::-1]), wanted[::-1])
        assert not any(["not compiled" in str(w.message) for w in seen])
        assert np.array_equal(da.jit(lambda r: 2 * da.vmap(many_paths)(r))(rows), 2 * np.array(wanted))
        assert np.allclose(da.jit(da.vmap(da.grad(many_paths)))(rows), slopes, rtol=1e-14)
        assert np.allclose(da.grad(lambda r: np.sum(da.jit(da.vmap(many_paths))(r)))(rows), slopes, rtol=1e-14)
        assert np.array_equal(da.jit(lambda r: da.jit(da.vmap(many_paths))(r))(rows), wanted)
        counted = da.jit(da.vmap(lambda x, n: sum([x * i for i in range(n)], 0.0 * x)))
        assert np.array_equal(counted(X, np.array([1, 2, 4])), [0.0, -1.25, 12.0])
    with pytest.raises(BranchError):  # there are no lanes
        da.jit(many_paths)(rows[0])


def test_too_many_paths_run_as_they_are_written(backend) -> None:
    fast = da.jit(lambda x: x * int(x), specialise=True)
    for i in range(16):
        assert fast(i + 0.5) == (i + 0.5) * i
    with pytest.warns(PerformanceNote, match=r"(?s)more than 16 paths.*np\.where.*test_structure"):
        assert fast(30.5) == 30.5 * 30
    with warnings.catch_warnings():
        warnings.simplefilter("error", PerformanceNote)
        assert [fast(i + 0.5) for i in range(40)] == [(i + 0.5) * i for i in range(40)]
        assert da.grad(fast)(7.5) == 7.0
        assert np.array_equal(fast(np.float64(3.5)), 10.5)


# ── prints ───────────────────────────────────────────────────────────────────────────────────────────────────────


def noisy(x):
    da.debug.print("a {:.2f}", x)
    y = np.sin(x)
    da.debug.print("b {y:.3f} {n}", y=y, n="name")
    da.debug.print("constant")
    return y * x


ONE = ["a 0.50", "b 0.479 name", "constant"]
TWO = ["a 0.50", "a 2.00", "b 0.479 name", "b 0.909 name", "constant"]
PRINTS = {
    "jit": (lambda f: da.jit(f), 0.5, ONE),
    "grad of jit": (lambda f: da.grad(da.jit(f)), 0.5, ONE),
    "jit of grad": (lambda f: da.jit(da.grad(f)), 0.5, ONE),
    "jit of grad of grad": (lambda f: da.jit(da.grad(da.grad(f))), 0.5, ONE),
    "jit of jvp": (lambda f: da.jit(lambda x: da.jvp(f, (x,), (1.0,))), 0.5, ONE),
    "jit of jit": (lambda f: da.jit(lambda x: da.jit(f)(x) + 1), 0.5, ONE),
    "jit of checkpoint": (lambda f: da.jit(da.grad(da.checkpoint(f))), 0.5, ONE),
    "jit of vmap": (lambda f: da.jit(da.vmap(f)), np.array([0.5, 2.0]), TWO),
    "vmap of jit": (lambda f: da.vmap(da.jit(f)), np.array([0.5, 2.0]), TWO),
    "jit of vmap of grad": (lambda f: da.jit(da.vmap(da.grad(f))), np.array([0.5, 2.0]), TWO),
    "no result read": (lambda f: da.jit(lambda x: (f(x), 1.0)[1]), 0.5, ONE),
}


@pytest.mark.parametrize("way", PRINTS)
def test_each_call_prints_once(backend, way, capsys) -> None:
    make, x, lines = PRINTS[way]
    g = make(noisy)
    for _ in range(3):
        g(x)
        assert capsys.readouterr().out.splitlines() == lines
    if way == "jit":
        g(2.0)
        assert capsys.readouterr().out.splitlines()[0] == "a 2.00"


def scanned(x):
    def body(c, r):
        da.debug.print("{:.1f} {:.0f} {:.1f}", c, r, x)
        return c * x + r, c

    return da.scan(body, 0.0 * x, np.arange(3.0))[0]


def counted(x):
    def more(c):
        da.debug.print("{:.1f}", c)
        return c * 2

    return da.while_loop(lambda c: c < 5, more, x)


def unrolled(x):
    for i in range(20):
        x = 0.5 * x + 1.0
        da.debug.print("{} {:.3f}", i, x)
    return x


def chosen(x):
    return da.cond(x > 1, lambda v: (da.debug.print("above"), v)[1], lambda v: (da.debug.print("{}", x), -v)[1], x)


def alike(x):
    for _ in range(2):
        da.fori_loop(0, 2, lambda i, c: (da.debug.print("turn {}", i), c)[1], 0.0)
    da.scan(lambda c, r: ((da.debug.print("same"), c)[1], None), x, np.arange(2.0))
    return x


@pytest.mark.parametrize("f", [scanned, counted, unrolled, chosen, alike])
def test_loops_and_branches_print_each_iteration(backend, f, capsys) -> None:
    f(2.0)
    lines = capsys.readouterr().out.splitlines()
    assert lines
    for make in (da.jit, lambda f: da.jit(da.jit(f)), lambda f: da.jit(da.grad(f)), lambda f: da.grad(da.jit(f))):
        if f is counted and make is not da.jit:
            continue  # reverse mode refuses a loop without a bound
        g = make(f)
        for _ in range(2):
            g(2.0)
            assert capsys.readouterr().out.splitlines() == lines
    batched = da.jit(da.vmap(f))
    batched(np.array([2.0, 2.0]))
    assert len(capsys.readouterr().out.splitlines()) >= len(lines)


def test_prints_see_what_is_captured_and_which_path_is_taken(backend, capsys) -> None:
    table = np.ones(2)
    read = da.jit(lambda x: (da.debug.print("{}", table), x)[1])
    read(1.0)
    table[0] = 7.0
    read(1.0)
    assert capsys.readouterr().out == "[1. 1.]\n[7. 1.]\n"
    path = da.jit(lambda x: (da.debug.print("at {}", x), x if x > 0 else -x)[1], specialise=True)
    for x in (1.0, -2.0, 3.0, -2.0):
        path(x)
        assert capsys.readouterr().out == f"at {x}\n"
    pole = da.grad(da.jit(lambda x: (da.debug.print("at {}", x), np.where(x > 0, np.sqrt(x), 0.0))[1]))
    assert pole(0.0) == 0.0
    assert capsys.readouterr().out == "at 0.0\n"


def test_explain_says_what_keeps_a_print_from_machine_code(native_backend) -> None:
    text = da.jit(scanned).explain(2.0)
    assert "debug_print" in text and "it prints" in text and "test_structure.py" in text


# ── generators of random numbers as arguments ────────────────────────────────────────────────────────────────────


def drawn(x, rng):
    return np.sum(x * rng.normal(size=3)) + rng.uniform() * x[0] * rng.normal(x[1], 2.0)


def shuffled(x, rng):
    y = x * 1.0
    rng.shuffle(y)
    return np.sum(y * np.arange(3)) + rng.permutation(np.arange(4.0))[0] + rng.integers(5) + x[rng.integers(3)]


def scan_drawn(x, rng):
    return da.scan(lambda c, a: (c + a * rng.normal(), None), 0.0, x)[0]


def cond_drawn(x, rng):
    return da.cond(x[0] > 0, lambda v: v * rng.normal(), lambda v: v * rng.uniform(size=2)[0], x[0])


def rerun(x, rng):  # with traced values in an array of its own: lifted after a refusal
    out = np.zeros(2)
    out[0] = np.sum(x * rng.normal(size=3))
    out[1] = rng.normal()
    return out[0] * out[1]


def checkpointed(x, rng):
    return da.checkpoint(drawn)(x, rng)


DRAWS = {
    "jit": lambda f: da.jit(f),
    "grad": lambda f: da.grad(f),
    "value_and_grad": lambda f: da.value_and_grad(f),
    "jit of value_and_grad": lambda f: da.jit(da.value_and_grad(f)),
    "grad of jit": lambda f: da.grad(da.jit(f)),
    "jit of jit": lambda f: da.jit(lambda x, rng: da.jit(f)(x, rng)),
    "vmap of jit": lambda f: lambda x, r: da.vmap(da.jit(f), in_axes=(0, None), randomness="same")(x[None], r),
}


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, da.numpy.random.default_rng])
@pytest.mark.parametrize("f", [drawn, shuffled, scan_drawn, cond_drawn, rerun, checkpointed])
def test_each_call_draws_from_the_callers_generator(backend, f, make) -> None:
    if backend == "loops" or (make is np.random.RandomState and f is shuffled):
        return  # `integers` is `randint` there
    state = lambda r: repr(r.get_state(legacy=False) if hasattr(r, "get_state") else r.bit_generator.state)
    for way, of in DRAWS.items():
        rng, plain, slopes = make(0), make(0), make(0)
        g = of(f)
        for k in range(3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PerformanceNote)
                out = g((k + 1) * X, rng)
            value = f((k + 1) * X, plain)
            assert state(rng) == state(plain), way
            slope = da.grad(f)((k + 1) * X, slopes)  # checked by differences below
            wanted = {"grad": slope, "grad of jit": slope, "vmap of jit": [value]}.get(way, value)
            for found, right in zip(out, (value, slope), strict=True) if "value" in way else [(out, wanted)]:
                assert np.allclose(found, right, rtol=1e-13, atol=0), way
    step = [(f(X + 1e-6 * e, make(3)) - f(X - 1e-6 * e, make(3))) / 2e-6 for e in np.eye(3)]
    assert np.allclose(da.grad(f)(X, make(3)), step, rtol=1e-7, atol=1e-8)


def test_draws_of_lanes_and_paths(backend) -> None:
    rows = np.stack([X, 2 * X])
    lanes = lambda f: da.vmap(f, in_axes=(0, None), randomness="different")
    for f in (drawn, da.grad(drawn), lambda x, rng: np.sum(rng.permutation(3) * x)):
        rngs = [np.random.default_rng(1) for _ in range(3)]
        ways = [lanes(f), lanes(da.jit(f)), da.jit(lanes(f))]
        for _ in range(2):
            one, *others = [way(rows, rng) for way, rng in zip(ways, rngs, strict=True)]
            assert all(np.allclose(one, other, rtol=1e-14) for other in others)
        assert rngs[0].normal() == rngs[1].normal() == rngs[2].normal()
    with pytest.raises(da.errors.UnsupportedError, match="randomness='different'"):
        da.jit(da.vmap(drawn, in_axes=(0, None)))(rows, np.random.default_rng(0))

    def path(x, rng):
        return x * rng.normal() if rng.random() < 0.5 else x * rng.uniform() + rng.normal()

    fast, rng, plain = da.jit(path, specialise=True), np.random.default_rng(0), np.random.default_rng(0)
    assert [fast(2.0, rng) for _ in range(8)] == [path(2.0, plain) for _ in range(8)]
    both = da.jit(lambda x, a, b: x * a.normal() + b.normal())
    rng, plain = np.random.default_rng(0), np.random.default_rng(0)
    assert both(2.0, rng, rng) == 2.0 * plain.normal() + plain.normal()
    assert both(2.0, rng, np.random.default_rng(5)) == 2.0 * plain.normal() + np.random.default_rng(5).normal()


@pytest.mark.parametrize(
    ("draw", "error"),
    [
        (lambda rng: rng.standard_normal(out=np.zeros(3)), da.errors.UnsupportedError),
        (lambda rng: rng.shuffle([1.0, 2.0]), da.errors.UnsupportedError),
        (lambda rng: rng.spawn(1)[0].normal(), da.errors.UnsupportedError),
        (lambda rng: np.random.Generator(rng.bit_generator).normal(), NotRepeatableError),
    ],
)
def test_draws_that_would_stay_the_same_are_refused(draw, error) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(error):
        da.jit(lambda x, rng: (draw(rng), x)[1])(1.0, rng)
    assert rng.normal() == np.random.default_rng(0).normal()


# ── structured arrays ────────────────────────────────────────────────────────────────────────────────────────────

BODIES = np.zeros(4, [("at", "f8", (3,)), ("mass", "f8"), ("spin", [("axis", "f4", (2,)), ("rate", "f8")])])
BODIES["at"] = np.random.default_rng(0).normal(size=(4, 3))
BODIES["mass"], BODIES["spin"]["rate"], BODIES["spin"]["axis"] = [1.0, 2.0, 3.0, 4.0], 0.5, [[1.0, 2.0]] * 4


def energy(b):
    turning = np.sum(b["spin"]["rate"] ** 2 * b["spin"]["axis"][..., 1])
    return np.sum(np.sum(b["at"] ** 2, axis=-1) * b["mass"]) + turning


def by_fields(at, mass, axis, rate):
    return np.sum(np.sum(at**2, axis=-1) * mass) + np.sum(rate**2 * axis[..., 1])


FIELDS = (BODIES["at"], BODIES["mass"], BODIES["spin"]["axis"], BODIES["spin"]["rate"])


def fields_of(record):
    return record["at"], record["mass"], record["spin"]["axis"], record["spin"]["rate"]


@pytest.mark.parametrize("kind", [np.ndarray, np.recarray])
def test_structured_arguments_are_seen_by_their_fields(backend, kind) -> None:
    bodies = BODIES.view(kind)
    slopes = da.grad(by_fields, argnums=(0, 1, 2, 3))(*FIELDS)
    fast = da.jit(energy)
    for _ in range(2):
        assert fast(bodies) == pytest.approx(energy(BODIES), rel=1e-15)
    for way in (da.grad(energy), da.jit(da.grad(energy)), da.grad(fast), da.jit(da.jit(da.grad(energy)))):
        for found, right in zip(fields_of(way(bodies)), slopes, strict=True):
            assert type(found) is np.ndarray and found.dtype == right.dtype
            assert np.allclose(found, right, rtol=1e-6 if right.dtype == "f4" else 1e-14)
    each = [energy(BODIES[i]) for i in range(4)]
    for way in (da.vmap(energy), da.jit(da.vmap(energy)), da.vmap(fast)):
        assert np.allclose(way(bodies), each, rtol=1e-14)
    batched = da.jit(da.vmap(da.grad(energy)))(bodies)
    assert np.allclose(batched["mass"], slopes[1], rtol=1e-14)
    assert fast(bodies[1]) == pytest.approx(each[1], rel=1e-15)  # an entry
    slope = da.jvp(energy, (bodies,), (bodies,))[1]
    assert np.allclose(slope, sum([np.sum(s * x) for s, x in zip(slopes, FIELDS, strict=True)]), rtol=1e-7)


def test_entries_and_writes_of_structured_arguments(backend) -> None:
    def moved(b, dt):
        b["at"] += dt * b["mass"][:, None]
        heavy = b[1:]
        heavy["mass"][0] = 10.0
        b["spin"]["rate"][...] = dt
        return np.sum(b[["at", "mass"]][-1]["at"]) + sum([np.sum(r["mass"]) for r in b]) + len(b) + b.at[..., 0].sum()

    def attribute(b, dt):
        return moved(b, dt) + b.shape[0] + b.ndim + b.size

    for f in (moved, attribute):
        plain, given = BODIES.view(np.recarray).copy(), BODIES.view(np.recarray).copy()
        fast = da.jit(f)
        for _ in range(2):
            assert fast(given, 0.25) == pytest.approx(f(plain, 0.25), rel=1e-14)
            assert all(np.array_equal(a, b) for a, b in zip(fields_of(given), fields_of(plain), strict=True))


def test_captured_structured_arrays_are_read_at_each_call(backend) -> None:
    bodies = BODIES.copy()
    f = lambda x: np.sum(x * bodies["at"][:, 0] * bodies["mass"]) + x * bodies[1]["spin"]["rate"]
    ways = [da.jit(f), da.jit(da.grad(f)), da.grad(da.jit(f)), da.jit(da.vmap(f))]
    for _ in range(2):
        one = f(1.0)
        assert np.allclose([ways[0](2.0), ways[1](2.0), ways[2](2.0)], [2 * one, one, one], rtol=1e-14)
        assert np.allclose(ways[3](np.array([1.0, 3.0])), [one, 3 * one], rtol=1e-14)
        bodies["at"][2] += 1.0
        bodies["spin"]["rate"] *= 2.0


def test_what_structured_arguments_have_no_derivative_in_is_named() -> None:
    named = np.zeros(2, [("name", "U5"), ("mass", "f8"), ("id", "i4")])
    for way in (da.jit, da.vmap, da.grad):
        with pytest.raises(da.errors.DtypeError, match=r"(?s)\['name'\] has dtype <U5.*x\[\['position', 'mass'\]\]"):
            way(lambda b: np.sum(b["mass"]))(named)
    with pytest.raises(da.errors.DtypeError, match=r"\['id'\] has dtype int32"):
        da.grad(lambda b: np.sum(b["mass"]))(named[["mass", "id"]])
    assert da.jit(lambda b: np.sum(b["mass"] + b["id"]))(named[["mass", "id"]]) == 0.0
    with pytest.raises(da.errors.ArgumentError, match="structured array"):
        da.vmap(lambda b: b["at"], in_axes=-1)(BODIES[:3])
    with pytest.raises(AttributeError, match="has its fields"):
        da.jit(lambda b: b.tobytes())(BODIES)


# ── what refusals and reports say ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "f",
    [
        lambda n: sum(range(n)),
        lambda n: X[:n],
        lambda n: np.zeros(n),
        lambda n: np.arange(n),
        lambda n: np.reshape(X, (n, -1)),
        lambda n: np.sum(X, axis=n - 3),
        lambda n: X[np.full(3, n) > 1],
        lambda n: np.unique(n * X),
        lambda n: {1: 2.0, 3: 4.0}[n],
        lambda n: operator.index(n),
        lambda n: X if n else -X,
        lambda n: [X] * n,
        lambda n: np.linspace(0.0, 1.0, n),
    ],
)
def test_a_setting_that_is_traced_is_named_as_one(f) -> None:
    with pytest.raises(da.errors.DualadError, match=r"static_arg(nums|names)"):
        da.jit(f)(3)
    assert np.array_equal(da.jit(f, static_argnums=0)(3), f(3))


def test_masks_and_places_that_are_traced() -> None:
    for f in (lambda m: X[m], lambda m: np.arange(3.0)[m], lambda m: (X * m)[m], lambda m: np.compress(m, X)):
        with pytest.raises(da.errors.DualadError, match=r"static_arg(nums|names)"):
            da.jit(f)(X > 0)
    with pytest.raises(ConversionError, match=r"x\[n \+ np\.arange\(3\)\]"):
        da.jit(lambda n: X[n : n + 2])(1)
    table = np.arange(12.0).reshape(3, 4)
    for f in (
        lambda i, j: table[i, j],
        lambda i, j: table[i + 1, j - i],
        lambda i, j: np.sum(table[i, :2] * table[:, j][i + np.arange(2)]),
        lambda i, j: da.fori_loop(0, 2, lambda k, c: c * 2 + table[i + k, j], 0.0),
    ):
        wanted = [f(i, j) for i, j in ((0, 1), (1, 2))]
        fast = da.jit(f)
        assert [fast(0, 1), fast(1, 2)] == wanted
        lanes, places = da.jit(da.vmap(f)), (np.array([0, 1]), np.array([1, 2]))
        assert np.array_equal(lanes(*places), wanted)
        assert lanes.lower(*places).program.inputs[-1].aval.shape == (3, 4)  # one for all lanes
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 3"):
        da.jit(lambda i: table[i, 0])(7)


@pytest.mark.parametrize(
    ("f", "x", "words"),
    [
        (lambda x: np.sort(x), np.arange(100.0), r"sort of f64\[100\] .*100 entries with axis="),
        (lambda x: x @ x, np.ones((300, 300)), r"matmul of .*90,000 entries; NumPy's call serves it"),
        (lambda x: scipy.special.jv(1.5, x), np.ones(3), r"jv of .*no machine code for the operator; NumPy's call"),
        (
            lambda x: da.scan(lambda c, r: (scipy.special.jv(1.5, c) + r, c), 0.0, x)[0],
            np.ones(3),
            r"jv of .*in a scan.*no machine code for the operator; compute it outside of the loop",
        ),
        (lambda x: x * 2, np.ones(3, np.float16), r"multiply of .*the dtype float16; use float64"),
        (lambda x: np.sin(x) + da.wrap(np.cos)(x), np.ones(3), r"opaque_call of .*runs Python code"),
    ],
)
def test_explain_names_operator_line_size_and_remedy(native_backend, f, x, words) -> None:
    (line,) = [line for line in da.jit(f).explain(x).splitlines() if line.lstrip().startswith(words.split()[0] + " of")]
    assert "test_structure.py:" in line and re.search(words, line)


def test_explain_names_what_is_left_of_a_python_loop_once(native_backend) -> None:
    def unrolled(x, turns):
        for _ in range(turns):
            x = scipy.special.jv(1.5, x) + x * 0.1
        return x

    for turns, words in (
        (20, "NumPy's call serves it, 20 times"),
        (300, r"in a scan .*test_structure.py:.*of the loop"),
    ):
        text = da.jit(unrolled, static_argnums=1).explain(np.ones(3), turns)
        (line,) = [line for line in text.splitlines() if line.lstrip().startswith("jv of")]
        assert re.search(words, line), line
