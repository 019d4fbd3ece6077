"""Adversaries: generators of programs that look for a difference between compiled code and plain NumPy.

    python -m tests.adversaries                                   # the kinds, and how many a night runs
    python -m tests.adversaries inplace --count 1000 --seed 0     # counts, and the smallest program of each difference
    python -m tests.adversaries inplace --seed 417 --count 1      # one program again
    python -m tests.adversaries all --count 200 --seconds 120     # every kind, at most two minutes each
    python -m tests.adversaries faults                            # what was broken on purpose, and what caught it

A *kind* is a module of this folder with a function ``case(seed) -> Case`` and a line in ``KINDS``. A ``Case`` is the
text of a program that can be pasted into a file, a ``check`` that raises ``Difference`` (any other exception counts as
one too) where compiled code and eager code are not the same, and, if it can, the cases that are a little ``smaller``.
``compare.source_case`` makes one from text that defines ``f`` and ``args``, which is all that most kinds need. The
runner gives every program a time limit in a process of its own, so that a crash or a hang is a difference with a seed
like any other. The gate runs ``test_adversaries.py``: a slice of each kind; ``--full`` runs what ``NIGHTLY`` says.

For: finding what nobody thought of. Not for: the cases that were found (a test beside the code that was wrong).
"""

from .cases import KINDS, NIGHTLY, Case, Difference, Report, programs, run, shrunk

__all__ = ["KINDS", "NIGHTLY", "Case", "Difference", "Report", "programs", "run", "shrunk"]
