"""``taylor_ivp``: ordinary differential equations by power series, to nearly all digits.

The coefficients of y(t) follow one by one from those of y′ = f(t, y): f runs once a step, on series that wait for each
other (``SeriesLevel(lazy=True)``), until it has taken enough steps for compilation to pay. Not for: stiff equations,
whose steps are short here as with all explicit methods, or for what ``dualad.scipy.integrate`` mirrors.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arguments import check_callable
from ..base.frames import public
from ..batched import Batched
from ..boundary.boundary import run, running
from ..core.above import ABOVE
from ..core.aval import aval_of, is_inexact
from ..core.tracer import PLAIN, Tracer
from ..errors import ArgumentError, DtypeError, OutputError, ShapeError, UnsupportedError
from ..jvp import stop_gradient
from ..ops.kinds import is_finite
from ..surface.arguments import operand
from ..transforms.trace import trace
from .jet import check_order, series_of
from .stream import Stream
from .tracer import Series, SeriesLevel

__all__ = ["IvpResult", "TaylorSolution", "taylor_ivp"]

_MESSAGES = {
    0: "The solver successfully reached the end of the integration interval.",
    1: "A termination event occurred.",
    -1: "Required step size is less than spacing between numbers.",
    -2: "The coefficients of the series are not finite: the equation has a singularity here.",
    -3: "The number of steps reached max_steps.",
}

#: the least scale that steps are measured by, where y and the absolute tolerance are zero
_NOTHING = 1e-30

#: at how many points of a step the sign of an event is looked at
_LOOKS = 33

#: steps of a function before it is compiled, and the numbers computed in a step that cost one more: compilation
#: takes as long as those steps did
_COMPILED, _NUMBERS = 60, 600


class IvpResult(dict):
    """The result of ``taylor_ivp``: a dict whose entries are attributes too, as SciPy's results are."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __dir__(self) -> list[str]:
        return list(self)


class TaylorSolution:
    """The solution between its end points: a polynomial for each step; call it with a time or an array of times."""

    def __init__(self, times: list[float], polynomials: list[list]) -> None:
        self.ts = np.array(times)
        self._polynomials = polynomials

    def __call__(self, t: Any) -> Any:
        """Return the solution at a time, of shape ``(n,)``, or at several, ``(n, len(t))``."""
        t = np.asarray(t, float)
        if not t.ndim:
            return self._at(float(t))
        return np.stack([self._at(float(one)) for one in t], axis=-1)

    def _at(self, t: float) -> Any:
        sign = 1.0 if self.ts[-1] >= self.ts[0] else -1.0
        step = int(np.searchsorted(sign * self.ts, sign * t, side="right")) - 1
        step = min(max(step, 0), len(self._polynomials) - 1)
        return _horner(self._polynomials[step], t - self.ts[step])


@public
def taylor_ivp(
    fun: Callable, t_span: Sequence[float], y0: Any, *, rtol: float = 1e-14, atol: float | None = None,
    order: int | None = None, t_eval: Any = None, events: Callable | Sequence[Callable] | None = None,
    args: tuple = (), max_steps: int = 100_000,
) -> IvpResult:  # fmt: skip
    """Solve y′ = f(t, y) by power series of high order, with steps and order after Jorba and Zou (2005).

    Parameters
    ----------
    fun : callable
        ``fun(t, y)``, in plain NumPy; it returns y′, an array or a list. It is run once a step, until it was used for
        some 60 of them: then a step is compiled (as by :func:`jit`), and later calls with this function are quick.
    t_span : pair of float
        Where to begin and where to end; backwards too.
    y0 : array, shape (n,)
        The state at the beginning, real or complex. Derivatives of the result in it, and in whatever ``fun`` reads from
        its closure, are those of the series that were taken, the steps held as they are.
    rtol : float
        The relative tolerance of each step, of the largest entry.
    atol : float, optional
        The absolute one, ``1e-3 * rtol`` by default: it holds where y passes through zero.
    order : int, optional
        The order of the series, by default ⌈1 − log(rtol)/2⌉.
    t_eval : array, optional
        The times at which to return the solution; the ends of the steps by default.
    events : callable or list of them, optional
        ``event(t, y)``, a number whose zeros are looked for; with an attribute ``terminal`` (a bool, or after how many
        zeros to stop) and ``direction``, the sign of the change that counts, as in SciPy.
    args : tuple
        Further arguments of ``fun`` and the events.
    max_steps : int
        How many steps there may be.

    Returns
    -------
    IvpResult
        With SciPy's fields: ``t``, ``y`` of shape ``(n, len(t))``, ``sol`` (the polynomials, a function of t),
        ``t_events``, ``y_events``, ``nfev``, ``njev``, ``nlu``, ``status`` (0 at the end, 1 stopped by an event,
        negative where it failed), ``message``, ``success``; and ``order``.

    Raises
    ------
    ArgumentError, ShapeError, DtypeError
        For tolerances that are not positive, an empty or traced ``t_span``, or a ``y0`` of another shape or kind.
    OutputError
        If ``fun`` returns another shape than that of y.
    UnsupportedError
        If the size of a step would depend on a value that is not known (under ``jit``), or zeros of events would differ
        between lanes of ``vmap``.

    Examples
    --------
    >>> sol = da.taylor_ivp(lambda t, y: [y[1], -y[0]], (0.0, 2 * np.pi), [1.0, 0.0])
    >>> bool(np.abs(sol.y[:, -1] - [1.0, 0.0]).max() < 1e-13)
    True
    """
    check_callable(fun, "taylor_ivp")
    given: object = rtol
    if not (isinstance(given, float) and 0 < given < 1):
        raise ArgumentError(f"taylor_ivp: rtol={rtol!r}.", "it bounds a relative error", "pass a float below 1: 1e-14")
    order = math.ceil(1 - math.log(rtol) / 2) if order is None else order
    check_order(order, "taylor_ivp")
    if order < 2:
        raise ArgumentError(
            f"taylor_ivp: order={order}.",
            "the size of a step is read off the last two coefficients",
            "pass at least 2, or leave order out",
        )
    t, end = _span(t_span)
    y = _state(y0)
    floor = 1e-3 if atol is None else max(atol / rtol, _NOTHING)
    looked_at = [] if events is None else [events] if callable(events) else list(events)
    problem = _Problem(fun, looked_at, order, y)
    times, polynomials, steps, status = [t], [], 0, 0
    while t != end:
        coefs, looks = problem.expansion(t, y, args)
        steps += 1
        h = _step_size(coefs, order, floor, end - t)
        if h is None:
            status = -2
            break
        if abs(h) < 10 * abs(np.spacing(t)):
            status = -1
            break
        last = abs(h) >= abs(end - t)
        stop = problem.find(looks, t, h, coefs)
        polynomials.append(coefs)
        t = end if last else t + h
        if stop is not None:
            t, status = stop, 1
        y = _horner(coefs, t - times[-1])
        times.append(t)
        if status:
            break
        if steps >= max_steps and t != end:
            status = -3
            break
    solution = TaylorSolution(times, polynomials) if polynomials else None
    shown = np.array(times if t_eval is None else t_eval, float)
    shown = shown[(shown >= min(times[0], times[-1])) & (shown <= max(times[0], times[-1]))]
    if solution is None:
        states = np.reshape(y, (-1, 1))
    elif t_eval is None:
        states = np.stack([*[c[0] for c in polynomials], y], axis=-1)
    else:
        states = solution(shown) if len(shown) else np.zeros((len(y), 0), y.dtype)
    return IvpResult(
        t=shown, y=states, sol=solution,
        t_events=None if events is None else [np.array(found) for found, _ in problem.found],
        y_events=None if events is None else [np.stack(ys) if ys else np.zeros((0,)) for _, ys in problem.found],
        nfev=steps, njev=0, nlu=0, status=status if status >= 0 else -1, message=_MESSAGES[status],
        success=status >= 0, order=order,
    )  # fmt: skip


class _Is:
    """A key of a function: by identity, whatever the function says of equality."""

    __slots__ = ("it",)

    def __init__(self, it: Callable) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Is) and other.it is self.it


@functools.lru_cache(maxsize=8)
def _expansion(fun: _Is, events: tuple[_Is, ...], order: int, shape: tuple, dtype: np.dtype) -> _Expansion:
    """Return the expansion of functions that were used lately: it may be compiled by now."""
    return _Expansion(fun.it, [e.it for e in events], order)


class _Expansion:
    """The coefficients of y, and of events, about a time: by the functions themselves, or compiled once that pays."""

    def __init__(self, fun: Callable, events: list[Callable], order: int) -> None:
        self.fun, self.events, self.order = fun, events, order
        self._steps, self._wanted, self._weighed = 0, _COMPILED, False
        self._code: Callable | None = None

    def __call__(self, t: float, y: Any, args: tuple) -> tuple[Any, list]:
        """Return the coefficients of y about t, along a leading axis, and those of the events."""
        if type(y) is np.ndarray and not running.get() and self._steps >= 0:
            try:
                code = self._fast(t, y, args)
                if code is not None:
                    coefs, looks = code(t, y, args)
                    if is_finite(coefs):
                        return coefs, looks
            except Exception:  # it branches on values, or an error that the function itself will raise
                self._steps, self._code = -1, None
        return self._slow(t, y, args)

    def _fast(self, t: float, y: np.ndarray, args: tuple) -> Callable | None:
        self._steps += 1
        if self._steps >= self._wanted and self._code is None:
            if not self._weighed:
                program = trace(self._stacked, t, y, args)
                self._wanted += sum([v.aval.size for step in program.steps for v in step.outs]) // _NUMBERS
                self._weighed = True
            else:
                self._code = ABOVE.jitted(self._stacked)
        return self._code

    def _stacked(self, t: Any, y: Any, args: tuple) -> tuple[Any, list]:
        coefs, looks = self._slow(t, y, args)
        return np.stack(coefs), [np.stack(series) for series in looks]

    def _slow(self, t: Any, y: Any, args: tuple) -> tuple[list, list]:
        for plain, strong in ((True, False), (False, False), (False, True)):
            if plain and type(y) is not np.ndarray:
                continue
            with np.errstate(all="ignore"), SeriesLevel("taylor_ivp", self.order, lazy=True) as level:
                level.function, level.strong = self.fun, strong
                rate: list[Stream] = []

                def more(k, out, rate=rate):
                    c = rate[0].coef(k - 1)
                    return None if c is None else c / k

                stream = Stream(y, more, self.order, plain=plain)
                time, state = series_of([t, 1.0], level), Series(stream, level)
                found = run(self._rate, (time, state, *args), {})
                looks = [operand(run(e, (time, state, *args), {})) for e in self.events]
                made = [x.variable if type(x) is Series and x.level is level else Stream(x, None, 0)
                        for x in (found, *looks)]  # fmt: skip
                if plain and not all([s.plain for s in made]):
                    continue  # a traced value came in through the closure
                rate.append(made[0])
                for k in range(1, self.order + 1):
                    stream.coef(k)
                    level.sweep(k)
                zero = np.zeros_like(stop_gradient(y))
                coefs = [zero if c is None else c for c in stream.through(self.order)]
                if strong or all([is_finite(c) is not False for c in coefs]):
                    break
        zero = np.zeros(())
        return coefs, [[zero if c is None else c for c in s.through(self.order)] for s in made[1:]]

    def _rate(self, t: Any, y: Any, *args: Any) -> Any:
        out = operand(self.fun(t, y, *args))
        if np.shape(out) != np.shape(y):
            raise OutputError(
                f"taylor_ivp: the function returned shape {np.shape(out)} for a state of shape {np.shape(y)}.",
                "it returns the rate of each entry of the state",
                "return an array, or a list, like y",
            )
        return out


class _Problem:
    """An equation with its events, and the zeros found so far."""

    def __init__(self, fun: Callable, events: list[Callable], order: int, y: Any) -> None:
        for event in events:
            check_callable(event, "taylor_ivp", "an event")
        aval = aval_of(y)
        self.expansion = _expansion(_Is(fun), tuple([_Is(e) for e in events]), order, aval.shape, aval.dtype)
        self.events = events
        self.found: list[tuple[list, list]] = [([], []) for _ in events]
        self.signs = [0.0] * len(events)

    def find(self, looks: list, t: float, h: float, coefs: list) -> float | None:
        """Note the zeros of events in a step; return where a terminal one stops it."""
        zeros = []
        xs = np.linspace(0.0, h, _LOOKS)
        for i, series in enumerate(looks):
            series = [_number(c) for c in series]
            signs = np.sign(np.polynomial.polynomial.polyval(xs, series))
            if self.signs[i]:  # at the end of the step before: rounding may have moved it over the zero
                signs[0] = self.signs[i]
            self.signs[i] = signs[-1]
            for k in np.flatnonzero(signs[1:] * signs[:-1] < 0):
                zeros.append((_bisect(series, signs[k], xs[k], xs[k + 1]), i, signs[k + 1]))
            zeros += [(xs[k], i, signs[k + 1]) for k in np.flatnonzero(signs[:-1] == 0)]
        for x, i, rising in sorted(zeros, key=lambda zero: abs(zero[0])):
            direction = getattr(self.events[i], "direction", 0)
            if direction and np.sign(direction) != rising:
                continue
            times, states = self.found[i]
            times.append(t + x)
            states.append(_horner(coefs, x))
            terminal = getattr(self.events[i], "terminal", False)
            if terminal and len(times) >= int(terminal):
                return t + x
        return None


def _bisect(series: list, sign: float, low: float, high: float) -> float:
    """Return the zero of a polynomial between a point at which it has this sign and one at which it has the other."""
    value = np.polynomial.polynomial.polyval
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return high
        if np.sign(value(middle, series)) == sign:
            low = middle
        else:
            high = middle


def _step_size(coefs: Any, order: int, floor: float, left: float) -> float | None:
    """Return the step after which the last terms are as small as the tolerance asks; ``None`` near a singularity.

    Lanes of a ``vmap`` take their steps together: the shortest.
    """
    sizes = [np.max(np.abs(stop_gradient(c)), initial=0.0) for c in (coefs[0], coefs[order - 1], coefs[order])]
    if not all([np.isfinite(_plain(s)).all() for s in sizes]):
        return None
    scale, h = np.maximum(sizes[0], floor), abs(left)
    for s, k in ((sizes[1], order - 1), (sizes[2], order)):
        ratio = _plain(s / scale).max()
        if ratio > 0:
            h = min(h, float(ratio) ** (-1 / k) * math.exp(-2 - 0.7 / (order - 1)))
    return math.copysign(h, left)


def _plain(x: Any) -> np.ndarray:
    """Return the numbers beneath a value that has no derivative, those of all lanes."""
    while type(x) is Batched:
        x = x._value
    if isinstance(x, Tracer):
        raise UnsupportedError(
            f"taylor_ivp met a {x._kind()}: the size of a step can't be chosen.",
            "in a traced program no value is known, so nobody can say how many steps there are",
            "call it outside of jit; jvp, grad and vmap of it are possible",
        )
    return np.asarray(x)


def _number(c: Any) -> float:
    c = stop_gradient(c)
    if type(c) is Batched:
        raise UnsupportedError(
            f"taylor_ivp met a {c._kind()} in an event.",
            "under vmap each lane has zeros of its own, and not the same number of them",
            "call it in a loop over the lanes, or without events",
        )
    return float(np.real(_plain(c)))


def _horner(coefs: Any, h: float) -> Any:
    out = coefs[-1]
    for c in coefs[-2::-1]:
        out = out * h + c
    return out


def _span(t_span: Any) -> tuple[float, float]:
    if not (isinstance(t_span, (tuple, list, np.ndarray)) and len(t_span) == 2):
        raise ArgumentError(
            f"taylor_ivp: t_span={t_span!r}.", "it is the pair of where to begin and where to end", "pass (t0, t1)"
        )
    if any([isinstance(t, Tracer) or not np.isfinite(t) for t in t_span]):
        raise ArgumentError(
            f"taylor_ivp: t_span={t_span!r}.",
            "steps end at times that are known, and finite",
            "scale time by the traced value: integrate y' = T f(T s, y) over s from 0 to 1",
        )
    return float(t_span[0]), float(t_span[1])


def _state(y0: Any) -> Any:
    y = operand(y0)
    y = np.asarray(y) if type(y) in PLAIN else y
    aval = aval_of(y)
    if len(aval.shape) != 1:
        raise ShapeError(f"taylor_ivp: y0 has shape {aval.shape}.", "a state is a vector", "pass y0 of shape (n,)")
    if aval.dtype.kind in "iub" and type(y) is np.ndarray:
        return y.astype(float)
    if not is_inexact(aval.dtype):
        raise DtypeError(f"taylor_ivp: y0 has dtype {aval.dtype}.", "a state moves", "pass floating-point numbers")
    return y.copy() if type(y) is np.ndarray else y
