"""`dualad trace`: the linear program, its transpose, and the function's own program."""

from __future__ import annotations

import pytest

from dualad.cli.main import main


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "maps.py"
    path.write_text(
        "import numpy as np\n"
        "def wave(x, k):\n    return np.sin(x) * k\n"
        "def branches(x):\n    return x if x > 0 else -x\n"
        "__dualad__ = {'wave': [(np.array([0.5, 1.0]), 2.0)], 'branches': [(1.0,)]}\n"
    )
    return path


def test_the_linear_program_has_no_sine(path, capsys):
    assert main(["trace", f"{path}:wave"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"# {path}:wave at (float64[2], 2.0)")
    assert "multiply" in out and "sin" not in out.split("\n", 1)[1]


def test_the_functions_own_program_has_one(path, capsys):
    assert main(["trace", f"{path}:wave", "--nonlinear"]) == 0
    assert "sin" in capsys.readouterr().out.split("\n", 1)[1]


def test_the_transposed_program(path, capsys):
    assert main(["trace", f"{path}:wave", "--transpose"]) == 0
    out = capsys.readouterr().out
    assert "multiply" in out and "sum" in out, "the scalar's cotangent is a sum"


@pytest.mark.parametrize("wrt", ["0", "x", "-2"])
def test_only_some_arguments(path, capsys, wrt):
    assert main(["trace", f"{path}:wave", "--transpose", "--wrt", wrt]) == 0
    assert "sum" not in capsys.readouterr().out.split("\n", 1)[1]


def test_what_cannot_be_traced_is_said(path, capsys):
    assert main(["trace", f"{path}:branches"]) == 0
    assert main(["trace", f"{path}:branches", "--nonlinear"]) == 1
    err = capsys.readouterr().err
    assert "branches" in err and "Instead:" in err and "Traceback" not in err


def test_bad_usage(path, capsys):
    assert main(["trace", f"{path}:wave", "--wrt", "omega"]) == 2
    assert "'omega' is none of the point's 2 arguments (x, k)" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["trace", f"{path}:wave", "--transpose", "--nonlinear"])


def test_pictures_in_files(path, tmp_path, capsys):
    dot, svg, html = (tmp_path / "out" / f"p.{kind}" for kind in ("dot", "svg", "html"))
    assert main(["trace", f"{path}:wave", "--dot", str(dot), "--svg", str(svg), "--html", str(html)]) == 0
    assert f"picture: {svg}" in capsys.readouterr().out
    assert dot.read_text().startswith("digraph") and svg.read_text().startswith("<svg")
    assert html.read_text().count("<svg") == 1 and "wave at" not in html.read_text()


def test_one_picture_of_several_programs_is_refused(path, tmp_path, capsys):
    several = ["trace", f"{path}:wave", "--at", "[1.0, 2.0]", "--at", "[2.0, 2.0]"]
    assert main([*several, "--svg", str(tmp_path / "p.svg")]) == 2
    assert "one picture of 2 programs" in capsys.readouterr().err
    assert main([*several, "--html", str(tmp_path / "p.html")]) == 0


@pytest.mark.parametrize("command", [["trace", "--dot"], ["explain", "--json"]])
def test_a_file_that_cannot_be_written_is_said(command, path, capsys):
    assert main([*command, f"{path}/inside", f"{path}:wave"]) == 2
    assert "can't be written" in capsys.readouterr().err
