"""How long `import` takes beyond NumPy's own, each time in a fresh interpreter."""

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import Budget, Work

__all__ = ["works"]

ROOT = Path(__file__).parents[1]
PROGRAM = "import time, numpy; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def importing(module):
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        raise ModuleNotFoundError(f"No module named {module!r}")
    command = [sys.executable, "-c", PROGRAM.format(module)]
    return lambda: float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def works(quick):
    modules = {"dualad": "dualad", "autograd": "autograd.numpy", "JAX eager": "jax.numpy", "torch.func": "torch.func"}
    yield Work(
        "import",
        "import, beyond NumPy's",
        {name: functools.partial(importing, module) for name, module in modules.items()},
        budgets=(Budget("≤ 60 ms", "dualad", None, at_most=0.060),),
        self_timed=True,
    )
