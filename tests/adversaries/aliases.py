"""Arguments that share memory: one array twice, shifted, reversed, transposed, of captured memory; in turn with others.

A program writes into its arguments and reads them, in any order, and returns values and views. One compiled function is
called with arguments of one shape whose memory overlaps in other ways each time, tables of places of several dtypes
among them, real and complex; compared are results, and the whole memory behind the arguments. For: signatures that
forget what shares memory. Not for: aliases inside a function (``objects.py``), dtypes of NumPy's calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

import dualad as da

from .cases import Case, Void
from .compare import TOLERANCE, is_taught, named, same, settings

__all__ = ["args", "case"]

#: how two arguments of shape (n, n) lie in a memory of 4 n² numbers
_LIES = {
    "apart": lambda m, n: (m[: n * n].reshape(n, n), m[2 * n * n : 3 * n * n].reshape(n, n)),
    "twice": lambda m, n: (m[: n * n].reshape(n, n),) * 2,
    "views of one": lambda m, n: (m[: n * n].reshape(n, n), m[: n * n].reshape(n, n)),
    "transposed": lambda m, n: (m[: n * n].reshape(n, n), m[: n * n].reshape(n, n).T),
    "shifted by a row": lambda m, n: (m[: n * n].reshape(n, n), m[n : n * n + n].reshape(n, n)),
    "shifted by one": lambda m, n: (m[1 : n * n + 1].reshape(n, n), m[: n * n].reshape(n, n)),
    "upside down": lambda m, n: (m[: n * n].reshape(n, n), m[: n * n].reshape(n, n)[::-1]),
    "left to right": lambda m, n: (m[: n * n].reshape(n, n)[:, ::-1], m[: n * n].reshape(n, n)),
    "every other": lambda m, n: (m[: 2 * n * n : 2].reshape(n, n), m[1 : 2 * n * n : 2].reshape(n, n)),
    "interleaved": lambda m, n: (m[: 2 * n * n].reshape(n, 2 * n)[:, :n], m[: 2 * n * n].reshape(n, 2 * n)[:, n:]),
    "overlapping blocks": lambda m, n: (
        m.reshape(2 * n, 2 * n)[:n, :n],
        m.reshape(2 * n, 2 * n)[n // 2 : n // 2 + n, n // 2 : n // 2 + n],
    ),
}
#: ways in which an argument lies in a captured array, W of shape (n, n)
_CAPTURED = {"all": lambda w: w, "transposed": lambda w: w.T, "upside down": lambda w: w[::-1]}

#: a and b are x or y or what was computed of them, c a new or a known name, t a table of places, W is captured
_STEPS = (
    "{a} += {b} * 0.5", "{a}[0] = {b}[-1] * 1.0", "{a}[1:] -= {b}[:-1] * 0.25", "{a}[...] = {b}", "{a} *= 0.5",
    "{a}[t] += {b} * 0.5", "{a}[:, t] = {b} * 1.0", "np.add.at({a}, t, {b}[0] * 0.5)",
    "np.multiply({a}, {b}, out={a})", "{a}[::2] = {b}[::2] + 1", "{a}.T[...] = {b} * 2.0", "{a}[{b}.real > 0] = 0.25",
    "np.copyto({a}, {b}, where={b}.real < 0.5)", "{c} = {a} + {b}", "{c} = {a} @ {b}", "{c} = {a}.T", "{c} = {a}[t]",
    "{c} = {a}[::-1]", "{c} = np.where({a}.real > 0, {a}, {b})", "{c} = {a}.copy()", "{c} = {a} * t",
    "{c} = np.cumsum({a}, 0) * 0.25", "{c} = np.take({a}, t, 1) - {b}",
    "{c} = {a}.reshape(-1)[::-1].reshape({b}.shape)", "{a} += W", "W[...] = {a} * 0.5", "{c} = W * {a}",
    "{a}[0], {b}[1] = {b}[1].copy(), {a}[0].copy()", "{c} = {a}.conj() * {b}", "{c} = {a} + 0.0|{c}[t] -= {b}",
    "for r in {a}:|    r += 0.25 * {b}[0]", "for n, u in enumerate({a}[0]):|    {b}[n] = u * 0.5",
    "{c} = np.sort({a}.real, 0) + {b}", "{a}.fill(0.5)", "{a}.real[0] += 1.0", "np.fill_diagonal({a}, {b}[0, 0])",
    "{a}.sort(0)",
)  # fmt: skip


def args(lies: str, memory: np.ndarray, captured: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two arguments, which lie in a memory, or the second one in a captured array."""
    n = len(captured)
    if lies in _CAPTURED:
        return memory[: n * n].reshape(n, n), _CAPTURED[lies](captured)
    return _LIES[lies](memory, n)


def _program(seed: int) -> tuple[list[str], str, str, int, list[str], list[int]]:
    """Return lines, what is returned, the dtype, n, how arguments lie in each call, and the table."""
    rng = np.random.default_rng([37, seed])
    choice = lambda items: items[int(rng.integers(len(items)))]
    n, known, lines = int(rng.integers(2, 5)), ["x", "y"], []
    for _ in range(int(rng.integers(2, 6))):
        step, new = choice(_STEPS), choice(["u", "v", *known])
        lines += step.format(a=choice(known), b=choice(known), c=new).split("|")
        if "{c}" in step and new not in known:
            known.append(new)
    result = ", ".join([choice(known) for _ in range(int(rng.integers(1, 4)))])
    ways = [choice([*_LIES, *_CAPTURED] if "W" in " ".join(lines) else list(_LIES)) for _ in range(5)]
    return lines, result, choice(["f8", "f8", "f4", "c16"]), n, ways, rng.integers(0, n, n).tolist()


def case(seed: int) -> Case:
    """Return the case of a seed."""
    lines, result, *given = _program(seed)
    return _case(lines, result, *given, native=seed % 3 == 0, seed=seed)


def _case(lines: list[str], result: str, dtype: str, n: int, ways: list[str], table: list[int], **more) -> Case:
    places = ("i8", "i4", "u1")[more["seed"] % 3]
    body = "".join([f"    {line}\n" for line in lines])
    text = f"W = np.zeros(({n}, {n}), {dtype!r})\ndef f(x, y, t):\n{body}    return {result}\n"

    def check() -> None:
        t = np.array(table, places)
        plain, fast = named(text), named(text)
        compiled = da.jit(fast["f"])
        with settings(more["native"]):
            for k, lies in enumerate(ways):
                seen = []
                for space, f in ((plain, plain["f"]), (fast, compiled)):
                    rng = np.random.default_rng([k, more["seed"]])
                    numbers = np.round(rng.normal(size=5 * n * n), 2) + 1j * np.round(rng.normal(size=5 * n * n), 2)
                    numbers = (numbers if np.dtype(dtype).kind == "c" else numbers.real).astype(dtype)
                    space["W"][...] = numbers[: n * n].reshape(n, n)
                    memory = numbers[n * n :].copy()
                    with np.errstate(all="ignore"), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        try:
                            out = f(*args(lies, memory, space["W"]), t)
                        except Exception as error:
                            if space is plain:
                                raise Void from error
                            if is_taught(error):
                                return
                            raise
                    seen.append((out, memory, space["W"].copy()))
                (expected, *kept), (found, *left) = seen
                rounded = TOLERANCE[np.dtype(dtype).char]  # what is float64 is computed of these, too
                same(found, expected, f"call {k}, {lies}", rounded)
                same(left, kept, f"call {k}, {lies}: memory afterwards")

    def smaller() -> Iterator[Case]:
        for i in range(len(lines)):
            yield _case([*lines[:i], *lines[i + 1 :]], result, dtype, n, ways, table, **more)
        for i in range(len(ways)):
            yield _case(lines, result, dtype, n, [*ways[:i], *ways[i + 1 :]], table, **more)
        for part in result.split(", "):
            if part != result:
                yield _case(lines, part, dtype, n, ways, table, **more)

    return Case("aliases", f"{text}# {ways}, t = {table} of {places}, {more}\n", check, smaller)
