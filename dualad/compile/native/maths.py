"""Mathematical functions of float64 numbers, written over ``Lanes``: one text for one lane and for eight.

Each is within 4 units in the last place of the true value for every float64 argument, gives what NumPy gives at zeros,
infinities and NaN, and computes a lane from that lane alone. ``sin`` and ``cos`` hold for arguments up to ``FAR``;
beyond, the platform's library is asked, lane by lane. Not for: operators, or other types.

The coefficients are minimax fits on the reduced ranges; those of the logarithm, sine and cosine are fdlibm's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .code import Lanes

__all__ = ["FAR", "FUNCTIONS", "KERNELS", "KERNELS_OF_TWO", "arity", "power"]

#: beyond, the reduction of sin and cos by three parts of π/2 is not exact enough
FAR = 1e5

_LOG2E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 · 2**52: adding it leaves a whole number in the low bits
_TINY = 2.2250738585072014e-308
#: (exp(r) − 1 − r) / r² for |r| ≤ ln 2 / 2
_EXP = [0.5, 0.1666666666666667, 0.041666666666666685, 0.008333333333326082, 0.001388888888887429,
        0.00019841269875003868, 2.4801587347591023e-05, 2.7557255168336002e-06, 2.7557252673788055e-07,
        2.5105313336043612e-08, 2.0921668747661267e-09]  # fmt: skip
_LOG = [6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
        1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01]  # fmt: skip
_SIN = [-1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
        2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10]  # fmt: skip
_COS = [4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
        -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11]  # fmt: skip
#: erf(x) / x in x² for |x| ≤ 1
_ERF = [1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792, 0.0052239776248180145,
        -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05, 1.6461000484121368e-06,
        -1.6350312701054695e-07, 1.4659775274047436e-08, -1.1372848856791674e-09, 5.957176147748911e-11]  # fmt: skip
#: exp(x²) erfc(x) in (x − 3) / (x + 3) for 1 ≤ x ≤ 6
_ERFCX = [0.17900115118138996, -0.3262335600430372, 0.2456038017123309, -0.15011593650077576, 0.07166583719797448,
          -0.02439249931879396, 0.004269136333016577, 0.0007077464436100515, -0.000597061951641291,
          4.5255202087917296e-05, 6.405655833037744e-05, -1.2859373872800711e-05, -7.977580565974181e-06,
          2.1127017373927268e-06, 1.2457851697989315e-06, -2.699900671050227e-07, -2.0413420734917862e-07]  # fmt: skip
#: digamma(x) / (x − r) in x − 3/2 for 1 ≤ x ≤ 2, where r is its zero
_DIGAMMA_ROOT, _DIGAMMA_ROOT_LOW = 1.4616321449683622, 9.549995429965697e-17
_DIGAMMA = [0.951055876031833, -0.4236274212814605, 0.2405424842407742, -0.14840492305390884, 0.09498872445494122,
            -0.061922133273064534, 0.04076083381242074, -0.02697579675613825, 0.0179072524394512, -0.011908218001568644,
            0.007926944646403797, -0.005279964873257405, 0.003519006401502276, -0.002345267632540769,
            0.0015566317474486838, -0.0010376374098418604, 0.0007233266279287554, -0.0004821990530566789,
            0.0002272331660987376, -0.00015148586836773365, 0.00025968482126430747,
            -0.00017312261802727394]  # fmt: skip
#: Bernoulli's numbers B₂ₖ/2k, of digamma's asymptotic series
_DIGAMMA_TAIL = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160]


def _polynomial(b: Lanes, coefficients: Sequence[float], x: str) -> str:
    """Return the sum of coefficients[i] · x**i, in a tree: short chains."""
    terms: list[str | float] = list(coefficients)
    while True:
        terms = [b.fma(terms[i + 1], x, terms[i]) if i + 1 < len(terms) else terms[i] for i in range(0, len(terms), 2)]
        if len(terms) == 1:
            return str(terms[0])
        x = b.mul(x, x)


def _at_least(b: Lanes, x: str, bound: float) -> str:
    return b.select(b.compare("olt", x, bound), bound, x)


def _two_to(b: Lanes, k: str) -> str:
    """Return 2**k for a whole number k in [-1022, 1023]."""
    return b.from_bits(b.on_bits("shl", b.as_bits(b.add(k, _MAGIC + 1023.0)), 52))


def _exponential(b: Lanes, x: str) -> tuple[str, str]:
    """Return k and expm1(x − k·ln 2)."""
    k = b.call("rint", b.mul(x, _LOG2E))
    r = b.fma(k, -_LN2_LOW, b.fma(k, -_LN2_HIGH, x))
    return k, b.fma(b.mul(r, r), _polynomial(b, _EXP, r), r)


def _halves(b: Lanes, k: str) -> tuple[str, str]:
    """Return 2**k in two factors, neither of which overflows."""
    first = b.call("rint", b.mul(k, 0.5))
    return _two_to(b, first), _two_to(b, b.sub(k, first))


def exp(b: Lanes, x: str) -> str:
    k, p = _exponential(b, b.at_most(_at_least(b, x, -746.0), 710.0))
    one, other = _halves(b, k)
    return b.mul(b.mul(b.add(p, 1.0), one), other)


def expm1(b: Lanes, x: str) -> str:
    k, p = _exponential(b, b.at_most(_at_least(b, x, -746.0), 710.0))  # as exp does: beside it nearly all is shared
    one, other = _halves(b, k)
    scale = b.mul(one, other)
    y = b.select(b.compare("oeq", x, 0.0), x, b.fma(p, scale, b.sub(scale, 1.0)))
    large = b.mul(b.mul(b.add(p, 1.0), one), other)  # where 1 is lost beside it, and 2**k may overflow
    return b.select(b.compare("ogt", x, 60.0), large, y)


def tanh(b: Lanes, x: str) -> str:
    a = b.at_most(b.call("fabs", x), 20.0)
    k, p = _exponential(b, b.add(a, a))
    scale = _two_to(b, k)
    e = b.fma(p, scale, b.sub(scale, 1.0))
    return b.call("copysign", b.div(e, b.add(e, 2.0)), x)


def _split_exponent(b: Lanes, x: str) -> tuple[str, str]:
    """Return k and m in [√½, √2) with x = 2**k · m, for a positive number."""
    tiny = b.compare("olt", x, _TINY)
    shifted = b.on_bits("sub", b.as_bits(b.select(tiny, b.mul(x, 18014398509481984.0), x)), 0x3FE6A09E667F3BCD)
    biased = b.on_bits("xor", b.on_bits("lshr", shifted, 52), 0x800)
    k = b.sub(b.from_bits(b.on_bits("or", biased, 0x4330000000000000)), 4503599627370496.0 + 2048.0)
    k = b.sub(k, b.select(tiny, 54.0, 0.0))
    mantissa = b.on_bits("and", shifted, 0x000FFFFFFFFFFFFF)
    return k, b.from_bits(b.on_bits("add", mantissa, 0x3FE6A09E667F3BCD))


def _logarithm(b: Lanes, k: str, f: str, correction: str) -> str:
    """Return k·ln 2 + log(1 + f) + correction."""
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    r = b.mul(z, _polynomial(b, _LOG, z))
    h = b.mul(b.mul(f, f), 0.5)
    low = b.fma(s, b.add(h, r), correction)
    return b.fma(k, _LN2_HIGH, b.sub(f, b.sub(h, low)))


def log(b: Lanes, x: str) -> str:
    k, m = _split_exponent(b, x)
    y = _logarithm(b, k, b.sub(m, 1.0), b.mul(k, _LN2_LOW))
    y = b.select(b.compare("oeq", x, math.inf), x, y)
    y = b.select(b.compare("oeq", x, 0.0), -math.inf, y)
    return b.select(b.compare("oge", x, 0.0), y, math.nan)


def log1p(b: Lanes, x: str) -> str:
    u = b.add(x, 1.0)
    k, m = _split_exponent(b, u)
    lost = b.div(b.sub(x, b.sub(u, 1.0)), u)  # what rounding 1 + x took away
    small = b.both(b.compare("ogt", x, -0.29), b.compare("olt", x, 0.41))
    f = b.select(small, x, b.sub(m, 1.0))
    k, lost = b.select(small, 0.0, k), b.select(small, 0.0, lost)
    y = _logarithm(b, k, f, b.fma(k, _LN2_LOW, lost))
    y = b.select(b.compare("oeq", x, math.inf), x, y)
    y = b.select(b.compare("oeq", x, -1.0), -math.inf, y)
    y = b.select(b.compare("oeq", x, 0.0), x, y)
    return b.select(b.compare("oge", x, -1.0), y, math.nan)


def _reduce_quarter_turns(b: Lanes, x: str) -> tuple[str, str, str]:
    """Return the number of quarter turns in x, and sine and cosine of the rest."""
    q = b.call("rint", b.mul(x, 0.6366197723675814))
    r = b.fma(q, -1.5707963267948966, x)
    r = b.fma(q, -6.123233995736766e-17, r)
    r = b.fma(q, 1.4973849048591833e-33, r)
    z = b.mul(r, r)
    s = b.fma(b.mul(r, z), _polynomial(b, _SIN, z), r)
    c = b.fma(b.mul(z, z), _polynomial(b, _COS, z), b.fma(z, -0.5, 1.0))
    return b.as_bits(b.add(q, _MAGIC)), s, c


def _signed(b: Lanes, y: str, quarter: str) -> str:
    return b.from_bits(b.on_bits("xor", b.as_bits(y), b.on_bits("shl", b.on_bits("and", quarter, 2), 62)))


def _is_odd(b: Lanes, quarter: str) -> str:
    return b.code.value(f"trunc {b.bits} {quarter} to {b.mask}")


def sin(b: Lanes, x: str) -> str:
    quarter, s, c = _reduce_quarter_turns(b, x)
    s = b.select(b.compare("oeq", x, 0.0), x, s)
    return _signed(b, b.select(_is_odd(b, quarter), c, s), quarter)


def cos(b: Lanes, x: str) -> str:
    quarter, s, c = _reduce_quarter_turns(b, x)
    return _signed(b, b.select(_is_odd(b, quarter), s, c), b.on_bits("add", quarter, 1))


def erf(b: Lanes, x: str) -> str:
    square, a = b.mul(x, x), b.call("fabs", x)
    small = b.mul(x, _polynomial(b, _ERF, b.at_most(square, 1.0)))
    bounded = b.at_most(a, 6.05)
    u = b.div(b.sub(bounded, 3.0), b.add(bounded, 3.0))
    tail = b.mul(exp(b, b.neg(square)), _polynomial(b, _ERFCX, u))
    large = b.call("copysign", b.sub(1.0, tail), x)
    return b.select(b.compare("olt", a, 1.0), small, large)


def logistic(b: Lanes, x: str) -> str:
    t = exp(b, b.neg(b.call("fabs", x)))
    return b.div(b.select(b.compare("olt", x, 0.0), t, 1.0), b.add(t, 1.0))


def psi(b: Lanes, x: str) -> str:
    """Digamma: from −1 to 4 by its zero, moved to [1, 2]; asymptotic from 10 on, moved there; left of −1 mirrored.

    Of negative numbers it is within 4 units of the larger of its two parts, near whose sums' zeros digits cancel.
    """
    left = b.compare("olt", x, 0.0)
    w = b.select(left, b.sub(1.0, x), x)
    one, two = b.sub(w, 1.0), b.sub(w, 2.0)
    inner, over, under = b.add(w, 1.0), b.constant(-1.0), w
    for bound, moved, above, beneath in ((1.0, w, 0.0, 1.0), (2.0, one, 1.0, one), (3.0, two, 1.0, two)):
        past = b.compare("ogt", w, bound)
        inner, over, under = b.select(past, moved, inner), b.select(past, above, over), b.select(past, beneath, under)
    right = b.add(x, 1.0)
    inside = b.both(left, b.compare("ogt", x, -1.0))  # ψ(x + 2) − 1/x − 1/(x + 1)
    inner, over = b.select(inside, b.add(x, 2.0), inner), b.select(inside, b.neg(b.add(x, right)), over)
    under = b.select(inside, b.mul(x, right), under)
    twice = b.select(past, b.div(1.0, one), 0.0)
    t = b.sub(inner, 1.5)
    p = b.fma(t, _polynomial(b, _DIGAMMA[1:], t), _DIGAMMA[0])
    near = b.fma(b.sub(inner, _DIGAMMA_ROOT), p, b.div(over, under))
    near = b.add(near, b.fma(p, -_DIGAMMA_ROOT_LOW, twice))
    small = b.compare("olt", w, 10.0)
    y = b.select(small, b.add(w, 8.0), w)
    r = b.div(1.0, y)
    z = b.mul(r, r)
    rest = b.fma(r, 0.5, b.mul(z, _polynomial(b, _DIGAMMA_TAIL, z)))
    pairs = [b.div(b.add(b.add(w, w), 7.0), b.mul(b.add(w, float(k)), b.add(w, 7.0 - k))) for k in range(4)]
    steps = b.add(b.add(pairs[3], pairs[2]), b.add(pairs[1], pairs[0]))
    far = b.sub(log(b, y), b.select(small, b.add(rest, steps), rest))  # small terms are added up first
    out = b.select(b.compare("olt", w, 4.0), near, far)
    turn = b.mul(b.sub(x, b.call("rint", x)), math.pi)
    mirrored = b.sub(out, b.div(b.mul(cos(b, turn), math.pi), sin(b, turn)))
    mirrored = b.select(b.compare("oeq", turn, 0.0), math.nan, mirrored)
    out = b.select(b.compare("ole", x, -1.0), mirrored, out)
    return b.select(b.compare("oeq", x, 0.0), b.div(-1.0, x), out)


def logaddexp(b: Lanes, x: str, y: str) -> str:
    """Of equal numbers, infinite ones too, it is x + log 2; else what the smaller one adds to the larger."""
    gap = b.sub(x, y)
    larger = b.select(b.compare("ogt", gap, 0.0), x, y)
    added = log1p(b, exp(b, b.neg(b.call("fabs", gap))))
    return b.select(b.compare("oeq", x, y), b.add(x, math.log(2.0)), b.add(larger, added))


def _times_log(logarithm: Callable[[Lanes, str], str]) -> Callable[[Lanes, str, str], str]:
    """Return x times a logarithm, which is 0 where x is, of any number."""

    def write(b: Lanes, x: str, y: str) -> str:
        nothing = b.both(b.compare("oeq", x, 0.0), b.compare("oeq", y, y))
        return b.select(nothing, 0.0, b.mul(x, logarithm(b, y)))

    return write


#: functions of the platform's library, and how many arguments they take
_LIBRARY: dict[str, tuple[str, int]] = {
    "arccos": ("acos", 1), "arccosh": ("acosh", 1), "arcsin": ("asin", 1), "arcsinh": ("asinh", 1),
    "arctan": ("atan", 1), "arctan2": ("atan2", 2), "arctanh": ("atanh", 1), "cbrt": ("cbrt", 1), "cosh": ("cosh", 1),
    "exp2": ("exp2", 1), "hypot": ("hypot", 2), "log10": ("log10", 1), "log2": ("log2", 1), "power": ("pow", 2),
    "sinh": ("sinh", 1), "tan": ("tan", 1), "erfc": ("erfc", 1), "gammaln": ("lgamma", 1),
}  # fmt: skip

KERNELS: dict[str, Callable[[Lanes, str], str]] = {
    "exp": exp, "expm1": expm1, "tanh": tanh, "log": log, "log1p": log1p, "sin": sin, "cos": cos, "erf": erf,
    "logistic": logistic, "expit": logistic, "psi": psi,
}  # fmt: skip
KERNELS_OF_TWO: dict[str, Callable[[Lanes, str, str], str]] = {
    "logaddexp": logaddexp, "xlogy": _times_log(log), "xlog1py": _times_log(log1p),
}  # fmt: skip

#: operators that are mathematics: functions of ours, or names in the platform's library
FUNCTIONS: dict[str, Callable[..., str] | tuple[str, int]] = {**KERNELS, **KERNELS_OF_TWO, **_LIBRARY}


def arity(name: str) -> int:
    """Return the count of a function's arguments."""
    return _LIBRARY[name][1] if name in _LIBRARY else 1 + (name in KERNELS_OF_TWO)


def power(b: Lanes, x: str, n: float) -> str | None:
    """Return x**n for a small whole or half exponent as products, quotients and a root; None for others."""
    if n not in (-3.5, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5):
        return None
    if n == 0.5:
        return b.call("sqrt", x)  # as NumPy: -0.0 stays, and the root of -inf is NaN
    half, times = n % 1 != 0, int(abs(n))
    a = b.call("fabs", x) if half else x
    if n < 0:
        y = b.div(1.0, b.call("sqrt", a)) if not times else b.div(1.0, a)
        for _ in range(times - 1):
            y = b.div(y, a)
        if half and times:
            y = b.div(y, b.call("sqrt", a))
    else:
        y = b.call("sqrt", a) if half else a
        for _ in range(times if half else times - 1):
            y = b.mul(y, a)
    if not half:
        return y
    negative = b.both(b.compare("olt", x, 0.0), b.compare("one", x, -math.inf))
    return b.select(negative, math.nan, y)
