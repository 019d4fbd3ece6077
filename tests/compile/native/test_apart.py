"""LLVM in a process of its own: it may die, stall, be killed or be forked, and results are right.

Not for: what it is asked for (test_engine.py), or which programs are long (test_parts.py).
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import engine as engines
from dualad.compile.native import parts, stub
from dualad.compile.native.apart import Apart, LostError
from dualad.compile.native.engine import Engine, engine
from dualad.errors import PerformanceNote

pytestmark = pytest.mark.usefixtures("native_backend")

SMALL = (
    "declare double @m_sin_1(double)\ndefine double @f(double %x) {\n  %y = call double @m_sin_1(double %x)\n"
    "  ret double %y\n}"
)
LINES = "\n".join([f"  %x{i + 1} = fadd <8 x double> %x{i}, %x{max(0, i - 50)}" for i in range(40_000)])
LARGE = f"define <8 x double> @f(<8 x double> %x0) {{\n{LINES}\n  ret <8 x double> %x40000\n}}"
#: an operation of another processor, which LLVM dies of: "Cannot select"
OTHER = "x86.sse42.crc32.32.32" if platform.machine().lower() in ("arm64", "aarch64") else "arm.crc32w"
DEADLY = (
    f"declare i32 @llvm.{OTHER}(i32, i32)\ndefine i32 @f(i32 %a) {{\n  %x = call i32 @llvm.{OTHER}(i32 %a, i32 %a)\n"
    "  ret i32 %x\n}"
)


@pytest.fixture
def made() -> Engine:
    found = engine()
    assert found is not None
    return found


@pytest.fixture
def apart() -> Iterator[Apart]:
    found = Apart()
    yield found
    found.stop()


def ask(apart: Apart, made: Engine, text: str = SMALL) -> tuple[list[str], bytes] | None:
    return apart.emit(made._cpu, made._features, text, 1)


def test_code_is_the_same(apart: Apart, made: Engine) -> None:
    found = ask(apart, made)
    assert found == made._made(SMALL, 1) and found[0] == ["m_sin_1"]
    process = apart._process
    assert ask(apart, made) == found and apart._process is process


def test_a_refused_text_is_no_death(apart: Apart, made: Engine) -> None:
    with pytest.raises(RuntimeError, match="expected") as error:
        ask(apart, made, "define nothing")
    assert not isinstance(error.value, LostError)
    assert ask(apart, made) == made._made(SMALL, 1)


def test_llvm_dies(apart: Apart, made: Engine) -> None:
    with pytest.raises(LostError, match="ended with status"):
        ask(apart, made, DEADLY)
    assert ask(apart, made) == made._made(SMALL, 1)


def test_llvm_stalls(apart: Apart, made: Engine) -> None:
    ask(apart, made)
    apart.patience = 0.05
    with pytest.raises(LostError):
        ask(apart, made, LARGE)
    apart.patience = 60.0
    assert ask(apart, made) == made._made(SMALL, 1)


def test_it_ends_while_nobody_asks(made: Engine) -> None:
    apart = Apart(idle=2.0)  # the machine may be busy
    first = ask(apart, made)
    apart._process.wait(30)
    assert ask(apart, made) == first == made._made(SMALL, 1)
    apart._process.kill()
    apart._process.wait(30)
    assert ask(apart, made) == first
    apart.stop()


def test_no_python_to_be_had(apart: Apart, made: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("", "/usr/bin/true", "/nowhere/python"):
        monkeypatch.setattr(sys, "executable", wrong)
        assert ask(apart, made) is None


def test_threads(apart: Apart, made: Engine) -> None:
    texts = [SMALL.replace("@f", f"@f{i}") for i in range(6)]
    found: dict[int, object] = {}
    workers = [threading.Thread(target=lambda i=i: found.update({i: ask(apart, made, texts[i])})) for i in range(6)]
    [w.start() for w in workers]
    [w.join(60) for w in workers]
    assert [found[i] for i in range(6)] == [made._made(t, 1) for t in texts]


@pytest.mark.skipif(os.name == "nt", reason="signals to threads are POSIX's")
def test_an_interrupt_comes_through(apart: Apart, made: Engine) -> None:
    ask(apart, made)
    main = threading.get_ident()
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in what runs in the background
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ask(apart, made, LARGE)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert apart._process is None and ask(apart, made) == made._made(SMALL, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_its_own(apart: Apart, made: Engine) -> None:
    expected = ask(apart, made)
    child = os.fork()
    if not child:
        signal.alarm(60)
        right = apart._process is None and ask(apart, made) == expected
        apart.stop()
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    process = apart._process
    assert ask(apart, made) == expected and apart._process is process


SCRIPT = """
import os, sys, threading, time
from dualad.compile.native.apart import Apart
from dualad.compile.native.engine import engine
apart, made = Apart(), engine()
ask = lambda text: apart.emit(made._cpu, made._features, text, 1)
ask(sys.stdin.read(int(sys.argv[1])))
print(apart._process.pid, flush=True)
if sys.argv[2] == "working":
    threading.Thread(target=ask, args=(sys.stdin.read(),), daemon=True).start()
    time.sleep(0.3)
    os._exit(0)
"""


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked at through /proc")
@pytest.mark.parametrize("doing", ["nothing", "working"])
def test_it_ends_with_its_owner(doing: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(len(SMALL)), doing], input=SMALL + LARGE, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    process, end = int(done.stdout), time.monotonic() + 60
    while is_running(process):
        assert time.monotonic() < end
        time.sleep(0.05)


def several(x):
    for k in range(30):
        x = x * (1.0 + 0.1 * k * k % 0.7) + x[::-1]
    return x


@pytest.fixture
def long_programs(monkeypatch: pytest.MonkeyPatch, made: Engine) -> Iterator[Engine]:
    """Programs of a few equations are in several parts, and long."""
    monkeypatch.setenv("DUALAD_CACHE", "0")
    monkeypatch.setattr(parts, "_LINES", 8)
    monkeypatch.setattr(stub, "_ORDINARY", 1)
    monkeypatch.setattr(made, "_apart", Apart())
    monkeypatch.setattr(made, "_lost", set())
    yield made
    made._apart.stop()


X = np.linspace(-1.0, 2.0, 7)


def test_long_programs_are_compiled_apart(long_programs: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    emit = Apart.emit
    monkeypatch.setattr(Apart, "emit", lambda self, *args: asked.append(args[2]) or emit(self, *args))
    fast = da.jit(several)
    assert fast(X).tobytes() == several(X).tobytes()
    assert len(asked) >= 3 and fast.lower(X).source.count("define i32 @part") == len(asked)


def test_death_costs_the_machine_code_and_a_note(long_programs: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    emit = Apart.emit
    monkeypatch.setattr(
        Apart, "emit", lambda self, cpu, features, text, level: emit(self, cpu, features, DEADLY, level)
    )
    fast = da.jit(several)
    with pytest.warns(PerformanceNote, match="could not compile .* left to Python and NumPy") as notes:
        assert fast(X).tobytes() == several(X).tobytes()
    assert notes[0].filename == __file__
    assert "@part" not in fast.lower(X).source


def test_one_long_module_is_compiled_apart(made: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALAD_CACHE", "0")
    monkeypatch.setattr(engines, "_LONG", 3)
    monkeypatch.setattr(made, "_apart", Apart())
    found = made.compile(SMALL, ["f"], {}, 1)
    assert made._apart._process is not None and found.addresses["f"]
    made._apart.stop()
