"""Compiled code on disk: what is not exactly as it was written by this user is never run, and never in the way.

Not for: what compiled code computes (test_groups.py, test_passes.py).
"""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import engine as engines
from dualad.compile.native import store as stores
from dualad.compile.native.engine import Engine, engine, tally
from dualad.compile.native.store import Store, base, name_of

pytestmark = pytest.mark.usefixtures("native_backend")

#: a function that adds a number which no other test has
TEXT = "define double @add(double %x) {{\nstart:\n  %y = fadd double %x, {}.0\n  ret double %y\n}}"
posix = pytest.mark.skipif(os.name == "nt", reason="modes and owners of files are POSIX's")


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DUALAD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "native"


def add(number: int) -> tuple[int, int]:
    """Compile a function and call it; return how many functions were compiled and read."""
    import ctypes

    made, before = engine(), tally()
    assert made is not None
    linked = made.compile(TEXT.format(number), ["add"], {}, 1)
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(linked.addresses["add"])(1.5) == number + 1.5
    done = tally().since(before)
    return done.compiled, done.read


COMPILED, READ = (1, 0), (0, 1)


def only_file(where: Path) -> Path:
    (found,) = where.iterdir()
    return found


# ── hits ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_compiled_is_read(where: Path) -> None:
    assert add(1) == COMPILED and add(1) == READ and add(2) == COMPILED and add(1) == READ
    assert len(list(where.iterdir())) == 2


SCRIPT = """
import numpy as np, dualad as da
x = np.linspace(0.1, 1.0, 20)
small = da.jit(da.grad(lambda x: np.sum(np.sin(x) * np.exp(-x) / (2 + np.tan(x)))))
large = da.jit(lambda x: np.tanh(x) * x + 1)
many = np.linspace(0.0, 1.0, 50_000)
print([v.hex() for v in small(x)], large(many).tobytes().hex()[:4000])
print([line for f, a in ((small, x), (large, many)) for line in f.explain(a).splitlines() if "machine code:" in line])
"""


def run_script(script: str = SCRIPT, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_two_processes_write_at_once_and_a_third_reads(where: Path) -> None:
    """All three have the same bits."""
    both = [subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = [p.communicate(timeout=120)[0].splitlines() for p in both]
    numbers, about = run_script()
    assert [p.returncode for p in both] == [0, 0] and first[0] == second[0] == numbers
    assert about.count(" 0 compiled, ") == 2 and " 0 read" not in about
    assert about.count(f"kept in {where}") == 2
    assert not [p for p in where.iterdir() if p.name.startswith("new-")]


def test_threads(where: Path) -> None:
    store, failed = Store(), []

    def work(me: int) -> None:
        for i in range(60):
            name = name_of(str(i % 7))
            store.write(name, [str(i % 7)], b"x" * 1000 * (i % 7))
            found = store.read(name)
            if found != ([str(i % 7)], b"x" * 1000 * (i % 7)):
                failed.append((me, i, found))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    assert not failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_forked_while_another_thread_compiles(where: Path) -> None:
    script = """
import os, signal, threading, warnings
import numpy as np, dualad as da
warnings.simplefilter("ignore")
going = True
da.jit(np.sin)(np.ones(20))  # everything is imported
def work():
    n = 3
    while going:
        da.jit(lambda x: np.sum(np.sin(x) * x) * n)(np.ones(n))
        n += 1
worker = threading.Thread(target=work, daemon=True)
worker.start()
for i in range(5):
    child = os.fork()
    if not child:
        signal.alarm(60)
        out = da.jit(lambda x: x * x + i)(np.ones(40 + i))
        os._exit(0 if out.tolist() == [1.0 + i] * (40 + i) else 1)
    assert os.waitpid(child, 0)[1] == 0
going = False
worker.join()
print("done")
"""
    assert run_script(script, DUALAD_CACHE="0") == ["done"]


def test_only_who_holds_the_lock_asks_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the garbage collector frees code: llvmlite's own lock would stay closed in a process forked then."""
    ffi = pytest.importorskip("llvmlite.binding.ffi")
    lock, enter, without = engines._LOCK, ffi._LLVMLock.__enter__, []

    def asked(self: object) -> None:
        if not lock._is_owned():
            without.append(traceback.format_stack())
        enter(self)

    monkeypatch.setattr(ffi._LLVMLock, "__enter__", asked)
    made = engine()
    assert made is not None
    for number in range(500, 505):
        cycle: list = [made.compile(TEXT.format(number), ["add"], {}, 1)]
        cycle.append(cycle)
        del cycle
        kept = len(made._trackers)
        gc.collect()
        assert len(made._trackers) < kept
        da.jit(lambda x, n=number: np.sum(np.sin(x) * x) * n)(np.ones(3))
    assert not without, "".join(without[0])


# ── what is not read ─────────────────────────────────────────────────────────────────────────────────────────────


def damage(content: bytes, how: str) -> bytes:
    at = {"magic": 2, "digest": 20, "name": 50, "code": len(content) // 2, "last": len(content) - 1}
    if how in at:
        changed = bytearray(content)
        changed[at[how]] ^= 0x10
        return bytes(changed)
    return {
        "empty": b"", "one byte": content[:1], "head": content[:41], "half": content[: len(content) // 2],
        "all but one": content[:-1], "longer": content + b"\0", "text": b"not what it was\n" * 100,
    }[how]  # fmt: skip


@pytest.mark.parametrize(
    "how",
    ["magic", "digest", "name", "code", "last", "empty", "one byte", "head", "half", "all but one", "longer", "text"],
)
def test_a_damaged_file_is_compiled_anew_and_written_over(where: Path, how: str) -> None:
    add(3)
    file = only_file(where)
    content = file.read_bytes()
    file.write_bytes(damage(content, how))
    assert add(3) == COMPILED
    assert file.read_bytes() == content and add(3) == READ


def test_every_flipped_byte_is_seen(where: Path) -> None:
    store, name = Store(), name_of("a")
    store.write(name, ["b", "c"], b"def\nghi")
    assert store.read(name) == (["b", "c"], b"def\nghi")
    file = only_file(where)
    content = file.read_bytes()
    for i in range(len(content)):
        changed = bytearray(content)
        changed[i] ^= 1 << i % 8
        file.write_bytes(changed)
        assert store.read(name) is None, i
        file.write_bytes(content[:i])
        assert store.read(name) is None, i


def test_a_file_under_another_name_is_not_believed(where: Path) -> None:
    add(4)
    file = only_file(where)
    content = file.read_bytes()
    assert add(5) == COMPILED
    (other,) = [f for f in where.iterdir() if f != file]
    other.write_bytes(content)
    assert add(5) == COMPILED and add(5) == READ


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (engines, "__version__", "0.0.1"),
        (np, "__version__", "1.0"),
        (sys, "version", "3.99"),
        (stores, "_MAGIC", b"dualad\x00\x00"),
    ],
)
def test_what_another_version_has_written_is_not_read(where: Path, monkeypatch, module, name: str, value) -> None:
    add(6)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, value)
        patch.setattr(engines, "_made", lambda: (other, ""))
        other = Engine()
        assert add(6) == COMPILED and add(6) == READ
    assert add(6) == (COMPILED if module is stores else READ)


def test_another_processor_has_its_own(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(7)
    made = engine()
    assert made is not None
    for i, old in enumerate(made._about):
        with monkeypatch.context() as patch:
            patch.setattr(made, "_about", (*made._about[:i], f"{old},+other", *made._about[i + 1 :]))
            assert add(7) == COMPILED
    names = [name_of("ab", "c"), name_of("a", "bc"), name_of("abc"), name_of("abc", ""), name_of("1:a"), name_of("a")]
    assert len(set(names)) == len(names)


def test_code_of_the_same_text_at_another_level_is_another(where: Path) -> None:
    made = engine()
    assert made is not None
    for level in (0, 1, 2):
        before = tally()
        made.compile(TEXT.format(8), ["add"], {}, level)
        assert tally().since(before).compiled == 1


def test_code_that_refers_to_what_is_not_there_is_compiled_anew(where: Path) -> None:
    add(9)
    file = only_file(where)
    found = Store().read(file.name)
    assert found is not None
    Store().write(file.name, ["nowhere"], found[1])
    assert add(9) == COMPILED and add(9) == READ
    Store().write(file.name, [], b"no code at all")  # written as it should be, by another program
    assert add(9) == COMPILED and add(9) == READ


def test_addresses_are_none_of_it(where: Path) -> None:
    """Twice the same program of objects that lie elsewhere is one file."""
    x = np.linspace(0, 1, 30)
    for _ in range(2):
        before, table = tally(), np.arange(30.0)
        table.setflags(write=False)
        da.jit(lambda x, table=table: np.sum(x * table + np.where(x > 0.5, x, table) * 77.125))(x)
        done = tally().since(before)
    assert done.compiled == 0 and done.read > 0


# ── owners and modes ─────────────────────────────────────────────────────────────────────────────────────────────


@posix
def test_directory_and_files_are_this_users_alone(where: Path) -> None:
    old = os.umask(0)
    try:
        add(10)
    finally:
        os.umask(old)
    assert stat.S_IMODE(where.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(where).stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("mode", [0o622, 0o660, 0o640, 0o604, 0o777])
def test_a_file_that_others_could_open_is_not_read(where: Path, mode: int) -> None:
    add(11)
    file = only_file(where)
    file.chmod(mode)
    assert add(11) == COMPILED and add(11) == READ
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755, 0o777])
def test_a_directory_that_others_can_open_is_not_used(where: Path, mode: int) -> None:
    add(12)
    where.chmod(mode)
    content = {f.name: f.read_bytes() for f in where.iterdir()}
    assert add(12) == COMPILED and add(13) == COMPILED
    assert {f.name: f.read_bytes() for f in where.iterdir()} == content
    where.chmod(0o700)
    assert add(12) == READ


@posix
@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_belongs_to_another_user_is_not_read(where: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    add(14)
    name = "fstat" if what == "file" else "lstat"
    real = getattr(os, name)

    def foreign(thing):
        values = list(real(thing))
        values[4] = os.geteuid() + 1
        return os.stat_result(values)

    monkeypatch.setattr(stores.os, name, foreign)
    assert add(14) == COMPILED
    monkeypatch.undo()


@posix
def test_a_program_that_lends_its_rights_keeps_nothing(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores.os, "getuid", lambda: os.geteuid() + 1)
    assert add(15) == COMPILED and add(15) == COMPILED and not where.exists()


@posix
@pytest.mark.parametrize("what", ["link", "directory", "full directory", "pipe"])
def test_what_is_no_file_is_not_read(where: Path, tmp_path: Path, what: str) -> None:
    add(16)
    file = only_file(where)
    other = tmp_path / "other"
    file.rename(other)
    if what == "link":
        file.symlink_to(other)
    elif what == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
        if what == "full directory":
            (file / "something").touch()
    assert add(16) == COMPILED
    assert add(16) == (COMPILED if what == "full directory" else READ)
    assert other.exists()


@posix
def test_a_link_in_place_of_the_directory(where: Path, tmp_path: Path) -> None:
    add(17)
    where.rename(tmp_path / "elsewhere")
    where.symlink_to(tmp_path / "elsewhere")
    assert add(17) == COMPILED


# ── where nothing can be kept ────────────────────────────────────────────────────────────────────────────────────


def test_switched_off(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALAD_CACHE", "0")
    assert add(18) == COMPILED and add(18) == COMPILED and not where.exists()
    text = da.jit(lambda x: np.sin(x) * x + 18)(np.ones(18)) is not None and da.jit(np.sin).explain(np.ones(18))
    assert "kept nowhere" in text


@pytest.mark.parametrize("made", ["file", "below a file", "read-only"])
def test_a_place_that_can_not_be_written(where: Path, made: str) -> None:
    if made == "read-only":
        if not hasattr(os, "geteuid") or os.geteuid() == 0:
            pytest.skip("root writes everywhere")
        where.parent.mkdir()
        where.parent.chmod(0o500)
    elif made == "file":
        where.parent.touch()
    else:
        where.parent.mkdir()
        where.touch()
    assert add(19) == COMPILED and add(19) == COMPILED


def test_a_disk_that_is_full(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(stores.os, "replace", full)
        assert add(20) == COMPILED and not list(where.iterdir())
        assert add(20) == COMPILED
    assert add(20) == COMPILED and add(20) == READ


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUALAD_CACHE", str(tmp_path))
    assert base() == tmp_path
    monkeypatch.setenv("DUALAD_CACHE", "somewhere")
    assert base() == Path.cwd() / "somewhere"
    monkeypatch.setenv("DUALAD_CACHE", "0")
    assert base() is None
    monkeypatch.delenv("DUALAD_CACHE")
    for platform, variable, value, expected in (
        ("linux", "XDG_CACHE_HOME", str(tmp_path), tmp_path / "dualad"),
        ("linux", "XDG_CACHE_HOME", "", Path.home() / ".cache" / "dualad"),
        ("linux", "XDG_CACHE_HOME", "relative", Path.home() / ".cache" / "dualad"),
        ("darwin", "XDG_CACHE_HOME", str(tmp_path), Path.home() / "Library" / "Caches" / "dualad"),
        ("win32", "LOCALAPPDATA", str(tmp_path), tmp_path / "dualad" / "Cache"),
        ("win32", "LOCALAPPDATA", "", None),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setenv(variable, value)
        assert base() == expected
    monkeypatch.undo()
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: (_ for _ in ()).throw(RuntimeError("no home"))))
    monkeypatch.delenv("DUALAD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Store().directory() is None


# ── size ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_not_used_for_longest_goes_first(where: Path) -> None:
    store = Store(most=20_000)
    names = [name_of(str(i)) for i in range(16)]
    for i, name in enumerate(names):
        store.write(name, [], bytes(1000))
        os.utime(where / name, (1000.0 + i, 1000.0 + i))
    assert store.read(names[0]) is not None  # so it is the newest
    store.shorten()
    assert len(list(where.iterdir())) == 16
    for i in range(16, 25):
        store.write(name_of(str(i)), [], bytes(1000))
    store.shorten()
    left = {f.name for f in where.iterdir()}
    assert names[0] in left and not left & set(names[1:9]) and names[15] in left
    assert sum([f.stat().st_size for f in where.iterdir()]) <= 15_000


def test_writing_keeps_it_small(where: Path) -> None:
    store = Store(most=50_000)
    for i in range(400):
        store.write(name_of(str(i)), [], bytes(2000))
    assert sum([f.stat().st_size for f in where.iterdir()]) <= 50_000 + stores._LOOK * 2200
    store.write(name_of("large"), [], bytes(20_000))
    assert store.read(name_of("large")) is None


def test_files_that_were_never_finished_go(where: Path) -> None:
    store = Store()
    store.write(name_of("a"), [], b"a")
    (where / "new-old").touch()
    os.utime(where / "new-old", (0, 0))
    (where / "new-recent").touch()
    store.shorten()
    assert {f.name for f in where.iterdir()} == {name_of("a"), "new-recent"}
