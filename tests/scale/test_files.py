"""Files in shared memory: nothing stays there, not even of a process that was killed; what others use is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dualad.scale import files

pytest.importorskip("fcntl", reason="locks of POSIX")

WRITER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from dualad.scale import files
files.os.path.isdir = lambda folder: folder == sys.argv[1]
print(files.write_parts([b"abc", b"d" * 100]), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(files.os.path, "isdir", lambda path: path == str(tmp_path))
    monkeypatch.setattr(files, "_marks", {})
    return tmp_path


def writer(folder) -> tuple[subprocess.Popen, Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_is_taken_away_and_a_living_ones_is_not(folder) -> None:
    (living, kept), (killed, left) = writer(folder), writer(folder)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    old = time.time() - 100
    for mark in folder.glob("*.dualad"):
        os.utime(mark, (old, old))
    mine = Path(files.write_parts([b"x"]))
    assert mine.exists() and kept.exists() and not left.exists()
    assert len(list(folder.glob("*.dualad"))) == 2
    living.communicate("")
    assert len(list(folder.glob("*.dualad"))) == 1  # it has taken its own away


def test_a_mark_that_was_just_made_is_left_alone(folder) -> None:
    killed, left = writer(folder)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    files.write_parts([b"x"])
    assert left.exists()


def test_parts_begin_where_arrays_are_read_fastest(folder) -> None:
    written = Path(files.write_parts([b"abc", b"d" * 64, b"e"])).read_bytes()
    assert written == b"abc" + bytes(61) + b"d" * 64 + b"e" + bytes(63)


def test_where_shared_memory_is_full_another_folder_does(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files.tempfile, "tempdir", str(tmp_path))
    make, full = files.tempfile.mkstemp, Path("/dev/full")
    if not full.exists() or not os.path.isdir("/dev/shm"):
        pytest.skip("nothing that is always full")

    def elsewhere(prefix, dir):
        file, path = make(prefix=prefix, dir=dir)
        if dir == "/dev/shm":
            os.close(file)
            file = os.open(full, os.O_WRONLY)
        return file, path

    monkeypatch.setattr(files.tempfile, "mkstemp", elsewhere)
    before = set(Path("/dev/shm").glob("dualad-*-*"))
    path = Path(files.write_parts([b"x" * 100_000]))
    assert path.parent == tmp_path and path.stat().st_size == 100_032
    assert set(Path("/dev/shm").glob("dualad-*-*")) <= before
