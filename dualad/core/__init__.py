"""The ground floor of the engine: avals, operators, levels, dispatch, and the empty tables higher floors fill.

Not for: any rule of any operator, any knowledge of Dual, Batched or Staged tensors.
"""

__all__: list[str] = []
