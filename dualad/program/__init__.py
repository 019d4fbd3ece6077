"""Programs: what ``trace`` and ``linearize`` write down.

Not for: recording (``staged.py``) or using programs (the transforms).
"""

__all__: list[str] = []
