"""LLVM in a process of its own, for long modules: its death or stall costs a warning and the machine code, not more.

For: starting the process when it is first needed, asking it, and ending it. Modules of ordinary length are compiled
here (``engine.py``): the process takes longer to start than they take. Not for: what runs in it (``emitting.py``).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from .emitting import ANSWER, REQUEST

__all__ = ["Apart", "LostError"]

#: seconds that one module may take, and until an unused process ends
_PATIENCE, _IDLE = 60.0, 120.0
_SCRIPT = Path(__file__).with_name("emitting.py")


class LostError(RuntimeError):
    """LLVM died, or took too long, and there is no code."""


class Apart:
    """The process, which there is when it is asked something."""

    def __init__(self, patience: float = _PATIENCE, idle: float = _IDLE) -> None:
        self.patience, self.idle = patience, idle
        self._process: Any = None
        #: whether the process has answered
        self._answers = False
        self._lock = threading.Lock()
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def begin(self) -> None:
        """Start the process without waiting for it: it will soon be asked."""
        with self._lock:
            self._launch()

    def emit(self, cpu: str, features: str, text: str, level: int) -> tuple[list[str], bytes] | None:
        """Return the names that a module refers to, and its object code; None where no process can be had.

        Raises
        ------
        LostError
            If the process ends, or does not answer in time.
        RuntimeError
            If LLVM refuses the text.
        """
        parts = [cpu.encode(), features.encode(), text.encode()]
        request = b"".join([REQUEST.pack(*[len(p) for p in parts], level), *parts])
        with self._lock:
            for _ in range(2):
                if not self._is_there():
                    return None
                found = self._asked(request)
                if found is not None:
                    break
                status = self._end()
                if status != 0:  # not the end of one that was not used for long
                    raise LostError(f"the process in which LLVM was at work ended with status {status}")
            else:
                return None
        worked, content = found
        if not worked:
            raise RuntimeError(content.decode(errors="replace"))
        names, _, image = content.partition(b"\0")
        return names.decode().split(), image

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _is_there(self) -> bool:
        self._launch()
        if self._process is not None and not self._answers:
            self._answers = self._asked(b"") == (True, b"")
            if not self._answers:
                self._end()
        return self._process is not None

    def _launch(self) -> None:
        """Start the process if there is none; not where a program that is no Python would be started."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            self._end()  # nothing was asked of it when it ended
        found = importlib.util.find_spec("llvmlite")
        is_python = "python" in Path(sys.executable or "").name.lower() and not getattr(sys, "frozen", False)
        if not is_python or found is None or found.origin is None or not _SCRIPT.is_file():
            return
        folder = str(Path(found.origin).parent.parent)
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_SCRIPT), folder, str(self.idle)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )

    def _asked(self, request: bytes) -> tuple[bool, bytes] | None:
        """Return the answer to a request; None if the process ends, which it is made to when it takes too long."""
        process = self._process
        limit = threading.Timer(self.patience, process.kill)
        limit.daemon = True
        limit.start()
        try:
            left = memoryview(request)
            while left:
                left = left[process.stdin.write(left) :]
            head = _read(process.stdout, ANSWER.size)
            if len(head) < ANSWER.size:
                return None
            worked, length = ANSWER.unpack(head)
            content = _read(process.stdout, length)
            return (bool(worked), content) if len(content) == length else None
        except OSError:
            return None
        except BaseException:  # interrupted: what it says next would be the answer to this
            self._end()
            raise
        finally:
            limit.cancel()

    def _end(self) -> int | None:
        """End the process, if there is one; return its status, which is zero if it ended because it was not used."""
        process, self._process, self._answers = self._process, None, False
        if process is None:
            return None
        with contextlib.suppress(OSError):
            process.stdin.close()
        status = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(1.0)
        if status is None:
            process.kill()
            status = process.wait()
        process.stdout.close()
        return status

    def _forget(self) -> None:
        """Leave the process to the one that has started it: this one was forked from that."""
        process, self._process, self._answers = self._process, None, False
        self._lock = threading.Lock()
        if process is not None:
            process.returncode = 0  # it is no child of this one, so nothing waits for it
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()


def _read(pipe: Any, size: int) -> bytes:
    """Return ``size`` bytes, fewer only at the end."""
    found = bytearray()
    while len(found) < size and (more := pipe.read(size - len(found))):
        found += more
    return bytes(found)
