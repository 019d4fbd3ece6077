"""How a ufunc of ``scipy.special`` is declared: the names of its arguments and a partial derivative for each.

A parameter without a partial derivative is refused by name when it is differentiated. Not for: any single function
(``special.py``, ``distributions.py``). This module needs no SciPy; those that use it do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core.primitive import Primitive
from ..errors import RuleMissingError
from .kinds import elementwise, strong
from .samples import Domain

__all__ = ["no_rule", "special", "special_tuple"]


def special(
    ufunc: np.ufunc, names: str, *domains: Domain, complex_too=False, singular=False, name=None, **partials: Callable
) -> Primitive:
    """Declare a ufunc: the names of its arguments, their domains, and a partial derivative for each that has one.

    ``x=lambda a, x, out: ...`` is the partial derivative in ``x`` from all arguments and the value. ``singular`` marks
    derivatives with a pole in the closed domain (see ``kinds.unary``).
    """
    name = name or ufunc.__name__.lstrip("_")

    def refused(argument: str) -> Callable:
        def partial(*arguments_and_out):
            raise no_rule(name, argument)

        return partial

    return elementwise(
        ufunc,
        name=name,
        partials=[partials.get(n) or refused(n) for n in names.split()],
        singular=singular,
        samples=domains,
        complex_too=complex_too,
        kind="special",
    )


def special_tuple(ufunc: np.ufunc, domain: Domain, derivatives: Callable) -> Primitive:
    """Declare a ufunc of one argument with several results: ``derivatives(x, outs)`` returns one for each."""

    def jvp(primals: Sequence, tangents: Sequence) -> tuple:
        outs = ufunc(primals[0])
        return outs, tuple([tangents[0] * d for d in derivatives(strong(primals[0]), outs)])

    return elementwise(ufunc, jvp=jvp, samples=domain, complex_too=True, kind="special")


def no_rule(name: str, argument: str, why: str = "no closed form of that derivative is known") -> RuleMissingError:
    return RuleMissingError(
        f"scipy.special.{name} was differentiated in its argument `{argument}`.",
        why,
        f"keep `{argument}` constant (dualad.stop_gradient), or give a rule of your own",
    )
