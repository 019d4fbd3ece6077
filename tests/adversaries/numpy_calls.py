"""Random programs of NumPy calls over dtypes, layouts, axes and writes: compiled against plain, in all that is seen.

Compared are values, dtypes, shapes, whether a result is an array or a number, what arguments hold afterwards, what
shares memory, and that an error of NumPy's is an error; then gradients and lanes of floating-point programs against
eager ones. One compiled function is called with several layouts of its arguments, each twice. A refusal in dualad's
words is no difference. For: the surface of NumPy in straight programs. Not for: loops (``inplace.py``, ``control.py``).
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import dualad as da
from dualad.compile import trust, validate

from .cases import Case, Difference, Void
from .compare import is_taught, named, settings

__all__ = ["arg", "case", "case_of"]

_DTYPES = ("?", "i1", "u1", "i4", "i8", "u8", "f4", "f8", "f8", "f8", "c8", "c16", ">f8", ">i4", ">c8")
_SHAPES = ((), (0,), (1,), (3,), (5,), (3, 4), (4, 3), (0, 3), (3, 0), (1, 4), (3, 1), (2, 3, 4), (4097,), (70, 60))
_LAYOUTS = ("C", "C", "C", "F", "sliced", "reversed", "broadcast", "frozen")


def arg(dtype: str, shape: tuple[int, ...], layout: str = "C", seed: int = 0) -> np.ndarray:
    """Return an array of small numbers, and some that are not, which lies in memory as ``layout`` says."""
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind in "biu":
        a = rng.integers(0 if kind.kind in "bu" else -5, 2 if kind.kind == "b" else 9, shape)
        if kind.itemsize == 8 and a.size:
            a = np.where(rng.random(shape) < 0.2, 2**53 + 1, a)
    else:
        a = np.round(rng.normal(size=shape) * 2, 2)
        if kind.kind == "c":
            a = a + 1j * np.round(rng.normal(size=shape), 2)
    a = np.asarray(a).astype(kind)
    if layout == "F":
        return np.asfortranarray(a)
    if layout == "sliced" and a.ndim:
        return np.repeat(a, 2, -1)[..., ::2]
    if layout == "reversed" and a.ndim:
        return a[::-1].copy()[::-1]
    if layout == "broadcast" and a.ndim and a.shape[0]:
        return np.broadcast_to(a[:1].copy(), a.shape)
    a = a.copy()
    a.setflags(write=layout != "frozen")
    return a


_UNARY = (
    "np.abs({})", "-{}", "+{}", "np.sqrt(np.abs({}))", "np.sin({})", "np.floor({})", "np.square({})", "np.sign({})",
    "np.conj({})", "np.real({})", "np.imag({})", "np.isfinite({})", "np.logical_not({})", "~{}", "{} * 1", "{} + 0",
    "np.rint({})", "np.exp(-np.abs({}))", "np.reciprocal({})", "{} ** 2", "{} ** 0.5", "{} ** -1", "np.positive({})",
    "np.nan_to_num({})", "np.round({}, 1)", "np.trunc({})", "np.log1p(np.abs({}))", "np.signbit({})", "2 ** {}",
)  # fmt: skip
_BINARY = (
    "{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} // {}", "{} % {}", "{} ** {}", "np.minimum({}, {})", "{} < {}",
    "np.maximum({}, {})", "{} == {}", "{} & {}", "{} | {}", "{} ^ {}", "{} << {}", "np.arctan2({}, {})", "{} >= {}",
    "np.hypot({}, {})", "np.copysign({}, {})", "np.logical_and({}, {})", "np.fmax({}, {})", "np.float_power({}, {})",
    "np.logaddexp({}, {})", "np.fmod({}, {})", "np.true_divide({}, {})", "np.outer({}, {})", "np.divmod({}, {})[1]",
    "np.where({} > 0, {}, 1)", "np.where({}, {}, 0.5)", "np.clip({}, -1, {})", "np.dot({}, {})",
    "{} @ np.transpose({})",
)  # fmt: skip
_NUMBERS = (
    "2", "-1", "0", "True", "0.5", "1.5j", "np.float32(2)", "np.int8(3)", "np.uint8(200)", "np.float64(0.25)",
    "np.int64(7)", "300", "np.bool_(True)", "2**40",
)  # fmt: skip
_REDUCED = (
    "np.sum({}{})", "np.prod({}{})", "np.mean({}{})", "np.max({}{})", "np.min({}{})", "np.any({}{})", "np.all({}{})",
    "np.var({}{})", "np.std({}{})", "np.count_nonzero({}{})", "np.ptp({}{})", "np.argmax({}{})",
    "np.linalg.norm({}{})", "np.add.reduce({}{})", "np.median({}{})", "np.average({}{})",
    "np.logical_or.reduce({}{})", "np.argmin({}{})",
)  # fmt: skip
_ALONG = (
    "np.cumsum({}{})", "np.cumprod({}{})", "np.sort({}{})", "np.flip({}{})", "np.diff({}{})", "np.roll({}, 1{})",
    "np.repeat({}, 2{})", "np.concatenate([{0}, {0}]{1})", "np.stack([{0}, {0}]{1})", "np.argsort({}{})",
    "np.expand_dims({}, 0)", "np.take({}, [0, -1]{})", "np.delete({}, 0{})", "np.insert({}, 0, 1{})",
    "np.split({}, 1{})[0]", "np.add.accumulate({}{})", "np.append({0}, {0}{1})", "np.gradient({}{})",
)  # fmt: skip
_SHAPED = (
    "{}.T", "{}.ravel()", "{}.reshape(-1)", "{}.copy()", "{}[::-1]", "{}[...]", "{}[1:]", "{}[..., :2]", "{}[None]",
    "np.squeeze({})", "{}.astype(np.float32)", "{}.astype(int)", "{}.astype(bool)", "{}.flatten()",
    "np.swapaxes({}, 0, -1)", "np.broadcast_to({0}, (2, *{0}.shape))", "np.pad({}, 1)", "np.tile({}, 2)", "{}[0]",
    "{}[-1:]", "np.triu({})", "np.diag({})", "np.trace({})", "np.atleast_2d({})", "np.zeros_like({})",
    "np.full_like({}, 2)", "{}.real", "{}.imag", "np.ones_like({}, dtype=np.int8)", "{}[[0, 0]]", "np.rot90({})",
    "{}.transpose()", "np.moveaxis({}, 0, -1)", "{}.item()", "np.ascontiguousarray({})", "np.asarray({})",
    "np.array({})", "{}.view()", "{}.tolist()", "np.tril({}, -1)", "np.kron({0}, {0})", "np.unique({})",
    "np.nonzero({})", "{}.astype(np.complex64)", "{}.astype('i1')",
)  # fmt: skip
_WRITES = (
    "{t}[...] = {v}", "{t}[0] = {v}", "{t}[1:] += {v}", "{t} += {v}", "{t} *= {v}", "{t} -= {v}", "{t}[1:].fill({n})",
    "{t}.ravel()[...] = {n}", "{t}.reshape(-1)[0] = {n}", "{t}.T[...] = {n}", "{t}[{t} > 1] = {n}", "{t}[::2] = {n}",
    "np.copyto({t}, {v})", "np.add({t}, {v}, out={t})", "np.add.at({t}, [0, 0], {n})",
    "np.putmask({t}, {t} > 0, {n})", "np.multiply({t}, {v}, out={t}, where={t} > 0)", "{t}.flat[0] = {n}",
    "{t}[..., -1] = {n}", "{t}.sort()", "np.copyto({t}, {n}, where={t} > 0)", "{t}[[0, -1]] = {n}", "{t} //= {n}",
    "{t}.T.reshape(-1)[-1:] = {n}", "{t} |= {n}", "np.fill_diagonal({t}, {n})", "np.maximum({t}, {n}, out={t})",
    "{t}[:1, ...] /= {n}", "{t} **= 2", "np.place({t}, {t} > 1, [{n}])",
    "np.clip({t}, 0, 1, out={t})",
)  # fmt: skip
_KEYWORDS = ("", "", ", axis=0", ", axis=-1", ", axis=1", ", axis=None")
_MORE = (
    "", "", "", ", keepdims=True", ", dtype=np.float32", ", dtype=int", ", initial=1", ", where=True",
    ", axis=(0, 1)",
)  # fmt: skip


def _program(seed: int) -> tuple[list[tuple], list[str], str]:
    """Return the arguments, the lines and what is returned."""
    rng = np.random.default_rng([21, seed])
    choice = lambda items: items[int(rng.integers(len(items)))]
    shape, first = choice(_SHAPES), choice(_DTYPES)
    args = [(first, shape, choice(_LAYOUTS), 0)]
    if rng.random() < 0.6:
        others = [shape, shape, shape, shape[1:], (), choice(_SHAPES)]
        args.append((choice((first, choice(_DTYPES))), choice(others), choice(_LAYOUTS), 1))
    values = ["x", "y"][: len(args)]
    lines: list[str] = []
    operand = lambda: choice(values) if rng.random() < 0.7 else choice([*values[-2:], choice(_NUMBERS), "CONSTANT"])
    for k in range(int(rng.integers(1, 6))):
        way, v = rng.random(), choice(values[-3:])
        if way < 0.2:
            lines.append(choice(_WRITES).format(t=v, v=operand(), n=choice(_NUMBERS)))
            continue
        if way < 0.35:
            text = choice(_UNARY).format(v)
        elif way < 0.6:
            a, b = (v, operand()) if rng.random() < 0.7 else (operand(), v)
            text = choice(_BINARY).format(a, b)
        elif way < 0.75:
            text = choice(_REDUCED).format(v, choice(_KEYWORDS) or choice(_MORE))
        elif way < 0.85:
            text = choice(_ALONG).format(v, choice(_KEYWORDS))
        else:
            text = choice(_SHAPED).format(v)
        values.append(f"v{k}")
        lines.append(f"v{k} = {text}")
    results = [values[-1], *[choice([*values, "CONSTANT", "CONSTANT[1:]"]) for _ in range(int(rng.integers(0, 3)))]]
    return args, lines, ", ".join(results)


def _text(args: list[tuple], lines: list[str], result: str) -> str:
    given = ", ".join(["x", "y"][: len(args)])
    made = ", ".join([f"arg({', '.join(map(repr, a))})" for a in args])
    body = "".join([f"    {line}\n" for line in lines])
    return (
        "from tests.adversaries.numpy_calls import arg\nCONSTANT = np.arange(3.0)\n\n\n"
        f"def f({given}):\n{body}    return {result}\n\n\nmake = lambda: ({made},)\n"
    )


def case(seed: int) -> Case:
    """Return the case of a seed."""
    return case_of(*_program(seed), seed)


def case_of(args: list[tuple], lines: list[str], result: str, seed: int) -> Case:
    """Return the case of arguments (of ``arg``), lines and what is returned; those of odd seeds run as machine code."""
    text = _text(args, lines, result)

    def smaller() -> Iterator[Case]:
        for i in range(len(lines)):
            yield case_of(args, [*lines[:i], *lines[i + 1 :]], result, seed)
        for part in result.split(", "):
            if part != result:
                yield case_of(args, lines, part, seed)
        for i, (dtype, shape, layout, number) in enumerate(args):
            if layout != "C":
                yield case_of([*args[:i], (dtype, shape, "C", number), *args[i + 1 :]], lines, result, seed)

    return Case(
        "numpy_calls", f"{text}# native={bool(seed % 2)}\n", lambda: _check(text, args, bool(seed % 2)), smaller
    )


#: words of errors of NumPy's that dualad does not have: a write of an array of one entry into an entry, which NumPy
#: took until 2.4, Python's own division in np.average of nothing, and a number where NumPy wants an array without axes
_TAKEN = (
    "an array element with a sequence", "only 0-dimensional arrays can be converted", "division by zero",
    "must be of ArrayType", "must be a numpy.ndarray", "argument must be an array",
)  # fmt: skip
#: most entries of anything that is computed: more are a question of memory, and NumPy's own functions take a minute
_LARGEST = 1 << 24
#: most numbers of a program whose second derivatives are compared
_FEW = 15
#: a difference is one of rounding if it is at most so many times what rounding does to plain NumPy
_FURTHER = 32
_OBJECTS = re.compile(r"(v\d+) = np\.(?:as|ascontiguous|)array\(")


# ── what is seen of a call ───────────────────────────────────────────────────────────────────────────────────────


def _called(f: Callable, given: tuple) -> tuple[Any, Exception | None]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*given), None
        except Exception as error:
            return None, error


def _check(text: str, args: list[tuple], native: bool) -> None:
    if _writes_objects(text) or (("?", ()) in [a[:2] for a in args] and "**" in text):
        raise Void  # NumPy's power of an array without axes has another dtype than that of a truth value
    space = named(text)
    f, make, constant = space["f"], space["make"], space["CONSTANT"]
    before = constant.copy()
    rounding = _rounding(text)
    # A pass that can't be proven is left out, with a word in the log: no difference to who calls the function.
    with settings(native), pytest.MonkeyPatch.context() as patch:
        patch.setattr(trust, "fall_back", _left_out)
        fast = da.jit(f)
        layouts = [args, [(d, s, "C", n) for d, s, _, n in args], args, args]
        for variant in layouts:
            given, plain = [tuple([arg(*a) for a in variant]) for _ in range(2)]
            expected, error = _called(f, plain)
            if not np.array_equal(constant, before):
                raise Void
            found, refusal = _called(fast, given)
            if error is not None:
                if any([words in str(error) for words in _TAKEN]) or _is_stretched(text, error):
                    raise Void
                if refusal is None:
                    expected, plain = _without_errors(text, error, variant)
                    _alike(found, expected, f"without {type(error).__name__}: {error}: a result", rounding)
                    _alike(given, plain, f"without {type(error).__name__}: {error}: an argument afterwards", rounding)
                continue
            if refusal is not None:
                # NumPy's fill and flat write into a copy of a number, its ufunc.at into what is read-only; its take
                # takes from an axis without entries, if there are none of the others.
                refused = (".at(" in text and "is read-only" in str(refusal)) or "non-empty take" in str(refusal)
                if refused or is_taught(refusal):
                    return
                raise Difference(f"{type(refusal).__name__}: {refusal}")
            try:
                _alike(found, expected, "a result", rounding)
            except Difference:  # an array of objects without entries has no type
                empty = any([np.size(x) == 0 for x in _leaves(expected)]) and _OBJECTS.search(text)
                if empty or _is_rounding(text, variant, found, expected):
                    raise Void from None
                raise
            _alike(given, plain, "an argument afterwards", rounding)
            if all([a.flags.writeable for a in given]):  # to write to one that is not is left to the function itself
                _apart(found, expected, given, constant)
        if error is not None:
            raise Void
        # What np.asarray makes of a tensor is an array of objects, a copy.
        if all([np.dtype(d).kind == "f" for d, *_ in args]) and not _OBJECTS.search(text):
            _derivatives(f, make, rounding)


class _Rounding(NamedTuple):
    """The largest of the arguments (deviations of equal numbers are its rounding), and the least precise type met."""

    size: float
    eps: float


_EXACT = _Rounding(0.0, 0.0)


def _rounding(text: str) -> _Rounding:
    space = named(text.replace("    return ", "    return list(locals().values()), "))
    floats = lambda values: [v for v in values if getattr(v, "dtype", np.dtype(bool)).kind in "fc"]
    given = space["make"]()
    met, error = _called(space["f"], given)
    # Of arrays alone: a list was made of one, and to walk through its numbers takes longer than the program.
    if error is None and any([v.size > _LARGEST for v in met[0] if isinstance(v, np.ndarray)]):
        raise Void
    types = [v.dtype for v in floats(given if error is not None else met[0])]
    size = max([float(np.max(np.abs(a), initial=0.0)) for a in floats(space["make"]())], default=0.0)
    return _Rounding(size, max([float(np.finfo(t).eps) for t in types], default=0.0))


def _is_rounding(text: str, variant: list[tuple], found: Any, expected: Any) -> bool:
    """Tell whether plain NumPy goes as far for numbers that are off by their rounding, entry by entry.

    Off are the arguments, and in every other try what is computed of them or written into them, too: a remainder of
    2**53 by a deviation has no digit in common with that of the deviation's neighbour. Numbers that are equal but for
    rounding are sorted either way, one try in two.
    """
    computed = re.sub(r"^    (\w+) \W*= .*", r"\g<0>\n    \1 = off(\1)", text, flags=re.MULTILINE)
    far = [np.zeros(np.shape(x)) for x in _leaves(expected)]
    for k in range(32):
        f = named(computed if k % 2 else text, off=lambda x, k=k: _off(x, k))["f"]
        sign = (-1) ** (k // 2)
        by = lambda a, sign=sign: 1 + sign * 8 * np.finfo(a.dtype).eps
        off = lambda a, sign=sign, by=by: np.where(a == 0, sign * np.finfo(a.dtype).tiny, a * by(a)).astype(a.dtype)
        moved = tuple([off(a) if a.dtype.kind in "fc" else a for a in [arg(*a) for a in variant]])
        other, error = _called(f, moved)
        if error is not None or not _are_like(other, expected):
            return True
        far = [np.maximum(d, _distance(x, y)) for d, x, y in zip(far, _leaves(other), _leaves(expected), strict=True)]
    if not _are_like(found, expected):
        return False
    pairs = zip(far, _leaves(found), _leaves(expected), strict=True)
    return all([bool(np.all(_distance(x, y) <= _FURTHER * d)) for d, x, y in pairs])


def _off(x: Any, seed: int) -> Any:
    """Return what was computed, off by some roundings where it is rounded; views of an array stay its views."""
    kind = getattr(getattr(x, "dtype", None), "kind", "O")
    if kind not in "fc" or not np.size(x):
        return x
    eps = np.finfo(x.dtype).eps
    by = np.random.default_rng(seed).integers(-8, 9, (2, *np.shape(x)))
    factor = 1 + eps * (by[0] if kind == "f" else by[0] + 1j * by[1])
    exact = (x == np.rint(x)) & (np.abs(x) < 0.5 / eps)
    moved = np.where(exact, x, x * factor).astype(x.dtype)
    if isinstance(x, np.ndarray) and x.flags.writeable:
        x[...] = moved
        return x
    return moved[()]


def _are_like(found: Any, expected: Any) -> bool:
    form = lambda values: [(np.shape(x), np.asarray(x).dtype.newbyteorder("=")) for x in _leaves(values)]
    return form(found) == form(expected)


def _distance(x: Any, y: Any) -> np.ndarray:
    """Return how far entries are from one another: infinitely, where one of them is no number."""
    a, b = [np.asarray(v).astype(complex) for v in (x, y)]
    with np.errstate(all="ignore"):
        d = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(d), np.inf, d))


def _writes_objects(text: str) -> bool:
    """Tell whether something is written into what np.asarray makes of a tensor, whose entries have their own types."""
    names = [found.group(1) for found in _OBJECTS.finditer(text)]
    for made, given in re.findall(r"^    (v\d+) = (.*)", text, re.MULTILINE):  # and into views of it
        names += [made] if any([re.search(rf"\b{v}\b", given) for v in names]) else []
    return any([re.search(rf"^    (?!v\d+ = |return).*\b{v}\b", text, re.MULTILINE) for v in names])


def _is_stretched(text: str, error: Exception) -> bool:
    """Tell whether NumPy refuses a write into a number that is stretched, or into the zeros of an imaginary part."""
    return "read-only" in str(error) and any([words in text for words in ("broadcast_to", "imag")])


def _left_out(part: str, error: Exception) -> None:
    if not isinstance(error, validate.DifferentProgram):
        raise error


def _without_errors(text: str, error: Exception, variant: list[tuple]) -> tuple[Any, tuple]:
    """Return what a function gives, and its arguments afterwards, without the lines that raise.

    A program computes what results depend on, so the error of a line that they do not depend on is not seen.
    """
    while True:
        space = named(text)
        given = tuple([arg(*a) for a in variant])
        out, raised = _called(space["f"], given)
        if raised is None:
            return out, given
        file, lines = space["__name__"], text.splitlines()
        place = [n for frame, n in traceback.walk_tb(raised.__traceback__) if frame.f_code.co_filename == file][-1]
        # A Python integer without room in an unsigned dtype is such a power, too.
        if "negative integer powers" in str(raised) or "out of bounds for uint" in str(
            raised
        ):  # what is read may be its shape, which another power has too
            line = re.sub(r"\*\* (\S+)", r"** abs(\1)", lines[place - 1])
            if line != lines[place - 1]:
                text = "\n".join([*lines[: place - 1], line, *lines[place:], ""])
                continue
        if re.search("'(float|complex|int|bool)' object has no", str(raised)):  # a tensor's number has what arrays have
            raise Void
        if "return" in lines[place - 1]:
            raise Difference(f"no error, in place of {type(error).__name__}: {error}")
        text = "\n".join([*lines[: place - 1], f"    0  # {lines[place - 1].strip()}", *lines[place:], ""])


def _leaves(x: Any) -> list:
    return [leaf for part in x for leaf in _leaves(part)] if isinstance(x, (tuple, list)) else [x]


def _alike(found: Any, expected: Any, what: str, rounding: _Rounding = _EXACT) -> None:
    """Raise unless two results agree, up to rounding."""
    if len(_leaves(found)) != len(_leaves(expected)):
        raise Difference(f"{what}: {len(_leaves(found))} parts, not {len(_leaves(expected))}")
    for x, y in zip(_leaves(found), _leaves(expected), strict=True):
        a, b = np.asarray(x), np.asarray(y)
        if a.shape != b.shape or a.dtype.newbyteorder("=") != b.dtype.newbyteorder("="):
            raise Difference(f"{what}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}")
        a, b = (v.astype(v.dtype.newbyteorder("=")) for v in (a, b))
        if b.dtype.kind not in "fc":
            same = np.array_equal(a, b)
        else:
            eps = max(float(np.finfo(b.dtype).eps), rounding.eps)
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=rounding.size)
            far, near = (1e-11, 1e-13) if eps < 1e-15 else (200 * eps, 10 * eps)
            same = np.allclose(a, b, far, float(scale) * near, equal_nan=True)
        if not same:
            raise Difference(f"{what}: {a.ravel()[:6]}, not {b.ravel()[:6]}")


def _apart(found: Any, expected: Any, given: tuple, constant: np.ndarray) -> None:
    """Raise where new results share memory with anything, but for one that plain code returns twice as it is."""
    pairs = list(zip(_leaves(found), _leaves(expected), strict=True))
    new = [(x, y) for x, y in pairs if isinstance(x, np.ndarray) and not any([x is a for a in given])]
    for i, (x, y) in enumerate(new):
        if not x.flags.writeable:
            raise Difference("a new result is read-only")
        for other in (*[a for a, b in new[:i] if b is not y], *given, *[constant] * (x is not constant)):
            if np.may_share_memory(x, other):
                raise Difference("a result shares memory with another, an argument or a constant")


def _derivatives(f: Callable, make: Callable, rounding: _Rounding) -> None:
    def total(*xs: Any) -> Any:
        parts = _leaves(f(*[x * 1.0 for x in xs]))
        if any([isinstance(p, np.ndarray) and p.dtype == object for p in parts]):
            raise Void  # what np.array makes of a tensor is slow, and no part of this
        parts = [p for p in parts if np.dtype(getattr(p, "dtype", float)).kind == "f"]
        return sum([np.sum(p * 0.5) for p in parts], start=0.0 * np.sum(xs[0]))

    places = tuple(range(len(make())))
    few = sum([np.size(a) for a in make()]) <= _FEW
    ways = {
        "gradient": lambda g: da.grad(g, places),
        "lanes": da.vmap,
        **({"Hessian": lambda g: da.hessian(g, places)} if few else {}),
    }
    for name, transform in ways.items():
        g = total if name != "lanes" else lambda *xs: f(*[x * 1.0 for x in xs])
        given = tuple([np.stack([a, a * 0.5]) if name == "lanes" else np.array(a) for a in make()])
        expected, error = _called(transform(g), given)
        if error is not None:
            continue
        for what, fast in (("inside", transform(da.jit(g))), ("outside", da.jit(transform(g)))):
            found, refusal = _called(fast, given)
            if refusal is not None:
                if is_taught(refusal):
                    continue
                raise Difference(f"{name}, jit {what}: {type(refusal).__name__}: {refusal}")
            _alike(found, expected, f"{name}, jit {what}", rounding)
