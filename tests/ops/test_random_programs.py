"""Random programs of operators, each run by dualad and by JAX: values, derivatives, batches, and these nested.

`--hypothesis-profile=full` runs thousands of programs in place of tens. JAX is asked for two numbers only, the values
and derivatives f, f′·s, f′·t and f″[s, t] of one lane, by nesting its jvp: paired with a cotangent they are what
every nesting of jvp, vjp and vmap must give. Not for: points where JAX and dualad choose differently
(test_special_values_*.py).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import pytest
import scipy.special
from hypothesis import event, given, settings
from hypothesis import strategies as st

import dualad as da
from tests.oracles import jax_side, random_programs  # noqa: F401  (float64, quick compilation)
from tests.oracles.arrays import close, pairing, random_like

LANES = 2


class Case:
    """A program with its inputs in two lanes, two directions and a cotangent for each."""

    def __init__(self, program: random_programs.Program, seed: int) -> None:
        self.program = program
        rng = np.random.default_rng(seed)
        self.lanes = [tuple(program.inputs), tuple(x * x.dtype.type(1 + 2**-7) for x in program.inputs)]
        self.value = self.f(*self.lanes[0])
        self.s, self.t = ([tuple(random_like(rng, x) for x in program.inputs) for _ in range(LANES)] for _ in range(2))
        self.c = [random_like(rng, self.value) for _ in range(LANES)]
        self.exact = all(np.asarray(x).dtype.itemsize > 4 for x in (*program.inputs, self.value))

    def f(self, *xs):
        return self.program(np, scipy.special, *xs)

    def agree(self, found, expected, what: str, scale: float = 1.0) -> None:
        # JAX computes in double precision throughout; a program partly in single precision is compared loosely.
        close(found, expected, what, rtol=1e-8 * scale if self.exact else 3e-3 * scale, dtypes=False)


def with_jax(case: Case, compiled: bool = True) -> list[list]:
    """Return [f, f′·s, f′·t, f″[s, t]] in every lane, of JAX."""

    def everything(xs, s, t):
        f = lambda *xs: case.program(jnp, jax.scipy.special, *xs)
        (value, vs), (vt, vst) = jax.jvp(lambda *xs: jax.jvp(f, xs, s), xs, t)
        return value, vs, vt, vst

    if compiled:
        everything = jax.jit(everything)
    wide = lambda xs: tuple(jnp.asarray(x, "complex128" if np.iscomplexobj(x) else "float64") for x in xs)
    return [
        [np.asarray(v) for v in everything(wide(x), wide(s), wide(t))]
        for x, s, t in zip(case.lanes, case.s, case.t, strict=True)
    ]


def stacked(lanes: list[tuple]) -> tuple:
    return tuple(np.stack(xs) for xs in zip(*lanes, strict=True))


def check(case: Case) -> None:
    try:
        check_against(case, with_jax(case))
    except AssertionError:
        # XLA compiles some programs of complex numbers wrongly (their derivatives come out infinite). One operator at
        # a time, which takes seconds, JAX has the last word.
        check_against(case, with_jax(case, compiled=False))


def check_against(case: Case, theirs: list[list]) -> None:
    value, vs, vt, vst = theirs[0]
    f, x, s, t, c = case.f, case.lanes[0], case.s[0], case.t[0], case.c[0]
    pushed = lambda *xs: da.jvp(f, xs, s)[1]
    pulled = lambda *xs: da.vjp(f, *xs)[1](c)
    each = [sum(pairing([a], [b]) for a, b in zip(case.c, [lane[k] for lane in theirs], strict=True)) for k in range(4)]
    c_vt, c_vst = (pairing([c], [v]) for v in (vt, vst))

    # one lane
    found, tangent = da.jvp(f, x, s)
    close(found, case.value, "value under jvp", None if case.exact else 3e-3)
    case.agree(found, value, "value")
    case.agree(tangent, vs, "jvp")
    assert np.asarray(tangent).dtype == np.asarray(case.value).dtype
    found, pull = da.vjp(f, *x)
    close(found, case.value, "value under vjp", None if case.exact else 3e-3)
    back = pull(c)
    case.agree(pairing(back, t), c_vt, "vjp")
    for a, b in zip(back, x, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
    case.agree(da.jvp(pushed, x, t)[1], vst, "jvp of jvp", 10)
    case.agree(pairing(da.jvp(pulled, x, t)[1], s), c_vst, "jvp of vjp", 10)
    case.agree(pairing(da.vjp(pushed, *x)[1](c), t), c_vst, "vjp of jvp", 10)
    case.agree(pairing(da.vjp(pulled, *x)[1](s), t), c_vst, "vjp of vjp", 10)

    # lanes
    xs, ss, ts, cs = stacked(case.lanes), stacked(case.s), stacked(case.t), np.stack(case.c)
    lanes = lambda k: np.stack([lane[k] for lane in theirs])
    case.agree(da.vmap(f)(*xs), lanes(0), "vmap")
    case.agree(da.vmap(lambda x, s: da.jvp(f, x, s)[1])(xs, ss), lanes(1), "vmap of jvp")
    case.agree(da.jvp(da.vmap(f), xs, ss)[1], lanes(1), "jvp of vmap")
    case.agree(pairing(da.vmap(lambda x, c: da.vjp(f, *x)[1](c))(xs, cs), ts), each[2], "vmap of vjp")
    case.agree(pairing(da.vjp(da.vmap(f), *xs)[1](cs), ts), each[2], "vjp of vmap")
    gradient = lambda x, c: da.grad(lambda x: np.sum(np.real(c * f(*x))))(x)
    case.agree(pairing(da.vmap(gradient)(xs, cs), ts), each[2], "vmap of grad")
    second = lambda x, s, t: da.jvp(lambda *ys: da.jvp(f, ys, s)[1], x, t)[1]
    case.agree(da.vmap(second)(xs, ss, ts), lanes(3), "vmap of jvp of jvp", 10)
    mixed = lambda x, c, t: da.jvp(lambda *ys: da.vjp(f, *ys)[1](c), x, t)[1]
    case.agree(pairing(da.vmap(mixed)(xs, cs, ts), ss), each[3], "vmap of jvp of vjp", 10)

    # two axes of lanes: the inputs along one, the directions along the other
    jvp = lambda x, s: da.jvp(f, x, s)[1]
    both = da.vmap(da.vmap(jvp, (None, 0)), (0, None))(xs, ss)
    case.agree(np.stack([both[k][k] for k in range(LANES)]), lanes(1), "vmap of vmap of jvp")


def check_jacobians(case: Case) -> None:
    argnums = tuple(range(len(case.lanes[0])))
    forward = da.jacfwd(case.f, argnums)(*case.lanes[0])
    case.agree(da.jacrev(case.f, argnums)(*case.lanes[0]), forward, "jacrev against jacfwd")
    for a, x in zip(forward, case.lanes[0], strict=True):
        assert a.shape == np.shape(case.value) + x.shape


FULL = settings.get_current_profile_name() == "full"


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples if FULL else 32)
@given(
    st.sampled_from(random_programs.INPUTS),
    st.lists(st.integers(0, 2**20), min_size=2, max_size=6),
    st.integers(0, 2**10),
)
def test_random_programs(kind: str, choices: list[int], seed: int) -> None:
    program = random_programs.build(kind, choices, seed)
    if not program.steps:
        return
    event(kind)
    case = Case(program, seed)
    try:
        with np.errstate(all="ignore"):
            check(case)
            # A full Jacobian asks for real outputs, or a holomorphic function.
            if not np.iscomplexobj(case.value) and not any(np.iscomplexobj(x) for x in program.inputs):
                check_jacobians(case)
    except Exception as error:
        error.add_note(f"program {kind!r}, {choices}, {seed}:\n{program}")
        raise
    finally:
        if FULL:  # thousands of compiled programs would fill the memory
            jax.clear_caches()


def test_every_kind_of_step_occurs() -> None:
    """The generator reaches its operators: none asks for what no value has."""
    seen: set[str] = set()
    rng = np.random.default_rng(0)
    for seed in range(250):
        kind = random_programs.INPUTS[seed % len(random_programs.INPUTS)]
        program = random_programs.build(kind, rng.integers(0, 2**20, 6).tolist(), seed)
        seen |= {step.text.rpartition("* ")[2].partition("[")[0] for step in program.steps}
    missing = set(random_programs.OPERATORS) - seen
    assert len(missing) < 12, sorted(missing)
