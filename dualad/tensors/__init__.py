"""Tensors besides ``Dual`` and ``Batched``: those of a program being written, and lazy ones.

Not for: the transforms that make them.
"""

__all__: list[str] = []
