"""The border to the user's Python: its errors, second runs, random numbers, other libraries.

Not for: rules or levels.
"""

__all__: list[str] = []
