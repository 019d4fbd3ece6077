"""Other libraries' names, so that code written for them runs with this one.

For: ``dualad.compat.autograd``. Not for: anything that a user of plain NumPy needs.
"""

__all__: list[str] = []
