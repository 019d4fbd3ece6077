"""The first call checks itself: planted faults of every kind are caught by it, and nothing else is.

A fault is caught if the first call returns what the function returns, with a warning, and later calls do too.
"""

from __future__ import annotations

import os
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.cli.main import main
from dualad.compile import call, fault_report, source_block, trust
from dualad.compile.native import code, engine, equations, groups, lowering, operators, parts, stacks, table
from dualad.core.aval import Aval
from dualad.errors import CompilerFaultWarning, DifferentValueError
from dualad.program.ir import Program
from dualad.testing import check_function

RNG = np.random.default_rng(5)
X, M = RNG.normal(size=7), RNG.normal(size=(6, 6))
LONG, STACK = RNG.normal(size=70_000), RNG.normal(size=(20, 4, 4)) + 4 * np.eye(4)
STACKS = np.tile(STACK, (4, 1, 1))


def small(x):
    y = x * 1.5 + np.where(x < 0.25, x, 0.5)
    return y * y - x, x - y / 3.0


def matrix(m):
    return np.sum(m * 2.0 + np.sqrt(m * m), axis=0), m @ m - m


def long(x):
    y = np.tanh(x) * x + 0.5
    return y - x, np.sum(y * x)


def loop(x):
    return da.scan(lambda c, _: (c * 0.75 + x, c * c), x, np.arange(9))


def unrolled(x):
    y = x
    for k in range(300):
        y = y * 0.99 + x[k % 7]
    return y, x * 2.0


def powers(x):
    return x**2 - x * 3.0, x**3 + x


def stack(a):
    return np.linalg.inv(a) @ a, np.linalg.cholesky(a @ a.transpose(0, 2, 1))


def slope(x):
    return da.grad(lambda x: np.sum(small(x)[0]))(x)


def same(found, expected) -> None:
    for a, b in zip(da.tree.flatten(found)[0], da.tree.flatten(expected)[0], strict=True):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────


def edited(edit: Callable[[str], str]) -> Callable:
    """Plant a fault in the text of machine code, behind the proof that its accesses are in bounds."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        compile_ = engine.Engine.compile

        def compile_wrongly(self, text, exports, *options):
            ours = all([not name.startswith("m_") and name not in ("stub", "front", "bound") for name in exports])
            assert not ours or edit(text) != text
            with pytest.MonkeyPatch.context() as unproven:
                if ours:
                    unproven.setattr(engine, "check", lambda text, entries: None)
                return compile_(self, edit(text) if ours else text, exports, *options)

        patch.setattr(engine.Engine, "compile", compile_wrongly)

    return plant


def written(table: str, offset: int) -> Callable:
    """Plant a write of a number so many bytes from the start of the first array of a table."""
    lines = [
        f"%pa = load ptr, ptr %{table}", f"%pb = getelementptr i8, ptr %pa, i64 {offset}",
        "store double 1.0, ptr %pb, align 1", "ret i32 0",
    ]  # fmt: skip
    return edited(lambda text: text.replace("ret i32 0", "\n  ".join(lines)))


def replaced(owner, name: str, make: Callable) -> Callable:
    """Plant ``make(original)`` in the place of a function."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        if isinstance(owner, dict):
            patch.setitem(owner, name, make(owner[name]))
        else:
            patch.setattr(owner, name, make(getattr(owner, name)))

    return plant


def inexact(row):
    return row._replace(write=lambda b, x: b.mul(row.write(b, x), 1.0000001))


def swapped_outputs(original):
    return lambda program: Program(program.inputs, program.steps, program.outputs[::-1], program.name)


def unproven(pass_: str, make: Callable) -> Callable:
    """Plant a fault in what a pass makes of a program, and leave its proof out."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(call, pass_, make(getattr(call, pass_)))
        patch.setattr(call, "proven", lambda program, passes, in_part: passes[_PASSES[pass_]](program))

    return plant


_PASSES = {"simplify": "simplification", "reroll": "finding loops again"}


def without_a_step(original):
    def simplify(program):
        made = original(program)
        found = next(i for i, s in enumerate(made.steps) if s[0].name == "add" and s[1][0] is not s[1][1])
        op, args, params, outs = made.steps[found]
        steps = [*made.steps[:found], (op, [args[0], args[0]], params, outs), *made.steps[found + 1 :]]
        return Program(made.inputs, steps, made.outputs, made.name)

    return simplify


def as_whole_numbers(original):
    def entered(made, body, avals, *args, **kwargs):
        return original(made, body, (avals[0], [Aval(a.shape, np.dtype(np.int64)) for a in avals[1]]), *args, **kwargs)

    return entered


FAULTS = {
    "another operator": (edited(lambda text: text.replace("fadd", "fsub", 1)), small, X),
    "another constant": (edited(lambda text: text.replace("0x3FF8000000000000", "0x3FF8000010000000")), small, X),
    "a comparison that is none": (edited(lambda text: text.replace("fcmp olt", "fcmp oge")), small, X),
    "a choice the other way round": (
        replaced(code.Lanes, "select", lambda f: lambda b, m, x, y: f(b, m, y, x)), small, X),
    "a square that is a little more": (
        replaced(operators.ENTRYWISE, "square", inexact), powers, X),
    "swapped results": (
        replaced(code.Code, "pointer_in", lambda f: lambda c, t, i: f(c, t, 1 - i if t == "%out" else i)), small, X),
    "a result that is not written": (replaced(parts, "copied", lambda f: lambda *args: None), unrolled, X),
    "a write behind the result": (written("out", 8 * X.size), small, X),
    "a write far behind the result": (written("out", 8 * X.size + 200), small, X),
    "a write before the result": (written("out", -8), small, X),
    "a write into an argument": (written("in", 16), small, X),
    "another dtype": (replaced(groups, "compile_entry", as_whole_numbers), small, X),
    "another axis": (
        replaced(lowering.Registers, "reduction", lambda f: lambda s, n, x, p, o: f(s, n, x, {"axis": (1,)}, o)),
        matrix, M),
    "a sum that alternates": (replaced(operators.JOINED_BY, "sum", lambda name: "subtract"), matrix, M),
    "products of other entries": (
        replaced(code.Lanes, "fma", lambda f: lambda b, x, y, z: f(b, y, y, z)), matrix, M),
    "a loop that ends early": (edited(lambda text: text.replace(", 9\n", ", 8\n")), loop, X),
    "a write by a loop that goes on": (edited(lambda text: text.replace(", 9\n", ", 10\n")), loop, X),
    "the last block of a long array": (
        replaced(equations, "shared_out", lambda f: lambda part, n, step: part(0, max(n - step, 0))), long, LONG),
    "an inverse without a step": (replaced(stacks.Dense, "_forward", lambda f: lambda *args: None), stack, STACK),
    "a simplification that is wrong": (unproven("simplify", without_a_step), unrolled, X),
    "loops with swapped results": (unproven("reroll", swapped_outputs), small, X),
    "a derivative's machine code": (edited(lambda text: text.replace("fmul", "fadd", 1)), slope, X),
}  # fmt: skip


def caught(plant: Callable, f: Callable, x: np.ndarray, patch: pytest.MonkeyPatch) -> str:
    patch.setattr(trust, "STRICT", False)
    expected, kept = f(x), x.copy()
    plant(patch)
    fast = da.jit(f)
    with pytest.warns(CompilerFaultWarning, match="is wrong, and is not used") as told:
        same(fast(x), expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for factor in (1.0, 0.5):
            same(fast(x * factor), f(x * factor))
    assert np.array_equal(x, kept) and len(told) == 1
    return str(told[0].message)


@pytest.mark.usefixtures("native_backend")
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_of_machine_code_are_caught(fault: str, monkeypatch, caplog):
    text = caught(*FAULTS[fault], monkeypatch)
    assert "[DAL005]" in caplog.text
    assert ("machine code wrote" in text) == fault.startswith("a write")


OF_SOURCE = {
    "another operator": (
        replaced(table.LOWERINGS, "subtract", lambda row: row._replace(sign="+")), small, X),
    "the last matrices of a stack": (
        replaced(source_block, "shared_out", lambda f: lambda part, n, step: part(0, n - step)), stack, STACKS),
    "a simplification": (unproven("simplify", without_a_step), unrolled, X),
}  # fmt: skip


@pytest.mark.usefixtures("numpy_backend")
@pytest.mark.parametrize("fault", OF_SOURCE)
def test_planted_faults_of_source_are_caught(fault: str, monkeypatch):
    caught(*OF_SOURCE[fault], monkeypatch)


def test_code_that_raises_where_the_function_does_not(monkeypatch):
    monkeypatch.setattr(trust, "STRICT", False)
    monkeypatch.setattr(source_block.Block, "returned", lambda *args: "()[5]")
    monkeypatch.setenv("DUALAD_NATIVE", "0")
    with pytest.warns(CompilerFaultWarning, match="it raises IndexError"):
        same(da.jit(long)(LONG), long(LONG))


# ── what is no fault ─────────────────────────────────────────────────────────────────────────────────────────────


def lorenz(u):
    def step(u, _):
        x, y, z = u
        return np.stack([x + 0.1 * (y - x), y + 0.01 * (x * (28 - z) - y), z + 0.01 * (x * y - 8 / 3 * z)]), u[0]

    return da.scan(step, u, np.arange(2000))


def chaotic(u):
    for _ in range(200):
        u = np.sin(3.9 * u) * 1.3 + 0.1
    return u


def sweeps(ab):
    a, b = ab[:, :2], ab[:, 2]
    x = b.copy()
    for _ in range(2):
        new = x.copy()
        for i in range(len(b)):
            new[i] = (b[i] - a[i] @ x + a[i, i] * x[i]) / a[i, i]
        x = new
    return np.sum(np.sin(x))


ILL = np.vander(np.linspace(0.1, 1.0, 9))
RIGHT = {
    "chaos in exact arithmetic": (lorenz, np.ones(3)),
    "chaos in mathematics": (chaotic, RNG.normal(size=20)),
    "differences that are zero": (lambda a: np.exp(a @ a.T) - np.exp(a @ a.T).T, RNG.normal(size=(20, 20))),
    "a sum that cancels": (lambda a: np.sum(np.exp(a) - np.mean(np.exp(a))), RNG.normal(size=900)),
    "positions among equals": (lambda a: np.argmax(np.tanh(a * 0 + 1) + np.log1p(a * 0), axis=1), M),
    "just below whole numbers": (lambda a: np.floor(np.exp(np.log(a))), np.arange(1.0, 3000.0)),
    "a comparison at the limit": (lambda a: np.where(np.exp(np.log(a)) >= a, 1.0, -1.0), np.arange(1.0, 300.0)),
    "single precision": (lambda a: np.cumsum(np.exp(a) - 1.0), RNG.normal(size=5000).astype(np.float32)),
    "complex numbers": (lambda a: np.exp(1j * a) @ np.exp(-1j * a.T), M),
    "an ill-conditioned inverse": (lambda a: np.linalg.inv(a * np.ones((20, 1, 1))), ILL),
    "an ill-conditioned solution": (lambda a: np.linalg.solve(a, np.tanh(a[0])), ILL),
    "a Hessian": (da.hessian(lambda v: np.sum(np.sin(v[1:] * v[:-1]) / (1.1 + np.cos(v[1:])))), RNG.normal(size=12)),
    "NaN and infinities": (
        lambda x: (np.log(x), 1 / x, np.sqrt(x), x * 0), np.array([-1.0, 0.0, -0.0, np.inf, np.nan])),
    "zeros of a basis": (da.jacfwd(lambda x: np.log(x)), np.array([0.0, 1.0])),
    "units in a matrix that is not square": (da.jacfwd(sweeps), np.array([[2.3, 0.4, 0.5], [0.6, 2.9, 0.8]])),
    "Python numbers": (lambda x: (x + 1, x / 3), 2.0),
    "nothing": (lambda x: (np.sum(x), x * 2, np.sin(x)), np.zeros((0, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_not_suspected(name: str, backend):
    f, x = RIGHT[name]
    fast = da.jit(f, check=10**8)  # the suite is strict: a difference raises
    with np.errstate(all="ignore"):
        fast(x)
    assert "compared with NumPy" in fast.explain(x) and "not compared" not in fast.explain(x)


# ── when it is done ──────────────────────────────────────────────────────────────────────────────────────────────


def wrong(monkeypatch, f, x, **options):
    monkeypatch.setattr(trust, "STRICT", False)
    unproven("simplify", without_a_step)(monkeypatch)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        out = da.jit(f, **options)(x)
    return out, [w for w in told if issubclass(w.category, CompilerFaultWarning)]


@pytest.mark.parametrize(("check", "found"), [(True, 1), (False, 0), (10_000, 1), (10, 0)])
def test_check_says_up_to_how_many_entries(check, found: int, monkeypatch):
    f = lambda x: x * 2.0 + np.sin(x)
    out, told = wrong(monkeypatch, f, X, check=check)
    assert len(told) == found and np.allclose(out, f(X)) is bool(found)


@pytest.mark.parametrize("check", ["yes", -1, 2.5, None])
def test_check_is_a_number_or_a_truth_value(check):
    with pytest.raises(TypeError, match="check="):
        da.jit(np.sin, check=check)


def test_a_loop_without_end_in_sight_is_given_up(monkeypatch):
    f = lambda x: da.while_loop(lambda c: c < 100_000, lambda c: c + 1.0, x)
    fast = da.jit(f)
    assert fast(0.0) == 100_000 and "for too long" in fast.explain(0.0)


@pytest.mark.filterwarnings("ignore::dualad.compile.tracing.EffectWarning")
def test_effects_happen_once(backend):
    calls = []
    host = da.wrap(lambda x: calls.append(1) or np.sin(x), jac=lambda x: np.diag(np.cos(x)))
    fast = da.jit(lambda x: host(x * x + 1.0) * 2 + np.exp(x))
    fast.lower(X)
    del calls[:]
    same(fast(X), np.sin(X * X + 1.0) * 2 + np.exp(X))
    assert len(calls) == 1 and "each piece" in fast.explain(X)


def test_machine_code_around_effects_is_compared(native_backend, monkeypatch):
    monkeypatch.setattr(trust, "STRICT", False)
    FAULTS["another operator"][0](monkeypatch)
    host = da.wrap(np.sin, jac=lambda x: np.diag(np.cos(x)))
    f = lambda x: host(x) * 2 + (x * x + 1.0) * x
    fast = da.jit(f)
    with pytest.warns(CompilerFaultWarning):
        same(fast(X), f(X))
    same(fast(X * 2), f(X * 2))


def test_threads_that_come_together(monkeypatch):
    fast, results = da.jit(small), []
    together = threading.Barrier(6)

    def work():
        together.wait()
        results.append(fast(X))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 6
    for out in results:
        same(out, small(X))


def test_derivatives_of_compiled_functions_are_checked(native_backend, monkeypatch):
    monkeypatch.setattr(trust, "STRICT", False)
    fast = da.jit(lambda x: np.sum(small(x)[0]))
    fast(X)
    FAULTS["a derivative's machine code"][0](monkeypatch)
    with pytest.warns(CompilerFaultWarning):
        same(da.grad(fast)(X), slope(X))


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────


def reported(monkeypatch, fault: str, **given) -> Path:
    return Path(re.search(r"with (\S+\.fault)", caught(*{**FAULTS, **given}[fault], monkeypatch))[1])


@pytest.mark.usefixtures("native_backend")
@pytest.mark.parametrize("fault", ["another constant", "a write behind the result", "a derivative's machine code"])
def test_a_report_is_replayed(fault: str, monkeypatch, capsys):
    with pytest.MonkeyPatch.context() as patch:
        path = reported(patch, fault)
        assert main(["bug", str(path)]) == 1
        found = capsys.readouterr().out
    assert "numpy" in found and "program " in found and "found: " in found and "\nhere: " in found
    assert main(["bug", str(path), "--full"]) == 0
    assert "does not occur" in capsys.readouterr().out


@pytest.mark.usefixtures("native_backend")
def test_large_arguments_are_drawn_anew(monkeypatch, capsys):
    monkeypatch.setattr(fault_report, "_MOST", 10)
    path = reported(monkeypatch, "another operator")
    assert path.stat().st_size < 4000 and main(["bug", str(path)]) == 1
    assert "too large to be kept" in capsys.readouterr().out


def test_what_programs_hold_is_written_down():
    def f(x, n):
        y = da.scan(lambda c, row: (c + row[::-1] * n, c[..., None]), x[0], x, reverse=True)[1]
        y = np.where(x[:, None] > 0, y.astype(np.float32), 1e-3)
        return np.sum(np.sort(y, axis=0), axis=(1,), keepdims=True), da.cond(x[0, 0] > 0, np.sin, np.exp, x)

    program = da.trace(f, M, 2.0)
    path = fault_report.write_report("nothing", program, [M, 2.0])
    again = fault_report.read_report(path.read_bytes())
    assert again.program.to_text() == program.to_text() and again.arguments[1] == 2.0
    for a, b in zip(again.program.inputs, program.inputs, strict=True):
        assert a.aval == b.aval and a.aval.weak == b.aval.weak
    for a, b in zip(again.program(*again.arguments), da.tree.flatten(program(M, 2.0))[0], strict=True):
        assert np.array_equal(a, b)


class Attack:
    def __reduce__(self):
        return os.system, ("echo attacked",)


def test_a_report_runs_nothing_that_it_brings_along(tmp_path, capsys):
    path = tmp_path / "x.fault"
    for content in (
        pickle.dumps(Attack()),
        fault_report._MAGIC + pickle.dumps(Attack()),
        fault_report._MAGIC + b"x",
        b"",
    ):
        path.write_bytes(content)
        assert main(["bug", str(path)]) == 2
    assert main(["bug", str(tmp_path / "none")]) == 2
    said = capsys.readouterr()
    assert "attacked" not in said.out and "refers to" in said.err


def test_where_no_report_can_be_written_there_is_a_warning_all_the_same(native_backend, monkeypatch):
    monkeypatch.setattr(fault_report.Path, "write_bytes", lambda *args: (_ for _ in ()).throw(OSError("full")))
    assert ".fault" not in caught(*FAULTS["another operator"], monkeypatch)


# ── who looks on ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "transform",
    [lambda f: f(X), lambda f: da.jvp(f, (X,), (X + 1,)), lambda f: da.vjp(f, X)[0], lambda f: da.vmap(f)(M)],
    ids=["plain", "jvp", "vjp", "vmap"],
)
def test_debug_compares_what_the_compiled_function_gives(transform, monkeypatch):
    monkeypatch.setattr(trust, "STRICT", False)
    with da.debug(values=True):
        same(transform(da.jit(small)), transform(small))
    unproven("simplify", without_a_step)(monkeypatch)
    with da.debug(values=True), pytest.raises(DifferentValueError, match="jit\\(small\\): compiled and as it was"):
        transform(da.jit(small, check=False))
    with da.debug(nan=True, values=True), pytest.raises(DifferentValueError):
        transform(da.jit(small, check=False))
    with da.debug(nan=True):  # operation by operation
        same(transform(da.jit(small, check=False)), transform(small))


def test_debug_compares_functions_that_write(monkeypatch):
    def f(x):
        x[1:] *= 2.0
        return np.sum(x)

    x, y = np.arange(4.0), np.arange(4.0)
    with da.debug(values=True):
        assert da.jit(f)(x) == f(y)
    assert np.array_equal(x, y)


def test_checks_compare_compiled_functions_with_what_they_were_compiled_from(monkeypatch):
    monkeypatch.setattr(trust, "STRICT", False)
    f = lambda x: small(x)[0]
    wrong = lambda fast: {
        r.quantity for r in check_function(fast, (X,), oracles=("differences",)).rows if r.status == "mismatch"
    }
    assert not wrong(da.jit(f))
    unproven("simplify", without_a_step)(monkeypatch)
    assert wrong(da.jit(f, check=False)) >= {"value", "jvp", "vjp", "jacfwd"}
