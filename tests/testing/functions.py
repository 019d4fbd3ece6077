"""Functions that the tests of the oracles check: plain NumPy, one worry each. Loaded by path, and again for JAX."""

import numpy as np
from scipy.special import ellipk, erf

import dualad as da


def smooth(x, y):
    return np.sin(x) * np.exp(y) + x * y


def scalar(x):
    return np.sum(np.sin(x) * x * x)


def tree(params, n, mode):
    assert mode == "plain"
    return {"out": params["w"] * np.exp(params["b"]) * n, "count": n, "name": mode}


def special(x):
    return erf(x) * np.sqrt(x)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def with_absolute_value(x):
    return np.abs(x) * x + np.abs(x)


def kinked(x):
    return np.sum(np.abs(x) * (1.0 + x * x))


def in_complex_plane(z):
    return z * z * np.exp(z)


def with_own_buffer(x):
    out = np.zeros_like(x)
    out[0] = np.sin(x[0])
    out[1:] = x[1:] * x[:-1]
    return out


def changes_its_argument(x):
    x *= 2.0
    return np.sin(x)


def branches(x):
    if x > 0:
        return np.sin(x)
    return x


def differentiates_inside(x):
    return da.grad(scalar)(x) * 2.0


def stops(x):
    return np.sin(x) * da.stop_gradient(x)


def beyond_jax(x):
    return ellipk(x / 4.0)


@da.custom_jvp
def wrong_jvp(x):
    return np.sin(x)


@wrong_jvp.defjvp
def wrong_jvp_rule(primals, tangents):
    return np.sin(*primals), 1.001 * np.cos(*primals) * tangents[0]


@da.custom_vjp
def wrong_vjp(x):
    return np.sin(x)


wrong_vjp.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (1.001 * np.cos(x) * ct,))


def raises(x):
    raise RuntimeError("this never works")


def counts(x):
    return np.sum(x > 0)


def shape_by_value(x):
    return x[: int(np.sum(np.asarray(x) > 0.5))]


def steps(x):
    return np.floor(x) + x


_state = [0.0]


def random(x):
    _state[0] += 1.0
    return x * _state[0]
