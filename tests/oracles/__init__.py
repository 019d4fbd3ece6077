"""Oracles: what the tests compare with, sharing nothing with the rules under test.

Central differences (`differences`), Python loops (`loops`), JAX (`jax_side`), and the checks of one operator made of
them (`op_values`, `op_derivatives`, `op_batching`). Not for: tests themselves.
"""
