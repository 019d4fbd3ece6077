"""Checks of one operator on one sample: `vmap` of its value and derivatives against a Python loop, and the reverse.

Distinct members in every lane; every choice of mapped arguments. Not for: derivatives themselves (`op_derivatives`).
"""

from __future__ import annotations

import functools

import numpy as np

import dualad as da

from .arrays import close, leaves, random_like, tolerance
from .loops import axes_choices, looped, stack_members
from .op_derivatives import spellings_agree
from .op_values import Subject

__all__ = [
    "check_batched_jvp", "check_batched_second", "check_batched_sizes", "check_batched_value", "check_batched_vjp",
    "check_derivative_of_batched", "check_derivative_of_nested", "check_dummy", "check_nested",
]  # fmt: skip


#: operators of which SciPy takes tens of milliseconds: one choice of axes where others have all
_SLOW = frozenset({"logm"})


def _mappable(s: Subject) -> list[int]:
    return [i for i, a in enumerate(s.args) if isinstance(a, (np.ndarray, np.generic))]


def _choices(s: Subject, options=(0, -1, None)) -> list[tuple]:
    """Return the choices of in_axes; arguments that are not arrays are never mapped."""
    positions = _mappable(s)
    out = []
    for choice in axes_choices(len(positions), options):
        axes = [None] * len(s.args)
        for i, a in zip(positions, choice, strict=True):
            axes[i] = a
        out.append(tuple(axes))
    return out


def _batched(s: Subject, axes, size: int) -> list:
    members = s.members(size)
    return [stack_members([m[i] for m in members], a) for i, a in enumerate(axes)]


def _limited(choices: list, limit: int) -> list:
    """Return at most `limit` choices, spread evenly: with many arguments the choices grow as 3ⁿ."""
    if len(choices) <= limit:
        return choices
    return [choices[i] for i in sorted({round(k * (len(choices) - 1) / (limit - 1)) for k in range(limit)})]


def check_batched_value(s: Subject) -> None:
    """Every choice of in_axes in {0, −1, None}ⁿ, and 1 where there is one; out_axes 0 and −1."""
    for axes in _limited(_choices(s), 26):
        args = _batched(s, axes, 3)
        found = da.vmap(s.call, axes)(*args)
        close(leaves(found), looped(s.call, args, axes, 3), f"vmap with in_axes={axes}")
    axes = _choices(s, (0,))[0] if _mappable(s) else None
    if axes is None:
        return
    args = _batched(s, axes, 3)
    close(leaves(da.vmap(s.call, axes, -1)(*args)), looped(s.call, args, axes, 3, -1), "vmap with out_axes=-1")
    inner = tuple(1 if a == 0 and np.ndim(x) >= 2 else a for a, x in zip(axes, args, strict=True))
    args = [np.moveaxis(x, 0, 1) if a == 1 else x for x, a in zip(args, inner, strict=True)]
    close(leaves(da.vmap(s.call, inner)(*args)), looped(s.call, args, inner, 3), f"vmap with in_axes={inner}")


def check_batched_sizes(s: Subject) -> None:
    """A batch of one is the unbatched call; a batch of none has the shapes and dtypes of the result."""
    for axes in _limited(_choices(s, (0, None)), 4):
        args = _batched(s, axes, 1)
        close(leaves(da.vmap(s.call, axes)(*args)), looped(s.call, args, axes, 1), f"batch of 1, in_axes={axes}")
        args = [x[:0] if a == 0 else x for x, a in zip(args, axes, strict=True)]
        expected = [np.zeros((0, *np.shape(v)), np.asarray(v).dtype) for v in leaves(s.call(*s.args))]
        close(leaves(da.vmap(s.call, axes)(*args)), expected, f"batch of 0, in_axes={axes}")


def check_nested(s: Subject) -> None:
    """vmap of vmap against a double loop: both levels on all arguments, and each level on an argument of its own."""
    positions = _mappable(s)
    if not positions:
        return
    pairs = [(tuple(0 if i in positions else None for i in range(len(s.args))),) * 2]
    if len(positions) > 1:
        first, *rest = positions
        outer = tuple(0 if i == first else None for i in range(len(s.args)))
        inner = tuple(0 if i in rest else None for i in range(len(s.args)))
        pairs += [(outer, inner), (inner, outer)]
    members = s.members(6)
    for outer, inner in pairs:
        args = []
        for i, (a, b) in enumerate(zip(outer, inner, strict=True)):
            values = [np.asarray(m[i]) for m in members]
            if a == 0 and b == 0:
                args.append(np.stack(values).reshape((2, 3, *values[0].shape)))
            else:
                args.append(np.stack(values[:2]) if a == 0 else np.stack(values[:3]) if b == 0 else s.args[i])
        found = da.vmap(da.vmap(s.call, inner), outer)(*args)
        expected = looped(lambda *xs: tuple(looped(s.call, xs, inner, 3)), args, outer, 2)
        close(leaves(found), expected, f"vmap of vmap, in_axes={outer} of {inner}")


def check_dummy(s: Subject) -> None:
    """An inner vmap that maps only a dummy of shape (2, 1) gains an axis of size one, nothing else."""
    for axes in _limited(_choices(s, (-1, None)), 4):
        args = _batched(s, axes, 2)
        f = lambda dummy, *xs: da.vmap(lambda _, *ys: s.call(*ys), (0, *[None] * len(xs)))(dummy, *xs)
        found = da.vmap(f, (0, *axes))(np.zeros((2, 1)), *args)
        expected = [v[:, None] for v in looped(s.call, args, axes, 2)]
        close(leaves(found), expected, f"dummy inner vmap, in_axes={axes}")


def _tangents_of(s: Subject, size: int, *names):
    """Return the positions the operator moves in, and `size` lists of tangents for them."""
    positions = s.moving()
    rng = s.rng(*names)
    return positions, [[random_like(rng, s.args[i]) for i in positions] for _ in range(size)]


def _transform_choices(s: Subject, extra: int, limit: int) -> list[tuple]:
    """Return in_axes for the arguments followed by `extra` further ones (tangents, cotangents)."""
    arrays = _mappable(s)
    out = []
    for choice in axes_choices(len(arrays) + extra, (0, None) if len(arrays) > 1 else (0, -1, None)):
        axes = [None] * len(s.args)
        for i, a in zip(arrays, choice, strict=False):
            axes[i] = a
        out.append((*axes, *choice[len(arrays) :]))
    return _limited(out, limit)


def check_batched_jvp(s: Subject) -> None:
    """vmap over any of primals and tangents of jvp."""
    positions, tangents = _tangents_of(s, 3, "batched jvp")
    if not positions:
        return
    n = len(s.args)

    def f(*xs):
        full = [None] * n
        for i, t in zip(positions, xs[n:], strict=True):
            full[i] = t
        return da.jvp(s.call, xs[:n], full)

    _compare_with_loop(s, f, _transform_choices(s, len(positions), 5), tangents, "vmap of jvp")


def check_batched_vjp(s: Subject) -> None:
    """vmap over any of primals and cotangents of vjp."""
    f, cotangents = _pulling(s, "batched vjp")
    if f is not None:
        _compare_with_loop(s, f, _transform_choices(s, len(cotangents[0]), 5), cotangents, "vmap of vjp")


def _pulling(s: Subject, *names):
    """Return (arguments, cotangents) ↦ vjp, and three members of the cotangents of its floating outputs."""
    positions = s.moving()
    if not positions:
        return None, None
    value = s.call(*s.args)
    rng = s.rng(*names)
    cotangents = [[random_like(rng, v) for v in _floating(value)] for _ in range(3)]
    return _pulled(s, s.call), cotangents


def _floating(value) -> list:
    return [v for v in leaves(value) if np.asarray(v).dtype.kind in "fc"]


def _pulled(s: Subject, g):
    """Return (arguments, cotangents of the floating outputs) ↦ vjp of g, which has the arguments of the operator."""
    positions, n = s.moving(), len(s.args)

    def f(*xs):
        args, given = list(xs[:n]), iter(xs[n:])

        def partial(*moving):
            for i, x in zip(positions, moving, strict=True):
                args[i] = x
            return g(*args)

        value, pull = da.vjp(partial, *[xs[i] for i in positions])
        cts = [next(given) if np.asarray(v).dtype.kind in "fc" else None for v in _dtypes(value)]
        return pull(tuple(cts) if s.op.multiple_results else cts[0])

    return f


def _dtypes(value) -> list:
    return [np.empty(0, v.dtype) if hasattr(v, "dtype") else v for v in leaves(value)]


def _compare_with_loop(s: Subject, f, choices: list, extras: list, what: str) -> None:
    n = len(s.args)
    for axes in choices[: 1 if s.op.name in _SLOW else None]:
        args = _batched(s, axes[:n], 3)
        args += [stack_members([e[j] for e in extras], a) for j, a in enumerate(axes[n:])]
        found = leaves(da.vmap(f, axes)(*args))
        assert all([len(v) == 3 for v in found]), f"{what}, in_axes={axes}: not one entry per lane"
        # The loop is what costs: it judges the first lane and the last.
        close([v[::2] for v in found], looped(f, args, axes, 3, step=2), f"{what}, in_axes={axes}")


def check_batched_second(s: Subject) -> None:
    """vmap of vjp of vjp, of jvp of vjp and of jvp of jvp, over arguments, cotangents and tangents at once."""
    f, cotangents = _pulling(s, "batched second")
    if f is None:
        return
    positions, tangents = _tangents_of(s, 3, "batched second")
    n, k = len(s.args), len(cotangents[0])

    def split(xs):
        full = [None] * (n + k)
        for i, t in zip(positions, xs[n + k :], strict=True):
            full[i] = t
        return xs[: n + k], full

    def jvp_of_vjp(*xs):
        return da.jvp(f, *split(xs))[1]

    def vjp_of_vjp(*xs):
        args, full = split(xs)
        moving = [i for i, t in enumerate(full) if t is not None]

        def g(*ms):
            return f(*[ms[moving.index(i)] if i in moving else x for i, x in enumerate(args)])

        return da.vjp(g, *[args[i] for i in moving])[1](tuple(full[i] for i in moving))

    def jvp_of_jvp(*xs):
        args, full = split(xs)
        return da.jvp(lambda *ys: da.jvp(s.call, ys, full[:n])[1], args[:n], full[:n])[1]

    extras = [[*c, *t] for c, t in zip(cotangents, tangents, strict=True)]
    arrays = _mappable(s)
    everything = tuple(0 if i in arrays or i >= n else None for i in range(n + k + len(positions)))
    primals_only = tuple(0 if i in arrays else None for i in range(n + k + len(positions)))
    directions_only = (*[None] * n, *[0] * (k + len(positions)))
    # Which arguments are mapped matters to the operators inside: one of the three tells.
    _compare_with_loop(s, jvp_of_vjp, [everything, primals_only, directions_only], extras, "vmap of jvp of vjp")
    _compare_with_loop(s, vjp_of_vjp, [everything], extras, "vmap of vjp of vjp")
    _compare_with_loop(s, jvp_of_jvp, [everything], extras, "vmap of jvp of jvp")


def check_derivative_of_batched(s: Subject) -> None:
    """jvp, vjp and all second derivatives of vmap: lanes apart, unmapped arguments summed over lanes."""
    positions = s.moving()
    if not positions:
        return
    for axes in _limited(_choices(s, (-1, None)), 3):
        args = _batched(s, axes, 2)

        def f(*moving, args=args, axes=axes):
            full = list(args)
            for i, x in zip(positions, moving, strict=True):
                full[i] = x
            return da.vmap(s.call, axes)(*full)

        def lane_of(*moving, args=args):
            full = list(args)
            for i, x in zip(positions, moving, strict=True):
                full[i] = x
            return full

        moving = [args[i] for i in positions]
        moving_axes = [axes[i] for i in positions]
        rng = s.rng("derivative of batched", axes)
        tangents = [random_like(rng, x) for x in moving]
        n = len(s.args)
        flat = lambda *xs: da.jvp(s.call, xs[:n], _scattered(n, positions, xs[n:]))[1]
        expected = looped(flat, [*args, *tangents], [*axes, *moving_axes], 2)
        close(leaves(da.jvp(f, moving, tangents)[1]), expected, f"jvp of vmap, in_axes={axes}")
        spellings_agree(f, moving, rng)
        value, pull = da.vjp(f, *moving)
        cts = [random_like(rng, v) for v in leaves(value)]
        found = pull(tuple(cts) if s.op.multiple_results else cts[0])
        for j, (i, a) in enumerate(zip(positions, moving_axes, strict=True)):
            parts = [_lane_cotangent(s, positions, lane_of(*moving), axes, cts, b)[j] for b in range(2)]
            want = sum(parts) if a is None else np.stack(parts, a)
            want = np.asarray(want, np.asarray(args[i]).dtype)
            close(found[j], want, f"vjp of vmap, argument {i}, in_axes={axes}", rtol=tolerance(want, value))


def check_derivative_of_nested(s: Subject) -> None:
    """jvp and vjp outside, between and inside of two vmaps are those of each lane; a pullback made once is batched."""
    positions, arrays, n = s.moving(), _mappable(s), len(s.args)
    if not positions or not set(positions) <= set(arrays) or s.op.name in _SLOW:
        return
    rng = s.rng("derivative of nested")
    axes = tuple(0 if i in arrays else None for i in range(n))
    cts_of = _floating(s.call(*s.args))
    lanes = [
        ([*m], [random_like(rng, m[i]) for i in positions], [random_like(rng, v) for v in cts_of]) for m in s.members(4)
    ]

    def square(parts: list):
        return np.stack([np.asarray(x) for x in parts]).reshape((2, 2, *np.shape(parts[0])))

    args = [square([m[i] for m, _, _ in lanes]) if i in arrays else s.args[i] for i in range(n)]
    tangents = [square([t[j] for _, t, _ in lanes]) for j in range(len(positions))]
    cts = [square([c[j] for _, _, c in lanes]) for j in range(len(cts_of))]
    once = da.vmap(s.call, axes)
    nested = da.vmap(once, axes)

    def pushed(g):
        return lambda *xs: da.jvp(g, xs[:n], _scattered(n, positions, xs[n:]))[1]

    for name, derivative, extras, members in (
        ("jvp", pushed, tangents, [(*m, *t) for m, t, _ in lanes]),
        ("vjp", functools.partial(_pulled, s), cts, [(*m, *c) for m, _, c in lanes]),
    ):
        one = derivative(s.call)
        each = [leaves(one(*m)) for m in members]
        expected = [v[0] if v[0].dtype.kind == "V" else square(v) for v in zip(*each, strict=True)]
        xs, mapped = (*args, *extras), (*axes, *[0] * len(extras))
        for what, found in (
            (f"{name} of vmap of vmap", derivative(nested)(*xs)),
            (f"vmap of {name} of vmap", da.vmap(derivative(once), mapped)(*xs)),
            (f"vmap of vmap of {name}", da.vmap(da.vmap(one, mapped), mapped)(*xs)),
        ):
            pairs = [(f, e) for f, e in zip(leaves(found), expected, strict=True) if e.dtype.kind != "V"]
            close([f for f, _ in pairs], [e for _, e in pairs], what)
    f, moving = s.reduced()
    pull = da.vjp(f, *moving)[1]
    if len(cts_of) == len(leaves(s.call(*s.args))):
        given = lambda k: tuple(c[k] for c in cts) if s.op.multiple_results else cts[0][k]
        apart = [leaves(pull(given((0, k)))) for k in range(2)]
        close(leaves(da.vmap(pull)(given(0))), [np.stack(v) for v in zip(*apart, strict=True)], "vmap of one pullback")


def _scattered(n: int, positions: list[int], values) -> list:
    full = [None] * n
    for i, v in zip(positions, values, strict=True):
        full[i] = v
    return full


def _lane_cotangent(s: Subject, positions, full, axes, cts, b: int):
    one = [x if a is None else np.take(x, b, axis=a) for x, a in zip(full, axes, strict=True)]

    def f(*moving):
        values = list(one)
        for i, x in zip(positions, moving, strict=True):
            values[i] = x
        return s.call(*values)

    mine = [None if c is None else c[b] for c in cts]
    return da.vjp(f, *[one[i] for i in positions])[1](tuple(mine) if s.op.multiple_results else mine[0])
