"""A model: its parameters with their constraints, and the log density of their values, given data.

Not for: distributions (`densities`), nor the models themselves, which stand in the files of their families.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dualad.scipy.stats.constraints import Parameters

__all__ = ["Model", "model"]


class Model(NamedTuple):
    """A density of named parameters: ``density(data, **values)``; `of` makes it one of free numbers.

    ``from_draws`` turns published draws, which name some models' transformed parameters, into the declared ones.
    ``accuracy`` is that to which Stan's own value is meant, where it solves differential equations. ``near`` has values
    of parameters around which to check, where the density is zero or its gradient undefined around those of zeros.
    """

    name: str
    declared: Callable[[Any], dict]
    density: Callable[..., Any]
    from_draws: Callable[[Any, dict], dict]
    accuracy: float
    near: dict

    def parameters(self, data):
        return Parameters(**self.declared(data))

    def center(self, data):
        """Return the free numbers around which to check: zeros, but for those of ``near``."""
        parameters = self.parameters(data)
        return parameters.unconstrain(parameters.constrain(np.zeros(parameters.size))[0] | self.near)

    def of(self, data):
        """Return the log density of these data as a function of the vector of free numbers."""
        parameters = self.parameters(data)

        def log_density(free):
            values, log_jacobian = parameters.constrain(free)
            return self.density(data, **values) + log_jacobian

        return log_density


def model(declared, *, name=None, from_draws=lambda data, values: values, accuracy=1e-8, near=None):
    """Return a decorator that makes a density a `Model`; ``declared(data)`` are its parameters in Stan's order."""

    def decorate(density):
        return Model(name or density.__name__, declared, density, from_draws, accuracy, near or {})

    return decorate
