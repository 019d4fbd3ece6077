"""Published packages, unmodified: differentiated and batched, as they are and under `lift`; a taught error if plain.

Values are held against the package's own run on plain arrays, derivatives against central differences of that. Not
for: which functions, and what is expected of them (calls.py).
"""

import numpy as np
import pytest

import dualad as da
from tests.oracles import differences
from tests.oracles.arrays import leaves
from tests.packages.calls import CALLS

pytestmark = [
    pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the packages' own
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
]


def numbers(tree):
    return [np.asarray(leaf, float) for leaf in leaves(tree)]


def agree(found, expected, rtol):
    found, expected = numbers(found), numbers(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * (1.0 + np.max(abs(b), initial=0.0)))


def on_copies(f):
    return lambda x: f(np.copy(x))  # some of them write into their argument (ahrs' q2R normalizes in place)


def inputs(call):
    """Return the point, and a direction that is small against each of its coordinates."""
    x = np.array(call.x)
    return x, 0.01 * np.cos(1.0 + np.arange(float(x.size))) * np.maximum(0.1, abs(x))


def check(call, f):
    plain = on_copies(call.function())
    x, t = inputs(call)
    before = x.copy()

    value, tangent = da.jvp(f, (x,), (t,))
    agree(value, plain(x), 1e-12)
    numeric, _ = differences.along(plain, (x,), (t,))
    agree(tangent, numeric, 1e-7)

    forward = numbers(da.jacfwd(f)(x))
    agree(da.jacrev(f)(x), forward, 1e-9)
    agree([j @ t for j in forward], tangent, 1e-9)

    rows = np.stack([x, x + 0.1 * t, x - 0.1 * t])
    stacked = lambda f: [np.stack(column) for column in zip(*[numbers(f(r)) for r in rows], strict=True)]
    agree(da.vmap(f)(rows), stacked(plain), 1e-12)
    agree(da.vmap(da.jacfwd(f))(rows), stacked(da.jacfwd(f)), 1e-9)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_lifted(call):
    pytest.importorskip(call.module.partition(".")[0])
    check(call, call.function(da.lift))


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_as_it_is(call):
    pytest.importorskip(call.module.partition(".")[0])
    check(call, call.function())


@pytest.mark.plain
@pytest.mark.parametrize("call", [c for c in CALLS if c.direct is not None], ids=str)
def test_the_error_teaches(call):
    pytest.importorskip(call.module.partition(".")[0])
    f, lifted = call.function(), call.function(da.lift)
    x, t = inputs(call)
    rows = np.stack([x, x + 0.1 * t])
    raised = 0
    for run in (
        lambda f: da.jvp(f, (x,), (t,)),
        lambda f: da.jacrev(f)(x),
        lambda f: da.vmap(f)(rows),  # float(x) and math.sin(x) split the lanes, so this is often right
    ):
        try:
            found = run(f)
        except call.direct as error:
            raised += 1
            if "Instead:" not in str(error):
                raise
        else:
            agree(found, run(lifted), 1e-12)
    assert raised


def test_there_are_thirty_of_ten():
    assert len({str(call) for call in CALLS}) >= 30
    assert len({call.module.partition(".")[0] for call in CALLS}) >= 10
