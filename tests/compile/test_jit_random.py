"""Random programs of operators, compiled against eager: values, derivatives, batches, and these nested.

Two hundred in the gate, ten thousand with ``--full``. Not for: the numbers themselves; test_random_programs.py
compares eager with JAX.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import dualad as da
from tests.oracles import random_programs
from tests.oracles.arrays import random_like

#: seeds of one test
CHUNK = 50


def agree(found, expected, what: str, single: bool) -> None:
    found, expected = (da.tree.flatten(x)[0] for x in (found, expected))
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
        rtol = 2e-4 if single else 1e-10
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * (scale + 1e-3), err_msg=what)


def transforms(program, rng):
    f = lambda *xs: program(np, scipy.special, *xs)
    xs = tuple(program.inputs)
    value = np.asarray(f(*xs))
    ts, ct = tuple(random_like(rng, x) for x in xs), random_like(rng, value)
    real = lambda *xs: np.sum(np.real(f(*xs) * ct))
    lanes = tuple(np.stack([x, x * x.dtype.type(1 + 2**-7)]) for x in xs)
    push = lambda f: lambda *xs: da.jvp(f, xs, ts)
    pull = lambda f: lambda *xs: da.vjp(f, *xs)[1](ct)
    yield "value", lambda f: f, f, xs
    yield "jvp", push, f, xs
    yield "vjp", pull, f, xs
    yield "vmap", da.vmap, f, lanes
    yield "vmap of grad", lambda f: da.vmap(da.grad(f)), real, lanes
    yield "jvp of vjp", lambda f: push(pull(f)), f, xs


def check(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = random_programs.INPUTS[seed % len(random_programs.INPUTS)]
    program = random_programs.build(kind, rng.integers(0, 2**20, 2 + seed % 6).tolist(), seed)
    if not program.steps:
        return
    single = any(x.dtype.itemsize <= 4 * (1 + (x.dtype.kind == "c")) for x in program.inputs if x.dtype.kind in "fc")
    for i, (name, transform, f, args) in enumerate(transforms(program, rng)):
        if (seed + i) % 3 and name != "value":  # two of six for each program
            continue
        try:
            with np.errstate(all="ignore"):
                expected = transform(f)(*args)
                fast = da.jit(transform(f))
                agree(fast(*args), expected, f"jit of {name}", single)
                agree(fast(*args), expected, f"jit of {name}, again", single)
                agree(transform(da.jit(f))(*args), expected, f"{name} of jit", single)
        except Exception as error:
            error.add_note(f"seed {seed}, {name}:\n{program}")
            raise


@pytest.mark.parametrize("chunk", [*range(2), *[pytest.param(c, marks=pytest.mark.full) for c in range(2, 200)]])
def test_random_programs_compiled(chunk: int, backend: str, request: pytest.FixtureRequest) -> None:
    if backend == "loops" and chunk and not request.config.getoption("--full"):
        pytest.skip("a slice of them, unless --full is given")
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        check(seed)
