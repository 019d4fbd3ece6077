"""The C library's allocator: memory that has been given back is kept for the next array.

For: ``keep_freed_memory``, which a program calls where it wants that. Not for: who shares memory with whom
(``memory.py``).
"""

from __future__ import annotations

import contextlib

import numpy as np

__all__ = ["keep_freed_memory"]

#: just below the size up to which glibc learns from blocks given back
_LARGEST = (32 << 20) - (64 << 10)


def keep_freed_memory() -> None:
    """Let glibc's allocator reuse the memory of arrays of up to 32 MB, in this process, from now on.

    A process that has never given back a large array gets arrays above 128 KB from the kernel one by one, and returns
    them at once: each new array then costs a page fault for each 4 KB. Batched code, which makes and drops such arrays
    in every operation, can take several times as long. glibc raises both thresholds to the size of blocks given back,
    so one array that nobody writes to is enough. The process keeps up to twice 32 MB that it would have returned.

    Notes
    -----
    Environment variables ``MALLOC_...`` have the last word. Other allocators (macOS, Windows, musl, jemalloc) are left
    as they are. ``import dualad`` does not call this. A pool of processes does with
    ``ProcessPoolExecutor(initializer=da.keep_freed_memory)``.

    Examples
    --------
    >>> da.keep_freed_memory()
    >>> da.jacfwd(np.sin)(np.zeros(300)).shape
    (300, 300)
    """
    with contextlib.suppress(MemoryError):  # under a limit of address space
        np.empty(_LARGEST, np.uint8)
