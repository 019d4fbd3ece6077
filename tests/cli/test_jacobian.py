"""`dualad jacobian`: the numbers with their names, the picture, and the PNG."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.cli.main import main


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "maps.py"
    path.write_text(
        "import numpy as np\n"
        "def squares(x, a):\n    return x * x * a\n"
        "def refuses(x):\n    return np.union1d(x, x).sum()\n"
        "__dualad__ = {'squares': [(np.array([1.0, 2.0, 3.0]), 2.0)]}\n"
    )
    return path


def test_the_matrix_with_names_and_the_picture(path, capsys):
    assert main(["jacobian", f"{path}:squares", "--style", "ascii"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:4] == ["outputs: out[3]", "inputs:  x[3], a", "Jacobian 3 x 4 by jacrev, 6 entries not zero, 50.0%"]
    assert lines[4].split() == ["x[0]", "x[1]", "x[2]", "a"]
    assert [line.split() for line in lines[5:8]] == [
        ["out[0]", "4", "0", "0", "1"],
        ["out[1]", "0", "8", "0", "4"],
        ["out[2]", "0", "0", "12", "9"],
    ]
    assert lines[8:] == ["+----+", "|#..#|", "|.#.#|", "|..##|", "+----+"]


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_both_modes(path, capsys, mode):
    assert main(["jacobian", f"{path}:squares", "--mode", mode]) == 0
    assert f"by jac{mode}" in capsys.readouterr().out


def test_the_picture_alone(path, capsys):
    assert main(["jacobian", f"{path}:squares", "--spy", "--style", "braille"]) == 0
    out = capsys.readouterr().out
    assert "12" not in out.partition("\n")[2].replace("1, 2", "") and "│" in out


def test_a_large_matrix_is_abbreviated(path, capsys):
    np.save(path.parent / "x.npy", np.linspace(1, 2, 200))
    np.savez(path.parent / "p.npz", x=np.linspace(1, 2, 200), a=2.0)
    assert main(["jacobian", f"{path}:squares", "--at", str(path.parent / "p.npz")]) == 0
    out = capsys.readouterr().out
    assert "Jacobian 200 x 201" in out and "..." in out and len(out.splitlines()) < 100


def test_the_entries_of_a_sparse_one(path, capsys):
    assert main(["jacobian", f"{path}:squares", "--sparse", "--style", "ascii"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3] == "sparsity 3 x 4, 6 entries (50.0%), global" and "products" in lines[4]
    assert [line.split() for line in lines[6:12]] == [
        ["out[0]", "x[0]", "4"], ["out[0]", "a", "1"], ["out[1]", "x[1]", "8"], ["out[1]", "a", "4"],
        ["out[2]", "x[2]", "12"], ["out[2]", "a", "9"],
    ]  # fmt: skip
    assert lines[12:] == ["+----+", "|#..#|", "|.#.#|", "|..##|", "+----+"]
    assert main(["jacobian", f"{path}:squares", "--sparse", "--png", "x.png"]) == 2
    np.savez(path.parent / "p.npz", x=np.ones(100_000), a=2.0)
    assert main(["jacobian", f"{path}:squares", "--sparse", "--at", str(path.parent / "p.npz")]) == 0
    out = capsys.readouterr().out
    assert "100000 x 100001, 200000 entries" in out and "... and 199960 more" in out
    assert main(["jacobian", f"{path}:refuses", "--sparse", "--at", "[1.0]"]) == 1


def test_a_png(path, capsys):
    pytest.importorskip("matplotlib")
    picture = path.parent / "new" / "j.png"
    assert main(["jacobian", f"{path}:squares", "--png", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG") and str(picture) in capsys.readouterr().out


def test_a_png_that_cannot_be_written_is_said(path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["jacobian", f"{path}:squares", "--png", f"{path}/inside.png"]) == 2
    assert "can't be written" in capsys.readouterr().err


@pytest.mark.plain
def test_a_function_that_dualad_refuses_exits_1_with_words(path, capsys):
    assert main(["jacobian", f"{path}:refuses", "--at", "[1.5]"]) == 1
    err = capsys.readouterr().err
    assert "refuses" in err and "Instead:" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{path}:squares", "--at", "[[1.0], 1.0]", "--at", "[[2.0], 1.0]", "--png", "{path}.png"], "one picture of 2"),
        (["{path}:missing"], "no such name"),
        (["{path}:refuses"], "no point"),
    ],
)
def test_bad_usage(path, capsys, arguments, message):
    pytest.importorskip("matplotlib")
    assert main(["jacobian", *(word.format(path=path) for word in arguments)]) == 2
    assert message in capsys.readouterr().err


def test_png_without_matplotlib(path, capsys, monkeypatch):
    from dualad.cli import jacobian

    monkeypatch.setattr(jacobian, "has_matplotlib", lambda: False)
    assert main(["jacobian", f"{path}:squares", "--png", "x.png"]) == 2
    assert "dualad[viz]" in capsys.readouterr().err
