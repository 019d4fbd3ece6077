"""Is a log density right? Its value and gradient against Stan, reference draws, central differences, and JAX.

Each reference shares nothing with the derivative under test. Stein's identity needs no second density: for draws of a
posterior p of free numbers x, E[∂ᵢ log p] = 0 and E[xᵢ ∂ᵢ log p] = -1, whatever the draws were made by. Not for:
times.
"""

import signal
import time
from contextlib import contextmanager

import numpy as np

__all__ = ["differences_agree", "limited", "points", "relative", "stan_agrees", "stein_agrees"]


@contextmanager
def limited(seconds):
    """A block that raises `TimeoutError` after so much time."""

    def ring(signum, frame):
        raise TimeoutError(f"over {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def relative(found, expected):
    """Return the largest difference, relative to the largest entry: infinity where one is not finite."""
    error = np.max(np.abs(np.asarray(found) - expected)) / (1e-300 + np.max(np.abs(expected)))
    return float(error) if np.isfinite(error) else np.inf


def points(value_and_grad, center, count=3, seed=1):
    """Return random points, within one of a center, at which the density is positive and its gradient finite."""
    generator, found = np.random.default_rng(seed), []
    for _ in range(200):
        at = center + generator.uniform(-1.0, 1.0, len(center))
        value, gradient = value_and_grad(at)
        if np.isfinite(value) and np.all(np.isfinite(gradient)):
            found.append(at)
        if len(found) == count:
            return found
    raise ValueError("the density is zero, or its gradient not finite, at almost all of 200 points")


def stan_agrees(value_and_grad, stan, at):
    """Return the error of differences of values, which leave out Stan's constant, and of gradients."""
    ours, theirs = [value_and_grad(x) for x in at], [stan(x) for x in at]
    values = np.array([[pair[0] for pair in side] for side in (ours, theirs)])
    steps = np.abs(np.diff(np.diff(values, axis=1), axis=0)) / np.max(np.abs(values))
    gradients = [relative(mine[1], its[1]) for mine, its in zip(ours, theirs, strict=True)]
    return float(np.max([np.max(steps), *gradients]))


def differences_agree(log_density, value_and_grad, at):
    """Return the error of derivatives along random directions against those of values at four places."""
    worst = 0.0
    for k, x in enumerate(at):
        direction = np.random.default_rng(k).normal(size=x.size)
        direction /= np.linalg.norm(direction)
        h = 1e-3
        one, two = (log_density(x + s * direction) - log_density(x - s * direction) for s in (h, 2 * h))
        expected, gradient = (8.0 * one - two) / (12.0 * h), value_and_grad(x)[1]
        scale = np.linalg.norm(gradient) + abs(value_and_grad(x)[0])
        worst = max(worst, float(abs(gradient @ direction - expected) / scale))
    return worst


def stein_agrees(value_and_grad, draws, seconds=20.0):
    """Return the largest deviation from Stein's identities over free numbers, in standard errors of their means.

    Of slow gradients those at some of the draws, but at least at a thousand.
    """
    start = time.perf_counter()
    for x in draws[:10]:
        value_and_grad(x)
    possible = int(seconds * 10 / (time.perf_counter() - start))
    draws = draws[:: max(1, len(draws) // max(possible, 1000))]
    scores = np.array([value_and_grad(x)[1] for x in draws])
    terms = np.concatenate([scores, (draws - draws.mean(axis=0)) * scores + 1.0], axis=1)
    return float(np.max(np.abs(terms.mean(axis=0)) / (terms.std(axis=0) / np.sqrt(len(draws)))))
