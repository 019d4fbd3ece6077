"""The models of posteriordb in plain NumPy: ``python -m benchmarks.posteriordb CLONE [names]``, of a clone of it."""
