"""`dualad migrate`: a diff unless it is told to write, and an exit status that says whether something is left."""

from __future__ import annotations

import pytest

from dualad.cli.main import main

OLD = "import autograd.numpy as np\nfrom autograd import grad\n\ng = grad(np.sin)\n"
NEW = "import numpy as np\nfrom dualad import grad\n\ng = grad(np.sin)\n"


def test_a_diff_is_printed_and_nothing_is_written(tmp_path, capsys):
    file = tmp_path / "model.py"
    file.write_text(OLD)
    assert main(["migrate", "autograd", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "-import autograd.numpy as np\n" in out and "+from dualad import grad\n" in out
    assert "1 file would change (--write), 0 places to decide" in err
    assert file.read_text() == OLD


def test_folders_are_written_when_it_is_asked_for(tmp_path, capsys):
    inside = tmp_path / "package"
    inside.mkdir()
    (inside / "a.py").write_text(OLD)
    (inside / "b.py").write_text("x = 1\n")
    (inside / "c.txt").write_text(OLD)
    assert main(["migrate", "autograd", str(tmp_path), "--write"]) == 0
    assert (inside / "a.py").read_text() == NEW and (inside / "c.txt").read_text() == OLD
    assert "1 file changed" in capsys.readouterr().err
    names: dict = {}
    exec((inside / "a.py").read_text(), names)
    assert names["g"](0.0) == 1.0
    assert main(["migrate", "autograd", str(tmp_path), "--write"]) == 0
    assert "0 files changed" in capsys.readouterr().err


def test_what_is_left_is_named_and_is_the_exit_status(tmp_path, capsys):
    file = tmp_path / "model.py"
    file.write_text("import jax\n\nkey = jax.random.PRNGKey(0)")
    assert main(["migrate", "jax", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "No newline at end of file" in out and f"{file}:3: jax.random" in err


@pytest.mark.parametrize("content", [None, b"def f(:\n", b"\xff\xfe"])
def test_what_is_no_program_is_refused(tmp_path, capsys, content):
    file = tmp_path / "model.py"
    if content is not None:
        file.write_bytes(content)
    assert main(["migrate", "jax", str(file)]) == 2
    assert "You asked to migrate" in capsys.readouterr().err
