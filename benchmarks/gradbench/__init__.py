"""A tool for GradBench, the scoreboard of automatic differentiation, and a harness that runs its evaluations here."""
