"""Diagnosis: where a derivative is lost, where a NaN begins, what a function will meet, what its Jacobian looks like.

For: observation only. Not for: checking numbers against oracles (``testing/``).
"""
