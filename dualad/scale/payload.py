"""The payload: a job is pickled once a call and gets to each worker once, on the way that its executor has.

For: ``pack``, ``Ticket`` (what goes along with every chunk and finds the job where it arrives) and the errors for what
can't be sent. Buffers above a megabyte go out of band: worker processes of this machine map them, read-only, from one
file in shared memory, which loky's resource tracker deletes even if this process is killed. Without loky the job goes
along with the tasks. Not for: running the job there (``worker.py``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import os
import pickle
import tempfile
import types
import uuid
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ..base.garbage import no_collection
from ..base.locks import new_lock
from ..base.reach import DEEP, parts
from ..core.tracer import Tracer
from ..errors import ConversionError, TravelError

__all__ = ["Blob", "Laid", "Ticket", "as_laid", "pack"]

_WORDS = {
    "attribute": "attribute `{key}` of {owner}",
    "argument": "argument `{key}` of {owner}",
    "closure variable": "closure variable `{key}` of {owner}",
    "default value": "a default value of {owner}",
    "entry": "entry {key!r}",
    "function": "the function of {owner}",
    "global": "global `{key}`, which {owner} reads",
    "object": "the object of {owner}",
}


def culprit(thing: Any, dumps: Callable[[Any], Any]) -> str:
    """Return words for the innermost part of ``thing`` that ``dumps`` refuses: how it is reached, and what it is."""
    path, first, part, seen = "", "", thing, {id(thing)}
    for _ in range(DEEP):
        for kind, _, key, inner in parts(part):
            if id(inner) not in seen and not isinstance(inner, types.ModuleType) and not _goes(inner, dumps):
                seen.add(id(inner))
                path, part = _WORDS[kind].format(key=key, owner=_named(part)), inner
                first = first or path
                break
        else:
            break
    if not path:
        return ""
    name = getattr(part, "__name__", None)
    what = f"the {type(part).__name__} `{name}`" if name else f"a {type(part).__name__}"
    return f"{path}, {what}," if path == first else f"{path}, {what} (reached by {first}),"


def _goes(thing: Any, dumps: Callable[[Any], Any]) -> bool:
    try:
        dumps(thing)
    except Exception:
        return False
    return True


def _named(thing: Any) -> str:
    name = getattr(thing, "__name__", None)
    return f"`{name}`" if name else f"a {type(thing).__name__}"


#: buffers of more bytes go out of band
LARGE = 1 << 20
#: a multiple of it is where parts begin in a file: arrays are read fastest there, and as NumPy's own memory is
ALIGNED = 64
#: of jobs of more bytes the smaller of two is sent
BULKY = 64 << 20
#: how many jobs a worker keeps
_KEPT = 4

MISSING = "dualad: the job is not here"


class Blob:
    """A pickled thing: its bytes, and the large buffers that it refers to."""

    __slots__ = ("buffers", "main")

    def __init__(self, main: Any, buffers: list) -> None:
        self.main, self.buffers = main, buffers

    @property
    def nbytes(self) -> int:
        """How many bytes travel."""
        return len(self.main) + sum([len(b) for b in self.buffers])

    def open(self) -> Any:
        """Return the thing; its large buffers are read-only."""
        with no_collection():
            return pickle.loads(self.main, buffers=[memoryview(b).toreadonly() for b in self.buffers])

    def __reduce__(self):
        return Blob, (self.main, [bytes(b) for b in self.buffers])


@functools.cache
def _with_files(theirs: Any) -> Any:
    """Cloudpickle's class, for functions that keep the names of their files."""

    def reduced(code: types.CodeType) -> tuple:
        make, parts = theirs.dispatch_table[types.CodeType](code)
        # From 3.1.3 on the file is left out, and with it the lines of a worker's tracebacks and warnings.
        return make, tuple([code.co_filename if isinstance(p, str) and p == "<dynamic-code>" else p for p in parts])

    table = ChainMap({types.CodeType: reduced}, theirs.dispatch_table)
    return type("Pickler", (theirs,), {"dispatch_table": table})


def _dumps(thing: Any) -> Blob:
    buffers: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes > LARGE:
            buffers.append(buffer.raw())
        return buffer.raw().nbytes <= LARGE

    pickler: Any = pickle.Pickler
    if importlib.util.find_spec("cloudpickle"):
        pickler = _with_files(importlib.import_module("cloudpickle").Pickler)
    with no_collection(), io.BytesIO() as file:
        pickler(file, protocol=5, buffer_callback=is_small).dump(thing)
        return Blob(file.getvalue(), buffers)


def pack(job: Any, other: Callable[[], Any] | None, what: Any, where: str) -> Blob:
    """Pickle a job; the other one, which is made for that, if the first is large or can't be sent.

    If neither can, say what of the function ``what`` can't.
    """
    blob = None
    try:
        blob = _dumps(job)
        if other is None or blob.nbytes <= BULKY:
            return blob
        second = _dumps(other())
        return second if second.nbytes <= blob.nbytes else blob
    except Exception as error:
        if blob is not None:
            return blob
        if other is None:
            raise _cannot_travel(what, where, error) from error
    return pack(other(), None, what, where)


def _cannot_travel(what: Any, where: str, error: Exception) -> Exception:
    if isinstance(error, ConversionError) or isinstance(what, Tracer):
        return TravelError(
            f"{where}: the function holds a tensor of a transform that is running around it.",
            "a tensor can't leave its level, and workers are outside of it",
            "put executor= on the outermost transform",
        )
    name = getattr(what, "__name__", None) or type(what).__name__
    found = culprit(what, _dumps)
    if importlib.util.find_spec("cloudpickle"):
        why = f"it would be sent to the workers, and {found or 'it'} can't be pickled ({error})"
        instead = "make it inside the function, or pass what it is made of; a module's functions and arrays can travel"
    else:
        why = f"pickle sends functions by the name they can be imported by ({error})"
        why += f": {found[:-1]}" if found else ""
        instead = "define it at the top of a module, or  pip install dualad[scale]  for cloudpickle, which sends any"
    return TravelError(f"{where}: `{name}` can't be sent to a worker.", why, instead)


class Laid:
    """An array whose axes lie in memory in another order than C's: it arrives as it was laid out."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __reduce__(self):
        order = np.argsort([-abs(s) for s in self.array.strides], kind="stable")
        return np.transpose, (np.ascontiguousarray(self.array.transpose(order)), np.argsort(order))


def as_laid(x: Any) -> Any:
    """Return an array in a form that keeps its layout on the way: sums in another order differ."""
    return Laid(x) if type(x) is np.ndarray and not x.flags.c_contiguous else x


# ── tickets ──────────────────────────────────────────────────────────────────────────────────────────────────────


class SharedFile:
    """Buffers in a new file that other processes map: in shared memory if the system has it as a folder with room."""

    def __init__(self, parts: Sequence) -> None:
        self.sizes = [len(p) for p in parts]
        for folder in ("/dev/shm", tempfile.gettempdir()):
            if not os.path.isdir(folder):
                continue
            file, self.path = tempfile.mkstemp(prefix="dualad-", dir=folder)
            _tracker().register(self.path, "file")
            try:
                with os.fdopen(file, "wb") as out:
                    for part in parts:
                        out.write(part)
                        out.write(bytes(-len(part) % ALIGNED))
            except OSError as error:
                self.delete()
                full = error
                continue
            return
        raise full

    def mapped(self) -> list[np.ndarray]:
        """The buffers, read-only, in another process."""
        starts = accumulate([size + -size % ALIGNED for size in self.sizes], initial=0)
        return [np.memmap(self.path, np.uint8, "r", *part) for part in zip(starts, self.sizes, strict=False)]

    def delete(self) -> None:
        """Delete the file; processes that have mapped it keep what they have."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)
        _tracker().unregister(self.path, "file")


def _tracker() -> Any:
    return importlib.import_module("loky.backend.resource_tracker")


class Ticket:
    """A token that finds a job where a chunk is computed: in a file that processes map, or sent along."""

    def __init__(self, blob: Blob, kind: str) -> None:
        self.token, self.home = uuid.uuid4().hex, os.getpid()
        is_mapped = kind == "processes" and importlib.util.find_spec("loky") is not None
        self.file = SharedFile([blob.main, *blob.buffers]) if is_mapped else None

    def open(self, sent: Blob | None) -> Any:
        """Return the job: kept here from before, mapped from the file, or sent along; ``MISSING`` if it is not here."""
        with _lock:
            if self.token in _jobs:
                _jobs.move_to_end(self.token)
                return _jobs[self.token][1]
        if self.file is not None:
            main, *buffers = self.file.mapped()
            sent = Blob(main, buffers)
        if sent is None:
            return MISSING
        job = sent.open()
        with _lock:
            for token, (file, _) in list(_jobs.items()):
                if file is not None and not os.path.exists(file.path):  # that call has ended
                    del _jobs[token]
            _jobs[self.token] = self.file, job
            while len(_jobs) > _KEPT:
                _jobs.popitem(last=False)
        return job

    def close(self) -> None:
        """Forget the job."""
        if self.file is not None:
            self.file.delete()
        with _lock:
            _jobs.pop(self.token, None)  # an executor may run its tasks here


#: the jobs that this process has been sent, each with the file that it was read from; the last one used last
_jobs: OrderedDict[str, tuple[SharedFile | None, Any]] = OrderedDict()
_lock = new_lock()
