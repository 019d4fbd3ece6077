"""Functions with rules of their own: custom derivatives, hooks, wrapped foreign code, checkpoints.

For: what a user declares about a function, and the operators that carry it through every transform. Not for: the rules
of NumPy's own operators (``ops/``).
"""
