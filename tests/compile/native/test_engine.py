"""What LLVM is asked for: configurations that others use every day, also for processors that are not this one.

Not for: what compiled code computes (test_groups.py), or its files (test_store.py).
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import engine as engines
from dualad.compile.native.engine import Engine, configured
from dualad.compile.native.maths import KERNELS, KERNELS_OF_TWO

pytestmark = pytest.mark.usefixtures("native_backend")
x86 = pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="LLVM here may not know x86")

#: processors with AVX-512, and what LLVM says of their features
LARGE = ("skylake-avx512", "sapphirerapids", "znver4")
AVX512 = "+avx2,+fma,+avx512f,+avx512cd,+avx512bw,+avx512dq,+avx512vl"
LANE_OF_SHIFTED = (Path(__file__).parent / "texts" / "lane_of_shifted.ll").read_text()

COMPILE = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
cpu, features, level = sys.argv[1:]
target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
machine = target.create_target_machine(cpu=cpu, features=features, opt=int(level), jit=True)
module = llvm.parse_assembly(sys.stdin.read())
module.verify()
print(machine.emit_assembly(module))
"""


def assembly(text: str, cpu: str, level: int, features: str = AVX512) -> str:
    """Return what LLVM makes of a module, in a process that may die."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, cpu, features, str(level)], input=text, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The texts that LLVM is given, and the levels."""
    found: list[tuple[str, int]] = []
    compile = Engine.compile

    def noted(self: Engine, text: str, exports: list[str], objects: dict[str, int], level: int, *more: Any):
        found.append((text, level))
        return compile(self, text, exports, objects, level, *more)

    monkeypatch.setattr(Engine, "compile", noted)
    return found


@x86
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("cpu", LARGE)
def test_vectors_are_halved_where_llvm_gets_long_ones_wrong(cpu: str, level: int) -> None:
    """Lane 5 of what was shifted is ``a[1]``, 8 bytes from ``a``; LLVM 22 reads ``a[0]`` in registers of 512 bits."""
    made = assembly(configured(LANE_OF_SHIFTED, AVX512), cpu, level)
    assert "zmm" not in made
    assert {int(x or 0) for x in re.findall(r"(\d*)\(%rdi\)", made)} == {8, 16, 24, 48}


@x86
@pytest.mark.parametrize("cpu", [LARGE[0], *[pytest.param(cpu, marks=pytest.mark.full) for cpu in LARGE[1:]]])
def test_mathematics_compiles_for_other_processors(cpu: str) -> None:
    """Mathematics is there twice: modules whose vectors are halved pass them in other registers."""
    for name in sorted({**KERNELS, **KERNELS_OF_TWO}):
        text = engines.maths_text(name, 8)
        assert configured(text, AVX512) == text
        assert "zmm" in assembly(text, cpu, 2)
        assert "zmm" not in assembly(configured(text.replace(f"@m_{name}_8(", f"@m_{name}_8_halved("), AVX512), cpu, 2)


def test_functions_of_a_module_are_halved_together() -> None:
    assert configured(LANE_OF_SHIFTED, "+avx2,+fma,-avx512f") == LANE_OF_SHIFTED
    every = LANE_OF_SHIFTED + "define internal i32 @b(ptr %x) {\n}\ndeclare <8 x double> @m_sin_8(<8 x double>)"
    halved = configured(every, AVX512)
    assert halved.count('"min-legal-vector-width"="0" {\n') == 2 and "@m_sin_8_halved(" in halved


#: lane 1 of what is loaded comes to lane 0 of a difference, of which nothing but this lane is asked for
LANE_OF_ROTATED = """define double @f(ptr %a, ptr %b) {
  %y = load <8 x double>, ptr %a, align 8
  %c = load <8 x double>, ptr %b, align 8
  %w = shufflevector <8 x double> %y, <8 x double> poison, <8 x i32> <MASK>
  %d = fsub <8 x double> %w, %c
  %m = fmul <8 x double> %d, splat (double 3.0)
  %e = extractelement <8 x double> %m, i64 LANE
  %g = extractelement <8 x double> %d, i64 LANE
  %z = fadd double %e, %g
  ret double %z
}
"""


@pytest.mark.parametrize(
    ("lanes", "asked", "wrong"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 0], 0, True),
        ([5, 1, 0, 7, 2, 3, 6, 4], 1, True),
        ([2, 3, 4, 5, 6, 7, 0, 1], 0, False),
        ([5, 0, 1, 7, 2, 3, 6, 4], 1, False),
        ([1, 2, 3, 4, 5, 6, 7, 0], 3, False),
        ([1, 0, 3, 2, 5, 4, 7, 6], 0, False),  # which is an instruction of its own
    ],
)
def test_only_lanes_that_may_be_misread_halve_vectors(lanes: list[int], asked: int, wrong: bool) -> None:
    text = LANE_OF_ROTATED.replace("MASK", ", ".join([f"i32 {i}" for i in lanes])).replace("LANE", str(asked))
    assert (configured(text, AVX512) != text) == wrong
    whole = text.replace("  %z", "  store <8 x double> %w, ptr %b, align 8\n  %z").replace("@f(", "@g(")
    assert (configured(text + whole, AVX512) != text + whole) == wrong
    once = re.sub(r"  %[meg] = .*\n", "", text).replace("  %z = fadd double %e, %g", "  store <8 x double> %d, ptr %b")
    assert configured(once, AVX512) == once  # all lanes are asked for
    chosen = f"<8 x i1> <{'i1 true, ' * 7}i1 false>, <8 x double> %w, <8 x double> %c"
    through = text.replace("%w, %c", "%v, %c").replace("  %d", f"  %v = select {chosen}\n  %d")
    assert configured(through, AVX512) != through or not wrong


def test_halved_mathematics_is_called_as_it_is_compiled(asked: list[tuple[str, int]]) -> None:
    """A sine of lanes that are mixed, and one of lanes that are not, on a processor with vectors of 512 bits or not."""
    x = np.linspace(0.1, 1.5, 10)
    halves = "+avx512f" in engines.engine()._features  # type: ignore[union-attr]
    np.testing.assert_allclose(da.jit(lambda x: np.sin(x) * np.roll(x, -1))(x), np.sin(x) * np.roll(x, -1), rtol=1e-15)
    assert halves == any(["@m_sin_8(" in text and configured(text, AVX512) != text for text, _ in asked])
    asked.clear()
    large = np.linspace(0.1, 1.5, 4000)
    np.testing.assert_allclose(da.jit(lambda x: np.sin(x) * 2.0)(large), np.sin(large) * 2.0, rtol=1e-15)
    assert not any(["@m_sin_8(" in text and configured(text, AVX512) != text for text, _ in asked])


def test_features_of_the_processor_are_left_as_they_are() -> None:
    llvm = pytest.importorskip("llvmlite.binding")
    made = engines.engine()
    assert made is not None
    assert made._features == llvm.get_host_cpu_features().flatten() and made._cpu == llvm.get_host_cpu_name()


def test_no_level_that_nobody_uses(asked: list[tuple[str, int]]) -> None:
    """Also for the longest functions, and for those in a hurry."""
    x = np.linspace(0.1, 1.0, 40)

    def long(x):
        total = 0.0
        for i in range(1500):
            total = total * x[i % 40] + x[(i * i) % 40] / (1.0 + x[(3 * i) % 40])
        return total

    da.jit(long)(x)
    da.jit(lambda x: np.tanh(x) * x)(np.linspace(0.0, 1.0, 70_000))
    assert {level for text, level in asked if "@front(" not in text} == {1, 2}
