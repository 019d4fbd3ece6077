"""How long `import` takes beyond NumPy's own, each time in a fresh interpreter.

The design's bound of 60 ms was set where NumPy itself takes 70 ms to import; a slower machine is slower for both, so
the ratio is judged too. Modules are compiled by the first import, which isn't counted, as an installer would do.
"""

import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import Budget, Work

__all__ = ["works"]

ROOT = Path(__file__).parents[1]
PROGRAM = "import time{}; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def importing(module, after):
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise ModuleNotFoundError(f"No module named {module!r}")
    command = [sys.executable, "-c", PROGRAM.format(after, module)]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return lambda: float(
        subprocess.run(command, cwd=ROOT, env=variables, check=True, capture_output=True, text=True).stdout
    )


def works(quick):
    modules = {"dualad": "dualad", "autograd": "autograd.numpy", "JAX eager": "jax.numpy", "torch.func": "torch.func"}
    yield Work(
        "import",
        "import, beyond NumPy's (the column of NumPy: its own)",
        {
            **{name: functools.partial(importing, module, ", numpy") for name, module in modules.items()},
            "NumPy primal": functools.partial(importing, "numpy", ""),
        },
        budgets=(
            Budget("≤ 60 ms", "dualad", None, at_most=0.060),
            Budget("≤ 60/70 of NumPy's own import", "dualad", "NumPy primal", at_most=60 / 70),
        ),
        self_timed=True,
    )
