"""Files in shared memory that worker processes map, and what is left of processes that were killed.

For: ``write_parts``. A process that is killed can't take its files away. So each process that writes some holds a lock
on a *mark*, an empty file beside them, and the system drops the lock with the process: the next process that writes
finds marks without a lock, and takes away what is named after them. Not for: what is in the files (``payload.py``).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import os
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

__all__ = ["ALIGNED", "write_parts"]

#: where parts begin in a file: arrays are read fastest there, and as NumPy's own memory is
ALIGNED = 64

_MARK = ".dualad"
#: seconds after which a mark without a lock is one of a process that has gone, and not of one that is about to lock it
_SETTLED = 60.0
#: of `lockf`: LOCK_EX | LOCK_NB
_EXCLUSIVE = 2 | 4


def write_parts(parts: Sequence) -> str:
    """Write buffers one after the other into a new file that other processes can map; return its path."""
    # Shared memory if the system has it as a folder, and room in it; any other folder does as well.
    for folder in ("/dev/shm", tempfile.gettempdir()):
        if not os.path.isdir(folder):
            continue
        prefix = _claim(folder)
        file, path = tempfile.mkstemp(prefix=f"{prefix}-", dir=folder)
        try:
            with os.fdopen(file, "wb") as out:
                for part in parts:
                    out.write(part)
                    out.write(bytes(-len(part) % ALIGNED))
        except OSError as error:
            os.unlink(path)
            full = error
            continue
        return path
    raise full


#: folder -> the process, and what its mark and its files there are named after
_marks: dict[str, tuple[int, str]] = {}


def _claim(folder: str) -> str:
    """Return what this process's files in a folder are named after; at the first time, sweep there."""
    pid, prefix = _marks.get(folder, (0, ""))
    if pid != os.getpid():  # a forked process has none yet
        prefix = f"dualad-{uuid.uuid4().hex[:12]}"
        if importlib.util.find_spec("fcntl") is not None:
            with contextlib.suppress(OSError):
                _sweep(folder)
                mark = os.path.join(folder, prefix + _MARK)
                # It stays open, and so locked, for as long as the process lives.
                importlib.import_module("fcntl").lockf(os.open(mark, os.O_CREAT | os.O_RDWR, 0o600), _EXCLUSIVE)
                atexit.register(_unmark, os.getpid(), mark)
        _marks[folder] = os.getpid(), prefix
    return prefix


def _unmark(pid: int, path: str) -> None:
    if pid == os.getpid():
        with contextlib.suppress(OSError):
            os.unlink(path)


def _sweep(folder: str) -> None:
    """Take away what processes that have gone left in a folder."""
    lockf = importlib.import_module("fcntl").lockf
    for mark in Path(folder).glob(f"dualad-*{_MARK}"):
        with contextlib.suppress(OSError):  # somebody else's, locked, or gone by now
            if time.time() - mark.stat().st_mtime < _SETTLED:
                continue
            with open(mark, "r+") as file:
                lockf(file, _EXCLUSIVE)
                for left in Path(folder).glob(f"{mark.name.removesuffix(_MARK)}-*"):
                    left.unlink()
                mark.unlink()
