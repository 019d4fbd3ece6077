"""The rows of ``python -m benchmarks`` as asv times them, to keep a history: dualad's own columns, no peers.

asv installs each revision and runs this file of the present one. Only the folder ``benchmarks`` is imported from here:
with the repository's root on the path, its ``dualad`` would be measured in place of the installed one.
"""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]

if "benchmarks" not in sys.modules:
    spec = importlib.util.spec_from_file_location("benchmarks", FOLDER / "__init__.py")
    sys.modules["benchmarks"] = package = importlib.util.module_from_spec(spec)
    package.__path__ = [str(FOLDER)]

from benchmarks import chains, compiled, large, models, optima, orders, sparse, trajectories  # noqa: E402

WORKS = {
    f"{work.name}: {name}": work.contenders[name]
    for room in (chains, models, large, sparse, compiled, optima, trajectories, orders)
    for work in room.works(quick=True)
    for name in work.contenders
    if name.startswith("dualad")
}


class Rows:
    """Seconds of a call, after the first."""

    params = sorted(WORKS)
    param_names = ("row",)
    timeout = 120.0

    def setup(self, row):
        """Build the row's callable, and let it compile."""
        self.call = WORKS[row]()
        self.call()

    def time_call(self, row):
        """Time one call."""
        self.call()
