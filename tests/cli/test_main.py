"""The door of the command line: version, help, both ways to start it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dualad.cli.main import main


def test_python_dash_m_runs_a_check(tmp_path):
    path = tmp_path / "file.py"
    path.write_text("import numpy as np\ndef f(x):\n    return np.sin(x) * x\n__dualad__ = {'f': [(0.5,)]}\n")
    done = subprocess.run(
        [sys.executable, "-m", "dualad", "check", str(path), "--oracle", "differences", "--oracle", "loop"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "9 ok" in done.stdout and done.stderr == ""


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0 and capsys.readouterr().out.startswith("dualad ")


@pytest.mark.parametrize("command", [[], ["check"], ["jacobian"], ["trace"], ["ops"]])
def test_help(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0 and "usage: dualad" in capsys.readouterr().out


def test_help_shows_how_to_declare_points(capsys):
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert "__dualad__ = {" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["chekc"], ["check"], ["jacobian"]])
def test_bad_usage_exits_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2 and "usage:" in capsys.readouterr().err
