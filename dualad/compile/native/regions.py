"""Loops that go through the same rows one after the other, as one loop: rows are read again while they are near.

A product with a vector, operations on it, and the product with the transpose pass through a matrix once, a piece
of its rows at a time. Each entry is computed by the same operations as in loops apart. Not for: which loops there are,
and what they compute (``kernels.py``, ``reductions.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from .code import WIDTH, Code
from .equations import Call
from .kernels import Kernel
from .products import Product
from .reductions import Reduction

__all__ = ["join_loops"]


def join_loops(kernels: Sequence[tuple[Kernel, list[Call]]]) -> tuple[list[str], list[Call]]:
    """Return functions that run several loops piece by piece, as text, and the order of their calls.

    ``kernels`` are the loops and their functions, each after those whose results it reads.
    """
    texts: list[str] = []
    calls: list[Call] = []
    run: list[tuple[Kernel, Call]] = []
    for kernel, own in kernels:
        run = _before(kernel, run)
        if run and isinstance(kernel, Reduction) and kernel.stretch:
            name = f"region{len(texts)}"
            texts.append(_region(name, [call for _, (call, _, _) in run], own[0][0], kernel))
            del calls[len(calls) - len(run) :]
            calls += [(name, own[0][1], 1), *own[1:]]
            run = []
            continue
        calls += own
        run = [*run, (kernel, own[0])] if _goes_by_rows(kernel) and len(own) == 1 else []
    return texts, calls


def _goes_by_rows(kernel: Kernel) -> bool:
    """Whether a loop's function computes the rows that it is called for, and no others."""
    if isinstance(kernel, Reduction):
        return kernel.axis != 0 and not kernel.pieces and not kernel.running
    return kernel.whole and not isinstance(kernel, Product) and not kernel.lanes


def _before(kernel: Kernel, run: list[tuple[Kernel, Call]]) -> list[tuple[Kernel, Call]]:
    """Return the last of some loops by rows with which another one can go, row by row."""
    if isinstance(kernel, Reduction) and kernel.stretch:
        if 0 < kernel.shape[0] % kernel.stretch < WIDTH:  # a vector would begin in the piece before
            return []
    elif not _goes_by_rows(kernel):
        return []
    chosen = run if run and run[0][0].shape[0] == kernel.shape[0] else []
    apart = {v for v, index in kernel.loaded if not index or index[0] != (0, 1, 0)}
    while any([not apart.isdisjoint(k.outs) for k, _ in chosen]):
        chosen = chosen[1:]
    return chosen


def _region(name: str, each: Sequence[str], last: str, kernel: Reduction) -> str:
    """Return the function that runs, for some pieces of the rows, first the others and then the last."""
    code = Code()
    with code.each("%from", "%to") as turn:
        low, high = kernel.piece(code, turn)
        for function in each:
            code.effect(f"call void @{function}(ptr %arrays, i64 {low}, i64 {high})")
        code.effect(f"call void @{last}(ptr %arrays, i64 {turn}, i64 {code.new(f'add i64 {turn}, 1')})")
    return code.over_rows(name)
