"""The C library's allocator: memory that has been given back is kept for the next array.

For: ``keep_freed_memory``, called once, at import. Not for: who shares memory with whom (``memory.py``).
"""

from __future__ import annotations

import contextlib

import numpy as np

__all__ = ["keep_freed_memory"]

#: just below the size up to which glibc learns from what is given back
_LARGEST = (32 << 20) - (64 << 10)


def keep_freed_memory() -> None:
    """Let glibc's allocator reuse arrays of up to 32 MB.

    A process that has never given back a large array gets arrays above 128 KB from the kernel one by one, and returns
    them at once: each new array then costs a page fault for each 4 KB, and lanes, which are such arrays made and
    dropped by every operation, run at a third of their speed. glibc raises both thresholds to the size of what is given
    back, so one array that nobody writes to is enough (environment variables ``MALLOC_...`` have the last word). Other
    allocators do nothing for it.
    """
    with contextlib.suppress(MemoryError):  # under a limit of address space
        np.empty(_LARGEST, np.uint8)
