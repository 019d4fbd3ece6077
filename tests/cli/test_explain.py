"""`dualad explain`: what it prints, as text and JSON, and the exit status for CI. Not for the verdicts themselves."""

from __future__ import annotations

import json

import pytest

from dualad.cli.main import main

FILE = """
import numpy as np

def fine(x):
    return np.sum(np.tanh(x))

def refused(x):
    return float(x[0]) + np.floor(x).sum()

def broken(x):
    return np.reshape(np.sin(x), (2, 2))
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(FILE)
    return path


@pytest.mark.plain
@pytest.mark.parametrize(
    ("name", "options", "status"),
    [
        ("fine", [], 0),
        ("refused", [], 1),
        ("refused", ["--fail-on", "loop"], 0),
        ("refused", ["--fail-on", "drops"], 1),
        ("fine", ["--fail-on", "drops", "--fail-on", "branch"], 0),
        ("broken", [], 1),
        ("missing", [], 2),
    ],
)
def test_exit_status(file, name, options, status, capsys) -> None:
    assert main(["explain", f"{file}:{name}", "--at", "[[1.5, 2.0, 3.0]]", *options]) == status
    printed = capsys.readouterr()
    if status != 2:
        assert f"model.py:{name} at " in printed.out
        assert f"explain: {name}" in printed.out
    if name == "broken":
        assert "stopped at" in printed.out


@pytest.mark.plain
def test_json(file, capsys, tmp_path) -> None:
    assert main(["explain", f"{file}:refused", "--at", "[[1.5, 2.0]]", "--json", "-"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert report["target"].endswith("model.py:refused")
    assert report["ok"] is False
    (line,) = report["lines"]
    assert {use["name"]: use["status"] for use in line["uses"]}["float()"] == "refused"
    target = tmp_path / "report.json"
    assert main(["explain", f"{file}:fine", "--at", "[[1.5, 2.0]]", "--json", str(target)]) == 0
    assert "tanh" in capsys.readouterr().out
    assert json.loads(target.read_text())[0]["ok"] is True
