"""Contractions. Being written. Not for: anything else."""

__all__: list[str] = []
