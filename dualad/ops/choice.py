"""Choice: comparisons, predicates, where, maximum and minimum, clip. Being written. Not for: anything else."""

__all__: list[str] = []
