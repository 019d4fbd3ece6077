"""Writes, views and aliases: what tensors share, and what NumPy's memory would show of it.

Not for: tracers, which are immutable.
"""

__all__: list[str] = []
