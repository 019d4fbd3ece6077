"""Straight-line programs of NumPy's operators, made from a list of numbers, valid by construction.

A program is run with any namespace that has NumPy's names: NumPy on plain arrays, NumPy on tensors, JAX's. A step is
built beside NumPy's run of the program so far, so that it fits the shapes, stays finite, and keeps away from the points
where a derivative is a matter of choice (ties, zeros of absolute values). Not for: derivatives or comparisons.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["INPUTS", "OPERATORS", "Program", "build"]

LARGEST = 40
SHAPES = [(3,), (2, 3), (3, 2), (), (1, 3), (4,), (2, 2), (2, 1, 3), (3, 3)]
INPUTS = ("float64", "float32", "complex128", "float64 and integers", "float64 and float32", "float64 and complex128")

Numbers = Iterator[int]


class Step(NamedTuple):
    """One operator: its name for the printed program, what it computes, and which of the values so far it takes."""

    text: str
    function: Callable
    operands: tuple[int, ...]


class Program:
    """A program: called with a namespace, SciPy's special functions in it, and the inputs, it gives its last value."""

    def __init__(self, inputs: list, constants: list, steps: list[Step]) -> None:
        self.inputs, self.constants, self.steps = inputs, constants, steps

    def __call__(self, xp, special, *inputs):
        values = [*inputs, *self.constants]
        for step in self.steps:
            values.append(step.function(xp, special, *[values[i] for i in step.operands]))
        return values[-1]

    def __str__(self) -> str:
        given = [f"{x.dtype}{list(x.shape)}" for x in (*self.inputs, *self.constants)]
        lines = [f"v{i} = {text}" for i, text in enumerate(given)]
        for i, step in enumerate(self.steps, len(given)):
            lines.append(f"v{i} = {step.text}({', '.join(f'v{j}' for j in step.operands)})")
        return "\n".join(lines)


# ── what an operator asks of its operand ─────────────────────────────────────────────────────────────────────────


def anything(a) -> bool:
    return True


def real(a) -> bool:
    return a.dtype.kind == "f"


def nonzero(a) -> bool:
    return a.size > 0 and bool((np.abs(a) > 1e-3).all())


def distinct(a) -> bool:
    """Real, without ties, away from zero and the few constants that steps compare with."""
    if a.dtype.kind != "f" or not nonzero(a):
        return False
    values = np.sort(np.concatenate([a.ravel(), [-0.5, 0.8, 0.1]]))
    return bool((np.diff(values) > 1e-3).all())


def a_vector(a) -> bool:
    return a.ndim >= 1 and a.shape[-1] >= 2


def a_matrix(a) -> bool:
    return a.ndim >= 2 and min(a.shape[-2:]) >= 1


def both(*tests) -> Callable:
    return lambda a: all(test(a) for test in tests)


# ── operators ────────────────────────────────────────────────────────────────────────────────────────────────────
#
# name -> (what it asks of its operand, maker): the maker takes numbers to choose parameters by and the operand's
# current value, and returns (text, function of namespace, special functions and operand).

OPERATORS: dict[str, tuple[Callable, Callable]] = {}


def elementwise(asks: Callable, **functions: Callable) -> None:
    for name, function in functions.items():
        OPERATORS[name] = (asks, lambda numbers, a, name=name, function=function: (name, function))


elementwise(
    anything,
    sin=lambda xp, sp, a: xp.sin(a),
    cos=lambda xp, sp, a: xp.cos(a),
    exp=lambda xp, sp, a: xp.exp(0.5 * a),
    square=lambda xp, sp, a: xp.square(a),
    negative=lambda xp, sp, a: -a,
    conj=lambda xp, sp, a: xp.conj(a) * a,
    real=lambda xp, sp, a: xp.real(a),
    imag=lambda xp, sp, a: xp.imag(a) + xp.real(a),
    reciprocal=lambda xp, sp, a: 1 / (a * xp.conj(a) + 1.5),
    cube=lambda xp, sp, a: a**3,
    sinh=lambda xp, sp, a: xp.sinh(0.3 * a),
    rsub=lambda xp, sp, a: 2 - a,
)
elementwise(
    real,
    tanh=lambda xp, sp, a: xp.tanh(a),
    arctan=lambda xp, sp, a: xp.arctan(a),
    log1p=lambda xp, sp, a: xp.log1p(a * a),
    sqrt=lambda xp, sp, a: xp.sqrt(1 + a * a),
    expm1=lambda xp, sp, a: xp.expm1(0.5 * a),
    arcsinh=lambda xp, sp, a: xp.arcsinh(a),
    sinc=lambda xp, sp, a: xp.sinc(a),
    exp2=lambda xp, sp, a: xp.exp2(0.5 * a),
    log2=lambda xp, sp, a: xp.log2(1 + a * a),
    power=lambda xp, sp, a: xp.power(1.5 + xp.tanh(a), a),
    rpow=lambda xp, sp, a: 2.0**a,
    deg2rad=lambda xp, sp, a: xp.deg2rad(a),
    arctan2=lambda xp, sp, a: xp.arctan2(a, 2),
    logaddexp=lambda xp, sp, a: xp.logaddexp(a, 0.3),
    arcsin=lambda xp, sp, a: xp.arcsin(0.8 * xp.tanh(a)),
    erf=lambda xp, sp, a: sp.erf(a),
    expit=lambda xp, sp, a: sp.expit(a),
    gammaln=lambda xp, sp, a: sp.gammaln(1 + a * a),
    xlogy=lambda xp, sp, a: sp.xlogy(a, 1 + a * a),
    ndtr=lambda xp, sp, a: sp.ndtr(a),
    i0=lambda xp, sp, a: xp.i0(a),
    log_ndtr=lambda xp, sp, a: sp.log_ndtr(a),
    digamma=lambda xp, sp, a: sp.digamma(1.5 + a * a),
    polyval=lambda xp, sp, a: xp.polyval(np.array([0.3, -1.0, 0.5]), a),
    nan_to_num=lambda xp, sp, a: xp.nan_to_num(a),
    make_complex=lambda xp, sp, a: a + 0.5j * xp.cos(a),
)
elementwise(
    distinct,
    absolute=lambda xp, sp, a: xp.abs(a),
    sign=lambda xp, sp, a: xp.sign(a) * a,
    floor=lambda xp, sp, a: xp.floor(a) + a,
    clip=lambda xp, sp, a: xp.clip(a, -0.5, 0.8),
    remainder=lambda xp, sp, a: xp.remainder(a, 1.7),
    cbrt=lambda xp, sp, a: xp.cbrt(a),
    maximum=lambda xp, sp, a: xp.maximum(a, 0.1),
    fmin=lambda xp, sp, a: xp.fmin(a, 0.8),
    hypot=lambda xp, sp, a: xp.hypot(a, 0.5),
    where=lambda xp, sp, a: xp.where(a > 0.1, a * a, 0.5),
    interp=lambda xp, sp, a: xp.interp(a, _KNOTS, _HEIGHTS),
    beside_a_pole=lambda xp, sp, a: xp.where(a > 0, xp.log(xp.where(a > 0, a, 1.0)), a),
    piecewise=lambda xp, sp, a: xp.select([a < -0.5, a > 0.8], [a, 2 * a], xp.sin(a)),
)
elementwise(both(nonzero), modulus=lambda xp, sp, a: xp.abs(a), log=lambda xp, sp, a: xp.log(xp.abs(a) + 0.1))

_KNOTS, _HEIGHTS = np.array([-2.03, -0.97, 0.03, 1.07, 2.11]), np.array([0.3, -0.4, 0.9, 0.2, 1.1])


def operator(asks: Callable) -> Callable:
    """Decorate a maker whose parameters depend on the operand's shape."""

    def declare(make):
        OPERATORS[make.__name__] = (asks, make)
        return make

    return declare


def an_axis(numbers: Numbers, a) -> int:
    """Choose one axis, from the front or from the back."""
    return next(numbers) % (2 * a.ndim) - a.ndim


def axes(numbers: Numbers, a):
    """Choose None, one axis, or several."""
    options = [None, *range(-a.ndim, a.ndim), *itertools.combinations(range(a.ndim), 2)]
    return options[next(numbers) % len(options)]


def reductions(asks: Callable, one_axis: bool, **functions: Callable) -> None:
    for name, function in functions.items():

        def make(numbers, a, name=name, function=function):
            axis = an_axis(numbers, a) if one_axis else axes(numbers, a)
            keep = bool(next(numbers) % 2)
            return f"{name}[axis={axis}, keepdims={keep}]", lambda xp, sp, a: function(xp, a, axis=axis, keepdims=keep)

        OPERATORS[name] = (both(asks, lambda a: a.ndim > 0) if one_axis else asks, make)


reductions(
    anything,
    False,
    sum=lambda xp, a, **k: xp.sum(a, **k),
    mean=lambda xp, a, **k: xp.mean(a, **k),
    prod=lambda xp, a, **k: xp.prod(a, **k),
    nansum=lambda xp, a, **k: xp.nansum(a, **k),
    var=lambda xp, a, **k: xp.var(a, **k),
    masked_sum=lambda xp, a, **k: xp.sum(a, where=np.arange(a.shape[-1]) > 0 if a.ndim else True, **k),
)
reductions(
    both(distinct, lambda a: a.ndim > 0),
    False,  # of a 0-d array JAX's median and quantile keep an axis
    max=lambda xp, a, **k: xp.max(a, **k),
    min=lambda xp, a, **k: xp.min(a, initial=5.0, **k),
    ptp=lambda xp, a, **k: xp.ptp(a, **k),
    nanmax=lambda xp, a, **k: xp.nanmax(a, **k),
    median=lambda xp, a, **k: xp.median(a, **k),
    quantile=lambda xp, a, **k: xp.quantile(a, 0.3, **k),
)
reductions(
    nonzero,
    True,
    norm=lambda xp, a, **k: xp.linalg.norm(a, **k),
    logsumexp=lambda xp, a, **k: xp.log(xp.sum(xp.exp(xp.real(a) - xp.max(xp.real(a))), **k)),
)
reductions(both(distinct, a_vector), False, std=lambda xp, a, **k: xp.std(a + 0 * a, axis=None, keepdims=k["keepdims"]))


def along(asks: Callable, **functions: Callable) -> None:
    """Declare operators along one axis that stays."""
    for name, function in functions.items():

        def make(numbers, a, name=name, function=function):
            axis = an_axis(numbers, a)
            return f"{name}[axis={axis}]", lambda xp, sp, a: function(xp, a, axis)

        OPERATORS[name] = (both(asks, lambda a: a.ndim > 0), make)


along(
    anything,
    cumsum=lambda xp, a, i: xp.cumsum(a, axis=i),
    cumprod=lambda xp, a, i: xp.cumprod(a, axis=i),
    flip=lambda xp, a, i: xp.flip(a, i),
    roll=lambda xp, a, i: xp.roll(a, 2, i),
    stack=lambda xp, a, i: xp.stack([a, 2 * a], i),
    concatenate=lambda xp, a, i: xp.concatenate([a, a * a], i),
    repeat=lambda xp, a, i: xp.repeat(a, 2, i),
    expand_dims=lambda xp, a, i: xp.expand_dims(a, i),
    moveaxis=lambda xp, a, i: xp.moveaxis(a, i, 0),
    take=lambda xp, a, i: xp.take(a, np.array([0, -1, 0]), axis=i),
    fft=lambda xp, a, i: xp.fft.fft(a, axis=i),
    ifft=lambda xp, a, i: xp.fft.ifft(a, 4, i, "ortho"),
    swapaxes=lambda xp, a, i: xp.swapaxes(a, i, -1),
    append=lambda xp, a, i: xp.append(a, a, axis=i),
    delete=lambda xp, a, i: xp.delete(a, 0, axis=i) if a.shape[i] > 1 else a,
    first=lambda xp, a, i: xp.take(a, 0, axis=i),
    diff=lambda xp, a, i: xp.diff(a, axis=i, prepend=1.0),
    trapezoid=lambda xp, a, i: xp.trapezoid(a, dx=0.5, axis=i),
    average=lambda xp, a, i: xp.average(a, axis=i),
    split=lambda xp, a, i: xp.array_split(a, 2, axis=i)[0],
    unstacked=lambda xp, a, i: xp.unstack(a, axis=i)[-1],
)
along(
    real,
    rfft=lambda xp, a, i: xp.fft.rfft(a, axis=i),
    irfft=lambda xp, a, i: xp.fft.irfft(a, 5, axis=i),
    softmax=lambda xp, a, i: xp.exp(a) / xp.sum(xp.exp(a), axis=i, keepdims=True),
    corrected=lambda xp, a, i: xp.var(a, axis=i, ddof=0.5),
)
along(
    distinct,
    sort=lambda xp, a, i: xp.sort(a, axis=i),
    partition=lambda xp, a, i: xp.sort(xp.partition(a, 0, axis=i), axis=i),
    argsorted=lambda xp, a, i: xp.take_along_axis(a, xp.argsort(a, axis=i), axis=i),
    largest=lambda xp, a, i: xp.take_along_axis(a, xp.argmax(a, axis=i, keepdims=True), axis=i),
    cummax=lambda xp, a, i: xp.maximum.accumulate(a, i),
    nanmedian=lambda xp, a, i: xp.nanmedian(a, axis=i),
)

elementwise(
    anything,
    ravel=lambda xp, sp, a: xp.ravel(a),
    reshape=lambda xp, sp, a: xp.reshape(a, (1, -1)),
    transpose=lambda xp, sp, a: a.T,
    atleast_2d=lambda xp, sp, a: xp.atleast_2d(a),
    squeeze=lambda xp, sp, a: xp.squeeze(a),
    newaxis=lambda xp, sp, a: a[..., None],
    vdot=lambda xp, sp, a: xp.vdot(a, a),
    outer=lambda xp, sp, a: xp.outer(a, a),
    copy=lambda xp, sp, a: xp.copy(a) + 1,
    tile=lambda xp, sp, a: xp.tile(a, 2),
    broadcast_to=lambda xp, sp, a: xp.broadcast_to(a, (2, *a.shape)),
    ravel_F=lambda xp, sp, a: xp.ravel(a, order="F"),
    full_like=lambda xp, sp, a: xp.full_like(a, 0.5) * a,
    inner=lambda xp, sp, a: xp.inner(a, a),
    diagflat=lambda xp, sp, a: xp.diag(xp.ravel(a)[:4]),
)
elementwise(
    a_vector,
    every_second=lambda xp, sp, a: a[..., ::2],
    reversed=lambda xp, sp, a: a[..., ::-1],
    last=lambda xp, sp, a: a[..., -1],
    gather=lambda xp, sp, a: a[..., np.array([[0, 1], [-1, 0]])],
    mask=lambda xp, sp, a: a[..., np.arange(a.shape[-1]) != 1],
    einsum=lambda xp, sp, a: xp.einsum("...i,...j->...ij", a, a),
    vecdot=lambda xp, sp, a: xp.vecdot(a, a),
    convolve=lambda xp, sp, a: xp.convolve(xp.ravel(a)[:5], xp.ravel(a)[:3]),
    windows=lambda xp, sp, a: a[..., 1:] * a[..., :-1],
)
elementwise(
    a_matrix,
    gram=lambda xp, sp, a: a @ xp.swapaxes(a, -1, -2),
    matvec=lambda xp, sp, a: xp.matvec(a, a[..., 0, :]),
    trace=lambda xp, sp, a: xp.trace(a, axis1=-2, axis2=-1),
    triu=lambda xp, sp, a: xp.triu(a),
    diagonal=lambda xp, sp, a: xp.diagonal(a),
    rot90=lambda xp, sp, a: xp.rot90(a),
    tensordot=lambda xp, sp, a: xp.tensordot(a, a, 1) if a.shape[-1] == a.shape[0] else a + a,
    einsum_contracted=lambda xp, sp, a: xp.einsum("...ij,...ij->...j", a, xp.cos(a)),
    kron=lambda xp, sp, a: xp.kron(a, np.array([1.0, 2.0])),
    det=lambda xp, sp, a: xp.linalg.det(_square(xp, a)),
    inv=lambda xp, sp, a: xp.linalg.inv(_square(xp, a)),
    solve=lambda xp, sp, a: xp.linalg.solve(_square(xp, a), a),
    slogdet=lambda xp, sp, a: xp.real(xp.linalg.slogdet(_square(xp, a))[1]),
    matrix_power=lambda xp, sp, a: xp.linalg.matrix_power(_square(xp, 0.3 * a), 2),
    fft2=lambda xp, sp, a: xp.fft.fft2(a),
    cholesky=lambda xp, sp, a: xp.linalg.cholesky(_square(xp, a)),
    pinv=lambda xp, sp, a: xp.linalg.pinv(_square(xp, a)),
    multi_dot=lambda xp, sp, a: xp.linalg.multi_dot([m := xp.reshape(a, (a.shape[0], -1)), m.T, m]),
)
elementwise(
    both(distinct, a_matrix, lambda a: min(a.shape[-2:]) > 1),
    eigvalsh=lambda xp, sp, a: xp.linalg.eigvalsh(_square(xp, a) + 2 * np.diag(np.arange(a.shape[-2]))),
    svdvals=lambda xp, sp, a: xp.linalg.svd(_square(xp, a) + 3 * np.diag(np.arange(a.shape[-2])), compute_uv=False),
    qr=lambda xp, sp, a: xp.linalg.qr(_square(xp, a), mode="r") ** 2,
)


def _square(xp, a):
    """Make a well-conditioned square Hermitian matrix of any one."""
    return a @ xp.conj(xp.swapaxes(a, -1, -2)) + 2 * np.eye(a.shape[-2])


@operator(lambda a: a.ndim > 0 and min(a.shape) >= 2)
def pad(numbers, a):
    mode = ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp")[next(numbers) % 6]
    return f"pad[{mode}]", lambda xp, sp, a: xp.pad(a, 1, mode=mode)


@operator(anything)
def scaled_by_integers(numbers, a):
    factors = np.array([2, -1, 3, 1])[: a.shape[-1]] if a.ndim and a.shape[-1] <= 4 else np.array(3)
    return f"times {factors.tolist()}", lambda xp, sp, a: a * factors


@operator(nonzero)
def integer_power(numbers, a):
    exponents = np.array([2, 1, 3, 0])[: a.shape[-1]] if a.ndim and a.shape[-1] <= 4 else np.array(2)
    return f"to the {exponents.tolist()}", lambda xp, sp, a: a**exponents


@operator(anything)
def index_set(numbers, a):
    where = tuple(next(numbers) % n for n in a.shape)
    return f"without {where}", lambda xp, sp, a: xp.where(_at(a.shape, where), 0.5, a)


def _at(shape, where):
    out = np.zeros(shape, bool)
    out[where] = True
    return out


# ── operators of two values ──────────────────────────────────────────────────────────────────────────────────────

PAIRS: dict[str, tuple[Callable, Callable]] = {
    "add": (anything, lambda xp, sp, a, b: a + b),
    "subtract": (anything, lambda xp, sp, a, b: a - b),
    "multiply": (anything, lambda xp, sp, a, b: a * b),
    "divide": (anything, lambda xp, sp, a, b: a / (2 + xp.cos(xp.real(b)))),
    "arctan2": (real, lambda xp, sp, a, b: xp.arctan2(a, 2 + b * b)),
    "hypot": (real, lambda xp, sp, a, b: xp.hypot(a, 1 + b * b)),
    "logaddexp": (real, lambda xp, sp, a, b: xp.logaddexp(a, b)),
    "power": (real, lambda xp, sp, a, b: (1.5 + xp.tanh(a)) ** b),
    "where": (distinct, lambda xp, sp, a, b: xp.where(a > 0.1, a, b)),
    "maximum": (distinct, lambda xp, sp, a, b: xp.maximum(a, xp.sin(b) + 0.01)),
    "lerp": (anything, lambda xp, sp, a, b: a + 0.3 * (b - a)),
    "einsum": (anything, lambda xp, sp, a, b: xp.einsum("...,...->...", a, b)),
}
JOINS: dict[str, Callable] = {
    "outer sum": lambda xp, sp, a, b: a[..., None] + xp.ravel(b)[:3],
    "concatenated": lambda xp, sp, a, b: xp.concatenate([xp.ravel(a), xp.ravel(b)]),
    "tensordot": lambda xp, sp, a, b: xp.tensordot(a, xp.ravel(b)[:2], 0),
    "scaled by a mean": lambda xp, sp, a, b: a * xp.mean(b),
    "first of both": lambda xp, sp, a, b: xp.stack([xp.ravel(a)[0], xp.ravel(b)[-1]]),
}


def _pair(numbers: Numbers, a, b):
    """Choose an operator of two values: elementwise where the shapes broadcast, else one that joins any two."""
    try:
        np.broadcast_shapes(a.shape, b.shape)
        fits = b.size > 0 and b.dtype.kind in "fi"
    except ValueError:
        fits = False
    usable = [n for n, (asks, _) in PAIRS.items() if asks(a) and (fits or (b.dtype.kind == "c" and asks is anything))]
    if not fits and usable:
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            usable = []
    if usable:
        name = usable[next(numbers) % len(usable)]
        return name, PAIRS[name][1]
    name = list(JOINS)[next(numbers) % len(JOINS)]
    return name, JOINS[name]


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _inputs(kind: str, numbers: Numbers, rng) -> tuple[list, list]:
    first, _, second = kind.partition(" and ")
    arrays = []
    for dtype in (first, second or first):
        shape = SHAPES[next(numbers) % len(SHAPES)]
        if dtype == "integers":
            return arrays, [rng.integers(1, 4, shape)]
        x = rng.uniform(-1.5, 1.5, shape)
        if dtype == "complex128":
            x = x + 1j * rng.uniform(-1.5, 1.5, shape)
        arrays.append(np.asarray(x, dtype))
    return arrays, []


def build(kind: str, choices: list[int], seed: int) -> Program:
    """Make a program of as many operators as there are choices.

    Parameters
    ----------
    kind : str
        One of ``INPUTS``.
    choices : list of int
        What each step chooses by, taken modulo what there is to choose from: every list is a valid program.
    seed : int
        Of the inputs' values.
    """
    import scipy.special

    rng = np.random.default_rng(seed)
    first = iter([seed // 7, seed // 3, *choices])
    inputs, constants = _inputs(kind, first, rng)
    program = Program(inputs, constants, [])
    values = [*inputs, *constants]
    for choice in choices:
        numbers = _digits(choice)
        # Mostly the latest value goes on, so that programs are deep; at times an earlier one comes in.
        i = len(values) - 1 if program.steps else 0
        other = next(numbers) % len(values)
        if next(numbers) % 3 == 0 and len(values) > 1:
            operands = (i, other)
            text, function = _pair(numbers, values[i], values[other])
        else:
            operands = (i,)
            usable = [name for name, (asks, _) in OPERATORS.items() if asks(values[i])]
            text, function = OPERATORS[usable[next(numbers) % len(usable)]][1](numbers, values[i])
        with np.errstate(all="ignore"):
            value = np.asarray(function(np, scipy.special, *[values[j] for j in operands]))
        if value.size > LARGEST or not value.size or not np.isfinite(value).all() or value.dtype.kind not in "fc":
            continue
        largest = float(np.abs(value).max())
        if largest > 4:  # so that the programs' derivatives stay of the size of their values
            factor = float(2.0 ** -np.ceil(np.log2(largest)))
            text = f"{factor} * {text}"
            function = lambda xp, sp, *xs, inner=function, factor=factor: factor * inner(xp, sp, *xs)
            value = np.asarray(value * factor, value.dtype)
        program.steps.append(Step(text, function, operands))
        values.append(value)
    return program


def _digits(n: int) -> Iterator[int]:
    """Yield an endless row of numbers that one number determines."""
    state = n
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33
