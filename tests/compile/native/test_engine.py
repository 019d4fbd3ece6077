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
@pytest.mark.parametrize("cpu", LARGE)
def test_mathematics_compiles_for_other_processors(cpu: str) -> None:
    """Mathematics is there twice: modules whose vectors are halved pass them in other registers."""
    for name in sorted({**KERNELS, **KERNELS_OF_TWO}):
        text = engines.maths_text(name, 8)
        assert configured(text, AVX512) == text
        assert "zmm" in assembly(text, cpu, 2)
        assert "zmm" not in assembly(configured(text.replace(f"@m_{name}_8(", f"@m_{name}_8_halved("), AVX512), cpu, 2)


def test_only_what_mixes_lanes_is_halved() -> None:
    assert configured(LANE_OF_SHIFTED, "+avx2,+fma,-avx512f") == LANE_OF_SHIFTED
    every = LANE_OF_SHIFTED + "define internal i32 @b(ptr %x) {\n}\ndeclare <8 x double> @m_sin_8(<8 x double>)"
    halved = configured(every, AVX512)
    assert halved.count('"min-legal-vector-width"="0" {\n') == 2 and "@m_sin_8_halved(" in halved
    shift = "<8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11>"
    spread = re.compile(r"(insertelement <8 x double> poison, double) %e3?,")
    assert shift in LANE_OF_SHIFTED and len(spread.findall(LANE_OF_SHIFTED)) == 2
    for lanes in ([i ^ 4 for i in range(8)], [0, 8, 2, 10, 4, 12, 6, 14], [4, 5, 6, 7, 12, 13, 14, 15]):
        regular = LANE_OF_SHIFTED.replace(shift, f"<8 x i32> <{', '.join([f'i32 {i}' for i in lanes])}>")
        assert configured(regular, AVX512) != regular  # a lane of it is spread again
        apart = spread.sub(r"\1 1.0,", regular)
        assert configured(apart, AVX512) == apart
        once = regular.replace("%w = shufflevector <8 x double> %i,", "%w = shufflevector <8 x double> %j,")
        once = once.replace("double %e3, i64 0", "double 1.0, i64 0")
        assert configured(once, AVX512) == once
        twice = once.replace("poison, double 1.0, i64 0", "%i, double %e, i64 5")
        assert configured(twice, AVX512) != twice


def test_halved_mathematics_is_called_as_it_is_compiled(asked: list[tuple[str, int]]) -> None:
    """A sine of lanes that are mixed, and one of lanes that are not, on a processor with vectors of 512 bits or not."""
    x = np.linspace(0.1, 1.5, 10)
    halves = "+avx512f" in engines.engine()._features  # type: ignore[union-attr]
    np.testing.assert_allclose(da.jit(lambda x: np.sin(x) * x[0])(x), np.sin(x) * x[0], rtol=1e-15)
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
