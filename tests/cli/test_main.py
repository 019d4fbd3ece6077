"""The door of the command line: version, help, both ways to start it."""

from __future__ import annotations

import os
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


def test_pipes_that_close_and_terminals_that_lack_characters(tmp_path):
    """`dualad ops | head -1` is quiet, and ASCII output has question marks instead of a traceback."""
    path = tmp_path / "datei_é.py"
    path.write_text("def f(x):\n    return x * x\n__dualad__ = {'f': [(0.5,)]}\n", encoding="utf-8")
    calls = f"main(['check', {str(path)!r}, '--list']) or main(['ops'])"
    code = f"import sys; from dualad.cli.main import main; sys.exit({calls})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    first = process.stdout.readline()
    process.stdout.close()
    assert b"datei_?.py:f  (1 point)" in first
    assert process.stderr.read() == b"" and process.wait() == 141
    process.stderr.close()


def test_an_interrupt_is_quiet(capsys, monkeypatch):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr("dualad.cli.ops.run", interrupted)
    assert main(["ops"]) == 130 and capsys.readouterr().err == "interrupted\n"


def test_what_was_meant(capsys):
    for arguments, hint in ((["chekc"], "did you mean 'check'?"), (["check", "f", "--oracle", "jaxx"], "mean 'jax'?")):
        with pytest.raises(SystemExit):
            main(arguments)
        assert hint in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0 and capsys.readouterr().out.startswith("dualad ")


@pytest.mark.parametrize("command", [[], ["check"], ["jacobian"], ["trace"], ["ops"]])
def test_help(capsys, command):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0 and "usage: dualad" in out and "examples:" in out


def test_help_shows_how_to_declare_points(capsys):
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    assert "__dualad__ = {" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["chekc"], ["check"], ["jacobian"]])
def test_bad_usage_exits_2(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2 and "usage:" in capsys.readouterr().err
