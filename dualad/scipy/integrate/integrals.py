"""``quad`` and its family with derivatives, in limits and in parameters.

Plain arguments go straight to SciPy. Not for: integrals of samples (``samples.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate as si
from scipy.special import roots_legendre

from ...base.frames import public
from ...boundary.boundary import running
from ...control.linear_solve import cast
from ...core.aval import Aval, aval_of
from ...core.dispatch import bind
from ...core.tracer import tracer_in
from ...errors import ArgumentTypeError, UnsupportedError
from ...surface.arguments import operand
from ..closures import Inputs
from ..mirror import as_args, mirrors
from .functions import number, numbers, plain_of, reads_tensors, refuse_full_output, watch_results
from .quadrature import Integral, integral

__all__ = ["dblquad", "fixed_quad", "nquad", "quad", "quad_vec", "tplquad"]

_PLACES = {
    "points": "where the integrand is not smooth is where the integral is to be cut: add the parts,"
    " quad(f, a, p)[0] + quad(f, p, b)[0], whose limits may be traced",
    "wvar": "write the weight into the integrand, or pass a plain number",
}


@public
def quad(
    func: Callable, a: Any, b: Any, args: Any = (), full_output: int = 0, epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8, limit: int = 50, points: Any = None, weight: str | None = None, wvar: Any = None,
    wopts: Any = None, maxp1: int = 50, limlst: int = 50, complex_func: bool = False,
) -> tuple:  # fmt: skip
    """Integrate a function of a number, as ``scipy.integrate.quad`` does, and differentiate the integral.

    Parameters
    ----------
    func, a, b, args, full_output, epsabs, epsrel, limit, points, weight, wvar, wopts, maxp1, limlst, complex_func
        As of SciPy's; the limits (infinite ones too) and ``args`` may be traced, and ``func`` may read traced values
        from its closure. The derivative is integrated with the same points, weight and tolerances.

    Returns
    -------
    value : number
        The integral; its derivative follows Leibniz's rule.
    abserr : number
        SciPy's estimate of the error, which has no derivative.
    infodict, message, explain
        With ``full_output``, as of SciPy's.

    Warns
    -----
    scipy.integrate.IntegrationWarning
        If the derivative of the integral was found with an estimated error above the tolerance.

    Examples
    --------
    >>> from dualad.scipy.integrate import quad
    >>> gamma = lambda s: quad(lambda x: x ** (s - 1) * np.exp(-x), 0, np.inf)[0]
    >>> float(da.grad(gamma)(2.0).round(6))
    0.422784
    """
    where = "quad"
    options = {
        "epsabs": epsabs, "epsrel": epsrel, "limit": limit, "points": points, "weight": weight, "wvar": wvar,
        "wopts": wopts, "maxp1": maxp1, "limlst": limlst, "complex_func": complex_func,
    }  # fmt: skip
    if not _is_traced(func, a, b, args, options):
        return si.quad(watch_results(func, where), a, b, args, full_output, **options)
    _refuse_traced(options, where)
    args = as_args(args)
    if weight is not None and weight.startswith("alg") and tracer_in(a, b) is not None:
        raise UnsupportedError(
            f"quad: a limit is traced, with the weight {weight!r}.",
            "this weight is zero or infinite at the limits and moves with them",
            "substitute x = a + (b - a)*u, so that the limits are 0 and 1",
        )
    inputs = Inputs(where)
    f = inputs.close(func, (_interior_point(a, b),), args, "func", lambda out, name: number(out, where, name))
    dtype = np.dtype(complex if complex_func else float)
    given = {k: v for k, v in options.items() if v is not None}
    scalar = lambda x, *p: cast(f.of_all(x, *p), dtype)
    call = Integral(where, f.name, scalar, Aval((), dtype), given | {"full_output": full_output}, f.plain)
    return _result(call, a, b, inputs.arrays, full_output)


@public
def quad_vec(
    f: Callable, a: Any, b: Any, epsabs: float = 1e-200, epsrel: float = 1e-8, norm: str = "2",
    cache_size: float = 100e6, limit: float = 10000, workers: Any = 1, points: Any = None,
    quadrature: str | None = None, full_output: bool = False, *, args: Any = (),
) -> tuple:  # fmt: skip
    """Integrate a function that returns arrays, as ``scipy.integrate.quad_vec`` does, and differentiate the integral.

    Parameters
    ----------
    f, a, b, epsabs, epsrel, norm, cache_size, limit, workers, points, quadrature, full_output, args
        As of SciPy's; the limits and ``args`` may be traced, and ``f`` may read traced values from its closure.

    Returns
    -------
    value, abserr, info
        As of SciPy's; the value has a derivative.

    Examples
    --------
    >>> from dualad.scipy.integrate import quad_vec
    >>> moments = lambda b: quad_vec(lambda x: x ** np.arange(1.0, 4.0), 0.0, b)[0]
    >>> da.jacfwd(moments)(2.0)
    array([2., 4., 8.])
    """
    where = "quad_vec"
    options = {
        "epsabs": epsabs, "epsrel": epsrel, "norm": norm, "cache_size": cache_size, "limit": limit,
        "workers": workers, "points": points, "quadrature": quadrature,
    }  # fmt: skip
    if not _is_traced(f, a, b, args, options):
        return si.quad_vec(watch_results(f, where), a, b, full_output=full_output, args=args, **options)
    _refuse_traced(options, where)
    inputs, middle = Inputs(where), _interior_point(a, b)
    made = inputs.close(f, (middle,), as_args(args), "f", lambda out, name: operand(out))
    if made.avals is not None:
        (out,) = made.avals
    else:
        plain = numbers(inputs.arrays)
        out = aval_of(made.plain(plain)(middle) if plain is not None else made(inputs.arrays, middle))
    out = Aval(out.shape, np.result_type(out.dtype, float))
    function = lambda x, *p: cast(made.of_all(x, *p), out.dtype)
    call = Integral(where, made.name, function, out, options | {"full_output": full_output}, made.plain)
    return _result(call, a, b, inputs.arrays, full_output)


def _result(call: Integral, a: Any, b: Any, parameters: Sequence, full_output: Any) -> tuple:
    a, b = [cast(operand(x), np.dtype(float)) for x in (a, b)]
    if full_output and numbers([a, b, *parameters]) is None:
        refuse_full_output(call.where)
    value, error = bind(integral, (a, b, *parameters), {"call": call})
    plain = plain_of(error)
    return (value, error if plain is None else plain, *call.tail)


def _is_traced(func: Any, a: Any, b: Any, args: Any, options: dict) -> bool:
    if tracer_in(a, b, args, *options.values()) is not None:
        return True
    return running.get() and reads_tensors(func, _interior_point(a, b), *as_args(args))


def _interior_point(a: Any, b: Any) -> float:
    """Return a number between the limits, none of their middle or ends."""
    a, b = [np.asarray(0.0 if x is None else x, float) for x in (plain_of(a), plain_of(b))]
    if a.size != 1 or b.size != 1:
        return 0.5
    low, high = sorted((float(a), float(b)))
    if np.isfinite(low) and np.isfinite(high):
        return low + 0.381966 * (high - low)
    return low + 0.618 if np.isfinite(low) else high - 0.618 if np.isfinite(high) else 0.618


def _refuse_traced(options: dict, where: str) -> None:
    for name, value in options.items():
        if tracer_in(value) is not None:
            raise ArgumentTypeError(
                f"{where}: {name} is traced.",
                "the derivative is taken in the limits and in what the integrand depends on",
                _PLACES.get(name, f"compute {name} outside the transform"),
            )


@mirrors(si.fixed_quad)
def fixed_quad(func, a, b, args=(), n=5):
    """Integrate a function by Gauss's rule of fixed order."""
    x, w = roots_legendre(n)
    a, b = operand(a), operand(b)
    return (b - a) / 2.0 * np.sum(w * func((b - a) * (np.real(x) + 1.0) / 2.0 + a, *args), axis=-1), None


# ── several variables: integrals in integrals ────────────────────────────────────────────────────────────────────


@public
def nquad(func: Callable, ranges: Any, args: Any = None, opts: Any = None, full_output: bool = False) -> tuple:
    """Integrate over several variables, as ``scipy.integrate.nquad`` does, and differentiate the integral.

    Parameters
    ----------
    func, ranges, args, opts, full_output
        As of SciPy's; ``ranges`` and ``args`` may be traced, and the functions may read traced values from their
        closures. ``full_output`` needs plain arguments.

    Returns
    -------
    value, abserr
        As of SciPy's; the value has a derivative.

    Examples
    --------
    >>> from dualad.scipy.integrate import nquad
    >>> area = lambda r: nquad(lambda x, y: 1.0, [lambda y: (0, r - y), (0, r)])[0]
    >>> float(da.grad(area)(2.0).round(9))
    2.0
    """
    extra = () if args is None else as_args(args)
    bounds = [r if callable(r) else _constant(r) for r in ranges]
    chosen = [
        o if callable(o) else _constant(o) for o in (opts if isinstance(opts, list) else [opts or {}] * len(bounds))
    ]
    if not _reads_any(func, bounds, extra, opts):
        return si.nquad(watch_results(func, "nquad"), ranges, args, opts, full_output)
    if full_output:
        raise UnsupportedError(
            "nquad: full_output was asked for with traced arguments.",
            "how often the integrand was called is not counted there",
            "leave full_output out",
        )
    errors: list = []

    def level(depth: int, *outer: Any) -> Any:
        low, high = bounds[depth](*outer)
        f = func if depth == 0 else lambda x, *more: level(depth - 1, x, *more)
        value, error = quad(f, low, high, args=outer, **chosen[depth](*outer))[:2]
        errors.append(error)
        return value

    value = level(len(bounds) - 1, *extra)
    plain = [plain_of(e) for e in errors]
    return value, max([float(abs(e)) for e in plain if e is not None], default=None)


def _constant(x: Any) -> Callable:
    return lambda *args: x


def _reads_any(func: Callable, bounds: Sequence[Callable], extra: tuple, opts: Any) -> bool:
    if tracer_in(extra, opts) is not None:
        return True
    inner: tuple = extra
    for bound in reversed(bounds):
        try:
            low, high = bound(*inner)
        except Exception:
            return False
        if tracer_in(low, high) is not None:
            return True
        inner = (_interior_point(low, high), *inner)
    return running.get() and reads_tensors(func, *inner)


@public
def dblquad(
    func: Callable, a: Any, b: Any, gfun: Any, hfun: Any, args: Any = (), epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> tuple:  # fmt: skip
    """Integrate ``func(y, x)`` over two variables, as ``scipy.integrate.dblquad`` does, and differentiate the integral.

    Parameters
    ----------
    func, a, b, gfun, hfun, args, epsabs, epsrel
        As of SciPy's, traced or not, as of :func:`nquad`.

    Returns
    -------
    value, abserr
        As of SciPy's.

    Examples
    --------
    >>> from dualad.scipy.integrate import dblquad
    >>> volume = lambda h: dblquad(lambda y, x: h * x * y, 0.0, 1.0, 0.0, lambda x: x)[0]
    >>> float(da.grad(volume)(2.0).round(9))
    0.125
    """
    inner = lambda x, *rest: (_bound(gfun, x), _bound(hfun, x))
    return nquad(func, [inner, (a, b)], args=args, opts={"epsabs": epsabs, "epsrel": epsrel})


@public
def tplquad(
    func: Callable, a: Any, b: Any, gfun: Any, hfun: Any, qfun: Any, rfun: Any, args: Any = (),
    epsabs: float = 1.49e-8, epsrel: float = 1.49e-8,
) -> tuple:  # fmt: skip
    """Integrate ``func(z, y, x)`` over three variables, as ``scipy.integrate.tplquad`` does, and differentiate that.

    Parameters
    ----------
    func, a, b, gfun, hfun, qfun, rfun, args, epsabs, epsrel
        As of SciPy's, traced or not, as of :func:`nquad`.

    Returns
    -------
    value, abserr
        As of SciPy's.

    Examples
    --------
    >>> from dualad.scipy.integrate import tplquad
    >>> box = lambda a: tplquad(lambda z, y, x: x, 0.0, a, 0.0, 1.0, 0.0, 1.0)[0]
    >>> float(da.grad(box)(3.0).round(9))
    3.0
    """
    innermost = lambda y, x, *rest: (_bound(qfun, x, y), _bound(rfun, x, y))
    inner = lambda x, *rest: (_bound(gfun, x), _bound(hfun, x))
    return nquad(func, [innermost, inner, (a, b)], args=args, opts={"epsabs": epsabs, "epsrel": epsrel})


def _bound(f: Any, *args: Any) -> Any:
    return f(*args) if callable(f) else f


for _function in (quad, quad_vec, nquad, dblquad, tplquad):
    mirrors(None, "op" if _function in (quad, quad_vec) else "composite")(_function)
