"""Compiled code on disk, for the next process: one file a function, believed only if everything about it holds.

For: the directory and its mode, names that change with whatever the code depends on, writing at once or not at all, and
a bound on the size of it all. A file that is not this user's alone, that is damaged or another's, is compiled anew and
written over; where nothing can be written, nothing is. Not for: what the code is (``engine.py``).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["Store", "base", "name_of"]

#: changes with the form of the files
_MAGIC = b"dualad\x00\x01"
_DIGEST = 32
#: bytes of all files together, and of one
_MOST, _LARGEST = 128 << 20, 16 << 20
#: writes of a process from one look at the whole directory to the next
_LOOK = 64
#: seconds after which a file that was never finished is left over from a process that died
_ABANDONED = 3600.0


def base() -> Path | None:
    """Return the directory that ``DUALAD_CACHE`` says, or the platform's for caches; None where there is to be none."""
    wanted = os.environ.get("DUALAD_CACHE", "")
    if wanted == "0":
        return None
    if wanted:
        found = Path(wanted).expanduser().absolute()
    elif sys.platform == "win32":
        found = Path(os.environ.get("LOCALAPPDATA", ""), "dualad", "Cache")
    elif sys.platform == "darwin":
        found = Path.home() / "Library" / "Caches" / "dualad"
    else:
        home = os.environ.get("XDG_CACHE_HOME", "")
        found = (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "dualad"
    return found if found.is_absolute() else None


def name_of(*parts: str) -> str:
    """Return the name of what these texts alone determine."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode()
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.hexdigest()


class Store:
    """A directory of compiled code. It raises nothing: what can't be read is None, what can't be written is not."""

    def __init__(self, most: int = _MOST) -> None:
        self.most = most
        self._writes = 0

    def directory(self) -> Path | None:
        """Return the directory, made if need be; None where there is none that is this user's alone."""
        try:
            found = base()
            if found is None or not _is_one_user():
                return None
            found /= "native"
            if not _is_private(found):
                found.mkdir(mode=0o700, parents=True, exist_ok=True)
            return found if _is_private(found) else None
        except (OSError, RuntimeError):  # a home that is not there, or can't be written
            return None

    def read(self, name: str) -> tuple[list[str], bytes] | None:
        """Return the entry of a name: the symbols that the code refers to, and the code."""
        where = self.directory()
        if where is None:
            return None
        try:
            content = _read_private(where / name)
            if content is None or content[: len(_MAGIC)] != _MAGIC:
                return None
            first = len(_MAGIC) + _DIGEST
            if hashlib.sha256(content[first:]).digest() != content[len(_MAGIC) : first]:
                return None
            own, symbols, code = content[first:].split(b"\n", 2)
            if own.decode() != name:
                return None
            os.utime(where / name)  # those not used for longest go first
            return symbols.decode().split(), code
        except (OSError, ValueError):
            return None

    def write(self, name: str, symbols: list[str], code: bytes) -> None:
        """Keep code under a name, at once or not at all."""
        inside = b"\n".join([name.encode(), " ".join(symbols).encode(), code])
        content = _MAGIC + hashlib.sha256(inside).digest() + inside
        where = self.directory()
        if where is None or len(content) > min(_LARGEST, self.most // 4):
            return
        try:
            number, temporary = tempfile.mkstemp(prefix="new-", dir=where)  # readable by this user alone
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(content)
                if (where / name).is_dir() and not (where / name).is_symlink():
                    (where / name).rmdir()
                os.replace(temporary, where / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            if self._writes % _LOOK == 0:
                self.shorten()
            self._writes += 1
        except OSError:
            return

    def shorten(self) -> None:
        """Remove the least recently used entries, until a quarter of the bound is free."""
        where = self.directory()
        if where is None:
            return
        found, now = [], time.time()
        with contextlib.suppress(OSError), os.scandir(where) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if not entry.name.startswith("new-"):
                        found.append((about.st_mtime, about.st_size, entry.path))
                    elif now - about.st_mtime > _ABANDONED:
                        os.unlink(entry.path)
        total = sum([size for _, size, _ in found])
        if total <= self.most:
            return
        for _, size, path in sorted(found):
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size
            if total <= 3 * self.most // 4:
                return


def _is_one_user() -> bool:
    """Whether this process acts for the user who has started it: not as a program that lends its rights."""
    return not hasattr(os, "getuid") or (os.getuid(), os.getgid()) == (os.geteuid(), os.getegid())


def _is_own(about: os.stat_result) -> bool:
    """Whether this user, and nobody else, can have written something."""
    return not hasattr(os, "geteuid") or (about.st_uid == os.geteuid() and not about.st_mode & 0o077)


def _is_private(where: Path) -> bool:
    try:
        about = os.lstat(where)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(about.st_mode) and _is_own(about)


def _read_private(path: Path) -> bytes | None:
    """Return the content of a plain file that is this user's alone."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        number = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
    with os.fdopen(number, "rb") as file:  # the file that was checked is the one that is read
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode) or not _is_own(about) or about.st_size > 2 * _LARGEST:
            return None
        return file.read()
