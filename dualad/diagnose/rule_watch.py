"""Rules of users, tested as they are used: what ``debug(rules=True)`` does.

Each time an operator with a rule of a user's is differentiated at a new line (or with new shapes), its two modes are
run on random vectors: the value must be the function's, the rule linear, and ⟨Jv, u⟩ = ⟨v, Jᵀu⟩. Not for: comparing
rules with differences of values, batches and second derivatives (``testing.check_rule``), nor for the context that
switches it on (``debug.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.arguments import replace_at
from ..base.frames import user_line
from ..batched import Batched
from ..core.aval import aval_of, is_inexact
from ..core.contexts import watching
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..dual import Dual
from ..errors import DualadError, GradcheckError, RuleMissingError
from ..jvp import jvp
from ..vjp_via_transpose import vjp

__all__ = ["RuleWatch"]

_RTOL = {4: 1e-4, 8: 1e-9, 2: 1e-2}


class RuleWatch:
    """Tests each rule once per line and shapes."""

    def __init__(self) -> None:
        self.seen: set[tuple] = set()
        self.tested = 0

    def used(self, op: Any, primals: Sequence, tangents: Sequence, params: dict) -> None:
        """Test the rule of an operator that a dual level has just run."""
        # A batching rule says nothing of derivatives, and a hook is there to return something else.
        if not op.given or op.given == ("batch",) or op.effect or watching.get() is None:
            return
        moving = [i for i, t in enumerate(tangents) if t is not None]
        values = [_plain(p) for p in primals]
        if not moving or any(v is None for v in values):
            return
        line = user_line()
        key = (op.name, line, *[(np.shape(v), aval_of(v).dtype.str) for v in values], *moving)
        if key in self.seen:
            return
        self.seen.add(key)
        name = getattr(params.get("call"), "name", op.name)
        token = watching.set(None)
        try:
            with np.errstate(all="ignore"):
                self._test(f"the rule of `{name}`, used at {line},", op, values, moving, params)
        finally:
            watching.reset(token)

    def _test(self, who: str, op: Any, values: list, moving: list[int], params: dict) -> None:
        def function(*moved: Any) -> list:
            out = bind(op, replace_at(values, moving, moved), params)
            return [y for y in (out if op.multiple_results else [out]) if is_inexact(aval_of(y).dtype)]

        point = tuple([values[i] for i in moving])
        plain = function(*point)
        if not plain:
            return
        rng = np.random.default_rng(0)
        a, b = [_random(point, rng) for _ in range(2)]
        u, w = [_random(plain, rng) for _ in range(2)]
        rtol = max(_RTOL.get(np.finfo(aval_of(x).dtype).dtype.itemsize, 1e-9) for x in (*point, *plain))

        def in_mode(mode: str, run: Callable[[], Any]) -> Any:
            try:
                return run()
            except RuleMissingError:
                return None  # by design there is no such mode, and nothing to compare
            except DualadError as error:
                raise _wrong(f"{who} can't be used in {mode} mode: {error.what}", error.why) from error

        pushed = in_mode("forward", lambda: [jvp(function, point, t) for t in (tuple(a), tuple(b), _mix(a, b))])
        if pushed is not None:
            for x, y in zip(plain, pushed[0][0], strict=True):
                if not np.allclose(x, y, rtol=rtol, atol=1e-12 * np.abs(x).max(initial=0.0), equal_nan=True):
                    what = f"{who} gives the value\n{y}\nwhere the function gives\n{x}"
                    raise _wrong(what, "a rule returns its function's value")
            self._linear(who, "tangents", [t for _, t in pushed], rtol)
        pulled = in_mode("reverse", lambda: [vjp(function, *point)[1](list(c)) for c in (u, w, _mix(u, w))])
        if pulled is not None:
            self._linear(who, "cotangents", pulled, rtol)
        if pushed is None or pulled is None:
            return
        (left, of_left), (right, of_right) = _pair(u, pushed[0][1]), _pair(pulled[0], a)
        if not abs(left - right) <= rtol * (of_left + of_right):
            raise _wrong(
                f"{who} says different things in forward and reverse mode: ⟨Jv, u⟩ is {left:.12g}, ⟨v, Jᵀu⟩ is"
                f" {right:.12g}.",
                "the two are one number, worked out from its two ends",
            )
        self.tested += 1

    def _linear(self, who: str, what: str, of: list, rtol: float) -> None:
        """Check that the last of three products is the mixture of the other two."""
        for together, apart in zip(of[2], _mix(of[0], of[1]), strict=True):
            if not np.allclose(together, apart, rtol=rtol, atol=rtol * np.abs(apart).max(initial=0.0)):
                raise _wrong(
                    f"{who} is not linear in its {what}: of a sum it makes something else than the sum.",
                    "a derivative is a linear map",
                )


def _wrong(what: str, why: str) -> GradcheckError:
    error = GradcheckError(
        what, why, "find the entry with dualad.testing.check_rule(function, args), and mend the rule"
    )
    error.check = "rule"
    return error


def _plain(x: Any) -> Any:
    """Return the plain value of an operand (of one lane of it); None where it is not known yet."""
    while isinstance(x, Tracer):
        if isinstance(x, Dual):
            x = x._primal
        elif isinstance(x, Batched):
            x = x._value[0] if x._value.shape[0] else None
        else:
            return None
    return x


def _random(like: Sequence, rng: np.random.Generator) -> list:
    found = []
    for x in like:
        aval = aval_of(x)
        value = rng.standard_normal(aval.shape)
        if aval.dtype.kind == "c":
            value = value + 1j * rng.standard_normal(aval.shape)
        found.append(np.asarray(value, aval.dtype)[()])
    return found


def _mix(a: Sequence, b: Sequence) -> tuple:
    combine: Callable = lambda x, y: np.asarray(-250.0 * x - 0.5 * y, x.dtype)[()]
    return tuple([combine(x, y) for x, y in zip(a, b, strict=True)])


def _pair(left: Sequence, right: Sequence) -> tuple[float, float]:
    """Return a sum of products, and the sum of their magnitudes, which its rounding is relative to."""
    products = [np.real(x * y) for x, y in zip(left, right, strict=True)]
    return sum(float(np.sum(p)) for p in products), sum(float(np.sum(np.abs(p))) for p in products)
