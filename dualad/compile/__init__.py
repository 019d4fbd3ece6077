"""Compiling: a function's program, simplified and written as code that runs without dualad between its operations.

For: ``dualad.jit`` (``jit.py``) and what it is made of. Not for: differentiation; a program is compiled after the
transforms have written it.
"""
