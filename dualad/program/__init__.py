"""Programs: what ``trace`` and ``linearize`` write down.

Not for: deciding what is recorded (``staged.py``) or what is done with it (the transforms).
"""

__all__: list[str] = []
