"""Control flow that stays in programs: branches, loops, scans, and solutions of equations.

For: operators whose parameters are programs. Not for: Python's own ``if`` and ``while``, which every transform runs.
"""
