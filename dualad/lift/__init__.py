"""Lifting: ordinary functions run with their NumPy and SciPy pointing at dualad's.

For: code that makes buffers and asks for floats, and that one can't edit. Not for: code that can be edited;
``import dualad.numpy as np`` does it there.
"""

from .lift import lift, lifted

__all__ = ["lift", "lifted"]
