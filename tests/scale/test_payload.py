"""Files in shared memory: nothing stays there, not even of a process that was killed; what others use is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.scale import payload
from dualad.scale.payload import SharedFile, Ticket, pack

pytest.importorskip("loky", reason="shares memory: pip install dualad[scale]")

WRITER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from dualad.scale import payload
payload.os.path.isdir = lambda folder: folder == sys.argv[1]
print(payload.SharedFile([b"abc", b"d" * 100]).path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(payload.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(payload.os.path, "isdir", lambda path: path == str(tmp_path))
    return tmp_path


def writer(folder) -> tuple[subprocess.Popen, Path]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", WRITER, folder], text=True, **pipes)
    return process, Path(process.stdout.readline().strip())


def test_the_file_of_a_killed_process_is_deleted_and_a_living_ones_is_not(folder) -> None:
    (living, kept), (killed, left) = writer(folder), writer(folder)
    assert kept.exists() and left.exists()
    killed.kill()
    killed.communicate()
    deadline = time.monotonic() + 30
    while left.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert kept.exists() and not left.exists()
    living.communicate("")


def test_a_file_that_is_deleted_stays_with_those_who_have_mapped_it(folder) -> None:
    file = SharedFile([b"abc", b"d" * 100])
    mapped = file.mapped()
    file.delete()
    assert not list(folder.iterdir()) and [bytes(m) for m in mapped] == [b"abc", b"d" * 100]
    with pytest.raises(ValueError, match="read-only"):
        mapped[0][0] = 1


def test_parts_begin_where_arrays_are_read_fastest(folder) -> None:
    file = SharedFile([b"abc", b"d" * 64, b"e"])
    assert Path(file.path).read_bytes() == b"abc" + bytes(61) + b"d" * 64 + b"e" + bytes(63)
    file.delete()


def test_where_shared_memory_is_full_another_folder_does(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(payload.tempfile, "tempdir", str(tmp_path))
    make, full = payload.tempfile.mkstemp, Path("/dev/full")
    if not full.exists() or not os.path.isdir("/dev/shm"):
        pytest.skip("nothing that is always full")

    def elsewhere(prefix, dir):
        file, path = make(prefix=prefix, dir=dir)
        if dir == "/dev/shm":
            os.close(file)
            file = os.open(full, os.O_WRONLY)
        return file, path

    monkeypatch.setattr(payload.tempfile, "mkstemp", elsewhere)
    before = set(Path("/dev/shm").glob("dualad-*"))
    file = SharedFile([b"x" * 100_000])
    assert Path(file.path).parent == tmp_path and Path(file.path).stat().st_size == 100_032
    assert set(Path("/dev/shm").glob("dualad-*")) <= before
    file.delete()


def test_without_loky_a_job_goes_along_with_the_tasks(monkeypatch) -> None:
    find = payload.importlib.util.find_spec
    monkeypatch.setattr(payload.importlib.util, "find_spec", lambda n: None if n == "loky" else find(n))
    blob = pack(np.arange(300_000.0), None, None, "here")
    ticket = Ticket(blob, "processes")
    try:
        assert ticket.file is None and ticket.open(None) is payload.MISSING
        assert np.array_equal(ticket.open(blob), np.arange(300_000.0)) and ticket.open(None) is not payload.MISSING
    finally:
        ticket.close()

    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2) as pool:
        out = da.vmap(np.sin, executor=pool, chunk_size=1)(np.arange(6.0))
    assert np.array_equal(out, np.sin(np.arange(6.0)))
