"""Checks of one operator on one sample: derivatives of first, second and third order in every spelling; transposes.

Not for: batching (`op_batching`), or points where the derivative is a matter of choice.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import dualad as da
from dualad.core.aval import Aval, aval_of
from dualad.errors import RuleMissingError

from . import differences
from .arrays import close, inexact, leaves, pairing, random_like, tolerance
from .op_values import Subject, subjects

__all__ = [
    "check_double_transpose", "check_first", "check_linear", "check_mixed_complex", "check_no_tangent", "check_second",
    "check_spellings", "check_third", "check_transpose", "check_vjp", "spellings_agree",
]  # fmt: skip


def _pushed(f, n: int):
    """Return (args, tangents) ↦ tangent of f, as a function of the args alone, for a fixed tangent."""
    return lambda tangents: lambda *args: da.jvp(f, args, tangents)[1]


def check_no_tangent(s: Subject) -> None:
    """A question, index or step has the same value under jvp and grad, and no tangent there."""
    assert s.op.transpose is None or s.op.linear_in, "a transpose without linear_in"
    rng = s.rng("none")
    expected = s.op.impl(*s.args, **s.params)
    tangents = [random_like(rng, a) for a in s.args]
    value, tangent = da.jvp(s.call, s.args, tangents)
    close(value, expected, "value under jvp", rtol=0.0)
    if s.op.name != "stop_gradient":
        zeros = [np.zeros_like(v) for v in leaves(expected)]
        differences.compare(zeros, differences.along(s.call, s.args, tangents), "zero, declared as the derivative,")
    for v, t in zip(leaves(value), leaves(tangent), strict=True):
        if v.dtype.kind in "fc":
            assert not np.any(t), f"tangent {t} of an operator declared without derivative"
        else:
            assert t.dtype == da.float0, f"tangent of dtype {t.dtype} for a value of dtype {v.dtype}"
    out, pull = da.vjp(s.call, *s.args)
    cts = [random_like(rng, v) for v in leaves(out)]
    for c in leaves(pull(tuple(cts) if s.op.multiple_results else cts[0])):
        assert c.dtype == da.float0 or not np.any(c), f"cotangent {c} of an operator declared without derivative"


def check_first(s: Subject) -> None:
    """jvp against central differences; the value it returns; each tangent alone adds up to all together."""
    rng = s.rng("first")
    positions = s.moving()
    for i in set(range(len(s.args))) - set(positions):
        if inexact(s.args[i]):
            _refuses(s, i)
    if not positions:
        return
    tangents = [random_like(rng, a) if i in positions else None for i, a in enumerate(s.args)]
    value, tangent = da.jvp(s.call, s.args, tangents)
    close(value, s.op.impl(*s.args, **s.params), "value under jvp", rtol=1e-12)
    differences.compare(tangent, differences.along(s.call, s.args, tangents), "jvp")
    if len(positions) > 1:
        total = None
        for i in positions:
            one = [t if j == i else None for j, t in enumerate(tangents)]
            parts = [np.asarray(t) for t in leaves(da.jvp(s.call, s.args, one)[1])]
            total = (
                parts
                if total is None
                else [a if a.dtype.kind == "V" else a + b for a, b in zip(total, parts, strict=True)]
            )
        close(total, leaves(tangent), "tangents one by one against all together")
    _check_rule_shapes(s, tangents)


def _refuses(s: Subject, i: int) -> None:
    """An argument without a derivative rule is refused by name, never taken for a constant."""
    tangents = [np.ones_like(a) if j == i else None for j, a in enumerate(s.args)]
    with pytest.raises(RuleMissingError) as error:
        da.jvp(s.call, s.args, tangents)
    assert s.op.name in error.value.what and error.value.instead, f"a refusal without name or remedy: {error.value}"


def _check_rule_shapes(s: Subject, tangents) -> None:
    """The rule itself gives a tangent of the value's shape for every pattern of exact zeros."""
    positions = [i for i, t in enumerate(tangents) if t is not None]
    for i in positions:
        value, tangent = s.op.jvp(list(s.args), [t if j == i else None for j, t in enumerate(tangents)], **s.params)
        pairs = zip(value, tangent, strict=True) if s.op.multiple_results else [(value, tangent)]
        for v, t in pairs:
            if t is not None:
                assert np.shape(t) == np.shape(v), (
                    f"rule: tangent of shape {np.shape(t)} for a value of shape {np.shape(v)}"
                )


def check_second(s: Subject) -> None:
    """jvp of jvp against the difference of jvp."""
    f, args = s.reduced()
    rng = s.rng("second")
    t1, t2 = ([random_like(rng, a) for a in args] for _ in range(2))
    once = _pushed(f, 1)(t1)
    twice = da.jvp(once, args, t2)[1]
    differences.compare(twice, differences.along(once, args, t2), "jvp of jvp")


def check_third(s: Subject) -> None:
    """jvp of jvp of jvp against the difference of jvp of jvp; reverse over forward over reverse agrees."""
    f, args = s.reduced()
    rng = s.rng("third")
    t1, t2, t3 = ([random_like(rng, a) for a in args] for _ in range(3))
    twice = _pushed(_pushed(f, 1)(t1), 1)(t2)
    thrice = da.jvp(twice, args, t3)[1]
    differences.compare(thrice, differences.along(twice, args, t3), "jvp of jvp of jvp")
    ct = _cotangent(rng, f, args)

    def hvp(*xs):
        return da.jvp(lambda *ys: da.vjp(f, *ys)[1](ct), xs, t2)[1]

    back = da.vjp(hvp, *args)[1](tuple(t1))
    _equal(pairing(back, t3), pairing(ct, thrice), "vjp of jvp of vjp against jvp of jvp of jvp", ct, args)


def _cotangent(rng, f, args):
    value = f(*args)
    if isinstance(value, tuple):
        return tuple(random_like(rng, v) for v in value)
    return random_like(rng, value)


def _equal(a: float, b: float, what: str, *dtypes) -> None:
    if np.isnan(a) and np.isnan(b):
        return
    limit = 10 * tolerance(*dtypes) * (1 + abs(b)) if np.isfinite(b) else 0.0
    assert a == b or abs(a - b) <= limit, f"{what}: {a!r}, expected {b!r}"


def check_vjp(s: Subject) -> None:
    """⟨c, J t⟩ = ⟨Jᵀ c, t⟩; the value vjp returns; shapes and dtypes of the cotangents."""
    f, args = s.reduced()
    rng = s.rng("vjp")
    tangents = [random_like(rng, a) for a in args]
    value, pull = da.vjp(f, *args)
    close(value, s.op.impl(*s.args, **s.params), "value under vjp", rtol=1e-12)
    ct = _cotangent(rng, f, args)
    back = pull(ct)
    for x, c in zip(args, back, strict=True):
        x = np.asarray(x)
        assert c.shape == x.shape and c.dtype == x.dtype, f"cotangent {c.dtype}{c.shape} for {x.dtype}{x.shape}"
    _equal(pairing(back, tangents), pairing(ct, da.jvp(f, args, tangents)[1]), "vjp against jvp (dot test)", ct, args)


def check_spellings(s: Subject) -> None:
    """All spellings of the second derivative agree: jvp∘jvp, jvp∘vjp, vjp∘jvp, vjp∘vjp, in both of vjp's slots."""
    f, args = s.reduced()
    spellings_agree(f, args, s.rng("spellings"))


def spellings_agree(f, args, rng) -> None:
    """Assert that ⟨c, D²f[s, t]⟩ is one number however it is spelled."""
    s, t = ([random_like(rng, a) for a in args] for _ in range(2))
    ct, dct = _cotangent(rng, f, args), _cotangent(rng, f, args)
    pushed = _pushed(f, 1)(t)

    def pulled(*xs):
        return da.vjp(f, *xs)[1](ct)

    expected = pairing(ct, da.jvp(pushed, args, s)[1])
    _equal(pairing(da.jvp(pulled, args, s)[1], t), expected, "jvp of vjp against jvp of jvp", ct, args)
    _equal(pairing(da.vjp(pushed, *args)[1](ct), s), expected, "vjp of jvp against jvp of jvp", ct, args)
    _equal(pairing(da.vjp(pulled, *args)[1](tuple(t)), s), expected, "vjp of vjp against jvp of jvp", ct, args)
    # vjp is linear in the cotangent: moving it gives Jᵀ·dct, and pulling t back through it gives J t.
    both = lambda c, *xs: da.vjp(f, *xs)[1](c)
    moved = da.jvp(both, (ct, *args), (dct, *[None] * len(args)))[1]
    _equal(pairing(moved, t), pairing(dct, da.jvp(f, args, t)[1]), "jvp of vjp in the cotangent", ct, args)
    through = da.vjp(lambda c: both(c, *args), ct)[1](tuple(t))[0]
    _equal(pairing(through, dct), pairing(da.jvp(f, args, t)[1], dct), "vjp of vjp in the cotangent", ct, args)


def check_mixed_complex(s: Subject) -> None:
    """Real and complex arguments side by side: jvp against differences, vjp against jvp."""
    if not any(np.asarray(a).dtype.kind == "c" for other in subjects(s.op) for a in other.args):
        return
    real = [i for i, a in enumerate(s.args) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
    if len(real) < 2 or any(np.asarray(a).dtype.kind == "c" for a in s.args):
        return
    for i in real:
        args = tuple(a + 0.3j if j == i else a for j, a in enumerate(s.args))
        mixed = Subject(s.op, s.index, args, s.params)
        check_first(mixed)
        check_vjp(mixed)
        check_shape = s.op.abstract_eval(*[aval_of(a) for a in args], **s.params)
        close([np.zeros(a.shape, a.dtype) for a in ([check_shape] if not s.op.multiple_results else check_shape)],
              [np.zeros_like(v) for v in leaves(mixed.call(*args))], "shape rule of mixed arguments")  # fmt: skip


# ── linear operators ─────────────────────────────────────────────────────────────────────────────────────────────


def _linear_groups(s: Subject) -> list[list[int]]:
    """Return the groups of positions the operator is linear in: all together if joint, else one by one."""
    positions = list(s.op.linear_positions(len(s.args), s.params))
    positions = [i for i in positions if inexact(s.args[i])]
    if not positions:
        return []  # an operator that is linear in some calls only, and not in this one
    if not s.op.joint:
        return [[i] for i in positions]
    # A joint operator may also meet a constant zero in one position, and one live argument in each.
    return [positions] + ([[i] for i in positions] if len(positions) > 1 else [])


def _partial(s: Subject, group: list[int]):
    """Return the operator as a linear function of the arguments of a group (a joint one sees zeros elsewhere)."""
    joint = s.op.linear_in and s.op.joint
    positions = s.op.linear_positions(len(s.args), s.params)

    def f(*values):
        args = [np.zeros_like(a) if joint and i in positions else a for i, a in enumerate(s.args)]
        for i, v in zip(group, values, strict=True):
            args[i] = v
        return s.call(*args)

    return f, [s.args[i] for i in group]


def check_linear(s: Subject) -> None:
    """f(2x − 3y) = 2 f(x) − 3 f(y) in the positions declared linear."""
    for group in _linear_groups(s):
        f, args = _partial(s, group)
        rng = s.rng("linear", *group)
        x, y = ([random_like(rng, a) for a in args] for _ in range(2))
        found = f(*[(2 * a - 3 * b).astype(np.asarray(a).dtype) for a, b in zip(x, y, strict=True)])
        expected = [2 * a - 3 * b for a, b in zip(leaves(f(*x)), leaves(f(*y)), strict=True)]
        close(leaves(found), expected, f"linearity in {group}", dtypes=False)


def check_transpose(s: Subject) -> None:
    """⟨c, A t⟩ = ⟨Aᵀ c, t⟩ for the declared transpose, one cotangent per argument, of its shape."""
    for group in _linear_groups(s):
        f, args = _partial(s, group)
        rng = s.rng("transpose", *group)
        t = [random_like(rng, a) for a in args]
        ct = _cotangent(rng, f, args)
        given = [Aval(np.shape(a), np.asarray(a).dtype) if i in group else a for i, a in enumerate(s.args)]
        rules = {"transpose": s.op.transpose}
        if s.op.marked_transpose is not None:
            told = {"live": [None] * len(ct), "wanted": [i in group for i in range(len(s.args))]}
            for hot in (False, True):
                rule = functools.partial(s.op.marked_transpose, **told, hot=hot)
                rules[f"marked_transpose, {hot=}"] = lambda *given, rule=rule, **params: rule(*given, **params)[0]
        if s.op.strong_transpose is not None:
            for hot in (False, True):
                rules[f"strong_transpose, {hot=}"] = functools.partial(s.op.strong_transpose, live=None, hot=hot)
        for name, rule in rules.items():
            back = rule(list(ct) if s.op.multiple_results else ct, *given, **s.params)
            assert len(back) == len(s.args), f"{name} returned {len(back)} cotangents for {len(s.args)} arguments"
            for i, c in enumerate(back):
                assert i in group or c is None, f"{name} returned a cotangent for the known argument {i}"
                if c is not None:
                    assert np.shape(c) == np.shape(s.args[i]), f"{name}: shape {np.shape(c)} for {np.shape(s.args[i])}"
            found = pairing([back[i] for i in group], t)
            _equal(found, pairing(ct, f(*t)), f"{name} in {group} (dot test)", ct, args)


def check_double_transpose(s: Subject) -> None:
    """Transposing twice gives the operator back, through `linear_transpose`."""
    for group in _linear_groups(s):
        f, args = _partial(s, group)
        rng = s.rng("double", *group)
        t = [random_like(rng, a) for a in args]
        ct = _cotangent(rng, f, args)
        back = da.linear_transpose(f, *args)
        _equal(pairing(back(ct), t), pairing(ct, f(*t)), f"linear_transpose in {group}", ct, args)
        twice = da.linear_transpose(back, ct)(tuple(t))[0]
        real = [
            np.real(v) if np.asarray(c).dtype.kind == "f" else v for v, c in zip(leaves(f(*t)), leaves(ct), strict=True)
        ]
        close(leaves(twice), real, f"double transpose in {group}")
