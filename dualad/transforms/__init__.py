"""The transforms behind the verbs: tracing, linearization, the walk backwards and its zeros.

Not for: ``jvp``, ``vmap`` and ``vjp``, which stand at the top.
"""

__all__: list[str] = []
