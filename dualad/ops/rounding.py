"""Rounding: floor, ceil, round, sign and other step functions. Being written. Not for: anything else."""

__all__: list[str] = []
