"""``numpy.random`` under the name ``dualad.numpy.random``: NumPy's generators, whose draws ``vmap`` can see.

Outside of ``vmap`` everything is NumPy's, number by number. Inside, ``vmap(f, randomness=...)`` says what a draw
means: ``"error"`` (the default) refuses it, ``"same"`` gives all lanes the same numbers, and ``"different"`` draws for
all lanes at once, with a leading axis. The parameters of a continuous distribution may be traced: the draw is then the
standard one, moved and stretched, or a quantile (``rvs`` of ``dualad.scipy.stats``), and has the derivative of that.
Not for: distributions as functions (``dualad.scipy.stats``).
"""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.tree import is_array
from ..batched import Batched
from ..boundary.randomness import DIFFERENT, runs
from ..core.tracer import Tracer
from ..errors import UnsupportedError
from ..memory.buffer import Buffer

__all__ = ["Generator", "RandomState", "default_rng", "noting", "seed", "seeing"]

#: distribution -> how many parameters stand before its size
_BEFORE_SIZE = {
    "beta": 2, "binomial": 2, "chisquare": 1, "dirichlet": 1, "exponential": 1, "f": 2, "gamma": 2, "geometric": 1,
    "gumbel": 2, "hypergeometric": 3, "integers": 2, "laplace": 2, "logistic": 2, "lognormal": 2, "logseries": 1,
    "multinomial": 2, "multivariate_hypergeometric": 2, "multivariate_normal": 2, "negative_binomial": 2,
    "noncentral_chisquare": 2, "noncentral_f": 3, "normal": 2, "pareto": 1, "poisson": 1, "power": 1, "randint": 2,
    "random": 0, "random_sample": 0, "ranf": 0, "rayleigh": 1, "sample": 0, "standard_cauchy": 0,
    "standard_exponential": 0, "standard_gamma": 1, "standard_normal": 0, "standard_t": 1, "triangular": 3,
    "uniform": 2, "vonmises": 2, "wald": 2, "weibull": 1, "zipf": 1,
}  # fmt: skip
_VECTORS = frozenset({"dirichlet", "multinomial", "multivariate_hypergeometric", "multivariate_normal"})
#: laws of a whole vector, and draws without an axis for lanes: one draw for each of them
_OTHERS = ("bytes", "choice", "permutation", "permuted", "rand", "randn", "random_integers", "shuffle")


def _quantile(law: str, source: Any, size: Any, *shapes: Any) -> Any:
    """Draw from a law of SciPy's, whose numbers move with its shapes."""
    laws = importlib.import_module("dualad.scipy.stats")  # which takes a second, and needs SciPy
    plain = source is sys.modules[__name__]
    return getattr(laws, law).rvs(*shapes, size=size, random_state=np.random.mtrand._rand if plain else source)


def _dirichlet(source: Any, size: Any, alpha: Any) -> Any:
    x = _quantile("gamma", source, size, alpha)
    return x / np.sum(x, axis=-1, keepdims=True)


def _on_circle(source: Any, size: Any, mu: Any, kappa: Any) -> Any:
    x = mu + _quantile("vonmises", source, size, kappa)
    return x - 2 * np.pi * np.round(x / (2 * np.pi))


#: distributions that are a standard one, moved and stretched, or quantiles: their parameters, and the draw
_STANDARD: dict[str, tuple[tuple[str, ...], tuple[float | None, ...], Callable]] = {
    "normal": (("loc", "scale"), (0.0, 1.0), lambda g, n, a, b: a + b * g.standard_normal(n)),
    "uniform": (("low", "high"), (0.0, 1.0), lambda g, n, a, b: a + (b - a) * g.uniform(size=n)),
    "exponential": (("scale",), (1.0,), lambda g, n, b: b * g.standard_exponential(n)),
    "laplace": (("loc", "scale"), (0.0, 1.0), lambda g, n, a, b: a + b * g.laplace(size=n)),
    "logistic": (("loc", "scale"), (0.0, 1.0), lambda g, n, a, b: a + b * g.logistic(size=n)),
    "gumbel": (("loc", "scale"), (0.0, 1.0), lambda g, n, a, b: a + b * g.gumbel(size=n)),
    "lognormal": (("mean", "sigma"), (0.0, 1.0), lambda g, n, a, b: np.exp(a + b * g.standard_normal(n))),
    "rayleigh": (("scale",), (1.0,), lambda g, n, b: b * g.rayleigh(size=n)),
    "weibull": (("a",), (), lambda g, n, a: g.standard_exponential(n) ** (1 / a)),
    "pareto": (("a",), (), lambda g, n, a: np.expm1(g.standard_exponential(n) / a)),
    "power": (("a",), (), lambda g, n, a: (-np.expm1(-g.standard_exponential(n))) ** (1 / a)),
    "standard_gamma": (("shape",), (), functools.partial(_quantile, "gamma")),
    "gamma": (("shape", "scale"), (None, 1.0), lambda g, n, a, b: b * _quantile("gamma", g, n, a)),
    "beta": (("a", "b"), (), functools.partial(_quantile, "beta")),
    "chisquare": (("df",), (), functools.partial(_quantile, "chi2")),
    "f": (("dfnum", "dfden"), (), functools.partial(_quantile, "f")),
    "standard_t": (("df",), (), functools.partial(_quantile, "t")),
    "vonmises": (("mu", "kappa"), (), _on_circle),
    "noncentral_chisquare": (("df", "nonc"), (), functools.partial(_quantile, "ncx2")),
    "dirichlet": (("alpha",), (), _dirichlet),
}


def _draw(source: Any, bits: Any, plain: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    """Draw, by ``plain`` where no lanes are concerned."""
    if name in _STANDARD and any([isinstance(x, Tracer) for x in (*args, *kwargs.values())]):
        names, defaults, standard = _STANDARD[name]
        given = dict(zip((*names, "size"), args, strict=False)) | kwargs
        values: list[Any] = [given.get(n, d) for n, d in itertools.zip_longest(names, defaults)]
        shape, size = np.broadcast_shapes(*map(np.shape, values)), given.get("size")
        if size is not None:
            one = tuple(np.atleast_1d(size).tolist()) if size != () else ()
            shape = one + shape if name in _VECTORS else one
        return standard(source, shape, *values)
    if name in ("choice", "permutation", "shuffle") and args and isinstance(args[0], Tracer):
        return _by_index(source, name, *args, **kwargs)
    around = tuple([run for run in runs.get() if id(bits) not in run.seeded])
    if not around:
        return plain(*args, **kwargs)
    for run in around:
        if run.draws.mode == "error":
            raise UnsupportedError(
                f"{name}() drew a random number inside vmap({run.draws.name}).",
                "a loop would draw a new number for each lane, and what is written here draws once for all of them",
                "say vmap(f, randomness='different') for numbers of each lane's own or randomness='same' for one draw"
                " for all, or draw outside, with an axis for the lanes, and map over it",
            )
        run.draws.seen.add(id(bits))
    what = (name, id(bits), repr([x if isinstance(x, (int, tuple, str)) else np.shape(x) for x in args]), repr(kwargs))

    def draw(lead: tuple[int, ...]) -> Any:
        token = runs.set(())  # NumPy's own method may call another one
        try:
            return _with_axes(plain, name, lead, args, kwargs)
        finally:
            runs.reset(token)

    return _for_lanes(around, what, draw, ())


def _unwrapped(seed: Any) -> Any:
    """Return a seed, an array that lifted code has made as NumPy's."""
    return np.asarray(seed) if type(seed) is Buffer else seed


def _seed(seed: Any, bits: Any) -> Any:
    """Return a bit generator; one that is seeded inside ``vmap`` draws the same in each lane, as in a loop."""
    around = runs.get()
    if around and seed is not None and np.asarray(seed).dtype.kind in "iu":
        for run in around:
            run.seeded[id(bits)] = bits
            run.draws.seen.add(id(bits))
    return bits


def _for_lanes(around: tuple, what: tuple, draw: Callable, lead: tuple[int, ...]) -> Any:
    """Return a draw for the lanes of all levels around, the innermost of which is the last."""
    if not around:
        return draw(lead)
    *outer, run = around
    if run.draws.mode != DIFFERENT:
        return run.number((*what, lead), lambda: _for_lanes(tuple(outer), what, draw, lead))
    value = run.number((*what, lead), lambda: _for_lanes(tuple(outer), what, draw, (run.draws.size, *lead)))
    return Batched(value if run.lanes is None else np.take(value, run.lanes, 0), run.level)


def _with_axes(plain: Callable, name: str, lead: tuple[int, ...], args: tuple, kwargs: dict) -> Any:
    """Draw with leading axes."""
    if not lead:
        return plain(*args, **kwargs)
    before = _BEFORE_SIZE.get(name)
    if before is not None:
        size = kwargs.get("size", args[before] if len(args) > before else None)
        rest = {k: v for k, v in kwargs.items() if k != "size"}
        more = args[before + 1 :]  # dtype, out
        if size is None:
            given = [*args[:before], *[v for k, v in rest.items() if k not in ("dtype", "endpoint", "method")]]
            shapes = [np.shape(x) for x in given if x is not None]
            size = () if name in _VECTORS else np.broadcast_shapes(*shapes)
        size = tuple(np.atleast_1d(size).tolist()) if size != () else ()
        if not more and rest.get("out") is None:
            return plain(*args[:before], **rest, size=(*lead, *size))
    draws = [plain(*args, **kwargs) for _ in range(max(math.prod(lead), 1))]
    if isinstance(draws[0], bytes) or draws[0] is None:
        raise UnsupportedError(
            f"{name}() was asked for inside vmap(f, randomness='different').",
            "its result is no array, and can't differ between lanes",
            "use permutation(n) and an index, or integers(256, size=n) in place of bytes(n)",
        )
    out = np.stack(draws)
    return np.reshape(out[: math.prod(lead)], (*lead, *out.shape[1:]))


def _by_index(source: Any, name: str, x: Any, size: Any = None, **kwargs: Any) -> Any:
    """Choose or permute the entries of a tensor, by a drawn index."""
    axis = kwargs.pop("axis", 0)
    n = x.shape[axis] if x.shape else x
    if name == "choice":
        return np.take(x, source.choice(n, size, **kwargs), axis)
    order = source.permutation(n)
    if name == "permutation":
        return np.take(x, order, axis)
    x[...] = np.take(x, order, axis)
    return None


def _seeing(name: str, plain: Callable, bits: Callable) -> Callable:
    """Make a method that draws as NumPy's, and is seen."""

    @functools.wraps(plain)
    def method(self, *args, **kwargs):
        if self.note is not None:
            draw = functools.partial(_noted, self, name, plain)
        else:
            draw = functools.partial(plain, getattr(self, "source", self))
        return _draw(self, bits(self), draw, name, args, kwargs)

    return method


def _noted(self: Any, name: str, plain: Callable, *args: Any, **kwargs: Any) -> Any:
    """Draw, and return what stands for the draw in the program that is being written."""
    note, self.note = self.note, None  # NumPy's own method may call another one
    try:
        value = plain(self, *args, **kwargs)
    finally:
        self.note = note
    if not is_array(value) or kwargs.get("out") is not None:
        raise UnsupportedError(
            f"{name}() of a generator that is an argument of a compiled function gave no new array.",
            "each call of the compiled function draws beforehand, and what it draws is a value of the program",
            "use rng.permutation(x) in place of rng.shuffle(x), integers(256, size=n) in place of bytes(n), and"
            " buffer[...] = rng.normal(size=n) in place of out=buffer",
        )
    return note(name, args, kwargs, value)


_NAMES = (*_BEFORE_SIZE, *_OTHERS)


class Generator(np.random.Generator):
    """NumPy's ``Generator``, whose draws ``vmap`` can see.

    Parameters
    ----------
    bit_generator : numpy.random.BitGenerator
        Where the random bits come from; several generators may share it.

    Examples
    --------
    >>> rng = da.numpy.random.Generator(np.random.PCG64(0))
    >>> noisy = da.vmap(lambda x: x + 0.1 * rng.normal(), randomness="different")(np.zeros(1000))
    >>> bool(0.08 < noisy.std() < 0.12)
    True
    """

    #: where a program is written: ``note(name, args, kwargs, value)`` returns what stands for a draw
    note: Callable | None = None

    def spawn(self, n_children: int) -> list:
        """As NumPy's: new generators, whose draws are seen too."""
        if self.note is not None:
            raise UnsupportedError(
                "spawn() of a generator that is an argument of a compiled function.",
                "what its children draw would be drawn while the function is traced, and stay the same",
                "spawn outside, and pass the children",
            )
        children = [Generator(child.bit_generator) for child in super().spawn(n_children)]
        for run in [run for run in runs.get() if id(self.bit_generator) in run.seeded]:
            run.seeded.update({id(child.bit_generator): child.bit_generator for child in children})
        return children


class RandomState(np.random.RandomState):
    """NumPy's legacy ``RandomState``, whose draws ``vmap`` can see.

    Parameters
    ----------
    seed : None, int, array of ints, SeedSequence or BitGenerator
        As NumPy's.

    Examples
    --------
    >>> rng = da.numpy.random.RandomState(0)
    >>> bool(0 <= rng.rand() < 1)
    True
    """

    note: Callable | None = None

    def __init__(self, seed: Any = None) -> None:
        super().__init__(seed := _unwrapped(seed))
        _seed(seed, self._bit_generator)

    def seed(self, seed: Any = None) -> None:
        """As NumPy's."""
        super().seed(seed := _unwrapped(seed))
        _seed(seed, self._bit_generator)


for _class, _bits in ((Generator, lambda g: g.bit_generator), (RandomState, lambda g: g._bit_generator)):
    for _name in _NAMES:
        if _plain := getattr(_class, _name, None):
            setattr(_class, _name, _seeing(_name, _plain, _bits))


def default_rng(seed: Any = None) -> Generator:
    """Make a generator, as ``numpy.random.default_rng``, whose draws ``vmap`` can see.

    Parameters
    ----------
    seed : None, int, array of ints, SeedSequence, BitGenerator, Generator or RandomState
        As NumPy's; the bits of a generator are shared.

    Returns
    -------
    Generator
        It is an ``np.random.Generator``, and draws the same numbers.

    Examples
    --------
    >>> bool(da.numpy.random.default_rng(0).normal() == np.random.default_rng(0).normal())
    True
    """
    seed = _unwrapped(seed)
    return Generator(_seed(seed, np.random.default_rng(seed).bit_generator))


def seeing(x: Any) -> Any:
    """Return a generator whose draws are seen, on the same bits, in place of one of NumPy's; anything else as it is."""
    if type(x) is np.random.Generator:
        return Generator(x.bit_generator)
    if type(x) is np.random.RandomState:
        made: Any = RandomState(x._bit_generator)
        made.source = x  # which keeps the second of each two normal numbers
        return made
    return x


def noting(x: Any, note: Callable | None, copies: dict) -> Any:
    """Return a copy of a generator, of whose draws ``note(name, args, kwargs, value)`` is told.

    ``copies`` are those of bit generators that have been made, which several generators may share.
    """
    if isinstance(x, np.random.Generator):
        made: Any = Generator(copy.deepcopy(x.bit_generator, copies))
    else:
        made = RandomState(copy.deepcopy(x._bit_generator, copies))
        made.set_state(x.get_state(legacy=False))
    made.note = note
    return made


@functools.cache
def _global(name: str) -> Callable:
    """Make a function that draws from NumPy's global generator."""
    plain = getattr(np.random, name)

    @functools.wraps(plain)
    def function(*args, **kwargs):
        bits = np.random.mtrand._rand._bit_generator
        return _draw(sys.modules[__name__], bits, plain, name, args, kwargs)

    return function


def seed(seed: Any = None) -> None:
    """Seed NumPy's global generator, as ``numpy.random.seed``."""
    np.random.seed(seed := _unwrapped(seed))  # noqa: NPY002
    _seed(seed, np.random.mtrand._rand._bit_generator)


def __getattr__(name: str) -> Any:
    thing = getattr(np.random, name)  # and an AttributeError for what NumPy does not have
    return _global(name) if name in _NAMES else thing


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(np.random)})
