"""Several processes: the order of the results, and a process that dies."""

from __future__ import annotations

import json

import pytest

from dualad.cli.main import main

SOURCE = """
import os
import time

import numpy as np

def slow(x):
    time.sleep(0.05)
    return np.sin(x)

def dies(x):
    return x if type(x) is np.ndarray and os.getpid() == MADE else os._exit(7)

def quick(x):
    return x * x

MADE = os.getpid()
__dualad__ = {
    "slow": [(np.array([0.5]),)], "dies": [(np.array([1.0]),)], "quick": [(np.array([k + 1.0]),) for k in range(3)]
}
"""


@pytest.mark.slow
def test_a_crash_costs_one_task_and_the_order_is_that_of_the_tasks(tmp_path, capsys):
    path = tmp_path / "several.py"
    path.write_text(SOURCE)
    assert (
        main(["check", str(path), "--workers", "2", "--json", "-", "--oracle", "differences", "--oracle", "loop"]) == 1
    )
    data = json.loads(capsys.readouterr().out)
    found = [(r["target"].rpartition(":")[2], r["point"].split(" (")[0], r["ok"]) for r in data["reports"]]
    assert found == [
        ("slow", "point 1", True),
        ("dies", "point 1", False),
        ("quick", "point 1", True),
        ("quick", "point 2", True),
        ("quick", "point 3", True),
    ]
    (row,) = data["reports"][1]["rows"]
    assert row["status"] == "error" and "exit status 7" in row["message"]
