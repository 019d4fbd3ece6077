"""Python around arrays: objects, dicts, generators, views that are handed on, transforms inside the function.

A program has arrays, other names for them and views of them; holds them in dicts, tuples, lists and objects of a class
with methods; steps through them by generators and ``while`` loops that swap in place; calls what is compiled, mapped or
differentiated itself, over its own locals. Whether two names are one array decides what is right at nearly every line.
For: aliases that a trace loses, and transforms inside transforms. Not for: changes between calls (``state.py``), long
loops (``inplace.py``).
"""

from __future__ import annotations

import numpy as np

from .cases import Case
from .compare import source_case

__all__ = ["case"]

_HEAD = """
import copy, functools, itertools
import numpy as np, dualad as da
class Body:
    def __init__(self, v, k=0.5):
        self.v, self.k, self.steps = v, k, 0
    def push(self, d):
        self.v[0] += d
        self.steps += 1
        return self
    @property
    def energy(self):
        return np.tanh(np.sum(self.v * self.v)) * self.k
    def __getitem__(self, i):
        return self.v[i]
    def __add__(self, other):
        return Body(self.v + other.v, self.k)
def rows(a):
    for r in a:
        yield r
def running(a):
    total = 0.0
    for t in a:
        total = total * 0.5 + t
        yield total
def pairs(a):
    i = 0
    while i + 1 < len(a):
        yield a[i], a[i + 1]
        i += 1
def changed(a):
    a[-1] = np.tanh(a[0]) + 0.5
    return a
inner = da.jit(lambda u, w: np.sin(u) * w[::-1] + np.sum(w) * 0.1)
lanes = da.jit(da.vmap(lambda r, u: np.tanh(r * u).sum() + r[0], in_axes=(0, None)))
slope = da.grad(lambda u: np.sum(np.sin(u) * u))
own = da.custom_jvp(lambda u: np.tanh(u) * 2.0)
own.defjvp(lambda p, t: (np.tanh(p[0]) * 2.0, t[0] * 2.0 * (1.0 - np.tanh(p[0]) ** 2)))
"""

#: a and b are vectors, c a new or a known name, M a matrix, s a number, i and j places, k a key; lines stand in a row
_STEPS = (
    # names, copies and views (NumPy copies no row into a column that crosses it as it was: those are new arrays)
    "{c} = {a}", "{c} = {a}.copy()", "{c} = {a}[::-1]", "{c} = {a} * 0.5 + {b}", "{c} = {a}.reshape(-1)",
    "{c} = M.T[{i}]", "{c} = M[{i}]", "{c} = np.diagonal(M).copy()", "{c} = np.ravel({a})",
    "{c} = M.reshape(-1)[{i}::N]", "{c} = {a}.view()", "{c} = np.flip({a})", "M = M.T",
    "view = slice(None, None, -1)|{c} = {a}[view]|{c}[0] = np.cos({b}[{i}])", "M = M.copy()",
    # writes
    "{a} += 0.1 * {b}", "{a} *= 0.9", "{a} = {a} + np.sin({b})", "{a}[{i}] = s", "{a}[{i}:] -= 0.3 * {b}[{i}:]",
    "{a}[...] = {b} * 1.0", "{a}[:-1] = {a}[1:]", "{a}[1:] += {a}[:-1]", "M += {a}", "M[{i}] = {a} * 0.5",
    "M[:, {j}] = {a} + M[{i}]", "np.add({a}, {b}, out={a})", "np.copyto({a}, {a}[::-1])", "changed({a})",
    "{c} = changed({a})", "s = s + {a}[{i}]",
    # swaps
    "{a}[{i}], {a}[{j}] = {a}[{j}], {a}[{i}]", "M[{i}], M[{j}] = M[{j}], M[{i}]", "{a}, {b} = {b}, {a}",
    "M[[{i}, {j}]] = M[[{j}, {i}]]", "M[{i}], M[{j}] = M[{j}].copy(), M[{i}].copy()",
    "{a}[:2], {a}[-2:] = {a}[-2:], {a}[:2]", "M[:, {i}], {a}[...] = {a}.copy(), M[:, {j}].copy()",
    "i, j = 0, N - 1|while i < j:|    {a}[i], {a}[j] = {a}[j], {a}[i]|    i, j = i + 1, j - 1",
    "k, p = 0, list(T)|while p[k] != k:|    q = p[k]|    {a}[k], {a}[q] = {a}[q], {a}[k]|    p[k], p[q] = p[q], q",
    # dicts, tuples, lists
    "state['{k}'] = {a}", "state['{k}'] += np.sin({b})", "{c} = state['{k}']", "state = dict(state)",
    "state = {{**state, '{k}': {a} * 0.5}}", "state = copy.deepcopy(state)", "state = copy.copy(state)",
    "state.update(p={a}, q=state['p'])", "{c} = state.pop('{k}')|state['{k}'] = {c} + 0.1",
    "{c} = state.get('w', {a})", "pair = ({a}, {b})|pair[0][{i}] += s|{c} = pair[::-1][0]",
    "parts = [{a}, {b}]|parts[0] += 0.2|{c} = sum(parts)",
    "parts = [{a}] * 2|parts[0] = parts[0] * 0.5|parts[1] += parts[0]", "({a}, {c}), s = ({b}, {a}), s * 0.5",
    "first, *rest = M|first += rest[0]|{c} = rest[-1]", "for v in state.values():|    v[{i}] += 0.25 * s",
    # objects
    "body = Body({a})", "body.push(np.sin(s))", "body.v *= 0.9", "body.v = body.v * 0.9",
    "{c} = (body + Body({a})).v", "s = s + body.energy", "{c} = body.v",
    "other = copy.copy(body)|other.v[{i}] += 0.5|other.k = 0.25|s += other.energy", "body.push(s).push(body[{i}])",
    "setattr(body, 'v', {a})", "body.k = s", "vars(body)['v'] = {a}[::-1]",
    "other = copy.deepcopy(body)|other.v += 1.0|{c} = other.v", "s = s + body.steps * 0.1",
    "push = body.push|push(0.3)",
    # generators and iterators
    "for r in rows(M):|    r += 0.3 * {a}", "for n, total in enumerate(running({a})):|    {b}[n] = total * 0.3",
    "for u, w in pairs({a}):|    s = s * 0.5 + u * w", "for r, u in zip(M, {a}):|    r[0] = u",
    "{c} = np.stack(list(running({a})))", "g = rows(M)|first = next(g)|M[1] += first|s = s + next(g)[0]",
    "for n in T:|    {a}[n] *= 0.5 + {b}[n - 1]", "g = (u * 2.0 for u in {a})|{a}[-1] = 0.5|s = s + sum(g)",
    "s = functools.reduce(lambda u, w: u * 0.5 + w, {a})",
    "{c} = np.stack([u * w for u, w in itertools.pairwise([*{a}, s])])",
    # tables of places, as arguments
    "{c} = {a}[t]", "{c} = np.zeros_like({a})|np.add.at({c}, t, {b})", "{a}[t] = {b}", "{a}[t] += {b}",
    "M[np.arange(N), t] *= 0.5", "{c} = M[t, t[::-1]]", "{a}[t[{i}]] -= s", "{c} = np.take({a}, t) * t", "M[t] = M",
    # transforms inside
    "{c} = inner({a}, {b})", "{c} = lanes(M, {a})", "{c} = own({a})", "{c} = slope({a}) * 0.3", "s = own(s)",
    "{c} = da.jit(lambda u: u * {b} + s)({a})", "{c} = da.jvp(lambda u: inner(u, {b}), ({a},), ({b},))[1]",
    "{c} = da.vmap(da.grad(lambda r: np.sum(r * own({a}))))(M)[{i}]", "{c} = da.vjp(own, {a})[1]({b})[0]",
    "{c} = da.jit(da.grad(lambda u: np.sum(inner(u, {b}))))({a}) * 0.2", "{c} = np.stack([own(u) for u in {a}])",
    "def part(u):|    u = u * 1.0|    u[{i}] += s|    return np.tanh(u)|{c} = da.vmap(part)(M)[{j}]",
    "{c} = da.jit(da.jit(da.vmap(own)))({a})", "{c} = da.vmap(lambda r: da.jit(changed)(r * 1.0))(M)[{i}]",
    "{c} = da.checkpoint(lambda u: np.sin(u) * {b})({a})",
    # what else Python does
    "try:|    {a}[N + 5] = 1.0|except IndexError:|    {a}[0] = 0.25",
    "with np.errstate(all='ignore'):|    {c} = {a} / (1.5 + {b})",
    "def bump(v, w={a}):|    nonlocal s|    s = s * 0.5 + v|    w[{i}] += s|    return s|{b}[{j}] = bump({b}[{i}])",
    "{c} = (lambda u, *v, **w: u + sum(v) + w['z'])({a}, s, 1.0, z={b})",
    "{c}, s = np.where({a} > {b}, {a}, s), s * 0.9",
)  # fmt: skip


def _text(seed: int) -> str:
    rng = np.random.default_rng([31, seed])
    choice = lambda items: items[int(rng.integers(len(items)))]
    n = int(rng.integers(2, 6))
    known = ["x", "y"]
    lines = [
        choice(["y = x.copy()", "y = x * 0.5", "y = x", "y = np.zeros_like(x)"]),
        choice(["M = A.copy()", "M = A", "M = A * 0.5", "M = A.T.copy()"]),
        choice(["state = {'p': x * 1.5, 'q': y}", "state = dict(p=y, q=y)", "state = {'p': M[0], 'q': M[-1]}"]),
        f"s, body = {choice(['0.3', 'x[0]', 'np.sum(A)'])}, Body({choice(['y', 'x', 'M[0]', 'x.copy()'])})",
    ]
    for _ in range(int(rng.integers(2, 9))):
        names = {"a": choice(known), "b": choice(known), "c": choice(["u", "v", "w", *known])}
        places = {"i": int(rng.integers(n)), "j": int(rng.integers(n)), "k": choice("pq")}
        step = choice(_STEPS)
        lines += step.format(**names, **places).split("|")
        if "{c}" in step and names["c"] not in known:
            known.append(names["c"])
    results = [choice([*known, "s", "M", "state", "body.v", "(x, y)"]) for _ in range(int(rng.integers(1, 4)))]
    places = choice([rng.permutation(n), rng.integers(0, n, n), np.arange(n)[::-1]]).astype(choice(["i8", "i4", "u1"]))
    body = "".join([f"    {line}\n" for line in lines])
    if "nonlocal" in body:
        body = "    s = 0.0\n" + body
    table = f"np.array({places.tolist()}, {str(places.dtype)!r})"
    return (
        f"{_HEAD}N, T = {n}, {rng.permutation(n).tolist()}\nrng = np.random.default_rng({seed})\n"
        f"args = (rng.uniform(0.3, 1.7, N), rng.uniform(-1.0, 1.0, (N, N)), {table})\n"
        f"def f(x, A, t):\n{body}    return {', '.join(results)}\n"
    )


def case(seed: int) -> Case:
    ways = ["value", ("grad", "jvp", "vmap", "jacrev", "vmap of grad", "hessian")[seed % 6]]
    return source_case(f"objects {seed}", _text(seed), ways, native=seed % 3 == 0)
