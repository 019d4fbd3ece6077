"""The foundations: trees, containers, signatures, frames, locks, lazy loading.

Not for: anything that knows what a tensor is.
"""

__all__: list[str] = []
