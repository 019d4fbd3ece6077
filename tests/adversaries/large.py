"""Large programs: 200 to 30,000 different equations, which no loop stands for.

Graphs of numbers, unrolled networks and integrators with constants of their own at each step, many results, deep chains
of small arrays of mixed shapes and dtypes. For: functions that are cut into parts, what crosses between them, and how
long all that takes. Not for: loops that are found again (``inplace.py``).
"""

from __future__ import annotations

import numpy as np

from .cases import Case
from .compare import source_case

__all__ = ["case"]

#: about so many equations, by the last digit of the seed in base eight: the gate runs the first few
SIZES = (200, 300, 400, 600, 1_500, 4_000, 10_000, 30_000)
#: programs above this are run in one way each
_SHORT = 2_000

_NUMBERS = """
import numpy as np, dualad as da
args = (np.random.default_rng({seed}).uniform(-1.0, 1.0, {n}),)
def f(x):
    rng, v = np.random.default_rng({seed}), list(x)
    for k in range({steps}):
        a, b = v[rng.integers(max(0, len(v) - {window}), len(v))], v[rng.integers(0, len(v))]
        c, kind = rng.uniform(-0.9, 0.9), rng.integers({kinds})
        if kind == 0:
            v.append(0.5 * a + c * b)
        elif kind == 1:
            v.append(np.tanh(a * b + c))
        elif kind == 2:
            v.append(np.sin(a) * c - b * 0.3)
        elif kind == 3:
            v.append(a / (1.5 + b * b))
        elif kind == 4:
            v.append(np.where(a > b, a * c, b))
        else:
            v.append(np.maximum(a, b) - abs(c) * a)
    return {result}
"""

_CELLS = """
import numpy as np, dualad as da
rng = np.random.default_rng({seed})
args = (rng.uniform(-1.0, 1.0, {n}), rng.normal(size=({m} * {n}, {n} + 1)) / {n})
shifts = rng.normal(size=({steps}, {n}))
gains = [float(g) for g in rng.uniform(0.3, 0.9, {steps})]
def f(x, w):
    h, c, out = x, np.zeros_like(x), []
    for k in range({steps}):
        z = w @ np.concatenate([h, x[k % {n} : k % {n} + 1]])
        if {m} == 1:
            h = np.tanh(gains[k] * z + shifts[k])
        else:
            i, o, g = 1 / (1 + np.exp(-z[:{n}])), z[{n} : 2 * {n}], np.tanh(z[2 * {n} :] + shifts[k])
            c = gains[k] * c + i * g
            h = np.tanh(c) / (1 + o * o)
        if k % 7 == 3:
            out.append(h[k % {n}])
    return h, sum(out)
"""

_STEPS = """
import numpy as np, dualad as da
rng = np.random.default_rng({seed})
args = (rng.uniform(-1.0, 1.0, {n}), rng.uniform(0.1, 0.9, 3))
steps = [float(s) for s in rng.uniform(0.01, 0.05, {steps})]
def rate(y, p, t):
    z = [p[0] * np.sin(y[(i + 1) % {n}]) - p[1] * y[i] + p[2] * np.cos(t + i) for i in range({n})]
    return np.stack(z)
def f(y, p):
    t = 0.0
    for s in steps:
        a = rate(y, p, t)
        b = rate(y + s / 2 * a, p, t + s / 2)
        y, t = y + s * (b if s > 0.02 else (a + b) / 2), t + s
    return y
"""

_ARRAYS = """
import numpy as np, dualad as da
rng = np.random.default_rng({seed})
args = (rng.uniform(-1.0, 1.0, {n}), rng.uniform(-1.0, 1.0, (3, {n})).astype(np.{dtype}))
def f(x, y):
    rng, v = np.random.default_rng({seed}), [x, y, y[0] * 0.5, x[:3], np.sum(y, 0)]
    for k in range({steps}):
        a, b = v[rng.integers(max(0, len(v) - 12), len(v))], v[rng.integers(0, len(v))]
        c, kind = float(rng.uniform(-0.9, 0.9)), rng.integers(9)
        if kind == 0:
            v.append(np.tanh(a * c + 0.1))
        elif kind == 1:
            v.append(np.concatenate([a.reshape(-1)[-9:], b.reshape(-1)[::2][:8]]))
        elif kind == 2:
            v.append(np.sum(a) * 0.05 + b * c)
        elif kind == 3:
            v.append(a.T if len(a.shape) > 1 else a[::-1] * c)
        elif kind == 4:
            v.append(np.where(np.max(a) > a, a, c))
        elif kind == 5:
            v.append(np.stack([a.reshape(-1)[0] - b, b * c]) if b.size < 12 and len(b.shape) < 2 else b - c)
        elif kind == 6:
            v.append(np.cumsum(a.reshape(-1)) * (0.5 / a.size))
        elif kind == 7:
            v.append((a > c) * b.reshape(-1)[0])
        else:
            v.append(a.reshape(-1)[: 1 + k % 9] * 0.7 if a.size else a)
    return v[-1], v[-2], sum([np.sum(u) for u in v[-40:]])
"""


def case(seed: int) -> Case:
    rng = np.random.default_rng([5, seed])
    size = SIZES[seed % len(SIZES)]
    kind = (seed + seed // len(SIZES)) % 6
    n = int(rng.integers(2, 12))
    options = {"seed": seed, "n": n}
    if kind < 3:  # results: one, many, and what is read far behind
        result = ("v[-1] + sum(v[-9:])", f"v[-{max(3, size // 9)}:]", "(np.stack(v[::17]), v[len(v) // 2])")[kind]
        window, kinds = int(rng.choice([2, 10, 10**6])), int(rng.integers(3, 7))
        text = _NUMBERS.format(**options, steps=size // 3, window=window, kinds=kinds, result=result)
    elif kind == 3:
        text = _CELLS.format(**options, steps=max(3, size // 30), m=int(rng.choice([1, 3])))
    elif kind == 4:
        text = _STEPS.format(**options, steps=max(2, size // (16 * n)))
    else:
        dtype = str(rng.choice(["float64", "float32"]))
        text = _ARRAYS.format(**options, steps=size // 3, dtype=dtype)
    ways: tuple[str, ...] = ("value", "grad") if size <= _SHORT else (("value", "grad")[seed // len(SIZES) % 2],)
    tolerance = 2e-3 if "float32" in text else 1e-6
    return source_case(f"large {seed}", text, ways, native=seed % 5 != 4, tolerance=tolerance)
