"""Derivatives made of transforms alone: Jacobians, Hessians, directional derivatives.

Not for: rules.
"""

__all__: list[str] = []
