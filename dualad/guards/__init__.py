"""What a function read besides its arguments, recorded so that a later call can tell whether it still holds.

For: code and patterns that are kept (``compile/``, ``sparse/``). Not for: the arguments themselves, which are a
signature (``compile/signature.py``).
"""
