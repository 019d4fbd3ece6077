"""Captures: a function's reads besides its arguments, recorded so that a later call can tell whether they still hold.

For: code and patterns that are kept (``compile/``, ``sparse/``). Not for: the arguments themselves, which are a
signature (``compile/signature.py``).
"""
