"""The benchmarks: how fast dualad is beside its peers, as ratios measured in one run. Not tests, not installed."""
