"""Random numbers under vmap: refused, the same for all lanes, or each lane's own; and what can't be seen is told."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.boundary.randomness import RandomnessWarning
from dualad.errors import ArgumentError, UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
ZEROS = np.zeros(200)
ours = da.numpy.random


def make(seed=0):
    return ours.default_rng(seed)


P = [0.2, 0.3, 0.5]
#: name -> draws of a generator, and of the legacy one where it has it
DRAWS = {
    "random": lambda g: g.random(),
    "normal": lambda g: g.normal(1.0, 2.0), "normal of size": lambda g: g.normal(size=3),
    "normal of arrays": lambda g: g.normal(np.arange(3.0), 1.0), "uniform": lambda g: g.uniform(2.0, 3.0, (2, 2)),
    "standard_normal": lambda g: g.standard_normal((2,)), "exponential": lambda g: g.exponential(2.0),
    "gamma": lambda g: g.gamma(2.0, 3.0), "beta": lambda g: g.beta(2.0, 3.0), "poisson": lambda g: g.poisson(40.0, 2),
    "binomial": lambda g: g.binomial(50, 0.5), "choice": lambda g: g.choice(1000),
    "without": lambda g: g.choice(50, 3, replace=False),
    "weighted": lambda g: g.choice(3, 4, p=P), "permutation": lambda g: g.permutation(30),
    "dirichlet": lambda g: g.dirichlet([1.0, 2.0, 3.0]), "multinomial": lambda g: g.multinomial(50, P),
    "multivariate_normal": lambda g: g.multivariate_normal(np.zeros(2), np.eye(2)), "laplace": lambda g: g.laplace(),
    "vonmises": lambda g: g.vonmises(0.0, 1.0, size=()),
}  # fmt: skip
NEW = {"integers": lambda g: g.integers(0, 10**6), "permuted": lambda g: g.permuted(np.arange(20.0))}
OLD = {
    "rand": lambda g: g.rand(2), "randn": lambda g: g.randn(), "randint": lambda g: g.randint(0, 10**6, 2),
    "random_sample": lambda g: g.random_sample(),
}  # fmt: skip
SOURCES = {
    "Generator": (make, DRAWS | NEW),
    "RandomState": (lambda: ours.RandomState(0), DRAWS | OLD),
    "functions": (lambda: ours.seed(0) or ours, DRAWS | OLD),
}
CASES = [(s, d) for s, (_, draws) in SOURCES.items() for d in draws]


@pytest.mark.parametrize(("source", "draw"), CASES)
def test_the_three_ways(source, draw):
    make_it, draws = SOURCES[source]
    g, f = make_it(), draws[draw]
    shape = np.shape(f(g))
    with pytest.raises(UnsupportedError, match="drew a random number inside vmap"):
        da.vmap(lambda x: x + f(g))(np.zeros(5))
    same = da.vmap(lambda x: np.sum(x) + f(g), randomness="same")(np.zeros(5))
    assert same.shape == (5, *shape)
    assert (same == same[0]).all()
    different = da.vmap(lambda x: np.sum(x) + f(g), randomness="different")(np.zeros(5))
    assert different.shape == (5, *shape)
    assert len(np.unique(different.reshape(5, -1), axis=0)) > 1


@pytest.mark.parametrize(("source", "draw"), CASES)
def test_outside_it_is_numpys_number_by_number(source, draw):
    make_it, draws = SOURCES[source]
    mine = draws[draw](make_it())
    if source == "functions":
        np.random.seed(0)  # noqa: NPY002
    plain = {"Generator": np.random.default_rng(0), "RandomState": np.random.RandomState(0), "functions": np.random}
    np.testing.assert_array_equal(mine, draws[draw](plain[source]))
    assert da.grad(lambda x: x * np.sum(draws[draw](make_it())))(2.0) == np.sum(mine)


def test_lanes_are_independent_and_of_the_distribution():
    g = make(1)
    x = da.vmap(lambda x: x + g.normal(3.0, 2.0, size=2), randomness="different")(np.zeros(4000))
    np.testing.assert_allclose(x.mean(0), 3.0, atol=0.15)
    np.testing.assert_allclose(np.cov(x.T), 4 * np.eye(2), atol=0.35)


def test_chunks_and_groups_meet_the_same_numbers():
    for mode in ("same", "different"):
        f = lambda x, g: x + g.normal() * g.uniform(size=2).sum()
        whole = da.vmap(f, in_axes=(0, None), randomness=mode)(ZEROS, make())
        parts = da.vmap(f, in_axes=(0, None), randomness=mode, chunk_size=7)(ZEROS, make())
        np.testing.assert_array_equal(whole, parts)

    def branching(x, g):
        u = g.uniform()
        if u < 0.5:
            return u + 0 * g.normal()
        return u + 0 * g.exponential()

    u = da.vmap(branching, in_axes=(0, None), randomness="different")(ZEROS, make())
    np.testing.assert_array_equal(u, make().uniform(size=len(ZEROS)))


def test_rejection_sampling_keeps_its_distribution():
    def below(x, g):
        while True:
            u = g.uniform()
            if u < 0.25:
                return u

    u = da.vmap(below, in_axes=(0, None), randomness="different", max_splits=10_000)(ZEROS, make())
    assert (u < 0.25).all()
    np.testing.assert_allclose(u.mean(), 0.125, atol=0.02)


def test_lanes_within_lanes():
    g = make()
    modes = {}
    for outer in ("same", "different"):
        for inner in ("same", "different"):
            inside = da.vmap(lambda y: y + g.normal(), randomness=inner)
            modes[outer, inner] = da.vmap(lambda x: inside(np.zeros(3)) + x, randomness=outer)(np.zeros(4))
    assert len(np.unique(modes["same", "same"])) == 1
    assert len(np.unique(modes["different", "different"])) == 12
    assert (modes["different", "same"] == modes["different", "same"][:, :1]).all()
    assert len(np.unique(modes["different", "same"])) == 4
    assert (modes["same", "different"] == modes["same", "different"][:1]).all()
    assert len(np.unique(modes["same", "different"])) == 3
    with pytest.raises(UnsupportedError):
        da.vmap(da.vmap(lambda y: y + g.normal(), randomness="different"))(np.zeros((2, 3)))


def test_derivatives_go_through_location_and_scale():
    def draw(theta):
        return np.sum(make().normal(theta[0], theta[1], size=3))

    z = np.random.default_rng(0).standard_normal(3)
    np.testing.assert_allclose(da.grad(draw)(np.array([1.0, 2.0])), [3.0, z.sum()])
    for name, (names, values) in {
        "uniform": (("low", "high"), (1.0, 3.0)), "exponential": (("scale",), (2.0,)),
        "laplace": (("loc", "scale"), (1.0, 2.0)),
        "logistic": (("loc", "scale"), (1.0, 2.0)), "gumbel": (("loc", "scale"), (1.0, 2.0)),
        "lognormal": (("mean", "sigma"), (0.1, 0.2)), "rayleigh": (("scale",), (2.0,)),
        "normal": (("loc", "scale"), (1.0, 2.0)),
    }.items():  # fmt: skip
        f = lambda v, name=name, names=names: getattr(make(), name)(**dict(zip(names, v, strict=True)), size=4)
        v, e = np.array(values), 1e-6
        value, slope = da.jvp(f, (v,), (np.ones_like(v),))
        np.testing.assert_allclose(value, getattr(np.random.default_rng(0), name)(*values, size=4))
        np.testing.assert_allclose(slope, (f(v + e) - f(v - e)) / (2 * e), rtol=1e-6)
    lanes = da.vmap(lambda m: make().normal(m, 0.0), randomness="different")(np.arange(5.0))
    np.testing.assert_array_equal(lanes, np.arange(5.0))
    g = make()
    np.testing.assert_array_equal(
        np.sort(da.vmap(g.permutation, randomness="different")(np.arange(12.0).reshape(3, 4)), axis=1),
        np.arange(12.0).reshape(3, 4),
    )


GLOBAL = np.random.default_rng(5)


class Model:
    def __init__(self):
        self.rng = np.random.default_rng(3)

    def __call__(self, x):
        return x + self.rng.normal()

    def method(self, x):
        return x + self.rng.normal()


def unseen():
    local = np.random.default_rng(2)
    model = Model()
    return {
        "np.random": lambda x: x + np.random.normal(),  # noqa: NPY002
        "a global": lambda x: x + GLOBAL.normal(),
        "a closure": lambda x: x + local.normal(),
        "an attribute": model.method,
        "a callable object": model,
        "a default": lambda x, g=local: x + g.normal(),
        "Python's random": lambda x: x + random.random(),
        "a bound method": lambda x, draw=local.normal: x + draw(),
        "a helper": lambda x: drawing_helper(x),
    }


def drawing_helper(x):
    return x + GLOBAL.uniform()


@pytest.mark.parametrize("name", unseen())
def test_what_cannot_be_seen_is_told(name):
    f = unseen()[name]
    with pytest.warns(RandomnessWarning, match="randomness='same'"):
        da.vmap(f)(np.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = da.vmap(f, randomness="same")(np.zeros(3))
        assert (out == out[0]).all()
        da.vmap(lambda x: x * 2)(np.zeros(3))
    with pytest.raises(UnsupportedError, match="can't be seen"):
        da.vmap(f, randomness="different")(np.zeros(3))


def test_generators_among_the_arguments_are_seen_in_plain_code():
    for g in (np.random.default_rng(0), np.random.RandomState(0)):
        out = da.vmap(lambda x, g: x + g.normal(), in_axes=(0, None), randomness="different")(np.zeros(3), g)
        assert len(np.unique(out)) == 3
        with pytest.raises(UnsupportedError):
            da.vmap(lambda x, g: x + g.normal())(np.zeros(3), g)


def test_lifted_code_is_seen():
    @da.lift
    def f(x):
        return x + np.random.normal() + GLOBAL.uniform()  # noqa: NPY002

    with pytest.raises(UnsupportedError):
        da.vmap(f)(np.zeros(3))
    assert len(np.unique(da.vmap(f, randomness="different")(np.zeros(3)))) == 3
    assert len(np.unique(da.vmap(f, randomness="same")(np.zeros(3)))) == 1
    assert type(GLOBAL) is np.random.Generator


def test_transforms_that_map_by_themselves_draw_once():
    g = make()

    def f(x):
        return x * g.normal() + np.random.normal()  # noqa: NPY002

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slopes = np.diag(da.jacfwd(f)(np.ones(4)))
        assert (slopes == slopes[0]).all()
        da.jacrev(f)(np.ones(4))
        da.hessian(lambda x: np.sum(f(x) ** 2))(np.ones(3))


def test_words_that_are_none():
    with pytest.raises(ArgumentError, match="three ways"):
        da.vmap(np.sin, randomness="maybe")
    assert isinstance(make(), np.random.Generator)
    assert ours.PCG64 is np.random.PCG64
    assert "normal" in dir(ours)
    assert [type(child) for child in make().spawn(2)] == [ours.Generator] * 2
    rng = make()
    with pytest.raises(UnsupportedError):
        da.vmap(lambda x: x + len(rng.bytes(3)), randomness="different")(np.zeros(2))


def _spawned(draw):
    rng = np.random.default_rng([3, 4]).spawn(2)[1]
    return draw(rng)


def _global(draw):
    np.random.seed(5)  # noqa: NPY002
    return draw(np.random)


@pytest.mark.filterwarnings("ignore::dualad.boundary.randomness.RandomnessWarning")  # of the first run, of plain code
@pytest.mark.parametrize(
    "seeded",
    [
        lambda draw: draw(np.random.default_rng(0)), lambda draw: draw(np.random.RandomState(7)), _spawned, _global,
        lambda draw: draw(np.random.default_rng(np.arange(3))),
    ],
    ids=["default_rng", "RandomState", "spawn", "seed", "array"],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["error", "same", "different"])
def test_a_generator_seeded_inside_draws_as_in_a_loop(seeded, mode):
    def f(x):
        b = np.zeros(3)  # which has the function lifted
        b[0] = x
        return b + seeded(lambda rng: rng.normal(size=3) * x if x > 1 else rng.uniform(size=3) + rng.normal(size=3))

    x = np.array([0.5, 1.5, 2.5])
    np.testing.assert_array_equal(da.vmap(f, randomness=mode)(x), [f(v) for v in x])

    def outer(x):
        rng = np.random.default_rng(0)  # seeded for the lanes around, and not for those inside
        return da.vmap(lambda z: f(z) + rng.normal(), randomness="different")(np.stack([x, 2 * x]))

    found = da.vmap(outer)(x)
    np.testing.assert_allclose(found, [outer(v) for v in x], rtol=1e-15)
    with pytest.raises(da.errors.UnsupportedError, match="drew a random number"):
        da.vmap(lambda x: f(x) + da.numpy.random.default_rng().normal())(x)
