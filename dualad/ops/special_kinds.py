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
from .samples import Domain, between

__all__ = ["distribution", "no_rule", "special", "special_tuple"]


def special(
    ufunc: np.ufunc, names: str, *domains: Domain, complex_too=False, singular=False, name=None, **partials: Callable
) -> Primitive:
    """Declare a ufunc: the names of its arguments, their domains, and a partial derivative for each that has one.

    A single domain is that of all arguments. ``x=lambda a, x, out: ...`` is the partial derivative in ``x`` from all
    arguments and the value. ``singular`` marks derivatives with a pole in the closed domain (see ``kinds.unary``).
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
        samples=domains if len(domains) > 1 else domains[0],
        complex_too=complex_too,
        kind="special",
    )


def distribution(
    names: str, *domains: Domain, density: Callable, rising=None, falling=None, rising_inverse=None,
    falling_inverse=None, **shapes: Callable,
) -> None:  # fmt: skip
    """Declare what there is of F(…, x), which rises from 0 to 1, 1 − F, and their inverses.

    ``density(…, x)`` is ∂F/∂x, and each of ``shapes`` the derivative in the parameter of that name; an inverse moves
    with a parameter by minus their quotient.
    """
    *_, x = names.split()
    inside = (*domains[:-1], between(0.1, 0.9))

    def slopes(sign: int) -> dict:
        return {n: lambda *given, d=d: sign * d(*given[:-1]) for n, d in {**shapes, x: density}.items()}

    def moves(sign: int) -> dict:
        at = lambda given: (*given[:-2], given[-1])
        moved = {n: lambda *given, d=d: -d(*at(given)) / density(*at(given)) for n, d in shapes.items()}
        return {**moved, x: lambda *given: sign / density(*at(given))}

    for ufunc, where, partials in (
        (rising, domains, slopes(1)),
        (falling, domains, slopes(-1)),
        (rising_inverse, inside, moves(1)),
        (falling_inverse, inside, moves(-1)),
    ):
        if ufunc is not None:
            special(ufunc, names, *where, singular=True, **partials)


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
